"""What the formats for people say alike: the first line, places, fixes, and the count of the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from rldoctor import verdict
from rldoctor.model import Applicability, Edit, Evidence, Finding, Fix, Incident, Report, Severity, State, Verdict
from rldoctor.plan.evidence import DEFAULT, HENCE
from rldoctor.report.summary import sentence

ENDINGS = {
    "crashed": "failed",
    "stalled": "stalled",
    "unhealthy": "unhealthy",
    "finished": "finished",
    "unfinished": "cut off or still running",
    "unknown": "not understood",
}
"""How a run ended, by the kind of its incident."""

APPLIED = {
    Applicability.SAFE: "--fix applies it",
    Applicability.UNSAFE: "your decision",
    Applicability.DISPLAY: "by hand",
}
"""Who applies a fix."""


def verdict_of(report: Report) -> Verdict:
    """The verdict of a report; that of the usual threshold where none was asked for."""
    found = (report if report.verdict is not None else verdict.over(report, "error")).verdict
    assert found is not None
    return found


def headline(report: Report) -> str:
    """The answer in one line: the verdict, the code, the cause and the place."""
    judged = verdict_of(report)
    if judged.state is State.NOT_JUDGED:
        return f"cannot judge: {'; '.join(str(missing) for missing in judged.missing)}"
    if report.findings and not is_well(report):
        return head(report.findings[0], report.incident)
    aside = f" ({len(report.ignored)} ignored)" if report.ignored else ""
    if report.incident is not None:
        # Of a run that has not ended well nothing is said that a green light could be taken for.
        open_ = report.incident.kind == "unfinished"
        what = f"no failure in {report.target}" if open_ else f"no problem found in {report.target}"
        elsewhere = " (if it has ended, dmesg or the scheduler's log may say why)" if open_ else ""
        return f"{ending(report.incident)}: {what}{aside}{elsewhere}"
    return f"passed: no problem found{aside}: {report.target}"


def earlier(report: Report) -> Iterator[str]:
    """A line for each run before the last one, where all were asked for."""
    for name, run in named_earlier(report):
        more = f", and {len(run.findings) - 1} more" if len(run.findings) > 1 else ""
        yield f"{name}: {headline(run)}{more}"


def named_earlier(report: Report) -> list[tuple[str, Report]]:
    """The runs before the last one, the oldest first, each with what it is called: ``run 1 of 3``."""
    runs = len(report.earlier_runs) + 1
    return [(f"run {number} of {runs}", run) for number, run in enumerate(report.earlier_runs, start=1)]


def is_well(report: Report) -> bool:
    """Whether the answer is that no problem was found: what there is to say beside it are notes."""
    went_on = report.incident is None or report.incident.kind in ("finished", "unfinished")
    noted = all(finding.severity is Severity.NOTE for finding in report.findings)
    return went_on and noted and verdict_of(report).state is State.PASSED


def head(finding: Finding, incident: Incident | None = None) -> str:
    """A finding in one line; the one that explains an ``incident`` begins with how the run ended."""
    code = finding.code
    if incident is not None:
        # That a run failed, or learned nothing, is no matter of degree; what is found in one that went on is.
        severe = finding.severity is Severity.ERROR and incident.kind == "unhealthy"
        graded = not severe and incident.kind not in ("crashed", "stalled")
        code = f"{ending(incident)}{f', {finding.severity.value}' if graded else ''}: {code}"
    else:
        code = f"{finding.severity.value} {code}"
    where = place(finding, incident)
    return f"{code}{f' ({where})' if where else ''}: {_line(finding.message)}"


def beside(finding: Finding, first: Finding) -> str:
    """A further finding of a run that failed: what followed from the first, or what else the log shows before it."""
    at, cause = located(finding), located(first)
    later = at is not None and cause is not None and at.source == cause.source and (at.line or 0) > (cause.line or 0)
    where = place(finding)
    return f"{'then' if later else 'also'} {finding.code}{f' ({where})' if where else ''}: {_line(finding.message)}"


def followed(cascade: str, incident: Incident, first: Finding) -> str:
    """A failure that the first one caused: where it is the same failure elsewhere, only where."""
    where = re.search(r" \(([^()]*)\)\Z", cascade)
    said = [_line(text)[:80] for text in (incident.exception, *(one.text for one in first.evidence)) if text]
    if where is not None and cascade.startswith(tuple(said)):
        return f"the same in {where[1]}"
    return f"{cascade[:160]}..." if len(cascade) > 160 else cascade


def alternative(title: str) -> str:
    """The title of a further fix, joined to the ones before it."""
    return title if re.match(r"(?:or|and)\b", title) else f"or {title}"


def ending(incident: Incident) -> str:
    """How a run ended, with the step where it was cut off."""
    at = f" at step {incident.step}" if incident.step and incident.kind == "unfinished" else ""
    return ENDINGS.get(incident.kind, incident.kind) + at


def place(finding: Finding, incident: Incident | None = None) -> str:
    """Where it is: rank, stage and step of an incident, and the file's name and line."""
    parts: list[str] = []
    if incident is not None:
        rank = incident.first_rank
        parts += [f"rank {rank}" if rank.isdigit() else rank] if rank else []
        parts += [incident.stage] if incident.stage else []
        parts += [f"step {incident.step}"] if incident.step else []
        parts += [f"on {incident.node}"] if incident.node else []
        parts += [f"restarted {incident.attempt} time{'s' if incident.attempt > 1 else ''}"] if incident.attempt else []
    at = located(finding)
    if at is not None:
        parts.append(f"{PurePath(at.source or '').name}:{at.line}")
    return ", ".join(parts)


