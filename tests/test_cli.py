"""The command line as a person or a CI job meets it: what goes where, exit codes, and one clear line for bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rldoctor import bundle, cli, report
from rldoctor.api import Case
from rldoctor.api.facts import Distribution, Packages
from tests.commands import run

VERL = """#!/usr/bin/env bash
python3 -m verl.trainer.main_ppo \\
    data.max_prompt_length=2048 \\
    data.max_response_length=8192 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.max_num_batched_tokens=8192 \\
    actor_rollout_ref.rollout.enable_chunked_prefill=False  # crashes otherwise
"""
MACHINE = {
    "python": "3.12",
    "packages": {"vllm": "0.7.3", "verl": "0.3.0.post1"},
    "env": {},
    "gpus": [{"name": "H100", "memory_gib": 80, "count": 8}],
    "nodes": 1,
}


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    (tmp_path / "run.sh").write_text(VERL)
    (tmp_path / "machine.json").write_text(json.dumps(MACHINE))
    return tmp_path


def test_findings_go_to_stdout_and_the_summary_to_stderr(launch: Path) -> None:
    done = run("check", "run.sh", "--assume", "machine.json", "--select", "RLD202", "--format", "json", cwd=launch)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert [f["code"] for f in report["findings"]] == ["RLD202"]
    edit = report["findings"][0]["fixes"][0]["edits"][0]
    assert edit["spelled"] == "actor_rollout_ref.rollout.max_num_batched_tokens=10240"
    assert (edit["file"], edit["line"]) == ("run.sh", 6)
    assert done.stderr.splitlines()[-1] == "rldoctor: 1 error; no other check"


def test_fail_on_decides_the_exit_code(launch: Path) -> None:
    for fail_on, code in (("error", 1), ("warning", 1), ("never", 0)):
        done = run(
            "check", "run.sh", "--assume", "machine.json", "--select", "RLD202", "--fail-on", fail_on, cwd=launch
        )
        assert done.returncode == code, fail_on


def test_diff_shows_and_fix_applies_once(launch: Path) -> None:
    arguments = ("check", "run.sh", "--assume", "machine.json", "--select", "RLD202")
    shown = run(*arguments, "--diff", cwd=launch)
    assert "+    actor_rollout_ref.rollout.max_num_batched_tokens=10240 \\" in shown.stdout
    assert (launch / "run.sh").read_text() == VERL
    run(*arguments, "--fix", cwd=launch)
    mended = (launch / "run.sh").read_text()
    assert mended == VERL.replace("max_num_batched_tokens=8192", "max_num_batched_tokens=10240")
    assert run(*arguments, "--fix", cwd=launch).returncode == 0
    assert (launch / "run.sh").read_text() == mended


def test_a_bundle_is_judged_like_the_machine_it_was_made_on(launch: Path) -> None:
    made = run("bundle", "--output", "case.json", cwd=launch)
    assert made.returncode == 0
    here, there = (
        json.loads(run("check", "--level", "static", "--format", "json", *source, cwd=launch).stdout)
        for source in ((), ("--from", "case.json"))
    )
    assert here["findings"] == there["findings"]
    outcomes = [{c["code"]: c["outcome"] for c in report["checks"]} for report in (here, there)]
    assert outcomes[0] == outcomes[1]


def test_nothing_judged_is_not_a_success(tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text(bundle.dump(Case()))
    assert run("check", "--from", "case.json", cwd=tmp_path).returncode == 2


def test_a_check_that_was_asked_for_must_be_judged(tmp_path: Path) -> None:
    packages = Packages(python="3.12", distributions=(Distribution(name="vllm", version="0.11.0"),))
    (tmp_path / "case.json").write_text(bundle.dump(Case(packages=packages)))
    asked = run("check", "--from", "case.json", "--select", "RLD102,RLD113", cwd=tmp_path)
    assert asked.returncode == 2
    assert "RLD113 was asked for and not checked: host was not collected" in asked.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("check", "missing.sh"), "missing.sh"),
        (("/dev/null",), "A file needs a command before it: rldoctor check /dev/null"),
        (("check", "--python", "/nowhere/python"), "/nowhere/python"),
        (("check", "--level", "deep"), "unknown level 'deep'; known are auto, static"),
        (("check", "--select", "RLD999"), "unknown code 'RLD999'"),
        (("check", "--format", "yaml"), "unknown format 'yaml'"),
        (("check", "--fail-on", "sometimes"), "unknown --fail-on 'sometimes'"),
        (("check", "--from", "missing.json"), "missing.json: No such file"),
        (("check", "--assume", "vllm=0.7.3"), "vllm=0.7.3"),
        (("check", "--devices", "first"), "--devices 'first'"),
        (("check", "--devices=-1"), "--devices '-1': GPU numbers"),
        (("check", "--devices", "0,4711", "--level", "static"), "--devices 0,4711: th"),
        (("check", "--devices", "first", "--from", "case.json"), "--devices 'first'"),
        (("check", "--level", "compare", "--from", "case.json"), "--level compare runs probes on this machine"),
        (("check", "--level", "imports", "--assume", "vllm==0.7.3"), "--level imports runs probes on this machine"),
        (("check", "--model", "."), "config.json"),
        (("check", "--model", "absent", "--level", "static", "--select", "RLD102"), "absent: no such directory"),
        (("check", "."), ".: a folder without config.json"),
        (("check", "--time-limit", "nan"), "--time-limit nan"),
        (("check", "--time-limit", "inf"), "--time-limit inf"),
        (("check", "--fix"), "--fix mends a launch file"),
        (("check", "--python", "trainer="), "'trainer='"),
        (("check", "--python", "trainer=a", "--python", "trainer=b"), "a second interpreter for trainer"),
        (("check", "--python", "a", "--from", "case.json"), "--from judges a saved one"),
        (("check", "--from", "/dev/zero"), "/dev/zero: not a regular file"),
        (
            (
                "check",
                "--no-such-option",
            ),
            "--no-such-option",
        ),
        (("explain", "RLD999"), "unknown code 'RLD999'"),
        (("triage", "missing.log"), "missing.log"),
        (("compat", "--index", "https://example.org/simple"), "--index is what --refresh reads"),
        (("cure",), "cure"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_explain_knows_the_name_that_a_check_had() -> None:
    assert run("explain", "ray-actor-died").stdout == run("explain", "process-ended").stdout != ""


def test_explain_prints_the_checks_own_document() -> None:
    by_code, by_name = run("explain", "rld202"), run("explain", "token-budget-below-context")
    assert by_code.stdout == by_name.stdout
    assert by_code.stdout.startswith("# RLD202 token-budget-below-context")
    assert "What it looks for" in by_code.stdout


def test_list_names_every_code_with_its_plugin() -> None:
    lines = run("list").stdout.splitlines()
    assert any(line.split() == ["RLD202", "token-budget-below-context", "builtin"] for line in lines)


def test_output_goes_to_a_file(launch: Path) -> None:
    done = run("list", cwd=launch)
    assert done.returncode == 0
    written = run(
        "check", "run.sh", "--assume", "machine.json", "--format", "sarif", "--output", "out.sarif", cwd=launch
    )
    assert written.stdout == ""
    assert json.loads((launch / "out.sarif").read_text())["version"] == "2.1.0"


@pytest.mark.parametrize(
    "command",
    [
        ("check", "{launch}"),
        ("check", "{launch}", "--diff"),
        ("plan", "{launch}"),
        ("bundle", "{launch}"),
        ("triage", "{launch}"),
        ("triage", "other.log", "--config", "{launch}"),
        ("diff", "{launch}", "other.json"),
        ("machine",),
    ],
)
def test_a_result_never_takes_the_place_of_what_it_is_about(launch: Path, command: tuple[str, ...]) -> None:
    script, link = launch / "run.sh", launch / "also.sh"
    link.symlink_to(script)
    for output in (script, link):
        done = run(*(part.format(launch=script) for part in command), "--output", str(output))
        what = "a file that is read here" if len(command) > 1 else "a launch file by its name"
        said = f"rldoctor: --output {output} is {what}: name another, nothing was written\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
        assert script.read_text() == VERL


def test_a_reader_that_leaves_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m rldoctor list | head -1", shell=True, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""


def test_a_reader_that_leaves_early_changes_no_verdict(launch: Path) -> None:
    check = f"{sys.executable} -m rldoctor check run.sh --assume machine.json --select RLD202"
    script = f"{check} | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", script], cwd=launch, capture_output=True, timeout=60).returncode == 1


@pytest.mark.parametrize("command", ["list", "explain RLD202", "bundle", "check --level static", "--help", "--version"])
def test_a_full_disk_is_no_finding(tmp_path: Path, command: str) -> None:
    script = f"{sys.executable} -m rldoctor {command} > /dev/full"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("No space left on device")
    assert "Traceback" not in done.stderr


def test_streams_that_are_closed_are_nobodys_else(launch: Path) -> None:
    check = f"{sys.executable} -m rldoctor check run.sh --assume machine.json --select RLD202 --format json"
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["bash", "-c", f"{check} {closed}"], cwd=launch, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1, closed
        assert not done.stdout or json.loads(done.stdout)["findings"]
        assert "Traceback" not in done.stderr


# One process for all formats: starting it is most of the work.
IN_EVERY_FORMAT = """
import contextlib, io, sys
from rldoctor import cli
from rldoctor.report import FORMATS

