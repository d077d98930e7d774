"""The flow of a check: collect facts, probe the patient, judge, and put the report together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import msgspec

from rldoctor.case import Case, Unknown
from rldoctor.check import Check, NotApplicable
from rldoctor.errors import one_line
from rldoctor.judge import first_missing, join_cases, judge
from rldoctor.lookup import find
from rldoctor.model import CheckResult, Finding, Level, Report
from rldoctor.probe import Probe, Request
from rldoctor.registry import Registry

Progress = Callable[[str], None]

# A rollout in `auto` starts only where it disturbs nobody: a miniature on the CPU takes about 2 GiB and a core, on a
# GPU the CUDA context and the smallest cache.
IDLE_LOAD_PER_CPU = 0.5
IDLE_MEMORY = 4 * 1024**3
IDLE_GPU_MEMORY = 8 * 1024**3


@dataclass(frozen=True)
class Depth:
    """How deep to look, and why not deeper."""

    level: Level
    reason: str | None = None


def sections(checks: Iterable[Check], probes: Iterable[Probe]) -> set[str]:
    """The sections of the case that the checks and probes read."""
    needs = [n for check in checks for detector in check.detectors for n in detector.needs]
    needs += [n for probe in probes for n in (*probe.needs, *probe.reads)]
    return {need.split(".")[0] for need in needs} - {"observations"}


def needed_probes(checks: Iterable[Check], probes: dict[str, Probe]) -> list[Probe]:
    """The probes whose observations the checks need, shallow levels first."""
    needs = (need.split(".") for check in checks for detector in check.detectors for need in detector.needs)
    names = {parts[1] for parts in needs if parts[0] == "observations"}
    return sorted((p for n, p in probes.items() if n in names), key=lambda p: (p.level, p.name))


def auto_depth(case: Case, request: Request) -> Depth:
    """The level that ``auto`` means here: ``imports``, and ``rollout`` where the device is idle."""
    busy = _busy(case, request)
    if busy is None:
        return Depth(Level.ROLLOUT)
    return Depth(Level.IMPORTS, f"no rollout was run: {busy} (--level rollout runs one all the same)")


def _busy(case: Case, request: Request) -> str | None:
    """Why a rollout would disturb somebody or cannot be had, or None."""
    if case.packages is None or find(case.packages, "vllm") is None:
        return "there is no vLLM in this environment"
    if case.host is None:
        return "how busy this machine is, is not known"
    from rldoctor.probes.rollout import choose_device

    try:
        device = choose_device(case, request)
    except NotApplicable as reason:
        return str(reason)
    if device is not None:
        if device.processes:
            return f"GPU {device.index} is in use by process {device.processes[0].pid}"
        free = device.memory_total - (device.memory_used or 0)
        return None if free >= IDLE_GPU_MEMORY else f"GPU {device.index} has only {free / 1024**3:.1f} GiB free"
    if case.host.load > IDLE_LOAD_PER_CPU * case.host.cpu_usable:
        return f"the CPUs are busy (load {case.host.load:.1f} on {case.host.cpu_usable:g})"
    free = min(case.host.memory_available, case.host.memory_limit or case.host.memory_available)
    if free < IDLE_MEMORY:
        return f"only {free / 1024**3:.1f} GiB of memory are available"
    return None


def announce(case: Case, probes: Iterable[Probe], level: Level) -> str | None:
    """What is about to be run and what it is expected to cost, or None where nothing is."""
    due = [p for p in probes if p.level <= level and not _explained(case, p) and first_missing(case, p.needs) is None]
    if not due:
        return None
    return f"running {', '.join(p.name for p in due)}: about {sum(p.seconds for p in due):.0f} s"


def run_probes(case: Case, probes: Iterable[Probe], request: Request, depth: Depth, progress: Progress) -> Case:
    """Runs every probe up to the level and returns the case with their observations; a probe that was not run is
    explained in the case."""
    for probe in probes:
        if _explained(case, probe):
            continue
        name = f"observations.{probe.name}"
        missing = first_missing(case, probe.needs)
        if isinstance(missing, Unknown):
            case = replace(case, unknown={**case.unknown, name: missing})
        elif missing is not None:
            case = replace(case, absent={**case.absent, name: missing.reason})
        elif probe.level > depth.level:
            label = probe.level.label
            why = Unknown(reason=f"the {label} level was not run", how=f"--level {label}")
            case = replace(case, unknown={**case.unknown, name: why})
        else:
            case = _run_probe(case, probe, request, progress)
    return case


def _explained(case: Case, probe: Probe) -> bool:
    """Whether the case already has the probe's observations, or says why not."""
    return f"observations.{probe.name}" in case.unknown or probe.name in case.observations


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
            results[key] = msgspec.to_builtins(run_job(probe, job, key, request))
        except Exception as error:  # what a plugin hands out may be no job, or hold what is no JSON
            why = Unknown(reason=f"the {probe.name} probe could not be run: {one_line(error)}")
            return replace(case, unknown={**case.unknown, name: why})
    return replace(case, observations={**case.observations, probe.name: results})


def report(case: Case, checks: Iterable[Check], registry: Registry, notes: Iterable[str] = ()) -> Report:
    """Judges the case."""
    broken = (f"plugin {b.plugin} was left out: {b.reason}" for b in registry.broken)
    judged = Report(target=describe(case), results=judge(checks, case), notes=(*broken, *notes))
    if case.plan is None:
        return judged
    from rldoctor.launch.edits.fixes import spelled_report

    return spelled_report(judged, case.plan)


def join(reports: list[Report]) -> Report:
    """One report out of one for each environment, launch or bundle: a check says what its gravest case says, a finding
    that several share is told once."""
    if len(reports) == 1:
        return reports[0]
    by_code: dict[str, list[CheckResult]] = {}
    for one in reports:
        for result in one.results:
            findings = tuple(replace(f, cases=_where(f, reports)) for f in result.findings)
            by_code.setdefault(result.code, []).append(replace(result, findings=findings))
    return Report(
        target="; ".join(one.target for one in reports),
        results=tuple(join_cases(results) for results in by_code.values()),
        notes=tuple(dict.fromkeys(note for one in reports for note in one.notes)),
    )


def _where(finding: Finding, reports: list[Report]) -> tuple[str, ...]:
    """The targets that have a finding, where not all have it."""
    having = tuple(one.target for one in reports if finding in one.findings)
    return having if len(having) < len(reports) else ()


def describe(case: Case) -> str:
    """One line that names what was examined."""
    parts = [part for part in (case.role, case.target) if part]
    if case.packages is not None:
        parts.append(f"Python {case.packages.python}")
        found = (find(case.packages, name) for name in ("vllm", "torch", "transformers"))
        parts += [f"{d.name} {d.version}" for d in found if d is not None]
    if case.gpus is not None:
        parts.append(f"{len(case.gpus.devices)}x {case.gpus.devices[0].name}" if case.gpus.devices else "no GPU")
    return ", ".join(parts) or "nothing"
