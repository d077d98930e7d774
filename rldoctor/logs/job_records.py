"""The node and the attempt that the records of a job hold which stand in a log: fields, each in a line of its own, and
columns of tables. Whoever runs jobs has his own names for both, and the same two forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rldoctor.expressions import expression
from rldoctor.logs.places import NAME
from rldoctor.records import dataclass

_NODE, _ATTEMPT = "node", "attempt"
# The job's host as LSF and HTCondor write it: with a number of slots, or with the slot.
_HOST = rf"(?:\d+\*|slot\w*@)?{NAME}"
_TIMES = r"(?P<attempt>\d{1,4})"
_ON = r"(?:node ?list|nodes?|hosts?|machine|instance|agent)"
_AGAIN = r"(?:restarts?|retries|recoveries|requeues)"
_COUNTED = r"(?:restarts?|retry|retries|recovery|recoveries|requeues?)"
# A machine's number among a cluster's nodes is not its name. A plain word in small letters is a setting of the run's:
# host: redis-1, retries: 3.
_FIELDS = (
    expression(
        rf"^\s*(?:- )?[\"']?(?:(?i:(?:last ?remote|exec(?:ution)?|worker|compute|allocated)[ _]?{_ON}"
        rf"(?:[ _]?name)?|node(?: ?list|[ _]?name))|(?=[A-Z])(?i:{_ON}(?:[ _]?name)?))[\"']?\s*[:=]\s*[\"']?"
        rf"{_HOST}(?:/[\d.+*/]*)?[\"',]*\s*$"
    ),
    expression(
        rf"^\s*(?:- )?[\"']?(?:(?i:(?:total|number of|job|task|pod)[ _]?{_AGAIN}(?:[ _]?count)?|{_COUNTED}[ _]?count)"
        rf"|(?=[A-Z])(?i:{_AGAIN}))[\"']?\s*[:=]\s*{_TIMES}[\"',]*\s*$"
    ),
)
# The first host of a job is where its script ran.
_BATCH_HOST = expression(rf"^\s*BatchHost={NAME}(?:\s|$)")
# How often Kueue took a workload back, in a record of its own.
_REQUEUED, _COUNT = expression(r"^\s*requeueState:\s*$"), expression(rf"^\s*count: {_TIMES}\s*$")
# What a scheduler keeps of a node that it uses no more: `scontrol show node`, `sinfo -R`, `kubectl get nodes`,
# `pbsnodes`.
_NODE_RECORD = expression(rf"^(?:NodeName=)?{NAME}(?:\s+Arch=|\s*$)")
_NODE_STATE = expression(
    r"^\s+State=\S*(?:DOWN|DRAIN|FAIL|NOT_RESPONDING|POWERED_DOWN)|^\s+state = \S*(?:down|offline|unresolvable)"
)
_REASONS = expression(r"^\s*REASON\s+USER\s+TIMESTAMP\s+NODELIST\s*$")
_OUT_OF_USE = expression(rf"\d\d:\d\d:\d\d\s+{NAME}\s*$")
_NOT_READY = expression(rf"^\s*{NAME}\s+NotReady(?:,SchedulingDisabled)?\s+\S+\s+\d+[smhd]")
# The heads of such columns; a table of jobs has one that names the job, or its state, beside them.
_HEADS = (
    (_NODE, expression(r"(?i:node ?list(?:\(reason\))?|(?:exec[ _]?)?(?:node|host|machine)s?(?:[ _]?name)?)$")),
    (_ATTEMPT, expression(r"(?i:#?(?:restarts?|retries|recoveries|requeues))$")),
)
_OF_JOBS = expression(r"(?i:(?:job|task|alloc\w*)?[ _]?(?:id|name|state|status)|job)$")
_VALUES = {_NODE: expression(rf"{_HOST}$"), _ATTEMPT: expression(rf"{_TIMES}\b")}
_NUMBERED = expression(r"(?i:\b(?:node|host|machine) ids?\b)")
_CELL, _WORD, _RULE = expression(r"\S+(?: \S+)*"), expression(r"\S+"), expression(r"[\s|=+-]+$")
_FEWEST_CELLS = 3
_LONGEST = 1000


@dataclass(frozen=True)
class _Column:
    """A column that holds ``what``: its place among the cells of the ``width`` that its head has, and its head's."""

    what: str
    place: int
    start: int
    end: int
    width: int


