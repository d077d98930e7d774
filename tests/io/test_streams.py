"""What is written byte for byte does nothing to a terminal, and reaches files and pipes as it is."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor.io.streams import deliver, progress

DIFF = "-model: \x1b]0;title\x07x\n+model: \u202ey\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_escapes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    deliver(DIFF, foreign=True)
    assert screen.getvalue() == "-model: \\x1b]0;title\\x07x\n+model: \\u202ey\n"
    deliver(DIFF, tmp_path / "diff", foreign=True)
    assert (tmp_path / "diff").read_text() == DIFF


def test_a_pipe_gets_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(DIFF, foreign=True)
    assert capsys.readouterr().out == DIFF


def test_a_line_of_progress_has_no_control_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    progress("reading \x1b[2Jx\u202e.log")
    assert capsys.readouterr().err == "rldoctor: reading \\x1b[2Jx\\u202e.log\n"


TICKING = """
import time
from rldoctor.io import streams

streams.SECOND = 0.02
began = time.monotonic()
with streams.ticking(lambda: f"{time.monotonic() - began:.3f} s so far"):
    streams.progress("rollout")
    time.sleep(0.3)
    streams.progress("agreement")
    time.sleep(0.3)
streams.progress("done")
"""


def test_a_terminal_sees_that_something_goes_on_and_keeps_the_lines_alone() -> None:
    ours, theirs = pty.openpty()
    try:
        child = subprocess.run([sys.executable, "-c", TICKING], stderr=theirs, timeout=60, check=False)
        os.set_blocking(ours, False)
        written = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert child.returncode == 0
    assert written.count(" s so far") > 4
    kept = [line.rpartition("\x1b[K")[2] for line in written.replace("\r\n", "\n").split("\n")]
    assert kept == ["rldoctor: rollout", "rldoctor: agreement", "rldoctor: done", ""]


def test_a_pipe_sees_lines_alone() -> None:
    done = subprocess.run([sys.executable, "-c", TICKING], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines() == ["rldoctor: rollout", "rldoctor: agreement", "rldoctor: done"]


FOREIGN = 'evidence\n  ::set-output name=status::0\n{"said": "x ##[set-output name=status;]0"}\n'


def test_a_runner_of_github_obeys_annotations_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch of a pull request could say that its own check passed."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    deliver(FOREIGN)
    progress("##[stop-commands]x")
    written = capsys.readouterr()
    assert written.out.splitlines()[1] == "  \\x3a:set-output name=status::0"
    assert json.loads(written.out.splitlines()[2]) == {"said": "x ##[set-output name=status;]0"}
    assert written.err == "rldoctor: #\\u0023[stop-commands]x\n"
    deliver("::error title=x::y", commands=True)
    assert capsys.readouterr().out == "::error title=x::y\n"


def test_elsewhere_it_is_what_it_was(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    deliver(FOREIGN)
    assert capsys.readouterr().out == FOREIGN
