"""Records over several lines: EasyR1's YAML with numpy scalars, SkyRL's pretty print, NeMo-RL's results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rldoctor.case import Series
from rldoctor.logs import metrics

Collected = Callable[[str], dict[str, Series]]


def test_easyr1(collected: Collected) -> None:
    found = collected("easyr1.txt")
    assert found["reward"].steps == (1, 2, 3)
    assert found["learning_rate"].values == (1e-06, 1e-06, 1e-06)
    assert found["grad_norm"].values == pytest.approx((0.396061, 0.329935, 0.250367), rel=1e-5)


def test_skyrl(collected: Collected) -> None:
    found = collected("skyrl.txt")
    assert found["advantage_abs"].values == (0.71, 0.71, 0.71, 0.71)
    assert found["sampling_logp_difference_mean"].values[0] == 0.0123
    assert "learning_rate" not in found, "printed as 0.0000"


def test_nemo_rl(collected: Collected) -> None:
    found = collected("nemo_rl.txt")
    assert found["sampling_kl"].values == (0.0011, 0.0011, 0.35, 0.35)
    assert found["reward"].lines == (2, 17, 32, 47)


def test_a_block_without_an_end_counts() -> None:
    lines = ["Step 7", "actor:", "  grad_norm: 0.5", "  pg_loss: 0.1"]
    found = metrics.collect(("log", n, line) for n, line in enumerate(lines, 1))
    assert found["grad_norm"].steps == (7,)


def test_two_actors_write_at_once() -> None:
    lines = [
        "(Runner pid=1) Step 3",
        "(Worker pid=2) grad_norm: 9.0",
        "(Runner pid=1) actor:",
        "(Worker pid=2) loading",
        "(Runner pid=1)   grad_norm: 0.5",
        "(Runner pid=1)   pg_loss: 0.25",
        "(Runner pid=1) ",
    ]
    found = metrics.collect(("log", n, line) for n, line in enumerate(lines, 1))
    assert found["grad_norm"].values == (0.5,)


@pytest.mark.parametrize("lines", [["Step 3", "of the tutorial: open the file"], ["Step 3:", "do this"], ["Step 3"]])
def test_prose_opens_nothing(lines: list[str]) -> None:
    assert metrics.collect(("log", n, line) for n, line in enumerate(lines, 1)) == {}
