"""Two callers on one live engine: what each got back, and where threads of a stalled run stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, Reach, Severity, cite, dataclass
from rldoctor.api.hang import stalled_run
from rldoctor.api.logs import Frame

from ...exceptions import root_of
from ...observed.agreement import grade_of
from ...observed.rollout import Job, describe, records, require, runs
from ...observed.waiting import place_evidence
from . import TOGETHER, check
from .fixes import ABORT, APART, LOCK, asynchronous

Call = Mapping[str, Any]
Alone = Sequence[Mapping[str, Any]]


@check.knows
def explains(job: Job) -> bool:
    """Whether two threads inside one engine are why a run did not come to its end."""
    return records(job).get("turns") is False and "alone" in records(job) and job.get("ended") != "done"


def collided(case: Case) -> bool:
    """Whether two threads were seen to spoil each other's calls, which says more than the settings do."""
    played = case.observations.get("shared_engine", {}).values()
    return any(explains(job) or (job.get("ended") == "done" and any(outcomes(job))) for job in played)


def outcomes(job: Job) -> Iterator[str]:
    """What went wrong in the ``shared_engine`` scenario, a line each."""
    if explains(job):
        how = f"by {job['signal']}" if job.get("signal") else f"(it {job['ended']})"
        yield f"the process did not survive two threads in one engine: ended {how}"
        return
    for call in require(job, "calls"):
        wrong = failure(call)
        if wrong and call["ended"] != "waiting":
            yield f"{call['thread']}: {wrong}"
    for thread, frames in (records(job).get("stuck") or {}).items():
        where = f", last seen in {_short(frames[-1])}" if frames else ""
        yield f"{thread}: never came back from generate{where}"


def untidy(job: Job) -> Iterator[str]:
    """What went wrong after an interruption although everything that was left had been aborted."""
    alone = require(job, "alone")
    for place, call in require(job, "aborted").items():
        wrong = failure(call)
        if wrong is None and not _same_number(call, alone):
            wrong = "an answer of another length"
        if wrong:
            yield f"interrupted {place}, {call['left']} requests aborted, then {wrong}"
    if require(job, "afterwards") is False:
        yield "in the end the engine's answers are others than at the beginning"


def reused(job: Job) -> Iterator[str]:
    """How the next call went when nothing was aborted, where it went wrong."""
    for place, call in require(job, "reused").items():
        wrong = failure(call)
        if wrong:
            yield f"interrupted {place} {wrong}"


def failure(call: Call) -> str | None:
    """How a call of generate went wrong, or None."""
    if call["ended"] in ("raised", "stuck"):
        root = root_of(call.get("exceptions", ())) or {}
        place = root["frames"][-1] if root.get("frames") else None
        where = f" at {_package(place['file'])}:{place['line']} in {place['function']}" if place else ""
        text = f"{root.get('type')}: {root.get('message')}".rstrip(": ")
        return "no end" if call["ended"] == "stuck" else f"{text}{where}"
    parts = []
    if call["got"] != call["asked"]:
        parts.append(f"{call['got']} outputs for {call['asked']} prompts")
    if call["foreign"]:
        parts.append(f"{call['foreign']} outputs beside prompts that are not theirs")
    return ", ".join(parts) or None


def _same_number(call: Call, alone: list[list[int]]) -> bool:
    return [len(tokens) for tokens in call["token_ids"]] == [len(tokens) for tokens in alone]


def _short(frame: str) -> str:
    file, _, rest = frame.partition(":")
    return f"{_package(file)}:{rest}"


