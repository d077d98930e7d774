"""Why a run was ended, in the words of whoever did it."""

from __future__ import annotations

import pytest
from rldoctor_checks.observed.causes import Why, cause, spelled
from rldoctor_checks.observed.outside import ended


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Job 90112 ran past the end of reservation maint-nov and was killed", Why.TIME),
        (
            "Your notebook was stopped because it exceeded the maximum allowed execution time of 43200 seconds.",
            Why.TIME,
        ),
        ("Kernel of the notebook was shut down: 6-hour limit, time is up", Why.TIME),
        ("Run 77 exceeded its max_run_duration_seconds of 86400 and was canceled by the service", Why.TIME),
        ("Container killed: it used more memory than its limit of 256 GiB", Why.MEMORY),
        ("Notebook killed: out of memory", Why.MEMORY),
        ("Your notebook was shut down: 6-hour limit of the free tier reached, max run time", Why.TIME),
        ("server lost track of mom r1i0n4, job 881 rerun", Why.MACHINE),
        ("podgroup grpo unschedulable: 2/16 tasks in gang unschedulable", Why.PLACE),
        ("namespace rl deleted by ada, all its pods are being terminated", Why.ASKED),
        ("Pod 8x1kq2 has been stopped: your account balance is too low", Why.QUOTA),
        ("Runtime disconnected: you have run out of compute units", Why.QUOTA),
        ("Job ended: the licence of the solver expired", Why.QUOTA),
        ("Instance 7781232 was outbid and has been stopped.", Why.PREEMPTED),
        ("grpo-worker-3 was evicted to make room for a pod with priority class production", Why.PREEMPTED),
        ("AWS takes the spot instance i-0ff back, shutdown in 120 s", Why.PREEMPTED),
        ("Node g1a2b3 is being rebooted by the fleet controller; pod evicted", Why.MACHINE),
        ("Pod 8x1kq2 exited: the host machine is undergoing emergency maintenance", Why.MACHINE),
        ("Message from root: chiller failure in hall B, all nodes are being powered off now", Why.MACHINE),
        ("dgx05: shutting down because the GPU temperature crossed its critical threshold", Why.MACHINE),
        ("Workload grpo-llama requeued: no capacity for 8 of its 16 pods", Why.PLACE),
        ("Managed job 7 (grpo) was cancelled by the user.", Why.ASKED),
        ("Message from admin: I killed your run, it was hammering the metadata server", Why.ASKED),
        ("Nov 20 21:14:02 gpu01 systemd[1]: Stopping grpo.service - GRPO training...", Why.ASKED),
        ("container stop 8f3a (image=rl:1, name=grpo)", Why.ASKED),
        ("Workspace stopped. Reason: maximum run time reached.", Why.TIME),
        ("Job ended: wall time exceeded", Why.TIME),
        ("Lost connection to node gpu-n03; job aborted", Why.MACHINE),
        ("Connection to gpu-n03 closed by remote host.", Why.MACHINE),
        ("Cluster grpo-7 was terminated by ada", Why.ASKED),
        ("Runtime disconnected", Why.ASKED),
        ("The system will power off now!", Why.MACHINE),
        ("Your session was terminated after 9 hours: the maximum session length was reached.", Why.TIME),
        ("Shutting down: received SIGTERM from PID 1 (docker stop)", Why.ASKED),
        ("The trainer received signal SIGTERM", Why.ASKED),
        ("job 71 received SIGTERM from slurmd", Why.ASKED),
        ("received spot interruption warning node=n-7 time-until-interruption=2m", Why.PREEMPTED),
        ("Nov 20 21:14:02 n7 nhc[9]: job 8 killed, mlx5_0: link down", Why.MACHINE),
        ("ada has deleted job 40290", Why.ASKED),
        ("Cluster terminated. Reason: User Request. A user terminated the cluster.", Why.ASKED),
        ('PipelineRun "grpo-5n9rx" failed to finish within "5h0m0s"', Why.TIME),
        ("The runner: i-0a9f lost communication with the server. Verify the machine is running.", Why.MACHINE),
        ("Nodes of this job got pre-empted. Check if the run has failed or restarted.", Why.PREEMPTED),
        ("Aborted by Ada Lovelace", Why.ASKED),
        ("Cancelling nested steps due to timeout", Why.TIME),
        ("Desired Description    = alloc is lost since its node is down", Why.MACHINE),
        ("PipelineRun grpo-8x was cancelled", Why.ASKED),
        # What had failed is ended by whoever runs it, too.
        ("a non-zero exit code. Per user-direction, the job has been aborted.", Why.FAILED),
        # A cloud's journal says in its last column what happened.
        ("operation-17 compute.instances.preempted  zones/a/a3-2  DONE  Instance was preempted.", Why.PREEMPTED),
    ],
)
def test_a_sentence_about_a_job_or_a_machine(line: str, why: Why) -> None:
    assert ended(line) is why


