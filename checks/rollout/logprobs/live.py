"""The log-probabilities that a live engine returns, beside those that the trainer assumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, NotChecked, Reach, Severity, cite
from rldoctor.api.engine import release

from ...observed import answers
from ...observed.agreement import Difference, apart_from_trainer, between, noise_of, prompts_agree
from ...observed.rollout import Job, describe, records, require, runs
from . import SAMPLES_SO, URL, check
from .correction import ASSUMED, CORRECTION, MODE, TEMPERATURE, correcting, on_one_side

# vLLM's own default: of the model's logits, whatever sampling makes of them.
RAW = "raw_logprobs"


@check.observed(needs=["observations.agreement"])
def reported_and_assumed(case: Case) -> Iterator[Finding | Reach]:
    """What the running engine tells at a temperature, against what the trainer makes of it."""
    answers.require_own(case)
    for job in runs(case, "agreement"):
        heated = require(job, "heated")
        temperature, noise = heated["temperature"], noise_of(job).over(heated["temperature"])
        require(job, "trainer")
        rows = [{**row["trainer"], "engine": row["engine"]} for row in heated["rows"]]
        reported = {at: between(rows, "engine", at) for at in rows[0] if at != "engine"}
        evidence = tuple(
            Evidence(text=f"against the trainer's at temperature {at}: {apart}", source="agreement probe")
            for at, apart in reported.items()
        )
        mode = str(records(job).get("engine", {}).get("logprobs_mode") or "")
        where = {at for at, apart in reported.items() if not apart.beyond(noise)}
        if len(where) > 1:
            raise NotChecked("this model's distribution is too flat to tell one temperature from another")
        if not where and not mode.endswith("logits"):
            require_agreement(job)
            yield check.finding(
                f"at temperature {temperature:g} {describe(job)} tells log-probabilities that are neither those before "
                "temperature nor those after it",
                grade=Grade.OBSERVED,
                evidence=evidence,
                fixes=(Fix(title="another release of vLLM: at temperature 1 it agrees with the trainer"),),
            )
            continue
        what = "logits" if mode.endswith("logits") else "before" if "1.0" in where else "after"
        if mode == RAW and what == "after":
            yield check.finding(
                f"{describe(job)} is configured for log-probabilities of the model ({mode}) and tells those after "
                f"temperature {temperature:g}",
                grade=Grade.OBSERVED,
                evidence=evidence,
                fixes=(Fix(title="another release of vLLM: logprobs_mode has no effect"),),
            )
            continue
        others = _told_otherwise(job) if mode == RAW and what == "before" else None
        if others is not None:
            whose, names, apart = others
            require_agreement(job)
            yield check.finding(
                f"{describe(job)} is configured for log-probabilities of the model ({mode}) and tells other ones "
                f"of {whose} beside {names}",
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=f"against the trainer's: {apart}", source="agreement probe"),),
                fixes=(Fix(title=f"another release of vLLM; until then ask for no {names}"),),
            )
            continue
        yield from _as_assumed(case, temperature, what, where, evidence)


def _told_otherwise(job: Job) -> tuple[str, str, Difference] | None:
    """Whose log-probabilities are not the model's, beside which parameters, and by how much."""
    for name, whose in (("steered", "sampled tokens"), ("read", "prompts")):
        found = records(job).get(name)
        if not found or not (apart := between(found["rows"], "engine", "trainer")).beyond(noise_of(job)):
            continue
        # Prompts that are told wrongly whatever is asked beside them are RLD403's.
        if name != "read" or prompts_agree(job):
            return whose, " and ".join(found["parameters"]), apart
    return None


@check.observed(needs=["observations.agreement"])
def of_prompt_tokens(case: Case) -> Iterator[Finding | Reach]:
    """Every token of a prompt but the first has its log-probability, where the engine tells them at all."""
    answers.require_own(case)
    for job in runs(case, "agreement"):
        given = [value for row in require(job, "plain") for value in row.get("prefill") or ()]
        given += (records(job).get("vocabulary") or {}).get("engine") or ()
        missing = given.count(None)
        if not given or missing == len(given):
            raise NotChecked("the engine tells no log-probabilities of prompts")
        if missing:
            yield check.finding(
                f"{missing} tokens of prompts to {describe(job)} come without their log-probability, others with it",
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=f"of {len(given)} tokens looked at", source="agreement probe"),),
                fixes=(Fix(title="another release of vLLM; until then compute log-probabilities in the trainer"),),
            )
            continue
        yield Reach(f"{len(given)} prompt tokens with their log-probability")