def _package(file: str) -> str:
    return file.rpartition("site-packages/")[2]


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
    given_up = [call for call in calls if call["kind"] in UNINTERESTED and call["answers"]]
    cut = [call for call in given_up if _said_to_be_whole(call)]
    yield from _fault(
        f"{len(cut)} of {len(given_up)} answers that their callers gave up say that they came to their end",
        [f"{_name(call)}: {len(call['answers'][0]['token_ids'])} of {call['tokens']} tokens" for call in cut],
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


def _said_to_be_whole(call: Call) -> bool:
    """Whether an answer that lacks tokens says that it ended by itself: nothing stops these but their length."""
    return any(
        answer["finish_reason"] in ("stop", "length") and len(answer["token_ids"]) < call["tokens"]
        for answer in call["answers"]
    )


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


# Cases that a finding shows; the others are of the same kind.
SHOWN = 3


# An interruption that leaves the engine as a step left it.
BETWEEN = "between steps"


@check.observed(needs=["observations.requests"])
def callers_mixed_up(case: Case) -> Iterator[Finding | Reach]:
    """Answers that went elsewhere, came twice, in part or never, and requests that do not leave."""
    for job in runs(case, "requests"):
        fixes, found = asynchronous(job), list(faults(job))
        for fault in found:
            yield check.finding(
                f"{fault.what}: {describe(job)}, many callers at once",
                grade=grade_of(case, fixes),
                evidence=tuple(Evidence(text=text, source="requests scenario") for text in fault.cases[:SHOWN]),
                fixes=fixes,
            )
        if found:
            continue
        reach = require(job, "reach")
        yield Reach(
            f"{reach['requests']} calls and {reach['sampled_tokens']} tokens from {describe(job)}, "
            "with aborts, cancellations and ids used twice"
        )


@check.observed(needs=["observations.shared_engine"])
def threads_collide(case: Case) -> Iterator[Finding | Reach]:
    """Training and evaluation in ``LLM.generate()`` of one engine, as this launch has them."""
    for job in runs(case, "shared_engine"):
        reported = list(outcomes(job))
        if reported:
            yield check.finding(
                f"training and evaluation on one engine do not go well together: {describe(job)}",
                grade=grade_of(case, APART),
                evidence=(
                    *(cite(case.plan, *TOGETHER) if case.plan is not None else ()),
                    *(Evidence(text=text, source="shared_engine scenario") for text in reported[:SHOWN]),
                ),
                fixes=APART,
                url="https://github.com/modelscope/ms-swift/issues/4194",
            )
            continue
        yield Reach(f"{require(job, 'reach')['requests']} requests from two threads to {describe(job)}")


@check.observed(needs=["observations.interrupted"])
def leftovers(case: Case) -> Iterator[Finding | Reach]:
    """What an interrupted batch leaves in the engine does not go away although it is aborted."""
    for job in runs(case, "interrupted"):
        reported = list(untidy(job))
        if reported:
            yield check.finding(
                f"what an interrupted call of generate left could not be aborted: {describe(job)}",
                # Within a step a state is left that no caller can be asked to know.
                severity=Severity.ERROR if any(BETWEEN in text for text in reported) else Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=tuple(Evidence(text=text, source="interrupted scenario") for text in reported[:SHOWN]),
                fixes=(Fix(title="make a new engine after an interruption; another release of vLLM"),),
            )
            continue
        count = require(job, "reach")["interruptions"]
        spoiled = ", ".join(reused(job)) or "nothing"
        yield Reach(
            f"{count} interrupted batches on {describe(job)}, right answers once the leftovers were aborted "
            f"(left alone they spoil the next call: {spoiled})"
        )


@check.observed(needs=["observations.hang"])
def two_threads_inside(case: Case) -> Iterator[Finding | Reach]:
    """Two threads of one process that both drive an engine, neither of which moves."""
    looked = 0
    for one in stalled_run(case).process_states:
        inside = [thread for thread in one.seen.threads if not thread.earlier and any(map(_drives, thread.frames))]
        looked += bool(inside)
        if len(inside) < 2:
            continue
        callers = [next(frame for frame in thread.frames if _drives(frame)) for thread in inside]
        yield check.finding(
            f"{len(inside)} threads of {one.label} are inside the engine at once, and none of them goes on: "
            + ", ".join(thread.name or str(thread.id) for thread in inside[:6]),
            severity=Severity.ERROR,
            grade=Grade.OBSERVED,
            evidence=tuple(
                place_evidence(f"thread {thread.name} in {frame.function}", frame)
                for thread, frame in zip(inside, callers, strict=True)
            ),
            fixes=(LOCK, ABORT),
            url="https://github.com/modelscope/ms-swift/issues/4194",
        )
    yield Reach(f"{looked} processes with a thread inside an engine")


def _drives(frame: Frame) -> bool:
    """Whether a frame is a caller's way into a synchronous engine."""
    name = frame.function.rpartition(".")[2]
    return frame.file.endswith("vllm/entrypoints/llm.py") and name in ("generate", "chat", "_run_engine")
