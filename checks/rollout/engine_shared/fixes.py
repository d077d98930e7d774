"""What keeps the callers of one engine apart."""

from __future__ import annotations

from rldoctor.api import Applicability, Edit, Fix

from ...observed.rollout import Job, records

ASYNC = "rollout.async"

LOCK = Fix(
    title="one caller at a time: a lock around every LLM.generate() of this engine (rollout, evaluation, logging)"
)
_LEFT = "after an interrupted or failed step abort what is left before the engine is used again, or make a new engine"
_ABORT_V0 = (
    "llm.llm_engine.abort_request([g.request_id for s in llm.llm_engine.scheduler for q in (s.running, s.waiting, "
    "s.swapped) for g in q])"
)
ABORT_V0 = Fix(title=_LEFT, commands=(_ABORT_V0,))
ABORT = Fix(
    title=_LEFT,
    commands=(
        "llm.llm_engine.abort_request(list(llm.llm_engine.output_processor.request_states), internal=True)",
        "llm.llm_engine.abort_request(list(llm.llm_engine.output_processor.request_states))  # V1 with one kind of id",
        f"{_ABORT_V0}  # V0",
    ),
)


# What separates the two threads of a launch.
APART = (
    Fix.safe(
        "switch asynchronous generation off", {ASYNC: False}, side_effects="generation and training no longer overlap"
    ),
    Fix.unsafe("or do not evaluate during training", {"trainer.eval_strategy": "no"}),
    Fix(
        title="or generate asynchronously through a rollout server, with ms-swift 3.5 or later",
        applicability=Applicability.UNSAFE,
        edits=(Edit(option="placement.mode", value="server"),),
        commands=("pip install 'ms-swift>=3.5'",),
        side_effects="`swift rollout` runs beside the trainer, on devices of its own",
    ),
)


def asynchronous(job: Job) -> tuple[Fix, ...]:
    """What helps callers of an asynchronous engine that are mixed up."""
    fixes = [
        Fix(title="another release of vLLM: callers of an asynchronous engine are its own to keep apart"),
        Fix(title="an id of its own for every request, and no answer after an abort taken for a whole one"),
    ]
    if records(job).get("engine", {}).get("async_scheduling"):
        switched = Fix.unsafe(
            "schedule in step with execution",
            {"engine.async_scheduling": False},
            side_effects="steps are a little slower",
        )
        fixes.insert(0, switched)
    return tuple(fixes)
