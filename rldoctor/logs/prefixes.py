"""What stands before the text of a log line: rank, actor, process, node, time and level, as launchers and loggers
write it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache

from rldoctor.expressions import expression
from rldoctor.logs import envelope
from rldoctor.logs.model import Origin
from rldoctor.logs.times import seconds
from rldoctor.records import dataclass


@dataclass
class Line:
    """One line without its prefixes. ``tag`` is the part that a logger repeats on every line of one message (vLLM's
    ``[core.py:1510]``), ``ranked`` says that torch's own exception hook wrote the rank, ``repeated`` how many more
    processes Ray says printed it."""

    text: str
    origin: Origin
    stamp: str = ""
    level: str | None = None
    tag: str = ""
    ranked: bool = False
    repeated: int = 0

    @property
    def time(self) -> float | None:
        """The line's time as :func:`rldoctor.logs.times.seconds` counts, None where it has none."""
        return seconds(self.stamp) if self.stamp else None

    def refine(
        self, rank: str | None = None, actor: str | None = None, pid: str | None = None, node: str | None = None
    ) -> None:
        """Puts what a prefix says about the process into the origin."""
        now = self.origin
        self.origin = _origin(rank or now.rank, actor or now.actor, pid or now.pid, node or now.node)


@lru_cache(maxsize=4096)
def _origin(rank: str | None, actor: str | None, pid: str | None, node: str | None) -> Origin:
    return Origin(rank, actor, pid, node)


# The process of a line that says nothing about it.
UNTOLD = Origin()

LEVELS = {
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARN": "WARNING",
    "WARNING": "WARNING",
    "ERROR": "ERROR",
    "CRITICAL": "CRITICAL",
    "FATAL": "CRITICAL",
    "SUCCESS": "INFO",
    "TRACE": "DEBUG",
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "CRITICAL",
}
_LEVEL = r"DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SUCCESS|TRACE"
_ISO = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"

# The level of a clock's record that has nothing but a blank behind it; what has more is a logger's form of its own.
_LED = rf"(?P<level>{_LEVEL}) (?=[^-|:\s\d])(?![\w./-]{{1,120}}:\d+ -- )"
_CLOCK = expression(r"\d\d:\d\d:\d\d")
_BEHIND_CLOCK = expression(" {0,4}" + _LED)

# src/ray/util/event.cc writes one a line, into files of its own, which people put beside the run's.
_RAYS_EVENT = expression(r'"source_type": ?"(?:GCS|RAYLET|CORE_WORKER|AUTOSCALER|JOBS)"')
_LONGEST_EVENT = 8000

_ANSI = expression(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]_P^][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\-_c])")
_REPEATED = expression(r"\s*\[repeated (\d+)x across cluster\][^\n]{0,200}$")
# A bar that is redrawn without a line end has the next message on its line.
_AFTER_BAR = expression(
    r"(?:it/s|s/it|toks/s|B/s)[^\]\[]{0,80}\] ?(?P<rest>(?:\((?:[\w.]+) pid=\d+\)|\[rank\d+\]:|\[RANK \d+\]|"
    r"(?:slurmstepd|srun|bash|sh): |[\w.]{1,80}(?:Error|Exception|Interrupt)(?:: |$)|"
    r"(?:Killed|Terminated|Aborted|Segmentation fault|Bus error|Illegal instruction)(?:$| )).*)$"
)


def _ray(match: re.Match[str], line: Line) -> None:
    """``(WorkerDict pid=1, ip=1.2.3.4)``, ``(EngineCore_DP0 pid=1)``, ``(VllmWorker rank=0 pid=1)``, ``(raylet)``."""
    parts = match.groupdict()
    line.refine(rank=parts.get("rank"), actor=parts["actor"].strip(), pid=parts["pid"], node=parts["ip"])


def _rank(match: re.Match[str], line: Line) -> None:
    """``[rank3]:`` by torch's exception hook and C++ log, ``[default3]:`` by torchrun --tee, ``3:`` by srun --label."""
    line.refine(rank=str(int(match["rank"])))
    line.ranked = line.ranked or match.groupdict().get("role") == "rank"


def _node(match: re.Match[str], line: Line) -> None:
    line.refine(node=match["node"])


def _stamp(match: re.Match[str], line: Line) -> None:
    """A time, a level or both, and the place in the code that wrote the line."""
    parts = match.groupdict()
    line.stamp = parts.get("time") or line.stamp
    level = parts.get("level")
    if level:
        line.level = LEVELS.get(level, line.level)
    line.tag = parts.get("tag") or line.tag


def _same(match: re.Match[str], line: Line) -> None:
    """A prefix that says nothing about the process."""


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    apply: Callable[[re.Match[str], Line], None]


def _rule(pattern: str, apply: Callable[[re.Match[str], Line], None]) -> _Rule:
    return _Rule(expression(pattern), apply)


