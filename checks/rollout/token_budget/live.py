"""Prompts that a real engine never schedules."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Evidence, Finding, NotChecked, Reach

from ...observed.agreement import grade_of
from ...observed.rollout import describe, records, runs
from ...observed.traces import beyond_the_budget
from . import check
from .fixes import raised

SHOWN = 4


@check.observed(needs=["observations.chunked_prefill"])
def never_scheduled(case: Case) -> Iterator[Finding | Reach]:
    """Prompts beyond the budget of an engine that does not chunk them, which wait for ever."""
    for job in runs(case, "chunked_prefill"):
        trace, engine = records(job).get("trace"), records(job).get("engine", {})
        if trace is None:
            raise NotChecked(f"the traffic {job.get('ended')} before it was through")
        budget = engine.get("max_num_batched_tokens")
        if budget is None:
            raise NotChecked("the engine's token budget was not recorded")
        waiting = beyond_the_budget(trace, engine)
        if waiting:
            fixes = (raised(engine["max_model_len"]),)
            longest = max(answer["prompt_tokens"] for answer in waiting.values())
            yield check.finding(
                f"{len(waiting)} prompts of up to {longest} tokens are never scheduled: max_num_batched_tokens is "
                f"{budget} and prefill is not chunked in {describe(job)}",
                grade=grade_of(case, fixes),
                evidence=tuple(
                    Evidence(
                        text=f"{name}: {answer['prompt_tokens']} tokens, no answer in {trace['steps']} steps",
                        source="chunked_prefill scenario",
                    )
                    for name, answer in list(waiting.items())[:SHOWN]
                ),
                fixes=fixes,
            )
        yield Reach(f"every prompt was scheduled with a budget of {budget} in {describe(job)}")
