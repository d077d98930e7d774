"""Two callers drive one engine, or it is used again after an interrupted step.

What it looks for
    In a launch file: ms-swift before 3.5 with ``async_generate`` and evaluation, where a background thread samples the
    next batch with the engine that evaluation uses.
    In a running asynchronous engine: many callers, whole answers and streams, groups, turns, some of which abort,
    cancel, run out of patience or use an id twice. Every answer must belong to its prompt, none may be lost or come
    twice, and the engine must be empty afterwards. Where the launch drives one engine from two threads, these threads.
    And an engine that is used again after a caller was interrupted.
    In a log: the V0 scheduler assertion ``len(running_scheduled.prefill_seq_groups) == 0``, ``Forward context is not
    set``, futures that end in an ``AssertionError`` of the engine, and a generation that returned another number of
    outputs than it got prompts.
    In a run that still stands (``rldoctor hang``): two threads of one process inside the engine at once.

Why it hurts
    ``LLM.generate()`` is not safe for threads. While one caller schedules, the other's requests are half-way through:
    V0 asserts, V1 breaks one call and hangs the other. After a step that was interrupted (a time limit by
    ``signal.alarm``, an exception that was caught) its requests stay in the engine and come back with the next call,
    paired with the wrong prompts. With chunked prefill the assertion does not come and the fault stays.

How sure it is
    The assertion was reproduced on vLLM 0.9.1 with two threads and with an interrupted step, and in no other way. From
    3.5 on ms-swift generates asynchronously only through a rollout server, and evaluation waits for the thread.
    Answers of a running engine are greedy and compared with those that it gives when nobody else asks; they may part
    where two tokens are equally likely. What an interruption leaves in an engine is a property of every release (0.32,
    too: the next call returns the leftovers first, or never returns); it is told, and no finding as long as aborting
    the leftovers cures it.

The fix and its cost
    One caller at a time (a lock around ``generate``, or asynchronous generation off): rollout and evaluation no longer
    overlap. After an interruption abort what is left, or make a new engine.

References
    https://github.com/modelscope/ms-swift/issues/3666, https://github.com/modelscope/ms-swift/issues/4194
    https://github.com/modelscope/ms-swift/issues/4234, https://github.com/modelscope/ms-swift/issues/4418
    ``evaluation_loop``: https://github.com/modelscope/ms-swift/blob/v3.4.1/swift/trainers/rlhf_trainer/grpo_trainer.py
    ``LLMEngine.step`` and ``abort_request``: https://github.com/vllm-project/vllm/blob/v0.9.1/vllm/engine/llm_engine.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Frame,
    Grade,
    LogEvent,
    NotApplicable,
    Reach,
    Severity,
    cite,
    evaluates_on_it,
    find,
    one_engine_in_the_trainer,
    plan_of,
    samples_in_a_thread,
    stalled_run,
)

from ..processes.standing import place_evidence
from .agreement import grade_of
from .callers import faults
from .observed import describe, require, runs
from .shared_calls import outcomes, reused, untidy
from .shared_fixes import ABORT, APART, ASYNC, LOCK, asynchronous

check = Check("RLD210", "engine-shared-concurrently", __doc__)

EVALUATES = "rollout.evaluates"

# Cases that a finding shows; the others are of the same kind.
SHOWN = 3
# An interruption that leaves the engine as a step left it.
BETWEEN = "between steps"


@check.declared(needs=["plan", "packages"])
def evaluation_beside_the_thread(case: Case) -> Iterator[Finding | Reach]:
    """Asynchronous generation and evaluation on one engine in the trainer's process."""
    plan = plan_of(case)
    if not one_engine_in_the_trainer(case):
        raise NotApplicable(f"no release of {plan.framework} at hand drives one engine from two threads")
    together = samples_in_a_thread(case) and evaluates_on_it(case)
    if not together or plan.value("placement.mode") != "async":
        yield Reach("generation and evaluation take turns")
        return
    found = find(case.packages, "ms-swift") if case.packages is not None else None
    yield check.finding(
        f"ms-swift {found.version if found else ''} samples in a background thread (async_generate) with the engine "
        "that evaluation uses at the same time",
        evidence=cite(plan, ASYNC, EVALUATES, "trainer.eval_strategy", "trainer.eval_every"),
        fixes=APART,
        url="https://github.com/modelscope/ms-swift/issues/4194",
    )


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
        told = list(outcomes(job))
        if told:
            yield check.finding(
                f"training and evaluation on one engine do not go well together: {describe(job)}",
                grade=grade_of(case, APART),
                evidence=tuple(Evidence(text=text, source="shared_engine scenario") for text in told[:SHOWN]),
                fixes=APART,
                url="https://github.com/modelscope/ms-swift/issues/4194",
            )
            continue
        yield Reach(f"{require(job, 'reach')['requests']} requests from two threads to {describe(job)}")


