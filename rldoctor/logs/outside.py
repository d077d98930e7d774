"""What others wrote into a run's log: lines that no logger, process or step of the run has. Behind its last sign of
life a scheduler, a cloud, the kernel or a person has the last word."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

from rldoctor.expressions import expression
from rldoctor.logs.liveness import bar_position, is_done, is_progress
from rldoctor.logs.prefixes import Line
from rldoctor.logs.quoting import Samples, is_document, is_quoted
from rldoctor.logs.record import RawException
from rldoctor.logs.runs import Slice
from rldoctor.logs.services import is_signed
from rldoctor.logs.templates import template

# Actors by which Ray prints what its own processes say of nodes.
_RAYS = frozenset({"raylet", "autoscaler", "gcs_server"})
# A logger of the run says so of what it does itself; of what it did not survive others speak.
_OF_A_LOGGER = ("DEBUG", "INFO", "WARNING")
_LOGGED = expression(
    r"\W{0,2}(?:DEBUG|INFO|WARN(?:ING)?)\b|\s*(?:wandb|swanlab|mlflow|rank \d+): |.{0,80}\bNCCL (?:INFO|WARN) "
)


# Code that prints, and no program's output.
_CODE = expression(r"\s*(?:(?:raise |return )?[\w.]{1,60}\(|echo )f?['\"]")


def of_others(piece: Slice) -> Iterator[tuple[int, Line]]:
    """The lines, with their numbers, that others than the run wrote when it was over: none of its processes signed
    them, and it wrote no line like them while it was alive. A document is nobody's log, and behind a run that said it
    was done everything is taken down."""
    record = piece.record
    if piece.first <= record.last_sign <= record.done:
        return
    tail = [(number, line) for number, line in record.tail if number in piece]
    if is_document([line for _, line in tail]):
        return
    usual = {template(line.text) for number, line in tail if number <= record.last_sign}
    raised = [(raw.number, raw.last) for raw in piece.exceptions if not _is_told(raw)]
    samples = Samples()
    for number, line in tail:
        samples.follow(line)
        if number <= record.last_sign or not line.text.strip() or samples.shower is not None or _is_own(line):
            continue
        if not any(first <= number <= last for first, last in raised) and template(line.text) not in usual:
            yield number, line


def _is_own(line: Line) -> bool:
    """Whether a process of the run wrote the line: its logger, a rank, an actor, a bar, a metric."""
    if is_signed(line.text) or line.origin.actor in _RAYS:
        return False
    logged = line.level in _OF_A_LOGGER or line.tag or line.origin.actor or line.origin.rank or _LOGGED.match(line.text)
    shown = is_progress(line) or is_done(line) or bar_position(line) is not None or _CODE.match(line.text) is not None
    return bool(logged) or shown or is_quoted(line.text, _last_word(line.text))


def _is_told(raw: RawException) -> bool:
    """Whether what looks like an exception is a service's name for an end: it was raised nowhere, and Python has none
    of that name."""
    lone = not (raw.exception.frames or raw.exception.cause or raw.native or raw.quoted)
    return lone and raw.exception.type.isidentifier() and not hasattr(builtins, raw.exception.type)


def _last_word(text: str) -> int:
    """Where the last word of a line begins."""
    return text.rstrip(" ,}]\"'").rfind(" ") + 1
