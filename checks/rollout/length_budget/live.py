"""What a live engine does at its context's end."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotChecked, Reach, Severity, cite
from rldoctor.api.engine import chunked_prefill

from ...observed import least_answers, lengths
from ...observed.least_answers import SETTINGS, asked, endless, room
from ...observed.lengths import engine_side, overshoots, unclean
from ...observed.rollout import describe, require, runs
from . import ENDLESS, NEWER, check
from .fixes import CONTEXT, FILTER, PROMPT

check.knows(least_answers.explains)
check.knows(lengths.explains)


@check.observed(needs=["observations.min_tokens"])
def shortest_answer_never_ends(case: Case) -> Iterator[Finding | Reach]:
    """``min_tokens`` against what the context leaves, as the launch sets it."""
    plan = case.plan
    for job in runs(case, "min_tokens"):
        if endless(job):
            yield check.finding(
                f"{asked(job)} never end on {describe(job)}: no answer in {job.get('seconds') or 0:.0f} s",
                # Without a launch nothing asked for it: it is what this engine would do.
                severity=Severity.WARNING if plan is None else Severity.ERROR,
                grade=Grade.OBSERVED if plan is None else Grade.REPRODUCED,
                evidence=(
                    *(cite(plan, *SETTINGS) if plan is not None else ()),
                    Evidence(text="the stacks of all threads when its time was over", source=str(job.get("log"))),
                ),
                fixes=(*room(plan, chunks=bool(chunked_prefill(case).value)), NEWER),
                url=ENDLESS,
            )
        elif job.get("ended") != "done":
            raise NotChecked(f"the traffic with min_tokens {job.get('ended')} before it was through")
        else:
            yield Reach(f"{asked(job)} end on {describe(job)}")


@check.observed(needs=["observations.lengths"])
def at_the_limit(case: Case) -> Iterator[Finding | Reach]:
    """How the engine ends answers at its limit, and refuses prompts beyond it."""
    for job in runs(case, "lengths"):
        limit, rows = require(job, "limit"), engine_side(job)
        reported = (
            (f"answers do not end at max_model_len {limit}", list(overshoots(job)), Severity.ERROR),
            (f"a prompt that fills max_model_len {limit} is not refused cleanly", list(unclean(job)), _filled(case)),
        )
        for said, lines, severity in reported:
            if lines:
                yield check.finding(
                    f"{said}: {describe(job)}",
                    severity=severity,
                    grade=Grade.OBSERVED,
                    evidence=tuple(Evidence(text=line, source="lengths scenario") for line in lines),
                    fixes=(FILTER, Fix(title="or another release of vLLM, whose engine keeps to its limit")),
                )
        if job.get("ended") != "done" and not any(lines for _, lines, _ in reported):
            raise NotChecked(f"the requests at the limit {job.get('ended')} before they were through")
        yield Reach(f"{len(rows)} requests at and beyond {limit} tokens on {describe(job)}")


def _filled(case: Case) -> Severity:
    """How much it matters what a prompt does that leaves no room: whether the launch's prompts may be as long."""
    plan = case.plan
    limit, prompt = (plan.value(CONTEXT), plan.value(PROMPT)) if plan is not None else (None, None)
    if limit is None or prompt is None:
        return Severity.WARNING
    return Severity.ERROR if prompt >= limit else Severity.NOTE