@check.observed(needs=["observations.interrupted"])
def leftovers(case: Case) -> Iterator[Finding | Reach]:
    """What an interrupted batch leaves in the engine does not go away although it is aborted."""
    for job in runs(case, "interrupted"):
        told = list(untidy(job))
        if told:
            yield check.finding(
                f"what an interrupted call of generate left could not be aborted: {describe(job)}",
                # Within a step a state is left that no caller can be asked to know.
                severity=Severity.ERROR if any(BETWEEN in text for text in told) else Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=tuple(Evidence(text=text, source="interrupted scenario") for text in told[:SHOWN]),
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
    for one in stalled_run(case).standings:
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


def _fixes(event: LogEvent) -> tuple[Fix, ...]:
    if (
        event.incident.framework in ("ms-swift", None)
        and "async" in event.text.lower() + event.incident.cascades.__str__()
    ):
        swift = Fix.unsafe(
            "switch asynchronous generation off (async_generate false) while evaluation runs on the same engine",
            {"rollout.async": False},
            side_effects="generation and training no longer overlap",
        )
        return (swift, LOCK, ABORT)
    return (LOCK, ABORT)


@check.logged("assert len(running_scheduled.prefill_seq_groups) == 0")
def prefill_assertion(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The V0 scheduler finds prefills among what it thought was running."""
    error = event.exception
    thread = error is not None and error.header.startswith("Exception in thread")
    how = f" ({error.header.strip(': ')})" if thread and error is not None else ""
    yield check.finding(
        f"two callers drive one V0 engine, or it was used again after an interrupted step{how}",
        fixes=_fixes(event),
        url="https://github.com/modelscope/ms-swift/issues/3666",
    )


@check.logged("Forward context is not set", "state=finished raised AssertionError")
def state_cleared(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The other caller reset what this one was using."""
    yield check.finding(
        "a second caller changed the engine's state during a step (training rollouts and evaluation on one engine)",
        fixes=_fixes(event),
        url="https://github.com/modelscope/ms-swift/issues/4418",
    )


@check.logged(" outputs for ", silent=True)
def wrong_number_of_outputs(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``30 outputs for 16 prompts``: leftovers of an earlier call came along."""
    numbers = event.search(r"\b(\d+) outputs for (\d+) prompts\b")
    if numbers is None or int(numbers[1]) % max(1, int(numbers[2])) == 0:
        return  # several samples per prompt
    yield check.finding(
        f"a generation returned {numbers[1]} outputs for {numbers[2]} prompts: requests of another or an "
        f"interrupted call "
        "are in the engine",
        fixes=(ABORT, LOCK),
        url="https://github.com/modelscope/ms-swift/issues/4234",
    )


# Where vLLM keeps its requests, and what their names look like.
_KEEPS_REQUESTS = re.compile(r"vllm/(?:v1/)?(?:core|engine)/|model_runner\.py$")
_REQUEST = re.compile(r"'(?:\w{1,10}-)?\d+(?:[_-]\d+)*'")


@check.logged(" already running.", "KeyError: '")
def request_collides(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``Request id 12 already running``; a step's output names a request that another caller finished."""
    error = event.exception
    twice = event.search(r"Request id (\S+) already running")
    engine = error is not None and any(_KEEPS_REQUESTS.search(frame.file) for frame in error.frames[-2:])
    lost = error is not None and error.type == "KeyError" and _REQUEST.fullmatch(error.message)
    if not (twice or (lost and engine)):
        return
    which = twice[1] if twice else error.message if error is not None else ""
    yield check.finding(
        f"request {which} {'was added twice' if twice else 'is unknown to the engine'}: two callers drive it, or it "
        "was used again after an interrupted step",
        fixes=_fixes(event),
    )
