"""Draws of a real engine that are the same."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, NotChecked, Reach, Severity, cite, plan_of
from rldoctor.api.seeds import replicas_per_prompt, seed_topology

from ...observed.draws import dependent
from ...observed.rollout import (
    NEVER,
    Completion,
    describe,
    groups,
    log_probability,
    one_cause,
    records,
    repeats_one_token,
    require,
    rollouts,
    runs,
)
from ...observed.soak import repeated, soaked
from ..seeds import live as sampled
from . import check


@check.observed(needs=["observations.rollout"])
@one_cause
def group_is_one(case: Case) -> Iterator[Finding | Reach]:
    """A sampled group in which nothing differs."""
    compared = 0
    for job in rollouts(case).values():
        for request, rows in groups(job):
            if len(rows) < 2:
                continue
            compared += 1
            if _distinct(rows) > 1:
                yield Reach(f"{_distinct(rows)} of {len(rows)} completions of the {request} differ in {describe(job)}")
                continue
            if repeats_one_token(rows):
                raise NotApplicable("the outputs are corrupt (RLD404): one token is repeated")
            first = log_probability(rows[0])
            if first is None:
                raise NotApplicable("the outputs are corrupt (RLD404): log-probabilities are no numbers")
            repeated = first * (len(rows) - 1)
            if repeated > NEVER:
                yield Reach(f"the {request} is equal, which is likely for so peaked a distribution")
                continue
            temperature, seed = rows[0]["temperature"], records(job).get("engine", {}).get("seed")
            chance = f"log-probability {first:.1f} of the first, {repeated:.0f} that all others repeat it"
            yield check.finding(
                f"all {len(rows)} completions sampled at temperature {temperature} by {describe(job)} are the same",
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(text=f"{request}: {len(rows)} times {rows[0]['token_ids'][:16]}", source="rollout probe"),
                    Evidence(text=chance, source="rollout probe"),
                    Evidence(text=f"engine seed {seed}", source="rollout probe"),
                ),
                fixes=(
                    Fix(title="sample with a temperature above 0 and without a seed for each request"),
                    Fix(title="another release of vLLM: its sampler draws the same numbers for every request"),
                ),
            )
    if not compared:
        raise NotChecked("the rollout sampled no group of several completions")


@check.observed(needs=["observations.sampling"])
def draws_of_one_batch(case: Case) -> Iterator[Finding | Reach]:
    """Requests that share their random numbers: draws of one batch, or of two calls, are equal too often."""
    alike = [rows for job in rollouts(case).values() for _, rows in groups(job) if len(rows) > 1]
    if any(_distinct(rows) == 1 for rows in alike):
        raise NotApplicable("the whole group is one completion")
    for job in runs(case, "sampling"):
        reported = dependent(job)
        if reported:
            yield check.finding(
                f"requests of one batch do not draw independently in {describe(job)}",
                grade=Grade.OBSERVED,
                evidence=tuple(Evidence(text=text, source="sampling scenario") for text in reported),
                fixes=(Fix(title="another release of vLLM: its sampler shares random numbers between requests"),),
            )
        count = sum(row["pairs"] for row in require(job, "pairs"))
        yield Reach(f"{count} pairs of draws from {describe(job)} are equal as often as chance makes them")


@check.observed(needs=["observations.soak"])
def draws_repeat_in_time(case: Case) -> Iterator[Finding | Reach]:
    """A request without a seed is answered the same, window after window, at the end of a soak."""
    job, windows = soaked(case)
    reported = repeated(job, windows)
    if reported:
        answers = windows[-1]["fixed"]["answers"]
        yield check.finding(
            f"{describe(job)} draws the same completions again after {windows[-1]['cycles']} cycles of traffic",
            grade=Grade.OBSERVED,
            evidence=tuple(
                Evidence(text=f"{name}: {answers[name]['token_ids']} in each of the last measures", source="soak")
                for name in reported
            ),
            fixes=(Fix(title="another release of vLLM: its random numbers begin anew"),),
        )
    else:
        yield Reach(f"requests without a seed are drawn anew through {windows[-1]['cycles']} cycles")


@check.observed(needs=["plan", "observations.seeds"])
def seeds_of_replicas(case: Case) -> Iterator[Finding | Reach]:
    """Two engines with different seeds that draw the same."""
    plan, drawn = plan_of(case), sampled.replicas(case)
    if not drawn.equal:
        yield Reach(f"{drawn.summary()} between two replicas")
        return
    if not drawn.apart:
        raise NotApplicable("both replicas have the same seed (RLD310)")
    found = seed_topology(plan)
    together = replicas_per_prompt(plan, found.replicas) if found is not None else None
    yield check.finding(
        f"{drawn.same} of {drawn.total} completions are the same on two engine replicas, whose seeds differ"
        + (f"; {together} replicas get the same prompts" if together and together > 1 else ""),
        severity=Severity.ERROR if together and together > 1 else Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=(*cite(plan.server or plan, "seed.per_replica", "seed.engine"), *drawn.evidence),
        fixes=(Fix(title="another release of vLLM: the seed that it is given has no effect"),),
    )


@check.observed(needs=["plan", "observations.seeds"])
def seeds_of_requests(case: Case) -> Iterator[Finding | Reach]:
    """Requests with different seeds that draw the same."""
    drawn = sampled.repeated(sampled.requests(case))
    if not (drawn.equal and drawn.apart):
        yield Reach(f"{drawn.summary()} between requests with the launch's seeds")
        return
    yield check.finding(
        f"{drawn.same} of {drawn.total} completions of a group repeat its first one, with other seeds or none",
        grade=Grade.OBSERVED,
        evidence=(*cite(plan_of(case), "seed.per_request", "sampling.seed"), *drawn.evidence),
        fixes=(Fix(title="another release of vLLM: the seeds of requests have no effect"),),
    )


def _distinct(rows: list[Completion]) -> int:
    return len({tuple(row["token_ids"]) for row in rows})
