"""Proves fixes: what was reproduced is played once more with the fix, and only a finding that is then gone makes the
fix ``proven``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rldoctor import engine, probing
from rldoctor.case import Case
from rldoctor.check import Check
from rldoctor.launch.plan import RolloutPlan, Setting, Source
from rldoctor.model import Applicability, Edit, Finding, Fix, Grade, Report, Severity
from rldoctor.probe import Request
from rldoctor.registry import Registry
from rldoctor.scenario import Scenario

# Every proof boots engines again.
MOST_PROOFS = 4
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
        if finding.grade not in SEEN:
            return finding
        scenarios = self._scenarios(self.registry.checks[finding.code])
        for number, fix in enumerate(finding.fixes):
            if not fix.edits or fix.applicability is Applicability.DISPLAY or not scenarios or not self.left:
                continue
            self.left -= 1
            after = self._after(finding, fix, scenarios)
            if after is not None:
                fixes = (*finding.fixes[:number], replace(fix, proven=after), *finding.fixes[number + 1 :])
                return replace(finding, fixes=fixes)
        return finding

    def _scenarios(self, check: Check) -> list[Scenario]:
        """The scenarios behind what the check sees, as far as they were played; the plain rollout, whose log any check
        may know, is one of them."""
        needs = [need for detector in check.detectors for need in detector.needs] + ["observations.rollout"]
        names = {need.split(".")[1] for need in needs if need.startswith("observations.")}
        found = (self.registry.probes.get(name) for name in sorted(names) if name in self.case.observations)
        return [scenario for scenario in found if isinstance(scenario, Scenario)]

    def _after(self, finding: Finding, fix: Fix, scenarios: list[Scenario]) -> str | None:
        """What the same scenarios show with the fix made, or None where the finding or a new one is there."""
        assert self.case.plan is not None
        self.progress(f"proving a fix of {finding.code}: {fix.title}")
        names = {scenario.name for scenario in scenarios}
        kept = {name: jobs for name, jobs in self.case.observations.items() if name not in names}
        mended = replace(self.case, plan=with_edits(self.case.plan, fix.edits), observations=kept)
        mended = probing.run_scenarios(mended, scenarios, self.request, self.progress)
        if not all(_played(mended, scenario) for scenario in scenarios):
            return None
        again = engine.report(mended, self._judges(names), self.registry)
        before = set(_codes(engine.report(self.case, self._judges(names), self.registry).findings))
        codes = set(_codes(again.findings))
        if finding.code in codes or codes - before:
            return None
        seconds = sum(job.get("seconds", 0) for name in names for job in mended.observations[name].values())
        return f"{', '.join(sorted(names))} played again with it for {seconds:.0f} s: {finding.code} is gone"

    def _judges(self, names: Iterable[str]) -> list[Check]:
        """The checks that judge what these scenarios record, without what they read from the launch alone."""
        needs = {f"observations.{name}" for name in names}
        judges = []
        for check in self.registry.checks.values():
            live = Check(check.code, check.name, check.doc)
            live.detectors = [d for d in check.detectors if any(need.startswith(tuple(needs)) for need in d.needs)]
            live.signatures, live.conclusions = check.signatures, check.conclusions
            judges.append(live)
        return judges


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


def _codes(findings: Iterable[Finding]) -> Iterator[str]:
    return (finding.code for finding in findings if finding.severity is Severity.ERROR)
