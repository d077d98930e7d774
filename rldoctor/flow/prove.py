"""Proves fixes: what was reproduced is played once more with the fix, and only a finding that is then gone makes the
fix ``proven``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rldoctor.case import Case
from rldoctor.catalogue.check import Check, Detector
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.registry import Registry
from rldoctor.catalogue.scenario import Scenario
from rldoctor.flow import examination
from rldoctor.flow import probe as probing
from rldoctor.model import Applicability, Edit, Finding, Fix, Grade, Outcome, Report, Severity
from rldoctor.plan.model import RolloutPlan, Setting, Source

# Every proof boots engines again.
MOST_PROOFS = 4
# What nobody wants to wait for a second time unasked.
TOO_LONG = frozenset({"soak"})
SEEN = frozenset({Grade.OBSERVED, Grade.REPRODUCED})


def prove(case: Case, report: Report, registry: Registry, request: Request, progress: probing.Progress) -> Report:
    """The report with the fixes marked that were proven. A case without a launch has nothing to apply a fix to."""
    if case.plan is None:
        return report
    prover = _Prover(case, registry, request, progress)
    results = (replace(result, findings=tuple(map(prover.proven, result.findings))) for result in report.results)
    return replace(report, results=tuple(results))


class _Prover:
    def __init__(self, case: Case, registry: Registry, request: Request, progress: probing.Progress) -> None:
        self.case = case
        self.registry = registry
        self.request = request
        self.progress = progress
        self.left = MOST_PROOFS

    def proven(self, finding: Finding) -> Finding:
        """The finding, its first fix that holds marked as proven."""
        if finding.grade not in SEEN or any(fix.proven for fix in finding.fixes):
            return finding
        scenarios = self._showing(finding.code)
        for number, fix in enumerate(finding.fixes):
            if not fix.edits or fix.applicability is Applicability.DISPLAY or not scenarios or not self.left:
                continue
            after = self._after(finding, fix, scenarios)
            if after is not None:
                fixes = (*finding.fixes[:number], replace(fix, proven=after), *finding.fixes[number + 1 :])
                return replace(finding, fixes=fixes)
        return finding

    def _showing(self, code: str) -> list[Scenario]:
        """The scenarios, of those that were played, that show the code: through its detectors or in their logs."""
        showing = []
        for name in self.case.observations:
            scenario = self.registry.probes.get(name)
            if isinstance(scenario, Scenario) and name not in TOO_LONG:
                reported = self._judged(self.case, {name})
                if any(finding.code == code for finding in reported.findings):
                    showing.append(scenario)
        return showing

    def _after(self, finding: Finding, fix: Fix, scenarios: list[Scenario]) -> str | None:
        """What the same scenarios show with the fix made, or None where it changes nothing for them, or where the
        finding, a new error or no answer is what comes of it."""
        assert self.case.plan is not None
        names = {scenario.name for scenario in scenarios}
        mended = replace(self.case, plan=with_edits(self.case.plan, fix.edits), observations={})
        prepared = probing.prepare(mended, scenarios, self.request)
        if _engines(prepared) == _engines(probing.prepare(self.case, scenarios, self.request)):
            return None
        self.left -= 1
        self.progress(f"proving a fix of {finding.code}: {fix.title}: about {prepared.seconds:.0f} s")
        mended = probing.run_scenarios(mended, scenarios, self.request, self.progress)
        if not all(_played(mended, scenario) for scenario in scenarios):
            return None
        before, after = self._judged(self.case, names), self._judged(mended, names)
        answers = {result.code: result.outcome for result in after.results}
        still = any(one.code == finding.code for one in after.findings)
        if still or answers.get(finding.code, Outcome.PASS) is not Outcome.PASS or _errors(after) - _errors(before):
            return None
        seconds = sum(job.get("seconds", 0) for name in names for job in mended.observations[name].values())
        return f"{', '.join(sorted(names))} played again with it for {seconds:.0f} s: {finding.code} is gone"

    def _judged(self, case: Case, names: set[str]) -> Report:
        """What the checks say of these scenarios alone, without what they read from the launch or see elsewhere."""
        judges = []
        for check in self.registry.checks.values():
            live = Check(check.code, check.name, check.doc)
            live.detectors = [detector for detector in check.detectors if _judges(detector, names)]
            live.signatures, live.conclusions = check.signatures, check.conclusions
            judges.append(live)
        kept = {name: jobs for name, jobs in case.observations.items() if name in names}
        return examination.report(replace(case, observations=kept), judges, self.registry)


def _engines(prepared: probing.Prepared) -> object:
    """All that scenarios would be played with."""
    boots = [(b.kind, b.replica, b.options, b.environ, [(a.key, a.run) for a in b.asked]) for b in prepared.boots]
    return prepared.basis and replace(prepared.basis, left_out={}), boots


def _judges(detector: Detector, names: set[str]) -> bool:
    """Whether a detector judges one of these scenarios, and nothing that was seen elsewhere."""
    seen = {need.split(".")[1] for need in detector.needs if need.startswith("observations.")}
    return bool(seen) and seen <= names


def with_edits(plan: RolloutPlan, edits: Iterable[Edit]) -> RolloutPlan:
    """The plan as it would be read with the edits made; an edit to None takes the setting away."""
    settings = dict(plan.settings)
    for edit in edits:
        if edit.value is None:
            settings.pop(edit.option, None)
        else:
            settings[edit.option] = Setting(value=edit.value, source=Source.GIVEN, key=edit.option, how="the fix")
    return replace(plan, settings=settings)


def _played(case: Case, scenario: Scenario) -> bool:
    """Whether every run of the scenario came to its end: one that did not shows nothing."""
    jobs = case.observations.get(scenario.name, {})
    return bool(jobs) and all(job.get("ended") == "done" for job in jobs.values())


def _errors(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity is Severity.ERROR}
