"""The kept inputs, and some thousand new ones that are the same each time; `python -m tests.fuzz.run` makes more."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fuzz.mutation import LONGEST, Maker
from tests.fuzz.run import attempt, attempt_doubled, corpus, fuzz, smaller
from tests.fuzz.targets import TARGETS, Target

INPUTS = 4000
# A launch file that is odd may be worth a warning, as an anchor that is set twice.
pytestmark = pytest.mark.filterwarnings("ignore")
SHARES = sum(target.share for target in TARGETS.values())


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_are_taken_as_they_are_and_grown(name: str) -> None:
    kept = corpus(name)
    assert kept
    for data in kept:
        failure = attempt(TARGETS[name], data)
        assert failure is None, failure.reason
    for data in kept[:4]:
        failure = attempt_doubled(TARGETS[name], data[:2000])
        assert failure is None, failure.reason


@pytest.mark.parametrize("name", TARGETS)
def test_new_inputs_are_taken(name: str) -> None:
    target = TARGETS[name]
    failures = [f"{f.data!r}\n{f.reason}" for f in fuzz(target, round(INPUTS * target.share / SHARES), seed=20261121)]
    assert failures == []


def test_a_seed_makes_the_same_inputs_again() -> None:
    makers = [Maker([b"a\nb\nc\n"], ["x", "y"], 3) for _ in range(2)]
    first, second = ([maker.make() for _ in range(200)] for maker in makers)
    assert first == second
    assert len(set(first)) > 100
    assert max(map(len, first)) <= LONGEST


def test_the_fuzzer_finds_what_is_wrong_and_makes_it_small() -> None:
    def breaks(data: bytes) -> None:
        if b"Killed" in data:
            raise KeyError("oops")

    def hangs(data: bytes) -> None:
        while b"Killed" in data:
            pass

    def grows(data: bytes) -> None:
        sum(range(len(data) ** 3 >> 25))  # well beyond the square: a busy machine measures loosely

    def target(run: object) -> Target:
        return Target("broken", run, lambda: ("Killed", "\n"), 1)  # type: ignore[arg-type]

    found = next(fuzz(target(breaks), 100, seed=1))
    assert found.reason.endswith("KeyError: 'oops'\n")
    assert smaller(target(breaks), found).data == b"Killed"
    slow = attempt(target(hangs), b"Killed", limit=0.1)
    assert slow is not None and slow.reason == "took more than 0.1 s"
    assert attempt_doubled(target(grows), b"x") is not None
    assert attempt(target(hangs), b"") is None


def test_a_fuzzer_that_is_ended_leaves_no_folder() -> None:
    command = (sys.executable, "-m", "tests.fuzz.run", "--target", "saved", "--inputs", "1000000")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as fuzzer:

        def folders() -> list[Path]:
            return [*Path("/dev/shm").glob(f"rldoctor-fuzz-{fuzzer.pid}-*")]

        end = time.monotonic() + 60
        while not folders() and time.monotonic() < end:
            time.sleep(0.1)
        assert folders()
        fuzzer.terminate()
        assert fuzzer.wait(20) == 128 + 15
        assert folders() == []
