"""Options that a live engine accepted and did not apply."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, Reach, Severity, Source, cite, plan_of

from ...observed.draws import draws, power, sampled, unseeded
from ...observed.rollout import describe, require, rollouts, runs
from . import check

# The engine that has nothing but what the launch asks for.
MINIATURE = "miniature"


@check.observed(needs=["plan", "observations.rollout"])
def accepted_and_not_applied(case: Case) -> Iterator[Finding | Reach]:
    """The running engine has another value than the launch gave."""
    plan = plan_of(case)
    compared = 0
    for name, job in rollouts(case).items():
        if name != MINIATURE:
            continue  # the other engines differ from the launch on purpose
        asked, engine = require(job, "asked"), require(job, "engine")
        for option in sorted(asked.keys() & engine.keys()):
            setting = plan.get(f"engine.{option}")
            if setting is None or setting.source is not Source.GIVEN or not isinstance(asked[option], bool | int):
                continue  # a name such as a dtype has several spellings
            compared += 1
            if asked[option] != engine[option]:
                yield check.finding(
                    f"{describe(job)} was given {option}={asked[option]} and runs with {engine[option]}",
                    severity=Severity.WARNING,
                    grade=Grade.OBSERVED,
                    evidence=(
                        *cite(plan, f"engine.{option}"),
                        Evidence(text=f"{option} of the running engine: {engine[option]}", source="rollout probe"),
                    ),
                    fixes=(Fix(title=f"do not count on {option}: take it out, or move to a release that applies it"),),
                )
    yield Reach(f"{compared} engine options of the launch compared with those of the running engine")


@check.observed(needs=["observations.sampling"])
def sampling_parameter_not_applied(case: Case) -> Iterator[Finding | Reach]:
    """Tokens are drawn as if a parameter of the request had not been there."""
    for job in sampled(case):
        found = draws(job)
        for one in found:
            if one.ignored and one.name != "temperature 1":
                yield check.finding(
                    f"{describe(job)} does not apply {one.name}: its tokens are drawn as without it",
                    grade=Grade.OBSERVED,
                    evidence=(
                        Evidence(text=str(one), source="sampling scenario"),
                        Evidence(text=one.worst, source="sampling scenario"),
                    ),
                    fixes=(Fix(title=f"another release of vLLM; until then do not count on {one.name}"),),
                )
        yield Reach(f"{len(found)} sampling parameters applied by {describe(job)}; {power(found)}")


@check.observed(needs=["observations.sampling"])
def seed_not_applied(case: Case) -> Iterator[Finding | Reach]:
    """Requests with a seed of their own that draw something else the second time, or the same as with another seed."""
    for job in runs(case, "sampling"):
        changed, shared = unseeded(job)
        if changed or shared:
            yield check.finding(
                f"{describe(job)} does not apply the seeds of requests: "
                + (
                    f"{len(changed)} of them draw other tokens the second time"
                    if changed
                    else f"{len(shared)} of them draw the same tokens"
                ),
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=f"seeds {changed or shared}", source="sampling scenario"),),
                fixes=(Fix(title="another release of vLLM; until then do not count on seeds of requests"),),
            )
        yield Reach(f"requests with a seed of their own repeat on {describe(job)}")
