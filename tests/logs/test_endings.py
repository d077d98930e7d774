"""How a run ended: each ending needs evidence of its own, and nothing is well that shows no proof of life."""

from __future__ import annotations

import pytest

from rldoctor.api.logs import Incident
from rldoctor.logs.triage import triage_text

from .excerpts import HEALTHY, REWARD_RAISES

BEGUN = HEALTHY.split("{'train_runtime'")[0]


def incident(text: str) -> Incident:
    found = triage_text(text).incident
    assert found is not None
    return found


def codes(text: str) -> list[str]:
    return [finding.code for finding in triage_text(text).findings]


@pytest.mark.parametrize(
    "end",
    [
        "{'train_runtime': '7.469', 'train_loss': '-0.08558', 'epoch': '0.5'}\n",
        "100%|██████████| 60/60 [19:00<00:00, 19.81s/it]\n",
        "(TaskRunner pid=17) Final validation metrics: {'val/reward': 0.7}\n",
    ],
)
def test_the_last_step_or_the_trainers_last_words_are_the_end(end: str) -> None:
    assert incident(BEGUN + end).kind == "finished"


@pytest.mark.parametrize(
    ("end", "step"),
    [
        (" 12%|█         | 100/800 [31:40<221:40, 19.72s/it]\n", "100 of 800"),
        ("========================= Step 7/200 =========================\n▶ Preparing batch...\n", "7 of 200"),
        ("(TaskRunner pid=17) step:35 - actor/entropy:0.33 - critic/score/mean:0.5\n", "35"),
    ],
)
def test_a_run_that_was_cut_off_or_goes_on_says_where_it_is(end: str, step: str) -> None:
    found = incident(BEGUN + end)
    assert (found.kind, found.step) == ("unfinished", step)


def test_a_bar_of_something_else_is_no_last_step() -> None:
    assert incident(BEGUN + "Loading weights: 100%|##########| 27/27 [00:01<00:00, 20it/s]\n").kind == "unfinished"


def test_a_run_that_learns_nothing_is_unhealthy() -> None:
    lines = "".join(
        f"{{'loss': '0.0', 'grad_norm': 'nan', 'reward': 'nan', 'reward_std': 'nan', 'epoch': '0.{i}'}}\n"
        for i in range(1, 9)
    )
    assert incident(lines + "{'train_runtime': '7.469', 'train_loss': 'nan', 'epoch': '0.9'}\n").kind == "unhealthy"


@pytest.mark.parametrize(
    "text",
    [
        "# Trainer\n\nInstall it with `pip install trainer`.\nThen run `trainer --help`.\n",
        "# Doctor\n\n- [Start](start.md)\n- [Codes](codes.md)\n\n## A report\n\n    cut off at step 12 of 500\n"
        "\n## What it reads\n\n- logs\n- `step:12 - actor/loss:0.1` of a run\n",
        "accelerate 1.7.0\ndatasets 3.6.0\nnumpy 2.1.3\nray 2.46.0\nvllm 0.8.5\n",
        "import torch\n\n\ndef main() -> None:\n    print(torch.ones(2))\n\n\nmain()\n",
        "data:\n  train_batch_size: 512\ntrainer:\n  total_epochs: 15\n",
        "Everything done\nFinished\nexit code 0\n",
        "### Describe the bug\nTraining hangs at step 12.\n\n### Versions\nvllm 0.8.5\n",
    ],
    ids=["README", "README that quotes a run", "pip list", "source", "configuration", "a script's word", "an issue"],
)
def test_what_no_program_wrote_while_it_ran_is_no_log(text: str) -> None:
    found = incident(text)
    assert (found.kind, found.suspects) == ("unknown", ())


@pytest.mark.parametrize(
    "line",
    [
        "bash: line 1: frobnicate: command not found",
        "ERROR 11-20 21:24:36 [frobnicator.py:17] the frobnicator is out of jiffies",
        "make: *** [Makefile:3: all] Error 2",
        "panic: runtime error: index out of range",
    ],
)
def test_words_of_failure_that_nothing_explains_are_shown(line: str) -> None:
    found = incident(BEGUN + line + "\n")
    assert found.kind == "unknown"
    assert [evidence.line for evidence in found.suspects] == [len(BEGUN.splitlines()) + 1]
    assert incident(BEGUN + line + "\n" + BEGUN).kind == "unfinished"


# Lines that are findings without an exception beside them.
ALONE = {
    "RLD604": "(raylet) node_manager.cc:3193: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 "
    "Workers crashed due to other reasons at node (ID: bff8, IP: 10.0.0.1) over the last time period.",
    "RLD302": "gpu-1:4711:4802 [1] init.cc:801 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA "
    "device 50000",
    "RLD216": "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1422: indexSelectSmallIndex: block: [18,0,0], thread: "
    "[32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
    "RLD206": "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
    "RLD901": "EngineCore encountered a fatal error.",
}


@pytest.mark.parametrize("code", ALONE)
def test_a_line_that_is_specific_enough_is_a_finding(code: str) -> None:
    line = ALONE[code] + "\n"
    assert codes(BEGUN + line)[0] == code
    assert incident(BEGUN + line).kind == "crashed"
    # Whoever appends "done", or the same log once more, says nothing about the run.
    assert codes(BEGUN + line + "+ echo DONE\nDONE\n")[0] == code
    assert codes((BEGUN + line) * 2)[0] == code


@pytest.mark.parametrize("code", ALONE)
def test_it_is_none_where_the_run_goes_on_or_only_speaks_of_it(code: str) -> None:
    line = ALONE[code]
    assert codes(BEGUN + line + "\n" + HEALTHY) == []
    for shown in (
        f"If you see {line}, use less of it.",
        f"INFO 11-20 21:24:36 [advice.py:3] {line}",
        f"{{'step': 3, 'completion': '{line}'}}",
        f"+ grep -c '{line}' run.log",
    ):
        assert codes(BEGUN + shown + "\n") == [], shown


@pytest.mark.parametrize(
    "epilogue",
    [
        "Job finished at Fri Nov 20 18:04:11 UTC 2026\nJobID 884213 exit code 1:0\n",
        "$ pip list\nPackage Version\n------- -------\nray 2.46.0\nvllm 0.9.1\nwandb 0.19.1\nnumpy 2.0.0\n",
        "training script ended, uploading logs\nupload: done\nTraining finished\nDONE\nOK\n",
        "mkdir: created directory 'out'\nsending incremental file list\nrun.log\nsent 812 bytes\n",
    ],
)
def test_what_scripts_append_is_no_life(epilogue: str) -> None:
    found = incident(BEGUN + REWARD_RAISES + epilogue)
    assert (found.kind, found.exception) == ("crashed", "KeyError: 'answer'")


