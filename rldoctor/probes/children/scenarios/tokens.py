"""From a conversation to token ids and back, and how the engine ends a completion.

Arguments: ``template`` (the launch's own chat template, or None), ``stop`` (strings) and ``stop_token_ids`` of the
launch. Records: ``tokenizer`` (``class``, ``size``, ``largest`` id, ``own`` whether it is the launch's model's,
``rows`` of the embedding, ``bos``, ``eos``, or None with ``why``), ``template`` (``given``; ``exceptions``, or
``text``, its ``ids``, ``encoded`` with and ``plain`` without special tokens from that text, ``decoded``), ``turn`` (the
special token that ends the assistant's turn: ``id``, ``token``), ``ends`` (for ``eos``, ``turn`` and an ``other`` one
that generation_config.json names, what the engine did when it was made to choose that token: ``token_ids``,
``finish_reason``), ``again`` (texts: how many come back as the same ids), ``texts`` (completions of plain ASCII tokens,
one of them long, and of some with white space: ``token_ids``, the text of the ``engine`` and of the ``tokenizer``,
``misspelt``, the tokens that are called otherwise beside their log-probability: that text and the tokenizer's),
``read`` (prompts that were given as text, and the question as messages: ``about`` which, the ids of the ``engine`` and
of the ``tokenizer``, or how the engine ``refused``), ``reach``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plain_tokens import EVEN, plain_tokens, space_tokens, special_tokens
from report import chain
from running_engine import RunningEngine

QUESTION = {"role": "user", "content": "What is 6 \u00d7 7?\nGive the number only."}
ANSWER = {"role": "assistant", "content": "The number is 42."}
TEXTS = (
    "The answer is 42.",
    "  two spaces,\ttabs\n\nand lines",
    "x = [i**2 for i in range(10)]",
    "\\boxed{\\frac{1}{2}}",
    "Z\u00fcrich, \u4e2d\u6587, \U0001f600",
    "<answer>7</answer>",
)
# Beyond any logit of a model; the most that vLLM takes.
BIAS = 100.0
TOKENS = 4
PROMPT, COMPLETIONS, TEXT_TOKENS = 16, 4, 24
# So many of the likeliest tokens come with each.
NAMED = 3
# What is detokenized piece by piece goes wrong late, or is cut at some length.
LONG_TEXT = 256
# So many plain tokens are enough to make texts of.
FEWEST_ORDINARY = 8


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    from transformers import AutoTokenizer

    if not running.made["tokenizer"]:
        running.record("tokenizer", None)
        running.record("unread", {"tokenizer": "the model comes without a tokenizer"})
        return
    try:
        tokenizer = AutoTokenizer.from_pretrained(running.made["path"])
    except Exception as error:
        running.record("unread", {"tokenizer": f"transformers could not load it: {type(error).__name__}: {error}"})
        return
    _describe(running, tokenizer)
    turn = _template(running, tokenizer, arguments)
    ends = {"eos": tokenizer.eos_token_id, "turn": turn}
    ends["other"] = _other_end(Path(running.made["path"]), {*ends.values()})
    reported = {}
    for name, token in ends.items():
        if token is not None and token < running.vocabulary:
            reported[name] = _end(running, token, arguments)
            running.record("ends", reported)
    running.record("texts", _texts(running, tokenizer))
    running.record("read", _read(running, tokenizer, arguments["template"]))
    same = [_same(tokenizer, text) for text in TEXTS]
    running.record("again", {"texts": len(same), "same": sum(same)})
    running.record("reach", {"requests": len(reported), "texts": len(same)})


def _describe(running: RunningEngine, tokenizer: Any) -> None:
    running.record(
        "tokenizer",
        {
            "class": type(tokenizer).__name__,
            "size": len(tokenizer),
            "largest": max(tokenizer.get_vocab().values(), default=0),
            "own": running.made["like"] is not None,
            "rows": running.vocabulary,
            "bos": tokenizer.bos_token_id,
            "eos": tokenizer.eos_token_id,
        },
    )


def _template(running: RunningEngine, tokenizer: Any, arguments: dict[str, Any]) -> int | None:
    """Records what the template makes of a question. Returns the special token that ends an answer's turn."""
    given = {"chat_template": arguments["template"]} if arguments["template"] else {}
    if not given and not getattr(tokenizer, "chat_template", None):
        running.record("template", {"given": False})
        return None
    asked = {**given, "add_generation_prompt": True}
    try:
        text = tokenizer.apply_chat_template([QUESTION], tokenize=False, **asked)
        # transformers 5 returns a dictionary unless told otherwise.
        ids = tokenizer.apply_chat_template([QUESTION], tokenize=True, return_dict=False, **asked)
        whole = tokenizer.apply_chat_template([QUESTION, ANSWER], tokenize=True, return_dict=False, **given)
    except Exception as error:
        running.record("template", {"given": True, "exceptions": chain(error)})
        return None
    running.record(
        "template",
        {
            "given": True,
            "text": text,
            "ids": ids,
            "encoded": tokenizer(text)["input_ids"],
            "plain": tokenizer(text, add_special_tokens=False)["input_ids"],
            "decoded": tokenizer.decode(ids),
        },
    )
    special = special_tokens(tokenizer)
    # No word of the answer is special.
    end = next((token for token in _after(tokenizer, whole) if token in special), None)
    running.record("turn", None if end is None else {"id": end, "token": tokenizer.convert_ids_to_tokens(end)})
    return end


