"""What a probe is: a child program for the target's interpreter, and what it needs to be told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.model import Level
from rldoctor.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; collectors and probes read it, checks never do."""

    target: Path | None = None
    python: Path | None = None
    model: Path | None = None
    level: Level | None = None
    devices: tuple[int, ...] | None = None
    time_limit: float | None = None
    soak: float | None = None
    """Minutes for which live traffic is kept up; None for no such run."""
    until: float | None = None
    """The monotonic time at which what still runs is ended, and nothing more is started (``--budget``)."""
    keep: Path | None = None
    """The folder in which what engines showed is kept for a run that goes on; None for none."""
    step: tuple[Path, str] | None = None
    """File and name of a function of the user's own that is to be run; None for none."""
    ray: str | None = None
    """The address of a running Ray cluster that is asked what it has."""
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def spent(self) -> bool:
        """Whether the budget is spent."""
        return self.left <= 0

    @property
    def left(self) -> float:
        """The seconds that are left of the budget."""
        return math.inf if self.until is None else self.until - time.monotonic()


@dataclass(frozen=True, kw_only=True)
class Job:
    """One child process: its arguments (JSON), extra environment variables and time limit in seconds."""

    arguments: dict[str, Any]
    environ: dict[str, str] = field(default_factory=dict)
    time_limit: float = 60.0


@dataclass(frozen=True, kw_only=True)
class ProbeError:
    """An exception that ended a child: its type, message and frames (``file:line in function``, innermost last)."""

    type: str
    message: str
    frames: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """What became of one child. ``records`` holds all it had delivered, also when it died half-way.

    ``ended`` is ``done``, ``raised`` (an exception, in ``error``), ``died`` (a signal or an exit without a word),
    ``timed-out``, ``not-started`` or ``not-run`` (the budget was spent before its end). ``log`` is the file with its
    whole output, ``tail`` the last lines of it."""

    ended: str
    records: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    exit_code: int | None = None
    signal: str | None = None
    error: ProbeError | None = None
    log: str | None = None
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A program that records facts by running the patient. It judges nothing.

    ``child`` is handed to the target's interpreter, which needs nothing installed but its own stack. ``jobs`` maps a
    job's name to what the child is told; it may raise :class:`rldoctor.catalogue.check.NotApplicable`. The
    results of all jobs become ``observations.<name>``, keyed by job."""

    name: str
    level: Level
    child: Path
    jobs: Callable[[Case, Request], dict[str, Job]]
    needs: tuple[str, ...] = ()
    """The facts without which it cannot run."""
    reads: tuple[str, ...] = ()
    """Sections that it takes into account where they are there."""
    seconds: float = 1.0
    """What one run is expected to take, for the notice beforehand."""
