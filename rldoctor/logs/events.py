"""Turns the hits of one run into the events that signatures judge, and decides which signature sees which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from rldoctor.catalogue.check import Check, Signature
from rldoctor.logs.endings import position
from rldoctor.logs.fatality import Verdicts
from rldoctor.logs.model import LogEvent, LoggedException, LogRun
from rldoctor.logs.outside import of_others
from rldoctor.logs.quoting import is_document
from rldoctor.logs.record import AROUND_KEPT, LINE_KEPT, RawEvent
from rldoctor.logs.runs import Slice
from rldoctor.logs.slip import is_a_slip
from rldoctor.logs.standing import facts
from rldoctor.logs.table import Table
from rldoctor.records import dataclass

_NUMBERS = re.compile(r"\d+")
_HEX = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{16,}\b")
_QUIET = ("DEBUG", "INFO", "WARNING")
_GRAVE = ("ERROR", "CRITICAL")
_ADVICE = re.compile(
    r"(?i:\b(?:if|when|in case|to (?:avoid|prevent|fix)|may|might|please|consider|such as|note that)\b)|Warning:"
)
# LSF's report of a job that has ended stands before the job's output; what a program logs has a level. A job that
# says its last words was not ended.
_AHEAD = re.compile(r"\s*TERM_[A-Z_]+: ")
# Of one literal, so many different lines are judged.
_MOST_EVENTS = 24
# Of what others wrote the last lines are judged, each with so many beside it.
_MOST_BEHIND, _AROUND = 60, 12


@dataclass(frozen=True)
class Asked:
    """One signature and an event that holds one of its literals. ``refusal`` says why it is not to be asked all the
    same, ``survived`` that the run took further steps behind a line that a silent signature is about."""

    check: Check
    signature: Signature
    event: LogEvent
    refusal: str | None = None
    survived: bool = False


@dataclass
class _Group:
    """Equal lines, numbers aside, of one literal; the first stands for all."""

    event: RawEvent
    piece: Slice
    exception: LoggedException | None
    fatal: bool
    handled: bool
    count: int = 0
    last: int = 0
    ranks: list[str] = field(default_factory=list)


def events_of(pieces: Sequence[Slice], table: Table, run: LogRun, verdicts: Verdicts) -> list[Asked]:
    """Each event with the signatures whose literal it holds."""
    fatal = {id(f.raw) for f in verdicts.failures}
    fatal_lines = {(id(f.slice.record), f.number) for f in verdicts.failures}
    handled = {id(f.raw) for f in verdicts.handled}
    all_steps = _made_all_steps(pieces)
    found: list[Asked] = []
    for index in sorted({index for piece in pieces for index in piece.record.hits}):
        use = table.uses[index]
        if use.signatures:
            for group in _groups(pieces, index, fatal, fatal_lines, handled)[:_MOST_EVENTS]:
                event = _event(group, use.literal, run, all_steps)
                survived = not group.fatal and _went_on(group)
                found += [
                    Asked(c, s, event, _refusal(s, group, event, run), s.silent and survived) for c, s in use.signatures
                ]
    if table.behind and not all_steps:
        for event in _of_others(pieces, run):
            found += [Asked(c, s, event) for c, s in table.behind]
    return found


def _made_all_steps(pieces: Sequence[Slice]) -> bool:
    at, of = position(pieces)
    return at is not None and at == of


def _of_others(pieces: Sequence[Slice], run: LogRun) -> Iterator[LogEvent]:
    """What others than the run wrote at the end of the logs, line by line."""
    for piece in pieces:
        said = list(of_others(piece))[-_MOST_BEHIND:]
        for at, (number, line) in enumerate(said):
            raw = RawEvent(-1, line.text, number, line.origin, line.time, line.level)
            raw.before = tuple(one.text[:AROUND_KEPT] for _, one in said[max(0, at - _AROUND) : at])
            raw.after = [one.text[:AROUND_KEPT] for _, one in said[at + 1 : at + 1 + _AROUND]]
            yield _event(_Group(raw, piece, None, False, False, 1, number), line.text[:LINE_KEPT], run, outside=True)


def _groups(
    pieces: Sequence[Slice], index: int, fatal: set[int], fatal_lines: set[tuple[int, int]], handled: set[int]
) -> list[_Group]:
    """The hits of one literal, equal ones together: those that ended something first, then as they came."""
    groups: dict[tuple[str, bool, bool], _Group] = {}
    for piece in pieces:
        hits = piece.record.hits.get(index)
        group = None
        for event in hits.kept if hits is not None else ():
            if event.quoted or event.number not in piece:
                continue
            raw = piece.record.tokens.get(event.token) if event.token is not None else None
            ended = id(raw) in fatal if raw is not None else (id(piece.record), event.number) in fatal_lines
            caught = raw is not None and not ended
            if raw is not None and raw.quoted and caught:
                continue
            key = (_NUMBERS.sub("0", _HEX.sub("0", event.line)), ended, caught)
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group(event, piece, raw.exception if raw else None, ended, caught)
            elif event.time is not None and group.event.time is not None and event.time < group.event.time:
                group.event, group.piece, group.exception = event, piece, raw.exception if raw else None
            group.count += 1 + event.repeated
            group.last = max(group.last, event.number)
            rank = event.origin.rank
            if rank is not None and rank not in group.ranks:
                group.ranks.append(rank)
        if hits is not None and group is not None:  # those that were not kept looked like the last that was
            group.count += hits.count - len(hits.kept)
    return sorted(groups.values(), key=lambda g: (not g.fatal, g.handled, g.event.number))


def _event(group: _Group, literal: str, run: LogRun, all_steps: bool = False, outside: bool = False) -> LogEvent:
    raw, record = group.event, group.piece.record
    # Scripts say "done" behind a failure too.
    crashed = run.incident.kind == "crashed"
    end = record.last_word if crashed else max(record.done, record.last_sign if all_steps else 0)
    return LogEvent(
        **facts(literal, raw, group.exception, record.name),
        fatal=group.fatal,
        count=group.count,
        ranks=tuple(group.ranks),
        finished=raw.number < end <= group.piece.last,
        outlived=_had_ended(group),
        after_done=group.piece.first <= record.last_sign <= record.done < raw.number,
        outside=outside,
        run=run,
    )


def _refusal(signature: Signature, group: _Group, event: LogEvent, run: LogRun) -> str | None:
    """Why a signature is not asked: unless it is a silent one, not about what was caught in a run that went on. Where
    nothing failed otherwise, a line counts that is said with weight and behind which no work is seen."""
    if not signature.silent:
        if group.handled or (run.incident.kind != "crashed" and _went_on(group)) or _was_outrun(group, event, run):
            return "the run went on behind it"
        if event.exception is None and not event.fatal and event.level not in _GRAVE and is_a_slip(run.root):
            return "nothing raised it, and the user's own code ended the run"
        if run.incident.kind != "crashed" and (
            not _has_weight(event) or is_document([line for _, line in group.piece.record.tail])
        ):
            return "a line without weight in a run that nothing ended"
    return next((f"“{text}” rules it out" for text in signature.unless if text in event.text), None)


def _went_on(group: _Group) -> bool:
    """Whether the log shows work behind the last of these lines: steps, answered requests, a trainer's last words."""
    record, event = group.piece.record, group.event
    reported = event.level is None and _AHEAD.match(event.line) is not None
    return record.last_word > group.last or (record.last_sign > group.last and not reported)


def _was_outrun(group: _Group, event: LogEvent, run: LogRun) -> bool:
    """Whether nothing raised these lines, and steps stand between them and the exception that ended the run."""
    root, record = run.root, group.piece.record
    raised = event.exception is not None or event.fatal
    if raised or root is None or not root.frames or root.source != event.source:
        return False
    return group.last < record.last_sign < root.line


def _had_ended(group: _Group) -> bool:
    """Whether the trainer had said its last words before, and nothing worked any more."""
    record = group.piece.record
    return group.piece.first <= record.last_word <= record.done < group.event.number and record.last_sign <= record.done


def _has_weight(event: LogEvent) -> bool:
    """Whether a line speaks of something that happened: no information, no warning, no advice about what might."""
    said = event.line[: max(0, event.line.find(event.literal))]
    return event.level not in _QUIET and _ADVICE.search(said) is None
