"""The work grows with the log, and most lines are not looked at: counted, not timed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rldoctor.logs import reading, sources
from rldoctor.logs.prefixes import Line, parse
from rldoctor.logs.reading import read
from rldoctor.logs.sources import TextSource
from rldoctor.logs.table import Table

from .excerpts import HEALTHY, OUT_OF_MEMORY, PEER_GONE, REWARD_RAISES, interleaved, ranked

QUIET = "".join(
    f"[rank{i % 64}]: INFO 11-20 21:24:33 [trainer.py:1] all is well in micro batch {i}\n" for i in range(2000)
)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """How many lines are taken apart for a log."""

    def count(text: str) -> int:
        calls = 0

        def counting(line: str, *more: object) -> Line:
            nonlocal calls
            calls += 1
            return parse(line, *more)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(reading, "parse", counting)
            read(TextSource("log", text.encode()), Table([]))
        return calls

    return count


def test_lines_without_a_hit_are_not_taken_apart(parsed: Callable[[str], int]) -> None:
    quiet = parsed(QUIET * 10)
    assert quiet < 3000  # the end of the log alone
    assert parsed(QUIET * 40) == quiet
    assert parsed(QUIET * 40 + ranked(3, OUT_OF_MEMORY)) < quiet + 2000


REPEATED = {
    "healthy": HEALTHY * 10,
    "one failure": QUIET + REWARD_RAISES,
    "ranks in turns": interleaved([ranked(r, PEER_GONE) for r in range(64)]),
    "progress": "\r".join(f"{i}%|##| {i}/100 [00:01<00:02]" for i in range(500)) + "\n",
    "compiler": "x.cu(12): error: identifier is undefined\n" * 300,
    "killed": "Killed\n" * 300,
    "heads": "Traceback (most recent call last):\n" * 300,
    "responses": "[response] no end\n" * 300,
    "root causes": "Root Cause (first observed failure):\n" * 300,
}


@pytest.mark.parametrize("repeated", REPEATED.values(), ids=REPEATED)
def test_twice_the_log_is_twice_the_work(parsed: Callable[[str], int], repeated: str) -> None:
    once, twice = parsed(repeated * 20), parsed(repeated * 40)
    assert twice <= 2.2 * once + 2000


def test_memory_of_events_is_bounded() -> None:
    text = "".join(
        f'line {i}\nTraceback (most recent call last):\n  File "a{i}.py", line 1, in f\nE{i}Error: x\n'
        for i in range(6000)
    )
    record = read(TextSource("log", text.encode()), Table([]))
    assert len(record.exceptions) <= 2000
    assert len(record.tokens) <= 2000
    assert record.exceptions[0].exception.type == "E0Error"
    assert record.exceptions[-1].exception.type == "E5999Error"


def test_a_failure_that_repeats_itself_is_counted(
    parsed: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BLOCK", 16 << 10)
    once = REWARD_RAISES + "".join(QUIET.splitlines(keepends=True)[:25])
    few, many = parsed(once * 300), parsed(once * 1500)
    assert many < few * 4
    last = read(TextSource("log", (once * 500 + OUT_OF_MEMORY).encode()), Table([])).exceptions[-1]
    assert "OutOfMemory" in last.exception.type
