"""The metrics of training become NaN or infinite, or the policy collapses.

What it looks for
    In the logged metrics: NaN or infinity in loss, gradient norm, KL or entropy that stays, or in the reward; a
    gradient that was there and is exactly 0 from some step on although rewards differ; an entropy that falls by 98%
    from one logged step to the next and stays there; a KL divergence from the reference of 10 nats per token and more
    that had been small; a gradient norm a thousand times that of the beginning; and a reward that was learned and is
    lost, together with an entropy, a KL or a gradient norm that left its range at the same time.

Why it hurts
    Nothing of value is trained any more: every later step and checkpoint is spoiled, and soon the engine samples from
    broken weights, which shows as garbage, as ``!!!!`` or as a crash of the sampler.

How sure it is
    NaN and the vanished gradient are facts. A gradient norm of infinity at single steps is normal with float16 loss
    scaling and stays quiet, and so do noise, spikes that pass, and an entropy that falls slowly while the reward
    grows. Rewards that are NaN come from the reward function: TRL drops them and computes with the rest.

The fix and its cost
    Go back to the last checkpoint before the step. Lower the learning rate (1e-6 is usual for full training, 1e-5 to
    1e-4 for LoRA), keep gradient clipping on, train in bfloat16 instead of float16, raise the KL coefficient, and
    mend a reward function that returns NaN. A difference between the engine's and the trainer's log-probabilities
    (RLD403) ends like this too, only later.

References
    https://github.com/hiyouga/EasyR1/issues/177
    https://github.com/huggingface/transformers/blob/main/src/transformers/training_args.py (with
    ``logging_nan_inf_filter`` a loss of NaN is logged as 0; the gradient norm tells)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise
from statistics import median

from rldoctor.api import (
    Case,
    Check,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    Reach,
    Severity,
    dataclass,
)

from ..observed.trends import FEWEST, Run, finite, head, signal, steps_of, tail

check = Check("RLD504", "training-diverged", __doc__, before=("RLD404",))

UPDATE = ("loss", "policy_loss", "grad_norm", "kl", "entropy")
REWARD = ("reward", "reward_std")
SHOWN = ("loss", "grad_norm", "kl", "entropy", "reward", "learning_rate")
# float16 loss scaling starts too high on purpose: its first steps overflow.
SCALER_STEPS = 10
# The entropy's fall from one step to the next, the level it may not leave again, and what is entropy at all (nats).
FALL, FLOOR, SOME_ENTROPY = 0.02, 0.05, 0.1
# Nats per token. Runs are commonly kept below 0.1; estimators spike, so that the median of the last steps is asked.
KL_EXPLODED = check.threshold("kl", 10.0, "the KL divergence from the reference, in nats per token")
KL_GROWTH = check.threshold("kl-growth", 20.0, "the same as a multiple of the run's first third")
NORM_EXPLODED = check.threshold("grad-norm", 100.0, "the gradient norm")
NORM_GROWTH = check.threshold("grad-norm-growth", 1000.0, "the same as a multiple of the run's first third")
WINDOW = 3
# A reward is lost where all of the last fifth (five steps at least) is below the five best in a row, by most of what
# was gained and several times the usual change from step to step, and another metric left its range fivefold meanwhile:
# entropy in nats, KL in nats per token, the gradient norm.
WIDE, LOST, NOISE, MOVED = 5, 0.7, 3.0, 5.0
FOLLOWS = {"entropy": 0.05, "kl": 0.1, "grad_norm": 10.0}
LARGE_RATE = 0.01
USUAL_RATE = 1e-6  # of full training; nobody is told to come down to what they have
# A line that is printed this often is no single accident.
REPEATED = 3


@dataclass(frozen=True)
class _Divergence:
    step: int
    what: str
    severity: Severity
    names: tuple[str, ...] = SHOWN


@check.observed(needs=["metrics"])
def left_its_range(case: Case) -> Iterator[Finding | Reach]:
    """All signs of divergence, the earliest as the finding's headline."""
    run = Run.of(case)
    if not run.has(*UPDATE, *REWARD):
        raise NotApplicable("no loss, gradient norm, KL, entropy or reward is logged")
    signs = sorted(_signs(run), key=lambda sign: (sign.severity is not Severity.ERROR, sign.step))
    if not signs:
        logged = [name for name in (*UPDATE, *REWARD) if run.has(name)]
        steps = {step for name in logged for step in run.at(name)}
        yield Reach(f"{', '.join(logged)} stay finite and in range at {steps_of(len(steps))}")
        return
    yield check.finding(
        "; ".join(sign.what for sign in signs),
        severity=signs[0].severity,
        grade=Grade.OBSERVED,
        evidence=tuple(_evidence(run, signs)),
        fixes=tuple(_remedies(run, signs)),
    )


