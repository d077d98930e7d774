"""Makes one incident of what a run's logs hold: the first failure on the first failing rank, and all that followed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rldoctor.logs.dating import dated, version_of
from rldoctor.logs.departures import PARENTS, departures
from rldoctor.logs.fatality import Failure, Verdicts, judge
from rldoctor.logs.followed import by_process, cascades, short, telling, unharmed
from rldoctor.logs.model import Departure, Frame, LogRun
from rldoctor.logs.reveals import framework_of, versions_in_frames
from rldoctor.logs.runs import Slice
from rldoctor.logs.stages import stage_before, stage_of
from rldoctor.logs.table import Table
from rldoctor.model import Incident

# Which rank an exception was raised on, in its own text: Ascend's ACL, torch's C++.
_NAMED_RANK = re.compile(r"\bRankID:\s?(\d{1,6})\b|^\[Rank (\d{1,6})\]")
_FEWEST_VICTIMS = 3
_TP_WORKER = re.compile(r"_TP(\d+)$")


def log_run(slices: Sequence[Slice], table: Table, run: int = 1, runs: int = 1) -> tuple[LogRun, Verdicts]:
    """One run, of which ``slices`` holds the part of each file, with the verdict on each of its exceptions."""
    verdicts = judge(slices, table)
    root = next((f for f in verdicts.failures if not f.secondary), None)
    departed = departures(verdicts)
    shown = first_failure(verdicts)
    failures = tuple(f.exception for f in verdicts.failures)
    frames = _frames(verdicts)
    versions = _versions(slices, frames)
    dates = {package: releases for package, releases in dated(frames).items() if package not in versions}
    versions |= {package: only for package, releases in dates.items() if (only := version_of(releases)) is not None}
    incident = _incident(slices, verdicts, shown, departed if root is None else (), versions, run, runs)
    return (
        LogRun(
            incident=incident,
            root=root.exception if root is not None else None,
            failures=failures,
            handled=tuple(f.exception for f in verdicts.handled),
            tail=tuple(line.text for piece in slices[-1:] for _, line in piece.record.tail[-60:]),
            sources=tuple(piece.record.name for piece in slices),
            lines=sum(piece.last - piece.first + 1 for piece in slices),
            dated=dates,
            departed=departed,
            failed_first=tuple(reported for piece in slices for reported in piece.summaries),
        ),
        verdicts,
    )


def first_failure(verdicts: Verdicts) -> Failure | None:
    """The first failure that is no cascade and no wrapper. Where all are, what a parent tells of a process that ended
    without a word, else what the rank said that the launcher saw fail first, else the first that is an exception, which
    tells more than a launcher's exit code."""
    root = next((f for f in verdicts.failures if not f.secondary), None)
    reported = [f for f in verdicts.failures if PARENTS.search(f.exception.type)] if departures(verdicts) else []
    if root is not None or reported:
        return root or reported[0]
    ranks = {reported.rank for f in verdicts.failures for reported in f.slice.record.summaries}
    first = (f for f in verdicts.failures if f.exception.origin.rank in ranks - {None})
    return next(first, None) or min(verdicts.failures, key=lambda f: (f.launcher, f.file_index, f.number), default=None)


def _incident(
    slices: Sequence[Slice],
    verdicts: Verdicts,
    shown: Failure | None,
    departed: Sequence[Departure],
    versions: dict[str, str],
    run: int,
    runs: int,
) -> Incident:
    partial = next((piece.record.partial for piece in slices if piece.record.partial), None)
    common = Incident(
        kind="unknown",
        framework=framework_of((frame.file for frame in _frames(verdicts)), _texts(slices)),
        versions=versions,
        run=run,
        runs=runs,
        partial=partial,
    )
    if shown is None:
        return common
    link = telling(shown.exception)
    own = link.user_frame or next((x.user_frame for x in shown.exception.chain if x.user_frame), None)
    first_rank = _departed(departed) or _silent(verdicts) or _first_rank(shown, slices)
    failed = by_process(verdicts.failures, shown, first_rank)
    return replace(
        common,
        kind="crashed",
        first_rank=first_rank,
        stage=_stage(shown),
        exception=short(link),
        frames=tuple(str(frame) for frame in link.frames),
        user_frame=str(own) if own is not None else None,
        cascades=cascades(verdicts.failures, shown),
        failures=failed,
        unharmed=unharmed(slices, failed),
        source=shown.exception.source,
        line=link.line or shown.number,
    )


def _departed(departed: Sequence[Departure]) -> str | None:
    return departed[0].rank if departed else None


def _silent(verdicts: Verdicts) -> str | None:
    """The only rank that wrote to the log and did not fail, where all others say that they waited in vain: they are its
    victims."""
    failures = verdicts.failures
    if not failures or not all(f.secondary for f in failures):
        return None
    failed = {f.exception.origin.rank for f in failures} - {None}
    known = {rank for f in failures for rank in f.slice.record.ranks}
    silent = known - failed
    return silent.pop() if len(silent) == 1 and len(failed) >= _FEWEST_VICTIMS else None


def _first_rank(shown: Failure, slices: Sequence[Slice]) -> str | None:
    """The rank that the first failure's lines name; else the one that torchelastic saw fail first; else actor and
    process."""
    if shown.rank is not None:
        return shown.rank
    inner, outer = shown.exception.chain[0].origin, shown.exception.origin
    named = {match[1] or match[2] for match in _NAMED_RANK.finditer(shown.exception.text)}
    if len(named) == 1:
        return named.pop()
    if inner.actor is None:
        for piece in slices:
            for reported in piece.summaries:
                if reported.rank is not None:
                    return reported.rank
        ended = [d.exception.origin for s in slices for d in s.deaths if d.launcher and d.exception.origin.rank]
        alone = not any(s.record.ranks - {"0"} for s in slices)
        # A scheduler calls the only task 0.
        local = next((o.rank for o in ended if not (alone and o.node and o.rank == "0")), None)
        if local is not None:
            return local
    if inner.actor and (worker := _TP_WORKER.search(inner.actor)) is not None:
        return worker[1]
    return inner.label if inner.actor or inner.pid else (outer.label if outer.actor or outer.pid else None)


def _stage(shown: Failure) -> str | None:
    links = shown.exception.chain
    for link in (telling(shown.exception), *links):
        stage = stage_of(link.frames)
        if stage is not None:
            return stage
    return stage_before(shown.number, [s for s in shown.slice.record.stages if s[0] >= shown.slice.first])


def _frames(verdicts: Verdicts) -> list[Frame]:
    everything = [*verdicts.failures, *verdicts.handled]
    return [frame for f in everything for link in f.exception.chain for frame in link.frames]


def _texts(slices: Sequence[Slice]) -> list[str]:
    return [line.text for piece in slices for _, line in piece.record.tail] + [t for p in slices for t in p.record.head]


def _versions(slices: Sequence[Slice], frames: Sequence[Frame]) -> dict[str, str]:
    found = versions_in_frames(frames)
    for piece in slices:
        for number, what, version in piece.record.versions:
            if number in piece:
                found[what] = version
    return found
