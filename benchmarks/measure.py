"""Runs whole processes and takes their time and peak memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Median wall-clock seconds of a process, its largest resident set in MiB, and the seconds of CPU time that it
    used: on a busy machine these say more."""

    seconds: float
    peak_mib: float
    cpu_seconds: float = 0.0


def run_once(command: Sequence[str], environ: dict[str, str] | None = None) -> Cost:
    """One run with its output thrown away.

    Raises ``RuntimeError`` where it did not end well: what fails early would be the fastest of all. Findings (exit
    code 1) are an answer."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return Cost(seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


def median(command: Sequence[str], runs: int, environ: dict[str, str] | None = None) -> Cost:
    """The median of several runs, after one that warms the file cache."""
    run_once(command, environ)
    costs = [run_once(command, environ) for _ in range(runs)]
    used = statistics.median(c.cpu_seconds for c in costs)
    return Cost(statistics.median(c.seconds for c in costs), max(c.peak_mib for c in costs), used)
