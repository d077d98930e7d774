"""What a log says: exceptions with their chain, matched lines with their surroundings, and one run of the program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from rldoctor.logs.code_paths import is_users
from rldoctor.model import Evidence, Fix, Incident
from rldoctor.records import dataclass

# Longest piece of the log that one event hands on, in characters.
TEXT_LIMIT = 16_384
# What a traceback is called whose end is not in the log.
UNFINISHED = "unfinished traceback"


@dataclass(frozen=True)
class Origin:
    """Which process wrote a line, as far as its prefix or its file tells. All parts are text, ``None`` where not known;
    two lines of one process have equal origins."""

    rank: str | None = None
    actor: str | None = None
    pid: str | None = None
    node: str | None = None

    @property
    def label(self) -> str:
        """For people: ``rank 3``, ``WorkerDict pid=123``, ``the main process``."""
        name = " ".join(x for x in (self.actor, f"pid={self.pid}" if self.pid else None) if x)
        parts = [f"rank {self.rank}" if self.rank is not None else None, name or None]
        parts.append(f"on {self.node}" if self.node else None)
        return ", ".join(p for p in parts if p) or "the main process"


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback. ``code`` is the source line that Python printed, empty where it had none."""

    file: str
    line: int | None
    function: str
    code: str = ""

    @property
    def raises(self) -> bool:
        """Whether its line raises by itself; another one raises only in what it calls."""
        return self.code.startswith(("raise", "assert"))

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line} in {self.function}"
            if self.line is not None
            else f"{self.file} in {self.function}"
        )


@dataclass(frozen=True, kw_only=True)
class LoggedException:
    """One exception as the log shows it, or a fatal end that has no Python exception (a signal, ``terminate called``).

    ``type`` is as printed (``torch.OutOfMemoryError``, ``AssertionError``, ``Segmentation fault``), ``message``
    everything up to the next line that does not belong to it. ``frames`` run from the outermost to the innermost.
    ``cause`` is what Python printed before it ("During handling of", "direct cause of"), ``group`` the members of an
    exception group. ``header`` is the line that introduced it (``Exception in thread async-eval:``, ``EngineCore
    failed to start.``)."""

    type: str
    message: str = ""
    frames: tuple[Frame, ...] = ()
    cause: LoggedException | None = None
    group: tuple[LoggedException, ...] = ()
    header: str = ""
    origin: Origin = Origin()
    source: str = ""
    line: int = 0
    time: float | None = None

    @property
    def chain(self) -> tuple[LoggedException, ...]:
        """The exception and what it grew from, the first cause first."""
        members: list[LoggedException] = []
        link: LoggedException | None = self
        while link is not None:
            members.append(link)
            link = link.cause
        return tuple(reversed(members))

    @property
    def text(self) -> str:
        """Type, message and code lines of the whole chain and group, one per line."""
        parts: list[str] = []
        for link in self.chain:
            parts += [link.header, *(f"{f.file} {f.function} {f.code}" for f in link.frames)]
            parts += [f"{link.type}: {link.message}", *(member.text for member in link.group)]
        return "\n".join(p for p in parts if p)[:TEXT_LIMIT]

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame outside installed packages and frameworks' checkouts, of this exception alone."""
        return next((frame for frame in reversed(self.frames) if is_users(frame.file)), None)

    @property
    def raised_by_user(self) -> Frame | None:
        """The frame that raised, where it is the user's own code: no installed code was entered below it, as far as the
        log shows."""
        innermost = self.frames[-1] if self.frames else None
        if innermost is not None and self.is_cut_off and not innermost.raises:
            return None
        return innermost if innermost is not None and is_users(innermost.file) else None

    @property
    def is_cut_off(self) -> bool:
        """Whether the log ends, or another begins, within the traceback."""
        return self.type == UNFINISHED

    def __str__(self) -> str:
        return f"{self.type}: {self.message}".strip().removesuffix(":")


@dataclass(frozen=True)
class Neighbour:
    """A known pattern that a failure resembles, and why it is not that one."""

    code: str
    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Departure:
    """A process whose end a launcher recorded, and that wrote nothing itself that says why. ``rank`` is None where it
    is not known, ``code`` the exit code, minus the signal's number where one ended it."""

    rank: str | None
    code: int
    source: str
    line: int


