"""Real processes to look at: small programs in a session of their own, ended with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from rldoctor.hang import stacks

PATIENCE = 90.0


class Program:
    """A started program with its output in a file."""

    def __init__(
        self, command: list[str], output: Path, environ: Mapping[str, str], folder: Path, session: bool
    ) -> None:
        self.output = output
        with output.open("wb") as opened:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=opened, stderr=opened, start_new_session=session,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environ}, cwd=folder,
            )  # fmt: skip
        self.pid = self._process.pid

    def until(self, text: str, times: int = 1, seconds: float = PATIENCE) -> None:
        """Waits until the output holds a text."""
        deadline = time.monotonic() + seconds
        while self.output.read_text().count(text) < times:
            assert self._process.poll() is None, self.output.read_text()[-3000:]
            assert time.monotonic() < deadline, self.output.read_text()[-3000:]
            time.sleep(0.05)

    def quiet_for(self, seconds: float) -> None:
        """Makes its output as old as it would be after so much silence."""
        written = time.time() - seconds
        os.utime(self.output, (written, written))

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Ends it and all below it: torchrun's ranks and Ray's workers have sessions of their own."""
        below = psutil.Process(self.pid).children(recursive=True) if self.runs else []
        trackers = [process for process in below if _removes_shared_memory(process)]
        for process in set(below) - set(trackers):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.kill()
        self._process.wait()
        # They end by themselves, once those who used the memory have.
        _, left = psutil.wait_procs(trackers, timeout=10)
        for process in left:
            process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        psutil.wait_procs(below, timeout=30)


def _removes_shared_memory(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "resource_tracker" in " ".join(process.cmdline())
    return False


Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start(source, python=..., arguments=[...], module=..., **environ)`` runs a program written to a file."""
    started: list[Program] = []

    def begin(
        source: str, name: str = "program.py", python: Path | str = sys.executable, before: tuple[str, ...] = (),
        session: bool = True, **environ: str,
    ) -> Program:  # fmt: skip
        file = tmp_path / name
        file.write_text(source)
        output = tmp_path / f"output{len(started)}.txt"
        started.append(Program([str(python), *before, str(file)], output, environ, tmp_path, session))
        return started[-1]

    yield begin
    for program in started:
        program.end()


@pytest.fixture
def py_spy() -> str:
    """The program that reads stacks."""
    found = stacks.program()
    if found is None:
        pytest.skip("py-spy is not installed")
    return found
