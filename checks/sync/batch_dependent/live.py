"""Requests alone and among others, and a larger batch, in a real engine beside the trainer."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, NotChecked, Reach, cite, plan_of

from ...observed.agreement import alone_is_wrong, between, in_batch, noise_of, prompts_agree
from ...observed.answers import require_own
from ...observed.rollout import describe, records, require, runs
from ...observed.traces import decided_by_chunks
from . import BACKEND, BACKEND_VARIABLE, SWITCH, check


@check.observed(needs=["observations.agreement"])
def alone_and_among_others(case: Case) -> Iterator[Finding | Reach]:
    """One greedy request, twice, in batches of other sizes."""
    require_own(case)
    demanded = case.plan is not None and str(case.plan.value(SWITCH, "0")) == "1"
    for job in runs(case, "agreement"):
        found = in_batch(job)
        if decided_by_chunks(case):
            raise NotApplicable("an engine that prefills whole prompts agrees with transformers (RLD201)")
        if alone_is_wrong(job):
            raise NotApplicable("engine and transformers differ on a request that is alone (RLD403)")
        reported, apart, equal = require(job, "greedy"), found.apart, found.equal
        said = f"alone and among {reported['batch'] - 1}: log-probabilities up to {apart.largest:.2g} apart" + (
            "" if equal else f", another token after {found.same} equal ones"
        )
        evidence = (Evidence(text=said, source="agreement probe"),)
        if found.beyond:
            yield check.finding(
                f"a greedy request to {describe(job)} is answered otherwise among {reported['batch'] - 1} others than "
                "alone, by more than rounding",
                grade=Grade.OBSERVED,
                evidence=evidence,
                fixes=(Fix(title="another attention backend or another release of vLLM"),),
            )
        elif demanded and (not equal or apart.largest > 0):
            if records(job).get("engine", {}).get("device") == "cpu":
                raise NotChecked("batch invariance is asked for, and the CPU's kernels say nothing of a GPU's")
            yield check.finding(
                f"batch invariance is asked for, and {describe(job)} answers a greedy request otherwise in a batch",
                grade=Grade.REPRODUCED,
                evidence=(*cite(plan_of(case), SWITCH, BACKEND, BACKEND_VARIABLE), *evidence),
                fixes=(
                    Fix.safe("name a backend that supports it", {BACKEND: "FLASH_ATTN"}),
                    Fix(title="a later vLLM covers more kernels", commands=("pip install --upgrade vllm",)),
                ),
            )
        yield Reach(said)


@check.observed(needs=["observations.agreement"])
def in_a_crowd(case: Case) -> Iterator[Finding | Reach]:
    """Every request of a larger batch against the trainer, who is right on those of smaller ones."""
    require_own(case)
    for job in runs(case, "agreement"):
        rows, noise = records(job).get("crowd"), noise_of(job)
        if not rows:
            raise NotChecked("no larger batch was compared with the trainer")
        fewer = [*require(job, "plain"), *records(job).get("cached", ())]
        wrong = between(fewer, "engine", "trainer").beyond(noise) or in_batch(job).beyond or alone_is_wrong(job)
        if wrong or not prompts_agree(job) or decided_by_chunks(case):
            raise NotApplicable("engine and trainer differ in smaller batches already")
        apart = between(rows, "engine", "trainer")
        if apart.beyond(noise):
            off = [row["request"] for row in rows if between([row], "engine", "trainer").largest > noise.largest]
            yield check.finding(
                f"{len(off) or 'some'} of {len(rows)} requests of one batch to {describe(job)} are answered otherwise "
                "than the trainer would, and in smaller batches none is",
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(text=f"in the larger batch: {apart}", source="agreement probe"),
                    *([Evidence(text=f"requests: {', '.join(off[:8])}", source="agreement probe")] if off else []),
                ),
                fixes=(Fix(title="another attention backend or another release of vLLM"),),
            )
        yield Reach(f"all {len(rows)} requests of one batch: {apart}")