def test_a_document_that_speaks_of_a_failure_is_no_log() -> None:
    points = "".join(f"- point {i}: see [the guide](guide.md)\n" for i in range(8))
    text = f"# Reading logs\n\n{points}\nIt finds\n\n    {ALONE['RLD206']}\n"
    assert (incident(text).kind, codes(text)) == ("unknown", [])


BLOCK = f"```text\n{REWARD_RAISES}```\n"
SET_IN = "".join(f"    {line}\n" for line in REWARD_RAISES.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        f"# Acme\n\n## Installation\n\n```\npip install acme\n```\n\n## Usage\n\nIt may say\n\n{BLOCK}\n",
        f"# Acme\n\n## Features\n\n- fast\n\n## Reproduction\n\n{BLOCK}\n## License\n\nMIT\n",
        f"# Troubleshooting\n\n## A reward lacks a column\n\n{BLOCK}\nname it.\n",
        f"# 常见问题\n\n{BLOCK}\n",
        f"Install\n=======\n\nFAQ\n===\n\nIt stops with::\n\n{SET_IN}\nName the column.\n",
    ],
    ids=["README", "README with a reproduction", "troubleshooting", "Chinese", "reStructuredText"],
)
def test_a_failure_in_a_guide_is_an_example(text: str) -> None:
    assert (incident(text).kind, codes(text)) == ("unknown", [])


@pytest.mark.parametrize(
    "text",
    [
        f"### Describe the bug\n\n{BLOCK}\n### Before submitting\n\n- [x] I read the FAQ\n",
        f"# Installation fails\n\nI followed the README.\n\n{BLOCK}\nAny idea?\n",
        f"### Is there an existing answer for this in FAQ?\n\n- [x] no\n\n### Current Behavior\n\n{BLOCK}",
        f"## Setup\n\n8xH100\n\n## Requirements\n\nvllm 0.9\n\n## Error log\n\n{BLOCK}",
        f"## 问题描述\n\n{BLOCK}\n## 安装环境\n\nvllm 0.9\n",
        f"==== Installation ====\nok\n==== Usage ====\n{REWARD_RAISES}",
    ],
    ids=["bug", "installation fails", "FAQ was read", "environment", "Chinese", "a script's own titles"],
)
def test_a_failure_in_a_report_happened(text: str) -> None:
    assert (incident(text).kind, incident(text).exception) == ("crashed", "KeyError: 'answer'")


def test_a_history_of_changes_is_no_log() -> None:
    changes = ("Fix CUDA out of memory in rollout", "EngineCore encountered a fatal error. is caught")
    told = "".join(
        f"commit {i}2ab34cd\nAuthor: A <a@example.org>\nDate:   Mon Jun 2 2025\n\n    {change}\n\n"
        for i, change in enumerate(changes)
    )
    assert codes(told) == []


OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
HUNK = f"""diff --git a/rollout.py b/rollout.py
--- a/rollout.py
+++ b/rollout.py
@@ -1,3 +1,3 @@
 import torch
-raise ValueError("no memory")
+{OUT_OF_MEMORY}
 RuntimeError: NCCL error in the text above
"""


@pytest.mark.parametrize(
    "text",
    [
        f"# Changelog\n\n## 0.9.2\n\n- Fix {OUT_OF_MEMORY}\n- Faster start\n",
        f"## What's Changed\n* {OUT_OF_MEMORY} is caught by @a\n* Docs by @b\n\n**Full Changelog**: v1...v2\n",
        f"History\n=======\n\n1.2.0 (2026-01-02)\n------------------\n\n- {OUT_OF_MEMORY} is\n  raised no more\n",
        f"a1b2c3d (HEAD -> main) {OUT_OF_MEMORY}\n9f8e7d6 RuntimeError: is named\n0f8e7d2 Bump vllm\n",
        f"commit a1b2c3d4\nAuthor: A <a@b.c>\nDate:   Mon Jun 2 2025\n\n    {OUT_OF_MEMORY}\n",
        HUNK,
    ],
    ids=["changelog", "release notes", "reStructuredText", "one commit a line", "commits", "diff"],
)
def test_a_failure_that_a_change_mends_is_none(text: str) -> None:
    assert (incident(text).kind, codes(text)) == ("unknown", [])


@pytest.mark.parametrize(
    "before",
    [
        HUNK,
        "commit a1b2c3d4\nAuthor: A <a@b.c>\nDate:   Mon Jun 2 2025\n\n    Fix it\n\n",
        "a1b2c3d Fix it\n9f8e7d6 Try it\n0f8e7d2 Begin\n",
        "0.11.0\n- model: Qwen\n- GPUs: 8\n",
    ],
    ids=["diff", "commit", "one commit a line", "release and settings"],
)
def test_what_a_run_shows_of_its_history_hides_no_failure(before: str) -> None:
    assert incident(before + REWARD_RAISES).exception == "KeyError: 'answer'"


@pytest.mark.parametrize(
    "entry",
    [
        "- Fix `RuntimeError: CUDA error: device-side assert triggered` when the tokenizer was resized (#4121)\n",
        "* vLLM: torch.OutOfMemoryError: CUDA out of memory is now raised before the engine starts\n",
        "- Handles ray.exceptions.ActorDiedError: it died in the rollout worker\n",
    ],
)
def test_a_lone_entry_of_a_changelog_is_no_failed_run(entry: str) -> None:
    assert incident(entry).kind == "unknown" and codes(entry) == []
    assert codes("- Using vLLM 0.8.5 I get RuntimeError: CUDA error: device-side assert triggered\n") == ["RLD305"]
    assert codes("- torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n") == ["RLD206"]


def test_a_server_that_answered_and_was_ended_has_finished() -> None:
    answered = 'INFO:     127.0.0.1:51122 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    ended = (
        "INFO:     Shutting down\nINFO:     Application shutdown complete.\nINFO:     Finished server process [41]\n"
    )
    assert incident(answered + ended).kind == "finished"
    assert incident(answered).kind == "unfinished"
    assert incident("step:2 - actor/pg_loss:0.1\n" + answered + ended).kind == "unfinished"
    failure = "ERROR 11-20 21:24:36 [core.py:700] EngineCore encountered a fatal error.\n"
    assert incident(answered + failure + ended).kind == "crashed"


