"""Requests whose answer is known beforehand, and what came back: the right completion for each, of the right length,
with the right end, text and log-probabilities.

An answer is forced by ``allowed_token_ids`` together with a bias. Records: ``tokenizer`` (whether there is one),
``rows`` (one for each completion that was expected, in the order of the requests: ``about``, what it shows, ``asked``,
that parameter's value, ``drawn``, False for a greedy one, ``expected`` and ``got`` with those of ``token_ids``,
``finish_reason``, ``stop_reason``, ``text``, ``index`` (of the completion that stands there), ``prompt`` (whether it is
the request's) and ``finished`` that are known; ``got`` is None where nothing came), ``surplus`` (outputs that nobody
had asked for), ``sums`` (of completions whose ``cumulative_logprob`` is not the sum of those of its tokens, both),
``logprobs`` (one row for each token that was sampled, or that is of a prompt: ``told``, whether its log-probability is
there, ``first``, whether it stands before the others, ``rank`` as the engine says, ``place`` by its log-probability
among the likeliest tokens that come with it, None beyond them, ``alike``, how many of them have the same one,
``least``, whether none that comes with it is less likely, so that others may have the same one that do not come,
``tops``, how many they are, ``misplaced``, how many of the others are told another rank than their log-probability has
among them, ``lacking``, how many of the likeliest did not come, ``greedy``; of forced tokens only ``told``; a greedy
token that comes alone has those ``alike`` that stood beside it when it was asked for with others, and no ``rank`` where
that does not say how many they are), ``longer`` (completions that come with log-probabilities of more tokens than they
have), ``no_grammars`` (why there are no rows of grammars), ``reach``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import product
from typing import Any, NamedTuple

from plain_tokens import EVEN, joined, plain_tokens, space_tokens, special_tokens, tokenizer_of
from running_engine import UNSTEERABLE, RunningEngine, logprobs

# Beyond any logit of a model; the most that vLLM takes.
BIAS = 100.0
ORDERED = "the order of answers"
ORDER, LEAST, MOST = 6, 3, 6
# A number of tokens beyond those that a bound, or a small integer, may hold.
FAR = 40
LONGEST_TEXT, TEXTS = 48, 4
# Of so many stops four completions seldom draw the same one.
STOPS = 16
# Strings that no text of two letters has.
NEVER = ("#!", "?+", "~&")
# Tokens of a long prompt, which engines and tokenizers may cut.
LONG = 1024
# What an answer without a length has left of the context, which is not one of a long model run as it is.
ROOM, MOST_CONTEXT = 24, 4 * LONG
# Several completions of a request, which a greedy one may not ask for: the bias leaves nothing to draw.
SIBLINGS = {"n": 2, "temperature": 1.0}
# As many of the likeliest tokens as an engine gives by default, by turns with others.
TOPS, MOST_TOPS, GREEDY, GREEDY_TOKENS = 5, 20, 8, 32
# Within so many nats tokens may change places, or become one another's equals, from one batch to the next: more than a
# step between two logits of bfloat16 (an eighth up to 32), of which a miniature on an H200 had five ties in 256 tokens.
CLOSE = 0.5
# Completions of an answer that comes piece by piece.
STREAMS = 2
# Tokens of two kinds among which a stop of two of them is nearly always.
STOPS_BEFORE = 8
# What a grammar is called, by release: vLLM 0.11 and later, and the ones before.
GRAMMARS = (("structured_outputs", "StructuredOutputsParams"), ("guided_decoding", "GuidedDecodingParams"))
CHOICES = ("forty-two", "nothing of the kind")
# By what part a sum may differ from that of its terms.
ROUNDED = 1e-3
# What stands for bytes that are no character.
SIGN = "\ufffd"
# Characters of two, three and four bytes, of which a tokenizer has one of each at least in parts. Of the last kind
# those come more often by chance that have a byte twice.
CHARACTERS = ("\u00e9", "\u4e2d", "\u16a0", "\U00012000", "\U0001f600")


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    tokenizer = tokenizer_of(running)
    running.record("tokenizer", tokenizer is not None)
    rows: list[dict[str, Any]] = []
    places: list[dict[str, Any]] = []
    sums: list[list[float]] = []
    if running.steerable:
        rows, surplus, places, sums = _forced(running, _requests(running, tokenizer))
        running.record("surplus", surplus)
        running.record("rows", rows)
    else:
        running.record("unread", dict.fromkeys(("rows", "surplus"), UNSTEERABLE))
    if tokenizer is not None:
        rows += _texts(running, tokenizer)
        running.record("rows", rows)
        streamed, summed = _streamed(running, tokenizer)
        rows, sums = rows + streamed, sums + summed
        running.record("rows", rows)
        rows += _grammar(running, tokenizer)
        running.record("rows", rows)
    drawn, others, longer = _logprobs(running)
    places, sums = places + drawn, sums + others
    running.record("longer", longer)
    running.record("sums", sums)
    running.record("logprobs", places)
    running.record("reach", {"requests": len(rows), "sampled_tokens": len(places)})


def _requests(running: RunningEngine, tokenizer: Any) -> list[dict[str, Any]]:
    """What is asked, what is to come back, and what it is about."""
    ordinary = [token for token in running.prompt(64, salt=9) if token < running.vocabulary]
    tokens = list(dict.fromkeys(ordinary))[: ORDER + 2]
    end = getattr(tokenizer, "eos_token_id", None)
    requests = [
        # The later ones end first.
        _request(
            "the order of answers", number, token, {"max_tokens": 2 * ORDER - number}, [token] * (2 * ORDER - number)
        )
        for number, token in enumerate(tokens[:ORDER])
    ]
    one, other = tokens[ORDER:] if len(tokens) == ORDER + 2 else (tokens[0], tokens[-1])
    requests += [
        _request("n", 3, one, {**SIBLINGS, "n": 3, "max_tokens": 2}, [one, one]),
        _request("max_tokens", 1, one, {"max_tokens": 1}, [one]),
        _request("stop_token_ids", one, one, {"stop_token_ids": [one], "max_tokens": MOST}, [one], "stop", one),
        # The last token that may come stops as others do.
        _request("stop_token_ids", one, one, {"stop_token_ids": [one], "max_tokens": 1}, [one], "stop", one),
        # An id of 0 is a token as others are.
        _request("stop_token_ids", 0, 0, {"stop_token_ids": [0], "max_tokens": MOST}, [0], "stop"),
        # Of three stop tokens the one in the middle comes.
        _request(
            "stop_token_ids",
            [other, one, tokens[0]],
            one,
            {"stop_token_ids": [other, one, tokens[0]], "max_tokens": MOST, **SIBLINGS},
            [one],
            "stop",
            one,
        ),
    ]
    # Where V0 ends an answer without a length has not been tried.
    if running.generation != "V0" and 2 * ROOM < running.limit <= MOST_CONTEXT:
        without = _request("max_tokens", None, one, {"max_tokens": None}, [one] * ROOM)
        requests.append({**without, "prompt": running.limit - ROOM})
    leasts = (LEAST, FAR) if running.limit >= 4 * FAR else (LEAST,)
    # The prompt ends with the stop token, as a chat template may have it: that does not stop the answer.
    for count in leasts:
        requests.append({**_held_back(count, one, other, stop_token_ids=[one], **SIBLINGS), "behind": one})
    if isinstance(end, int) and end < running.vocabulary:
        requests.append(_request("ignore_eos", True, end, {"max_tokens": LEAST}, [end] * LEAST))
        for count in leasts:
            ended = _held_back(count, end, other, ignore_eos=False)
            # An end of its own is no stop that somebody asked for.
            requests.append({**ended, "expected": {**ended["expected"], "stop_reason": None}})
    return requests


def _request(
    about: str,
    asked: Any,
    token: int,
    given: Mapping[str, Any],
    expected: list[int],
    finish: str = "length",
    reason: int | None = None,
) -> dict[str, Any]:
    """A request that can only be answered by one token; ``reason`` is the one at which it stops, where that is told."""
    forced = {"temperature": 0.0, "ignore_eos": True, "allowed_token_ids": [token], "logit_bias": {token: BIAS}}
    # One for each token, of the prompt that was computed and of the answer.
    forced.update(prompt_logprobs=1, logprobs=0)
    answer: dict[str, Any] = {"token_ids": expected, "finish_reason": finish}
    if reason is not None:
        answer["stop_reason"] = reason
    return {"about": about, "asked": asked, "parameters": {**forced, **given}, "expected": answer}


def _held_back(count: int, end: int, other: int, **given: Any) -> dict[str, Any]:
    """A request whose end is as likely as can be from the first token on, and may not come before so many others."""
    given.update(allowed_token_ids=[end, other], min_tokens=count, max_tokens=count + LEAST)
    return _request("min_tokens", count, end, given, [other] * count + [end], "stop")


def _forced(
    running: RunningEngine, requests: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], int, list[dict[str, Any]], list[list[float]]]:
    """One batch of them all; a prompt of its own for each, the first one long. Returns the rows, how many outputs are
    too many, whether each token came with its log-probability, as those do that end an answer, and sums that are not
    their tokens', which have those of a prompt beside them."""
    from vllm import SamplingParams

    lengths = [request.get("prompt", 16 + number) for number, request in enumerate(requests)]
    prompts = [running.prompt(length, salt=31 + number) for number, length in enumerate(lengths)]
    prompts[0] = running.prompt(max(min(running.limit - 2 * ORDER, LONG), 1), salt=31)
    for request, prompt in zip(requests, prompts):  # noqa: B905 - Python 3.9
        prompt[-1] = request.get("behind", prompt[-1])
    asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
    outputs = running.engine.generate(asked, [SamplingParams(**r["parameters"]) for r in requests], use_tqdm=False)
    rows, places, sums = [], [], []
    for number, (request, prompt) in enumerate(zip(requests, prompts)):  # noqa: B905 - Python 3.9
        output = outputs[number] if number < len(outputs) else None
        same = output is not None and _is_to(output, prompt)
        for index in range(request["parameters"].get("n", 1)):
            got = None
            if output is not None and index < len(output.outputs):
                completion = output.outputs[index]
                got = {
                    **{name: getattr(completion, name) for name in request["expected"]},
                    "token_ids": list(completion.token_ids),
                    "index": completion.index,
                    "prompt": same,
                    "finished": getattr(output, "finished", True),
                }
                places += [{"greedy": False, **_place({}, 0, 1), "told": v is not None} for v in logprobs(completion)]
                sums += _wrong_sum(completion)
            row = {key: request[key] for key in ("about", "asked")}
            row["drawn"] = request["parameters"]["temperature"] > 0
            whole = {**request["expected"], "index": index, "prompt": True, "finished": True}
            rows.append({**row, "expected": whole, "got": got})
    return rows, max(len(outputs) - len(requests), 0), places, sums


