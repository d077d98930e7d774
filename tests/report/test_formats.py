"""One report in every format, compared as a whole: what a format says is easiest judged by looking at it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rldoctor import report
from rldoctor.errors import InputError
from rldoctor.model import (
    Applicability,
    Change,
    CheckResult,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    Ignored,
    Incident,
    Missing,
    Outcome,
    Report,
    Severity,
)
from rldoctor.report import markdown
from rldoctor.report.detail import Detail
from tests.report import official

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
    assert first["evidence"] == [
        {"text": "enable_chunked_prefill=False", "source": "run.sh", "line": 7, "setting": None}
    ]
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


def test_the_answer_is_the_first_line_and_the_rest_is_counted() -> None:
    lines = report.renderer("rich")(REPORT).splitlines()
    assert lines[0] == f"error RLD202 (run.sh:7): {BUDGET.message}"
    assert lines[1:4] == [
        "  run.sh:7  enable_chunked_prefill=False",
        "  fix (--fix applies it): raise the token budget to the context length; side effects: more activation memory "
        "during prefill",
        "    run.sh:9  actor_rollout_ref.rollout.max_num_batched_tokens=10240",
    ]
    assert lines[4].startswith("warning RLD104: ray 2.40.0 is older than verl asks for, which is")
    assert "note: plugin acme was left out: ImportError" in lines
    assert lines[-1] == (
        f"judged: {REPORT.target}: 1 error, 1 warning; 1 passed, 1 not checked, 1 crashed (-v lists them)"
    )
    assert not any("RLD105" in line or "RLD301" in line for line in lines)


def test_files_are_told_from_the_folder_of_the_launch_and_the_last_line_says_which() -> None:
    launch = "/srv/runs/math/run.sh"
    evidence = (
        Evidence(text="enable_chunked_prefill=False", source=launch, line=7),
        Evidence(text="max_model_len = 10240 (prompt 2048 + response 8192)", source=launch, line=7),
        Evidence(text="12 attention heads", source="/srv/runs/math/model/config.json"),
    )
    fixes = (
        replace(BUDGET.fixes[0], edits=(replace(BUDGET.fixes[0].edits[0], file=launch),)),
        Fix(title="or put a chat_template into /srv/runs/math/model/tokenizer_config.json"),
        Fix(title="or train another model"),
    )
    found = replace(BUDGET, evidence=evidence, fixes=fixes)
    shown = report.renderer("rich")(
        replace(REPORT, target=f"{launch}, Python 3.12", ranked=(found,), folder="/srv/runs/math", notes=())
    ).splitlines()
    assert shown == [
        f"error RLD202 (run.sh:7): {BUDGET.message}",
        "  run.sh:7  enable_chunked_prefill=False; max_model_len = 10240 (prompt 2048 + response 8192)",
        "  model/config.json  12 attention heads",
        "  fix (--fix applies it): raise the token budget to the context length; side effects: more activation memory "
        "during prefill",
        "    run.sh:9  actor_rollout_ref.rollout.max_num_batched_tokens=10240",
        "  or put a chat_template into model/tokenizer_config.json",
        f"judged: {launch}, Python 3.12: 1 error; 1 passed, 1 not checked, 1 crashed, 1 more fix (-v lists them)",
    ]
    everything = report.renderer("rich", detail=Detail.ALL)(replace(REPORT, ranked=(found,), folder="/srv/runs/math"))
    assert f"  {launch}:7  max_model_len" in everything and "or train another model" in everything


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [
        (Evidence(text="max_num_batched_tokens = 8192", source="run.sh", line=7), False),
        (Evidence(text="rollout.max_num_batched_tokens = 8192 (default)"), False),
        (Evidence(text="max_model_len 10240"), False),
        (Evidence(text="rollout.max_num_batched_tokens = 8192", source="run.sh", line=7), True),
        (Evidence(text="rollout.max_num_batched_tokens = 4096 (default)"), True),
    ],
)
def test_the_evidence_says_what_the_first_line_does_not(evidence: Evidence, shown: bool) -> None:
    message = "max_num_batched_tokens 8192 (default) is below max_model_len 10240"
    found = replace(BUDGET, message=message, evidence=(evidence,))
    lines = report.renderer("rich")(replace(REPORT, ranked=(found,))).splitlines()
    assert any(line.startswith("  ") and line.endswith(evidence.text) for line in lines) is shown


def test_a_line_told_elsewhere_keeps_its_place() -> None:
    place = Evidence(text="max_model_len 10240", source="model.yaml", line=3)
    found = replace(BUDGET, evidence=(*BUDGET.evidence, place))
    assert "  model.yaml:3  max_model_len 10240" in report.renderer("rich")(replace(REPORT, ranked=(found,)))


def test_a_note_does_not_stand_before_the_answer() -> None:
    noted = replace(REPORT, results=(replace(REPORT.results[0], findings=(replace(BUDGET, severity=Severity.NOTE),)),))
    lines = report.renderer("rich")(noted).splitlines()
    assert lines[0] == f"passed: no problem found: {REPORT.target}"
    assert lines[1] == f"note RLD202 (run.sh:7): {BUDGET.message}"
    assert not any(line.startswith("judged:") for line in lines)


def test_v_shows_every_check_and_q_the_findings_alone() -> None:
    everything = report.renderer("rich", detail=Detail.ALL)(REPORT)
    assert "? not-checked: no level imports  RLD105" in everything
    assert "✓ RLD301 device-mismatch  24 parameters" in everything
    assert "! RLD900 failure-unrecognised  KeyError: 'x'\n  Traceback" in everything
    quiet = report.renderer("rich", detail=Detail.FINDINGS)(REPORT).splitlines()
    assert len(quiet) == 5
    passed = replace(REPORT, results=REPORT.results[4:5])
    assert report.renderer("rich", detail=Detail.FINDINGS)(passed) == ""
    assert report.renderer("rich")(passed).startswith(f"passed: no problem found: {REPORT.target}\n")


MISSING = (Missing(what="the release of verl is not named", how="--assume verl==VERSION"),)


def test_what_could_not_be_judged_is_the_answer_where_nothing_was_found() -> None:
    said = "the release of verl is not named (--assume verl==VERSION)"
    open_ = replace(REPORT, results=REPORT.results[1:3], missing=MISSING)
    assert report.renderer("rich")(open_).splitlines()[0] == f"cannot judge: {said}"
    assert f"not judged: {said}" in report.renderer("rich")(replace(REPORT, missing=MISSING))


CRASH = Incident(
    kind="crashed",
    first_rank="3",
    stage="rollout",
    exception="AssertionError",
    frames=("/opt/venv/lib/python3.11/site-packages/vllm/core/scheduler.py:702 in _schedule",),
    user_frame="/home/me/train.py:8 in main",
    cascades=("RuntimeError: Connection closed by peer (rank 0, rank 1 and 60 more)", "ChildFailedError (rank 4)"),
    step="12 of 100",
)


def test_in_a_log_the_cause_comes_first_then_what_followed_from_it_and_frames_last() -> None:
    shown = report.renderer("rich")(replace(REPORT, target="run.log", incident=CRASH)).splitlines()
    assert shown[0] == f"failed: RLD202 (rank 3, rollout, step 12 of 100, run.sh:7): {BUDGET.message}"
    after = shown.index("    run.sh:9  actor_rollout_ref.rollout.max_num_batched_tokens=10240") + 1
    assert shown[after : after + 3] == [
        "  then: RuntimeError: Connection closed by peer (rank 0, rank 1 and 60 more), and 1 more kind of failure",
        "  at /home/me/train.py:8 in main",
        "  at vllm/core/scheduler.py:702 in _schedule",
    ]


def test_in_a_log_costs_further_fixes_and_what_the_first_line_says_already_come_with_v() -> None:
    message = "no vLLM server listens at port 8000"
    cause = replace(
        BUDGET,
        message=message,
        evidence=(
            Evidence(text=message, source="logs/rank0.txt", line=7),
            Evidence(text="Connection refused " * 20, source="logs/rank0.txt", line=9),
        ),
        fixes=(
            *BUDGET.fixes,
            Fix(title="start it first", commands=("trl vllm-serve",), side_effects="a GPU of its own"),
            Fix(title="or train without it"),
        ),
    )
    incident = replace(CRASH, dated=("trl 1.13.0 to 1.16.0",))
    crashed = replace(REPORT, target="logs", ranked=(cause,), incident=incident, notes=())
    assert report.renderer("rich")(crashed).splitlines()[:5] == [
        f"failed: RLD202 (rank 3, rollout, step 12 of 100, rank0.txt:7): {message}",
        f"  rank0.txt:9  {('Connection refused ' * 20)[:120]}...",
        "  fix (--fix applies it): raise the token budget to the context length (-v: side effects)",
        "    run.sh:9  actor_rollout_ref.rollout.max_num_batched_tokens=10240",
        "  or start it first: trl vllm-serve (-v: side effects)",
    ]
    assert report.renderer("rich")(crashed).endswith("patterns looked for, 1 more fix (-v lists them)\n")
    everything = report.renderer("rich", detail=Detail.ALL)(crashed)
    for text in ("more activation memory", "a GPU of its own", "or train without it", "trl 1.13.0 to 1.16.0"):
        assert text in everything and text not in report.renderer("rich")(crashed)


FAILED_BEFORE = replace(REPORT, ranked=(LOOSE, BUDGET), incident=CRASH)
FINISHED_BEFORE = Report(target="run.log", results=(), incident=Incident(kind="finished"))
LAST = replace(REPORT, ranked=(BUDGET,), incident=CRASH, earlier_runs=(FAILED_BEFORE, FINISHED_BEFORE))
HEAD_BEFORE = f"failed: RLD104 (rank 3, rollout, step 12 of 100): {' '.join(LOOSE.message.split())}"


def test_earlier_runs_are_a_line_each_and_whole_in_json() -> None:
    told = [f"run 1 of 3: {HEAD_BEFORE}, and 1 more", "run 2 of 3: finished: no problem found in run.log"]
    lines = report.renderer("rich")(LAST).splitlines()
    assert [line for line in lines if line.startswith("run ") and " of 3: " in line] == told
    assert "run 2 of 3" in report.renderer("markdown")(LAST)
    runs = json.loads(report.renderer("json")(LAST))["earlier_runs"]
    assert [[one["code"] for one in run["findings"]] for run in runs] == [["RLD104", "RLD202"], []]
    assert runs[1]["incident"]["kind"] == "finished"


def test_earlier_runs_are_notes_in_sarif_and_the_last_run_keeps_its_fingerprints() -> None:
    document = json.loads(report.renderer("sarif")(LAST))
    official.sarif().validate(document)
    (run,) = document["runs"]
    alone, *_ = json.loads(report.renderer("sarif")(replace(LAST, earlier_runs=())))["runs"][0]["results"]
    last, *before = run["results"]
    assert last == alone and last["level"] == "error"
    assert [(one["ruleId"], one["level"], one["properties"]["run"]) for one in before] == [
        ("RLD104", "note", "run 1 of 3"),
        ("RLD202", "note", "run 1 of 3"),
    ]
    assert before[1]["message"]["text"].startswith("run 1 of 3: ") and before[1]["properties"]["severity"] == "error"
    assert len({one["partialFingerprints"]["finding/v1"] for one in run["results"]}) == 3


def test_earlier_runs_are_cases_in_junit_that_neither_pass_nor_fail() -> None:
    suite, alone = (
        ElementTree.fromstring(report.renderer("junit")(one)) for one in (LAST, replace(LAST, earlier_runs=()))
    )
    assert suite.get("failures") == alone.get("failures")
    first, second = (suite.find(f"testcase[@name='run {number} of 3']") for number in (1, 2))
    assert first is not None and second is not None
    skipped = first.find("skipped")
    assert skipped is not None and skipped.get("message") == HEAD_BEFORE and second.find("skipped") is None
    assert "error RLD202" in (first.findtext("system-out") or "")


def test_earlier_runs_that_were_not_well_are_notices_on_github() -> None:
    placed = replace(LAST, place=Evidence(text="the log", source="run.log", line=9))
    lines = report.renderer("github")(placed).splitlines()
    assert [line for line in lines if " of 3" in line] == [
        f"::notice file=run.log,line=9,title=rldoctor%2C run 1 of 3::{HEAD_BEFORE.replace('%', '%25')}"
    ]
    assert sum(line.startswith("::error") for line in lines) == 1


def test_earlier_runs_are_folded_and_whole_on_the_page() -> None:
    page = report.renderer("html")(LAST)
    earlier = page.partition("<h2>Earlier runs</h2>")[2]
    assert f"<summary>run 1 of 3: {HEAD_BEFORE}</summary>" in earlier and "run 2 of 3: finished" in earlier
    assert 'id="run-1-finding-2"' in earlier and "rollout.max_num_batched_tokens=10240" in earlier
    assert "Earlier runs" not in report.renderer("html")(replace(LAST, earlier_runs=()))


def test_what_followed_from_the_cause_is_no_second_error() -> None:
    """A finding that stands behind the cause of a failed run follows from it; in a run that went on it does not."""
    lost = Finding(
        code="RLD321",
        name="collective-timeout",
        severity=Severity.ERROR,
        grade=Grade.OBSERVED,
        message="a rank lost the connection",
        evidence=(Evidence(text="Connection closed by peer", source="run.sh", line=90),),
    )
    both = replace(REPORT, target="run.log", ranked=(BUDGET, lost))
    failed = report.renderer("rich")(replace(both, incident=CRASH)).splitlines()
    assert "then RLD321 (run.sh:90): a rank lost the connection" in failed
    assert ": 1 cause and 1 finding beside it; " in failed[-1]
    unhealthy = report.renderer("rich")(replace(both, incident=replace(CRASH, kind="unhealthy"))).splitlines()
    assert "error RLD321 (run.sh:90): a rank lost the connection" in unhealthy


def test_a_cascade_that_says_the_same_is_named_by_its_place() -> None:
    incident = replace(CRASH, exception="RuntimeError: no NCCL", cascades=("RuntimeError: no NCCL (rank 1)",))
    shown = report.renderer("rich")(replace(REPORT, target="run.log", incident=incident)).splitlines()
    assert "  then: the same in rank 1" in shown


@pytest.mark.parametrize(
    ("title", "line"),
    [
        ("sleep less", "  or sleep less"),
        ("or sleep less", "  or sleep less"),
        ("or, where it is meant, sleep", "  or, where it is meant, sleep"),
        ("and keep it awake", "  and keep it awake"),
    ],
)
def test_a_further_fix_is_joined_once(title: str, line: str) -> None:
    finding = replace(BUDGET, fixes=(*BUDGET.fixes, Fix(title=title)))
    assert line in report.renderer("rich")(replace(REPORT, ranked=(finding,))).splitlines()


def test_a_finding_after_the_whole_ones_keeps_its_fix_in_one_line() -> None:
    lines = report.renderer("rich")(replace(REPORT, ranked=(BUDGET,) * 4)).splitlines()
    last = [number for number, line in enumerate(lines) if line.startswith("error RLD202")][-1]
    assert lines[last + 1] == (
        "  fix: raise the token budget to the context length: actor_rollout_ref.rollout.max_num_batched_tokens=10240"
        "; side effects: more activation memory during prefill"
    )


def test_a_warning_alone_says_what_it_is() -> None:
    warned = replace(REPORT, ranked=(replace(BUDGET, severity=Severity.WARNING),))
    shown = report.renderer("rich")
    assert shown(warned).splitlines()[-1].endswith("; a warning passes (--fail-on warning fails)")
    assert "--fail-on" not in shown(replace(REPORT, ranked=(BUDGET,)))


def test_a_command_that_an_edit_spells_is_shown_once() -> None:
    edit = Edit(option="env.LD_PRELOAD", value=None, spelled="unset LD_PRELOAD")
    twice = replace(BUDGET, fixes=(Fix(title="unset it", edits=(edit,), commands=("unset LD_PRELOAD", "env")),))
    for format_ in ("rich", "markdown", "html"):
        shown = report.renderer(format_)(replace(REPORT, ranked=(twice,)))
        assert shown.count("unset LD_PRELOAD") == 1, format_


@pytest.mark.parametrize(
    ("kind", "step", "first"),
    [
        ("finished", None, "finished: no problem found in run.log"),
        (
            "unfinished",
            "7 of 9",
            "cut off or still running at step 7 of 9: no failure in run.log (if it has ended, dmesg or the scheduler's"
            " log may say why)",
        ),
    ],
)
def test_how_a_run_ended_that_has_no_finding(kind: str, step: str | None, first: str) -> None:
    well = Report(target="run.log", results=REPORT.results[4:5], incident=Incident(kind=kind, step=step))
    assert report.renderer("rich")(well).splitlines()[0] == first


def sarif(reported: Report) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(report.renderer("sarif")(reported))["runs"][0]
    return run


def test_sarif_places_every_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")
    run = sarif(replace(REPORT, place=Evidence(text="verl", source="run.sh", line=2)))
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [r.code for r in REPORT.results]
    budget, loose = run["results"]
    place = budget["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "runs/run.sh", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 7},
    }
    assert (budget["level"], loose["level"]) == ("error", "warning")
    assert loose["locations"][0]["physicalLocation"]["region"] == {"startLine": 2}
    # An environment that no launch uses: what stands for all of the project.
    alone = sarif(REPORT)["results"][1]["locations"][0]["physicalLocation"]
    assert alone["artifactLocation"]["uri"] == "pyproject.toml"


def test_sarif_says_what_a_rule_is_and_how_to_mend(tmp_path: Path) -> None:
    change = Change(file="run.sh", first=9, end=10, text="max_num_batched_tokens=10240\n")
    fix = replace(BUDGET.fixes[0], changes=(change,))
    found = replace(BUDGET, fixes=(fix,))
    run = sarif(replace(REPORT, results=(replace(REPORT.results[3], findings=(found,)),)))
    (rule,), (result,) = run["tool"]["driver"]["rules"], run["results"]
    assert "What it looks for" in rule["help"]["text"] and rule["helpUri"].startswith("https://")
    (replacement,) = result["fixes"][0]["artifactChanges"][0]["replacements"]
    region = {"startLine": 9, "startColumn": 1, "endLine": 10, "endColumn": 1}
    assert replacement == {"deletedRegion": region, "insertedContent": {"text": change.text}}


def test_a_fingerprint_stays_when_lines_move_and_differs_between_findings() -> None:
    moved = replace(BUDGET, evidence=(replace(BUDGET.evidence[0], line=70),))
    other = replace(BUDGET, evidence=(replace(BUDGET.evidence[0], text="enable_chunked_prefill=True"),))

    def fingerprints(*findings: Finding) -> list[str]:
        reported = replace(REPORT, results=(replace(REPORT.results[3], findings=findings),))
        return [result["partialFingerprints"]["finding/v1"] for result in sarif(reported)["results"]]

    (first,) = fingerprints(BUDGET)
    assert fingerprints(moved) == [first]
    assert len({*fingerprints(BUDGET, other, BUDGET)}) == 3


def test_an_ignored_finding_is_shown_as_ignored() -> None:
    reported = replace(
        REPORT,
        results=REPORT.results[1:3],
        ignored=(Ignored(finding=BUDGET, reason="fixed in the next image", until="2026-12-01"),),
    )
    (result,) = sarif(reported)["results"]
    justification = "fixed in the next image (until 2026-12-01)"
    assert result["suppressions"] == [{"kind": "external", "justification": justification}]
    assert "1 ignored" in report.renderer("rich")(reported)
    assert json.loads(report.renderer("json")(reported))["ignored"][0]["finding"]["code"] == "RLD202"


@pytest.mark.parametrize("reported", [REPORT, replace(REPORT, incident=CRASH, missing=MISSING)])
def test_sarif_is_valid_against_the_official_schema(reported: Report) -> None:
    official.sarif().validate(json.loads(report.renderer("sarif")(reported)))


def test_sarif_names_no_file_outside_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub refuses such a file as a whole; what the location cannot say stands in the message."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    log = Evidence(text="RuntimeError: CUDA error", source="/scratch/run.log", line=9)
    reported = replace(REPORT, place=replace(log, text="the log"), results=(_found_in(log),))
    (result,) = json.loads(report.renderer("sarif")(reported))["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "pyproject.toml", "uriBaseId": "%SRCROOT%"}
    assert "/scratch/run.log:9: RuntimeError: CUDA error" in result["message"]["text"]


def _found_in(place: Evidence) -> CheckResult:
    finding = replace(REPORT.findings[0], evidence=(place,), fixes=())
    return CheckResult(code=finding.code, name=finding.name, outcome=Outcome.FINDINGS, findings=(finding,))


@pytest.mark.parametrize("reported", [REPORT, replace(REPORT, incident=CRASH, missing=MISSING)])
def test_json_keeps_to_the_published_schema(reported: Report) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    published = Path(__file__).parents[2] / "docs" / "report.schema.json"
    jsonschema.validate(json.loads(report.renderer("json")(reported)), json.loads(published.read_text()))


def test_junit_fails_on_errors_and_skips_what_was_not_judged() -> None:
    suite = ElementTree.fromstring(report.renderer("junit")(REPORT))
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "7",
        "failures": "1",
        "errors": "1",
        "skipped": "2",
    }
    failed = suite.find("testcase[failure]")
    assert failed is not None and (failed.get("file"), failed.get("line")) == ("run.sh", "7")


def test_junit_is_not_green_where_nothing_was_judged() -> None:
    reported = replace(REPORT, results=REPORT.results[1:3], missing=MISSING)
    error = ElementTree.fromstring(report.renderer("junit")(reported)).find("testcase[@name='verdict']/error")
    assert error is not None and (error.get("message") or "").startswith("cannot judge: the release of verl")


def test_github_annotates_the_line_and_escapes_what_would_end_the_command() -> None:
    lines = report.renderer("github")(REPORT).splitlines()
    assert lines[0].startswith("::error file=run.sh,line=7,title=RLD202 token-budget-below-context::max_num_batched")
    assert lines[0].endswith(
        "fix: raise the token budget to the context length: " + str(BUDGET.fixes[0].edits[0].spelled)
    )
    assert lines[1].endswith("older than verl asks for,%0Awhich is a 100%25 guess")
    assert lines[2] == "rldoctor: 1 error, 1 warning; 1 passed, 1 not checked, 1 not applicable, 1 crashed"
    place = Evidence(text="verl", source="run.sh", line=2)
    placed = report.renderer("github")(replace(REPORT, place=place)).splitlines()
    assert placed[1].startswith("::warning file=run.sh,line=2,title=RLD104")
    open_ = report.renderer("github")(replace(REPORT, results=REPORT.results[1:3], missing=MISSING, place=place))
    assert open_.startswith("::error file=run.sh,line=2,title=rldoctor::cannot judge: the release of verl")


def test_markdown_and_html_hold_the_fix() -> None:
    for name in ("markdown", "html"):
        text = report.renderer(name)(REPORT)
        assert "actor_rollout_ref.rollout.max_num_batched_tokens=10240" in text
        assert "RLD105" in text and "ore activation memory during prefill" in text, name


FOREIGN = (
    "<img src=x onerror=alert(1)> @team #12 [go](http://bad.example) **bold** `x` | a_b _c_ ``` \n::error::x\n# head"
)


def test_foreign_text_is_text_in_every_format() -> None:
    found = replace(BUDGET, message=FOREIGN, evidence=(Evidence(text=FOREIGN, source="run.log", line=1),))
    reported = replace(
        REPORT, target=FOREIGN, results=(replace(REPORT.results[3], findings=(found,)),), notes=(FOREIGN,)
    )
    shown = report.renderer("markdown")(reported)
    for markup in ("<img", " @team", " #12", " [go]", "http://bad", " **bold", " `x`", " | a", " _c_", "\n# head"):
        assert markup not in shown, markup
    assert "a_b" in shown
    annotations = report.renderer("github")(reported).splitlines()
    assert [line for line in annotations if line.startswith("::")] == annotations[:1]
    assert "<img" not in report.renderer("html")(reported)
    suite = ElementTree.fromstring(report.renderer("junit")(reported))
    assert FOREIGN.splitlines()[0] in (suite.findtext("testcase/failure") or "")


UNSEEN = "\u202egnp.sh \u2066a\u2069 b\u200bc\ufeff \u061c \u2028 \x1b]0;title\x07 \x9b31m \U000e0041"


@pytest.mark.parametrize("name", report.FORMATS)
def test_what_is_obeyed_or_unseen_is_shown_as_an_escape(name: str) -> None:
    found = replace(BUDGET, message=UNSEEN, evidence=(Evidence(text=UNSEEN, source=f"{UNSEEN}.log", line=1),))
    reported = replace(REPORT, target=UNSEEN, results=(replace(REPORT.results[3], findings=(found,)),), notes=(UNSEEN,))
    shown = report.renderer(name)(reported)
    assert "202egnp.sh" in shown
    assert not set(UNSEEN) & set(shown) & set("\u202e\u2066\u2069\u200b\ufeff\u061c\u2028\x1b\x07\x9b\U000e0041")


def test_a_fence_is_longer_than_any_in_what_it_holds() -> None:
    assert markdown.fenced("a ```` b")[0] == "`````"


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
    assert place["artifactLocation"]["uri"].endswith("my%20runs/%5Ba%5D%3Ab.sh")
