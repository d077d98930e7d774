"""One report in every format, compared as a whole: what a format says is easiest judged by looking at it."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from rldoctor import report
from rldoctor.errors import InputError
from rldoctor.model import (
    Applicability,
    CheckResult,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    Outcome,
    Report,
    Severity,
)

BUDGET = Finding(
    code="RLD202",
    name="token-budget-below-context",
    severity=Severity.ERROR,
    grade=Grade.DECLARED,
    message="max_num_batched_tokens 8192 is below max_model_len 10240, and chunked prefill is off",
    evidence=(Evidence(text="enable_chunked_prefill=False", source="run.sh", line=7),),
    fixes=(
        Fix(
            title="raise the token budget to the context length",
            applicability=Applicability.SAFE,
            edits=(
                Edit(
                    option="engine.max_num_batched_tokens",
                    value=10240,
                    spelled="actor_rollout_ref.rollout.max_num_batched_tokens=10240",
                    file="run.sh",
                    line=9,
                ),
            ),
            side_effects="more activation memory during prefill",
        ),
    ),
    url="https://github.com/verl-project/verl/issues/0",
)
LOOSE = Finding(
    code="RLD104",
    name="dependency-conflict",
    severity=Severity.WARNING,
    grade=Grade.DECLARED,
    message="ray 2.40.0 is older than verl asks for,\nwhich is a 100% guess",
)
REPORT = Report(
    target="run.sh, Python 3.12.1, vllm 0.7.3",
    results=(
        CheckResult(code="RLD104", name="dependency-conflict", outcome=Outcome.FINDINGS, findings=(LOOSE,)),
        CheckResult(code="RLD105", name="binary-abi-mismatch", outcome=Outcome.NOT_CHECKED, reason="no level imports"),
        CheckResult(code="RLD107", name="gpu-arch-unsupported", outcome=Outcome.NOT_APPLICABLE, reason="no GPU"),
        CheckResult(code="RLD202", name="token-budget-below-context", outcome=Outcome.FINDINGS, findings=(BUDGET,)),
        CheckResult(code="RLD301", name="device-mismatch", outcome=Outcome.PASS, reason="24 parameters"),
        CheckResult(
            code="RLD900",
            name="failure-unrecognised",
            outcome=Outcome.CRASHED,
            reason="KeyError: 'x'",
            traceback="Traceback \x1b[31m...",
        ),
    ),
    notes=("plugin acme was left out: ImportError",),
)


def test_json_is_the_contract() -> None:
    document = json.loads(report.renderer("json")(REPORT))
    assert document["schema_version"] == 1
    assert document["target"] == REPORT.target
    assert [f["code"] for f in document["findings"]] == ["RLD202", "RLD104"]
    first = document["findings"][0]
    assert (first["severity"], first["grade"]) == ("error", "declared")
    assert first["evidence"] == [{"text": "enable_chunked_prefill=False", "source": "run.sh", "line": 7}]
    edit = first["fixes"][0]["edits"][0]
    assert edit == {
        "option": "engine.max_num_batched_tokens",
        "value": 10240,
        "spelled": "actor_rollout_ref.rollout.max_num_batched_tokens=10240",
        "file": "run.sh",
        "line": 9,
    }
    assert {"code": "RLD301", "name": "device-mismatch", "outcome": "pass", "reason": "24 parameters"} in document[
        "checks"
    ]
    assert document["summary"]["errors"] == 1
    assert document["summary"]["crashed"] == 1
    assert document["checks"][-1]["traceback"].startswith("Traceback")


def test_rich_puts_findings_first_and_tells_what_was_not_checked() -> None:
    text = report.renderer("rich")(REPORT)
    assert text.index("error RLD202") < text.index("warning RLD104") < text.index("? not-checked: no level imports")
    assert "run.sh:7: enable_chunked_prefill=False" in text
    assert "run.sh:9  actor_rollout_ref.rollout.max_num_batched_tokens=10240" in text
    assert "mind: more activation memory during prefill" in text
    assert "note: plugin acme was left out: ImportError" in text


def test_sarif_places_a_finding_on_its_line() -> None:
    run = json.loads(report.renderer("sarif")(REPORT))["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [r.code for r in REPORT.results]
    budget, loose = run["results"]
    place = budget["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "run.sh"}, "region": {"startLine": 7}}
    assert (budget["level"], loose["level"]) == ("error", "warning")
    assert "locations" not in loose


def test_junit_fails_on_errors_and_skips_what_was_not_judged() -> None:
    suite = ElementTree.fromstring(report.renderer("junit")(REPORT))
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "1",
        "errors": "1",
        "skipped": "2",
    }


def test_github_annotates_the_line_and_escapes_what_would_end_the_command() -> None:
    lines = report.renderer("github")(REPORT).splitlines()
    assert lines[0].startswith("::error file=run.sh,line=7,title=RLD202 token-budget-below-context::max_num_batched")
    assert lines[1].endswith("older than verl asks for,%0Awhich is a 100%25 guess")
    assert lines[2] == "rldoctor: 1 error, 1 warning; checks: 1 pass, 1 not-applicable, 1 not-checked, 1 crashed"


def test_markdown_and_html_hold_the_fix() -> None:
    for name in ("markdown", "html"):
        text = report.renderer(name)(REPORT)
        assert "actor_rollout_ref.rollout.max_num_batched_tokens=10240" in text
        assert "RLD105" in text


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown format 'yaml'; known are rich, json"):
        report.renderer("yaml")


ODD = replace(
    REPORT,
    target="\x1b[31m[red]x[/red] \udce9.sh",
    results=(replace(REPORT.results[3], findings=(replace(BUDGET, cases=("node-1.json", "node-2.json")),)),),
)


@pytest.mark.parametrize("name", report.FORMATS)
def test_names_of_files_reach_no_format_as_they_are(name: str) -> None:
    text = report.renderer(name)(ODD)
    assert "\x1b[31m" not in text
    text.encode()


def test_a_finding_of_some_cases_says_of_which() -> None:
    assert "  in node-1.json\n  in node-2.json\n" in report.renderer("rich")(ODD)
    assert "- in node-1.json\n- in node-2.json\n" in report.renderer("markdown")(ODD)
    assert json.loads(report.renderer("json")(ODD))["findings"][0]["cases"] == ["node-1.json", "node-2.json"]


@pytest.mark.parametrize("columns", ["0", "1", "40"])
def test_what_is_to_be_copied_stays_on_one_line(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = report.renderer("rich")(REPORT).splitlines()
    assert "    run.sh:9  actor_rollout_ref.rollout.max_num_batched_tokens=10240" in lines
    assert "error RLD202 token-budget-below-context" in lines
    assert all(line == line.rstrip() for line in lines)


def test_a_file_gets_no_colours_from_the_terminal_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in report.renderer("rich")(REPORT)
    assert "\x1b[" not in report.renderer("rich", to_file=True)(REPORT)


def test_a_place_in_sarif_is_a_uri() -> None:
    odd = replace(BUDGET, evidence=(Evidence(text="x", source="my runs/[a]:b.sh", line=1),))
    shown = json.loads(
        report.renderer("sarif")(replace(REPORT, results=(replace(REPORT.results[3], findings=(odd,)),)))
    )
    place = shown["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20runs/%5Ba%5D%3Ab.sh"