def _is_to(output: Any, prompt: Sequence[int]) -> bool:
    """Whether an output names this prompt, and as many of its tokens were computed."""
    told, scored = output.prompt_token_ids, output.prompt_logprobs
    return (told is None or list(told) == list(prompt)) and (scored is None or len(scored) == len(prompt))


def _texts(running: RunningEngine, tokenizer: Any) -> list[dict[str, Any]]:
    """Text of sampled tokens, where a stop string ends it and where special tokens are left out. What is expected
    follows from the completion's own tokens, so that it does not matter which are drawn."""
    plain = plain_tokens(running, tokenizer)
    special = sorted(token for token in special_tokens(tokenizer) if token < running.vocabulary)
    in_parts: dict[int, list[int]] = {}
    for character in CHARACTERS:
        if (parts := _parts(tokenizer, character)) and max(parts) < running.vocabulary:
            in_parts.setdefault(len(character.encode()), parts)
    rows = []
    pairs = [p for p in zip(plain, plain[2:]) if p[0] != p[1] and joined(tokenizer, p)]  # noqa: B905
    pair = next((p for p in pairs if str(tokenizer.decode(list(p))).isalpha()), pairs[0] if pairs else None)
    if pair:
        stop = str(tokenizer.decode(list(pair)))
        for included in (False, True):
            given = {"stop": [stop], "include_stop_str_in_output": included, "max_tokens": LONGEST_TEXT}
            about = "include_stop_str_in_output" if included else "stop"
            for got in _drawn(running, list(pair), given):
                rows.append(
                    _text_row(about, stop, got, _until(tokenizer, got.token_ids, [stop], included, LONGEST_TEXT))
                )
        # Releases differ in whether the token that makes up the least number may end it.
        text = str(tokenizer.decode([pair[0]]))
        given = {"stop": [text], "min_tokens": LEAST, "max_tokens": 2 * LEAST}
        for answer in _drawn(running, [pair[0]], given):
            count = min(max(len(answer.token_ids), LEAST), LEAST + 1)
            stopped = {"token_ids": [pair[0]] * count, "finish_reason": "stop"}
            rows.append({"about": "min_tokens", "asked": LEAST, "expected": stopped, "got": _ended(answer)})
        given = {"stop": [stop], "min_tokens": STOPS_BEFORE, "max_tokens": LONGEST_TEXT}
        for got in _drawn(running, list(pair), given):
            held = _held_to(tokenizer, got.token_ids, stop, STOPS_BEFORE)
            rows.append({"about": "min_tokens", "asked": STOPS_BEFORE, "expected": _ended(held), "got": _ended(got)})
        for allowed, strings in _stops(tokenizer, plain, pair):
            for got in _drawn(running, allowed, {"stop": strings, "max_tokens": LONGEST_TEXT}):
                rows.append(
                    _text_row("stop", strings, got, _until(tokenizer, got.token_ids, strings, False, LONGEST_TEXT))
                )
        other = pair[1]
        for included in (False, True):
            own: dict[str, Any] = {
                "stop_token_ids": [other],
                "include_stop_str_in_output": included,
                "max_tokens": LONGEST_TEXT,
            }
            about = "include_stop_str_in_output" if included else "stop_token_ids"
            for got in _drawn(running, list(pair), own):
                rows.append(_text_row(about, other, got, _until_token(tokenizer, got.token_ids, other, included)))
    rows += _own_stops(running, tokenizer, [token for token in plain if len(tokenizer.decode([token])) == 1][:STOPS])
    if plain and special:
        content = str(tokenizer.decode(special[:1], skip_special_tokens=False))
        for skipped in (True, False):
            given = {"skip_special_tokens": skipped, "ignore_eos": True, "max_tokens": LONGEST_TEXT}
            for got in _drawn(running, [plain[0], special[0]], given):
                # What stands between them differs from one tokenizer to the next.
                whole = "" if skipped else content * got.token_ids.count(special[0])
                rows.append(_counted("skip_special_tokens", skipped, got, content, whole))
        # Where they are shown, the text of one stops as any other does: that of a turn's end, above all.
        shown = {"skip_special_tokens": False, "stop": [content], "ignore_eos": True, "max_tokens": LONGEST_TEXT}
        for got in _drawn(running, [plain[0], special[0]], shown):
            count = got.token_ids.index(special[0]) + 1 if special[0] in got.token_ids else 0
            ended = Answer(got.token_ids[:count], "stop", "", content)
            whole_answer = ended if count else _whole(tokenizer, got.token_ids, LONGEST_TEXT)
            rows.append(_text_row("stop", content, got._replace(text=""), whole_answer._replace(text="")))
    for parts in in_parts.values():
        character = str(tokenizer.decode(parts))
        length = LONGEST_TEXT * max(len(parts) // 2, 1)
        for got in _drawn(running, parts, {"ignore_eos": True, "max_tokens": length}):
            # Where the parts do not meet, signs of their own stand for them, and not in the same way everywhere.
            whole = character * str(tokenizer.decode(got.token_ids)).count(character)
            rows.append(_counted("characters of several tokens", character, got, character, whole))
        for got in _drawn(running, parts, {"stop": [character], "max_tokens": length}):
            told = _until(tokenizer, got.token_ids, [character], False, length)
            rows.append({"about": "stop", "asked": character, "expected": _ended(told), "got": _ended(got)})
        rows += _broken(running, tokenizer, plain, parts[0], length)
    return rows


def _broken(
    running: RunningEngine, tokenizer: Any, plain: Sequence[int], part: int, length: int
) -> list[dict[str, Any]]:
    """Texts of a letter and the beginning of a character that never ends: a sign stands in its place, which says that
    something was there. How many stand for several, and whether one ends a text, is not the same everywhere."""
    if not plain or _signs(str(tokenizer.decode([plain[0], part, plain[0]]))) != 1:
        return []
    rows = []
    for got in _drawn(running, [plain[0], part], {"ignore_eos": True, "max_tokens": length}):
        signs = SIGN * _signs(str(tokenizer.decode(got.token_ids)))
        told = got._replace(text=SIGN * _signs(got.text))
        rows.append(_text_row("characters of several tokens", SIGN, told, Answer(got.token_ids, "length", signs)))
    return rows


def _signs(text: str) -> int:
    """How often, before the end, one or several such signs stand."""
    return len(re.findall(f"{SIGN}+(?=[^{SIGN}])", text))


def _stops(tokenizer: Any, plain: list[int], pair: Sequence[int]) -> list[tuple[list[int], list[str]]]:
    """The tokens that may come, and stop strings of every kind."""
    one, other = pair
    stop = str(tokenizer.decode(list(pair)))
    # Of three the one in the middle comes; one of the other case never does.
    before, behind = ([text for text in NEVER if text not in stop] * 2)[:2]
    stops = [([one, other], [before, stop, behind])]
    if stop != stop.swapcase():
        stops.append(([one, other], [stop.swapcase()]))
    # Of two that end together the first one that is named stops.
    stops += [
        ([one, other], [str(tokenizer.decode(both)), str(tokenizer.decode(both[1:]))])
        for both in ([one, other], [other, one])
    ]
    # Longer than what was decoded last, however far one looks back.
    for tokens in ([one, other, one], [one, other, other, one, other]):
        text = joined(tokenizer, tokens)
        stops += [([one, other], [text])] if text else []
    # Of white space alone.
    stops += [([one, space], [2 * text]) for space, text in _decoded(tokenizer, space_tokens(tokenizer, one))]
    # One that begins and ends within a token.
    word = next((token for token in plain if len(tokenizer.decode([token])) >= LEAST), None)
    if word is not None and word not in pair:
        within = str(tokenizer.decode([word]))[1:-1]
        stops.append(([one, word], [within]))
    return stops


def _streamed(running: RunningEngine, tokenizer: Any) -> tuple[list[dict[str, Any]], list[list[float]]]:
    """Answers that come piece by piece, as what is new or as all that there is, one of each with a stop string, of
    whose beginning a piece may not be told before it is known that it is none; and sums that are not those of the
    pieces' tokens."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    plain = plain_tokens(running, tokenizer)[:3]
    if len(plain) < 3:
        return [], []
    engine, stop = running.engine.llm_engine, joined(tokenizer, plain)
    usual = {**EVEN, "allowed_token_ids": plain, "max_tokens": LONGEST_TEXT, "detokenize": True, "logprobs": 0}
    # V0 gives the pieces of a group one after the other's end.
    count = STREAMS if running.generation != "V0" else 1
    got: dict[tuple[str, int], Answer] = {}
    ends: dict[tuple[str, int], list[float | None]] = {}
    asked: dict[str, tuple[str, list[str]]] = {}
    for kind, stops in product(("DELTA", "CUMULATIVE"), ([], *([[stop]] if stop else []))):
        name = f"streamed {kind} {len(stops)}"
        asked[name] = kind, stops
        got.update({(name, index): Answer([], "", "") for index in range(count)})
        parameters = SamplingParams(**usual, n=count, stop=stops, output_kind=RequestOutputKind[kind])
        engine.add_request(name, {"prompt_token_ids": running.prompt(16, salt=3)}, parameters)
    told: dict[tuple[str, int], float] = dict.fromkeys(got, 0.0)
    while engine.has_unfinished_requests():
        for output in engine.step():
            for completion in output.outputs:
                key, piece = (output.request_id, completion.index), _answer(completion)
                before, new = got[key], asked[output.request_id][0] == "DELTA"
                own = [value for value in logprobs(completion) if value is not None]
                told[key] = sum(own, told[key] if new else 0.0)
                if new:
                    piece = piece._replace(token_ids=before.token_ids + piece.token_ids, text=before.text + piece.text)
                got[key] = piece
                if piece.finish_reason:
                    ends.setdefault(key, []).append(completion.cumulative_logprob)
    rows, sums = [], []
    for (name, index), answer in got.items():
        kind, stops = asked[name]
        # Pieces of several completions have no sum.
        if all(len(ends.get((name, one), ())) == 1 for one in range(count)):
            sums += _apart(ends[name, index][0], told[name, index])
        whole = _until(tokenizer, answer.token_ids, stops, False, LONGEST_TEXT)
        rows.append(_text_row("output_kind", kind, answer, whole))
    return rows, sums


def _decoded(tokenizer: Any, tokens: Sequence[int]) -> list[tuple[int, str]]:
    """Tokens beside their text."""
    return [(token, str(tokenizer.decode([token]))) for token in tokens]


def _own_stops(running: RunningEngine, tokenizer: Any, stops: list[int]) -> list[dict[str, Any]]:
    """Completions of one request that stop at once, each at the stop that it drew itself, a token or a string."""
    texts = [str(tokenizer.decode([token])) for token in stops]
    rows = []
    kinds: list[tuple[str, list[Any], list[Any]]] = [("stop_token_ids", stops, stops), ("stop", texts, texts)]
    # The first token, which may be the last one that there is room for.
    for (about, asked, named), most in product(kinds, (LEAST, 1)) if len(stops) > 1 else ():
        for got in _drawn(running, stops, {about: asked, "max_tokens": most}):
            reason = dict(zip(stops, named)).get(got.token_ids[0])  # noqa: B905 - Python 3.9
            # The text is what came before the stop.
            expected = Answer(got.token_ids[:1], "stop", "", reason)
            rows.append(_text_row(about, asked, got, expected))
    return rows


def _grammar(running: RunningEngine, tokenizer: Any) -> list[dict[str, Any]]:
    """Texts of which a grammar allows two, and one of a single letter between them that has no grammar. Where this
    engine takes no grammars, nothing but the reason."""
    from vllm import SamplingParams, sampling_params

    given = next((one for one in GRAMMARS if hasattr(sampling_params, one[1])), None)
    letters = plain_tokens(running, tokenizer)[:1]
    if not letters:
        return []
    if given is None or find_spec("xgrammar") is None:
        running.record("no_grammars", "this vLLM has none" if given is None else "xgrammar is not installed")
        return []
    name, kind = given
    usual = {"temperature": 1.0, "n": TEXTS, "max_tokens": LONGEST_TEXT, "detokenize": True}
    free = {"allowed_token_ids": letters, "ignore_eos": True}
    choice = {"choice": list(CHOICES)}
    grammars = (None, choice, None, {"json": {"enum": list(CHOICES)}}, {"regex": "|".join(CHOICES)})
    rows: list[dict[str, Any]] = []
    answered: list[Any] = []
    # The second time those without one come where others had theirs.
    for batch in (grammars, (choice, None, None, choice)):
        asked = [
            SamplingParams(**usual, **({name: getattr(sampling_params, kind)(**one)} if one else free)) for one in batch
        ]
        prompts = [{"prompt_token_ids": running.prompt(16, salt=4 + number)} for number in range(len(batch))]
        try:
            outputs = running.engine.generate(prompts, asked, use_tqdm=False)
        except Exception as error:  # one that has ended over it will say so when it is asked again
            running.record("no_grammars", f"{type(error).__name__}: {error}")
            running.abort_left()
            return []
        answered += zip(batch, outputs)  # noqa: B905 - Python 3.9
    for grammar, output in answered:
        for got in map(_answer, output.outputs):
            got = got._replace(text=got.text.strip())
            if grammar is None:
                letter = str(tokenizer.decode(letters))
                expected = Answer(letters * LONGEST_TEXT, "length", letter * LONGEST_TEXT)
            else:
                texts = tuple(map(json.dumps, CHOICES)) if "json" in grammar else CHOICES
                expected = got._replace(text=got.text if got.text in texts else texts[0])
            rows.append(_text_row(name, grammar or "none beside others", got, expected))
    return rows


def _parts(tokenizer: Any, character: str) -> list[int] | None:
    ids = list(tokenizer(character, add_special_tokens=False)["input_ids"])
    return ids if len(set(ids)) > 1 and tokenizer.decode(ids) == character else None


class Answer(NamedTuple):
    """A completion; ``stop_reason`` is the token, or the string, that stopped it."""

    token_ids: list[int]
    finish_reason: str
    text: str
    stop_reason: Any = None


def _ended(answer: Answer) -> dict[str, Any]:
    """Its tokens and its end, where the text is not known beforehand."""
    return {"token_ids": answer.token_ids, "finish_reason": answer.finish_reason}


def _answer(completion: Any) -> Answer:
    return Answer(list(completion.token_ids), completion.finish_reason, completion.text, completion.stop_reason)


def _drawn(running: RunningEngine, allowed: list[int], given: Mapping[str, Any]) -> list[Answer]:
    from vllm import SamplingParams

    asked = SamplingParams(**EVEN, n=TEXTS, allowed_token_ids=allowed, detokenize=True, **given)
    (output,) = running.engine.generate([{"prompt_token_ids": running.prompt(16, salt=3)}], asked, use_tqdm=False)
    return [answer for answer in map(_answer, output.outputs) if set(answer.token_ids) <= set(allowed)]


def _until(tokenizer: Any, ids: list[int], stops: Sequence[str], included: bool, most: int) -> Answer:
    """What a completion of at most so many tokens is that stops where its text first has a stop string."""
    for count in range(1, len(ids) + 1):
        text = str(tokenizer.decode(ids[:count]))
        stop = next((one for one in stops if one in text), None)
        if stop is not None:
            return Answer(ids[:count], "stop", text[: text.index(stop) + (len(stop) if included else 0)], stop)
    return _whole(tokenizer, ids, most)


def _held_to(tokenizer: Any, ids: list[int], stop: str, least: int) -> Answer:
    """What a completion is that may not stop before so many tokens: one that stood among them stops nothing later on.
    Releases differ in whether the last of them may end it."""
    for count in range(least, len(ids) + 1):
        if str(tokenizer.decode(ids[:count])).endswith(stop) and (count > least or len(ids) == least):
            return Answer(ids[:count], "stop", "", stop)
    return _whole(tokenizer, ids, LONGEST_TEXT)


def _whole(tokenizer: Any, ids: list[int], most: int) -> Answer:
    """What a completion is that nothing stops; of those that are to follow it is not known which they are."""
    return Answer([*ids, *ids[-1:] * most][:most], "length", str(tokenizer.decode(ids)))


def _until_token(tokenizer: Any, ids: list[int], stop: int, included: bool) -> Answer:
    """What a completion is that stops at a token."""
    if stop not in ids:
        return _whole(tokenizer, ids, LONGEST_TEXT)
    count = ids.index(stop) + 1
    return Answer(ids[:count], "stop", str(tokenizer.decode(ids[: count if included else count - 1])), stop)


def _counted(about: str, asked: Any, got: Answer, part: str, whole: str) -> dict[str, Any]:
    """A row of a text of which only so much is told how often a part is in it."""
    return _text_row(
        about, asked, got._replace(text=part * got.text.count(part)), Answer(got.token_ids, "length", whole)
    )


def _text_row(about: str, asked: Any, got: Answer, expected: Answer) -> dict[str, Any]:
    return {"about": about, "asked": asked, "expected": expected._asdict(), "got": got._asdict()}


def _logprobs(running: RunningEngine) -> tuple[list[dict[str, Any]], list[list[float]], int]:
    """Sampled and greedy tokens, and those of prompts, among the likeliest ones that come with them, sums that are not
    their tokens', and how many completions have more log-probabilities than tokens. Neighbours in the batch that
    samples ask for different numbers of likeliest tokens."""
    from vllm import SamplingParams

    some, most = running.tops(TOPS), running.tops(MOST_TOPS)
    prompts = [{"prompt_token_ids": running.prompt(16 + n, salt=71 + n)} for n in range(GREEDY)]
    rows, sums, longer = [], [], 0
    likeliest: list[Any] = []
    # A rank that comes alone is not counted anew by the engine's front; what is as likely was told just before.
    for greedy, turns in ((False, (most, 1, some, 1)), (True, (some,)), (True, (0,))):
        counts = [turns[n % len(turns)] for n in range(GREEDY)]
        asked = [
            SamplingParams(
                temperature=0.0 if greedy else 1.0,
                max_tokens=GREEDY_TOKENS,
                ignore_eos=True,
                logprobs=count,
                prompt_logprobs=None if greedy else most,
                detokenize=False,
                # Each completion of a request has log-probabilities of its own.
                n=1 if greedy else 2,
            )
            for count in counts
        ]
        outputs = running.engine.generate(prompts, asked, use_tqdm=False)
        for output in outputs:
            # V0 tells nothing of a prompt with several completions (0.9.1, vllm/sequence.py: assembled_seq_group).
            of_prompt = not greedy and (running.generation != "V0" or output.prompt_logprobs)
            rows += [{"greedy": False, **row} for row in _of_prompt(output, most if of_prompt else 0)]
        completions = [(one, count) for output, count in zip(outputs, counts) for one in output.outputs]  # noqa: B905
        for index, (completion, count) in enumerate(completions):
            sums += _wrong_sum(completion)
            longer += len(completion.logprobs or ()) > len(completion.token_ids)
            if count:
                told = completion.logprobs or []
                for number, token in enumerate(completion.token_ids):
                    place = _place(told[number] if number < len(told) else {}, token, count)
                    rows.append({"greedy": greedy, **place})
            else:
                before = likeliest[index] if index < len(likeliest) else None
                alone = _alone(completion.token_ids, completion.logprobs or [], before)
                rows += [{"greedy": greedy, **row} for row in alone]
        if greedy and any(counts):
            likeliest = [one for one, _ in completions]
    return rows + _read_again(running, prompts, likeliest), sums, longer


def _of_prompt(output: Any, tops: int) -> list[dict[str, Any]]:
    """Of the tokens of a prompt but the first, where it is asked for so many of the likeliest ones."""
    tokens, told = list(output.prompt_token_ids or ()), list(output.prompt_logprobs or ())
    return [_place(told[n] if n < len(told) else {}, tokens[n], tops) for n in range(1, len(tokens))] if tops else []


def _read_again(running: RunningEngine, prompts: Sequence[Mapping[str, Any]], likeliest: Sequence[Any]) -> list[Any]:
    """Greedy answers, each of whose tokens is the likeliest one, as parts of prompts, whose log-probabilities come
    alone, too."""
    from vllm import SamplingParams

    sequences = [
        {"prompt_token_ids": [*prompt["prompt_token_ids"], *one.token_ids]}
        for prompt, one in zip(prompts, likeliest)  # noqa: B905 - Python 3.9
    ]
    asked = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False)
    outputs = running.engine.generate(sequences, asked, use_tqdm=False)
    rows = []
    for output, one in zip(outputs, likeliest):  # noqa: B905 - Python 3.9
        told = _alone(one.token_ids, (output.prompt_logprobs or [])[-len(one.token_ids) :], one)
        rows += [{"greedy": True, **row} for row in told]
    return rows


def _alone(tokens: Sequence[int], told: Sequence[Any], before: Any) -> list[dict[str, Any]]:
    """Of tokens that came without others; ``before`` is an answer that had these beside it."""
    places = [_place(told[number] if number < len(told) else {}, token, 1) for number, token in enumerate(tokens)]
    return [_beside(place, before, list(tokens[: number + 1])) for number, place in enumerate(places)]


def _wrong_sum(completion: Any) -> list[list[float]]:
    """Its cumulative log-probability and the sum of its tokens', where they are not the same."""
    own, total = logprobs(completion), completion.cumulative_logprob
    return [] if not own or None in own else _apart(total, sum(own))


def _apart(total: float | None, own: float) -> list[list[float]]:
    return [] if total is None or abs(total - own) <= ROUNDED * max(abs(total), 1.0) else [[total, own]]


def _place(told: Mapping[int, Any], token: int, tops: int) -> dict[str, Any]:
    entry = (told or {}).get(token)
    if entry is None:
        return {
            **dict.fromkeys(("rank", "place")),
            **dict.fromkeys(("alike", "misplaced", "lacking"), 0),
            "told": False,
            "least": True,
            "tops": tops,
        }
    value = float(getattr(entry, "logprob", entry))
    values = [float(getattr(one, "logprob", one)) for one in told.values()]
    above = sum(one > value for one in values)
    others = [one for other, one in told.items() if other != token and getattr(one, "rank", None) is not None]
    return {
        "told": True,
        "first": next(iter(told)) == token,
        "rank": getattr(entry, "rank", None),
        "place": above + 1 if above < tops else None,
        "alike": values.count(value) - 1,
        "least": value <= min(values),
        "tops": tops,
        "lacking": max(tops - len(told), 0),
        "misplaced": sum(not _fits(one.rank, float(one.logprob), values) for one in others),
    }


def _beside(row: dict[str, Any], likeliest: Any, tokens: Sequence[int]) -> dict[str, Any]:
    """The row of a token that came alone, with how many are as likely or nearly so among those that an answer of the
    same tokens had beside it. Where there is none, or all of them are, its rank says nothing."""
    if likeliest is not None and list(likeliest.token_ids[: len(tokens)]) == tokens and likeliest.logprobs:
        beside = [float(getattr(one, "logprob", one)) for one in likeliest.logprobs[len(tokens) - 1].values()]
        close = sum(max(beside) - value <= CLOSE for value in beside)
        if close < len(beside):
            return {**row, "alike": close - 1, "least": False}
    return {**row, "rank": None}


def _fits(rank: int, value: float, values: Sequence[float]) -> bool:
    """Whether a value has this rank among others; equal ones may stand in any order."""
    above = sum(one > value for one in values)
    return above < rank <= above + values.count(value)
