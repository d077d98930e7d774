"""What ``rldoctor watch`` costs beside a log that grows, as a share of one core: from its start, and once it runs.

python -m benchmarks.watch [--seconds N] [--lines A_SECOND] [--terminal]

A trainer's step comes every five seconds, an engine's lines between them; 1,000 lines a second are 10 MB a minute. With
``--terminal`` the page is drawn, on a terminal of its own."""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

# What starting costs is over by then.
SETTLED = 20.0
STEP_SECONDS = 5.0
FLUSH_SECONDS = 0.25


def line_of_engine() -> str:
    """A line as vLLM logs it while it generates."""
    return (
        f"INFO 11-27 05:00:{random.randrange(60):02d} [loggers.py:116] Engine 000: Avg prompt throughput: "
        f"{random.random() * 1000:.1f} tokens/s, Avg generation throughput: {random.random() * 100:.1f} tokens/s, "
        f"Running: {random.randrange(32)} reqs, Waiting: 0 reqs\n"
    )


def lines_of_step(step: int) -> str:
    """A step as transformers' trainer prints it."""
    values = {
        "loss": random.random(),
        "grad_norm": random.random(),
        "reward": random.random(),
        "reward_std": 0.2 + random.random(),
        "kl": random.random() / 10,
        "completions/mean_length": 300 + random.random(),
        "epoch": step / 100,
    }
    bar = f" {step // 5}%|#         | {step}/500 [00:09<10:00,  1.2s/it]\n"
    return f"{ {name: round(value, 4) for name, value in values.items()} }\n{bar}"


@contextlib.contextmanager
def watching(log: Path, terminal: bool) -> Iterator[psutil.Process]:
    """The command, with its output thrown away or drawn on a terminal that nobody looks at."""
    command = [sys.executable, "-m", "rldoctor", "watch", str(log)]
    if not terminal:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        master, slave = pty.openpty()
        process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}
        )
        os.close(slave)
        threading.Thread(target=_drain, args=(master,), daemon=True).start()
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _drain(master: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(master, 1 << 16):
            pass


def cost(seconds: float, lines_a_second: float, terminal: bool) -> tuple[float, float, float]:
    """The shares of a core, from the start and once it runs, and the peak of its memory in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "run.log")
        log.write_text("starting\n")
        with watching(log, terminal) as process, log.open("a") as sink:
            began, settled, peak = time.monotonic(), None, 0
            written = step = 0
            while (passed := time.monotonic() - began) < seconds:
                while written < passed * lines_a_second:
                    written += 1
                    sink.write(line_of_engine())
                if step < passed // STEP_SECONDS:
                    step += 1
                    sink.write(lines_of_step(step))
                sink.flush()
                if settled is None and passed > SETTLED:
                    settled = (passed, _spent(process))
                peak = max(peak, process.memory_info().rss)
                time.sleep(FLUSH_SECONDS)
            spent = _spent(process)
    assert settled is not None
    return spent / passed, (spent - settled[1]) / (passed - settled[0]), peak / 2**20


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--lines", type=float, default=1000.0, help="lines a second")
    parser.add_argument("--terminal", action="store_true")
    options = parser.parse_args()
    if options.seconds <= 2 * SETTLED:
        parser.error(f"--seconds {options.seconds:g}: more than {2 * SETTLED:g} are needed")
    whole, running, peak = cost(options.seconds, options.lines, options.terminal)
    print(f"{options.lines:g} lines a second for {options.seconds:g} s: {whole:.2%} of a core with its start,")
    print(f"{running:.2%} once it runs; {peak:.0f} MiB")


if __name__ == "__main__":
    main()