def located(finding: Finding) -> Evidence | None:
    """The first evidence that is a line of a file."""
    return next((e for e in finding.evidence if e.source and e.line), None)


def untold(finding: Finding, evidence: Sequence[Evidence]) -> list[Evidence]:
    """The part of a finding's evidence that its first line has not said already, word and place: ``num_generations 8``
    says the same as ``num_generations = 8``, and of a default, which has no place, the last part of its name is enough.
    A setting is not shown beside what follows from it in the same place."""
    said, at = _plain(head(finding)), located(finding)

    def repeats(one: Evidence) -> bool:
        if one.text.endswith(DEFAULT) and one.line is None:
            return _plain(one.text).rpartition(".")[2] in said or _plain(one.text.removesuffix(DEFAULT)) in said
        if any((o.source, o.line) == (one.source, one.line) and o.text.startswith(one.text + HENCE) for o in evidence):
            return True
        return _plain(one.text) in said and (one.line is None or one == at)

    return [one for one in evidence if not repeats(one)]


def _plain(text: str) -> str:
    return _line(text).replace(" = ", " ")


def shown_path(path: str) -> str:
    """A path as a person at this folder would type it."""
    given, here = Path(path), Path.cwd()
    # A container without a working folder starts in the root, below which everything is.
    if not given.is_absolute() or here == here.parent:
        return path
    return str(given.relative_to(here)) if given.is_relative_to(here) else path


def source(evidence: Evidence) -> str:
    """Where a piece of evidence is from: ``run.sh:5``, a distribution, a probe; empty where it says so itself."""
    return source_from(evidence, PurePath())


def told_from(report: Report) -> PurePath:
    """The folder, or the log, whose name the reader has just typed: what is in it is told by its name from there."""
    return PurePath(report.folder if report.folder is not None else report.target)


def path_from(path: str, there: PurePath) -> str:
    """A path as a person knows it who has just typed the name of a folder, or of this very file."""
    given = PurePath(path)
    # Not all that evidence is from is a path: a URL would lose a slash.
    if not given.is_relative_to(there) or there == PurePath():
        return shown_path(path)
    return given.name if given == there else str(given.relative_to(there))


def text_from(text: str, there: PurePath) -> str:
    """A text in which files below a folder are named from there; a short name may be part of another word."""
    return re.sub(rf"(?<![\w./-]){re.escape(f'{there}/')}", "", text) if there.is_absolute() else text


def source_from(evidence: Evidence, there: PurePath) -> str:
    """The same as :func:`source`, told from a folder or a log."""
    if evidence.source is None:
        return ""
    path = path_from(evidence.source, there)
    return f"{path}:{evidence.line}" if evidence.line else path


def is_in(evidence: Evidence, target: str) -> bool:
    """Whether a piece of evidence is of the file or folder that is judged."""
    return evidence.source is not None and PurePath(evidence.source).is_relative_to(target)


def linkable(url: str) -> bool:
    """Whether the page may make a link of a finding's URL: a plugin, or a report of somebody else, may say
    ``javascript:``."""
    return url.startswith(("https://", "http://"))


def applied(fix: Fix) -> str:
    """Who applies a fix, empty where that need not be said."""
    if fix.applicability is Applicability.SAFE and not any(edit.file for edit in fix.edits):
        return ""
    return APPLIED[fix.applicability]


def spelled(edit: Edit) -> str:
    """An edit as it is written into a file."""
    return edit.spelled or f"{edit.option} = {edit.value}"


def commands(fix: Fix) -> list[str]:
    """The commands of a fix, without those that an edit of it spells already."""
    spelled_already = {spelled(edit) for edit in fix.edits}
    return [command for command in fix.commands if command not in spelled_already]


def copied(fix: Fix) -> list[str]:
    """All that a fix gives to copy."""
    return [*(spelled(edit) for edit in fix.edits), *commands(fix)]


def rest(report: Report, unshown: int = 0) -> str:
    """What else there is, in one line, with the number of further fixes."""
    found = report.findings
    passes = any(one.severity is Severity.WARNING for one in found) and verdict_of(report).state is State.PASSED
    risk = "; a warning passes (--fail-on warning fails)" if passes else ""
    fixes = f", {unshown} more fix{'es' if unshown > 1 else ''}" if unshown else ""
    return f"{sentence(report, asked=True)}{fixes} (-v lists them){risk}"


def _line(text: str) -> str:
    return " ".join(text.split())


def summed_up(report: Report) -> str:
    """The verdict in one line, for whoever reads the report with a program."""
    missing = "; ".join(str(missing) for missing in report.missing)
    return sentence(report) + (f"; cannot judge: {missing}" if missing else "")
