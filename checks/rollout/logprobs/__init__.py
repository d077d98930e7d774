"""Log-probabilities of the engine that are missing, or of another temperature or mode than the trainer assumes.

What it looks for
    In a launch file whose loss corrects with the engine's log-probabilities: a sampling temperature or truncation
    (top-p, top-k, min-p) that the engine leaves out of them, which V1 does unless ``logprobs_mode`` says
    ``processed_logprobs``; a correction that is switched on without the log-probabilities; a trainer that evaluates at
    another temperature than the engine samples at; more log-probabilities per token than the engine allows.
    In a running engine: log-probabilities at a temperature other than 1, against those of the same model in
    transformers before and after temperature, and against what the launch's trainer assumes and ``logprobs_mode`` says;
    raw ones where biases and penalties are asked for; the sampled token's among those of the likeliest, and its rank.
    In a log: the engine's refusal of too many, and corrections without their input.

Why it hurts
    Importance ratios come out as if the policy had moved: they are clipped or blow up, without an error. At temperature
    0.6 a token of probability 0.2 is off by a factor of two.

How sure it is
    V0 tells log-probabilities after temperature and penalties, V1 before them (``raw_logprobs``); releases before 0.10
    have no other mode. At temperature 1 without truncation both are the same. In a running engine the two differ by far
    more than rounding (see ``agreement.py``); truncation is judged from the launch file only.

The fix and its cost
    ``logprobs_mode=processed_logprobs`` (0.10 and later), or temperature 1 and no truncation.

References
    ``logprobs_mode``: https://github.com/vllm-project/vllm/pull/21398 (``vllm/config.py`` of 0.10.0)
    https://github.com/PrimeIntellect-ai/prime-rl/pull/697, https://github.com/NVIDIA-NeMo/RL/pull/4218
    ``vllm/v1/engine/processor.py`` (``_validate_logprobs``), verl ``verl/trainer/ppo/rollout_corr_helper.py``
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, NotChecked, Reach, Severity, cite, plan_of
from rldoctor.api.engine import generation, release

from .correction import ASSUMED, CORRECTION, MODE, MODES_FROM, TEMPERATURE, USED, changes, correcting, on_one_side

check = Check("RLD213", "logprobs-misconfigured", __doc__)

# SkyRL's own examples correct at temperature 0.6 with raw log-probabilities.
SAMPLES_SO = ("SkyRL",)

URL = "https://github.com/PrimeIntellect-ai/prime-rl/pull/697"


@check.declared(needs=["plan", f"plan.{TEMPERATURE}", "packages.vllm"])
def of_the_unscaled_logits(case: Case) -> Iterator[Finding | Reach]:
    """The correction takes log-probabilities that V1 told before temperature and truncation."""
    plan = correcting(case)
    changed = list(changes(plan))
    mode, engine, version = str(plan.value(MODE) or ""), generation(case), release(case)
    if not changed or mode.startswith("processed"):
        yield Reach(f"temperature {plan.value(TEMPERATURE)}, {mode or 'raw log-probabilities'}")
        return
    if engine.value is None or version is None:
        raise NotChecked(engine.why)
    if engine.value == "V0":
        yield Reach("V0 tells log-probabilities after sampling has changed them")
        return
    newer = version >= MODES_FROM
    yield check.finding(
        f"the loss takes the engine's log-probabilities, which leave out {' and '.join(changed)}"
        + ("" if newer else f" (vLLM {'.'.join(map(str, version))} has no other mode)"),
        severity=Severity.NOTE if plan.framework in SAMPLES_SO else Severity.WARNING,
        evidence=cite(plan, CORRECTION, USED, TEMPERATURE, "sampling.top_p", "sampling.top_k", "sampling.min_p", MODE),
        fixes=tuple(on_one_side(version)),
        url=URL,
    )


@check.declared(needs=[f"plan.{TEMPERATURE}", f"plan.{ASSUMED}"])
def another_temperature(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's log-probabilities are at another temperature than the samples."""
    plan = plan_of(case)
    sampled, assumed = plan.value(TEMPERATURE), plan.value(ASSUMED)
    if (
        sampled == assumed
        or not isinstance(sampled, int | float)
        or not isinstance(assumed, int | float)
        or not sampled
    ):
        yield Reach(f"sampled and trained at temperature {sampled}")
        return
    given = plan.get(ASSUMED)
    chosen = given is not None and given.source == "given"
    yield check.finding(
        f"completions are sampled at temperature {sampled:g}, the trainer takes log-probabilities at {assumed:g}",
        severity=Severity.WARNING if chosen or plan.value(CORRECTION) else Severity.NOTE,
        evidence=cite(plan, TEMPERATURE, ASSUMED),
        fixes=(
            Fix.unsafe(
                f"sample at temperature {assumed:g} too", {TEMPERATURE: assumed}, side_effects="other completions"
            ),
        ),
    )


@check.declared(needs=[f"plan.{CORRECTION}", f"plan.{USED}"])
def never_asked_for(case: Case) -> Iterator[Finding | Reach]:
    """A correction without its input."""
    plan = plan_of(case)
    if not plan.value(CORRECTION) or plan.value(USED) is not False:
        yield Reach(f"correction {plan.value(CORRECTION)}, log-probabilities {plan.value(USED)}")
        return
    yield check.finding(
        "the loss is to correct with the engine's log-probabilities, and the rollout does not return them",
        evidence=cite(plan, CORRECTION, USED),
        fixes=(Fix.safe("let the rollout return them", {USED: True}),),
    )


@check.declared(needs=["plan.sampling.logprobs", "plan.engine.max_logprobs"])
def more_than_allowed(case: Case) -> Iterator[Finding | Reach]:
    """Requests ask for more alternatives per token than the engine gives."""
    plan = plan_of(case)
    asked, most = plan.value("sampling.logprobs"), plan.value("engine.max_logprobs")
    if not isinstance(asked, int) or not isinstance(most, int) or most < 0 or asked <= most:
        yield Reach(f"{asked} of at most {most} log-probabilities per token")
        return
    yield check.finding(
        f"{asked} log-probabilities per token are asked for, the engine gives at most {most}: requests are refused",
        evidence=cite(plan, "sampling.logprobs", "engine.max_logprobs"),
        fixes=(_allow(asked),),
    )


def _allow(count: int) -> Fix:
    return Fix.safe(
        f"let the engine give {count}", {"engine.max_logprobs": count}, side_effects="memory and time for each token"
    )
