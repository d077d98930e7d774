"""A W&B folder is watched as a log is: its history as it grows, and what its run printed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.logs.metrics.wandb import Run
from rldoctor.watch import tracked
from rldoctor.watch.live import LiveLog
from tests.commands import run
from tests.loaded import REGISTRY
from tests.watch.test_live import Clock

SICK = {"train/loss": 0.0, "train/grad_norm": 0.0, "train/learning_rate": 1e-6, "train/reward": 0.0}
SICK |= {"train/reward_std": 0.0, "train/frac_reward_zero_std": 1.0}
WHOLE = 1
BLOCK = 32 * 1024


def message(field: int, value: bytes | int) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return varint(field << 3) + varint(value)
    return varint(field << 3 | 2) + varint(len(value)) + value


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def item(name: str, value: float) -> bytes:
    return message(1, name.encode()) + message(16, repr(value).encode())


def history(step: int, values: dict[str, float]) -> bytes:
    items = b"".join(message(1, item(name, value)) for name, value in values.items())
    return message(2, items + message(2, message(1, step)))


def stats(**memory: float) -> bytes:
    return message(7, b"".join(message(3, item(name.replace("_", "."), value)) for name, value in memory.items()))


def framed(record: bytes) -> bytes:
    """As one whole record of LevelDB's format; nothing checks the sum."""
    return struct.pack("<IHB", 0, len(record), WHOLE) + record


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one run, of which only the header is written."""
    made = tmp_path / "wandb" / "run-20261123_010203-abc"
    made.mkdir(parents=True)
    (made / "run-abc.wandb").write_bytes(b":W&B\x19\xbe\x00")
    (tmp_path / "wandb" / "latest-run").symlink_to(made.name)
    return tmp_path


def append(file: Path, *records: bytes) -> None:
    with file.open("ab") as opened:
        for record in records:
            opened.write(framed(record))


def test_the_run_is_found_from_every_folder_above_it(project: Path) -> None:
    found = {tracked.run_of(folder) for folder in (project, project / "wandb", project / "wandb" / "latest-run")}
    (one,) = found
    assert one.history.name == "run-abc.wandb"
    assert one.log == one.history.parent / "files" / "output.log"


def test_a_folder_without_a_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run of W&B"):
        tracked.run_of(tmp_path)


def test_the_history_is_read_on_from_where_it_ended(project: Path) -> None:
    file = tracked.run_of(project).history
    kept = Run(file)
    assert not kept.poll()
    append(file, history(1, SICK))
    assert kept.poll() and kept.series()["reward"].steps == (1,)
    whole = framed(history(2, SICK))
    with file.open("ab") as opened:
        opened.write(whole[:20])
    assert not kept.poll()
    with file.open("ab") as opened:
        opened.write(whole[20:])
    assert kept.poll() and kept.series()["reward"].steps == (1, 2)
    whole_again = Run(file)
    whole_again.poll()
    assert kept.series() == whole_again.series()


def test_names_of_another_framework_that_come_later_count_from_the_beginning(project: Path) -> None:
    file = tracked.run_of(project).history
    kept = Run(file)
    append(file, history(1, {"lr": 1e-6}))
    kept.poll()
    append(file, history(2, {"actor/pg_loss": 0.1, "critic/score/mean": 0.5, "timing_s/gen": 30.0}))
    kept.poll()
    assert {name: one.values[-1] for name, one in kept.series().items()} == {
        "policy_loss": 0.1,
        "reward": 0.5,
        "rollout_seconds": 30.0,
    }


def test_memory_of_devices_and_the_end_of_the_run(project: Path) -> None:
    file = tracked.run_of(project).history
    kept = Run(file)
    append(file, stats(gpu_0_memoryAllocatedBytes=6e10, gpu_1_memoryAllocatedBytes=5e10, gpu_0_temp=60.0))
    kept.poll()
    assert (kept.memory, kept.ended) == ({0: 6e10, 1: 5e10}, False)
    append(file, message(18, message(1, 1)))
    kept.poll()
    assert kept.ended


def test_a_sick_run_without_a_word_in_its_log_is_told_of(project: Path) -> None:
    found = tracked.run_of(project)
    log = LiveLog(found.log, list(REGISTRY.checks.values()), clock=Clock(), history=Run(found.history))
    append(found.history, *(history(step, SICK) for step in range(1, 13)))
    seen = log.look(last=True)
    assert seen.report is not None and seen.metrics is not None
    assert seen.metrics["reward"].steps[-1] == 12
    assert [finding.code for finding in seen.report.findings] == ["RLD501"]


def test_the_folder_is_watched_to_its_end(project: Path) -> None:
    found = tracked.run_of(project)
    append(found.history, *(history(step, SICK) for step in range(1, 13)), message(18, message(1, 1)))
    found.log.parent.mkdir()
    found.log.write_text(
        "Traceback (most recent call last):\n  File \"/app/t.py\", line 1, in <module>\nKeyError: 'x'\n"
    )
    done = run("watch", "wandb", "--every", "0.05", "--idle", "0.3", cwd=project)
    assert done.returncode == 1, done.stderr
    assert "KeyError: 'x'" in done.stdout and "RLD501" in done.stdout


def test_a_folder_that_cannot_be_watched_is_one_line(tmp_path: Path) -> None:
    done = run("watch", ".", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "no run of W&B" in done.stderr