def test_what_a_model_says_in_words_is_no_failure() -> None:
    told = "Prompt: why does it stop?\nAnswer: Because CUDA out of memory is raised when it is full.\n"
    assert codes(told * 3) == []
    assert codes("Response: Well, (2) torch.OutOfMemoryError: CUDA out of memory\n" * 3) == []
    assert codes("[rank0]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n") == ["RLD206"]


def test_a_source_file_that_raises_a_failure_is_no_log() -> None:
    text = f"""import torch
from vllm import LLM

class Worker:
    def run(self):
        try:
            self.llm.generate()
        except RuntimeError as error:
            raise ValueError("{ALONE["RLD206"]}") from error
"""
    assert (incident(text).kind, codes(text)) == ("unknown", [])


def test_lines_of_code_beside_a_programs_own_do_not_hide_a_failure() -> None:
    answer = "import math\ndef area(r):\n    try:\n        return math.pi * r * r\n    except ValueError:\n"
    assert codes(BEGUN + answer + ALONE["RLD206"] + "\n")[0] == "RLD206"


def test_a_scripts_word_is_believed_behind_steps() -> None:
    assert incident(BEGUN + "DONE\n").kind == "finished"


def test_the_next_steps_of_the_process_are() -> None:
    assert incident(BEGUN + REWARD_RAISES + BEGUN).kind == "unfinished"


def test_hydras_hint_behind_an_exception_is_no_end_of_its_own() -> None:
    hint = "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"
    behind = "Error executing job with overrides: ['trainer.n_gpus_per_node=8']\n" + REWARD_RAISES + hint
    assert incident(BEGUN + behind).exception == "KeyError: 'answer'"
    head_cut = "\tip: 10.0.0.1\nThe actor is dead because its owner has died. Owner's node has crashed.\n" + hint
    assert (incident(head_cut).exception or "").startswith("Actor died: The actor is dead because its owner")
    alone = incident("Could not override 'trainer.foo'.\nKey 'foo' is not in struct\n" + hint)
    assert alone.exception is not None and alone.exception.startswith("Hydra's hint")


@pytest.mark.parametrize(
    "between", ["{'loss': 0.01, 'epoch': 0.1}", "step:7 - actor/entropy:0.3", "INFO 11-20 21:24:33 [core.py:1] busy"]
)
def test_lines_of_others_neither_continue_nor_end_an_exception(between: str) -> None:
    lines = REWARD_RAISES.splitlines()
    mixed = [part for line in lines for part in (between, line)] + [between]
    found = incident("\n".join(mixed) + "\n")
    assert (found.exception, len(found.frames)) == ("KeyError: 'answer'", 3)


RESTARTED = (
    "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    "[default] Rendezvous complete for workers. Result:\n  restart_count=1\n  master_addr=node07\n"
)


