"""Fuzzes the readers: `python -m tests.fuzz.run --inputs 1000000`. Counts what was run; a failing input is made small
and kept."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutation import Maker
from tests.fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).with_name("corpus")
# Of CPU time, for an input of 16 KiB at most. The slowest honest ones take a third of a second.
LIMIT = 5.0
# Twice the input may take that much more time, where it is long enough to be measured.
_WORST_GROWTH, _MEASURABLE, _REPEATS = 3.2, 0.2, (1 << 16, 1 << 17)


class TooSlowError(Exception):
    """The time limit was over; no reader expects it."""


@dataclass(frozen=True)
class Failure:
    """An input that a target did not take, and why."""

    target: str
    data: bytes
    reason: str


def attempt(target: Target, data: bytes, limit: float = LIMIT) -> Failure | None:
    """Runs one input, with a limit on its CPU time."""
    try:
        with _limited(limit):
            target.run(data)
    except TooSlowError:
        return Failure(target.name, data, f"took more than {limit:g} s")
    except Exception:  # whatever it is, it is a find
        return Failure(target.name, data, traceback.format_exc())
    return None


def attempt_doubled(target: Target, piece: bytes) -> Failure | None:
    """Repeats a piece to 64 and to 128 KiB: the work may double, not grow with the square. What looks so on a busy
    machine has to do so three times."""
    if not piece:
        return None
    inputs = [piece * max(1, size // len(piece)) for size in _REPEATS]
    best = [float("inf")] * len(inputs)
    for _ in range(3):
        for at, data in enumerate(inputs):
            before = time.process_time()
            if (failure := attempt(target, data, limit=12 * LIMIT)) is not None:
                return failure
            best[at] = min(best[at], time.process_time() - before)
        if best[1] <= max(_MEASURABLE, _WORST_GROWTH * best[0]):
            return None
    return Failure(target.name, piece, f"twice the input took {best[1]:.2f} s instead of {best[0]:.2f} s")


def corpus(target: str) -> list[bytes]:
    """The kept inputs of a target, in order of their names."""
    return [path.read_bytes() for path in sorted((CORPUS / target).glob("*"))]


def fuzz(target: Target, inputs: int, seed: int) -> Iterator[Failure]:
    """So many new inputs, and of every two thousandth what happens as it grows."""
    maker = Maker(corpus(target.name), target.pieces(), seed)
    for number in range(inputs):
        data = maker.make()
        failure = attempt(target, data)
        if failure is None and number % 2000 == 0:
            failure = attempt_doubled(target, data[:2000])
        if failure is not None:
            yield failure


def smaller(target: Target, failure: Failure, seconds: float = 60) -> Failure:
    """The failure with an input as short as leaving out parts makes it."""
    end = time.monotonic() + seconds
    best, size = failure, max(1, len(failure.data) // 2)
    while size and time.monotonic() < end:
        at = 0
        while at < len(best.data) and time.monotonic() < end:
            again = attempt(target, best.data[:at] + best.data[at + size :])
            if again is not None and again.reason.splitlines()[-1:] == best.reason.splitlines()[-1:]:
                best = again
            else:
                at += size
        size //= 2
    return best


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises :class:`TooSlowError` inside the block once so much CPU time was used."""

    def over(number: int, frame: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, over)
    # A collection walks through all that the process holds, and where much is new, often: among thousands of tests
    # that grows faster than the input.
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        gc.enable()
        signal.signal(signal.SIGVTALRM, before)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--inputs", type=int, default=1_000_000, help="over all targets")
    options.add_argument("--target", choices=TARGETS, action="append", help="only this one; repeatable")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for failing inputs")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # with what it keeps while it runs
    chosen = [TARGETS[name] for name in given.target or TARGETS]
    shares = sum(target.share for target in chosen)
    failures = 0
    for target in chosen:
        inputs, before, seen = round(given.inputs * target.share / shares), time.monotonic(), set[str]()
        for failure in fuzz(target, inputs, given.seed):
            failures += 1
            kind = failure.reason.splitlines()[-1]
            if kind in seen:
                continue
            seen.add(kind)
            small = smaller(target, failure)
            given.keep.mkdir(parents=True, exist_ok=True)
            name = given.keep / f"{target.name}-{given.seed}-{len(seen)}"
            name.write_bytes(small.data)
            print(f"{target.name}: {name}\n{small.reason}", flush=True)
        spent = time.monotonic() - before
        print(f"{target.name:12} {inputs:8d} inputs {spent:7.0f} s  {len(seen)} kinds of failures", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
