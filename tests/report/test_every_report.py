"""Every worked example in every format for programs: the report of a real case keeps to what it promises."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rldoctor import report
from rldoctor.catalogue import example
from rldoctor.model import Report, Severity
from tests.loaded import REGISTRY
from tests.report import official

PUBLISHED = Path(__file__).parents[2] / "docs" / "report.schema.json"
# Lines of a terminal as it opens, and what leaves half of it to the command before.
SCREEN = 24
MEDIAN_AIM = 12
SCENES = [
    pytest.param(file, side, id=f"{check.code}-{side}")
    for check in REGISTRY.checks.values()
    if (file := example.file_of(check)) is not None
    for side in ("fires", "quiet")
]


@pytest.mark.parametrize(("file", "side"), SCENES)
def test_a_report_keeps_to_what_its_formats_promise(file: Path, side: str) -> None:
    reported = example.judge(getattr(example.read(file), side), REGISTRY)
    _published(json.loads(_rendered(reported, "json")))
    _for_code_scanning(json.loads(_rendered(reported, "sarif")))
    _suites(reported, ElementTree.fromstring(_rendered(reported, "junit")))
    _annotations(reported, _rendered(reported, "github").splitlines())


def test_a_report_is_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns half of the reports have 12 lines or fewer, and each error begins within 24."""
    monkeypatch.setenv("COLUMNS", "80")
    lengths = []
    for file in filter(None, map(example.file_of, REGISTRY.checks.values())):
        reported = example.judge(example.read(file).fires, REGISTRY)
        lines = _rendered(reported, "rich").splitlines()
        lengths.append(len(lines))
        heads = [number for number, line in enumerate(lines) if line.startswith("error ")]
        assert all(number < SCREEN for number in heads), file
    assert statistics.median(lengths) <= MEDIAN_AIM


def _rendered(reported: Report, format_: str) -> str:
    return report.renderer(format_, to_file=True)(reported)


def _published(document: Any) -> None:
    """JSON keeps to its schema."""
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(document, json.loads(PUBLISHED.read_text()))


def _for_code_scanning(document: Any) -> None:
    """SARIF keeps to OASIS's schema, and to what GitHub asks for beside it:
    https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning"""
    official.sarif().validate(document)
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    for rule in rules.values():
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"] and rule["help"]["text"]
        assert len(rule["fullDescription"]["text"]) <= 1024 and len(rule["id"]) <= 255
    for result in run["results"]:
        assert result["ruleId"] in rules and result["message"]["text"] and result["partialFingerprints"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert 1 <= len(result["locations"]) <= 1000
        for location in result["locations"]:
            place = location["physicalLocation"]
            assert re.fullmatch(r"[^\s:/][^\s:]*", place["artifactLocation"]["uri"]), "a path below the root"
            assert place["region"]["startLine"] >= 1


def _suites(reported: Report, suites: ElementTree.Element) -> None:
    failures = [case for case in suites.iter("testcase") if case.find("failure") is not None]
    assert len(failures) >= (1 if any(one.severity is Severity.ERROR for one in reported.findings) else 0)
    if reported.place is not None:
        assert all(case.get("file") and int(case.get("line") or 0) >= 1 for case in failures)


def _annotations(reported: Report, lines: list[str]) -> None:
    placed = "file=[^,]+,line=[0-9]+" if reported.place is not None else ""
    shown = [line for line in lines if re.match(f"::(?:error|warning|notice) {placed}", line)]
    assert len(shown) >= len(reported.findings)