def recorded(lines: Sequence[tuple[int, str]], told: int) -> tuple[str | None, int | None]:
    """The node and the attempt that records among numbered lines hold: of several the one that stands nearest to the
    line that is ``told``."""
    nearest: dict[str, tuple[int, str]] = {}
    out_of_use = set(_out_of_use(lines))
    for number, what, value in (*_in_fields(lines), *_in_columns(lines), *_requeued(lines)):
        away = abs(number - told)
        if what not in nearest or away < nearest[what][0]:
            nearest[what] = (away, value)
    node, attempt = nearest.get(_NODE), nearest.get(_ATTEMPT)
    hosts = (_BATCH_HOST.match(text[:_LONGEST]) for _, text in lines)
    batch = next((match["node"] for match in hosts if match is not None), None)
    held = out_of_use.pop() if len(out_of_use) == 1 else batch if node is None else node[1]
    return held, None if attempt is None else int(attempt[1])


def _out_of_use(lines: Sequence[tuple[int, str]]) -> Iterator[str]:
    """The nodes that a scheduler's records call down, drained or not responding."""
    record, listed = "", False
    for _, whole in lines:
        text = whole[:_LONGEST]
        if (named := _NODE_RECORD.match(text)) is not None:
            record = named["node"]
        elif record and _NODE_STATE.match(text):
            yield record
            record = ""
        row = (_OUT_OF_USE.search(text) if listed else None) or _NOT_READY.match(text)
        if row is not None:
            yield row["node"]
        listed = _REASONS.match(text) is not None or (listed and row is not None)


def _requeued(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    for (_, above), (number, text) in pairwise(lines):
        count = _COUNT.match(text[:_LONGEST]) if _REQUEUED.match(above[:_LONGEST]) else None
        if count is not None:
            yield number, _ATTEMPT, count["attempt"]


def _in_fields(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    for number, text in lines:
        for form in _FIELDS:
            match = form.match(text[:_LONGEST])
            if match is not None:
                yield from ((number, what, value) for what, value in match.groupdict().items())


def _in_columns(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    columns: list[_Column] = []
    for number, text in lines:
        row = [(cell[0], *cell.span()) for cell in _CELL.finditer(text[:_LONGEST].replace("|", "  "))]
        if _RULE.match(text):
            continue
        if len(row) < _FEWEST_CELLS:
            columns = []
        elif headed := _headed(row):
            columns = headed
        for column in columns:
            value = _value(column, row)
            if value is not None:
                yield number, column.what, value


def _headed(row: Sequence[tuple[str, int, int]]) -> list[_Column]:
    """The columns of a table of jobs below this row, none where it is no head of one. Heads may stand so near that one
    blank parts them."""
    words = [
        (word[0], place, start + word.start(), start + word.end())
        for place, (cell, start, _) in enumerate(row)
        for word in _WORD.finditer(cell)
        if not _NUMBERED.search(cell)
    ]
    if not any(_OF_JOBS.match(word) for word in (*(word for word, *_ in words), *(cell for cell, *_ in row))):
        return []
    return [
        _Column(what, place, start, end, len(row))
        for word, place, start, end in words
        for what, form in _HEADS
        if form.match(word)
    ]


def _value(column: _Column, row: Sequence[tuple[str, int, int]]) -> str | None:
    """What a row has in a column: where it has as many cells as the head by its place, else by what stands below."""
    if len(row) == column.width:
        under = [row[column.place][0]]
    else:
        under = [cell for cell, start, end in row if start < column.end and end > column.start]
    match = _VALUES[column.what].match(under[0]) if under else None
    return match[column.what] if match is not None else None
