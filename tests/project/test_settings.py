"""A project's own settings: found upward, read strictly, ignores with a reason and an end."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.model import CheckResult, Evidence, Finding, Grade, Outcome, Report, Severity
from rldoctor.project import settings
from rldoctor.project.settings import Ignore, Settings
from tests.commands import run

TODAY = datetime.date(2026, 11, 20)


def test_found_in_a_parent_folder(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.rldoctor]\nfail-on = "warning"\nselect = ["RLD1"]\n')
    inner = tmp_path / "runs" / "today"
    inner.mkdir(parents=True)
    assert settings.load(inner) == Settings(fail_on="warning", select=("RLD1",))


def test_a_pyproject_of_somebody_else_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert settings.load(tmp_path) == Settings()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("fail_on = 'error'", "rldoctor.toml:1: unknown setting 'fail_on'; did you mean 'fail-on'?"),
        ("\nfail-on = 3", "rldoctor.toml:2: fail-on has a whole number where text belongs"),
        ("select = 'RLD1'", "rldoctor.toml:1: select has text where a list belongs"),
        ("select = ['']", "rldoctor.toml:1: select has an empty code"),
        ("[[ignore]]\ncode = 'RLD104'", "rldoctor.toml:1: ignore lacks 'reason'"),
        ("[[ignore]]\ncode = 'RLD104'\nreason = ' '", "rldoctor.toml:3: ignoring RLD104 needs a reason"),
        ("[[ignore]]\nreason = 'x'\ncode = ''", "rldoctor.toml:3: the ignore has an empty code"),
        (
            "[[ignore]]\ncode = 'RLD1'\nreason = 'x'\nuntil = 'next week'",
            "rldoctor.toml:4: ignore.until has no date such as 2030-12-31",
        ),
        (
            "[[ignore]]\ncode = 'RLD1'\nreason = 'x'\nuntil = 20301231",
            "rldoctor.toml:4: ignore.until has a whole number where a date belongs",
        ),
        (
            "[[ignore]]\ncode = 'RLD1'\nreason = 'x'\nfiles = []",
            "rldoctor.toml:4: files of an ignore are patterns such as runs/*.sh; leave it out for all",
        ),
        (
            "[[ignore]]\ncode = 'RLD1'\nreason = 'x'\n[[ignore]]\ncode = 'RLD1'\nreason = 'y'",
            "rldoctor.toml:1; take one of them out",
        ),
        ("select = [", "rldoctor.toml"),
        ("ignore = 5", "rldoctor.toml:1: ignore has a whole number where a list belongs"),
        (
            "[ignore]\ncode = 'RLD1'",
            "rldoctor.toml:1: ignore has a table where a list belongs; each is a table [[ignore]]",
        ),
        ("severity = 'note'", "rldoctor.toml:1: severity has text where a table belongs"),
        (
            "[severity]\nRLD1 = 'note'\n# RLD104\nRLD104 = 'loud'",
            "rldoctor.toml:4: severity.RLD104 has the unknown value 'loud'; known are error, warning, note",
        ),
        (
            "[thresholds.RLD503]\nshare = 'much'",
            "rldoctor.toml:2: thresholds.RLD503.share has text where a number belongs",
        ),
        ("[thresholds]\nRLD503 = 5", "rldoctor.toml:2: thresholds.RLD503 has a whole number where a table belongs"),
        ("[tool.rldoctor]\nfail-on = 'error'", "rldoctor.toml:1: [tool.rldoctor] is for pyproject.toml"),
        ("level = 'static'\nselekt = []", "rldoctor.toml:2: unknown setting 'selekt'; did you mean 'select'?"),
        (
            "[[ignore]]\ncode = 'RLD1'\nreason = 'x'\n\n[[ignore]]\ncode = 'RLD2'\nreason = 'y'\nuntill = 2026-12-01",
            "rldoctor.toml:8: unknown setting 'untill'; did you mean 'until'?",
        ),
        ("ignore = [{code = 'RLD1', reason = 'x', file = 'a.sh'}]", "rldoctor.toml:1: unknown setting 'file'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_file(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "rldoctor.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        settings.load(tmp_path)
    assert complaint in str(caught.value)
    assert "rldoctor.toml" in str(caught.value)


def found(code: str) -> CheckResult:
    finding = Finding(code=code, name="n", severity=Severity.ERROR, grade=Grade.DECLARED, message="m")
    return CheckResult(code=code, name="n", outcome=Outcome.FINDINGS, findings=(finding,))


def silence(ignore: Ignore, *codes: str, today: datetime.date = TODAY) -> tuple[CheckResult, ...]:
    results = tuple(found(code) for code in codes)
    return settings.silence(Report(target="x", results=results), Settings(ignore=(ignore,)), today).results


def test_an_ignored_code_says_why_until_the_day_it_ends() -> None:
    ignore = Ignore(code="RLD104", reason="fixed upstream next week", until=TODAY)
    silenced, kept = silence(ignore, "RLD104", "RLD101")
    assert silenced.outcome is Outcome.NOT_APPLICABLE
    assert silenced.reason == "ignored: fixed upstream next week"
    assert kept.findings
    (again,) = silence(ignore, "RLD104", today=TODAY + datetime.timedelta(days=1))
    assert again.findings


def test_a_table_is_expected(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nrldoctor = 5\n")
    with pytest.raises(InputError, match=r"pyproject.toml: the settings of rldoctor are a table, not 5"):
        settings.load(tmp_path)


def test_an_ignored_prefix_holds_for_all_codes_that_begin_so() -> None:
    ignore = Ignore(code="RLD1", reason="the image is pinned")
    outcomes = [r.outcome for r in silence(ignore, "RLD104", "RLD201")]
    assert outcomes == [Outcome.NOT_APPLICABLE, Outcome.FINDINGS]


def test_what_is_ignored_is_out_of_the_order_that_a_log_gave_and_of_earlier_runs() -> None:
    results = (found("RLD104"), found("RLD201"))
    ranked = tuple(f for result in reversed(results) for f in result.findings)
    run = Report(target="log", results=results, ranked=ranked)
    ignore = Ignore(code="RLD201", reason="known")
    quiet = settings.silence(replace(run, earlier_runs=(run,)), Settings(ignore=(ignore,)), TODAY)
    for report in (quiet, *quiet.earlier_runs):
        assert [f.code for f in report.findings] == ["RLD104"]


def test_a_pyproject_names_the_line_too(tmp_path: Path) -> None:
    text = "[tool.ruff]\nuntill = 1\n\n[[tool.rldoctor.ignore]]\ncode = 'RLD1'\nreason = 'x'\nuntill = 2026-12-01\n"
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InputError, match=r"pyproject.toml:7: unknown setting 'untill'"):
        settings.load(tmp_path)


def test_an_end_is_announced_two_weeks_ahead_and_missing_from_the_verdict_after_it(tmp_path: Path) -> None:
    file = tmp_path / "rldoctor.toml"
    file.write_text("[[ignore]]\ncode = 'RLD104'\nreason = 'fixed upstream'\nuntil = 2026-12-01\n")
    found_settings = settings.load(tmp_path)
    report = Report(target="x", results=(found("RLD104"),))
    for day, notes, missing in (
        ("2026-11-16", [], []),
        ("2026-11-17", [f"{file}:1: the ignore of RLD104 ends on 2026-12-01"], []),
        ("2026-12-02", [], [f"{file}:1: the ignore of RLD104 ended on 2026-12-01"]),
    ):
        quiet = settings.silence(report, found_settings, datetime.date.fromisoformat(day))
        assert list(quiet.notes) == notes
        assert [one.what for one in quiet.missing] == missing
        assert bool(quiet.findings) is bool(missing)


def test_an_ignored_finding_is_kept_apart_with_its_reason() -> None:
    ignore = Ignore(code="RLD104", reason="known", until=TODAY)
    quiet = settings.silence(Report(target="x", results=(found("RLD104"),)), Settings(ignore=(ignore,)), TODAY)
    assert [(one.finding.code, one.reason, one.until) for one in quiet.ignored] == [("RLD104", "known", "2026-11-20")]


@pytest.mark.parametrize(
    ("launch", "kept"), [("runs/long.sh", False), ("long.sh", True), ("runs/short.sh", True), (None, True)]
)
def test_an_ignore_may_hold_for_some_launch_files(tmp_path: Path, launch: str | None, kept: bool) -> None:
    ignore = Ignore(code="RLD104", reason="known", files=("runs/long*.sh",))
    place = Evidence(text="verl", source=str(tmp_path / launch), line=1) if launch is not None else None
    report = Report(target="x", results=(found("RLD104"),), place=place)
    reported = Settings(ignore=(ignore,), file=tmp_path / "rldoctor.toml")
    assert bool(settings.silence(report, reported, TODAY).findings) is kept


def test_init_writes_settings_and_overwrites_none(tmp_path: Path) -> None:
    assert run("init", tmp_path).returncode == 0
    assert settings.load(tmp_path) == Settings()
    (tmp_path / "rldoctor.toml").write_text("level = 'static'\n")
    again = run("init", tmp_path)
    assert again.returncode == 2
    assert settings.load(tmp_path) == Settings(level="static")


def test_init_leaves_a_project_alone_that_has_settings_in_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.rldoctor]\nlevel = 'static'\n")
    refused = run("init", tmp_path)
    assert refused.returncode == 2
    assert "pyproject.toml" in refused.stderr
    assert not (tmp_path / "rldoctor.toml").exists()


def test_every_setting_is_in_the_template_as_it_would_be_written(tmp_path: Path) -> None:
    written = re.sub(r"^# (?=[A-Za-z0-9-]+ = |\[)", "", settings.template(), flags=re.M)
    (tmp_path / "rldoctor.toml").write_text(written)
    reported = settings.load(tmp_path)
    left_out = [name for name in Settings.__dataclass_fields__ if getattr(reported, name) == getattr(Settings(), name)]
    assert left_out == []


def test_a_project_weighs_codes_anew_the_longest_prefix_first() -> None:
    reported = Report(target="x", results=(found("RLD104"), found("RLD101"), found("RLD202")))
    weighed = settings.weighed(reported, Settings(severity={"RLD1": Severity.NOTE, "RLD101": Severity.WARNING}))
    severities = {finding.code: finding.severity.value for finding in weighed.findings}
    assert severities == {"RLD104": "note", "RLD101": "warning", "RLD202": "error"}


def test_a_severity_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rldoctor.toml").write_text("[severity]\nRLD104 = 'loud'\n")
    with pytest.raises(InputError, match=r"rldoctor\.toml"):
        settings.load(tmp_path)


SHORT = "".join(
    f"{{'loss': 0.1, 'reward': 0.5, 'reward_std': 0.2, 'completions/clipped_ratio': 0.97, 'epoch': 0.{i:02}}}\n"
    for i in range(1, 13)
)


def test_a_number_of_a_check_is_set_by_the_project(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(SHORT)
    usual = run("triage", "run.log", "--select", "RLD503", cwd=tmp_path)
    assert "warning: RLD503" in usual.stdout
    (tmp_path / "rldoctor.toml").write_text("[thresholds.RLD503]\nshare = 0.99\n")
    assert "RLD503 (" not in run("triage", "run.log", "--select", "RLD503", cwd=tmp_path).stdout
    (tmp_path / "rldoctor.toml").write_text("[thresholds.RLD503]\nsteps = 12\n")
    assert "unhealthy: RLD503" in run("triage", "run.log", "--select", "RLD503", cwd=tmp_path).stdout
    assert "`share` (usually 0.95)" in run("explain", "RLD503").stdout


def test_a_plugin_that_is_not_here_is_said(tmp_path: Path) -> None:
    (tmp_path / "rldoctor.toml").write_text("fail-on = 'error'\ndisable-plugins = ['acme-checks']\n")
    (tmp_path / "run.log").write_text(SHORT)
    asked = run("triage", "run.log", cwd=tmp_path)
    assert "rldoctor.toml:2: no plugin 'acme-checks' is installed" in asked.stdout + asked.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[thresholds.RLD503]\n# shares\nshares = 1",
            "rldoctor.toml:3: [thresholds.RLD503]: unknown threshold 'shares'; did you mean 'share'?",
        ),
        ("thresholds.RLD503.shares = 1", "rldoctor.toml:1: [thresholds.RLD503]: unknown threshold 'shares'"),
        ("[thresholds.RLD101]\nshare = 1", "RLD101 has none"),
        ("[thresholds.RLD9999]\nshare = 1", "rldoctor.toml:1: unknown code 'RLD9999'"),
        ("[thresholds.RLD503]\nshare = nan", "rldoctor.toml:2: [thresholds.RLD503]: share = nan: a number from 0 to 1"),
        ("[thresholds.RLD503]\nshare = 95", "share = 95: a number from 0 to 1 is expected"),
        ("[thresholds.RLD503]\nsteps = -1", "steps = -1: a number from 0 on is expected"),
        ("disable-plugins = ['builtim']", "rldoctor.toml:1: no plugin is named 'builtim'; did you mean 'builtin'?"),
        ("level = 'statik'", "rldoctor.toml:1: unknown level 'statik'; did you mean 'static'?"),
        ("\nfail-on = 'warnign'", "rldoctor.toml:2: unknown fail-on 'warnign'; did you mean 'warning'?"),
        ("[severity]\nRLD998 = 'note'", "rldoctor.toml:2: unknown code 'RLD998'"),
        ("require = [\n  'RLD101',\n  'RLD998']", "rldoctor.toml:3: unknown code 'RLD998'"),
    ],
)
def test_a_name_that_nothing_has_or_a_number_that_is_none_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "rldoctor.toml").write_text(text)
    (tmp_path / "run.log").write_text(SHORT)
    asked = run("triage", "run.log", cwd=tmp_path)
    assert asked.returncode == 2
    assert "rldoctor.toml" in asked.stderr and complaint in asked.stderr
