"""Which of a run's exceptions ended something, which were caught while it went on, and which are wrappers or
cascades."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from functools import cached_property

from rldoctor.catalogue.check import Role
from rldoctor.expressions import expression
from rldoctor.frameworks import trainers
from rldoctor.logs.liveness import is_progress
from rldoctor.logs.model import LoggedException
from rldoctor.logs.places import CANCELLED
from rldoctor.logs.record import FileRecord, Life, NativeEnd, RawDeath, RawEvent, RawException
from rldoctor.logs.runs import Slice
from rldoctor.logs.standing import CARRIER, roles
from rldoctor.logs.table import Table, Use
from rldoctor.records import dataclass

# Python says itself that these end nothing.
_IGNORED = expression(r"Exception ignored in|--- Logging error ---|Error in (?:atexit|sys)\.")
# Written by the hooks that run when nobody caught the exception.
_UNCAUGHT = expression(r"Exception in thread |Process \S+:$|Uncaught exception|Error executing job with overrides")
_BOOTSTRAP = expression(r"^(?:_bootstrap|_bootstrap_inner|spawn_main|_wrap|_run_code)$")
# What is typed at a prompt, and the prompts.
_TYPED = expression(r"<(?:stdin|python-input-\d+)>$")
_PROMPTS = (">>> ", "... ")
# So many lines are no accident.
SEVERAL = 3
# So often a process reports the same failure only where it lives on.
_AGAIN = 6
# Said by a process whose pipe or parent is gone; at the end of a run this is how the end looks.
_PARTING = expression(
    r"^(?:BrokenPipeError|ConnectionResetError|EOFError|KeyboardInterrupt|SystemExit|GeneratorExit|.*CancelledError)$"
)
# What is unpickled ends in the same way, be it what a parent sends to its child or a file, or a tensor, that is empty.
_EMPTY, _PIPES = "Ran out of input", "/multiprocessing/"
# What grew from an interruption (a callback, a clean-up that it broke off) is no failure of its own.
_INTERRUPT = "KeyboardInterrupt"
# What torch's NCCL watchdog throws behind its own report; what it says of the reason may be cut away.
_WATCHDOGS = "c10::DistBackendError"
# ``terminate called without an active exception``: a thread was still running as its process went down.
_WORDLESS = "std::terminate"
# What was cut off in these would have gone on to what they started.
_PROGRAMS = ("torchrun", "accelerate", "deepspeed", *(name for framework in trainers() for name in framework.programs))
LAUNCHERS = expression(
    r"runpy\b|/torch/distributed/(?:run|launcher/\w+|elastic/[\w/]+)\.py$|"
    r"/hydra/(?:main|_internal/\w+)\.py$|/ray/_private/\w+\.py$|/accelerate/commands/|"
    rf"/bin/(?:{'|'.join(map(re.escape, _PROGRAMS))})$"
)


@dataclass
class Failure:
    """Something that ended a process (or would have). ``hits`` are its lines that hold a signature's literal;
    ``launcher`` ones are a parent's word about its child."""

    exception: LoggedException
    slice: Slice
    number: int
    last: int
    raw: RawException | RawDeath
    launcher: bool = False
    hits: list[tuple[Use, RawEvent]] = field(default_factory=list)
    file_index: int = 0

    @cached_property
    def said(self) -> dict[str, set[Role]]:
        """The literals that stand in it, with what the rows that describe it say that it is."""
        found: dict[str, set[Role]] = {}
        record = self.slice.record
        for use, line in self.hits:
            held = record.tokens.get(line.token) if line.token is not None else None
            found.setdefault(use.literal, set()).update(
                roles(use, line, held.exception if held is not None else None, record.name)
            )
        return found

    @property
    def after(self) -> Life:
        """What the process wrote afterwards in this run."""
        return self.raw.aftermath.until(self.slice.last)

    @property
    def secondary(self) -> bool:
        """Whether it only passes on, or follows from, what happened elsewhere."""
        if self.launcher:
            return True
        if any(Role.CAUSE in roles for roles in self.said.values()):
            return False
        if self.exception.chain[0].type == _INTERRUPT:
            return True
        return all(self._passes_on(link) for link in self.exception.chain)

    def _passes_on(self, link: LoggedException) -> bool:
        if CARRIER.search(link.type):
            return True
        if _PARTING.match(link.type.rsplit(".", 1)[-1]):
            return link.message != _EMPTY or any(_PIPES in frame.file for frame in link.frames[-2:])
        if link.type in (_WATCHDOGS, _WORDLESS) and not link.message and not link.frames:
            return True
        if link.is_cut_off and link.frames and LAUNCHERS.search(link.frames[-1].file):
            return True
        text = f"{link.type}: {link.message}"
        return any(roles & {Role.CASCADE, Role.WRAPPER} and literal in text for literal, roles in self.said.items())

    @property
    def rank(self) -> str | None:
        """The rank that raised it, as its lines or its process's pid tell."""
        inner = self.exception.chain[0].origin
        known = self.slice.record.rank_of.get((inner.pid, inner.node)) if inner.pid else None
        return inner.rank or self.exception.origin.rank or known

    @property
    def node(self) -> str | None:
        """The node that its process was on, as its lines tell."""
        return self.exception.chain[0].origin.node or self.exception.origin.node

    @property
    def order(self) -> tuple[float, int, int]:
        """Sorts failures of several files: by time where it is known, then as they stand."""
        time = self.exception.time
        return (time if time is not None else float("inf"), self.file_index, self.number)


