"""Everything that the one pass looks for, with what each literal is for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum

from rldoctor.catalogue.check import Check, Signature
from rldoctor.logs.deaths import DEATHS, ELASTIC_SUMMARY, FATAL_PYTHON, TERMINATE, THROWN, Death
from rldoctor.logs.devices import DEVICES
from rldoctor.logs.forms import HEADER, IN_FRAME
from rldoctor.logs.literals import Find, finder
from rldoctor.logs.metrics import LITERALS as METRICS
from rldoctor.logs.places import PLACES
from rldoctor.logs.printed import FORMS, Form
from rldoctor.logs.reveals import REVEALS, Reveal
from rldoctor.logs.run_marks import EARLY, STAGES, STARTS
from rldoctor.logs.tracebacks import SEPARATORS
from rldoctor.logs.world import WORLD
from rldoctor.records import dataclass


class Anchor(Enum):
    """Where a closer look begins, whatever the checks look for."""

    TRACEBACK = "traceback"
    SEPARATOR = "separator"
    REMOTE = "remote"
    FRAME = "frame"
    FATAL = "fatal"
    TERMINATE = "terminate"
    SUMMARY = "summary"


_ANCHORS: dict[str, Anchor] = {
    HEADER.rstrip(":"): Anchor.TRACEBACK,
    **dict.fromkeys(SEPARATORS, Anchor.SEPARATOR),
    "() (pid=": Anchor.REMOTE,
    IN_FRAME: Anchor.FRAME,
    FATAL_PYTHON: Anchor.FATAL,
    TERMINATE: Anchor.TERMINATE,
    THROWN: Anchor.TERMINATE,
    ELASTIC_SUMMARY: Anchor.SUMMARY,
}


@dataclass
class Use:
    """What one literal is for."""

    literal: str
    anchor: Anchor | None = None
    deaths: list[Death] = field(default_factory=list)
    reveals: list[Reveal] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    start: bool = False
    early: bool = False
    metric: bool = False
    stage: str | None = None
    signatures: list[tuple[Check, Signature]] = field(default_factory=list)


class Table:
    """All literals, distinct, and the function that finds them."""

    def __init__(self, checks: Iterable[Check]) -> None:
        self.uses: list[Use] = []
        self._index: dict[str, int] = {}
        self.behind: list[tuple[Check, Signature]] = []
        for literal, anchor in _ANCHORS.items():
            self._use(literal).anchor = anchor
        for death in DEATHS:
            self._use(death.literal).deaths.append(death)
        for reveal in (*REVEALS, *PLACES, *WORLD, *DEVICES):
            self._use(reveal.literal).reveals.append(reveal)
        for form in FORMS:
            self._use(form.literal).forms.append(form)
        for literal in STARTS:
            self._use(literal).start = True
        for literal in EARLY:
            self._use(literal).early = True
        for literal in METRICS:
            self._use(literal).metric = True
        for literal, stage in STAGES.items():
            self._use(literal).stage = stage
        for check in checks:
            for signature in check.signatures:
                if signature.behind:
                    self.behind.append((check, signature))
                for literal in dict.fromkeys(signature.literals):
                    self._use(literal).signatures.append((check, signature))
        self.find: Find = finder([use.literal for use in self.uses])

    def _use(self, literal: str) -> Use:
        if literal not in self._index:
            self._index[literal] = len(self.uses)
            self.uses.append(Use(literal))
        return self.uses[self._index[literal]]
