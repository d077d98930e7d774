"""JUnit XML, for CI servers: every check is a test case, findings at ``error`` fail it."""

from __future__ import annotations

from xml.etree import ElementTree

from rldoctor.model import CheckResult, Outcome, Report, Severity


def render(report: Report) -> str:
    """A test suite with one case for every check; what was not checked is skipped with its reason."""
    suite = ElementTree.Element("testsuite", name="rldoctor", tests=str(len(report.results)))
    for result in report.results:
        case = ElementTree.SubElement(suite, "testcase", classname="rldoctor", name=f"{result.code} {result.name}")
        _outcome(case, result)
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _outcome(case: ElementTree.Element, result: CheckResult) -> None:
    told = "\n".join(_printable(finding.message) for finding in result.findings)
    reason = _printable(result.reason or "")
    if result.outcome is Outcome.CRASHED:
        ElementTree.SubElement(case, "error", message=reason).text = _printable(result.traceback or "")
    elif any(finding.severity is Severity.ERROR for finding in result.findings):
        ElementTree.SubElement(case, "failure", message=told.splitlines()[0]).text = told
    elif result.findings:
        ElementTree.SubElement(case, "system-out").text = told
    elif result.outcome is not Outcome.PASS:
        ElementTree.SubElement(case, "skipped", message=f"{result.outcome.value}: {reason}")


def _printable(text: str) -> str:
    # XML 1.0 has no place for control characters, and log lines may hold them.
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