@dataclass
class Verdicts:
    """The sorted exceptions of one run."""

    failures: list[Failure] = field(default_factory=list)
    handled: list[Failure] = field(default_factory=list)


def judge(slices: Iterable[Slice], table: Table) -> Verdicts:
    """Sorts the exceptions and deaths of one run (one slice per file)."""
    verdicts = Verdicts()
    for index, piece in enumerate(slices):
        for failure in _candidates(piece, index, _hits(piece.record, table)):
            ended_nothing = _went_on(failure) or _of_a_shutdown(failure) or _of_another(failure) or _at_exit(failure)
            (verdicts.handled if ended_nothing else verdicts.failures).append(failure)
    _reconsider(verdicts)
    several = len({failure.file_index for failure in verdicts.failures}) > 1
    key = (lambda f: f.order) if several else (lambda f: (float(f.number), f.file_index, f.number))
    verdicts.failures.sort(key=key)
    verdicts.handled.sort(key=key)
    return verdicts


def uncaught(failure: Failure) -> bool:
    """Whether the traceback looks like one that nobody caught: Python printed it as the process, thread or module
    ended."""
    raw = failure.raw
    if isinstance(raw, RawDeath):
        return True
    if raw.quoted:
        return False
    if raw.native is not None:
        return raw.native is NativeEnd.SURE
    frames = raw.exception.frames
    outermost = frames[0].function if frames else ""
    return (
        raw.ranked
        or _UNCAUGHT.match(raw.exception.header) is not None
        or outermost == "<module>"
        or (_BOOTSTRAP.match(outermost) is not None)
    )


def _candidates(piece: Slice, index: int, hits: dict[int, list[tuple[Use, RawEvent]]]) -> list[Failure]:
    found: list[Failure] = []
    for raw in piece.exceptions:
        if _IGNORED.search(raw.exception.header) is None:
            lines = hits.get(id(raw), [])
            found.append(Failure(raw.exception, piece, raw.number, raw.last, raw, False, lines, index))
    for death in piece.deaths:
        lines = hits.get(id(death), [])
        found.append(Failure(death.exception, piece, death.number, death.number, death, death.launcher, lines, index))
    return found


def _hits(record: FileRecord, table: Table) -> dict[int, list[tuple[Use, RawEvent]]]:
    """The lines of each exception and death that hold a signature's literal."""
    found: dict[int, list[tuple[Use, RawEvent]]] = {}
    deaths = {death.number: death for death in record.deaths}
    for use_index, hits in record.hits.items():
        use = table.uses[use_index]
        for event in hits.kept:
            # A line of an exception may also tell of a death: the literal belongs to both.
            held = record.tokens.get(event.token) if event.token is not None else None
            for target in (held, deaths.get(event.number)):
                if target is not None:
                    found.setdefault(id(target), []).append((use, event))
    return found


