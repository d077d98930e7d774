"""Cases that hold nothing but metrics: those of a logged run, or made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.api import Case
from rldoctor.api.facts import Series
from rldoctor.logs import metrics

DATA = Path(__file__).parents[1] / "logs" / "metrics" / "data"


@pytest.fixture
def logged() -> Callable[[str], Case]:
    """The case of one of the runs in ``tests/logs/metrics/data``."""

    def read(name: str) -> Case:
        lines = (DATA / name).read_bytes().decode().split("\n")
        return Case(metrics=metrics.collect((name, number, line) for number, line in enumerate(lines, 1)))

    return read


@pytest.fixture
def made() -> Callable[..., Case]:
    """A case with the given values at steps 1, 2, 3, ..."""

    def make(**values: list[float]) -> Case:
        return Case(
            metrics={
                name: Series(key=name, steps=tuple(range(1, len(row) + 1)), values=tuple(row))
                for name, row in values.items()
            }
        )

    return make
