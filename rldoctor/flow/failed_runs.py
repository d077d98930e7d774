"""What the log of a live run that failed says, and what a framework's source refuses: the same signatures that judge
the log of a training run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import Check
from rldoctor.errors import InputError
from rldoctor.model import Evidence, Finding, Grade
from rldoctor.plan.evidence import cite_given
from rldoctor.probes import kept

FAILED = frozenset({"raised", "died", "stalled", "timed-out"})
# What is left when no pattern is known; the live checks say that with more knowledge of the run.
FALLBACKS = "RLD9"

Job = Mapping[str, Any]


def explained(case: Case, checks: Iterable[Check], vocabulary: Iterable[Check]) -> tuple[Case, list[Finding]]:
    """The findings in the logs of the failed runs and in the messages of what frameworks refuse, and the case in which
    each of these has ``explained``: the codes that it shows. ``checks`` are asked, ``vocabulary`` tells wrappers from
    causes."""
    observations = {name: dict(jobs) for name, jobs in case.observations.items()}
    # One cause that several runs show is reported once.
    findings: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    asked, known = list(checks), list(vocabulary)
    for name, key, job in _failed(case):
        found = _findings(job, asked, known, case)
        if found:
            observations[name][key] = {**job, "explained": [one.code for one in found]}
        for one in found:
            findings.setdefault((one.code, one.message), (one, []))[1].append(f"{name}: {key}")
    case, declared = _refusals(case, asked, known)
    if not findings:
        return case, declared
    reproduced = [_reproduced(one, runs) for one, runs in findings.values()]
    return replace(case, observations=observations), [*reproduced, *declared]


def _refusals(case: Case, checks: list[Check], vocabulary: list[Check]) -> tuple[Case, list[Finding]]:
    """The same of the refusals that were found by following a framework's source."""
    findings, followed = [], []
    for framework in case.links["frameworks"] if case.links is not None else ():
        refusal = framework.get("refusal")
        said = [f"{refusal['type']}: {refusal['message']}"] if refusal is not None else []
        found = _findings({"tail": said}, checks, vocabulary, case) if said else []
        if refusal is not None and found:
            framework = {**framework, "refusal": {**refusal, "explained": [one.code for one in found]}}
            where = Evidence(text=f"raised when {refusal['condition']}", source=refusal["file"], line=refusal["line"])
            reads = set(refusal["reads"])
            stated = case.plan.given if case.plan is not None else ()
            given = (one for one in stated if {one.field, one.key, one.option} & reads)
            shown = (*map(cite_given, given), where)
            findings += [replace(one, grade=Grade.DECLARED, evidence=shown) for one in found]
        followed.append(framework)
    return (replace(case, links={**(case.links or {}), "frameworks": followed}) if findings else case), findings


def _failed(case: Case) -> Iterator[tuple[str, str, Job]]:
    """Every run on an engine that failed, and every validator that refused, with its scenario and name."""
    for name, jobs in case.observations.items():
        for key, job in jobs.items():
            refused = name == "validators" and job.get("records", {}).get("stage") == "refused"
            if (name == "rollout" or "boot" in job or refused) and job.get("ended") in FAILED:
                yield name, key, job


def _findings(job: Job, checks: list[Check], vocabulary: list[Check], case: Case) -> list[Finding]:
    from rldoctor.logs.triage import triage

    log = Path(str(job.get("log")))
    with kept.for_a_while("failed-run") as folder:
        if not log.is_file():  # a saved bundle keeps the last lines
            log = folder / "log.txt"
            log.write_text("\n".join(job.get("tail", ())) + "\n")
        try:
            report = triage([str(log)], checks, replace(case, metrics=None), vocabulary=vocabulary)
        except InputError:  # nothing in it
            return []
    # What the launch declares and other probes saw is no word of this log.
    own = [finding for finding in report.findings if any(one.source == str(log) for one in finding.evidence)]
    # One run, one cause: what else stands in its log came of it.
    return [finding for finding in own[:1] if not finding.code.startswith(FALLBACKS)]


def _reproduced(finding: Finding, runs: list[str]) -> Finding:
    first, *others = runs
    evidence = [replace(one, source=f"log of {first}") for one in finding.evidence]
    if others:
        evidence.append(Evidence(text=f"the same in {', '.join(others)}", source="log of each"))
    return replace(finding, grade=Grade.REPRODUCED, message=f"{finding.message} (in {first})", evidence=tuple(evidence))
