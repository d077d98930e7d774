"""How a run ended, each ending from evidence of its own: nothing is well that shows no proof of life."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rldoctor.expressions import expression
from rldoctor.logs.fatality import Failure
from rldoctor.logs.job_records import recorded
from rldoctor.logs.liveness import bar_position, is_last_word, is_progress
from rldoctor.logs.model import LogEvent
from rldoctor.logs.places import Place, node_and_attempt, told_of
from rldoctor.logs.prefixes import Line
from rldoctor.logs.quoting import is_document, is_quoted, labels_sample
from rldoctor.logs.ranking import ASIDE, Found, closeness, explains
from rldoctor.logs.record import RawDeath
from rldoctor.logs.runs import Slice
from rldoctor.model import Evidence, Finding, Incident, Severity

# Words of a failure. Those of the first group say so wherever they stand, the others where no logger calls the line
# mere information.
_FAILURE = expression(
    r"\b\w*(?:Error|Exception|ERROR|FATAL)\b|(?i:\b(?:fatal|failed|failure|abort(?:ed)?|killed|crash(?:ed)?|panic|"
    r"segfault|segmentation fault|core dumped|cannot|refused|denied|out of memory|timed out|unrecoverable|"
    r"cancelled at|command not found|no such file|unable to)\b|"
    r"\bexit(?:ed)? (?:with )?(?:code|status)[: ]+-?[1-9]\d*(?![\d:]))"
)
_WHOLE = expression(r"\S")
_ENDED = expression(rf"{_FAILURE.pattern}|\b(?:died|lost|offline|gone|down)\b")
_HARMLESS = expression(
    r"Warning:|^\s*(?:wandb|swanlab):|Exception ignored in|resource_tracker|\[shutdown\]|"
    r"\b(?:0|no) (?:errors?|failed)\b"
)
_QUIET = ("DEBUG", "INFO", "WARNING")
# multiprocessing/resource_tracker.py, over a line with the code that warns.
_WITHOUT_A_WORD = "resource_tracker: There appear to be "
_LAST_WORDS = 2
# Lines around the one that tells of an end which speak of the same.
_BESIDE = 6
_MOST_SUSPECTS = 3
# Records of a logger, or lines with a process, from which on a text is taken for a log.
_RECORDS = 3
# A trainer's own bar has no title, or one of these; others count shards, graphs and prompts.
_TRAINERS_BAR = expression(
    r"\s*(?P<title>(?:(?:Training Progress|Train\w*|Epochs?|Episodes?|Steps?|Iterations?|Global step)\b"
    r"[^|%]{0,60}?:? *)?)"
    r"\d+%\|[^|]{0,300}\| *(?P<at>\d{1,12})/(?P<of>\d{1,12}) \["
)
_DIGITS = expression(r"\d+")
# The titles of bars that move before a run has begun.
_STARTS = expression(
    r"(?i:\b(?:load|shard|weight|captur|compil|fetch|download|upload|token|map\b|filter|preprocess|split|cudagraph|warm))"
)
# uvicorn's last words, behind a shutdown that somebody asked for and behind one that a failure brought.
_SERVER_ENDED = expression(r"\s*Finished server process \[\d+\]")
# vllm/v1/utils.py: the process that owns an engine ends it when it leaves itself. One that is killed says nothing.
_ENGINE_ENDED = expression(r"\s*\[shutdown\] Process manager: send sigterm to process")
_COUNTED = expression(
    r"'global_step/max_steps': '(?P<at>\d+)/(?P<of>\d+)'|={3,} Step (?P<step>\d+)/(?P<steps>\d+) ={3,}"
    r"|(?:^|\s)step:(?P<alone>\d+) - |(?:^|\s)iteration {1,9}(?P<iteration>\d+)/ {0,9}(?P<iterations>\d+) \| "
)


def ended(
    incident: Incident,
    pieces: Sequence[Slice],
    found: Sequence[Found],
    findings: Sequence[Finding],
    stalls: frozenset[str],
    first: Failure | None,
    by_launcher: bool = False,
) -> Incident:
    """The incident with the ending that the whole run shows. ``found`` are the signatures' findings with their lines,
    ``findings`` what of them is reported, ``stalls`` the codes that say that a run makes no progress, ``first`` what
    failed first. ``by_launcher`` says that nothing but launchers told of the failure: then the line that explains it
    names the process."""
    at, of = position(pieces)
    step = None if at is None else f"{at} of {of}" if of else str(at)
    place, attempt = node_and_attempt(pieces)
    said = list(_said_freely(findings, found))
    told_node, told_attempt = told_of(one.text if isinstance(one, Evidence) else one.line for one in said)
    # A node's own daemon need not name the node.
    told_node = told_node or next((one.origin.node for one in said if isinstance(one, LogEvent)), None)
    said_alone = any(isinstance(one, LogEvent) and not one.fatal for one in said)
    by_others = by_launcher or incident.kind != "crashed"
    held_node, held_attempt = _held_beside(pieces, said) if by_others else (None, None)
    attempt = next((one for one in (attempt, told_attempt, held_attempt) if one is not None), None)
    node = _node(place, first, told_node or held_node, by_others=said_alone)
    incident = replace(incident, step=step, node=node, attempt=attempt)
    if incident.kind == "crashed":
        if not by_launcher or incident.first_rank is not None:
            return incident
        causes = (item.event for item in found if explains(item) and item.event is not None)
        cause = next((event for event in causes if event.origin.pid or event.origin.rank), None)
        return incident if cause is None else replace(incident, first_rank=_process(cause))
    serious = [finding for finding in findings if finding.severity is not Severity.NOTE]
    if any(finding.code in stalls for finding in serious):
        return replace(incident, kind="stalled")
    errors = [finding.code for finding in serious if finding.severity is Severity.ERROR]
    alone = (item.event for code in errors for item in found if item.code == code and item.event is not None)
    event = next((event for event in alone if closeness(event) < ASIDE), None)
    if event is not None:
        return replace(
            incident,
            kind="crashed",
            first_rank=_process(event),
            exception=event.line.strip()[:600],
            source=event.source,
            line=event.number,
            node=incident.node or event.origin.node,
        )
    if any(item.measured and item.finding.severity is not Severity.NOTE for item in found):
        return replace(incident, kind="unhealthy")
    if any(piece.record.last_word for piece in pieces) or (at is not None and at == of):
        return replace(incident, kind="finished")
    wordless = _left_behind(pieces)
    suspects = (*wordless, *_suspects(pieces))[:_MOST_SUSPECTS]
    if suspects:
        return replace(incident, kind="unknown", suspects=suspects, wordless=bool(wordless))
    if not _is_log(pieces, at):
        return replace(incident, kind="unknown")
    # A script says "done" behind everything; where something ran and nothing speaks against it, it is believed.
    if any(piece.record.done for piece in pieces):
        return replace(incident, kind="finished")
    begun = _begun(pieces, at)
    # Of a training that was ended early the servers end in order, too.
    if begun and not _trained(pieces, at) and (_has(pieces, _SERVER_ENDED) or _has(pieces, _ENGINE_ENDED)):
        return replace(incident, kind="finished")
    return replace(incident, kind="unfinished", stage=incident.stage if begun else "start")


def _node(place: Place | None, first: Failure | None, told: str | None, by_others: bool) -> str | None:
    """On which node the run ended: where its first failure was, if that is known and others were named behind it only;
    else the one that others name, and the first failure's where nobody does, unless it is others who tell of the end.
    What only passes a failure on is elsewhere."""
    own = first.node if first is not None and (isinstance(first.raw, RawDeath) or not first.secondary) else None
    if place is None or first is None or own is None or first.secondary:
        return (None if place is None else place.node) or told or (None if by_others else own)
    behind = place.source == first.exception.source and place.line > first.last
    return own if behind else place.node


def _said_freely(findings: Sequence[Finding], found: Sequence[Found]) -> Iterator[Evidence | LogEvent]:
    """The lines of the first error that no exception holds: whoever runs the job says in them what ended it."""
    first = next((finding for finding in findings if finding.severity is Severity.ERROR), None)
    for item in found:
        if first is None or item.code != first.code or item.measured or item.declared:
            continue
        if item.event is None:
            yield from item.finding.evidence
        elif item.event.exception is None:
            yield item.event


def _held_beside(pieces: Sequence[Slice], said: Sequence[Evidence | LogEvent]) -> tuple[str | None, int | None]:
    """The node and the attempt that what stands behind the last sign of life of a run tells besides which others
    ended: in the lines around the one that ``said`` so, and in records of the job. Around an exception of the run's own
    stand its own attempts and tables."""
    if not said:
        return None, None
    first = said[0]
    source, at = first.source, (first.line if isinstance(first, Evidence) else first.number) or 0
    lines = [
        (number, line.text)
        for piece, number, line in _lines(pieces)
        if piece.record.name == source and number > piece.record.last_sign
    ]
    near = (text for number, text in lines if abs(number - at) <= _BESIDE and _ENDED.search(text[:400]))
    told, held = told_of(near), recorded(lines, at)
    return held[0] or told[0], told[1] if held[1] is None else held[1]


def _process(event: LogEvent) -> str | None:
    return event.origin.rank or (event.origin.label if event.origin.actor else None)


def _trained(pieces: Sequence[Slice], at: int | None) -> bool:
    """Whether a trainer shows a step or its metrics."""
    return at is not None or any(collector.last for piece in pieces for _, collector in piece.record.metrics)


def _begun(pieces: Sequence[Slice], at: int | None) -> bool:
    """Whether anything shows that the run got past its start: a step, a metric, an answered request, a moving bar of
    something else than what a start loads and compiles."""
    if _trained(pieces, at):
        return True
    lines = [line for _, _, line in _lines(pieces)]
    return any(is_progress(line) or (bar_position(line) and not _STARTS.search(line.text[:120])) for line in lines)


def _lines(pieces: Sequence[Slice]) -> Iterator[tuple[Slice, int, Line]]:
    for piece in pieces:
        for number, line in piece.record.tail:
            if number in piece:
                yield piece, number, line


def _has(pieces: Sequence[Slice], words: re.Pattern[str]) -> bool:
    """Whether a line of the end begins with these words."""
    return any(words.match(line.text) for _, _, line in _lines(pieces))


def position(pieces: Sequence[Slice]) -> tuple[int | None, int | None]:
    """The last step that the end of the logs shows, and how many there are to be."""
    at = of = None
    bars: dict[str, tuple[int, int]] = {}
    for _, _, line in _lines(pieces):
        bar, counted = _TRAINERS_BAR.match(line.text), _COUNTED.search(line.text, 0, 400)
        if bar is not None:
            bars[_DIGITS.sub("", bar["title"])] = (int(bar["at"]), int(bar["of"]))
            # Of bars within bars the one that has farthest to go is the run's: an epoch's is full at each of its ends.
            at, of = min(bars.values(), key=lambda one: one[0] / max(1, one[1]))
        if counted is not None:
            parts = counted.groupdict()
            at = next((int(parts[name]) for name in ("at", "step", "alone", "iteration") if parts.get(name)), at)
            of = next((int(parts[name]) for name in ("of", "steps", "iterations") if parts.get(name)), of)
    return at, of


def _is_log(pieces: Sequence[Slice], at: int | None) -> bool:
    """Whether anything shows that a program wrote this: steps, answered requests, a logger's records, processes that
    are named."""
    if at is not None:
        return True
    if is_document([line for _, _, line in _lines(pieces)]):
        return False
    if any(piece.record.last_sign for piece in pieces):
        return True
    reported = sum(1 for _, _, line in _lines(pieces) if line.level or line.tag or line.origin.pid or line.origin.rank)
    return reported >= _RECORDS


def _left_behind(pieces: Sequence[Slice]) -> tuple[Evidence, ...]:
    """What Python's resource tracker wrote as the log's last words: it outlives the process that it served, and has to
    clean up only after one that did not do so itself (killed, ``os._exit``), or whose engine's worker was."""
    if any(piece.record.asked_to_end is not None for piece in pieces) or _has(pieces, _ENGINE_ENDED):
        return ()
    last = [(piece, number, line) for piece, number, line in _lines(pieces) if line.text.strip()][-_LAST_WORDS:]
    return tuple(
        Evidence(text=line.text.strip()[:500], source=piece.record.name, line=number)
        for piece, number, line in last
        if _WITHOUT_A_WORD in line.text
    )[:1]


def _suspects(pieces: Sequence[Slice]) -> Iterator[Evidence]:
    """The lines of the end, behind the last sign of life, that look like a failure. A server that was asked to end
    complains of what ends with it."""
    for piece, number, line in _lines(pieces):
        text = line.text
        if number <= piece.record.last_sign or line.level in _QUIET or is_last_word(line):
            continue
        match = _FAILURE.search(text[:400]) or (_WHOLE.search(text) if line.level in ("ERROR", "CRITICAL") else None)
        if match is None or _HARMLESS.search(text[:400]) or is_quoted(text, match.start()) or labels_sample(text):
            continue
        if not piece.is_shutting_down(number):
            yield Evidence(text=text.strip()[:500], source=piece.record.name, line=number)
