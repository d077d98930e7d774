"""What a watched run looks like: its latest step in one line, or as a table on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rldoctor.case import Series
from rldoctor.exhibits.metrics import SHOWN
from rldoctor.records import dataclass
from rldoctor.report.pictures import trend
from rldoctor.watch.devices import Used
from rldoctor.watch.devices import line as line_of

_TREND = 24


@dataclass
class Pace:
    """How long a step takes, by when its line came."""

    step: int | None = None
    since: float = 0.0
    seconds: float | None = None

    def at(self, step: int | None, now: float) -> None:
        """Takes the latest step that is known at a time, in seconds."""
        if step is None or step == self.step:
            return
        if self.step is not None and step > self.step:
            self.seconds = (now - self.since) / (step - self.step)
        self.step, self.since = step, now


def latest(metrics: Mapping[str, Series]) -> int | None:
    """The last step of any metric."""
    return max((series.steps[-1] for series in metrics.values() if series.steps), default=None)


def line(metrics: Mapping[str, Series], pace: Pace, devices: tuple[Used, ...] = ()) -> str:
    """The latest step in one line."""
    values = [f"{name} {_number(metrics[key].values[-1])}" for key, name in SHOWN.items() if _has(metrics, key)]
    step = latest(metrics)
    head = f"step {step}" if step is not None else "no step yet"
    last = [f"{pace.seconds:.1f} s a step"] if pace.seconds is not None else []
    last += [line_of(devices)] if devices else []
    return ", ".join([head, *values, *last])


def screen(
    name: str, metrics: Mapping[str, Series], pace: Pace, silent: float, devices: tuple[Used, ...] = ()
) -> RenderableType:
    """A table of the metrics: the latest value, the least and the largest, and the trend; below it the memory of the
    run's devices. ``silent`` are the seconds since the last line."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("metric")
    for column in ("now", "least", "most"):
        table.add_column(column, justify="right")
    table.add_column("")
    for key, title in SHOWN.items():
        if _has(metrics, key):
            values = metrics[key].values
            finite = [value for value in values if math.isfinite(value)]
            ends = (_number(min(finite)), _number(max(finite))) if finite else ("-", "-")
            table.add_row(title, _number(values[-1]), *ends, Text(trend(values[-_TREND:]), style="blue"))
    step = latest(metrics)
    parts = [name, f"step {step}" if step is not None else "no step yet"]
    parts += [f"{pace.seconds:.1f} s a step"] if pace.seconds is not None else []
    parts += [f"silent for {silent:.0f} s"] if silent >= 10 else []
    shown: list[RenderableType] = [Text(", ".join(parts), style="bold")]
    shown += [table] if table.row_count else []
    shown += [Text(line_of(devices))] if devices else []
    return Group(*shown)


def _has(metrics: Mapping[str, Series], key: str) -> bool:
    return key in metrics and bool(metrics[key].values)


def _number(value: float) -> str:
    return f"{value:.4g}"
