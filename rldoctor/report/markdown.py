"""Markdown, for issue trackers and job summaries. Text from logs and files comes as text, never as markup."""

from __future__ import annotations

import re

from rldoctor.model import Finding, Outcome, Report
from rldoctor.report import words

# What Markdown and GitHub's extensions act on: emphasis, code, links, images, HTML, tables, mathematics; mentions and
# references, and what begins a block. Underscores inside a word do nothing.
_MARKUP = re.compile(r"[\\`*\[\]<>|~$]|(?<!\w)_|_(?!\w)")
_ENTITIES = {"<": "&lt;", ">": "&gt;"}
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|&(?!(?:lt|gt);)(?=#?\w+;)|(?<=https)(?=://)|(?<=http)(?=://)")
_BLOCK = re.compile(r"^(\s*)([-+#=]|\d+(?=[.)]))")


def render(report: Report) -> str:
    """The answer, findings with evidence and fixes, then what could not be judged."""
    lines = [f"# rldoctor: {escaped(words.headline(report))}", "", f"Examined: {escaped(report.target)}"]
    for finding in report.findings:
        lines += ["", *_finding(finding)]
    if report.findings and report.missing:
        lines += ["", f"Not judged: {escaped('; '.join(map(str, report.missing)))}"]
    for line in words.earlier(report):
        lines += ["", escaped(line)]
    open_questions = [r for r in report.results if r.outcome in (Outcome.NOT_CHECKED, Outcome.CRASHED)]
    if open_questions:
        lines += ["", f"<details><summary>{len(open_questions)} not judged</summary>", ""]
        lines += [f"- {r.code} {r.name} ({r.outcome.value}): {escaped(r.reason or '')}" for r in open_questions]
        lines += ["", "</details>"]
    for ignored in report.ignored:
        until = f" until {ignored.until}" if ignored.until else ""
        lines += ["", f"Ignored{until} ({escaped(ignored.reason)}): {escaped(words.head(ignored.finding))}"]
    lines += ["", *(f"Note: {escaped(note)}" for note in report.notes)] if report.notes else []
    lines += ["", f"rldoctor: {escaped(words.summed_up(report))}"]
    return "\n".join(lines) + "\n"


def _finding(finding: Finding) -> list[str]:
    lines = [f"## {finding.severity.value}: {finding.code} {finding.name}", "", escaped(finding.message), ""]
    lines += [f"- in {escaped(case)}" for case in finding.cases]
    for evidence in finding.evidence:
        place = escaped(words.source(evidence))
        lines.append(f"- {finding.grade.value}: {escaped(evidence.text)}" + (f" ({place})" if place else ""))
    for fix in finding.fixes:
        copied = words.copied(fix)
        who = words.applied(fix)
        lines += ["", f"Fix{f' ({who})' if who else ''}: {escaped(fix.title)}"]
        lines += ["", *fenced("\n".join(copied))] if copied else []
        lines += ["", f"Side effects: {escaped(fix.side_effects)}"] if fix.side_effects else []
    return [*lines, *(["", finding.url] if finding.url else [])]


def escaped(text: str) -> str:
    """Text as Markdown that shows it in one line, with nothing in it acted on."""
    text = _MARKUP.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), " ".join(text.split()))
    text = _REFERENCE.sub(lambda found: f"&#{ord(found[0])};" if found[0] else "&#8203;", text)
    return _BLOCK.sub(lambda found: f"{found[1]}{_quoted(found[2])}", text)


def _quoted(start: str) -> str:
    return f"{start}&#8203;" if start.isdigit() else f"\\{start}"


def fenced(text: str) -> list[str]:
    """A block of code with a fence that nothing in it can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, text, fence]
