"""Runs the probes and scenarios that the checks need, as deep as the level goes, and explains those that were not
run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from rldoctor.case import Case, Unknown
from rldoctor.case.lookup import Absent
from rldoctor.catalogue.check import Check, NotApplicable
from rldoctor.catalogue.probe import Probe, Request
from rldoctor.catalogue.scenario import Scenario
from rldoctor.errors import one_line
from rldoctor.flow.depth import Depth
from rldoctor.io import streams
from rldoctor.judge import first_missing
from rldoctor.model import Level
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.catalogue.scenario import Basis, Run
    from rldoctor.probes.boots import Asked, Boot

AnyProbe = Probe | Scenario
Progress = Callable[[str], None]


def needed_probes(checks: Iterable[Check], probes: Mapping[str, AnyProbe]) -> list[AnyProbe]:
    """The probes and scenarios whose observations the checks need, shallow levels first."""
    needs = (need.split(".") for check in checks for detector in check.detectors for need in detector.needs)
    names = {parts[1] for parts in needs if parts[0] == "observations"}
    return sorted((p for n, p in probes.items() if n in names), key=lambda p: (p.level, p.name))


@dataclass(frozen=True)
class Announced:
    """What is about to be run, and how many seconds that is expected to take."""

    text: str
    seconds: float

    @contextlib.contextmanager
    def timed(self, progress: Progress) -> Iterator[Progress]:
        """Progress that says for how long it has been running, and what is about left; a terminal shows it as it
        goes."""
        began = time.monotonic()

        def passed() -> float:
            return time.monotonic() - began

        def clock(seconds: float) -> str:
            left = f"about {self.seconds - seconds:.0f} s left" if seconds < self.seconds else "longer than expected"
            return f"{seconds:.0f} s so far, {left}"

        def reported(line: str) -> None:
            seconds = passed()
            progress(f"{line} ({clock(seconds)})" if seconds >= 1 else line)

        with streams.ticking(lambda: clock(passed())):
            yield reported


def announce(case: Case, probes: Iterable[AnyProbe], request: Request, level: Level) -> Announced | None:
    """What is about to be run and what it is expected to cost, or None where nothing is."""
    due = [p for p in probes if is_due(case, p, level)]
    if not due:
        return None
    names = [p.name for p in due if isinstance(p, Probe) and _has_jobs(case, p, request)]
    seconds = expected(case, due, request)
    prepared = prepare(case, [p for p in due if isinstance(p, Scenario)], request)
    if prepared.boots:
        count = f"{len(prepared.boots)} engine{'s' if len(prepared.boots) > 1 else ''}"
        names.append(f"{', '.join(sorted({one.scenario.name for b in prepared.boots for one in b.asked}))} on {count}")
    return Announced(f"running {', '.join(names)}: about {seconds:.0f} s", seconds) if names else None


def is_due(case: Case, probe: AnyProbe, level: Level) -> bool:
    """Whether a probe is to be run: it is not too deep, nothing explains why not, and what it needs is known."""
    return probe.level <= level and not _explained(case, probe) and first_missing(case, probe.needs) is None


def expected(case: Case, probes: Iterable[AnyProbe], request: Request) -> float:
    """The seconds that probes are expected to take together; nothing for one that will say why it does not run."""
    probes = list(probes)
    alone = sum(p.seconds for p in probes if isinstance(p, Probe) and _has_jobs(case, p, request))
    return alone + prepare(case, [p for p in probes if isinstance(p, Scenario)], request).seconds


def _has_jobs(case: Case, probe: Probe, request: Request) -> bool:
    try:
        probe.jobs(case, request)
    except (Exception, SystemExit):  # it will say why when its turn comes
        return False
    return True


def run_probes(case: Case, probes: Iterable[AnyProbe], request: Request, depth: Depth, progress: Progress) -> Case:
    """Runs every probe up to the level and returns the case with their observations; a probe that was not run is
    explained in the case. Scenarios come last, on engines that they share."""
    scenarios: list[Scenario] = []
    for probe in probes:
        if _explained(case, probe):
            continue
        missing = first_missing(case, probe.needs)
        if missing is not None:
            case = _without(case, probe, missing)
        elif probe.level > depth.level:
            label = probe.level.label
            why = Unknown(reason=f"the {label} level was not run", how=f"--level {label}")
            case = _without(case, probe, why)
        elif isinstance(probe, Scenario):
            scenarios.append(probe)
        elif request.spent:
            case = _without(case, probe, Unknown(reason="the budget was spent before it", how="--budget"))
        else:
            case = _run_probe(case, probe, request, progress)
    return run_scenarios(case, scenarios, request, progress)


def run_scenarios(case: Case, scenarios: list[Scenario], request: Request, progress: Progress) -> Case:
    """Plays scenarios on as few engines as they allow."""
    prepared = prepare(case, scenarios, request)
    for scenario, why in prepared.refused:
        case = _without(case, scenario, why)
    if not prepared.boots:
        return case
    from rldoctor.probes.engines import play

    assert prepared.basis is not None  # there is something to boot
    reported = play(case, request, prepared.basis, prepared.boots, progress)
    return replace(case, observations={**case.observations, **reported})


class Prepared:
    """What a set of scenarios comes to: the engines to boot, and the scenarios that will not be played."""

    def __init__(self) -> None:
        self.basis: Basis | None = None
        self.boots: list[Boot] = []
        self.refused: list[tuple[Scenario, Absent | Unknown]] = []

    @property
    def seconds(self) -> float:
        """What the engines are expected to take, with all that is played on them."""
        return sum(boot.seconds for boot in self.boots)


def prepare(case: Case, scenarios: list[Scenario], request: Request) -> Prepared:
    """The engines for scenarios, planned and not yet booted."""
    prepared = Prepared()
    if not scenarios:
        return prepared
    from rldoctor.probes.basis import basis
    from rldoctor.probes.boots import Asked, plan_boots

    asked: list[Asked] = []
    for scenario in scenarios:
        try:
            prepared.basis = prepared.basis or basis(case, request)
            runs = dict(scenario.runs(case, request, prepared.basis))
            asked += [Asked(scenario, name, run, _vocabulary(run, prepared.basis)) for name, run in runs.items()]
        except NotApplicable as reason:
            prepared.refused.append((scenario, Absent(str(reason))))
        except (Exception, SystemExit) as error:  # a plugin's scenario may fail in any way; the run goes on
            why = Unknown(reason=f"the {scenario.name} scenario could not be prepared: {one_line(error)}")
            prepared.refused.append((scenario, why))
    if prepared.basis is not None:
        prepared.boots = plan_boots(asked, prepared.basis)
    return prepared


def _vocabulary(run: Run, basis: Basis) -> int:
    return 0 if run.engine.few_tokens else basis.vocabulary


def _explained(case: Case, probe: AnyProbe) -> bool:
    """Whether the case already has the probe's observations, or says why not."""
    return f"observations.{probe.name}" in case.unknown or probe.name in case.observations


