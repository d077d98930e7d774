"""Files and folders of metrics."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.logs import metrics
from rldoctor.logs.metrics import files


def test_trainer_state(data: Path) -> None:
    found = metrics.read_files([data / "trainer_state.json"])
    assert found["reward"].steps == (1, 2, 3, 4)
    assert found["completion_length_max"].values == (32.0, 32.0, 32.0, 32.0)


def test_null_in_a_state_file_was_nan(data: Path) -> None:
    assert all(math.isnan(v) for v in metrics.read_files([data / "nan_state" / "trainer_state.json"])["reward"].values)


def test_a_run_folder(data: Path, tmp_path: Path) -> None:
    for name in ("checkpoint-2", "checkpoint-4", "runs"):
        (tmp_path / name).mkdir()
    shutil.copy(data / "trainer_state.json", tmp_path / "checkpoint-4" / "trainer_state.json")
    shutil.copy(data / "events.out.tfevents.1", tmp_path / "runs")
    (tmp_path / "checkpoint-2" / "trainer_state.json").write_text('{"log_history": [')
    (tmp_path / "adapter_config.json").write_text("{}")
    found = metrics.read_files([tmp_path])
    assert found["terminated_length_mean"].steps == (1, 2, 3, 4)
    assert len(found["loss"].steps) == 5, "the longest series is kept"


def test_links_that_go_in_circles(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path)
    assert metrics.read_files([tmp_path]) == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [("trainer_state.json", b"{"), ("trainer_state.json", b"\xff\xfe\x00"), ("trainer_state.json", b"[" * 100_000)],
)
def test_a_named_file_that_is_damaged_is_reported(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="not valid JSON"):
        metrics.read_files([tmp_path / name])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        metrics.read_files([tmp_path / "x.jsonl"])


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"[]", b'{"log_history": 3}', b'{"log_history": [1, null]}'])
def test_nothing_to_find(tmp_path: Path, content: bytes) -> None:
    for name in ("a.jsonl", "output.log", "events.out.tfevents.9", "wandb-summary.json"):
        (tmp_path / name).write_bytes(content)
    assert metrics.read_files([tmp_path]) == {}


def test_a_line_that_never_ends_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    file = tmp_path / "run.jsonl"
    file.write_text("x" * 50_000 + '\n{"step": 2, "loss": 1.0, "grad_norm": 0.5}\n')
    assert metrics.read_files([file])["loss"].lines == (2,)
