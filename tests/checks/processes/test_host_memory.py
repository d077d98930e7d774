"""RLD604: the host's memory, not the device's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rldoctor_checks.processes.host_memory import check

from rldoctor.case import Node
from rldoctor.judge import judge_one
from rldoctor.logs.triage import triage_text
from tests.cases import GIB, host
from tests.checks.launches import LaunchFile
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY, OUT_OF_MEMORY


@pytest.mark.parametrize(
    "message",
    [
        # Ray 2.4x and 2.60
        "Task was killed due to the node running low on memory.\nMemory on the node (IP: 192.0.2.2) was 250.1GB "
        "/ 251.5GB",
        "1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 192.0.2.2, ID: f8) was "
        "250.1GB used / 251.5GB limit (0.99)",
    ],
)
def test_rays_monitor_says_how_full_the_node_was(message: str) -> None:
    found = finding(check, raised("ray.exceptions.OutOfMemoryError", message))
    assert "250.1GB of 251.5GB used" in found.message


def test_the_kernel_names_the_process() -> None:
    text = "[12.3] Out of memory: Killed process 4711 (ray::WorkerDict) total-vm:1kB, anon-rss:104857600kB\nKilled\n"
    assert "ray::WorkerDict (pid 4711), 100.0 GiB resident" in finding(check, text).message
    older = "[9.1] Memory cgroup out of memory: Kill process 17811 (python3) score 1001 or sacrifice child\n"
    assert "python3 (pid 17811)" in finding(check, older).message


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "Oct 02 11:40:29 n7 systemd-oomd[612]: Killed /user.slice/train.scope due to memory pressure for "
            "/user.slice being 81.22% > 50.00% for > 20s with reclaim activity",
            "ended /user.slice/train.scope,",
        ),
        (
            'earlyoom[411]: sending SIGTERM to process 3311 uid 1000 "python3": badness 912, VmRSS 40000 MiB',
            "ended python3 (pid 3311)",
        ),
    ],
)
def test_a_service_of_the_host_ends_a_process(line: str, says: str) -> None:
    assert says in finding(check, f"{HEALTHY}{line}\n").message


def test_a_refused_allocation() -> None:
    text = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1073741824 bytes. Error code 12"
    assert "1.00 GiB" in finding(check, raised("RuntimeError", text)).message
    assert finding(check, raised("MemoryError", "")).code == "RLD604"


@pytest.mark.parametrize("text", [OUT_OF_MEMORY, "Killed\n", "run.sh: line 3: 4711 Killed   python train.py\n"])
def test_the_devices_memory_and_a_bare_killed_are_no_proof(text: str) -> None:
    assert findings(check, text) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "LSF ended the job at its memory limit"),
        (
            "=>> PBS: job killed: mem 65011712kb exceeded limit 62914560kb",
            "PBS ended the job at its memory limit: 62.0 GiB used of 60.0 GiB",
        ),
        (
            "\tError from slot1_3@gpu3.cl: Job has gone over cgroup memory limit of 65536 megabytes.",
            "HTCondor put the job on hold at its memory limit of 65536 MiB",
        ),
        (
            'job 7 exceeds job hard limit "h_vmem" of queue "gpu.q" (8.1 > limit:8.0) - sending SIGKILL',
            "Grid Engine ended the job 7 at its memory limit (h_vmem)",
        ),
        ("Message: The node was low on resource: memory. ", "Kubernetes evicted the pod: its node ran low on memory"),
    ],
)
def test_a_scheduler_names_its_own_limit(line: str, says: str) -> None:
    assert finding(check, f"{line}\n").message == says


@pytest.mark.parametrize(
    "line",
    [
        "551203  grpo-32b  OUT_OF_MEMORY  0:125  n11",
        "99121            grpo OUT_OF_ME+    0:125 gpu-4",
        "Error Code: UserProcessKilledBySystemOOM",
        '"reason": "OutOfMemoryError: Container killed due to memory usage",',
        "Runner failed with exit code: 137 (out of memory)",
    ],
)
def test_the_words_that_all_schedulers_share(line: str) -> None:
    said = f"whoever runs the job ended it, or a process of it, at a limit of host memory: {line}"
    assert finding(check, f"{line}\n").message == said


@pytest.mark.parametrize("line", ["reason: OutOfMemoryError", "the task failed: CUDA out of memory", "OOM_POLICY=stop"])
def test_what_only_resembles_a_limit_of_host_memory(line: str) -> None:
    assert findings(check, f"{line}\n") == []


@pytest.mark.parametrize(
    "line",
    [
        '            "OOMKilled": false,',
        "tool container swe-17 OOMKilled (exit 137), observation returned to the policy",
        "(SandboxActor pid=77) sandbox container 4f2a exited: OOMKilled=true exit_code=137; reward 0",
    ],
)
def test_a_container_that_the_job_does_not_run_in(line: str) -> None:
    assert findings(check, f"{line}\n") == []
    assert "the kernel killed a process" in finding(check, "container grpo-rollout-3 OOMKilled\n").message


def test_rays_object_store() -> None:
    text = raised("ray.exceptions.ObjectStoreFullError", "Failed to put object 00ff. Object size is 41200331 bytes.")
    assert "an object of 41200331 bytes found no room" in finding(check, text).message


def test_a_pod_as_yaml_names_its_node_and_how_often_it_was_started() -> None:
    status = "        exitCode: 137\n        reason: OOMKilled\n    restartCount: 3\n"
    diagnosed = triage_text(f"spec:\n  nodeName: gpu-7\nstatus:\n{status}")
    assert diagnosed.incident is not None
    assert (diagnosed.incident.node, diagnosed.incident.attempt) == ("gpu-7", 3)


@pytest.mark.parametrize(
    "line",
    [
        "Diagnostics: Container [pid=12] is running beyond physical memory limits. Current usage: 64.2 GB of 64 GB",
        "n7 systemd[1]: grpo.service: A process of this unit has been killed by the OOM killer.",
        "n7 systemd[1]: grpo.service: Failed with result 'oom-kill'.",
    ],
)
def test_who_else_ends_what_takes_more_memory_than_it_may(line: str) -> None:
    steps = "".join(one for one in HEALTHY.splitlines(keepends=True) if "'grad_norm'" in one)
    assert "at a limit of host memory" in finding(check, f"{steps}{line}\n").message


@pytest.mark.parametrize(
    "line",
    [
        '[{"State": {"Status": "exited", "OOMKilled": false, "ExitCode": 0}}]',
        "slurmstepd: error: Exceeded step memory limit at some point. Step may have been partially swapped to disk.",
    ],
)
def test_a_container_that_was_not_killed_and_a_step_that_came_to_its_end(line: str) -> None:
    assert findings(check, f"{HEALTHY}{line}\n") == []


RAYLET = (
    "(raylet) [2023-12-17 07:01:10,094 E 6499 6499] (raylet) node_manager.cc:3035: {} Workers (tasks / actors) killed "
    "due to memory pressure (OOM), 1 Workers crashed due to other reasons at node (ID: ab37, IP: 192.0.2.7) over the "
    "last time period.\n"
)


def test_rays_summary_counts_what_it_killed_and_names_the_node() -> None:
    for count in ("1", "10"):
        found = triage_text(RAYLET.format(count))
        assert [one.code for one in found.findings] == ["RLD604"]
        assert found.incident is not None and found.incident.node == "192.0.2.7"
    assert triage_text(RAYLET.format("0")).findings == ()
    assert triage_text("(raylet) 0 Workers (tasks / actors) killed due to memory pressure (OOM)\n").findings == ()


PPO = "python3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8 actor_rollout_ref.model.path=m\n"
TORCHRUN = "torchrun --nproc-per-node 8 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=m\n"


@pytest.mark.parametrize(
    ("text", "free", "fires"),
    [
        (PPO, 20, True),
        (PPO, 60, False),
        ("export RAY_memory_usage_threshold=0.8\n" + PPO, 60, True),
        ("export RAY_memory_monitor_refresh_ms=0\n" + PPO, 20, False),
        ("ray job submit --address http://10.0.0.9:8265 -- " + PPO, 20, False),
        ("ray job submit --address http://127.0.0.1:8265 -- " + PPO, 20, True),
        ("#!/bin/bash\n#SBATCH --nodes=1\n" + PPO, 20, False),
        (TORCHRUN, 20, False),
    ],
)
def test_memory_that_others_hold_before_the_run(tmp_path: Path, text: str, free: int, fires: bool) -> None:
    (case,) = LaunchFile(tmp_path, text, {"verl": "0.7.0"}).cases()
    case = replace(case, host=host(memory_available=free * GIB), node=Node(host="n", time=0.0))
    found = judge_one(check, case).findings
    assert ["before the run begins" in one.message for one in found] == [True] * fires


def test_a_container_does_not_tell_what_of_its_limit_is_in_use(tmp_path: Path) -> None:
    (case,) = LaunchFile(tmp_path, PPO, {"verl": "0.7.0"}).cases()
    case = replace(case, host=host(memory_available=20 * GIB, memory_limit=64 * GIB), node=Node(host="n", time=0.0))
    assert judge_one(check, case).findings == ()


@pytest.mark.parametrize(
    "line",
    [
        '2019/04/08 06:03:16.608873 [INFO] client: task "grpo" for alloc "c5d0e905-946b" failed: Wait returned exit '
        "code 137, signal 0, and error OOM Killed",
        "2026-10-06T14:00:57.110Z [INFO]  client.alloc_runner.task_runner: Task event: alloc_id=73b69aa3 task=grpo "
        'type=Terminated msg="Exit Code: 137, Exit Message: \\"OOM Killed\\"" failed=false',
    ],
)
def test_a_task_of_nomad_to_which_its_end_is_mere_information(line: str) -> None:
    begun = HEALTHY.split("{'train_runtime'")[0]
    assert finding(check, f"{begun}{line}\n").message.startswith("the kernel killed the task grpo, as Nomad tells")
    result = triage_text(f"{begun}{line}\n")
    assert result.incident is not None and result.incident.kind == "crashed"
    assert findings(check, f"{begun}{line}\n{HEALTHY}") == []
    other = line.replace("OOM Killed", "none")
    assert findings(check, f"{begun}{other}\n") == []