AT = "CANCELLED AT 2026-11-21T03:00:17 DUE TO"
ENDED_AT = {
    "time": (f"slurmstepd: error: *** JOB 88 ON nid000243 {AT} TIME LIMIT ***", "nid000243", None),
    "credential": ("srun: error: Task launch for StepId=88.0 failed on node gpu-2: Invalid credential", "gpu-2", None),
    "Flux's node": ("1.1s: job.exception type=node-failure severity=0 node failure on e87 (shell rank 2)", "e87", None),
    "Flux's broker": (
        "8.1s: job.exception type=exec severity=0 lost contact with job shell on broker t4 (rank 2)",
        "t4",
        None,
    ),
    "slurmctld": ("[2026-05-11T03:12:45.130] Killing JobId=99121 on failed node n8", "n8", None),
    "YARN": (
        "Container c_1 on host: n9. Exit status: -100. Diagnostics: Container released on a *lost* node",
        "n9",
        None,
    ),
    "drained": ("node/gpu-12 drained", "gpu-12", None),
    "a pod's status": ('"restartCount": 2,\nnode/gpu-12 drained', "gpu-12", 2),
    "node before its step": (
        f"SLURM_RESTART_COUNT=2\nslurmstepd: error: *** STEP 8.0 ON n1 {AT} JOB REQUEUE ***\n"
        "srun: error: Node failure on n2",
        "n2",
        2,
    ),
    "described pod": (
        "Node:             pool-3/10.0.0.3\n    Restart Count:  4\n      Reason:       OOMKilled",
        "pool-3",
        4,
    ),
    "second attempt": (
        f"{RESTARTED}srun: error: n9: task 3: Out Of Memory\nslurmstepd: error: Detected 1 oom_kill event in Step",
        "n9",
        1,
    ),
    "Ray 1's node": (
        "The node with node id: 7f and ip: 172.31.8.135 has been marked dead because the detector has missed it",
        "172.31.8.135",
        None,
    ),
    "Ray's memory": (
        "Task was killed due to the node running low on memory.\n\nMemory on the node (IP: 10.0.0.7, ID: 20) where it "
        "was running was 29.4GB / 30.0GB",
        "10.0.0.7",
        None,
    ),
    "PBS's letter": ("Exec host:  gpu-1-12/2\nJob exceeded its walltime limit. Job was aborted", "gpu-1-12", None),
    "an event with its source": (
        "2m  Warning  Evicted  pod/w-0  kubelet, vmss00c  Pod ephemeral local storage usage exceeds the total limit of",
        "vmss00c",
        None,
    ),
    "submitit": ("submitit WARNING (x) - Caught signal SIGUSR2 on n7: this job is timed-out.", "n7", None),
    "a kernel's record": (
        "Oct 05 11:40:55 wn-17 kernel: Memory cgroup out of memory: Killed process 99 (ray::WorkerDict) total-vm:4kB",
        "wn-17",
        None,
    ),
    "older kubectl": ("Warning  Evicted  18m  kubelet, mgt04  The node was low on resource: memory", "mgt04", None),
    "evicted in a list": ("w-0  rl  Evicted  oct-03  The node was low on resource: memory.", "oct-03", None),
    "Ray's node": (
        "(raylet) The node with node id: 9f and address: 10.0.0.5 and node name: r5n3 has been marked dead because the "
        "detector has missed too many heartbeats from it.",
        "r5n3",
        None,
    ),
    "Slurm before 2014": ("slurmstepd: *** JOB 14 CANCELLED AT 2014-02-04T06:33:25 *** on sh-2-3", "sh-2-3", None),
    "a task before its step": (
        "srun: error: g42: task 5: Killed\nslurmstepd: error: *** STEP 5.0 ON g41 CANCELLED AT 2026-11-20T12:12:12 ***",
        "g42",
        None,
    ),
    "a step before its tasks": (
        "slurmstepd: error: *** STEP 5.0 ON g41 CANCELLED AT 2026-11-20T12:12:12 ***\nsrun: error: g42: task 5: Killed",
        "g41",
        None,
    ),
    "Grid Engine's account": (
        'hostname     g2.cl\n11/19/2026 11:20:11|execd|g2|W|job 3329 exceeds job hard limit "h_vmem" of queue\n',
        "g2.cl",
        None,
    ),
    "a node that is down": ("Job requeued, execution node n31 down\n", "n31", None),
    "what scontrol shows": (
        "   JobState=NODE_FAIL Reason=NodeDown\n   Requeue=1 Restarts=2 BatchFlag=1\n   BatchHost=n31\n",
        "n31",
        2,
    ),
    "torchrun's last attempt": (
        "[default] Worker group FAILED. 3/3 attempts left; will restart worker group\n"
        "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n    host      : n31\n"
        "failed (exitcode: -9) local_rank: 0 (pid: 900) of binary: /opt/venv/bin/python",
        "n31",
        2,
    ),
    "mpirun": (
        "mpirun noticed that process rank 3 with PID 22103 on node gpu07 exited on signal 9 (Killed).",
        "gpu07",
        None,
    ),
    "mpiexec": ("=   RANK 5 PID 4411 RUNNING AT gpu-11\n=   KILLED BY SIGNAL: 9 (Killed)", "gpu-11", None),
    "mpirun's daemon": (
        "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[51,0],0] on node hpc-01\n"
        "  Remote daemon: [[51,0],1] on node hpc-02",
        "hpc-02",
        None,
    ),
    "HTCondor": (
        "\tError from slot1_3@gpu3.cl: Job has gone over cgroup memory limit of 65536 megabytes. Last measured",
        "gpu3.cl",
        None,
    ),
    "Vertex AI": (
        "The replica workerpool1-0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
        "workerpool1-0",
        None,
    ),
    # No row knows these: the line that tells of the end names its node.
    "a cloud's machine": (
        '{"detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"i-0f3aa12b"}}',
        "i-0f3aa12b",
        None,
    ),
    "Ray's status": ("Recent failures:\n gpu_worker: NodeTerminated (ip: 10.0.3.7)", "10.0.3.7", None),
    "Grid Engine's daemon": (
        'qm|E|got max. unheard timeout for target "execd" on host "n8.cl", can\'t send',
        "n8.cl",
        None,
    ),
    "pdsh": ("pdsh@head: worker-3: ssh exited with exit code 255", "worker-3", None),
    "an event": ("4m  Normal  NodeNotReady  node/gpu-w3  Node gpu-w3 status is now: NodeNotReady", "gpu-w3", None),
    "Argo's step": ('level=info msg="node grpo-16 message: pod deleted" workflow=grpo', None, None),
    "an instance": ("Instance gke-h100-7 terminated during preemption.", "gke-h100-7", None),
    "an evicted pod": ("Evict pod grpo-0 on node pool-a-77 because of reclaim", "pool-a-77", None),
    "a list of pods": ("grpo-3  0/1  OOMKilled  2 (31s ago)  41m  10.244.3.9  gpu-w3", "gpu-w3", 2),
    "Grid Engine's queue": ('W|job 7.1 exceeds job hard limit "h_rt" of queue "gpu.q@gpu7" (1 > 0)', "gpu7", None),
    "a count": ("Job 91221 terminated with state NODE_FAIL on node gpu07 (restart count 2)", "gpu07", 2),
    "ssh": ("ssh: connect to host n5 port 22: x\nORTE was unable to reliably start one or more daemons.", "n5", None),
    "a job's third run": ("    run_count = 3\n    Exit_status = 271\n    exec_host = n5/0\n", "n5", 2),
    "an attempt that counts from one": (
        'AWS_BATCH_JOB_ATTEMPT=1\n"statusReason": "Host EC2 (instance i-0ab12cd34ef567890) terminated."\n',
        "i-0ab12cd34ef567890",
        0,
    ),
    "an attempt": ("failure of trial after restart 5/5: container failed with exit code 137", None, 5),
    "a runner's pod": (
        'ERROR: Job failed (system failure): pod "gitlab-runner/runner-x7" is disrupted: reason "EvictionByEviction"',
        None,
        None,
    ),
    "a pod of a namespace": ("Evicted pod rl-node/grpo-worker-3: preempted by a pod of higher priority", None, None),
    "a runner": (
        "The self-hosted runner: i-0a9f8e7d6c5b4a321 lost communication with the server.",
        "i-0a9f8e7d6c5b4a321",
        None,
    ),
    "a machine in its zone": (
        "compute.instances.hostError us-central1-a/instances/a3-7 DONE Instance terminated by Compute Engine.",
        "a3-7",
        None,
    ),
    "a runner at its limit": (
        "The job running on runner gpu-h100-3 has exceeded the maximum execution time of 360 minutes.",
        "gpu-h100-3",
        None,
    ),
    "an attempt among several": ("Job 7712 was preempted on attempt 2 of 3", None, 1),
    "a kind of GPU": ("Job 12 was cancelled on A100-SXM4-80GB", None, None),
    "a rank": ("process 7 exited with code 137 on rank-0", None, None),
    "MPICH": ("=   PID 4774 RUNNING AT ws-1\n=   EXIT CODE: 139\n=   CLEANING UP", "ws-1", None),
    "PRRTE": (
        "prterun noticed that process rank 5 with PID 44 on node nid3 exited on\nsignal 9 (Killed).",
        "nid3",
        None,
    ),
    # Records of a job hold both in fields and in columns, and lines beside the end tell of it.
    "Nomad": (
        "Node Name              = nomad-7\nTotal Restarts = 2\nRecent Events:\n"
        '2026-11-18T10:22:11Z  Terminated  Exit Code: 137, Exit Message: "OOM Killed"',
        "nomad-7",
        2,
    ),
    "a job's account": (
        "JobID           JobName      State ExitCode        NodeList\n"
        "------------ ---------- ---------- -------- ---------------\n"
        "55102          grpo_qwe OUT_OF_ME+    0:125        gpu-b-04\n"
        "55102.batch       batch OUT_OF_ME+    0:125        gpu-b-04",
        "gpu-b-04",
        None,
    ),
    "an account with bars": (
        "JobID|State|ExitCode|NodeList\n55102|NODE_FAIL|0:0|gpu-b-04",
        "gpu-b-04",
        None,
    ),
    "recoveries": (
        "I 10-06 14:22:49 controller.py:545] Cluster is preempted or failed (status: STOPPED). Recovering...\n"
        "ID  TASK  NAME  #RECOVERIES  STATUS\n12  -     grpo  1            RECOVERING",
        None,
        1,
    ),
    "nodes that are counted": (
        "JobID    NAME   NODES  STATE\n=>> PBS: job killed: walltime 3630 exceeded limit 3600",
        None,
        None,
    ),
    "a trial": (
        "[12.4] || ERROR: task container failed with non-zero exit code: 137 (agent: gpu-agent-4)\n"
        "<error>  || Trial 12 was terminated: allocation failed: container failed with non-zero exit code: 137 (exit "
        "code 137)\n|| Trial failed (restart 3/5)",
        "gpu-agent-4",
        3,
    ),
    "slurmctld, of a job that a signal ended": (
        "[2026-05-27T10:42:30] sched: Allocate JobId=127 NodeList=c014 #CPUs=2 Partition=gpu\n"
        "[2026-05-27T11:37:57] _job_complete: JobId=127 WTERMSIG 9",
        "c014",
        None,
    ),
    "where a task began": (
        "{runner.py:234} INFO - Running <TaskInstance: rl.grpo [running]> on host worker-6575d6f488-bwr8k\n"
        "=>> PBS: job killed: walltime 21613 exceeded limit 21600",
        "worker-6575d6f488-bwr8k",
        None,
    ),
    "PALS": (
        "=>> PBS: job killed: walltime 21613 exceeded limit 21600\nx3005c0.cl: rank 3 died from signal 15",
        "x3005c0.cl",
        None,
    ),
    "who only tells of another": (
        "The node 'gn30_300_0' has observed that the node(s) 'gn31_881_0' have been removed from the rendezvous '77' "
        "since they had no heartbeat.",
        "gn31",
        None,
    ),
    "LSF": (
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\nJob was executed on host(s) <64*h12>, in queue",
        "h12",
        None,
    ),
}


