"""A log that is judged as it grows comes to what ``triage`` says of the whole, and costs little on the way."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rldoctor.logs.triage import triage
from rldoctor.model import Report
from rldoctor.watch.live import SHARE, LiveLog
from tests.loaded import REGISTRY
from tests.logs import test_real as real

CHECKS = list(REGISTRY.checks.values())
STEP = (
    "{{'loss': 0.1, 'grad_norm': 0.2, 'learning_rate': 1e-06, 'reward': 0.5, 'reward_std': 0.2, 'epoch': 0.{n:02d}}}\n"
)


class Clock:
    """Seconds that pass when they are told to, and one for every judgement."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


def reported(report: Report) -> tuple[str, list[tuple[str, str]]]:
    assert report.incident is not None
    return report.incident.kind, [(finding.code, finding.message) for finding in report.findings]


@pytest.mark.parametrize("name", sorted(real.EXPECTED)[::4])
def test_piece_by_piece_is_as_good_as_at_once(name: str, tmp_path: Path) -> None:
    data = (real.LOGS / f"{name}.log").read_bytes()
    chance = random.Random(name)
    growing, whole = tmp_path / "growing" / "run.log", tmp_path / "whole" / "run.log"
    for file in (growing, whole):
        file.parent.mkdir()
    whole.write_bytes(data)
    growing.touch()
    log = LiveLog(growing, CHECKS, clock=Clock())
    at = 0
    while at < len(data):
        end = at + chance.randint(1, max(64, len(data) // 6))
        with growing.open("ab") as opened:
            opened.write(data[at:end])
        at = end
        if at < len(data):
            log.look()
    seen = log.look(last=True)
    assert seen.report is not None
    assert reported(seen.report) == reported(triage([str(whole)], CHECKS))


def test_wrapped_lines_are_understood_once_enough_of_them_is_there(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    lines = (
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 3, in <module>',
        "    main()",
        '  File "/app/train.py", line 2, in main',
        "    return {}['tensor_parallel']",
        "KeyError: 'tensor_parallel'",
    )
    text = [f"2026-11-22T10:00:0{n}.000000000Z stderr F {line}\n" for n, line in enumerate(lines)]
    file.write_text("")
    log = LiveLog(file, CHECKS, clock=Clock())
    for line in text:
        with file.open("a") as opened:
            opened.write(line)
        seen = log.look()
    seen = log.look(last=True) if seen.report is None else seen
    assert seen.report is not None and seen.report.incident is not None
    assert seen.report.incident.exception == "KeyError: 'tensor_parallel'"


def test_metrics_go_on_where_the_log_was_rotated(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text("".join(STEP.format(n=n) for n in range(10, 30)))
    clock = Clock()
    log = LiveLog(file, CHECKS, clock=clock)
    log.look()
    file.rename(tmp_path / "run.log.1")
    file.write_text("".join(STEP.format(n=n) for n in range(30, 35)))
    clock.now += 1e6
    seen = log.look()
    assert seen.metrics is not None
    reward = seen.metrics["reward"]
    assert len(reward.steps) == 25
    assert reward.source == str(file)


def test_the_lines_of_a_log_are_counted_as_it_grows(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text("starting\n")
    log = LiveLog(file, CHECKS, clock=Clock())
    for n in range(10, 16):
        with file.open("a") as opened:
            opened.write(f"\r {n}%|#   | {n}/100\r {n}%|#  | {n}/100\n" + STEP.format(n=n))
        log.look()
    file.rename(tmp_path / "run.log.1")
    file.write_text("again\n" + STEP.format(n=16))
    seen = log.look(last=True)
    assert seen.metrics is not None
    assert seen.metrics["reward"].lines == (3, 5, 7, 9, 11, 13, 2)


def test_what_a_busy_machine_delays_does_not_make_judging_dearer(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text(STEP.format(n=1))
    clock = Clock()
    log = LiveLog(file, CHECKS, clock=clock, spent=lambda: 0.0)
    judged = 0
    for n in range(2, 8):
        with file.open("a") as opened:
            opened.write(STEP.format(n=n))
        judged += log.look().report is not None
    assert judged == 6


def test_judging_takes_its_share_of_the_time_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text(STEP.format(n=1))
    clock = Clock()
    log = LiveLog(file, CHECKS, clock=clock, spent=clock)
    judged = []
    for n in range(2, 90):
        with file.open("a") as opened:
            opened.write(STEP.format(n=n))
        clock.now += 10
        judged.append(log.look().report is not None)
    assert 1 <= sum(judged) <= 1 + 90 * 11 * SHARE / 0.5 + 1
    assert log.look(last=True).report is not None