_PAREN = (
    _rule(
        r"\((?P<actor>[^()\s][^()]{0,80}?(?:\([^()]{0,80}\)[^()]{0,40}?)?)(?:,? rank=(?P<rank>\d+))? pid=(?P<pid>\d+)"
        r"(?:, ip=(?P<ip>[^)\s]{1,64}))?\)(?: |(?=\S)|$)",
        _ray,
    ),
    _rule(r"\((?P<actor>)pid=(?P<pid>\d+)(?:, ip=(?P<ip>[^)\s]{1,64}))?\)(?: |$)", _ray),
    _rule(
        r"\((?P<actor>raylet|autoscaler|gcs_server)(?:,? ?(?:pid=(?P<pid>\d+)|ip=(?P<ip>[^)\s]{1,64})|"
        r"\+[\dhms]+)){0,2}\) ?",
        _ray,
    ),
)
_BRACKET = (
    _rule(r"\[(?P<role>[A-Za-z_]{1,30}?)(?P<rank>\d{1,5})\]: ?", _rank),
    _rule(r"\[(?:rank|Rank|RANK)[ _:]?(?P<rank>\d{1,5})\]:? ?", _rank),
    _rule(r"\[(?P<rank>\d{1,5})\]: ", _rank),
    _rule(r"\[\d{1,3},(?P<rank>\d{1,5})\](?:<std(?:out|err)>)?: ?", _rank),
    _rule(rf"\[(?P<time>{_ISO}|\d\d:\d\d:\d\d)\] ?", _stamp),
    # Not ``[ERROR] 2025-08-03-04:41:52 (PID:1, ...)``, which torch_npu appends to the messages of its exceptions.
    _rule(rf"\[(?P<level>{_LEVEL})(?::(?P<tag>[\w.]{{1,60}}))?\](?! \d{{4}}-\d\d-\d\d-\d\d:) ?", _stamp),
    _rule(r"\[(?P<level>[IWEF])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d+) (?P<tag>[\w./-]{1,200}:\d+)\] ?", _stamp),
    _rule(r"\[(?P<tag>[\w./<>-]{1,200}\.(?:py|cpp|cc|h):\d+(?::[\w<>]{1,80})?)\] ?", _stamp),
    _rule(r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ (?P<tag>[\w.]{1,80})\] ?", _stamp),
    _rule(r"\[(?P<tag>[a-z_][\w.]{0,60})\](?=\[(?:INFO|WARN|ERROR|DEBUG|CRIT))", _stamp),
    _rule(r"\[pod/[^\]\s]{1,200}\] ?", _same),
)
_DIGIT = (
    # Containers' runtimes and GitLab's runner say of which stream a line is.
    _rule(rf"(?P<time>{_ISO})(?: std(?:out|err) [FP]| \d\d[OE]\+?)?(?:\t| - | \| |: | )", _stamp),
    _rule(r"(?P<rank>\d{1,4}): ", _rank),
    _rule(r"(?P<node>\d{1,3}(?:\.\d{1,3}){3}): ?(?=\[|\(\w|\d{4}-\d\d|Traceback \(|  File \"|[A-Z]\w+Error)", _node),
    _rule(rf"(?P<time>\d\d:\d\d:\d\d(?:[.,]\d{{1,6}})?) {{1,5}}{_LED}", _stamp),
    _rule(r"(?P<time>\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)(?: - | \| |: | )", _stamp),
)
_LETTER = (
    # vLLM; its earlier releases wrote no opening bracket.
    _rule(
        rf"(?P<level>{_LEVEL})(?: +|\t)(?P<time>\d\d-\d\d \d\d:\d\d:\d\d) "
        r"(?P<tag>\[[^\]]{1,200}:\d+\]|[\w./-]{1,200}:\d+\]) ?",
        _stamp,
    ),
    _rule(r"(?P<level>[IWEF])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d+)\s+\d+ (?P<tag>[\w./-]{1,200}:\d+)\] ?", _stamp),
    _rule(rf"(?P<level>{_LEVEL}) *\| (?P<tag>[\w.:<>-]{{1,160}}) (?:-|\|) ", _stamp),
    _rule(rf"(?P<level>{_LEVEL}) (?P<tag>[\w./-]{{1,120}}\.(?:py|cc|cpp|h):\d+) -- ", _stamp),
    _rule(rf"(?P<level>{_LEVEL}):(?P<tag>[\w.]{{1,60}}):", _stamp),
    _rule(rf"(?P<level>{_LEVEL}): (?P<tag>[a-z_]\w{{0,30}}(?:\.\w{{1,30}}){{2,6}}):(?=\S)", _stamp),
    _rule(rf"(?P<level>{_LEVEL})(?::\s+|\s+-\s+|\s*\|\s+|\s{{2,}})", _stamp),
    _rule(rf"(?P<tag>[A-Za-z_][\w.]{{1,60}}) - (?P<level>{_LEVEL}) - ", _stamp),
    _rule(rf"(?P<level>{_LEVEL}):(?P<time>{_ISO}):", _stamp),
    _rule(
        r"(?P<node>[a-z][\w.]{0,40}-?[\w.-]{0,40}\d[\w.-]{0,20}): ?(?=\[|\(\w|\d{4}-\d\d|Traceback \(|  File \"|"
        r"[A-Z]\w+Error)",
        _node,
    ),
    # docker compose; Determined doubles the stroke.
    _rule(r"(?P<node>[a-z][\w.-]{0,60}) +\|{1,2} (?=\S)", _node),
)
_RULES: dict[str, tuple[_Rule, ...]] = {"(": _PAREN, "[": _BRACKET}
_RULES |= dict.fromkeys("0123456789", _DIGIT)
_RULES |= dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", _LETTER)