@pytest.mark.parametrize(("end", "node", "attempt"), ENDED_AT.values(), ids=list(ENDED_AT))
def test_an_ending_names_its_node_and_the_attempt(end: str, node: str | None, attempt: int | None) -> None:
    found = incident(BEGUN + end + "\n")
    assert (found.kind, found.node, found.attempt) == ("crashed", node, attempt)


@pytest.mark.parametrize(
    "said",
    [
        "Running on cuda0",
        "Running on 8",
        "attempt 2 of 3 failed",
        "host: redis-1.local\nretries: 5",
        "Name  Status  Host  Retries\ncache  up  redis-1  3",
    ],
)
def test_what_a_run_says_of_itself_is_neither_a_node_nor_an_attempt(said: str) -> None:
    for text in (f"{BEGUN}{said}\n{REWARD_RAISES}", f"{BEGUN}{REWARD_RAISES}\n{said}\n"):
        found = incident(text)
        assert (found.kind, found.node, found.attempt) == ("crashed", None, None)


DEAD = (
    "The node with node id: 6e7f and address: {0} and node name: {0} has been marked dead because the detector has "
    "missed too many heartbeats from it. "
)
LATE = (
    "[rank{rank}]:[E1103 02:11:42.112233 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=482, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out.\n"
)


def test_a_machine_that_is_gone_comes_before_those_that_waited_for_it() -> None:
    waited = "".join(f"(WorkerDict pid=3{rank}, ip=10.0.3.4) {LATE.format(rank=rank)}" for rank in range(2))
    text = f"{BEGUN}{waited}(raylet) {DEAD.format('10.0.3.7')}\n"
    assert codes(text) == ["RLD603", "RLD321"]
    assert incident(text).node == "10.0.3.7"
    # Whoever reports is alive, and so is its node.
    assert codes(f"{BEGUN}{waited}(raylet) {DEAD.format('10.0.3.4')}\n")[0] == "RLD321"


def test_an_event_that_rays_head_writes_into_a_file_of_its_own() -> None:
    event = (
        '{"custom_fields":{"ip":"10.0.7.12"},"event_id":"aa0f","host_name":"head-0","label":"RAY_NODE_REMOVED",'
        f'"message":"{DEAD.format("10.0.7.12")}\\t(1) raylet crashes unexpectedly (OOM, etc.) \\n","pid":"57",'
        '"severity":"ERROR","source_type":"GCS","timestamp":1762135902}\n'
    )
    assert codes(BEGUN + event) == ["RLD603"]
    assert incident(BEGUN + event).node == "10.0.7.12"
    assert codes(BEGUN + event.replace("GCS", "OTHER")) == []


def test_the_node_of_the_failure_that_was_the_first() -> None:
    crashed = "(WorkerDict pid=4410, ip=10.2.0.5) *** SIGSEGV received at time=1762135902 on cpu 44 ***\n"
    gone = f"(raylet) {DEAD.format('10.2.0.9')}\n"
    assert incident(BEGUN + crashed + gone).node == "10.2.0.5"
    raised = (
        "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, "
        "ray::WorkerDict.__init__() (pid=5521, ip=10.9.0.3, actor_id=9c72, repr=<WorkerDict object at 0x7ef7>)\n"
        '  File "/opt/train.py", line 131, in __init__\n    torch.cuda.set_device(local_rank)\n'
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    )
    assert incident(f"Traceback (most recent call last):\n{raised}").node == "10.9.0.3"


def test_a_node_that_died_behind_the_trainers_last_words_ended_nothing() -> None:
    end = "{'train_runtime': '7.469', 'train_loss': '-0.08558', 'epoch': '0.5'}\nray stop --force\n"
    assert codes(f"{BEGUN}{end}{DEAD.format('10.0.3.9')}\n") == []


