"""Reads what the ``min_tokens`` scenario saw: answers that must be longer than the context leaves; and what makes them
fit."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Edit, Evidence, Fix, RolloutPlan, find
from rldoctor.api.releases import known_here

from ..exceptions import places
from .rollout import Job, describe, frames, records, require

SETTINGS = ("engine.max_model_len", "sampling.min_tokens", "lengths.prompt")
CONTEXT, BUDGET = "engine.max_model_len", "engine.max_num_batched_tokens"
CHUNKED = "engine.enable_chunked_prefill"
# Where V0 asserts that no stopped sequence is left (vllm/core/scheduler.py, 0.6.3 to 0.9.2).
SCHEDULER, FUNCTION = "vllm/core/scheduler.py", "_schedule_running"
# The row of V1 releases that never end a request which fills its context below min_tokens.
ENDLESS = "vllm-min-tokens-never-ends"


def asked(job: Job) -> str:
    """One phrase for the requests."""
    return (
        f"requests with min_tokens {require(job, 'least')} after a prompt of {require(job, 'prompt_tokens')} and "
        f"max_model_len {require(job, 'limit')}"
    )


def explains(job: Job) -> bool:
    """Whether a run ended in V0's assertion about sequences that had stopped."""
    last = frames(job)[-1:] if job.get("ended") == "raised" and "least" in records(job) else []
    return any(str(f["file"]).endswith(SCHEDULER) and f["function"] == FUNCTION for f in last)


def endless(job: Job) -> bool:
    """Whether requests that cannot reach their ``min_tokens`` were still unanswered when their time was over."""
    reported = records(job)
    if job.get("ended") != "stalled" or "least" not in reported or "answers" in reported:
        return False
    return bool(reported["prompt_tokens"] + reported["least"] > reported["limit"])


def shown(case: Case) -> bool:
    """Whether a live run has shown it, which says more than the settings do."""
    jobs = case.observations.get("min_tokens", {}).values()
    return any(endless(job) or outgrown(job) is not None for job in jobs if "least" in records(job))


def never_ends(case: Case) -> str | None:
    """The installed vLLM's version where it is known never to end a request that cannot reach its ``min_tokens``."""
    found = find(case.packages, "vllm") if case.packages is not None else None
    return found.version if found is not None and known_here(ENDLESS, case) is not None else None


def outgrown(job: Job) -> tuple[str, tuple[Evidence, ...]] | None:
    """How the engine went beyond its context for the sake of ``min_tokens``, and what shows it."""
    if explains(job):
        where = [Evidence(text=place, source="min_tokens scenario") for place in places(frames(job)[-1:])]
        return f"{asked(job)} end {describe(job)} with `assert len(self._async_stopped) == 0`", tuple(where)
    if job.get("ended") != "done":
        return None
    rows, limit = require(job, "answers"), require(job, "limit")
    longest = max((row["prompt_tokens"] + len(row["token_ids"]) for row in rows), default=0)
    if longest <= limit:
        return None
    reasons = ", ".join(sorted({str(row["finish_reason"]) for row in rows}))
    evidence = Evidence(text=f"sequences of {longest} tokens, finish reasons {reasons}", source="min_tokens scenario")
    return f"{asked(job)} make {describe(job)} go on to {longest} tokens, beyond its context", (evidence,)


def room(plan: RolloutPlan | None, *, chunks: bool = False) -> Iterator[Fix]:
    """What makes the launch's shortest answer fit, length first; ``chunks`` where the engine prefills in chunks and its
    token budget may stay below the context."""
    if plan is None:
        return
    least, context, prompt = (plan.value(name) for name in ("sampling.min_tokens", CONTEXT, "lengths.prompt"))
    if least and prompt:
        yield Fix(
            title=f"give the engine a context of {prompt + least}, enough for the longest prompt and min_tokens",
            applicability=Applicability.UNSAFE,
            edits=(Edit(option=CONTEXT, value=prompt + least), *(() if chunks else budget(plan, prompt + least))),
            side_effects="more KV cache for each sequence; the model must have that context",
        )
    if context and prompt and context > prompt:
        yield Fix.unsafe(
            f"or lower min_tokens to the {context - prompt} tokens that the context leaves",
            {"sampling.min_tokens": context - prompt},
            side_effects="answers may be shorter",
        )


def off(plan: RolloutPlan | None) -> Iterator[Fix]:
    """What EasyR1's maintainers did."""
    if plan is None:
        return
    edits = budget(plan, plan.value(CONTEXT) or 0)
    if plan.value(CHUNKED) is False and not edits:
        return
    yield Fix(
        title="or switch chunked prefill off, with a token budget of at least max_model_len: EasyR1's cure for an "
        "over-long prompt, none for min_tokens beyond the context",
        applicability=Applicability.UNSAFE,
        edits=(Edit(option=CHUNKED, value=False), *edits),
        valid_for="V0 engines (vllm<0.10)",
        side_effects="more activation memory during prefill",
    )


def budget(plan: RolloutPlan, context: int) -> tuple[Edit, ...]:
    """The companion without which an engine that does not chunk would refuse to start."""
    given = plan.value(BUDGET)
    return (Edit(option=BUDGET, value=context),) if given is not None and given < context else ()
