"""Reads the extracts in ``data`` as the log reader hands lines on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.case import Series
from rldoctor.logs import metrics

DATA = Path(__file__).parent / "data"
Metrics = dict[str, Series]


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture
def collected() -> Callable[[str], Metrics]:
    def read(name: str) -> Metrics:
        lines = (DATA / name).read_bytes().decode().split("\n")
        return metrics.collect((name, number, line) for number, line in enumerate(lines, 1))

    return read
