"""The metrics of a run, with the steps that its findings name."""

from __future__ import annotations

import math

from rldoctor.case import Case, Series
from rldoctor.exhibits.model import Curve
from rldoctor.model import Report

# What a person looks at first; other metrics are in the log.
SHOWN = {
    "reward": "reward",
    "reward_std": "spread of rewards",
    "loss": "loss",
    "policy_loss": "policy loss",
    "grad_norm": "gradient norm",
    "kl": "KL",
    "sampling_logp_difference_mean": "log-probability gap",
    "sampling_kl": "KL of engine and trainer",
    "entropy": "entropy",
    "completion_length_mean": "completion length",
    "clipped_ratio": "truncated share",
    "learning_rate": "learning rate",
    "rollout_seconds": "rollout time, s",
    "update_seconds": "update time, s",
    "step_seconds": "step time, s",
    "memory_gib": "GPU memory, GiB",
}
# Points of a curve on a page; of longer ones every n-th is kept, and each that is marked or no number.
POINTS = 400


def of(case: Case, report: Report) -> tuple[Curve, ...]:
    """The curves of the metrics that are shown, those of at least two steps."""
    metrics = case.metrics or {}
    return tuple(
        _curve(name, metrics[metric], report)
        for metric, name in SHOWN.items()
        if metric in metrics and len(metrics[metric].steps) > 1
    )


def _curve(name: str, series: Series, report: Report) -> Curve:
    marked = _marked(series, report)
    values = [value if math.isfinite(value) else None for value in series.values]
    stride = max(1, math.ceil(len(values) / POINTS))
    kept = [
        place
        for place, (step, value) in enumerate(zip(series.steps, values, strict=True))
        if place % stride == 0 or place == len(values) - 1 or step in marked or value is None
    ][: 4 * POINTS]
    return Curve(
        name=name,
        key=series.key,
        steps=tuple(series.steps[place] for place in kept),
        values=tuple(values[place] for place in kept),
        marked=tuple(sorted(marked)),
    )


def _marked(series: Series, report: Report) -> set[int]:
    """The steps of the lines that findings cite."""
    cited = {(e.source, e.line) for finding in report.findings for e in finding.evidence if e.line}
    lines = zip(series.lines, series.steps, strict=False)
    return {step for line, step in lines if (series.source, line) in cited}
