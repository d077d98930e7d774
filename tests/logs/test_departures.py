"""Processes that ended without a word, as their launchers record it: what the others say are consequences."""

from __future__ import annotations

import pytest

from rldoctor.logs.triage import triage_text
from rldoctor.model import Report

from .excerpts import HEALTHY, OUT_OF_MEMORY, PEER_GONE, REWARD_RAISES, SEGFAULT, elastic, ranked

TIMED_OUT = """\
Traceback (most recent call last):
  File "/home/user/rl/train.py", line 40, in <module>
    dist.all_reduce(loss)
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in all_reduce
    work.wait()
RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 20000ms for recv \
operation to complete
"""
WATCHDOG = (
    "[rank{rank}]:[E1120 20:49:10.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600012 milliseconds before timing out.\n"
)
RAY_DIED = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 22183\n"


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


@pytest.mark.parametrize(
    ("code", "how", "hint"),
    [
        (7, "rank 1 ended with exit code 7", "os._exit"),
        (-9, "rank 1 was ended by SIGKILL (exit code -9)", "memory killer"),
        (-11, "rank 1 was ended by SIGSEGV (exit code -11)", "Python frames"),
    ],
)
def test_a_rank_that_ended_goes_before_what_its_peers_say(code: int, how: str, hint: str) -> None:
    report = triage_text(ranked(0, PEER_GONE) + elastic(1, code))
    assert codes(report) == ["RLD901", "RLD321"]
    assert report.findings[0].message.startswith(f"{how} and wrote no reason into this log")
    assert hint in report.findings[0].fixes[0].title
    assert report.incident is not None and report.incident.first_rank == "1"
    assert report.incident.exception is not None and "ChildFailedError" in report.incident.exception


@pytest.mark.parametrize("peer", [TIMED_OUT, "RuntimeError: NCCL communicator was aborted on rank 0.\n"])
def test_time_outs_of_its_peers_are_consequences_too(peer: str) -> None:
    assert codes(triage_text(ranked(0, peer) + elastic(1, 7)))[0] == "RLD901"


def test_a_rank_whose_traceback_is_in_another_file() -> None:
    report = triage_text(ranked(0, PEER_GONE) + elastic(1))
    assert codes(report) == ["RLD901", "RLD321"]
    assert "rank 1 ended with exit code 1" in report.findings[0].message
    assert [fix.commands for fix in report.findings[0].fixes] == [("rldoctor triage LOGS/*/attempt_0/1/stderr.log",)]


def test_the_rank_is_that_of_the_whole_run() -> None:
    second_node = elastic(1, 7).replace("rank      : 1 (local_rank: 1)", "rank      : 9 (local_rank: 1)")
    report = triage_text(ranked(0, PEER_GONE) + second_node)
    assert report.findings[0].message.startswith("rank 9 ended with exit code 7")
    assert report.incident is not None and report.incident.first_rank == "9"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (ranked(0, TIMED_OUT) + ranked(1, TIMED_OUT) + elastic(1), "RLD321"),  # it waited like the others
        (ranked(1, REWARD_RAISES) + ranked(0, PEER_GONE) + elastic(1), "RLD902"),
        (ranked(1, OUT_OF_MEMORY) + ranked(0, PEER_GONE) + elastic(1), "RLD206"),
        (SEGFAULT + ranked(0, PEER_GONE) + elastic(1, -11), "RLD900"),
        (WATCHDOG.format(rank=1) + elastic(1, -6), "RLD321"),
        (TIMED_OUT + elastic(1), "RLD321"),  # whose traceback this is, nobody says
        (ranked(0, PEER_GONE) + elastic(1, -15), "RLD321"),  # it was asked to end
        (ranked(0, PEER_GONE), "RLD321"),
    ],
)
def test_a_rank_that_says_something_itself(text: str, first: str) -> None:
    assert codes(triage_text(text))[0] == first


def test_a_run_that_ends_well() -> None:
    assert codes(triage_text(HEALTHY)) == []


def test_other_launchers() -> None:
    spawn = "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n"
    frame = (
        'Traceback (most recent call last):\n  File "/home/user/rl/train.py", line 9, in <module>\n    mp.spawn(f)\n'
    )
    slurm = "srun: error: node2: task 5: Exited with exit code 7\n"
    deepspeed = "[ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -9\n"
    said = {
        text: triage_text(ranked(0, PEER_GONE) + text).findings[0].message.partition(" and wrote")[0]
        for text in (frame + spawn, slurm, deepspeed)
    }
    assert list(said.values()) == [
        "rank 1 was ended by SIGKILL (exit code -9)",
        "rank 5 ended with exit code 7",
        "a process was ended by SIGKILL (exit code -9)",
    ]


@pytest.mark.parametrize("line", ["Killed", "train.sh: line 12: 12345 Killed                  python train.py"])
def test_a_shell_whose_child_was_killed(line: str) -> None:
    loading = "Loading checkpoint shards:  50%|#####     | 2/4 [00:10<00:10,  5.0s/it]\n"
    (finding,) = triage_text(f"{loading}{line}\n").findings
    assert finding.code == "RLD901"
    assert finding.message == "a process was ended by SIGKILL (exit code -9) and wrote no reason into this log"
    assert finding.fixes[0].commands == ("dmesg -T | grep -i -E 'killed process|out of memory'",)
    assert codes(triage_text(f"{OUT_OF_MEMORY}{line}\n"))[0] == "RLD206"