def test_megatrons_last_words() -> None:
    step = " [2026-11-03 02:10:14] iteration {at:8d}/    5000 | consumed samples: 9 | lm loss: 2.0E-01 |\n"
    steps = "".join(step.format(at=at) for at in range(4990, 5001))
    saved = "saving checkpoint at iteration    5000 to /ckpt in torch_dist format\n"
    ended = "slurmstepd: error: *** JOB 7712 ON r12n4 CANCELLED AT 2026-11-04T00:00:12 DUE TO TIME LIMIT ***\n"
    text = f"{steps}[after training is done] datetime: 2026-11-03 08:11:22\n{saved}{ended}"
    assert (incident(text).kind, codes(text)) == ("finished", [])
    assert codes(steps.replace("5000 |", "4999 |") + ended) == ["RLD603"]
    assert incident(steps.split(" [2026-11-03 02:10:14] iteration     5000")[0]).step == "4999 of 5000"


def test_several_nodes_that_failed_are_one_list() -> None:
    assert incident(f"{BEGUN}srun: error: Node failure on nid[005133,005140]\n").node == "nid[005133,005140]"


def test_a_rank_that_ended_all_others() -> None:
    said = "MPI_ABORT was invoked on rank 11 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"
    assert (incident(BEGUN + said).kind, incident(BEGUN + said).first_rank) == ("crashed", "11")


def test_a_registry_is_no_node() -> None:
    pull = (
        '  Warning  Failed  12s  kubelet  Failed to pull image "nvcr.io/acme/rl:1.2": pulling from host nvcr.io failed '
        "with status code [manifests 1.2]: 401 Unauthorized\n"
    )
    assert incident(pull).node is None


def test_a_run_that_nobody_ended_has_no_node() -> None:
    assert (incident(HEALTHY).node, incident(HEALTHY).attempt) == (None, None)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (
            "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
            "RLD603",
            "LSF ended the job at its time limit",
        ),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "RLD604", "memory limit"),
        ("=>> PBS: job killed: walltime 3630 exceeded limit 3600", "RLD603", "time limit of 3600 s"),
        ("=>> PBS: job killed: mem 2097152kb exceeded limit 1048576kb", "RLD604", "memory limit"),
        ("controller.py:287] Cluster is preempted or failed (status: STOPPED). Recovering...", "RLD603", "SkyPilot"),
    ],
)
def test_what_lsf_pbs_and_skypilot_say(line: str, code: str, words: str) -> None:
    (found,) = triage_text(BEGUN + line + "\n").findings
    assert found.code == code and words in found.message


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ('2026-03-02T10:00:06Z  Terminated      Exit Code: 137, Exit Message: "OOM Killed"', "RLD604"),  # Nomad
        ("Last Error: USER::task execution timeout [24h0m0s] expired", "RLD603"),  # Flyte
        ("resources failed with non-zero exit code: container failed with non-zero exit code: 137", "RLD901"),
        (
            "[2026-03-02T10:00:06.417Z] [3fa2b1c0] || INFO: resources failed with non-zero exit code: container "
            "failed with non-zero exit code: 137 (exit code 137)",
            "RLD901",  # Determined
        ),
        (
            r"[2026-03-02 10:00:06,014 C 2749 2749] (raylet.exe) C:\ray\raylet\main.cc:113: Check failed: _s.ok()",
            "RLD900",
        ),
        ("[2026-03-02 10:00:06,014 E 2749 2749] (raylet.exe) logging.cc:113: Unhandled exception: class x", "RLD900"),
    ],
)
def test_what_others_say_of_an_end(end: str, code: str) -> None:
    found = triage_text(BEGUN + end + "\n")
    assert found.incident is not None and found.incident.kind == "crashed"
    assert found.findings[0].code == code


CUT = """\
(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker PID: 72
Traceback (most recent call last):
  File "/usr/lib/python3.11/runpy.py", line 198, in _run_module_as_main
    return _run_code(code, main_globals, None,
"""
BLOCK = """\
launcher.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-02-21_20:07:38
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 14661)
  error_file: <N/A>
"""
AGAIN = """\
(Tool pid=7) ERROR:2026-03-26 22:20:03,5{n}:Traceback (most recent call last):
(Tool pid=7)   File "/home/me/state.py", line 270, in act
(Tool pid=7)     action, x = extract(text)
(Tool pid=7) TypeError: cannot unpack non-iterable NoneType object
"""


def test_what_is_cut_off_in_a_launcher_is_no_failure_of_its_own() -> None:
    assert [f.code for f in triage_text(CUT).findings][:1] == ["RLD603"]


def test_torchruns_block_alone_names_the_rank() -> None:
    found = triage_text(BLOCK)
    assert [f.code for f in found.findings] == ["RLD901"]
    assert found.incident is not None and found.incident.first_rank == "3"


def test_what_a_process_reports_again_and_again_did_not_end_it() -> None:
    assert not triage_text("".join(AGAIN.format(n=n) for n in range(10, 30))).findings
    assert triage_text(AGAIN.format(n=1)).findings


@pytest.mark.parametrize(
    "text",
    [
        "[BUG] ZERO++ | AssertionError: ZeRO parameter intra parallel group is already initialized\n",
        "`AssertionError: DeepSpeed backend not set, please initialize it`\n",
        "Since the update we get: RuntimeError: no such rollout (every time)\n\nAny idea?\n",
    ],
)
def test_an_exception_that_a_person_names_is_searched_for(text: str) -> None:
    assert [f.code for f in triage_text(text).findings] == ["RLD900"]


def test_an_exception_within_a_programs_record_is_not() -> None:
    assert not triage_text(
        "INFO 11-20 21:24:33 [tool.py:7] gave up: ValueError: no answer in it, tried again\n"
    ).findings


SERVING = "".join(
    f'(APIServer pid=7) INFO:     127.0.0.1:4120{n} - "POST /v1/completions HTTP/1.1" 200 OK\n' for n in range(5)
)
GONE = (
    "(APIServer pid=7) ERROR 08-21 10:24:34 [async_llm.py:704] Traceback (most recent call last):\n"
    '(APIServer pid=7) ERROR 08-21 10:24:34 [async_llm.py:704]   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/'
    'engine/core_client.py", line 670, in get_output\n'
    "(APIServer pid=7) ERROR 08-21 10:24:34 [async_llm.py:704]     raise self._format_exception(outputs) from None\n"
    "(APIServer pid=7) ERROR 08-21 10:24:34 [async_llm.py:704] vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
    "encountered an issue. See stack trace (above) for the root cause.\n"
)


