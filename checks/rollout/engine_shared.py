"""Two callers drive one engine, or it is used again after an interrupted step.

What it looks for
    In a launch file: ms-swift before 3.5 with ``async_generate`` and evaluation, where a background thread samples the
    next batch with the engine that evaluation uses.
    In a log: the V0 scheduler assertion ``len(running_scheduled.prefill_seq_groups) == 0``, ``Forward context is not
    set``, futures that end in an ``AssertionError`` of the engine, and a generation that returned another number of
    outputs than it got prompts.

Why it hurts
    ``LLM.generate()`` is not safe for threads. While one caller schedules, the other's requests are half-way through:
    V0 asserts, V1 breaks one call and hangs the other. After a step that was interrupted (a time limit by
    ``signal.alarm``, an exception that was caught) its requests stay in the engine and come back with the next call,
    paired with the wrong prompts. With chunked prefill the assertion does not come and the fault stays.

How sure it is
    The assertion was reproduced on vLLM 0.9.1 with two threads and with an interrupted step, and in no other way. From
    3.5 on ms-swift generates asynchronously only through a rollout server, and evaluation waits for the thread.

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

from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    Reach,
    cite,
    find,
    plan_of,
    version_within,
)

check = Check("RLD210", "engine-shared-concurrently", __doc__)

ASYNC = "rollout.async"
EVALUATES = "rollout.evaluates"
# Before 3.5 the thread drives the trainer's own engine; later releases demand a rollout server (`rlhf_args.py`).
SWIFT_SHARES = "<3.5"

_LOCK = Fix(
    title="one caller at a time: a lock around every LLM.generate() of this engine (rollout, evaluation, logging)"
)
_ABORT = Fix(
    title="after an interrupted or failed step abort what is left before the engine is used again, or make a new "
    "engine",
    commands=("llm.llm_engine.abort_request([ids of the unfinished requests])",),
)


@check.declared(needs=["plan", "packages"])
def evaluation_beside_the_thread(case: Case) -> Iterator[Finding | Reach]:
    """Asynchronous generation and evaluation on one engine in the trainer's process."""
    plan = plan_of(case)
    found = find(case.packages, "ms-swift") if case.packages is not None else None
    served = plan.framework == "ms-swift" and plan.value("rollout.backend", "vllm") == "vllm"
    if not served or found is None or not version_within(found.version, SWIFT_SHARES):
        raise NotApplicable(f"no release of {plan.framework} at hand drives one engine from two threads")
    together = plan.value(ASYNC) is True and plan.value(EVALUATES) is True
    if not together or plan.value("placement.mode") != "async":
        yield Reach("generation and evaluation take turns")
        return
    yield check.finding(
        f"ms-swift {found.version} samples in a background thread (async_generate) with the engine that "
        f"evaluation uses "
        "at the same time",
        evidence=cite(plan, ASYNC, EVALUATES, "trainer.eval_strategy", "trainer.eval_every"),
        fixes=(
            Fix(
                title="switch asynchronous generation off",
                applicability=Applicability.SAFE,
                edits=(Edit(option=ASYNC, value=False),),
                side_effects="generation and training no longer overlap",
            ),
            Fix(
                title="or do not evaluate during training",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="trainer.eval_strategy", value="no"),),
            ),
            Fix(
                title="or generate asynchronously through a rollout server (ms-swift 3.5 and later)",
                applicability=Applicability.UNSAFE,
                commands=("pip install 'ms-swift>=3.5'",),
            ),
        ),
        url="https://github.com/modelscope/ms-swift/issues/4194",
    )


def _fixes(event: LogEvent) -> tuple[Fix, ...]:
    if (
        event.incident.framework in ("ms-swift", None)
        and "async" in event.text.lower() + event.incident.cascades.__str__()
    ):
        swift = Fix(
            title="switch asynchronous generation off (async_generate false) while evaluation runs on the same engine",
            applicability=Applicability.UNSAFE,
            edits=(Edit(option="rollout.async", value=False),),
            side_effects="generation and training no longer overlap",
        )
        return (swift, _LOCK, _ABORT)
    return (_LOCK, _ABORT)


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
        fixes=(_ABORT, _LOCK),
        url="https://github.com/modelscope/ms-swift/issues/4234",
    )