# TRL and ms-swift, which go on with the other completions' rewards.
# https://github.com/huggingface/trl/blob/main/trl/trainer/grpo_trainer.py
@check.logged("All reward functions returned None for", silent=True)
def reward_missing(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Completions that no reward function gave a number."""
    times = "once" if event.count == 1 else f"{event.count} times"
    yield check.finding(
        f"the reward functions returned None or NaN for a completion ({times}): it is left out of the statistics",
        severity=Severity.WARNING if event.count >= REPEATED else Severity.NOTE,
        grade=Grade.OBSERVED,
        evidence=(event.evidence(),),
        fixes=(_FINITE_REWARD,),
    )


# verl and SkyRL ("grad_norm is not finite"), EasyR1 ("Gradient norm is not finite. Skip update.").
# https://github.com/verl-project/verl/blob/main/verl/workers/engine/fsdp/transformer_impl.py
# https://github.com/hiyouga/EasyR1/blob/main/verl/workers/actor/dp_actor.py
@check.logged("grad_norm is not finite", "Gradient norm is not finite", silent=True)
def updates_skipped(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Updates that the framework leaves out because of their gradient."""
    if event.count >= REPEATED:
        yield check.finding(
            f"the gradient norm was not finite {event.count} times and these updates were skipped",
            severity=Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=(event.evidence(),),
            fixes=tuple(_update_remedies(Run.of(case), None)),
        )


# Sampling in PyTorch from weights that are NaN; without a sign of divergence before it the outputs are the matter.
@check.logged("probability tensor contains either `inf`, `nan` or element < 0")
def sampler_met_nan(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A crash of the sampler after the metrics had left their range."""
    run = Run.of(case)
    rates = finite(run.at("learning_rate"))
    diverged, rate = first_divergence(run), max(rates.values(), default=0.0)
    if diverged is None and rate < LARGE_RATE:
        return
    step = diverged if diverged is not None else max(rates)
    yield check.finding(
        f"sampling fails on probabilities that are NaN or infinite, after step {step}"
        + (f" with a learning rate of {rate:.3g}" if rate >= LARGE_RATE else ", at which training diverged"),
        grade=Grade.OBSERVED,
        evidence=(event.evidence(), run.evidence(step, *SHOWN)),
        fixes=tuple(_update_remedies(run, step)),
    )


def first_divergence(run: Run) -> int | None:
    """The step at which the update itself went wrong, None where it did not."""
    return min((sign.step for sign in _signs(run) if not set(sign.names) <= set(REWARD)), default=None)


def _signs(run: Run) -> Iterator[_Divergence]:
    yield from _not_finite(run)
    yield from _vanished_gradient(run)
    yield from _fallen_entropy(run)
    yield from _exploded(run, "kl", KL_EXPLODED.of(run.case), KL_GROWTH.of(run.case))
    yield from _exploded(run, "grad_norm", NORM_EXPLODED.of(run.case), NORM_GROWTH.of(run.case))
    yield from _lost_reward(run)


def _not_finite(run: Run) -> Iterator[_Divergence]:
    for name in (*UPDATE, *REWARD):
        values = run.at(name)
        bad = [step for step, value in values.items() if not math.isfinite(value)]
        if not bad or not (_stays(values) or (name in REWARD and len(bad) >= FEWEST)):
            continue
        if name == "grad_norm" and len(bad) == len(values) and len(values) < SCALER_STEPS and _infinite(values):
            continue
        key = run.metrics[name].key
        what = f"{key} is {values[bad[0]]} from step {bad[0]} on ({len(bad)} of {steps_of(len(values))})"
        spoiled = name not in REWARD or FEWEST <= len(values) <= 2 * len(bad)
        severity = Severity.ERROR if spoiled else Severity.WARNING
        yield _Divergence(bad[0], what, severity, REWARD if name in REWARD else SHOWN)


def _stays(values: dict[int, float]) -> bool:
    """Whether the run ends with a value that is not finite: at its last step, or at three in a row before it."""
    ordered = [math.isfinite(values[step]) for step in sorted(values)]
    return not ordered[-1] or any(not any(ordered[i : i + FEWEST]) for i in range(len(ordered) - FEWEST + 1))


def _infinite(values: dict[int, float]) -> bool:
    return all(math.isinf(value) for value in values.values() if not math.isfinite(value))


def _vanished_gradient(run: Run) -> Iterator[_Divergence]:
    norms, reported = finite(run.at("grad_norm")), signal(run)
    positive = [step for step, norm in norms.items() if norm > 0]
    after = [step for step in norms if positive and step > positive[-1]]
    learnable = [step for step in after if reported.get(step)]
    if len(learnable) >= FEWEST:
        what = (
            f"the gradient norm is exactly 0 since step {after[0]} although rewards differ, after "
            f"{norms[positive[-1]]:.4g} at step {positive[-1]}: that update broke the weights"
        )
        yield _Divergence(after[0], what, Severity.ERROR)


def _fallen_entropy(run: Run) -> Iterator[_Divergence]:
    entropies = finite(run.at("entropy"))
    steps = sorted(entropies)
    highest_later = list(accumulate((abs(entropies[step]) for step in reversed(steps)), max))[::-1]
    for index in range(1, len(steps) - FEWEST + 1):
        before, after = entropies[steps[index - 1]], abs(entropies[steps[index]])
        if before >= SOME_ENTROPY and after <= FALL * before and highest_later[index] <= FLOOR * before:
            what = f"the entropy falls from {before:.4g} to {after:.4g} at step {steps[index]} and stays there"
            yield _Divergence(steps[index], what, Severity.ERROR)
            return


def _exploded(run: Run, name: str, bound: float, growth: float) -> Iterator[_Divergence]:
    values = finite(run.at(name))
    if len(values) < 2 * WINDOW:
        return
    early, late = head(values, len(values) // 3), tail(values, WINDOW)
    if late < bound or late < growth * early:
        return
    step = next(step for step in sorted(values) if values[step] >= bound and values[step] >= growth * early)
    what = f"{run.metrics[name].key} grows from {early:.4g} to {late:.4g}, beyond {bound:g} since step {step}"
    yield _Divergence(step, what, Severity.ERROR if name == "kl" else Severity.WARNING, (name, *SHOWN))


def _lost_reward(run: Run) -> Iterator[_Divergence]:
    rewards = finite(run.at("reward"))
    steps = sorted(rewards)
    values = [rewards[step] for step in steps]
    end = max(WIDE, len(steps) // 5)
    if len(steps) < 2 * WIDE + FEWEST:
        return
    smooth = [median(values[index : index + WIDE]) for index in range(len(values) - end - WIDE + 1)]
    top = max(range(len(smooth)), key=smooth.__getitem__)
    around, after = values[top : top + WIDE], values[-end:]
    start, best, last = median(values[:WIDE]), smooth[top], median(after)
    noise = median(abs(a - b) for a, b in pairwise(values))
    lost = best - last >= max(LOST * (best - min(start, last)), NOISE * noise) and max(after) < min(around)
    peak = steps[top + WIDE // 2]
    moved = [name for name in FOLLOWS if lost and _left(run, name, peak)]
    if moved:
        step = next(s for s, value in zip(steps, values, strict=True) if s > peak and value < min(around))
        shifts = ", ".join(
            f"{run.metrics[n].key} {_upto(run, n, peak):.4g} to {tail(run.at(n), WIDE):.4g}" for n in moved
        )
        what = f"the reward falls from {best:.4g} around step {peak} to {last:.4g} and stays there, with {shifts}"
        yield _Divergence(step, what, Severity.WARNING, ("reward", *SHOWN))


def _upto(run: Run, name: str, peak: int) -> float:
    return tail({step: value for step, value in run.at(name).items() if step <= peak}, WIDE)


def _left(run: Run, name: str, peak: int) -> bool:
    """Whether a metric left the range it had at the peak of the reward, and is large (or for entropy was) by now."""
    before, after = abs(_upto(run, name, peak)), abs(tail(run.at(name), WIDE))
    return max(before, after) >= FOLLOWS[name] and (
        after >= MOVED * before or (name == "entropy" and before >= MOVED * after)
    )


def _evidence(run: Run, signs: list[_Divergence]) -> Iterator[Evidence]:
    step = signs[0].step
    logged = sorted({s for name in SHOWN for s in run.at(name)})
    yield from (run.evidence(s, *signs[0].names) for s in [s for s in logged if s < step][-1:])
    yield run.evidence(step, *dict.fromkeys((*signs[0].names, *SHOWN)))


_FINITE_REWARD = Fix(
    title="return a finite number for every completion from the reward function (no NaN, None or infinity): guard "
    "divisions, logarithms and parsing"
)


def _remedies(run: Run, signs: list[_Divergence]) -> Iterator[Fix]:
    of_reward = [sign for sign in signs if set(sign.names) <= set(REWARD)]
    if of_reward and not _groups_of_one(run):
        yield _FINITE_REWARD
    if _groups_of_one(run):
        yield Fix.unsafe(
            "sample two or more completions per prompt: the deviation within a group of one is no number, and every "
            "advantage with it",
            {"batch.generations": 8},
            side_effects="more completions per step",
        )
    elif len(of_reward) < len(signs):
        yield from _update_remedies(run, signs[0].step)


def _groups_of_one(run: Run) -> bool:
    """Whether the deviation of rewards is NaN at every step although rewards are not: torch.std of a single one."""
    deviations = run.at("reward_std")
    return bool(deviations) and bool(finite(run.at("reward"))) and all(math.isnan(v) for v in deviations.values())


def _update_remedies(run: Run, step: int | None) -> Iterator[Fix]:
    if step is not None and step <= min((s for name in UPDATE for s in run.at(name)), default=step - 1):
        # No update came before the first step: the learning rate is not why.
        yield Fix(
            title="see what the first loss is computed from: completions without a token (an empty mask divides by 0), "
            "log-probabilities of -inf, weights that overflow in float16",
            edits=(Edit(option="trainer.dtype", value="bfloat16"),),
        )
        return
    rate = max(finite(run.at("learning_rate")).values(), default=0.0)
    size = f" ({rate:.3g} is far outside of what is usual)" if rate >= LARGE_RATE else f" ({rate:.3g})" if rate else ""
    back = f"go back to a checkpoint before step {step} and " if step is not None else ""
    usual = (
        ", to a third of it" if 0 < rate <= USUAL_RATE else ": 1e-6 is usual for full training, 1e-5 to 1e-4 for LoRA"
    )
    yield Fix(title=f"{back}lower learning_rate{size}{usual}; keep max_grad_norm at 1.0 or below")
    yield Fix(
        title="train in bfloat16, not float16, and give the KL term weight",
        edits=(Edit(option="trainer.dtype", value="bfloat16"), Edit(option="trainer.kl_coefficient", value=0.001)),
        side_effects="a reference model for the KL term costs its memory and one forward pass",
    )


# DeepSpeed and Megatron halve the scale at every overflow.
check.signature(
    "Current loss scale already at minimum",
    says="every step overflowed in float16 until the loss scale could not fall any more: the gradients are not finite",
    fixes=(
        Fix.unsafe("train in bfloat16, which needs no loss scale", {"trainer.dtype": "bfloat16"}),
        Fix(
            title="where only float16 is there: a lower learning rate, and find the first step whose loss is not finite"
        ),
    ),
    url="https://www.deepspeed.ai/docs/config-json/#fp16-training-options",
)
