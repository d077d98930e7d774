"""What reading one log file leaves behind: exceptions, deaths, hits of signatures, and where runs begin."""

from __future__ import annotations

from collections import deque
from dataclasses import field
from enum import Enum

from rldoctor.logs.liveness import bar_position, is_ordinary, is_progress
from rldoctor.logs.metrics import Collector
from rldoctor.logs.model import FailedFirst, LoggedException, Origin
from rldoctor.logs.prefixes import Line
from rldoctor.logs.printed import Printed
from rldoctor.logs.reveals import Reveal
from rldoctor.logs.run_marks import SHUTDOWN
from rldoctor.logs.templates import template
from rldoctor.records import dataclass

# Of a literal that is found all over, the first hits are kept with their surroundings, the last without.
KEEP = 32
# Characters of a line that are kept of a hit, and of the lines around it.
LINE_KEPT = 4096
AROUND_KEPT = 500
# Lines of the same process that are looked at after an exception.
WATCHED_LINES = 60
# Actors whose lines are the program's own: none, and what vLLM calls the processes that it was started in.
MAIN_PROCESSES = (None, "MainProcess", "APIServer")


class Sign(Enum):
    """What one line of a process shows about it after an exception."""

    PROGRESS = "progress"
    BAR = "bar"
    INFORMED = "informed"
    REPEATED = "repeated"
    ORDINARY = "ordinary"


@dataclass(frozen=True)
class Life:
    """Proof that a process went on: signs of progress (``moved``), a logger's INFO (``informed``), and lines such as it
    wrote before (``repeated``). Other lines (``ordinary``) prove nothing, but end what a sample quoted."""

    moved: int = 0
    informed: int = 0
    repeated: int = 0
    ordinary: int = 0


@dataclass
class Aftermath:
    """The lines of a process after an exception, as far as they show something, by number. ``usual`` are the templates
    of what it wrote before: whoever writes such a line again is still at work, whoever writes another may be a script
    that runs after it."""

    usual: frozenset[str] = frozenset()
    signs: list[tuple[int, Sign, int]] = field(default_factory=list)
    seen: int = 0
    upto: int = 0

    def add(self, line: Line, number: int) -> None:
        """Takes one more line of the process."""
        self.seen += 1
        self.upto = number
        position = bar_position(line)
        if position is not None:
            self.signs.append((number, Sign.BAR, position))
        elif is_progress(line):
            self.signs.append((number, Sign.PROGRESS, 0))
        elif is_ordinary(line):
            if line.level == "INFO":
                self.signs.append((number, Sign.INFORMED, 0))
            else:
                again = template(line.text) in self.usual
                self.signs.append((number, Sign.REPEATED if again else Sign.ORDINARY, 0))

    def until(self, last: int) -> Life:
        """What the lines up to ``last`` show. A single bar is only redrawn as it closes; two positions are progress."""
        signs = [(sign, position) for number, sign, position in self.signs if number <= last]
        kinds = [sign for sign, _ in signs]
        bars = {position for sign, position in signs if sign is Sign.BAR}
        return Life(
            moved=kinds.count(Sign.PROGRESS) + max(0, len(bars) - 1),
            informed=kinds.count(Sign.INFORMED),
            repeated=kinds.count(Sign.REPEATED),
            ordinary=kinds.count(Sign.ORDINARY),
        )


class NativeEnd(Enum):
    """An end below Python, which nobody can catch: ``sure`` where what the interpreter or C++ adds to it follows, else
    only ``said``."""

    SURE = "sure"
    SAID = "said"


@dataclass
class RawException:
    """An exception with what decides whether it ended something."""

    exception: LoggedException
    number: int
    last: int
    ranked: bool = False
    level: str | None = None
    quoted: bool = False
    native: NativeEnd | None = None
    token: int = 0
    aftermath: Aftermath = field(default_factory=Aftermath)

    @property
    def origin(self) -> Origin:
        return self.exception.origin


