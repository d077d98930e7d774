"""``rldoctor watch`` beside a real process that writes a log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor.case import Series
from rldoctor.errors import InputError
from rldoctor.report.pictures import trend
from rldoctor.watch import process, view
from tests.commands import run

SICK = "{'loss': 0.0, 'grad_norm': 0.0, 'learning_rate': 1e-06, 'reward': 0.0, 'reward_std': 0.0, 'epoch': %s}"
RUN = f"""
import sys
sys.stdin.readline()
for n in range(1, 13):
    print({SICK!r} % (n / 100), flush=True)
sys.stdin.readline()
raise KeyError("tensor_parallel")
"""


def test_findings_arise_while_the_process_runs_and_the_command_hears_of_them(tmp_path: Path) -> None:
    log, heard = tmp_path / "run.log", tmp_path / "heard"
    with log.open("wb") as out:
        child = subprocess.Popen([sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=out, stderr=out)
    command = f'echo "$RLDOCTOR_SEVERITY $RLDOCTOR_CODE" >> {heard}; cat >> {heard}.json; echo >> {heard}.json'
    watching = subprocess.Popen(
        [sys.executable, "-m", "rldoctor", "watch", str(child.pid), "--every", "0.05", "--exec", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert child.stdin is not None and watching.stdout is not None
    child.stdin.write(b"\n")
    child.stdin.flush()
    first = watching.stdout.readline()
    assert "RLD501" in first
    child.stdin.write(b"\n")
    child.stdin.close()
    child.wait(timeout=60)
    said, errors = watching.communicate(timeout=120)
    assert watching.returncode == 1, errors
    assert "KeyError: 'tensor_parallel'" in said
    codes = [line.split()[1] for line in heard.read_text().splitlines()]
    assert codes[0] == "RLD501" and len(codes) == len(set(codes)) > 1
    reported = [json.loads(line) for line in Path(f"{heard}.json").read_text().splitlines()]
    assert [finding["code"] for finding in reported] == codes


def test_a_run_that_stays_silent_ends_the_watch(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("".join(SICK % (n / 100) + "\n" for n in range(1, 13)))
    done = run("watch", "run.log", "--idle", "0.2", "--every", "0.05", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.count("fix") >= 1


def test_a_file_that_is_never_written(tmp_path: Path) -> None:
    done = run("watch", "run.log", "--idle", "0.1", "--every", "0.05", cwd=tmp_path)
    assert done.returncode == 2
    assert "run.log: nothing was written to it" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("watch", "999999999"), "no process 999999999 is running"),
        (("watch", "run.log", "--every", "0"), "--every 0"),
        (("watch", "run.log", "--idle", "-1"), "--idle -1"),
        (("watch", "."), "no run of W&B"),
        (("watch", "run.log", "--webhook", "hooks.example"), "--webhook"),
    ],
)
def test_what_cannot_be_watched_is_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert said in done.stderr


def test_text_of_a_log_is_no_part_of_the_command(tmp_path: Path) -> None:
    hostile = "ValueError: $(touch owned) `touch owned` ; touch owned"
    (tmp_path / "run.log").write_text(
        f'Traceback (most recent call last):\n  File "/app/train.py", line 3, in <module>\n    f()\n{hostile}\n'
    )
    done = run(
        "watch",
        "run.log",
        "--idle",
        "0.2",
        "--every",
        "0.05",
        "--exec",
        'echo "$RLDOCTOR_MESSAGE" > said',
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "touch owned" in (tmp_path / "said").read_text()
    assert not (tmp_path / "owned").exists()


def test_the_log_of_a_process_is_where_its_output_goes(tmp_path: Path) -> None:
    log = tmp_path / "odd name (1).log"
    with log.open("wb") as out:
        child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=out)
    try:
        assert process.output_of(child.pid) == log
        assert process.is_alive(child.pid)
    finally:
        child.kill()
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive(child.pid)  # a zombie: ended, and not waited for
    child.wait()
    assert not process.is_alive(child.pid)


def test_a_process_that_writes_to_a_pipe_has_no_log(tmp_path: Path) -> None:
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        with pytest.raises(InputError, match=r"standard output goes to .*pipe.*name the log"):
            process.output_of(child.pid)
    finally:
        child.kill()
        child.communicate()


def test_the_latest_step_in_a_line_and_its_pace() -> None:
    metrics = {"reward": Series(key="reward", steps=(1, 2, 3), values=(0.1, float("nan"), 0.25))}
    pace = view.Pace()
    pace.at(1, 100.0)
    pace.at(3, 130.0)
    assert view.line(metrics, pace) == "step 3, reward 0.25, 15.0 s a step"
    assert trend((0.0, float("nan"), 1.0)) == "▁?█"
    assert trend((float("nan"),)) == "?"


def test_a_fix_is_in_plain_words_where_the_log_names_no_framework(tmp_path: Path) -> None:
    sick = (
        "{'loss': 0.1, 'grad_norm': 0.2, 'reward': 0.%d, 'reward_std': 0.2, 'completions/clipped_ratio': 1.0, "
        "'completions/mean_length': 64.0, 'completions/max_length': 64.0, 'epoch': 0.0%d}\n"
    )
    (tmp_path / "run.log").write_text("".join(sick % (step, step) for step in range(1, 9)))
    done = run("watch", "run.log", "--idle", "0.2", "--every", "0.05", cwd=tmp_path)
    assert "RLD503" in done.stdout
    assert "longest response: 256" in done.stdout and "lengths.response" not in done.stdout
