"""Logged completions: groups in which all are the same are counted, those that cannot be told are left out."""

from __future__ import annotations

import json
from collections.abc import Callable

from rldoctor.case import Series
from rldoctor.frameworks.samples import Sample
from rldoctor.logs import metrics
from rldoctor.logs.metrics.samples import count

Collected = Callable[[str], dict[str, Series]]


def counts(*samples: Sample) -> tuple[float, float] | None:
    reading = count(samples, 1)
    if reading is None:
        return None
    return reading.values["sampled_groups"][1], reading.values["sampled_groups_identical"][1]


def test_trl_table_of_greedy_sampling(collected: Collected) -> None:
    found = collected("trl_top_k_1.txt")
    assert found["sampled_groups"].steps == (1, 2, 3, 4)
    assert found["sampled_groups_identical"].values == (2.0, 2.0, 2.0, 2.0)
    assert found["loss"].steps == (1, 2, 3, 4), "the tables take no records away"


def test_trl_table_of_healthy_sampling(collected: Collected) -> None:
    found = collected("trl_sampled_completions.txt")
    assert sum(found["sampled_groups"].values) > 0
    assert sum(found["sampled_groups_identical"].values) == 0


def test_ms_swift_table(collected: Collected) -> None:
    assert collected("ms_swift_completions.jsonl")["sampled_groups_identical"].values == (2.0, 2.0, 2.0)


def test_verl_dump() -> None:
    rows = [{"input": "2+2=", "output": f"the answer is {n // 2}", "score": 1.0, "step": 4} for n in range(4)]
    lines = [("4.jsonl", n, json.dumps(row)) for n, row in enumerate(rows, 1)]
    found = metrics.collect(lines)
    assert found["sampled_groups"].values == (1.0,) and found["sampled_groups_identical"].values == (0.0,)


def test_groups_of_one_tell_nothing() -> None:
    assert counts(Sample("a", "some completion"), Sample("b", "some completion")) is None


def test_short_answers_may_be_the_same() -> None:
    assert counts(Sample("2+2=", "4"), Sample("2+2=", "4")) is None


def test_what_the_log_cut_off_may_differ() -> None:
    cut = Sample("a", "a long beginning that all completions share", whole=False)
    assert counts(cut, cut) is None


def test_one_different_completion_is_enough() -> None:
    assert counts(Sample("a", "same text here"), Sample("a", "same text here"), Sample("a", "other text")) == (1.0, 0.0)
