"""The loss's correction with the engine's log-probabilities, as a launch sets it: whether it takes them as the engine
tells them, what sampling changes about them, and what makes the two the same."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Fix, NotApplicable, NotChecked, RolloutPlan, installed_within, plan_of

TEMPERATURE = "sampling.temperature"
ASSUMED = "trainer.temperature"
USED = "rollout.engine_logprobs"
CORRECTION = "rollout.importance_correction"
MODE = "engine.logprobs_mode"
MODES_FROM = (0, 10)
PROCESSED = "processed_logprobs"


def correcting(case: Case) -> RolloutPlan:
    """The plan, where its loss takes log-probabilities as the engine that it describes tells them.

    Raises :class:`NotApplicable` where it does not, :class:`NotChecked` where that engine is not known."""
    plan = plan_of(case)
    if not plan.value(CORRECTION) or plan.value(USED) is False:
        raise NotApplicable("the loss does not correct for the engine's log-probabilities")
    if plan.value("placement.mode") == "server" and plan.server is None:
        raise NotChecked("the server that tells the log-probabilities is started elsewhere")
    if _framework_decides(case, plan):
        raise NotApplicable("verl 0.7 and later ask for processed log-probabilities by default")
    return plan


def _framework_decides(case: Case, plan: RolloutPlan) -> bool:
    """verl's own default, where its release is too new for the option tables (verl/workers/config/rollout.py)."""
    given = plan.get(MODE)
    newer = installed_within(case, "verl", ">=0.7")
    return plan.framework == "verl" and newer and (given is None or given.source == "default")


def changes(plan: RolloutPlan) -> Iterator[str]:
    """What sampling does to the distribution."""
    temperature = plan.value(TEMPERATURE)
    if isinstance(temperature, int | float) and temperature not in (0, 1):
        yield f"temperature {temperature:g}"
    if (top_p := plan.value("sampling.top_p")) is not None and top_p < 1:
        yield f"top_p {top_p:g}"
    if (top_k := plan.value("sampling.top_k")) is not None and top_k > 0:
        yield f"top_k {top_k}"
    if min_p := plan.value("sampling.min_p"):
        yield f"min_p {min_p:g}"


def on_one_side(version: tuple[int, ...] | None) -> Iterator[Fix]:
    """Fixes that make the engine tell what the loss takes, as a vLLM release (None: not known) can."""
    if version is None or version >= MODES_FROM:
        yield Fix.safe("let the engine tell them after temperature and truncation", {MODE: PROCESSED})
    yield Fix.unsafe(
        "or sample at temperature 1 without truncation", {TEMPERATURE: 1.0}, side_effects="other completions"
    )