@pytest.mark.parametrize(
    "line",
    [
        # What a run does with its own.
        "code sandbox pod sb-71 was evicted, a new one is started",
        "environment worker 4 terminated after 200 turns",
        "vLLM instance 2 was stopped for maintenance of its weights",
        "session expired, logging in again",
        "agent 7 was killed by agent 3 in match 12",
        "prefetch process exited (dataset exhausted), restarting at epoch 2",
        "old checkpoint step_10 deleted (limit of 3 reached)",
        "CUDA out of memory in the container, job killed",
        "spot checks of the data passed",
        "health check of node a passed",
        "function call timed out, retry 1",
        "skipping batch 7: 2 experiment ids removed",
        "Cluster stopped",
        "Ray cluster shut down",
        "Stopping Ray runtime",
        "Runner stopped",
        "docker: Container redis-1 stopped",
        "docker: Container sandbox-3 stopped",
        "docker run: container code-exec-71 killed (time limit 10 s)",
        "Deleting pod judge-7: scaled to 0",
        "Upload job aborted by user, keeping local files",
        "Trial 3 stopped: metric reached target",
        "Replica 3 drained",
        "KL above the limit, run stopped",
        "wandb agent: run 12 terminated, starting run 13",
        "heartbeat monitor of node gpu-n03 stopped",
        "Node-local scratch removed (gpu-n07:/local/88123)",
        "Removing network rl_default",
        "connection closed",
        # What tells how a job came to its end, with figures.
        "Job 881 ended (time limit 24:00:00, elapsed 11:22:10)",
        "Job ended, time limit remaining: 02:11:00",
        "Job ended. Memory usage: 201 GB / 512 GB (39%)",
        "Job stopped normally, max memory usage 88 GB",
        "Allocation ended: charged 712 GPU hours to account rl-lab",
        "Project rl-lab: allocation 5000 h, used 712 h, expires on 2027-03-01",
        "Nodes failed: 0, pods evicted: 0",
        "preemption count: 0, node failures: 0",
        # A machine's own chores.
        "Connection to gpu-n07 closed.",
        "Nov 20 21:14:02 gpu01 sshd[88]: Received disconnect from 10.0.0.3 port 51234:11: disconnected by user",
        "Nov 20 21:14:02 gpu01 systemd[1]: Stopping fwupd.service - Firmware update daemon...",
        "anacron: Job `cron.daily' terminated",
        "Idle node cpu-3 terminated",
        "apptainer instance stopped: grpo",
        "Nov 20 21:14:02 gpu01 kernel: mlx5_core 0000:ab:00.0 ens9f1: Link down",
        "The system will power off at Wed 2026-11-18 10:22:11 UTC!",
        "reward-server received SIGHUP, reloading the configuration",
        "python_executor received SIGTERM after 30 s",
        "received SIGHUP: re-reading the schedule",
        "container redis-1 received SIGTERM",
        "Agent session 71 stopped: session length 30 turns reached",
        "12:00  fsck  /dev/sda  OK  All disks of the node were checked and none failed.",
        "Testing that the trainer received SIGINT: ok",
        "To save cost, power off nodes at night: sudo poweroff",
        # Who reports a run.
        "The job was not killed by OOM (checked dmesg).",
        "The node does not go down, GPUs are at 100%.",
        "I restarted the machine and it happens again.",
        "We run on a cluster with spot instances; none was preempted.",
        "host memory is fine, no OOM in dmesg, and no node went down",
        "PS: our cluster has a 24h time limit, but the job stopped after 3 hours",
        "It is not a timeout: I set NCCL_TIMEOUT to 2 hours and the job still stops there.",
        "The run stopped after 60 steps and nothing more is printed. Network: infiniband, 4 nodes",
        "To be clear: nobody killed the job and there is no time limit on this cluster",
        # Advice, policies, announcements, questions, what is over.
        "Reminder: maintenance on Dec 1. The cluster will be shut down at 08:00.",
        "if the instance is reclaimed the run resumes from /ckpt/last",
        "note: jobs on this cluster are killed after 24 hours",
        "motd: maintenance on Dec 1, all nodes will be down",
        "preemption-safe checkpointing is on (every 600 s)",
        "The job was killed yesterday; this one starts from step 300",
        "was my job preempted because the node failed?",
        "trap 'echo job was preempted' USR1",
        '"OOMKilled": false,',
        "Reservation cancelled successfully!",
        "Node drained after it was idle for 300 s.",
        "You can cancel the reservation at any time.",
        "Description    = keeps the nodes of the job warm",
        "Killed by signal 15.",
        # What a training or a sample came to by its own rules.
        "Stopped by EarlyStopping",
        "Terminated by max_steps",
        "stopped by token 151645",
        "agent closed the drawer",
        "Cancelled by criterion",
        # Inventories.
        "   90113 gpu sft PD 0:00 (ReqNodeNotAvail, UnavailableNodes:cn-0417)",
        "gpu-07     drained   GPU 3 failed its health check",
        "node-b     NotReady,SchedulingDisabled   worker   31d",
    ],
)
def test_what_tells_of_no_end_of_a_job(line: str) -> None:
    assert ended(line) is None


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("DeadlineExceeded", Why.TIME),
        ("NODE_FAIL", Why.MACHINE),
        ("EvictedDueToPodsReadyTimeout", Why.PLACE),
        ("OOMKilled", Why.MEMORY),
        ("JOB_STATE_CANCELLED", Why.ASKED),
        ("MPIJobFailed", Why.FAILED),
        ("COMPLETED", None),
    ],
)
def test_a_reason_in_a_field(reason: str, why: Why | None) -> None:
    assert cause(spelled(reason)) is why
