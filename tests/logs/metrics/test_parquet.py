"""Completions as TRL keeps them in Parquet files, read without pyarrow."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.logs import metrics
from rldoctor.logs.metrics import parquet
from rldoctor.logs.metrics.wire import DamagedError

NAMES = frozenset({"step", "prompt", "completion"})


def test_columns_of_text_and_numbers(data: Path) -> None:
    found = parquet.columns(data / "completions_00001.parquet", NAMES)
    assert found["step"] == [[1]] * 8
    assert [row[0] for row in found["prompt"]] == ["5+5="] * 4 + ["15+15="] * 4
    assert len({str(row) for row in found["completion"]}) == 2


def test_dialogues_are_nested(data: Path) -> None:
    found = parquet.columns(data / "completions_chat.parquet", NAMES)
    assert found["prompt"] == [["user", "q0"], ["user", "q0"], ["user", "q1"], ["user", "q1"]]
    assert found["completion"][2] == ["assistant", "text 2"]


def test_one_file_for_each_step(data: Path, tmp_path: Path) -> None:
    for name in ("completions_00001.parquet", "completions_00002.parquet", "completions_chat.parquet"):
        shutil.copy(data / name, tmp_path)
    found = metrics.read_files([tmp_path])
    assert found["sampled_groups"].steps == (1, 2, 7)
    assert found["sampled_groups_identical"].values == (2.0, 2.0, 1.0)


def test_damaged_files_are_named(data: Path, tmp_path: Path) -> None:
    raw = (data / "completions_00001.parquet").read_bytes()
    chance = random.Random(4)
    file = tmp_path / "completions_00001.parquet"
    for trial in range(500):
        damaged = bytearray(raw if trial % 3 else raw[: chance.randrange(len(raw))] + raw[-8:])
        for _ in range(3):
            damaged[chance.randrange(4, len(damaged) - 4)] = chance.randrange(256)
        file.write_bytes(damaged)
        try:
            parquet.columns(file, NAMES)
        except DamagedError:
            continue


def test_another_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "completions_00001.parquet"
    file.write_text("no table")
    with pytest.raises(InputError, match="not a Parquet file"):
        metrics.read_files([file])