@pytest.mark.parametrize(
    "asked",
    [
        "(APIServer pid=7) INFO 08-21 10:24:34 [launcher.py:100] [shutdown] API server: shutdown triggered\n",
        "(APIServer pid=7) INFO 08-21 10:24:34 [launcher.py:122] Shutting down FastAPI HTTP server.\n",
    ],
)
def test_a_server_that_was_asked_to_end_ends_its_engine(asked: str) -> None:
    assert codes(SERVING + asked + GONE) == []
    assert codes(SERVING + GONE + asked) == ["RLD901"]
    own = (
        GONE.rpartition("vllm.v1.engine")[0]
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    )
    assert codes(SERVING + asked + own) == ["RLD206"]


TRACKER = (
    "/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning: resource_tracker: There appear to be 1 "
    "leaked semaphore objects to clean up at shutdown\n  warnings.warn('resource_tracker: There appear to be %d '\n"
)


def test_only_the_resource_tracker_speaks_after_a_process_that_was_killed() -> None:
    killed = incident(BEGUN + "Loading shards:  96%|#####  | 47/49 [09:32<00:14,  7.50s/it]" + TRACKER)
    assert killed.kind == "unknown" and "leaked semaphore" in killed.suspects[0].text
    assert incident(HEALTHY + TRACKER).kind == "finished"
    asked = "(APIServer pid=7) INFO 08-21 10:24:34 [launcher.py:100] [shutdown] API server: shutdown triggered\n"
    assert incident(SERVING + asked + TRACKER).kind == "unfinished"


def test_a_thread_that_a_finished_process_left_running_is_no_failure() -> None:
    wordless = "terminate called without an active exception\n"
    assert (incident(HEALTHY + wordless).kind, codes(HEALTHY + wordless)) == ("finished", [])
    assert codes(BEGUN + wordless) == ["RLD901"]


def test_an_engine_that_its_owner_ended_has_finished_whatever_its_worker_left_behind() -> None:
    started = (
        "(EngineCore pid=9) INFO 11-20 20:29:57 [core.py:402] init engine (profile, create kv cache) took 1.75 s\n"
    )
    answered = started + "Processed prompts: 100%|██████████| 1/1 [00:00<00:00,  4.02it/s]\n"
    ended = (
        "(MainProcess pid=23705) INFO 11-20 20:29:59 [utils.py:628] [shutdown] Process manager: send sigterm to "
        "process EngineCore\n"
        "(MainProcess pid=23705) WARNING 11-20 20:30:04 [system_utils.py:225] [shutdown] force killing sub process W\n"
    )
    assert incident(answered + ended + TRACKER).kind == "finished"
    assert incident(answered + TRACKER).kind == "unknown"
    assert incident("step:2 - actor/pg_loss:0.1\n" + answered + ended + TRACKER).kind == "unfinished"


@pytest.mark.parametrize(
    "end",
    [
        "Killed",
        "ValueError: no such row",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",
    ],
)
def test_what_ends_a_run_may_stand_behind_a_bar(end: str) -> None:
    assert codes(BEGUN + f"  1%|1         | 24/1752 [01:08<1:22:56,  2.88s/it]{end}\n")


def test_one_of_many_actors_of_a_class_outlives_what_the_others_outlive() -> None:
    other = AGAIN.format(n=1).replace("pid=", "pid=9")
    assert not triage_text("".join(AGAIN.format(n=n) for n in range(10, 30)) + other).findings


ASLEEP = """\
(EngineCore pid=8) ERROR 06-02 14:31:01 [core.py:1365] Invocation of wake_up method failed
(EngineCore pid=8) ERROR 06-02 14:31:01 [core.py:1365] Traceback (most recent call last):
(EngineCore pid=8) ERROR 06-02 14:31:01 [core.py:1365]   File "/opt/venv/lib/python3.13/site-packages/vllm/v1/executor/\
abstract.py", line 347, in wake_up
(EngineCore pid=8) ERROR 06-02 14:31:01 [core.py:1365]     self.collective_rpc("wake_up", kwargs=dict(tags=tags))
(EngineCore pid=8) ERROR 06-02 14:31:01 [core.py:1365] RuntimeError: CUDA Error: out of memory at cumem_allocator.cpp:62
(APIServer pid=7) INFO:     127.0.0.1:40000 - "POST /wake_up HTTP/1.1" 500 Internal Server Error
(APIServer pid=7) ERROR:    Exception in ASGI application
(APIServer pid=7) Traceback (most recent call last):
(APIServer pid=7)   File "/opt/venv/lib/python3.13/site-packages/vllm/v1/engine/core_client.py", line 1001, in _call
(APIServer pid=7)     return await future
(APIServer pid=7) Exception: Call to wake_up method failed: CUDA Error: out of memory at cumem_allocator.cpp:62
"""


def test_an_engine_that_did_not_wake_up_is_told_although_the_server_answers_on() -> None:
    slept = '(APIServer pid=7) INFO:     127.0.0.1:40000 - "POST /sleep HTTP/1.1" 200 OK\n'
    assert codes(SERVING + ASLEEP + slept * 3) == ["RLD206"]
    assert codes(SERVING + ASLEEP + slept.replace("sleep", "wake_up") + SERVING) == []


STATISTICS = (
    "(APIServer pid=1) INFO 08-25 12:24:{} [loggers.py:123] Engine 000: Avg prompt throughput: {} tokens/s, Avg "
    "generation throughput: {} tokens/s, Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: 0.8%\n"
)


def test_a_server_that_counts_on_after_its_workers_died_is_dead() -> None:
    # https://github.com/vllm-project/vllm/issues/23582
    died = (
        "(EngineCore_0 pid=271) ERROR 08-25 12:24:19 [multiproc_executor.py:146] Worker proc VllmWorker-1 died "
        "unexpectedly, shutting down executor.\n"
    )
    behind = STATISTICS.format(24, "0.0", "7599.4", 46) + STATISTICS.format(34, "0.0", "0.0", 46)
    assert incident(died + behind).kind == "crashed"
    assert codes(died + behind) == ["RLD606"]


@pytest.mark.parametrize(
    ("prompt", "generation", "running", "begun"),
    [
        ("0.0", "912.4", 46, True),
        ("512.0", "0.0", 3, True),
        ("0.0", "0.0", 0, True),  # idle
        ("0.0", "0.0", 46, False),
    ],
)
def test_what_a_servers_statistics_show(prompt: str, generation: str, running: int, begun: bool) -> None:
    text = "".join(STATISTICS.format(second, prompt, generation, running) for second in (14, 24, 34))
    assert (incident(text).kind, incident(text).stage) == ("unfinished", None if begun else "start")


