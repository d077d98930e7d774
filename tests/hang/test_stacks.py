"""Stacks of real processes, and what cannot be read."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from rldoctor.hang import stacks
from rldoctor.hang.stacks import UnreadableError
from tests.hang.conftest import Start

SLEEPS = """
import threading, time
def waits():
    print("ready", flush=True)
    time.sleep(600)
def other():
    time.sleep(600)
threading.Thread(target=other, name="side", daemon=True).start()
waits()
"""
# Without dumpable memory the kernel lets nobody without CAP_SYS_PTRACE look, as a container or yama does.
HIDES = "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + SLEEPS


def test_every_thread_with_its_lines(start: Start, py_spy: str) -> None:
    program = start(SLEEPS)
    program.until("ready")
    read = {stack.name: stack for stack in stacks.read(py_spy, program.pid)}
    assert set(read) == {"MainThread", "side"}
    assert read["MainThread"].main and not read["side"].main
    assert [(Path(f.file).name, f.line, f.function) for f in read["MainThread"].frames] == [
        ("program.py", 9, "<module>"),
        ("program.py", 5, "waits"),
    ]
    assert read["MainThread"].thread == program.pid


def test_a_stopped_process_is_read_and_stays_stopped(start: Start, py_spy: str) -> None:
    program = start(SLEEPS)
    program.until("ready")
    os.kill(program.pid, signal.SIGSTOP)
    assert any(stack.main for stack in stacks.read(py_spy, program.pid))
    assert Path(f"/proc/{program.pid}/stat").read_text().split()[2] == "T"


def test_a_process_that_has_gone(start: Start, py_spy: str) -> None:
    program = start("")
    program.end()
    with pytest.raises(UnreadableError):
        stacks.read(py_spy, program.pid)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look at everything; test_hang drops that right")
def test_a_process_that_may_not_be_read(start: Start, py_spy: str) -> None:
    program = start(HIDES)
    program.until("ready")
    with pytest.raises(UnreadableError, match="--cap-add SYS_PTRACE"):
        stacks.read(py_spy, program.pid)


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("echo nonsense", "something else than stacks"),
        ("echo '[{}]'", "something else than stacks"),
        ("echo 'Error: no such process' >&2; exit 1", "py-spy: Error: no such process"),
        ("exit 3", "without a word"),
        ("echo 'Operation not permitted (os error 1)' >&2; exit 1", "ptrace is refused"),
    ],
)
def test_another_program_of_that_name(tmp_path: Path, says: str, expected: str) -> None:
    other = tmp_path / "py-spy"
    other.write_text(f"#!/bin/sh\n{says}\n")
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(UnreadableError, match=expected):
        stacks.read(str(other), os.getpid())


def test_one_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "py-spy"
    other.write_text("#!/bin/sh\nexec sleep 60\n")
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(stacks, "TIME_LIMIT", 0.2)
    with pytest.raises(UnreadableError, match="did not answer"):
        stacks.read(str(other), os.getpid())
