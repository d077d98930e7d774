"""What the names of log files say of the processes that wrote them."""

from __future__ import annotations

import pytest

from rldoctor.logs.paths import origin_of


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank_3.log", "3"),
        ("logs/rank12.err", "12"),
        ("none_abc/attempt_0/5/stderr.log", "5"),
        ("stdout.7.txt", "7"),
        ("3.out", "3"),
        ("8812_3.out", "3"),
        ("runs/8812_17.err", "17"),
        ("job128-01.out", "1"),
        ("8812_node0137_4.out", "4"),
        # The number of a job, of an array's task, of a step, a date: no ranks.
        ("8812.out", None),
        ("logs/553019.err", None),
        ("slurm-8812.out", None),
        ("slurm-8812_3.out", None),
        ("job128.0.out", None),
        ("20261102_153.log", None),
        ("2026-11-02.log", None),
        ("grpo_1024_8.log", None),
        ("train.log", None),
    ],
)
def test_the_rank_in_a_name(path: str, rank: str | None) -> None:
    assert origin_of(path).rank == rank


def test_the_node_in_a_name() -> None:
    assert origin_of("8812_node0137_4.out").node == "node0137"
