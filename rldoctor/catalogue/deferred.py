"""Checks and probes whose modules are imported when something in them is asked for: what they are called and what they
need is kept beside the compiled modules, as those are, and holds as long as no source file changes.

Most checks miss a fact (no launch was given, no probe has run), which their needs alone show. Of a check that misses
none, the module with the detector is imported, and its other parts are not. A probe is imported when its jobs are asked
for, which no static check does."""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rldoctor import own_sources
from rldoctor.catalogue.check import Check, Detector, Kind
from rldoctor.catalogue.probe import Probe
from rldoctor.catalogue.scenario import Scenario
from rldoctor.io import atomic
from rldoctor.model import Grade, Level

FILE = "rldoctor-checks.json"


class Need(msgspec.Struct, array_like=True):
    """What is known of a detector without its function: ``module`` has it, as its ``number``-th."""

    module: str
    number: int
    needs: tuple[str, ...]
    grade: Grade
    fallback: bool


class Row(msgspec.Struct, array_like=True):
    """What is known of a check without its module. ``modules`` are all that it consists of, its own first."""

    code: str
    name: str
    kind: Kind
    before: tuple[str, ...]
    explains: tuple[str, ...]
    formerly: tuple[str, ...]
    detectors: tuple[Need, ...]
    knows: int
    modules: tuple[str, ...]


class ProbeRow(msgspec.Struct, array_like=True):
    """What is known of a probe or a scenario without its module: all but what it makes of a request, which ``module``
    has under ``attribute``. ``file`` is its child or program."""

    module: str
    attribute: str
    is_scenario: bool
    name: str
    level: Level
    file: str | None
    needs: tuple[str, ...]
    reads: tuple[str, ...]
    seconds: float
    vocabulary_seconds: float = 0.0
    disturbs: bool = False


class Kept(msgspec.Struct, array_like=True):
    """The rows, and the state of the source files that they were made from."""

    state: int
    rows: tuple[Row, ...]
    probes: tuple[ProbeRow, ...]


class DeferredCheck(Check):
    """A check that is known by its row; every other attribute is that of the check itself."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.code, self.name, self.kind = row.code, row.name, row.kind
        self.before, self.explains, self.formerly = row.before, row.explains, row.formerly
        self.module = row.modules[0]
        self.detectors = [
            Detector(partial(self._judge, held), held.needs, held.grade, held.fallback) for held in row.detectors
        ]
        self.known_by = [partial(self._knows, number) for number in range(row.knows)]

    @cached_property
    def real(self) -> Check:
        """The check itself. Raises what importing its modules raises."""
        for name in self.row.modules:
            importlib.import_module(name)
        return self._begun

    @cached_property
    def _begun(self) -> Check:
        """The check as its own module alone makes it, without its parts."""
        module = importlib.import_module(self.module)
        return next(c for c in vars(module).values() if isinstance(c, Check) and c.code == self.code)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.real, name)

    def _judge(self, need: Need, *given: Any) -> Iterator[Any]:
        return self.detector(need).judge(*given)

    def detector(self, need: Need) -> Detector:
        """The detector itself, for which its own module is imported and no other part."""
        importlib.import_module(need.module)
        return [d for d in self._begun.detectors if d.judge.__module__ == need.module][need.number]

    def _knows(self, number: int, job: Any) -> bool:
        return self.real.known_by[number](job)


def _later(module: str, name: str) -> Callable[..., Any]:
    """A function of a module, which is imported when it is called."""

    def call(*given: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*given)

    return call


def _probe(row: ProbeRow) -> Probe | Scenario:
    known: dict[str, Any] = {name: getattr(row, name) for name in ("name", "level", "needs", "reads", "seconds")}
    file, ask = Path(row.file) if row.file is not None else None, _later(row.module, row.attribute)
    if row.is_scenario:
        known |= {"vocabulary_seconds": row.vocabulary_seconds, "disturbs": row.disturbs}
        return Scenario(program=file, runs=ask, **known)
    assert file is not None
    return Probe(child=file, jobs=ask, **known)


def probe_row(probe: Probe | Scenario) -> ProbeRow:
    """What is kept of a probe or a scenario."""
    is_scenario = isinstance(probe, Scenario)
    asks: Any = probe.runs if isinstance(probe, Scenario) else probe.jobs
    file = probe.program if isinstance(probe, Scenario) else probe.child
    found = ProbeRow(
        asks.__module__,
        asks.__name__,
        is_scenario,
        probe.name,
        probe.level,
        str(file) if file is not None else None,
        probe.needs,
        probe.reads,
        probe.seconds,
    )
    if isinstance(probe, Scenario):
        found.vocabulary_seconds, found.disturbs = probe.vocabulary_seconds, probe.disturbs
    return found


def row(check: Check, modules: Iterable[str]) -> Row:
    """What is kept of a check."""
    seen: Counter[str] = Counter()
    detectors = []
    for detector in check.detectors:
        module = detector.judge.__module__
        detectors.append(Need(module, seen[module], detector.needs, detector.grade, detector.fallback))
        seen[module] += 1
    return Row(
        check.code,
        check.name,
        check.kind,
        check.before,
        check.explains,
        check.formerly,
        tuple(detectors),
        len(check.known_by),
        (check.module, *(name for name in modules if name != check.module)),
    )


class Known(NamedTuple):
    """Checks and probes that are known without their modules."""

    checks: list[DeferredCheck]
    probes: list[Probe | Scenario]


def kept(package: str) -> Known:
    """What was kept with a package; empty where nothing is, or a file of the package or of rldoctor has changed
    since."""
    found = _place(package)
    with suppress(OSError, msgspec.DecodeError):
        if found is not None:
            content = msgspec.json.decode((found[1] / FILE).read_bytes(), type=Kept)
            if content.state == own_sources.state(own_sources.HOME, found[0]):
                return Known([*map(DeferredCheck, content.rows)], [*map(_probe, content.probes)])
    return Known([], [])


def keep(package: str, rows: Iterable[Row], probes: Iterable[ProbeRow] = ()) -> None:
    """Keeps what is known of checks and probes with a package, where Python would keep what it compiles."""
    found = _place(package)
    if found is None:
        return
    content = msgspec.json.encode(Kept(own_sources.state(own_sources.HOME, found[0]), tuple(rows), tuple(probes)))
    with suppress(OSError):
        atomic.write(found[1] / FILE, content)


def _place(package: str) -> tuple[Path, Path] | None:
    """The folder of a package, and the one with its compiled modules; None where Python keeps none."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.cached is None or spec.origin is None:
        return None
    return Path(spec.origin).parent, Path(spec.cached).parent
