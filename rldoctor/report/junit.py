"""JUnit XML, for CI servers: every check is a test case, findings at ``error`` fail it."""

from __future__ import annotations

from xml.etree import ElementTree

from rldoctor.model import CheckResult, Finding, Outcome, Report, Severity, State
from rldoctor.report import words


def render(report: Report) -> str:
    """A test suite with one case for every check, one for the verdict and one for every earlier run of a log; what was
    not checked is skipped with its reason. The verdict is about the last run, so an earlier one that was not well is
    skipped, too: it is neither green nor does it fail the suite."""
    suite = ElementTree.Element("testsuite", name="rldoctor")
    verdict = ElementTree.SubElement(suite, "testcase", classname="rldoctor", name="verdict")
    if words.verdict_of(report).state is State.NOT_JUDGED:
        ElementTree.SubElement(verdict, "error", message=_printable(words.headline(report)))
    for result in report.results:
        _add(suite, result, report)
    for name, run in words.named_earlier(report):
        case = ElementTree.SubElement(suite, "testcase", classname="rldoctor", name=name)
        if not words.is_well(run):
            ElementTree.SubElement(case, "skipped", message=_printable(words.headline(run)))
        ElementTree.SubElement(case, "system-out").text = _printable("\n".join([words.headline(run), *_all_said(run)]))
    for name, kind in (("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error")):
        suite.set(name, str(len(suite.findall(kind))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _add(suite: ElementTree.Element, result: CheckResult, report: Report) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname="rldoctor", name=f"{result.code} {result.name}")
    place = next((at for finding in result.findings if (at := words.located(finding))), report.place)
    if result.findings and place is not None:
        case.set("file", _printable(words.shown_path(place.source or "")))
        case.set("line", str(place.line or 1))
    said = "\n".join(map(_said, result.findings))
    reason = _printable(result.reason or "")
    if result.outcome is Outcome.CRASHED:
        ElementTree.SubElement(case, "error", message=reason).text = _printable(result.traceback or "")
    elif any(finding.severity is Severity.ERROR for finding in result.findings):
        ElementTree.SubElement(case, "failure", message=said.splitlines()[0]).text = said
    elif result.findings:
        ElementTree.SubElement(case, "system-out").text = said
    elif result.outcome is not Outcome.PASS:
        ElementTree.SubElement(case, "skipped", message=f"{result.outcome.value}: {reason}")


def _all_said(report: Report) -> list[str]:
    return [f"{one.severity.value} {one.code} {one.name}: {_said(one)}" for one in report.findings]


def _said(finding: Finding) -> str:
    at = words.located(finding)
    where = f"{words.source(at)}: " if at is not None else ""
    fixes = "".join(f"\nfix: {fix.title}" for fix in finding.fixes)
    return _printable(f"{where}{finding.message}{fixes}")


def _printable(text: str) -> str:
    # XML 1.0 has no place for control characters, and log lines may hold them.
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