@dataclass(frozen=True, kw_only=True)
class Raised:
    """The place in a package's source that a failure comes from. ``said`` is a clause that names it with its releases
    and conditions; ``where`` is ``package: module.function``, ``template`` the message's literal text with ``{}`` for
    its holes, ``exception`` the type."""

    said: str
    where: str
    template: str
    exception: str
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FailedFirst:
    """The process that a launcher saw fail first (torchrun's summary), as far as it tells: its global and local rank,
    its host and pid, its exit code (minus the signal's number), and the file in which it kept its error."""

    rank: str | None = None
    local_rank: str | None = None
    host: str | None = None
    pid: str | None = None
    code: int | None = None
    error_file: str | None = None
    source: str
    line: int


@dataclass(frozen=True, kw_only=True)
class LogRun:
    """One run of the program: what failed, in order of time. ``root`` is the first failure on the first failing rank
    that is no cascade and no wrapper (None where there is none), ``failures`` everything that ended a process,
    ``handled`` exceptions after which the run went on, ``tail`` the last lines. ``new`` are lines that a healthy run's
    log does not have (``--baseline``), the most telling first, ``near`` the patterns that come nearest to a failure
    that none explains, ``raised`` where the sources of published releases raise it, ``departed`` the processes that
    ended without a word, ``failed_first`` what launchers tell of the process that failed first,
    ``dated`` the releases that the frames of a package can be of, where the log names none."""

    incident: Incident
    root: LoggedException | None = None
    failures: tuple[LoggedException, ...] = ()
    handled: tuple[LoggedException, ...] = ()
    tail: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    lines: int = 0
    new: tuple[Evidence, ...] = ()
    near: tuple[Neighbour, ...] = ()
    raised: Raised | None = None
    departed: tuple[Departure, ...] = ()
    failed_first: tuple[FailedFirst, ...] = ()
    dated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def versions(self) -> dict[str, str]:
        return self.incident.versions


@dataclass(frozen=True, kw_only=True)
class LogEvent:
    """A line in which a signature's literal was found.

    ``line`` is the text without prefixes (rank, actor, time, level). ``exception`` is the exception that the line
    belongs to: its message, or one of its code lines; ``carrier`` is what another process raised around it to pass it
    on (Ray's ``RayTaskError``), None where nothing did. ``before`` and ``after`` are lines of the same process around
    it, nearest first in ``after``, nearest last in ``before``, which for a line of an exception begins with those in
    front of the exception; they are empty for all but the first occurrences of a frequent line. ``fatal`` tells
    whether the line belongs to a failure that ended something. ``count`` and ``ranks`` say how often and on which
    ranks a line that differs in numbers only was seen. ``finished`` says that the log tells of a good end after it,
    ``outlived`` that the trainer had said its last words before it, ``after_done`` that anything of the run had said
    so, ``outside`` that others than the run wrote it
    when the run was over (its ``literal`` is then the whole line)."""

    literal: str
    line: str
    source: str
    number: int
    origin: Origin = Origin()
    time: float | None = None
    level: str | None = None
    exception: LoggedException | None = None
    carrier: LoggedException | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    fatal: bool = False
    count: int = 1
    ranks: tuple[str, ...] = ()
    finished: bool = False
    outlived: bool = False
    after_done: bool = False
    outside: bool = False
    run: LogRun = field(repr=False)

    @property
    def incident(self) -> Incident:
        return self.run.incident

    @property
    def versions(self) -> dict[str, str]:
        """Versions that the log reveals, by canonical distribution name, with ``python`` and ``nccl``."""
        return self.run.incident.versions

    @cached_property
    def text(self) -> str:
        """The line, the whole text of its exception, and what follows: where to look for numbers."""
        whole = self.carrier or self.exception
        exception = whole.text if whole else ""
        return "\n".join(p for p in (self.line, exception, *self.after) if p)[:TEXT_LIMIT]

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Those of the exception that the line belongs to, innermost last; none where it belongs to none."""
        return self.exception.frames if self.exception is not None else ()

    @property
    def is_code(self) -> bool:
        """Whether the line is source that the traceback quotes."""
        return any(frame.code and frame.code.strip() == self.line.strip() for frame in self.frames)

    def search(self, pattern: str, flags: int = 0) -> re.Match[str] | None:
        """The first match of a regular expression in :attr:`text`."""
        return re.search(pattern, self.text, flags)

    def evidence(self, text: str | None = None) -> Evidence:
        """The line as evidence, with its file and line number."""
        return Evidence(text=self._sentence()[:500] if text is None else text, source=self.source, line=self.number)

    def _sentence(self) -> str:
        """The line, with the lines on which its exception's message ends the sentence."""
        said = self.line.strip()
        behind = self.exception.message.partition(said)[2] if self.exception is not None and said else ""
        rest = iter(behind.split("\n")[1:])
        while not said.endswith((".", ":", "!", "?")) and (more := next(rest, "").strip()):
            said += f" {more}"
        return said
