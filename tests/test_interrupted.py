"""Ctrl-C and a cluster's SIGTERM, while a real engine boots."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

SECONDS = 60


@pytest.mark.engine
@pytest.mark.parametrize(
    ("number", "code", "says"), [(signal.SIGINT, 130, "rldoctor: interrupted"), (signal.SIGTERM, 143, None)]
)
def test_an_interrupted_check_leaves_nothing(
    tmp_path: Path, patient: Path, number: signal.Signals, code: int, says: str | None
) -> None:
    arguments = ["check", "--level", "compare", "--select", "RLD404", "--python", str(patient)]
    doctor = subprocess.Popen(
        [sys.executable, "-m", "rldoctor", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        deadline = time.monotonic() + SECONDS
        # What vLLM says first, it says while it boots.
        while not any("INFO" in log.read_text() for log in tmp_path.glob("rldoctor-engine-*/log.txt")):
            assert doctor.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        tree = psutil.Process(doctor.pid).children(recursive=True)
        assert any("engine.py" in " ".join(process.cmdline()) for process in tree)
        doctor.send_signal(number)
        reported, said = doctor.communicate(timeout=20)
    finally:
        doctor.kill()
    assert (doctor.returncode, reported) == (code, "")
    assert says is None or said.splitlines()[-1] == says
    assert [process for process in tree if process.is_running()] == []
    assert list(tmp_path.glob("rldoctor-*")) == []