# torch's C++ log and DeepSpeed name the rank inside the line.
_INNER_RANK = expression(r"\[(?:Rank |RANK )(\d+)\]|\[PG ID \d+[^\]]{0,80}Rank (\d+)\]")
_MOST_PREFIXES = 8
# What containers, schedulers and terminals put before whatever a program wrote.
_OUTER = {"[": (_BRACKET[2], _BRACKET[3], _BRACKET[-1]), **dict.fromkeys("0123456789", _DIGIT[:2])}
_OUTER |= dict.fromkeys("abcdefghijklmnopqrstuvwxyz", _LETTER[-2:])
_LOGGER = expression(rf"(?:\| )?(?:{_LEVEL})\b")


def strip_ansi(text: str) -> str:
    """The text without terminal control sequences."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def parse(text: str, origin: Origin = UNTOLD) -> Line:
    """A line without its prefixes; ``origin`` is what the file's name says, which a prefix may refine. The work grows
    with the line's beginning only, never with its length squared."""
    text = strip_ansi(text)
    line = Line("", origin)
    if text.startswith(envelope.OPEN):
        text = _opened(text, line)
    elif text.startswith("{") and _RAYS_EVENT.search(text, 0, _LONGEST_EVENT) is not None:
        text = _event(text, line)
    if "%|" in text[:300] and (bar := _AFTER_BAR.search(text, 0, 2000)) is not None:
        text = text[bar.start("rest") :]
    start = at = _indent(text)
    for _ in range(_MOST_PREFIXES):
        for rule in _RULES.get(text[at : at + 1], ()):
            if (match := rule.pattern.match(text, at)) is not None:
                rule.apply(match, line)
                at = match.end()
                break
        else:
            break
    line.text = text[at:] if at != start else text
    if "[repeated " in line.text[-300:]:
        _without_repeat(line)
    if line.origin.rank is None and ("ank " in line.text[:200] or "ANK " in line.text[:200]):
        _inner_rank(line)
    return line


def unwrapped(text: str) -> str:
    """A line as the program wrote it, its own logger's prefix included; a rank that was told outside goes before it as
    torch writes it."""
    text = strip_ansi(text)
    line = Line("", UNTOLD)
    if text.startswith(envelope.OPEN):
        text = _opened(text, line)
    start = at = _indent(text)
    for _ in range(_MOST_PREFIXES):
        for rule in _OUTER.get(text[at : at + 1], ()):
            if (match := rule.pattern.match(text, at)) is not None and not _LOGGER.match(text, match.end()):
                rule.apply(match, line)
                at = match.end()
                break
        else:
            break
    rest = text[at:] if at != start else text
    return rest if line.origin.rank is None else f"[rank{line.origin.rank}]: {rest}"


def _without_repeat(line: Line) -> None:
    again = _REPEATED.search(line.text, max(0, len(line.text) - 300))
    if again is not None:
        line.text, line.repeated = line.text[: again.start()], int(again[1])


def _indent(text: str) -> int:
    """Where a prefix may begin: behind up to four blanks (srun --label pads its ranks)."""
    blanks = len(text[:5]) - len(text[:5].lstrip(" "))
    return blanks if blanks < 5 and text[blanks : blanks + 1].isdigit() else 0


def _inner_rank(line: Line) -> None:
    match = _INNER_RANK.match(line.text, 0, 200)
    if match is not None:
        line.refine(rank=match[1] or match[2])


def _event(text: str, line: Line) -> str:
    """What an event of Ray's own processes says."""
    try:
        event = json.loads(text[:_LONGEST_EVENT])
    except (ValueError, RecursionError):
        return text
    message, source = event.get("message"), event.get("source_type")
    if not isinstance(message, str) or not isinstance(source, str):  # a record of something else may quote an event
        return text
    line.level = LEVELS.get(str(event.get("severity")).upper())
    line.refine(actor={"GCS": "gcs_server", "RAYLET": "raylet"}.get(source))
    return message.split("\n", 1)[0]


def _opened(text: str, line: Line) -> str:
    """The text behind what an envelope told of it."""
    line.stamp, level, process, text = envelope.read(text)
    line.level = LEVELS.get(level)
    if line.level is None and _CLOCK.match(line.stamp) and (led := _BEHIND_CLOCK.match(text)) is not None:
        line.level, text = LEVELS[led["level"]], text[led.end() :]
    if process:
        line.refine(node=process)
    return text
