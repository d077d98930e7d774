"""What a scenario is: a piece of traffic that is played on a running engine, and the engines that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.model import Level
from rldoctor.records import dataclass

MINIATURE = "miniature"
# From here on another boot costs less than draws of so many tokens.
LARGE = 20_000


@dataclass(frozen=True, kw_only=True)
class Basis:
    """The engine that a launch asks for, scaled to what can be booted in seconds; without a launch vLLM's defaults.

    ``options`` and ``environ`` are what every engine gets. Lengths are in tokens: ``model_len`` the longest sequence,
    ``prompt`` and ``response`` the longest that the launch plans, scaled alike by ``scale`` (planned tokens for each
    token here), ``vocabulary`` that of the model that is stood in for. ``device`` is ``cpu`` or ``cuda``; ``left_out``
    says which of the launch's engine options are not carried over, and why."""

    options: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    model_len: int = 2048
    prompt: int = 1024
    response: int = 512
    vocabulary: int = 0
    scale: float = 1.0
    device: str = "cpu"
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def large_vocabulary(self) -> bool:
        """Whether sampling takes most of the time, as it does on the CPU, where many rows of it are put in order."""
        return self.device == "cpu" and self.vocabulary > LARGE


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What a run needs of its engine beyond the basis.

    ``kind`` is ``llm`` (``vllm.LLM``) or ``async`` (``AsyncLLM``, ``AsyncLLMEngine``). An engine that is ``alone`` gets
    no options that others ask for, because the run compares it with another that differs in these options only.
    ``replica`` keeps engines apart that are equal in all else. A ``reference`` is an engine that the launch does not
    ask for, to hold the launch's own against: it is shared with other references alone, and where it fails, what it was
    wanted for was not reached, and nothing is wrong with the launch. One of ``few_tokens`` has a small vocabulary, and
    its own tokenizer, in place of the model's: what does not depend on them is played in a fraction of the time."""

    options: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    kind: str = "llm"
    alone: bool = False
    replica: int = 0
    reference: bool = False
    few_tokens: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a scenario: its engine, what the program is told (JSON), and the seconds after which it is stalled."""

    engine: Engine = field(default_factory=Engine)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    time_limit: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Traffic that shows a failure in a running engine. It records and judges nothing.

    ``program`` is a Python file with ``play(running, arguments)`` for the target's interpreter (see
    ``probes/children/running_engine.py``); without one it is what every boot shows by itself. ``runs`` maps names to
    runs; it may raise :class:`rldoctor.catalogue.check.NotApplicable`. What the runs record becomes
    ``observations.<name>``, keyed by run, each in the form of a job's result."""

    name: str
    level: Level
    runs: Callable[[Case, Request, Basis], Mapping[str, Run]]
    program: Path | None = None
    needs: tuple[str, ...] = ("packages.vllm",)
    """The facts without which it cannot run."""
    reads: tuple[str, ...] = ()
    """Sections that it takes into account where they are there."""
    seconds: float = 2.0
    """What one run is expected to take once its engine is up."""
    vocabulary_seconds: float = 0.0
    """What 100,000 tokens of vocabulary add to that."""
    disturbs: bool = False
    """Whether it may leave its engine in disorder; it then comes last."""
