"""Nearly all completions end at the length limit instead of by themselves.

What it looks for
    In the logged metrics: the share of completions that were cut off (TRL and ms-swift ``completions/clipped_ratio``,
    verl ``response_length/clip_ratio``, OpenRLHF ``truncated_rate``, NeMo-RL ``truncation_rate``) at 95% and more,
    over the run and at its end; where no share is logged, a mean length that is the longest at every step.

Why it hurts
    What is cut off has no answer and no end token: the reward judges fragments, mostly with 0, the policy is never
    rewarded for stopping, and with masking or overlong filtering nothing is left to train on.

How sure it is
    Three logged steps and more make a warning, twenty an error; fewer a note. In a run of fewer than ten steps a
    limit above 16 tokens must cut off 98.5%: smoke runs with small models and limits often cut nine in ten. Steps
    after a run has diverged (RLD504) are left out, since a broken policy does not stop either.

The fix and its cost
    A larger completion limit, as long as the engine's context holds prompt and completion; memory and generation time
    grow with it. Where the model is meant to be brief: see that its chat template and stop tokens are right (RLD215),
    since a model that never emits its end token runs into any limit.

References
    https://github.com/huggingface/trl/issues/5697
    https://github.com/huggingface/trl/blob/main/docs/source/grpo_trainer.md#logged-metrics
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Edit, Finding, Fix, Grade, NotApplicable, Reach, Severity

from ..observed.trends import FEWEST, SAME_MEANS, Run, finite, mean, steps_of
from .training_diverged import first_divergence

check = Check("RLD503", "completions-truncated", __doc__, before=("RLD501", "RLD502"))

SHOWN = ("clipped_ratio", "completion_length_mean", "completion_length_max", "terminated_length_mean", "reward")
NEARLY_ALL = check.threshold("share", 0.95, "the share of completions that are cut off", most=1)
MANY_STEPS = check.threshold("steps", 20, "the logged steps from which on it is an error")
# What a short run must show, unless its limit is too small for any reasoning.
SHORT_RUN = 10
SMALL_LIMIT = 16
SURELY_ALL = 0.985
# Completions of one length throughout are cut off, unless they are so short that they may be plain answers.
PLAIN_ANSWER = 16


@check.observed(needs=["metrics"])
def cut_off(case: Case) -> Iterator[Finding | Reach]:
    """The share of completions at the limit."""
    run = Run.of(case)
    shares = _before_divergence(run, finite(run.at("clipped_ratio")))
    if not run.has("clipped_ratio"):
        shares = _before_divergence(run, _one_length(run))
    if not shares:
        raise NotApplicable("no share of cut-off completions is logged")
    limit = max(finite(run.at("completion_length_max")).values(), default=None)
    recent = mean({step: shares[step] for step in sorted(shares)[-max(FEWEST, len(shares) // 3) :]})
    needed = SURELY_ALL if len(shares) < SHORT_RUN and (limit or SMALL_LIMIT) > SMALL_LIMIT else NEARLY_ALL.of(case)
    if min(mean(shares), recent) < needed:
        yield Reach(f"{mean(shares):.0%} of the completions are cut off, {recent:.0%} at the end")
        return
    first, last = min(shares), max(shares)
    length = f" of {limit:.0f} tokens" if limit else ""
    yield check.finding(
        f"{mean(shares):.1%} of the completions are cut off at the length limit{length} ({steps_of(len(shares))} since "
        f"step {first})",
        severity=_severity(len(shares), MANY_STEPS.of(case)),
        grade=Grade.OBSERVED,
        evidence=run.evidences((first, last), *SHOWN),
        fixes=tuple(_remedies(case, limit)),
    )


def _severity(steps: int, many: float) -> Severity:
    if steps < FEWEST:
        return Severity.NOTE
    return Severity.ERROR if steps >= many else Severity.WARNING


def _before_divergence(run: Run, shares: dict[int, float]) -> dict[int, float]:
    diverged = first_divergence(run)
    return shares if diverged is None else {step: share for step, share in shares.items() if step < diverged}


def _one_length(run: Run) -> dict[int, float]:
    """Share 1 for a run whose completions all have one length (the mean is the longest at every step, or never
    changes), else nothing that could be told."""
    mean_length, longest = finite(run.at("completion_length_mean")), finite(run.at("completion_length_max"))
    if not mean_length or (not longest and len(mean_length) < SAME_MEANS):
        return {}
    lengths = {*mean_length.values(), *longest.values()}
    return dict.fromkeys(mean_length, 1.0) if len(lengths) == 1 and max(lengths) >= PLAIN_ANSWER else {}


def _longer(case: Case, limit: float | None) -> int | None:
    """Four times the limit, as far as the engine's context holds prompt and completion; None where it has no room."""
    if not limit:
        return None
    wanted = int(limit) * 4
    context = case.plan.value("engine.max_model_len") if case.plan is not None else None
    prompt = case.plan.value("lengths.prompt", 0) if case.plan is not None else 0
    wanted = min(wanted, context - (prompt or 0)) if context else wanted
    return wanted if wanted > limit else None


def _remedies(case: Case, limit: float | None) -> Iterator[Fix]:
    longer = _longer(case, limit)
    yield Fix(
        title="raise the completion limit until most completions end on their own",
        edits=(Edit(option="lengths.response", value=longer),) if longer else (),
        side_effects="more memory and generation time; prompt and completion must fit into max_model_len",
    )
    yield Fix(
        title="see that the model can stop: an end token that the engine stops at, and the chat template that it was "
        "trained with"
    )
