"""What keeps the callers of one engine apart."""

from __future__ import annotations

from rldoctor.api import Applicability, Fix

from ...observed.rollout import Job, records

ASYNC = "rollout.async"

LOCK = Fix(
    title="one caller at a time: a lock around every LLM.generate() of this engine (rollout, evaluation, logging)"
)
ABORT = Fix(
    title="after an interrupted or failed step abort what is left before the engine is used again, or make a new "
    "engine",
    commands=(
        "llm.llm_engine.abort_request(list(llm.llm_engine.output_processor.request_states), internal=True)",
        "llm.llm_engine.abort_request(list(llm.llm_engine.output_processor.request_states))  # V1 with one kind of id",
        "llm.llm_engine.abort_request([g.request_id for s in llm.llm_engine.scheduler for q in (s.running, s.waiting, "
        "s.swapped) for g in q])  # V0",
    ),
)


# What separates the two threads of a launch.
APART = (
    Fix.safe(
        "switch asynchronous generation off", {ASYNC: False}, side_effects="generation and training no longer overlap"
    ),
    Fix.unsafe("or do not evaluate during training", {"trainer.eval_strategy": "no"}),
    Fix(
        title="or generate asynchronously through a rollout server (ms-swift 3.5 and later)",
        applicability=Applicability.UNSAFE,
        commands=("pip install 'ms-swift>=3.5'",),
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