@dataclass
class RawDeath:
    """An end without an exception; ``launcher`` ones are a parent's word about its child, ``behind`` ones follow an
    exception too, ``any_child`` ones may be about whichever child."""

    exception: LoggedException
    number: int
    launcher: bool = False
    code: int | None = None
    behind: bool = False
    any_child: bool = False
    aftermath: Aftermath = field(default_factory=Aftermath)


@dataclass
class RawEvent:
    """A line with a signature's literal. ``token`` names the exception that it belongs to, ``part`` the part of it."""

    use: int
    line: str
    number: int
    origin: Origin
    time: float | None = None
    level: str | None = None
    token: int | None = None
    part: str = ""
    quoted: bool = False
    before: tuple[str, ...] = ()
    after: list[str] = field(default_factory=list)
    repeated: int = 0


@dataclass
class Hits:
    """The hits of one literal: the first ones, the last ones, and how many there were. ``unread`` are the last lines of
    very many, by number, until the file has been read."""

    first: list[RawEvent] = field(default_factory=list)
    last: deque[RawEvent] = field(default_factory=lambda: deque(maxlen=KEEP))
    unread: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=KEEP))
    count: int = 0

    def add(self, event: RawEvent) -> None:
        """Keeps the event, unless it is one of very many."""
        self.count += 1
        if len(self.first) < KEEP:
            self.first.append(event)
        else:
            self.last.append(event)

    @property
    def kept(self) -> list[RawEvent]:
        return [*self.first, *self.last]


@dataclass(frozen=True)
class Start:
    """A line at which a program was started, or (``early``) that programs write soon after."""

    number: int
    text: str
    early: bool
    rank: str | None = None


@dataclass
class FileRecord:
    """One file's yield. Numbers count lines from 1; ``starts`` are lines at which a program was started, ``stages``
    where a stage of training began, ``rank_of`` the rank of a process (by pid and node) where some line tells both,
    ``places`` the nodes and attempts that lines name, ``world`` how many processes and nodes launchers tell of,
    ``devices`` what is told of GPUs and their driver, ``printed`` what programs said of how they were started,
    ``metrics`` what was logged from a line on, ``done`` the last line that said that all was done, ``last_word``
    the last one in which a trainer did, ``alive`` the last one that shows work going on, ``tail`` the last lines by
    number."""

    name: str
    origin: Origin
    exceptions: list[RawException] = field(default_factory=list)
    tokens: dict[int, RawException] = field(default_factory=dict)
    deaths: list[RawDeath] = field(default_factory=list)
    hits: dict[int, Hits] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    ranks: set[str] = field(default_factory=set)
    rank_of: dict[tuple[str, str | None], str] = field(default_factory=dict)
    stages: list[tuple[int, str]] = field(default_factory=list)
    versions: list[tuple[int, str, str]] = field(default_factory=list)
    places: list[tuple[int, Reveal, str]] = field(default_factory=list)
    world: list[tuple[int, str, int]] = field(default_factory=list)
    devices: list[tuple[int, str, str]] = field(default_factory=list)
    summaries: list[FailedFirst] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    tail: list[tuple[int, Line]] = field(default_factory=list)
    printed: list[Printed] = field(default_factory=list)
    metrics: list[tuple[int, Collector]] = field(default_factory=lambda: [(1, Collector())])
    done: int = 0
    last_word: int = 0
    alive: int = 0
    lines: int = 0
    size: int = 0
    partial: str | None = None

    @property
    def asked_to_end(self) -> int | None:
        """The last line in which a server said that somebody had asked it to end, None where none did."""
        return next((number for number, stage in reversed(self.stages) if stage == SHUTDOWN), None)

    @property
    def last_sign(self) -> int:
        """The last line that shows work going on, 0 where none does."""
        return max(self.alive, *(collector.last for _, collector in self.metrics))
