"""The timeline of an incident: a lane for each process, or for all whose failures say the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rldoctor import report
from rldoctor.model import Incident, ProcessFailure
from rldoctor.report.detail import Detail
from rldoctor.report.lanes import clock, timeline
from tests.report.test_formats import CRASH, REPORT
from tests.report.test_html import HOSTILE, Reader, page

INDEX = "IndexError: index 20 is out of bounds"


def lost(rank: int, after: float | None) -> ProcessFailure:
    return ProcessFailure(process=f"rank {rank}", exception=f"DistBackendError: port {4000 + rank} closed", after=after)


def crash(*followed: ProcessFailure, unharmed: tuple[str, ...] = ()) -> Incident:
    first = ProcessFailure(process="rank 3", exception=INDEX, after=0.0, cause=True)
    return replace(CRASH, failures=(first, *followed), unharmed=unharmed)


def test_the_cause_comes_first_and_the_same_failure_of_many_ranks_is_one_lane() -> None:
    drawn = timeline(crash(*(lost(rank, 1.0 + rank) for rank in (0, 1, 2, 5)), unharmed=("4",)))
    assert drawn is not None and drawn.timed
    first, others = drawn.lanes
    assert (first.name, first.value, first.said, first.cause) == ("rank 3", "first", INDEX, True)
    assert (others.name, others.value) == ("4 ranks: 0-2, 5", "+1.0 s to +6.0 s")
    assert first.first < others.first and len(others.first) == 4
    assert drawn.unharmed == "rank 4"


def test_what_a_process_says_later_stays_in_its_lane() -> None:
    ended = ProcessFailure(process="rank 3", exception="exit code: 1", after=8.0)
    drawn = timeline(crash(lost(0, 2.0), ended))
    assert drawn is not None
    first, other = drawn.lanes
    assert first.then == ("exit code: 1",) and first.later == (97.0,)
    assert other.then == () and other.first[0] < first.later[0]


def test_where_a_failure_has_no_time_places_are_an_order() -> None:
    drawn = timeline(crash(lost(0, None), lost(1, 7000.0)))
    assert drawn is not None and not drawn.timed
    assert [lane.value for lane in drawn.lanes] == ["first", ""]
    assert drawn.lanes[1].first == (50.0, 97.0)


@pytest.mark.parametrize("incident", [CRASH, crash(), Incident(kind="unfinished", unharmed=("0", "1"))])
def test_of_one_process_there_is_nothing_to_draw(incident: Incident) -> None:
    assert timeline(incident) is None


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "+0.0 s"), (-0.4, "-0.4 s"), (119.9, "+119.9 s"), (600, "+10 min"), (9000, "+2.5 h")]
)
def test_a_moment_is_told_as_it_lies_behind_the_first_failure(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


def test_the_page_draws_the_lanes_in_place_of_what_followed() -> None:
    told = replace(REPORT, incident=crash(lost(0, 2.0), lost(1, 2.5)))
    drawn = page(told)
    assert Reader(drawn).text.count("2 ranks: 0-1") == 1
    assert drawn.count("<circle") == 3 and "Connection closed by peer (rank 0" not in drawn
    assert "Connection closed by peer (rank 0" in page(replace(REPORT, incident=CRASH))


def test_a_terminal_draws_them_where_all_is_asked_for() -> None:
    told = replace(REPORT, incident=crash(lost(0, 2.0), lost(1, 2.5), unharmed=("2",)))
    lines = report.renderer("rich", detail=Detail.ALL)(told).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("process by process"))
    assert lines[at + 1].startswith("  rank 3 ") and lines[at + 1].count("●") == 1 and lines[at + 1].endswith("first")
    assert lines[at + 2] == f"    {INDEX}"
    assert lines[at + 3].startswith("  2 ranks: 0-1 ") and lines[at + 3].endswith("+2.0 s to +2.5 s")
    assert "  no failure is told of rank 2" in lines
    assert not any("process by process" in line for line in report.renderer("rich")(told).splitlines())


def test_what_a_log_says_comes_in_as_text() -> None:
    hostile = ProcessFailure(process=HOSTILE, exception=HOSTILE, after=1.0)
    drawn = page(replace(REPORT, incident=crash(hostile)))
    assert "<script" not in drawn and "<img" not in drawn
