"""The metrics of a run side by side, step by step: what the checks of the training signal have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, median

from rldoctor.api import Case, Evidence, dataclass
from rldoctor.api.facts import Series

# Fewer logged steps than this show no trend: what they suggest is a note.
FEWEST = 3
# Relative to the reward, a standard deviation below this is rounding (TRL logs 3e-08 for a constant reward of 0.4).
EQUAL = 1e-6
# Mean rewards of this many batches that are all the same to the last digit come from a constant.
SAME_MEANS = 5
# The engine's log-probabilities against the trainer's, per token: what is noise, what is not, and the steps that show
# it to grow.
DIFFERENCE = "sampling_logp_difference_mean"
NOISE, GROWN, FEWEST_GROWING = 0.05, 0.3, 6


@dataclass(frozen=True)
class Run:
    """The series of one run, aligned by step, and the case that they are of."""

    case: Case
    metrics: dict[str, Series]

    @classmethod
    def of(cls, case: Case) -> Run:
        return cls(case, case.metrics or {})

    def at(self, name: str) -> dict[int, float]:
        """Step to value of one metric; empty where it was not logged."""
        series = self.metrics.get(name)
        return dict(zip(series.steps, series.values, strict=True)) if series else {}

    def has(self, *names: str) -> bool:
        """Whether any of the metrics was logged."""
        return any(name in self.metrics for name in names)

    def evidences(self, steps: Iterable[int], *names: str) -> tuple[Evidence, ...]:
        """The same for several steps, each once."""
        return tuple(self.evidence(step, *names) for step in dict.fromkeys(steps))

    def evidence(self, step: int, *names: str) -> Evidence:
        """The values of some metrics at one step, under the framework's own names, with the place of the first."""
        once = dict.fromkeys(names)
        shown = [(self.metrics[name], value) for name in once if (value := self.at(name).get(step)) is not None]
        text = f"step {step}: " + ", ".join(f"{series.key} {value:.4g}" for series, value in shown)
        if not shown:
            return Evidence(text=f"step {step}")
        series = shown[0][0]
        line = series.lines[series.steps.index(step)] if series.lines else None
        return Evidence(text=text, source=series.source, line=line or None)


def signal(run: Run) -> dict[int, bool]:
    """Step to whether any group of completions had differing rewards there, for the steps that tell.

    ``frac_reward_zero_std`` is the share of completions whose group has none; a reward deviation of 0 and advantages
    that are all 0 say the same of all groups (a deviation over the whole batch above 0 says nothing). Where only a mean
    reward is logged, one that never changes is that of a constant."""
    share, spread, reward = run.at("frac_reward_zero_std"), run.at("reward_std"), run.at("reward")
    highest, lowest, size = run.at("advantage_max"), run.at("advantage_min"), run.at("advantage_abs")
    top, bottom = run.at("reward_max"), run.at("reward_min")
    reported: dict[int, bool] = {}
    for step in sorted(share.keys() | spread.keys() | highest.keys() | size.keys() | top.keys()):
        none = [
            _at_least(share.get(step), 1 - EQUAL),
            _at_most(spread.get(step), EQUAL * max(1.0, abs(_finite(reward.get(step)) or 0.0))),
            _at_most(_range(highest.get(step), lowest.get(step)), EQUAL),
            _at_most(size.get(step), EQUAL),
        ]
        # Rewards that are equal in the whole batch are equal in every group; the reverse is not known.
        if _at_most(_range(top.get(step), bottom.get(step)), EQUAL):
            none.append(True)
        if True in none:
            reported[step] = False
        elif False in none and not _broken(reward.get(step), spread.get(step)):
            reported[step] = True
    if not reported and len(reward) >= SAME_MEANS and len(set(reward.values())) == 1:
        return dict.fromkeys(sorted(reward), False)
    return reported


def _broken(*values: float | None) -> bool:
    """Whether a logged value is NaN or infinite: what was computed from it tells nothing."""
    return any(value is not None and not math.isfinite(value) for value in values)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _range(high: float | None, low: float | None) -> float | None:
    return None if high is None or low is None else high - low


def _at_least(value: float | None, bound: float) -> bool | None:
    known = _finite(value)
    return None if known is None else known >= bound


def _at_most(value: float | None, bound: float) -> bool | None:
    known = _finite(value)
    return None if known is None else known <= bound


def trailing(reported: dict[int, bool], wanted: bool) -> list[int]:
    """The steps at the end of the run that all have the wanted value, in order."""
    steps: list[int] = []
    for step in sorted(reported, reverse=True):
        if reported[step] is not wanted:
            break
        steps.append(step)
    return steps[::-1]


def finite(values: dict[int, float]) -> dict[int, float]:
    """Without NaN and infinities."""
    return {step: value for step, value in values.items() if math.isfinite(value)}


def head(values: dict[int, float], count: int) -> float:
    """The median of the first finite values; NaN where there are none."""
    first = list(finite(values).values())[:count]
    return median(first) if first else math.nan


def tail(values: dict[int, float], count: int) -> float:
    """The median of the last finite values; NaN where there are none."""
    last = list(finite(values).values())[-count:]
    return median(last) if last else math.nan


def mean(values: dict[int, float]) -> float:
    """The mean of the finite values; NaN where there are none."""
    known = list(finite(values).values())
    return fmean(known) if known else math.nan


def steps_of(count: int) -> str:
    """``1 step``, ``4 steps``."""
    return f"{count} step" if count == 1 else f"{count} steps"


def leaves_the_trainer(run: Run) -> bool | None:
    """Whether the difference starts within noise and grows steadily; None where too little is logged."""
    values = finite(run.at(DIFFERENCE))
    steps = sorted(values)
    if len(steps) < FEWEST_GROWING:
        return None
    third = len(steps) // 3
    early, middle, late = (
        median(values[step] for step in part) for part in (steps[:third], steps[third:-third], steps[-third:])
    )
    return values[steps[0]] <= NOISE and early < middle < late and late >= GROWN and late >= 6 * max(early, 0.01)