def _without(case: Case, probe: AnyProbe, why: Absent | Unknown) -> Case:
    name = f"observations.{probe.name}"
    if isinstance(why, Unknown):
        return replace(case, unknown={**case.unknown, name: why})
    return replace(case, absent={**case.absent, name: why.reason})


def _run_probe(case: Case, probe: Probe, request: Request, progress: Progress) -> Case:
    from rldoctor.probes.runner import run_job

    name = f"observations.{probe.name}"
    try:
        jobs = dict(probe.jobs(case, request))
    except NotApplicable as reason:
        return replace(case, absent={**case.absent, name: str(reason)})
    except (Exception, SystemExit) as error:  # a plugin's probe may fail in any way; the run goes on
        why = Unknown(reason=f"the {probe.name} probe could not be prepared: {one_line(error)}")
        return replace(case, unknown={**case.unknown, name: why})
    results: dict[str, object] = {}
    for key, job in jobs.items():
        progress(probe.name if key == probe.name else f"{probe.name}: {key}")
        try:
            results[key] = msgspec.to_builtins(run_job(probe.child, job, f"{probe.name} {key}", request))
        except Exception as error:  # what a plugin hands out may be no job, or hold what is no JSON
            why = Unknown(reason=f"the {probe.name} probe could not be run: {one_line(error)}")
            return replace(case, unknown={**case.unknown, name: why})
    return replace(case, observations={**case.observations, probe.name: results})
