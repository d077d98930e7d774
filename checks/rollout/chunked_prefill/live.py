"""Answers with prefill in chunks and without, and ``min_tokens`` against what the context leaves, in a real engine."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    cite,
)

from ...observed.agreement import Noise, grade_of, lengths, noise_of
from ...observed.least_answers import SETTINGS, asked, budget, off, outgrown, room
from ...observed.rollout import Job, describe, records, require, runs
from ...observed.traces import Comparison, Parting, against_trainer, compared
from . import check
from .fixes import LENGTHS, V1

SHOWN = 4


@check.observed(needs=["observations.chunked_prefill"])
def answers_differ(case: Case) -> Iterator[Finding | Reach]:
    """The same greedy requests, with prefill in chunks and without."""
    runs(case, "chunked_prefill")
    jobs = dict(case.observations["chunked_prefill"])
    if "on" not in jobs:
        raise NotApplicable("the launch's engine does not chunk prefill")
    chunked, whole = jobs["on"], jobs["off"]
    for name, job in jobs.items():
        if job.get("ended") != "done":
            raise NotChecked(f"the traffic with chunked prefill {name} {job.get('ended')} before it was through")
    noise = noise_of(chunked)
    if all("trainer" in records(job) and against_trainer(job).wrong for job in jobs.values()):
        raise NotApplicable("both engines differ from transformers: it is not their difference (RLD403)")
    found = compared(require(chunked, "trace"), require(whole, "trace"))
    # Each side's reading of each token is off by no more than the noise.
    torn = [one for one in found.partings if max(one.gaps) > 2 * noise.largest]
    if torn or found.agreed.beyond(noise):
        yield _differs(case, chunked, whole, found, torn, noise)
    yield Reach(_exercised(case, chunked, found))


def _exercised(case: Case, job: Job, found: Comparison) -> str:
    reach = require(job, "reach")
    ties = f", {len(found.partings)} part in near ties" if found.partings else ""
    preempted = "no preemption was reached" if reach["preemptions"] == 0 else f"{reach['preemptions']} preemptions"
    return (
        f"{found.equal} of {found.requests} greedy answers equal with prefill in chunks and without{ties}; "
        f"log-probabilities differ by {found.agreed.largest:.2g} at most; {preempted}, "
        f"{lengths(case, job)} on {describe(job)}"
    )


def _differs(case: Case, chunked: Job, whole: Job, found: Comparison, torn: list[Parting], noise: Noise) -> Finding:
    fixes = (_whole_prompts(case),)
    how = []
    if torn:
        how.append(f"{len(torn)} of {found.requests} greedy answers become others, and not in near ties")
    if found.agreed.beyond(noise):
        how.append(
            f"log-probabilities of the same tokens differ by {found.agreed.mean:.3g} on average and "
            f"{found.agreed.largest:.3g} at most"
        )
    return check.finding(
        f"prefill in chunks changes what {describe(chunked)} answers: {'; '.join(how)}",
        grade=grade_of(case, fixes),
        evidence=(
            *(Evidence(text=str(one), source="chunked_prefill scenario") for one in torn[:SHOWN]),
            Evidence(
                text=f"on: {_settings(chunked)}; off: {_settings(whole)}; rounding explains {noise.mean} on average "
                f"and {noise.largest} at most",
                source="chunked_prefill scenario",
            ),
        ),
        fixes=fixes,
    )


def _settings(job: Job) -> str:
    engine = records(job).get("engine", {})
    names = ("enable_chunked_prefill", "max_num_batched_tokens", "dtype", "attention_backend")
    return ", ".join(f"{name}={engine.get(name)}" for name in names)


def _whole_prompts(case: Case) -> Fix:
    plan = case.plan
    companion = budget(plan, plan.value("engine.max_model_len") or 0) if plan is not None else ()
    return Fix(
        title="switch chunked prefill off, with a token budget that holds a whole prompt",
        applicability=Applicability.UNSAFE,
        edits=(Edit(option="engine.enable_chunked_prefill", value=False), *companion),
        valid_for="V0 engines, and V1 from vLLM 0.11.1 on",
        side_effects="long prompts are prefilled in one step: more activation memory, decoding waits for them; "
        "max_num_batched_tokens must be at least max_model_len",
    )


@check.observed(needs=["observations.min_tokens"])
def shortest_answer_beyond_the_room(case: Case) -> Iterator[Finding | Reach]:
    """``min_tokens`` against what the context leaves, as the launch sets it."""
    plan = case.plan
    for job in runs(case, "min_tokens"):
        reported = outgrown(job)
        if reported is not None:
            message, evidence = reported
            yield check.finding(
                message,
                # Without a launch nothing asked for it: it is what this engine would do.
                severity=Severity.WARNING if plan is None else Severity.ERROR,
                grade=Grade.OBSERVED if plan is None else Grade.REPRODUCED,
                evidence=(*(cite(plan, *SETTINGS) if plan is not None else ()), *evidence),
                fixes=(*room(plan), *off(plan), *((LENGTHS,) if plan is None else ()), V1),
                url="https://github.com/hiyouga/EasyR1/issues/79",
            )
            continue
        if job.get("ended") != "done":
            raise NotChecked(f"the traffic with min_tokens {job.get('ended')} before it was through")
        yield Reach(f"{asked(job)} end at max_model_len on {describe(job)}")