def _went_on(failure: Failure) -> bool:
    """Whether the process that printed the exception is seen at work again: its next steps, requests that it answers;
    for what somebody may have caught also its logger, and lines such as it wrote before. What scripts append to a log
    is none of these."""
    after = failure.after
    raw = failure.raw
    # What an actor tells of its child is not of the run.
    besides = isinstance(raw, RawDeath) and (raw.any_child or (raw.launcher and failure.exception.origin.actor))
    # Nor is an actor the run, that came to its end without it.
    ended_well = failure.exception.origin.actor and failure.number < failure.slice.record.last_word
    if (besides or (isinstance(raw, RawDeath) and ended_well)) and _steps_behind(failure) >= SEVERAL:
        return True
    if isinstance(raw, RawException):
        if _of_a_prompt(failure):
            return True
        if raw.quoted:
            alive = after.moved + after.informed + after.repeated + after.ordinary > 0
            return alive or _reported_again(failure) or _steps_behind(failure) >= SEVERAL
        if raw.ranked or _UNCAUGHT.match(raw.exception.header):
            return False
        if not uncaught(failure):
            if _reported_again(failure):
                return True
            if after.moved >= 1 or after.informed + after.repeated >= SEVERAL:
                return True
            return raw.native is None and _steps_behind(failure) >= SEVERAL
    return after.moved >= 2


def _of_a_prompt(failure: Failure) -> bool:
    """Whether it was raised at Python's prompt, which came again."""
    frames, tail = failure.exception.frames, failure.slice.record.tail
    typed = bool(frames) and _TYPED.match(frames[0].file) is not None
    return typed and any(number > failure.last and line.text.startswith(_PROMPTS) for number, line in tail)


def _of_a_shutdown(failure: Failure) -> bool:
    """Whether it only passes on that a server ended which somebody had asked to."""
    return failure.secondary and failure.slice.is_shutting_down(failure.number)


def _of_another(failure: Failure) -> bool:
    """Whether a parent tells, behind the trainer's last words, how another child ended: whichever that is, or one of a
    step that Slurm took down, as it does with servers and Ray's nodes where a batch script is through."""
    raw, record = failure.raw, failure.slice.record
    if not isinstance(raw, RawDeath) or not 0 < record.last_word < failure.number:
        return False
    taken_down = (number for number, place, _ in record.places if place.literal == CANCELLED)
    return raw.any_child or (raw.launcher and any(record.last_word < number for number in taken_down))


def _at_exit(failure: Failure) -> bool:
    """Whether the process crashed as it ended itself, behind the trainer's last words: no Python ran any more."""
    raw, record = failure.raw, failure.slice.record
    if not isinstance(raw, RawException) or not 0 < record.last_word < failure.number:
        return False
    said = raw.exception
    died_so = said.type == "Fatal Python error" or (said.type == _WORDLESS and not said.message)
    return raw.native is NativeEnd.SURE and died_so and not said.frames


def _reported_again(failure: Failure) -> bool:
    """Whether a process reports what one function raises again and again: then none of it ended the process, nor one of
    its kind (another actor of the same class)."""
    origin, frames = failure.exception.origin, failure.exception.frames
    if (origin.pid is None and origin.rank is None) or not frames:
        return False
    raised = (frames[-1].file, frames[-1].function)
    reports = Counter(
        raw.exception.origin
        for raw in failure.slice.exceptions
        if raw.exception.frames and (raw.exception.frames[-1].file, raw.exception.frames[-1].function) == raised
    )
    return any(
        times >= _AGAIN
        for by, times in reports.items()
        if by == origin or (origin.actor is not None and by.actor == origin.actor)
    )


def _steps_behind(failure: Failure) -> int:
    """How often the end of the log shows, whichever process says so, that the run moved on after the exception: a tool
    call of one worker that failed and was tried again is none of the run's failures."""
    tail = failure.slice.record.tail
    return sum(failure.last < number <= failure.slice.last and is_progress(line) for number, line in tail)


def _reconsider(verdicts: Verdicts) -> None:
    """Takes the run as a whole into account: exceptions that were merely logged end nothing in a run that came to its
    end; and where it ended badly without a cause in sight, what looked uncaught was not caught."""
    failures = verdicts.failures
    # What follows any failure is none of its own where the log shows one.
    if any(isinstance(failure.raw, RawException) for failure in failures):
        for failure in failures:
            failure.launcher = failure.launcher or (isinstance(failure.raw, RawDeath) and failure.raw.behind)
    if failures and not any(uncaught(f) or f.launcher for f in failures):
        logged_only = [f for f in failures if f.slice.record.last_word > f.last]
        for failure in logged_only:
            failures.remove(failure)
            verdicts.handled.append(failure)
    if failures and all(f.secondary for f in failures):
        back = [f for f in verdicts.handled if uncaught(f) and not f.secondary]
        for failure in back:
            verdicts.handled.remove(failure)
            failures.append(failure)