for name in FORMATS:
    for more in ([], ["--output", f"report.{name}"]):
        with contextlib.suppress(SystemExit):
            cli.main(["check", sys.argv[1], "--assume", "machine.json", "--format", name, *more])
    print(f"<end of {name}>")
"""


def test_names_and_terminals_without_utf_8(launch: Path) -> None:
    odd = os.fsdecode(b"run-\xe9-\x1b[31m.sh")
    (launch / "run.sh").rename(launch / odd)
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", IN_EVERY_FORMAT, odd]
    done = subprocess.run(command, cwd=launch, capture_output=True, env=ascii_only, timeout=120, check=True)
    shown = re.split(rb"<end of (\w+)>\n", done.stdout)[:-1]
    assert [name.decode() for name in shown[1::2]] == list(report.FORMATS)
    written = [(launch / f"report.{name}").read_bytes() for name in report.FORMATS]
    for text in (*shown[::2], *written):
        assert b"RLD202" in text and b"\x1b[31m" not in text
        text.decode()


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    script = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m rldoctor check --level static"
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environ, timeout=60)
    assert (done.returncode, done.stderr) == (2, "rldoctor: the current folder does not exist any more\n")


@pytest.mark.parametrize("error", [KeyError("heads"), SystemExit("heads")])
def test_a_mistake_of_ours_is_no_verdict(monkeypatch: pytest.MonkeyPatch, capsys: Any, error: BaseException) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("rldoctor.flow.session.open_session", broken)
    with pytest.raises(SystemExit) as left:
        cli.main(["check"])
    assert left.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"rldoctor: a mistake in rldoctor itself, nothing was judged: {type(error).__name__}: ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("check", ""), "an empty argument: is a variable of the shell not set?"),
        (("check", "run.sh", "--select", ""), "an empty argument: is a variable of the shell not set?"),
        (("check", "run.sh", "missing.sh"), "missing.sh: no such file"),
        (("check", "loop.sh"), "loop.sh: a link to loop.sh, which is not there"),
        (("check", "scripts/run.sh", "--level", "static"), "scripts/run.sh: no such file"),
        (("check", "https://example.org/run.sh"), "https://example.org/run.sh: an address; download the file"),
        (("check", "case.json"), "case.json: a bundle, and no launch file: rldoctor check --from case.json"),
        (("plan", "case.json"), "case.json: a bundle, and no launch file: rldoctor check --from case.json"),
        (("plan", "report.json"), "report.json: a report of rldoctor, and no launch file"),
        (("bundle", "machine.json"), "machine.json: the description of a machine, and no launch file: --assume"),
        (("check", "model/config.json"), "a model's configuration, and no launch file: rldoctor check model"),
        (("plan", "srun", "run.sh"), "(run.sh)"),
        (("baseline", "srun", "run.sh"), "srun: no such file; hand over the script alone: rldoctor baseline run.sh"),
        (("triage", "torn.gz", "--config", "torn.gz"), "torn.gz: a log by its name, and no launch file"),
        (("triage", "https://example.org/run.log"), "is an address: download the log, or pipe it"),
        (("check", "run.sh", "--select", ","), "',': no code, where codes or prefixes are expected"),
        (("check", "run.sh", "--step", "absent.py:step"), "absent.py: No such file or directory"),
        (("check", "rum.sh"), "rum.sh: no such file; did you mean run.sh?"),
        (("check", "srun", "bash", "run.sh"), "srun: no such file; hand over the script alone: rldoctor check run.sh"),
        (("check", "srun -n 8 bash run.sh"), "srun: no such file; hand over the script alone: rldoctor check run.sh"),
        (("check", "vllm serve m --seed 1"), "vllm serve m --seed 1: a command, not a file; save it as a script"),
        (("check", "--", "a=1"), "one launch script; 0 are given: rldoctor check SCRIPT -- ARGUMENTS"),
        (("check", "-"), "-: what a launch names stands beside its file, so standard input is not read: save it"),
        (("check", "torn.gz"), "torn.gz: a log by its name, and no launch file: rldoctor triage torn.gz"),
        (("check", "crash.txt"), "crash.txt: a log with a traceback, and no launch file: rldoctor triage crash.txt"),
        (("check", "my crash.txt"), "no launch file: rldoctor triage 'my crash.txt'"),
        (("check", "quoted.txt"), "quoted.txt: looks like a log, and is no launch file: rldoctor triage quoted.txt"),
        (("check", "slurm-17"), "slurm-17: looks like a log, and is no launch file: rldoctor triage slurm-17 (read as"),
        (("plan", "quoted.txt"), "quoted.txt: looks like a log, and is no launch file: rldoctor triage quoted.txt"),
        (("check", "unclosed.txt"), "unclosed.txt:1: the quote ' is never closed"),
        (("check", "unclosed.sh"), "unclosed.sh:2: the quote ' is never closed"),
        (("check", "run.sh", "--framework", "vrel"), "vrel: no such framework; did you mean 'verl'?"),
        (("check", "run.sh", "--select", "budget-below"), "did you mean RLD202 (token-budget-below-context)?"),
        (("check", "--select", "RLD2O2"), "unknown code 'RLD2O2'; did you mean RLD202 (token-budget-below-context)?"),
        (("explain", "token-budgt"), "did you mean RLD202 (token-budget-below-context)?"),
        (("explain", "202"), "unknown code '202'; did you mean RLD202 (token-budget-below-context)?"),
        (("compat", "vlm==0.8.5"), "vlm: versions of this package are not known; did you mean 'vllm'?"),
        (("explain", "chunked-prefil-risk"), "did you mean RLD201 (chunked-prefill-risk)?"),
        (("triage",), "Usage: rldoctor triage [OPTIONS]"),
        (("check", "binary.sh"), "binary.sh:1: a binary file, not a launch file"),
        (("check", "words.txt"), "words.txt: starts nothing that rldoctor knows (--framework NAME forces a reading)"),
        (("check", "run.sh", "words.txt"), "words.txt: starts nothing that rldoctor knows"),
        (("check", "run.sh", "--assume", "vllm==abc"), "--assume vllm==abc: 'abc' is not a version of vllm"),
        (("check", "run.sh", "--assume", "vlm==0.8.5"), "no check reads a package vlm; did you mean vllm?"),
        (("check", "folder"), "folder: a folder without config.json, neither a model nor a launch file; hand over"),
        (("check", "run.sh", "--assume", "0xH100-80GB"), "no such file; did you mean 1xH100-80GB?"),
        (("check", "run.sh", "--assume", "8xH1000"), "no such file; did you mean 8xH100-80GB?"),
        (("check", "run.sh", "--fail-on", "warnings"), "unknown --fail-on 'warnings'; known are error, warning, never"),
        # Releases of click offer the option meant in words of their own.
        (("check", "run.sh", "--assum", "machine.json"), "No such option: --assum "),
        (("check", "run.sh", "--assum", "machine.json"), "--assume"),
        (("triage", "words.txt", "missing.log"), "missing.log does not exist"),
        (("triage", "torn.gz"), "cannot read torn.gz: the compressed file is truncated"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_never_green(
    launch: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, arguments: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir(launch)
    Path("loop.sh").symlink_to("loop.sh")
    Path("binary.sh").write_bytes(bytes(range(256)))
    Path("words.txt").write_text("hello world\n")
    for log in ("crash.txt", "my crash.txt"):
        Path(log).write_text('it\'s\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\n')
    Path("quoted.txt").write_text("it's loaded\n{'loss': 0.2, 'reward': 0.5}\n{'loss': 0.1, 'reward': 0.6}\n")
    Path("slurm-17").write_text("slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some step has been OOM\n")
    Path("unclosed.txt").write_text("echo 'training\npython train.py\n")
    Path("unclosed.sh").write_text("#!/bin/bash\necho 'training completed\npython train.py\n")
    Path("folder").mkdir()
    Path("folder", "run.sh").touch()
    Path("torn.gz").write_bytes(b"\x1f\x8b\x08" + b"x" * 100)
    Path("case.json").write_text(json.dumps({"schema_version": 1, "packages": None, "gpus": None}))
    Path("model").mkdir()
    Path("model", "config.json").write_text(json.dumps({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 2048}))
    Path("report.json").write_text(json.dumps({"schema_version": 1, "findings": []}))
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    shown = capsys.readouterr()
    assert (left.value.code, shown.out, len(shown.err.splitlines())) == (2, "", 1)
    assert line in shown.err


def test_a_launch_sent_to_standard_input_is_said_to_be_unread(launch: Path) -> None:
    with (launch / "run.sh").open() as sent:
        command = [sys.executable, "-m", "rldoctor", "check", "--level", "static"]
        done = subprocess.run(command, cwd=launch, stdin=sent, capture_output=True, text=True, timeout=100)
    assert "standard input is not read: a launch file is named, rldoctor check run.sh" in done.stderr


def test_a_vllm_is_judged_with_its_torch(tmp_path: Path) -> None:
    machine = tmp_path / "machine.json"
    for packages, code in (({"vllm": "0.8.5"}, 2), ({"vllm": "0.8.5", "torch": "2.6.0"}, 0)):
        machine.write_text(json.dumps({"python": "3.12", "packages": packages, "gpus": []}))
        done = run("check", "--assume", machine, "--level", "static")
        unnamed = "cannot judge: the release of torch is not named (--assume torch==VERSION)"
        assert (done.returncode, done.stdout.startswith(unnamed)) == (code, code == 2)


def test_windows_line_endings_change_no_verdict(launch: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(launch)
    Path("windows.sh").write_bytes(Path("run.sh").read_bytes().replace(b"\n", b"\r\n"))
    said = []
    for file in ("run.sh", "windows.sh"):
        with pytest.raises(SystemExit):
            cli.main(["check", file, "--level", "static", "--assume", "machine.json", "--format", "json"])
        said.append([finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"]])
    assert said[0] == said[1] != []


def test_several_bundles_say_whose_finding_it_is(launch: Path) -> None:
    for node, vllm in (("node-1.json", "0.7.3"), ("node-2.json", "0.7.3")):
        packages = Packages(python="3.12", distributions=(Distribution(name="vllm", version=vllm),))
        (launch / node).write_text(bundle.dump(Case(packages=packages)))
    done = run("check", "--from", "node-1.json", "--from", "node-2.json", "--format", "json", cwd=launch)
    assert json.loads(done.stdout)["target"] == "node-1.json; node-2.json; Python 3.12, vllm 0.7.3"


def test_what_a_project_requires_is_judged_whatever_it_selects(tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text(bundle.dump(Case(packages=Packages(python="3.12"))))
    (tmp_path / "rldoctor.toml").write_text('select = ["RLD104"]\nrequire = ["RLD113"]\n')
    done = run("check", "--from", "case.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "RLD113 was asked for and not checked: host was not collected" in done.stdout
    (tmp_path / "rldoctor.toml").write_text('require = ["RLD999"]\n')
    done = run("check", "--from", "case.json", cwd=tmp_path)
    assert (
        done.stderr == f"rldoctor: {tmp_path}/rldoctor.toml:1: unknown code 'RLD999'; `rldoctor list` shows all codes\n"
    )


def test_what_is_ignored_on_the_command_line_leaves_a_trace(launch: Path) -> None:
    judge = ("check", "run.sh", "--assume", "8xA100-80GB", "--assume", "vllm==0.7.3", "--assume", "verl==0.3.0.post1")
    found = run(*judge, "--level", "static", "--format", "json", cwd=launch)
    codes = {one["code"] for one in json.loads(found.stdout)["findings"]}
    assert "RLD202" in codes
    ignored = run(*judge, "--level", "static", "--ignore", "RLD202", cwd=launch)
    assert "RLD202" not in ignored.stdout and ", 1 ignored (-v lists them)" in ignored.stdout.splitlines()[-1]
    listed = run(*judge, "--level", "static", "--ignore", "RLD202", "-v", cwd=launch)
    assert "- ignored: --ignore: error RLD202 (run.sh:" in listed.stdout
    assert [line for line in listed.stdout.splitlines() if "not-applicable: ignored" in line] == []
    (launch / "run.log").write_text("ValueError: no module\ntorch.OutOfMemoryError: CUDA out of memory.\n")
    assert "patterns looked for, 1 ignored" in run("triage", "run.log", "--ignore", "RLD2", cwd=launch).stdout
    assert "unknown code 'RLD999'" in run(*judge, "--ignore", "RLD999", cwd=launch).stderr


def test_a_bundle_has_what_its_script_was_given(launch: Path) -> None:
    (launch / "run.sh").write_text('trl vllm-serve --model Qwen/Qwen2.5-7B-Instruct "$@"\n')
    saved = run("bundle", "run.sh", "--output", "case.json", "--", "--tensor-parallel-sise", "2", cwd=launch)
    assert (saved.returncode, saved.stderr) == (0, "")
    for more in (("--assume", "trl==0.24.0"), ("--assume", "trl==0.24.0", "--assume", "machine.json")):
        done = run("check", "--from", "case.json", "--level", "static", *more, cwd=launch)
        assert "knows no option --tensor-parallel-sise; did you mean --tensor-parallel-size?" in done.stdout
    alone = run("bundle", "--", "--lr", "1", cwd=launch)
    assert alone.returncode == 2
    assert "one launch script; 0 are given: rldoctor bundle SCRIPT -- ARGUMENTS" in alone.stderr


def test_a_bundle_of_several_launches_names_them(launch: Path) -> None:
    (launch / "two.sh").write_text(VERL.partition("\n")[2] + VERL.partition("\n")[2])
    done = run("bundle", "two.sh", "--level", "imports", cwd=launch)
    assert done.returncode == 2
    several = "two.sh starts several launches (lines 1, 7)"
    assert done.stderr == f"rldoctor: {several}: probes run for one; --level static saves them all\n"


def test_nothing_to_change_is_no_diff(launch: Path) -> None:
    done = run("check", "run.sh", "--assume", "machine.json", "--select", "RLD104", "--diff", cwd=launch)
    assert done.stdout == ""


def test_bare_says_what_to_type_next() -> None:
    done = run()
    assert done.returncode == 0
    assert "rldoctor check train.sh" in done.stdout and "rldoctor triage run.log" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("help",), "No such command 'help'. (rldoctor --help lists the commands)"),
        (("--format", "json", "check", "run.sh"), "stand behind it: rldoctor check --help)"),
        (("check", "--require", "RLD209", "--ignore", "RLD209"), "--require and --ignore both name RLD209"),
    ],
)
def test_what_was_meant_stands_beside_what_was_typed(arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and said in done.stderr


def test_a_bundle_tells_of_the_launch_as_it_was(launch: Path) -> None:
    bundle = str(launch / "case.json")
    run("bundle", str(launch / "run.sh"), "--output", bundle)
    done = run("check", "--from", bundle, "--assume", str(launch / "machine.json"), "--fix")
    assert "as it was before --fix changed" in " ".join(done.stdout.split())


def test_version_names_the_date_of_the_tables_and_h_is_help() -> None:
    assert re.fullmatch(r"rldoctor \S+ \(tables of 20\d\d-\d\d-\d\d\)\n", run("--version").stdout)
    assert run("check", "-h").stdout == run("check", "--help").stdout != ""


def test_a_shell_completes_the_commands() -> None:
    asked = {"_RLDOCTOR_COMPLETE": "complete_bash", "COMP_WORDS": "rldoctor tri", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "from rldoctor.cli import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **asked})
    assert (done.returncode, done.stdout.strip()) == (0, "triage")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("rldoctor check --framework Open", ["OpenRLHF"]),
        ("rldoctor check --level ro", ["rollout"]),
        ("rldoctor triage --format ju", ["junit"]),
        ("rldoctor check --fail-on n", ["never"]),
        ("rldoctor check --select RLD101,RLD20", [f"RLD101,RLD20{n}" for n in range(1, 10)]),
        ("rldoctor explain RLD60", [f"RLD60{n}" for n in range(1, 10)]),
    ],
)
def test_a_shell_completes_values(words: str, offered: list[str]) -> None:
    asked = {"_RLDOCTOR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [sys.executable, "-c", "from rldoctor.cli import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **asked})
    assert (done.returncode, sorted(done.stdout.split())) == (0, sorted(offered))


def test_the_script_for_a_shell_is_shown() -> None:
    # Else typer looks which shell has started the tests.
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-c", "from rldoctor.cli import main; main()", "--show-completion", "bash"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **named})
    assert (done.returncode, done.stderr) == (0, "") and "complete -o default -F" in done.stdout


def test_several_launches_are_judged_in_one_call(launch: Path) -> None:
    (launch / "well.sh").write_text(VERL.replace("max_num_batched_tokens=8192", "max_num_batched_tokens=10240"))
    options = ("--assume", "machine.json", "--select", "RLD202", "--format", "json")
    one = json.loads(run("check", "well.sh", *options, cwd=launch).stdout)
    both = json.loads(run("check", "well.sh", "run.sh", *options, cwd=launch).stdout)
    assert one["findings"] == []
    assert [finding["cases"][0].partition(",")[0] for finding in both["findings"]] == ["run.sh"]


def test_fix_ends_with_the_verdict_on_the_mended_file(launch: Path) -> None:
    done = run("check", "run.sh", "--assume", "machine.json", "--select", "RLD202", "--fix", cwd=launch)
    assert done.returncode == 0
    assert done.stdout.startswith("passed: no problem found: run.sh")
    assert "note: judged after --fix changed run.sh" in done.stdout


def test_fix_goes_on_with_what_its_changes_uncover(launch: Path) -> None:
    options = {
        "algorithm.adv_estimator": "grpo",
        "data.train_batch_size": 128,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 256,  # more than there are, then 80 a rank
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 32,
        "actor_rollout_ref.rollout.n": 5,
        "trainer.n_gpus_per_node": 8,
    }
    words = " ".join(f"{key}={value}" for key, value in options.items())
    (launch / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo {words}\n")
    machine = ("--assume", "verl==0.6.1", "--level", "static", "--select", "RLD211")
    done = run("check", "run.sh", *machine, "--fix", cwd=launch)
    assert done.returncode == 0, done.stdout
    assert "ppo_mini_batch_size=128 " in (launch / "run.sh").read_text()
    assert "ppo_micro_batch_size_per_gpu=20 " in (launch / "run.sh").read_text()


def test_output_holds_the_verdict_in_every_format(launch: Path) -> None:
    open_ = ("check", "run.sh", "--assume", "vllm==0.7.3", "--select", "RLD101")
    for name in report.FORMATS:
        done = run(*open_, "--format", name, "--output", f"report.{name}", cwd=launch)
        assert done.returncode == 2, name
        assert re.search("cannot judge|not-judged", (launch / f"report.{name}").read_text()), name


class TestTimeout:
    """--timeout: the whole command, whatever it is at."""

    def test_a_command_that_takes_longer_ends_in_a_line(self, tmp_path: Path) -> None:
        python = tmp_path / "python"
        python.write_text("#!/bin/sh\nexec sleep 600\n")
        python.chmod(0o755)
        arguments = ["check", "--level", "static", "--timeout", "0.5", "--python", str(python)]
        done = subprocess.run(
            [sys.executable, "-m", "rldoctor", *arguments], capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"rldoctor: not judged within 0.5 s: rldoctor {' '.join(arguments)}\n"

    def test_one_that_ends_in_time_says_nothing_of_it(self, launch: Path) -> None:
        before = threading.active_count()
        arguments = ("check", "run.sh", "--assume", "machine.json", "--select", "RLD202", "--format", "json")
        assert run(*arguments, "--timeout", "600", cwd=launch).stdout == run(*arguments, cwd=launch).stdout
        assert threading.active_count() == before

    @pytest.mark.parametrize("seconds", ["0", "-1", "nan", "1e9"])
    def test_what_is_no_time_is_refused(self, seconds: str) -> None:
        done = run("triage", "run.log", "--timeout", seconds)
        assert done.returncode == 2 and done.stderr.startswith(f"rldoctor: --timeout {float(seconds):g}: more than 0")


class TestOptions:
    """What is read by the commands themselves reaches them as typer's own reading would, and so does what is wrong."""

    def test_texts_and_paths_given_once_and_several_times(self, launch: Path) -> None:
        (launch / "other.sh").write_text(VERL)
        arguments = ("--assume", "machine.json", "--select", "RLD202", "--select", "RLD203,RLD205", "--format", "json")
        done = run("check", "run.sh", "other.sh", *arguments, "--output", "out.json", cwd=launch)
        report = json.loads((launch / "out.json").read_text())
        assert done.returncode == 1
        assert {f["code"] for f in report["findings"]} == {"RLD202"}
        assert {one["code"] for one in report["checks"]} == {"RLD202", "RLD203", "RLD205"}

    @pytest.mark.parametrize(
        "arguments, said",
        [
            (("explain",), "Missing argument"),
            (("diff", "a.json"), "Missing argument"),
            (("triage",), "Missing argument"),
            (("check", "--time-limit", "soon"), "--time-limit"),
            (("check", "--levle", "static"), "--levle"),
            (("hang", "all"), "valid integer"),
            (("chek",), "chek"),
        ],
    )
    def test_what_is_missing_or_no_number_is_one_line(self, arguments: tuple[str, ...], said: str) -> None:
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr and len(done.stderr.splitlines()) == 1