def test_a_death_that_ray_recorded_goes_before_a_lost_connection_and_not_before_a_time_out() -> None:
    frame = 'Traceback (most recent call last):\n  File "/home/user/rl/train.py", line 9, in <module>\n    ray.get(x)\n'
    assert codes(triage_text(ranked(0, PEER_GONE) + frame + RAY_DIED))[:2] == ["RLD603", "RLD321"]
    assert codes(triage_text(WATCHDOG.format(rank=0) + frame + RAY_DIED))[:2] == ["RLD321", "RLD603"]


def test_a_scheduler_that_speaks_behind_a_rank_says_nothing_new() -> None:
    said = (
        "[rank2]:[E516 06:09:16.295 ProcessGroupNCCL.cpp:629] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=49, OpType=ALLREDUCE, NumelIn=192, NumelOut=192, Timeout(ms)=1800000) ran for 1800076 "
        "milliseconds before timing out.\n"
    )
    ended = "srun: error: node-3: task 0: Exited with exit code 1\n"
    behind, before = triage_text(said + ended), triage_text(ended + said)
    assert [(r.findings[0].code, r.incident.first_rank) for r in (behind, before) if r.incident is not None] == [
        ("RLD321", "2"),
        ("RLD901", "0"),
    ]


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("prterun noticed that process rank 3 with PID 22 on node g7 exited on signal 9 (Killed).", "rank 3 was"),
        ("Status message: Job entrypoint command failed with exit code 137, last available logs", "SIGKILL"),
        ("ExitCode 137", "SIGKILL"),
        ("=   RANK 5 PID 4411 RUNNING AT gpu-11\n=   KILLED BY SIGNAL: 11 (Segmentation fault)", "SIGSEGV"),
        ("   Process name: [prterun-a-1@1,2]\n   Exit code:    137", "SIGKILL"),
        ("      Reason:       Error\n      Exit Code:    137", "SIGKILL"),
        ("The replica workerpool0-0 exited with a non-zero status of 139. To find out", "SIGSEGV"),
        ("\texit_codes: -9", "SIGKILL"),
        ("ERROR: Job 3 failed with return code list: [0, 137]", "SIGKILL"),
        ("job 77120.1 died through signal KILL (9)", "SIGKILL"),
    ],
)
def test_who_started_a_job_says_how_it_ended(line: str, how: str) -> None:
    (found,) = triage_text(f"{HEALTHY}{line}\n").findings
    assert found.code == "RLD901" and how in found.message


@pytest.mark.parametrize(
    "said",
    [
        "trainer-1 exited with code 137",
        "Process 3 exit with status code 139.",
        "[2026-06-01, 10:00:00 UTC] {local_task_job_runner.py:245} INFO - Task exited with return code -9",
        "\t(0) Abnormal termination (signal 9)",
        "grpo.service: Main process exited, code=killed, status=11/SEGV",
        "    Exit_status = 265",
        "exit_status  137                  (Killed)",
        '            "exitCode": 139,',
        "container die 3f2a9911 (execDuration=9112, exitCode=137, image=acme/rl:3, name=grpo)",
        "User process '/azureml-envs/rl/bin/python' exited with status code 137.",
        "=   EXIT CODE: 139",
        "Fri Sep 11 05:11:12: Exited by signal 9. The CPU time used is 120 seconds;",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
    ],
)
def test_whoever_tells_of_a_child_that_a_signal_ended(said: str) -> None:
    steps = "".join(line for line in HEALTHY.splitlines(keepends=True) if "'grad_norm'" in line)
    report = triage_text(f"{steps}{said}\n")
    assert codes(report) == ["RLD901"] and "was ended by SIG" in report.findings[0].message
    assert codes(triage_text(f"{HEALTHY}redis-1 exited with code 137\n")) == []


@pytest.mark.parametrize("whose", ["[sandbox] container", "tool_server: process 12", "the python code", "judge-3"])
def test_what_a_run_has_many_of_may_be_killed(whose: str) -> None:
    steps = "".join(line for line in HEALTHY.splitlines(keepends=True) if "'grad_norm'" in line)
    assert codes(triage_text(f"{steps}{whose} exited with code 137\n")) == []


@pytest.mark.parametrize(
    "said",
    [
        "nvcc probe returned exit code 139, using the fallback kernel",
        "wandb: sync process exited with code -9, continuing offline",
        "data worker 3 exited with code -9; respawned",
        "HTTP request failed with status code 134",
        "pytest for repo-12 exited with code 137, counted as 0",
        "tool result: {'exit_code': 137, 'stdout': ''}",
        "{'exit_code': 139, 'stderr': 'Segmentation fault', 'passed': False}",
        "code_exec: process died with signal 9, treated as wrong answer",
        "swe-bench container 17: EXIT CODE: 137",
        "swebench container exit code 137",
        "the Lean server died with exit code 139, restarting",
        "exit_code 137: 3 episodes",
        '{"verdict": "RE", "exit_code": 139}',
        "wheel speed signal: 9.81",
        '{"sample_id": 12, "exit_code": 137, "score": 0.0}',
        "INFO handler: signal 9 is not caught",
        "swe-env-7 exited by signal 9",
    ],
)
def test_what_somebody_does_without_ends_no_run(said: str) -> None:
    steps = "".join(line for line in HEALTHY.splitlines(keepends=True) if "'grad_norm'" in line)
    assert codes(triage_text(f"{steps}{said}\n")) == []