@check.observed(needs=["observations.answers"])
def beside_sampled_tokens(case: Case) -> Iterator[Finding | Reach]:
    """The log-probability of every sampled token is there, and its rank is its own."""
    for job in answers.judged(case):
        places = require(job, "logprobs")
        missing, ranked = answers.without_logprob(job), answers.with_wrong_rank(job)
        if missing:
            yield _beside(f"{missing} tokens from {describe(job)} come without their log-probability", places)
            continue
        if longer := answers.with_more_logprobs(job):
            yield _beside(
                f"{longer} completions from {describe(job)} come with log-probabilities of more tokens than they have",
                places,
            )
            continue
        others = case.observations.get("agreement", {}).values()
        if any(apart_from_trainer(other) or not prompts_agree(other) for other in others):
            raise NotApplicable("engine and trainer disagree on log-probabilities themselves (RLD403)")
        if fewer := answers.with_fewer_tops(job):
            yield _beside(
                f"{fewer} tokens from {describe(job)} come with fewer of the likeliest ones than were asked for", places
            )
            continue
        if ranked:
            yield _beside(
                f"{ranked} sampled or prompt tokens from {describe(job)}, or those told beside them, have another rank "
                "than it tells",
                places,
            )
        sums = answers.wrong_sums(job)
        if sums and not ranked:
            total, own = sums[0]
            yield _beside(
                f"cumulative_logprob of {len(sums)} completions from {describe(job)} is not the sum of their tokens': "
                f"{total:.4g}, not {own:.4g}",
                places,
            )
        elif (behind := answers.not_first(job)) and not ranked:
            yield _beside(
                f"{behind} tokens from {describe(job)} do not stand first among those that come with them: code that "
                "takes the first takes another's log-probability",
                places,
            )
        yield Reach(f"{len(places)} sampled tokens with their own log-probability and rank")


def _beside(message: str, places: list[dict[str, Any]]) -> Finding:
    return check.finding(
        message,
        grade=Grade.OBSERVED,
        evidence=(Evidence(text=f"of {len(places)} tokens looked at", source="answers scenario"),),
        fixes=(Fix(title="another release of vLLM; until then compute log-probabilities in the trainer"),),
    )


def _as_assumed(
    case: Case, temperature: float, what: str, where: set[str], evidence: tuple[Evidence, ...]
) -> Iterator[Finding | Reach]:
    said = f"at temperature {temperature:g} the engine tells " + (
        "logits" if what == "logits" else f"log-probabilities {what} temperature"
    )
    try:
        plan = correcting(case) if case.plan is not None else None
    except (NotApplicable, NotChecked):
        plan = None
    if plan is None or (plan.value(TEMPERATURE) != temperature and what != "logits"):
        yield Reach(said)
        return
    assumed = float(plan.value(ASSUMED, temperature))
    if str(assumed) in where:
        yield Reach(f"{said}, and the trainer assumes so")
        return
    yield check.finding(
        f"{said}, and the loss takes them for those at temperature {assumed:g}",
        severity=Severity.NOTE if plan.framework in SAMPLES_SO else Severity.WARNING,
        grade=Grade.REPRODUCED,
        evidence=(*cite(plan, CORRECTION, TEMPERATURE, ASSUMED, MODE), *evidence),
        fixes=tuple(on_one_side(release(case))),
        url=URL,
    )


def require_agreement(job: Job) -> None:
    """Raises :class:`NotApplicable` where engine and trainer differ at temperature 1 already."""
    compared = [require(job, "plain"), records(job).get("cached")]
    if any(rows and between(rows, "engine", "trainer").beyond(noise_of(job)) for rows in compared):
        raise NotApplicable("engine and trainer differ at temperature 1 already (RLD403)")
