"""What many callers of one live engine got: whose answer it is, judged by what each prompt is answered when nobody else
asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .observed import Job, records, require

Call = Mapping[str, Any]
Alone = Sequence[Mapping[str, Any]]

# Two tokens whose log-probabilities differ by less may change places with the batch that they are computed in. Logits
# lie below 32, where neighbouring numbers are 2^-3 apart in bfloat16 (8 bits of precision) and 2^-6 in float16 (11
# bits), and each of the two may be off by one; float32 is used with matrix products of reduced precision, too.
NOISE = {"bfloat16": 0.25, "float16": 0.03125, "float32": 0.01}
# So many equal tokens in a row are no coincidence.
TELLING = 4
# Callers that lose interest say nothing of how many tokens they should have got, groups are sampled.
UNINTERESTED = ("abort", "cancel", "leave", "timeout")
SAMPLED = "group"


@dataclass(frozen=True)
class Fault:
    """One way in which the callers were not served: ``what`` in a sentence's middle, and the first cases of it."""

    what: str
    cases: tuple[str, ...]


def faults(job: Job) -> Iterator[Fault]:
    """What went wrong in one run of the ``requests`` scenario, the gravest first."""
    calls: list[Call] = list(require(job, "calls"))
    alone: Alone = require(job, "alone")
    noise = NOISE.get(str(records(job).get("engine", {}).get("dtype")), max(NOISE.values()))
    answered = [call for call in calls if call["answers"]]
    whose = [(call, owner(call, alone, noise)) for call in answered]
    foreign = [(call, n) for call, n in whose if _labelled_wrong(call) or n not in (None, call["prompt"])]
    yield from _fault(
        f"{len(foreign)} of {len(answered)} answers went to callers that had asked something else",
        [f"{_name(call)} got {_got(call, n)}" for call, n in foreign],
    )
    nobody = [call for call, n in whose if n is None]
    yield from _fault(
        f"{len(nobody)} of {len(answered)} answers are not what the same engine answers when nobody else asks",
        [f"{_name(call)}: {_tokens(call)}, alone {alone[call['prompt']]['token_ids'][:8]}" for call in nobody],
    )
    whole = [call for call in calls if call["ended"] == "answered" and call["kind"] not in UNINTERESTED]
    uneven = [call for call in whole if not _complete(call)]
    yield from _fault(
        f"{len(uneven)} of {len(whole)} answers came twice or in part",
        [f"{_name(call)} got {_lengths(call)} for {_asked(call)}" for call in uneven],
    )
    lost = [call for call in calls if call["ended"] == "lost"]
    yield from _fault(
        f"{len(lost)} of {len(calls)} requests were never answered, while later ones were", [_name(c) for c in lost]
    )
    yield from _left(job)


def owner(call: Call, alone: Alone, noise: float) -> int | None:
    """The number of the prompt whose answer a call got, or None where it is nobody's. Its own, too, where they part at
    two tokens that are equally likely but for the ``noise``."""
    own = call["prompt"]
    if call["kind"] == SAMPLED:
        return int(own)
    token_ids = call["answers"][0]["token_ids"]
    if _begins(token_ids, alone[own]):
        return int(own)
    if len(token_ids) >= TELLING:
        for number, other in enumerate(alone):
            if _begins(token_ids, other):
                return number
    return int(own) if _tie(token_ids, alone[own], noise) else None


def _labelled_wrong(call: Call) -> bool:
    return bool(call["wrong_prompt"] or call["wrong_id"])


def _begins(token_ids: Sequence[int], answer: Mapping[str, Any]) -> bool:
    return all(one == other for one, other in zip(token_ids, answer["token_ids"], strict=False))


def _tie(token_ids: Sequence[int], answer: Mapping[str, Any], noise: float) -> bool:
    for place, (token, right) in enumerate(zip(token_ids, answer["token_ids"], strict=False)):
        if token != right:
            tops = answer["tops"][place]
            # A token that is not among the likeliest is at most as likely as the last of them.
            return bool(tops[0][1] - dict(map(tuple, tops)).get(token, tops[-1][1]) <= noise)
    return True


def _complete(call: Call) -> bool:
    answers = call["answers"]
    indexes = sorted(answer["index"] for answer in answers)
    even = all(len(answer["token_ids"]) == call["tokens"] for answer in answers)
    return even and call["finals"] == 1 and indexes == list(range(call["completions"]))


def _left(job: Job) -> Iterator[Fault]:
    left = {name: int(count) for name, count in records(job).get("left", {}).items() if count}
    if left:
        yield Fault(
            "requests that were aborted or cancelled are still in the engine when all is over",
            tuple(f"{count} {name}" for name, count in left.items()),
        )


def _fault(what: str, cases: Sequence[str]) -> Iterator[Fault]:
    if cases:
        yield Fault(what, tuple(cases))


def _name(call: Call) -> str:
    return f"a {call['kind']!r} call with prompt {call['prompt']}"


def _got(call: Call, number: int | None) -> str:
    if number not in (None, call["prompt"]):
        return f"the answer to prompt {number}: {_tokens(call)}"
    return "an output that names another prompt" if call["wrong_prompt"] else "an output with another request's id"


def _tokens(call: Call) -> str:
    return str(call["answers"][0]["token_ids"][:8])


def _lengths(call: Call) -> str:
    lengths = ", ".join(str(len(answer["token_ids"])) for answer in call["answers"])
    return f"{lengths} tokens in {call['finals']} last outputs"


def _asked(call: Call) -> str:
    return f"{call['completions']} completions of {call['tokens']} tokens"
