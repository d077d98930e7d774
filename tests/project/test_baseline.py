"""A baseline: what is known does not fail again, what is new does, what was fixed is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldoctor.errors import InputError
from rldoctor.model import CheckResult, Evidence, Finding, Grade, Outcome, Report, Severity
from rldoctor.project import baseline, fingerprint
from tests.commands import run
from tests.test_cli import MACHINE, VERL

STATIC = ("--assume", "machine.json", "--level", "static")


def finding(message: str = "m", line: int | None = 7, text: str = "chunked = False", **more: Any) -> Finding:
    evidence = (Evidence(text=text, source="run.sh", line=line),) if line else ()
    reported: dict[str, Any] = {"code": "RLD202", "name": "n", "severity": Severity.ERROR, "grade": Grade.DECLARED}
    return Finding(**{**reported, "message": message, "evidence": evidence, **more})


def report(*findings: Finding, outcome: Outcome = Outcome.FINDINGS) -> Report:
    return Report(target="x", results=(CheckResult(code="RLD202", name="n", outcome=outcome, findings=findings),))


def known(*findings: Finding) -> baseline.Baseline:
    marks = fingerprint.of(findings, fingerprint.repository())
    reported = {
        mark: baseline.Known(code=one.code, name=one.name, message=one.message, fingerprint=mark, evidence=one.evidence)
        for one, mark in zip(findings, marks, strict=True)
    }
    return baseline.Baseline(Path("known.json"), reported)


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "run.sh").write_text(VERL)
    (tmp_path / "machine.json").write_text(json.dumps(MACHINE))
    return tmp_path


@pytest.mark.parametrize(
    "again",
    [
        finding(line=40),
        finding(text="chunked  =  False"),
        finding(message="the same, put differently"),
    ],
)
def test_what_moved_or_is_worded_anew_is_the_same_finding(again: Finding) -> None:
    assert baseline.against(report(again), known(finding()), ["run.sh"]).findings == ()


@pytest.mark.parametrize(
    "other",
    [
        finding(code="RLD203"),
        finding(text="chunked = True"),
        finding(evidence=(Evidence(text="chunked = False", source="other.sh", line=7),)),
        finding(line=None),
    ],
)
def test_another_code_text_or_file_is_a_new_finding(other: Finding) -> None:
    assert baseline.against(report(other), known(finding()), ["run.sh"]).findings == (other,)


def test_a_second_finding_like_the_first_is_new() -> None:
    second = finding(line=90)
    left = baseline.against(report(finding(), second), known(finding()), ["run.sh"])
    assert left.findings == (second,)


def test_measured_numbers_drift() -> None:
    before = finding("GPU 0 has 3.25 GiB free, the engine wants 70.1", line=None)
    now = finding("GPU 0 has 4 GiB free, the engine wants 70.1", line=None)
    assert baseline.against(report(now), known(before), []).findings == ()


def test_what_is_gone_was_fixed_where_it_was_looked_for() -> None:
    reported = baseline.against(report(outcome=Outcome.PASS), known(finding()), ["run.sh"])
    assert len(reported.fixed) == 1
    assert "fixed since known.json: RLD202 n in run.sh" in reported.notes


@pytest.mark.parametrize(
    ("outcome", "files"),
    [(Outcome.NOT_CHECKED, ["run.sh"]), (Outcome.CRASHED, ["run.sh"]), (Outcome.PASS, ["other.sh"])],
)
def test_what_was_not_looked_for_is_not_fixed(outcome: Outcome, files: list[str]) -> None:
    assert baseline.against(report(outcome=outcome), known(finding()), files).fixed == ()


def test_a_crash_of_the_check_stays_though_all_it_found_is_known() -> None:
    reported = baseline.against(report(finding(), outcome=Outcome.CRASHED), known(finding()), ["run.sh"])
    assert [result.outcome for result in reported.results] == [Outcome.CRASHED]


def test_files_of_packages_are_known_in_every_environment(tmp_path: Path) -> None:
    places = ("/opt/a/lib/python3.12/site-packages/vllm/x.py", "/home/b/lib/python3.11/site-packages/vllm/x.py")
    one, other = (
        fingerprint.of([finding(evidence=(Evidence(text="t", source=place, line=1),))], tmp_path) for place in places
    )
    assert one == other


def test_only_what_is_new_fails_and_what_was_fixed_is_said(launch: Path) -> None:
    assert run("baseline", "run.sh", *STATIC, "--output", "known.json", cwd=launch).returncode == 0
    first = run("check", "run.sh", *STATIC, "--baseline", "known.json", cwd=launch)
    assert first.returncode == 0, first.stdout

    moved = VERL.replace("#!/usr/bin/env bash\n", "#!/usr/bin/env bash\n# moved\n\n")
    (launch / "run.sh").write_text(moved)
    assert run("check", "run.sh", *STATIC, "--baseline", "known.json", cwd=launch).returncode == 0

    (launch / "run.sh").write_text(moved.replace("name=vllm", "name=vllm actor_rollout_ref.rollout.max_num_seq=4"))
    new = run("check", "run.sh", *STATIC, "--baseline", "known.json", "--format", "json", cwd=launch)
    assert [one["code"] for one in json.loads(new.stdout)["findings"]] == ["RLD219"]

    (launch / "run.sh").write_text(VERL.replace("max_num_batched_tokens=8192", "max_num_batched_tokens=10240"))
    mended = run("check", "run.sh", *STATIC, "--baseline", "known.json", cwd=launch)
    assert "fixed since known.json: RLD202" in mended.stdout


def test_a_projects_settings_name_its_baseline(launch: Path) -> None:
    (launch / "rldoctor.toml").write_text('baseline = "known.json"\n')
    missing = run("check", "run.sh", *STATIC, cwd=launch)
    assert missing.returncode == 2
    assert "rldoctor.toml:1: baseline" in missing.stderr and "known.json: no such file" in missing.stderr
    run("baseline", "run.sh", *STATIC, "--output", "known.json", cwd=launch)
    assert run("check", "run.sh", *STATIC, cwd=launch).returncode == 0


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"schema_version": 1}', b'{"schema_version": 1, "findings": [{"code": "RLD1"}]}', b"\xff"]
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "known.json"
    file.write_bytes(content)
    with pytest.raises(InputError) as refused:
        baseline.load(file)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_json_report_of_a_check_serves_as_a_baseline(launch: Path) -> None:
    run("check", "run.sh", *STATIC, "--format", "json", "--output", "report.json", cwd=launch)
    assert len(baseline.load(launch / "report.json").known) > 0


def test_in_every_report_the_known_finding_is_aside() -> None:
    reported = baseline.against(report(finding()), known(finding()), ["run.sh"])
    assert [one.reason for one in reported.ignored] == ["known, in known.json"]
    assert replace(reported, notes=()).results[0].outcome is Outcome.NOT_APPLICABLE