def test_an_engine_that_dumps_its_input_has_failed() -> None:
    # https://github.com/vllm-project/vllm/issues/27116
    dump = (
        "(EngineCore_DP0 pid=610) ERROR 10-07 12:51:42 [dump_input.py:69] Dumping input data for V1 LLM engine "
        "(v0.10.2) with config: model='openai/gpt-oss-120b', speculative_config=None\n"
    )
    assert codes(STATISTICS.format(14, "0.0", "9.1", 1) + dump) == ["RLD901"]
    assert codes(BEGUN + "INFO 10-07 12:51:42 [dump.py:9] Dumping input data to /data/batch.json\n" + BEGUN) == []


def test_a_waiting_client_and_steps_behind_a_clock() -> None:
    # https://github.com/PrimeIntellect-ai/prime-rl/pull/1630
    waits = "".join(
        f"16:4{i}:43 WARNING Inference server was not reached after {i}0 seconds (Error: All connection attempts "
        "failed)\n"
        for i in (1, 2, 3)
    )
    ready = "16:45:27 SUCCESS Inference pool ready\n16:45:40 SUCCESS Step 0 | Time: 12.11s | Reward: 0.2310\n"
    head = "16:41:33    INFO Waiting for inference pool to be ready\n"
    assert codes(head + waits) == ["RLD607"]
    assert (incident(head + waits + ready).kind, codes(head + waits + ready)) == ("unfinished", [])


def test_a_traceback_without_its_end_says_less_than_a_recorded_death() -> None:
    # https://github.com/TideDra/lmm-r1/issues/68
    died = (
        "(LLMRayActor pid=101850) CRITICAL 04-21 10:43:16 [core_client.py:361] Got fatal signal from worker processes, "
        "shutting down. See stack trace above for root cause issue.\n"
    )
    cut = "".join(f"{line}\n" for line in REWARD_RAISES.splitlines()[:5])
    assert codes(died + cut) == ["RLD606"]
    assert codes(cut) == ["RLD900"]
    assert "RLD902" in codes(died + REWARD_RAISES)


def test_samples_that_speak_of_failures_and_a_reward_that_caught_one() -> None:
    """Other processes show samples all the time, so that what one of them logs seems to stand in a sample."""
    steps = "".join(
        f"(WorkerDict pid=806) [response] we failed therefore, an error, an exception {i}\n"
        f"(TaskRunner pid=70) step:{i} - actor/pg_loss:0.01 - actor/grad_norm:0.4 - critic/score/mean:0.{i}\n"
        for i in range(1, 8)
    )
    caught = "".join(
        f"(AgentLoopWorker pid=77) ERROR 08-25 11:35:50 [reward.py:9] {line}\n"
        for line in (
            "Traceback (most recent call last):",
            '  File "/home/u/rl/reward.py", line 9, in score',
            "ValueError: could not parse the answer",
        )
    )
    shown = "(WorkerDict pid=802) [response] then traceback exception the have error\n"
    healthy = steps + shown + caught + steps + shown
    assert (incident(healthy).kind, codes(healthy)) == ("unfinished", [])
    assert incident(steps + shown + caught).kind == "crashed"


DUMP = """\
Fatal Python error: Segmentation fault

Current thread 0x00007f84 (most recent call first):
  {frame}
"""
LAST = "{'train_runtime': '7.469', 'train_loss': '-0.08558', 'epoch': '1.0'}\n"


def test_a_crash_as_a_finished_run_leaves() -> None:
    crash = DUMP.format(frame="<no Python frame>")
    assert incident(BEGUN + LAST + crash).kind == "finished"
    assert incident(BEGUN + crash).kind == "crashed"


def test_a_crash_while_the_last_checkpoint_is_saved() -> None:
    saving = DUMP.format(frame='File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 9 in save')
    assert incident(BEGUN + LAST + saving).kind == "crashed"
    assert incident(BEGUN + LAST + "Segmentation fault (core dumped)\nDONE\n").kind == "crashed"


def test_what_a_finished_run_saves_is_no_sign_that_it_goes_on() -> None:
    cancelled = "slurmstepd: error: *** STEP 8.1 ON g12 CANCELLED AT 2026-10-06T14:22:49 ***\n"
    assert codes(f"{BEGUN}{LAST}Saved model to /ckpt/final\n{cancelled}") == []
    assert codes(f"{BEGUN}Saved model to /ckpt/step-40\n{cancelled}") == ["RLD603"]


def test_a_job_beside_the_run_fails_and_the_run_goes_on() -> None:
    failed = "eval job 12 failed: Job entrypoint command failed with exit code 1\n"
    on = "".join(f"{{'loss': 0.01, 'grad_norm': 1.{i}, 'reward': 0.{i}}}\n" for i in range(4))
    assert codes(f"{BEGUN}{failed}{on}") == codes(f"{BEGUN}(EvalRunner pid=99) {failed}{on}") == []
    assert codes(f"{BEGUN}{failed}") == ["RLD901"]


TYPED = """>>> assert 1 == 2
Traceback (most recent call last):
  File "<stdin>", line 1, in <module>
AssertionError
"""


def test_what_is_typed_at_a_prompt_ends_nothing() -> None:
    said = TYPED.replace("<stdin>", "<python-input-0>").replace("AssertionError", "ValueError: three")
    assert codes(f"{said}>>> import torch\n>>> \n") == []
    assert codes(f"{TYPED}>>> import torch\n>>> exit()\n") == []
    assert incident(TYPED.removeprefix(">>> assert 1 == 2\n")).kind == "crashed"


def test_tests_that_pass_log_what_they_expect() -> None:
    logged = REWARD_RAISES.replace("in <module>", "in case").replace("    trainer.train()\n", "    call()\n")
    session = f"===== test session starts =====\nERROR    reward:reward.py:12 could not parse\n{logged}"
    assert codes(f"{session}===== 3 passed in 0.12s =====\n") == []
    assert codes(f"{session}===== 1 failed, 2 passed in 0.12s =====\n") == ["RLD902"]


def test_what_an_exception_means_is_no_exception() -> None:
    explained = "`RuntimeError: Already borrowed` is raised by fast tokenizers that two threads use.\n"
    assert codes(explained) == []
    assert codes("It stops with `RuntimeError: Already borrowed` in step 3.\n") != []
    assert codes("In step 3 `RuntimeError: Already borrowed` is raised.\n") != []
