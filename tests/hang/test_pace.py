"""How long a run may be quiet by its own pace."""

from __future__ import annotations

import pytest

from rldoctor.hang.model import LogTail
from rldoctor.hang.pace import LONGEST, Pace, limit, pace
from tests.hang.records import IN_PACE, REWARD, STANDS, hang, seen

STEPS = [f"step {n} | loss {1 / (n + 1):.4f} | reward {n * 3e-5:g}" for n in range(50)]
BAR = [f" {n}%|{'#' * n}| {n}/100 [{n // 6:02}:{n % 6}0<2:00:00, 10.01s/it]" for n in range(30)]


def timed(*seconds: int) -> list[str]:
    return [f"2026-11-22 10:{s // 60:02}:{s % 60:02},123 INFO trainer: step {n}" for n, s in enumerate(seconds)]


@pytest.mark.parametrize(
    ("lines", "share", "lasted", "found"),
    [
        (STEPS, 1.0, 1000.0, 80.0),  # a step in 20 s, and four of them
        (STEPS, 0.5, 2000.0, 80.0),  # the end of a longer log
        (BAR, 1.0, 300.0, 40.0),
        (STEPS, 1.0, 5.0, 10.0),  # quick steps say little of a checkpoint
        (timed(0, 20, 40, 100, 120), 1.0, None, 120.0),  # twice the longest
        (timed(0, 20, 40, 100, 120)[::-1], 1.0, None, 120.0),  # ranks write past each other
        (STEPS[:4], 1.0, 30.0, None),  # most of it went into imports and models
        (timed(0, 60, 125, 180), 1.0, None, 130.0),
        (timed(0, 1, 2, 3), 1.0, None, None),  # the first steps
        (STEPS, 1.0, None, None),  # who knows when it began
        (["loading the model", "done", "compiling"], 1.0, 300.0, None),
        ([], 0.0, None, None),
    ],
)
def test_limit(lines: list[str], share: float, lasted: float | None, found: float | None) -> None:
    assert limit(lines, share, lasted) == (pytest.approx(found) if found is not None else None)


def test_the_log_that_still_goes_on_counts() -> None:
    other = LogTail(file="/srv/other.log", quiet=5.0, limit=10.0)
    both = hang(seen(1, REWARD, log=STANDS), seen(2, REWARD, log=other))
    assert not pace(both).stands


def test_a_child_that_writes_to_the_same_file_knows_less() -> None:
    child = LogTail(file=STANDS.file, quiet=STANDS.quiet)
    for order in (1, -1):
        both = [seen(1, REWARD, log=STANDS), seen(2, REWARD, role="other", log=child)]
        assert pace(hang(*both[::order])).stands


def test_a_server_that_writes_says_nothing_of_the_training() -> None:
    chatty = LogTail(file="/srv/server.log", quiet=1.0, limit=10.0)
    both = hang(seen(1, REWARD, log=STANDS), seen(2, REWARD, role="server", log=chatty))
    assert pace(both).stands


def test_what_is_known() -> None:
    assert pace(hang(seen(1, REWARD, log=IN_PACE))).known and not pace(hang(seen(1, REWARD, log=IN_PACE))).stands
    assert not Pace().known and not Pace(quiet=90.0).known
    assert Pace(quiet=LONGEST + 1).stands and not Pace(quiet=10 * LONGEST).overdue
    assert Pace(quiet=LONGEST + 1, limit=60.0).overdue and not Pace(quiet=LONGEST + 1, limit=300.0).overdue
    assert not Pace(quiet=500.0, limit=10.0).overdue
    assert Pace(quiet=70.0, limit=20.0).long_since and not Pace(quiet=50.0, limit=20.0).long_since