def _after(tokenizer: Any, whole: list[int]) -> list[int]:
    """The answer's content and what follows it."""
    for start in range(len(whole) - 1, -1, -1):
        if ANSWER["content"] in tokenizer.decode(whole[start:]):
            return whole[start:]
    return []


def _other_end(directory: Path, known: set[int | None]) -> int | None:
    """One of the tokens at which the model's own files let answers end, that is not known yet."""
    try:
        told = json.loads((directory / "generation_config.json").read_text()).get("eos_token_id")
    except (OSError, ValueError):
        return None
    return next((one for one in told if one not in known), None) if isinstance(told, list) else None


def _end(running: RunningEngine, token: int, arguments: dict[str, Any]) -> dict[str, Any]:
    given = {"temperature": 0.0, "max_tokens": TOKENS, "logit_bias": {token: BIAS}, "allowed_token_ids": [token]}
    if arguments["stop_token_ids"]:
        given["stop_token_ids"] = arguments["stop_token_ids"]
    if arguments["stop"]:
        given.update(stop=arguments["stop"], detokenize=True)
    (row,) = running.generate({"end": (running.prompt(16), given)})
    return {"token": token, "token_ids": row["token_ids"], "finish_reason": row["finish_reason"]}


def _texts(running: RunningEngine, tokenizer: Any) -> list[dict[str, Any]]:
    """Sampled from plain tokens, and from few with white space between them and at both ends."""
    plain = plain_tokens(running, tokenizer)
    if len(plain) < FEWEST_ORDINARY:
        return []
    spaces = space_tokens(tokenizer, plain[0])
    sets = [plain, *([[*plain[:2], *spaces]] if spaces else [])]
    rows = [row for allowed in sets for row in _drawn(running, tokenizer, allowed, COMPLETIONS, TEXT_TOKENS)]
    return rows + _drawn(running, tokenizer, plain, 1, min(LONG_TEXT, running.limit - PROMPT))


def _read(running: RunningEngine, tokenizer: Any, template: str | None) -> list[dict[str, Any]]:
    """What the engine makes of text and of messages, where it takes them."""
    from vllm import SamplingParams

    parameters = SamplingParams(max_tokens=1)
    text = "\n".join(TEXTS)
    asked: dict[str, tuple[Any, list[int]]] = {"text": ({"prompt": text}, tokenizer(text)["input_ids"])}
    given = {"chat_template": template} if template else {}
    try:
        if given or getattr(tokenizer, "chat_template", None):
            rendering = {**given, "add_generation_prompt": True}
            rendered = tokenizer.apply_chat_template([QUESTION], tokenize=False, **rendering)
            asked["rendered text"] = ({"prompt": rendered}, tokenizer(rendered)["input_ids"])
            ids = tokenizer.apply_chat_template([QUESTION], tokenize=True, return_dict=False, **rendering)
            asked["messages"] = ([QUESTION], ids)
    except Exception:  # the template's own record tells it
        asked = {"text": asked["text"]}
    rows: list[dict[str, Any]] = []
    for about, (prompt, ids) in asked.items():
        try:
            if about == "messages":
                (output,) = running.engine.chat(prompt, parameters, use_tqdm=False, **given)
            else:
                (output,) = running.engine.generate([prompt], parameters, use_tqdm=False)
        except Exception as why:
            rows.append({"about": about, "refused": f"{type(why).__name__}: {why}"})
        else:
            rows.append({"about": about, "engine": list(output.prompt_token_ids), "tokenizer": list(ids)})
    return rows


def _drawn(running: RunningEngine, tokenizer: Any, allowed: list[int], count: int, length: int) -> list[dict[str, Any]]:
    from vllm import SamplingParams

    given = {**EVEN, "n": count, "max_tokens": length, "ignore_eos": True}
    parameters = SamplingParams(**given, allowed_token_ids=allowed, detokenize=True, logprobs=running.tops(NAMED))
    asked = [{"prompt_token_ids": running.prompt(PROMPT, salt=3)}]
    return [
        {
            "token_ids": list(completion.token_ids),
            "engine": completion.text,
            "tokenizer": tokenizer.decode(completion.token_ids, skip_special_tokens=True),
            "misspelt": _misspelt(tokenizer, completion, set(allowed)),
        }
        for output in running.engine.generate(asked, parameters, use_tqdm=False)
        for completion in output.outputs
        if set(completion.token_ids) <= set(allowed)
    ]


def _misspelt(tokenizer: Any, completion: Any, known: set[int]) -> list[tuple[str, str]]:
    """Of the tokens that come with a log-probability those that are ``known`` to be the same wherever they stand.
    Releases differ in whether a token that begins a word has its space, V1 before 0.10 tells each as the vocabulary
    writes it, and some tell no text."""
    told = [
        (getattr(entry, "decoded_token", None), str(tokenizer.decode([token])), tokenizer.convert_ids_to_tokens(token))
        for place in completion.logprobs or []
        for token, entry in (place or {}).items()
        if token in known
    ]
    return [(one, own) for one, own, piece in told if one not in (None, piece) and one.strip() != own.strip()]


def _same(tokenizer: Any, text: str) -> bool:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return bool(tokenizer(tokenizer.decode(ids), add_special_tokens=False)["input_ids"] == ids)
