"""Nearly all completions end at the length limit instead of by themselves.

What it looks for
    In the logged metrics: the share of completions that were cut off (TRL and ms-swift ``completions/clipped_ratio``,
    verl ``response_length/clip_ratio``, OpenRLHF ``truncated_rate``, NeMo-RL ``truncation_rate``) at 95% and more,
    over the run and at its end; where no share is logged, a mean length that is the longest at every step, or, where
    that is not logged either, one whole number at every step, which no other limit of the launch contradicts.

Why it hurts
    What is cut off has no answer and no end token: the reward judges fragments, mostly with 0, the policy is never
    rewarded for stopping, and with masking or overlong filtering nothing is left to train on.

How sure it is
    Three logged steps and more make a warning, twenty an error; fewer a note. In a run of fewer than ten steps a
    limit above 16 tokens must cut off 98.5%: smoke runs with small models and limits often cut nine in ten. A mean that
    never changes is a warning at most, as long as neither the longest completion nor the launch says that it is the
    limit. Steps after a run has diverged (RLD504) are left out, since a broken policy does not stop either. A run that
    somebody or something ended was not ended by this: it is told beside that.

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

from rldoctor.api import Case, Check, Edit, Finding, Fix, Grade, Kind, NotApplicable, Reach, Severity

from ..observed.trends import FEWEST, SAME_MEANS, Run, finite, mean, steps_of
from .training_diverged import first_divergence

check = Check("RLD503", "completions-truncated", __doc__, before=("RLD501", "RLD502"), kind=Kind.QUALITY)

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
    clipped, surely = finite(run.at("clipped_ratio")), True
    if not run.has("clipped_ratio"):
        clipped, surely = _one_length(run, case.plan.value("lengths.response") if case.plan is not None else None)
    shares = _before_divergence(run, clipped)
    if not shares:
        raise NotApplicable("no share of cut-off completions is logged")
    limit = max(finite(run.at("completion_length_max")).values(), default=None)
    recent = mean({step: shares[step] for step in sorted(shares)[-max(FEWEST, len(shares) // 3) :]})
    needed = SURELY_ALL if len(shares) < SHORT_RUN and (limit or SMALL_LIMIT) > SMALL_LIMIT else NEARLY_ALL.of(case)
    if min(mean(shares), recent) < needed:
        yield Reach(f"{mean(shares):.0%} of the completions are cut off, {recent:.0%} at the end")
        return
    first, last = min(shares), max(shares)
    since = f"({steps_of(len(shares))} since step {first})"
    if surely:
        length = f" of {limit:.0f} tokens" if limit else ""
        message = f"{mean(shares):.1%} of the completions are cut off at the length limit{length} {since}"
    else:
        limit = run.at("completion_length_mean")[first]
        message = f"the mean length is {limit:.0f} tokens at every step, as where a limit cuts all off {since}"
    severity = _severity(len(shares), MANY_STEPS.of(case))
    yield check.finding(
        message,
        severity=severity if surely or severity is not Severity.ERROR else Severity.WARNING,
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


def _one_length(run: Run, limit: int | None) -> tuple[dict[int, float], bool]:
    """Share 1 at every step of a run whose completions all have one length, and whether that is surely their limit:
    the longest at every step, or what the launch allows. Empty where the lengths do not show it; a limit is a whole
    number of tokens."""
    means, longest = finite(run.at("completion_length_mean")), finite(run.at("completion_length_max"))
    lengths = {*means.values(), *longest.values()}
    length = next(iter(lengths), 0.0)
    surely = bool(longest) or length == limit
    if not means or len(lengths) > 1 or length < max(PLAIN_ANSWER, limit or 0) or length % 1:
        return {}, False
    return dict.fromkeys(means, 1.0) if surely or len(means) >= SAME_MEANS else {}, surely


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
