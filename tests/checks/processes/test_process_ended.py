"""RLD603: a process or a job that ended, with its cause elsewhere."""

from __future__ import annotations

import pytest
from rldoctor_checks.processes.process_ended import check

from rldoctor.api import Severity
from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY, OUT_OF_MEMORY, REWARD_RAISES

# Of a run that has not come to its end.
STEPS = "".join(line for line in HEALTHY.splitlines(keepends=True) if "'grad_norm'" in line)

DIED = raised("ray.exceptions.ActorDiedError", "The actor died unexpectedly before finishing this task.") + (
    "\tclass_name: RolloutWorker\n\tactor_id: 7adc7f40\n\tpid: 22183\n\tnamespace: 7aa1eb6b\n\tip: 192.0.2.2\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was "
    "killed by the OOM killer due to high memory usage, (2) ray stop --force was called.\n"
)


def test_the_actor_and_where_its_log_lies() -> None:
    found = finding(check, DIED)
    assert found.message.startswith("the actor RolloutWorker (pid 22183 on 192.0.2.2) died")
    assert "worker-*-22183.err" in found.fixes[0].commands[0]


def test_it_comes_after_any_cause() -> None:
    actor = "".join(f"(RolloutWorker pid=22183) {line}\n" for line in OUT_OF_MEMORY.splitlines())
    assert [f.code for f in triage_text(actor + DIED).findings] == ["RLD206", "RLD603"]


def test_a_death_that_the_run_survived() -> None:
    raylet = "(raylet) A worker died or was killed while executing a task by an unexpected system error.\n"
    assert findings(check, raylet + HEALTHY) == []


CANCELLED = "slurmstepd-n7: error: *** STEP 88.0 ON n7 CANCELLED AT 2026-03-02T12:00:00 ***\n"


def test_a_step_that_was_cancelled() -> None:
    assert "the job 88 was cancelled on n7" in finding(check, STEPS + CANCELLED).message


def test_slurm_ends_the_steps_of_servers_behind_a_run_that_came_to_its_end() -> None:
    killed = "srun: Job step aborted: Waiting up to 182 seconds for job step to finish.\n"
    assert findings(check, HEALTHY + killed + CANCELLED + "srun: error: n7: task 0: Killed\n") == []


def test_who_cancelled_a_step_is_told_before_that_it_was_aborted() -> None:
    aborted = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    assert "the job 88 was cancelled on n7" in finding(check, STEPS + aborted + CANCELLED).message


@pytest.mark.parametrize("said", ["Terminated\n", CANCELLED])
def test_a_signal_that_nobody_explains_behind_a_run_that_said_it_was_done(said: str) -> None:
    assert findings(check, f"{STEPS}Training complete!\n{said}") == []
    assert findings(check, f"Data: all done\n{STEPS}{said}") != []


def test_an_allocation_that_is_given_back() -> None:
    revoked = "salloc: Job allocation 881 has been revoked.\n"
    assert findings(check, f"{STEPS}salloc: Relinquishing job allocation 881\n{revoked}") == []
    assert findings(check, f"{STEPS}Training finished.\n{revoked}") == []
    assert "took the allocation 881 away" in finding(check, STEPS + revoked).message


def test_a_task_that_somebody_stopped() -> None:
    stopped = (
        "2026-01-09 09:25:15,403 - clearml.Task - WARNING - ### TASK STOPPED - USER ABORTED - STATUS CHANGED ###\n"
    )
    assert "ClearML" in finding(check, STEPS + stopped).message
    assert findings(check, HEALTHY + stopped) == []


@pytest.mark.parametrize(
    "line",
    [
        "Cannot contact wandb-1: retrying",
        "player-3 was marked offline: left the room",
        "worker 3 lost communication with the server, reconnecting",
        "Sample(index=3, reward=None, status=<Status.ABORTED: 'aborted'>)",
        "<RolloutStatus.FAILED: 'failed'>",
        "judge: Error(TimeLimitExceeded)",
        'message: "no such tool"\nstatus: error',
        "[reward] code job exited with exit code 1, reward 0",
    ],
)
def test_what_a_run_tells_of_its_samples_and_tools(line: str) -> None:
    assert findings(check, f"{STEPS}{line}\n") == []


EVICTED = "  Normal  TaintManagerEviction  3s  taint-eviction-controller  Marking for deletion Pod rl/grpo-0\n"


def test_a_pod_that_is_taken_away_behind_a_finished_run() -> None:
    assert findings(check, HEALTHY + EVICTED) == []
    assert "Kubernetes ended the pod" in finding(check, STEPS + EVICTED).message


def test_a_list_of_what_states_mean() -> None:
    meant = (
        "BF BOOT_FAIL Job terminated due to launch failure\n"
        "CA CANCELLED Job was explicitly cancelled by the user or system administrator.\n"
        "DL DEADLINE Job terminated on deadline.\nOOM OUT_OF_MEMORY Job experienced out of memory error.\n"
        "PR PREEMPTED Job terminated due to preemption.\n"
    )
    assert triage_text(meant).findings == ()
    reasons = (
        "* INACTIVITY: The cluster was terminated since it was idle.\n* COMMUNICATION_LOST: lost connection to it\n"
        "* CLOUD_PROVIDER_SHUTDOWN: The instance that hosted the driver was terminated by the cloud provider.\n"
    )
    assert triage_text(reasons).findings == ()
    (row,) = (line for line in meant.splitlines() if "PREEMPTED" in line)
    assert findings(check, f"{STEPS}{row}\n") != []


LSF = """\
Sender: LSF System <lsfadmin@h12>
Job was executed on host(s) <4*h12>, in queue <gpu>, as user <u> in cluster <c> at Tue Oct  6 10:02:00 2026
{end}

The output (if any) follows:

"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "RLD603"),
        ("TERM_PREEMPT: job killed after preemption.", "RLD603"),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "RLD604"),
    ],
)
def test_lsfs_report_stands_before_the_output(end: str, code: str) -> None:
    (found,) = triage_text(LSF.format(end=end) + STEPS).findings
    assert (found.code, found.severity) == (code, Severity.ERROR)


def test_a_job_that_lsf_saw_to_its_end() -> None:
    assert triage_text(LSF.format(end="Successfully completed.") + HEALTHY).findings == ()


@pytest.mark.parametrize(
    "line",
    [
        'docker: Error response from daemon: Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout.',
        "submitit WARNING (2026-05-02 11:11:11,100) - Caught signal SIGUSR2 on n7: this job is preempted.",
        "slurmstepd: error: pyxis: failed to import docker image",
    ],
)
def test_what_a_job_came_over(line: str) -> None:
    found = triage_text(line + "\n" + HEALTHY).findings
    assert all(one.severity is Severity.NOTE for one in found)


@pytest.mark.parametrize(
    "line",
    [
        # What a script tidies up before it starts a container.
        "Error response from daemon: No such container: verl",
        "Error response from daemon: network with name rl already exists",
        # Other programs' containers, images and keys.
        "WARNING dataset.py: could not open image /data/pictures/7.jpg: truncated, the row is left out",
        "INFO sandbox: container creation failed: the name is taken, trying again with another one",
        "kubelet: container start failed with error code 1, trying again",
        "judge: API Key has expired; using the next one of the pool",
        "gpg: Key has expired",
        "XTERM_DATA: 3 attempts are left",
        "scheduler: Job deleted at request of ops@pbs01 is what to look for",
        "modprobe: ERROR: could not insert 'nvidia_peermem': Required key not available",
        "device-mapper: reload ioctl failed: Required key not available",
        "modprobe: ERROR: could not insert 'gdrdrv': Key was rejected by service",
    ],
)
def test_others_have_words_like_these(line: str) -> None:
    told = f"{line}\n"
    assert findings(check, told + STEPS) == findings(check, told + HEALTHY) == []
    codes = [found.code for found in triage_text(told + STEPS + REWARD_RAISES).findings]
    assert codes == ["RLD902"]


def test_lsfs_report_stands_before_the_output_and_is_no_line_of_a_logger() -> None:
    report = "TERM_OWNER: job killed by owner.\n"
    assert finding(check, report + STEPS).severity is Severity.ERROR
    logged_line = f"INFO 11-20 21:24:30 [jobs.py:12] {report}"
    assert finding(check, logged_line + STEPS).severity is Severity.NOTE


@pytest.mark.parametrize(
    "said",
    [
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
        "TERM_OWNER: job killed by owner.",
        "=>> PBS: job killed: walltime 3630 exceeded limit 3600",
        "=>> PBS: job killed: mem 65011712kb exceeded limit 62914560kb",
    ],
)
def test_a_run_that_came_to_its_end_was_ended_by_nobody(said: str) -> None:
    lines = HEALTHY.splitlines(keepends=True)
    for at in range(len(lines) + 1):
        diagnosed = triage_text("".join([*lines[:at], f"{said}\n", *lines[at:]]))
        assert diagnosed.incident is not None
        assert (diagnosed.incident.kind, diagnosed.findings) == ("finished", ()), at


def test_slurm_cancels_the_step_of_a_task_that_failed() -> None:
    exited = "srun: error: n7: tasks 0-7: Exited with exit code 1\n"
    assert findings(check, HEALTHY + exited + CANCELLED) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("salloc: error: Node failure on n7", "the node n7 failed, and Slurm ended the step"),
        ("srun: error: Unable to allocate resources: Invalid account", "Slurm refused the job: Invalid account"),
        ("TERM_OWNER: job killed by owner.", "LSF ended the job: killed by owner"),
        (
            "=>> PBS: job killed: node 3 (n7) requested job terminate, 'EOF' (code 1099)",
            "PBS ended the job: node 3 (n7) requested job terminate",
        ),
        ("  Normal   Preempted  3m  default-scheduler  Preempted by prod/infer-7 on node n7", "pod on n7: it was pre"),
        ("  Normal   Preempted  3m  default-scheduler  Preempted by a pod on node n7", "pod on n7: it was preempted"),
        ("Message: Pod was active on the node longer than the specified deadline", "ended the pod at its deadline"),
        (
            'Message: Usage of EmptyDir volume "dshm" exceeds the limit "8Gi".',
            "its volume dshm holds more than the 8Gi",
        ),
        ("Message: The node was low on resource: pids. ", "its node was low on pids"),
        ("  message: 'The node was low on resource: pids. '\n  reason: Evicted", "its node was low on pids"),
        (
            "submitit WARNING (2026-05-02 11:11:11,100) - Caught signal SIGUSR2 on n7: this job is timed-out.\n"
            "submitit INFO (2026-05-02 11:11:15,000) - Job not requeued because: timed-out too many times.",
            "on n7, which submitit counts as timed-out; it was not requeued: timed-out too many times",
        ),
        ("salloc: Job allocation 77121 has been revoked.", "Slurm took the allocation 77121 away"),
        ("srun: forcing job termination", "Slurm's step was aborted"),
        ("srun: error: Munge decode failed: Rewound credential", "munge says Rewound credential"),
        (
            "slurmstepd: error: pyxis: failed to import docker image\nslurmstepd: error: pyxis: printing log:"
            "\nslurmstepd: error: pyxis:     [ERROR] URL https://nvcr.io/auth returned error code: 401 Unauthorized",
            "(pyxis): enroot says URL https://nvcr.io/auth returned error code: 401",
        ),
        (
            "slurmstepd: error: pyxis: container start failed with error code: 1\nslurmstepd: error: pyxis:     "
            "enroot-mount: failed to mount: /lustre/x at /raid/enroot/lustre/x: No such file or directory",
            "(pyxis): enroot says failed to mount: /lustre/x",
        ),
        (
            '  Warning  FailedCreate  12s  job-controller  Error creating: pods "grpo-0" is forbidden: exceeded quota: '
            "gpus, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=64, limited: "
            "requests.nvidia.com/gpu=64",
            "beyond the quota gpus: requests.nvidia.com/gpu=8 asked for, requests.nvidia.com/gpu=64 in use",
        ),
        (
            "docker: Error response from daemon: manifest for a/b:c not found: manifest unknown",
            "manifest for a/b:c not",
        ),
        (
            "Error: initializing source docker://ghcr.io/a/b:9: reading manifest 9 in ghcr.io/a/b: manifest unknown",
            "Podman cannot pull the image ghcr.io/a/b:9: reading manifest",
        ),
        (
            "FATAL:   While making image from oci registry: error fetching image to cache: unauthorized",
            "Apptainer could not start the container: While making image",
        ),
        ("TERM_ZOMBIE: job exited while LSF is not available.", "LSF ended the job: job exited while LSF is not avail"),
        (
            "TERM_ORPHAN_SYSTEM: The orphan job was automatically terminated by LSF.",
            "LSF ended the job: The orphan job",
        ),
        ("job 72.1 exceeded hard wallclock time - initiate terminate method", "ended the job 72.1 at its time limit"),
        ("Job deleted at request of ops@pbs01", "PBS ended the job: ops@pbs01 deleted it"),
        (
            "FATAL:   container creation failed: mount hook function failure: mount /scratch: no such file",
            "Apptainer could not start the container: container creation failed: mount hook",
        ),
        (
            "pyxis: failed to import docker image\n    [ERROR] Could not process JSON input\n",
            "(pyxis): enroot says Could not process JSON input",
        ),
        ("OSError: [Errno 127] Key has expired: '/nfs/run/step_9'", "no more (Key has expired): /nfs/run/step_9"),
        (
            "bash: /afs/cell/home/u/env.sh: Required key not available",
            "no more (Required key not available): /afs/cell/home/u/env.sh",
        ),
        (
            "  what():  filesystem error: cannot open file: Key has expired [/nfs/run/step_9]",
            "no more (Key has expired): /nfs/run/step_9",
        ),
        ("Message: Node n7 which was running pod grpo-3 is unresponsive\nReason: NodeLost", "the node n7 of the pod"),
        ("Message: Pod was terminated in response to imminent node shutdown.", "the node of the pod was shut down"),
        (
            "slurmstepd: *** JOB 88 CANCELLED AT 2014-02-04T06:33:25 DUE TO TIME LIMIT *** on n7",
            "the job 88 at its time",
        ),
        ("004 (31.000.000) 2026-11-20 10:11:12 Job was evicted.", "HTCondor evicted the job 31.000"),
        ("salloc: Job 8812 has exceeded its time limit and its allocation has been revoked.", "allocation 8812 at its"),
        ("\tvia condor_rm (by user ada)", "removed by ada"),
        ("\tError from slot1_3@n7.cl: Failed to transfer files", "on hold on n7.cl: Failed to transfer files"),
        ("    Can not reconnect to slot1@n7.cl, rescheduling job", "HTCondor lost n7.cl"),
        (
            "1802.1s: job.exception type=timeout severity=0 resource allocation expired",
            "Flux ended the job (timeout): res",
        ),
        ("2026-11-20 11:02:40 MaxRuntimeExceeded - Training job runtime exceeded", "time limit (MaxRuntimeInSeconds)"),
        ("Reason: CapacityError: ... due to InsufficientInstanceCapacity error.", "no machine of that kind left"),
        ("ORTE has lost communication with a remote daemon.", "mpirun lost a node of the job"),
        ("PyTorchJob rl/grpo is failed because 1 Worker replica(s) failed.", "PyTorchJob rl/grpo: 1 Worker replica(s)"),
        ("  Warning  Failed  kubelet  Error: failed to create containerd task: no such file", "start the container"),
        (
            "RuntimeError: DataLoader worker (pid 25902) is killed by signal: Segmentation fault. ",
            "pid 25902 crashed in native code (Segmentation fault)",
        ),
        ("  Warning  Failed  9s  kubelet  Error: InvalidImageName", "Kubernetes cannot pull the image"),
        (
            '  Warning  FailedMount  kubelet  MountVolume.SetUp failed for volume "data"',
            "could not start the container",
        ),
        (
            "  Normal  Killing  kubelet  Container rl failed liveness probe, will be restarted",
            "container rl: it did not",
        ),
        (
            "  Warning  FailedJobs  9s  jobset  jobset failed due to one or more job failures",
            "the cause is in the pods",
        ),
        (
            "As part of the sync operation the node(s) 'n7_44_0' have been removed from the rendezvous 'grpo' since "
            "they had no heartbeat.",
            "torchrun lost a node of the job ('n7_44_0')",
        ),
        (
            "INFO cli.py:84 -- Status message: Job supervisor actor died because its node has died.",
            "the job's entry point is gone",
        ),
        ("srun: error: n7: task 5: Terminated", "a signal ended the run on n7 (Terminated)"),
        ("run.sh: line 31: 4411 Hangup                  python train.py", "a signal ended the run (Hangup)"),
        ("timeout: sending signal TERM to command 'python'", "a signal ended the run (TERM)"),
        (
            "Kernel Restarting: The kernel for a.ipynb appears to have died. It will restart automatically.",
            "kernel died",
        ),
        (
            "ERROR: Job failed: execution took longer than 1h0m0s seconds",
            "the CI runner ended the job at its time limit",
        ),
        ("Error: The operation was canceled.", "the CI job was ended from outside"),
        (
            "  Warning  BackOff  kubelet  Back-off restarting failed container trainer",
            "Kubernetes started the pod again",
        ),
        (
            "ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable. Node "
            "IP: 192.0.2.8, node ID: 8f3a.",
            "the node 192.0.2.8 on which Ray ran a task is gone",
        ),
        # Events that no row knows, in the sentence that all share.
        ("The system is going down for reboot NOW!", "taken out of service"),
        ("Normal  Evicted  4s  karpenter  Evicted pod: Underutilized", "took it, or a machine of it, away"),
        ("Runner interrupted due to worker preemption.", "took it, or a machine of it, away"),
        (
            "  Warning  Evict  vc-scheduler  Pod is evicted, because of preempt",
            "took it, or a machine of it, away",
        ),
        ("Status reason: Host EC2 (instance i-0f3aa12b) terminated.", "taken out of service: Status reason: Host EC2"),
        ("JobNodePreempted: The node was preempted.", "took it, or a machine of it, away"),
        ("Node ip-10-1-9-44 failed health check, job will be restarted", "taken out of service"),
        ("2026-10-02 11:40:29 Interrupted - Training job interrupted", "took it, or a machine of it, away"),
        ("shutdown-script: Received spot interruption notice", "took it, or a machine of it, away"),
        ("Job requeued, execution node n7 down", "taken out of service"),
        ("ERROR: Trial (Experiment 4) was terminated: allocation failed due to agent failure", "taken out of service"),
        # Reasons, in a field, an event and a row of a table.
        ("551203         grpo-32b  NODE_FAIL      0:0    n[11-14]", "taken out of service: 551203"),
        ("551203         grpo-32b    TIMEOUT      0:0    n[11-14]", "ended it at a time limit: 551203"),
        ("551203         grpo-32b  CANCELLED by 1001      0:15    n11", "ended from outside"),
        ("   JobState=PREEMPTED Reason=None Dependency=(null)", "took it, or a machine of it, away: JobState"),
        ("  reason: DeadlineExceeded", "ended it at a time limit: reason: DeadlineExceeded"),
        ("customJobs/221 current state: JOB_STATE_EXPIRED", "ended it at a time limit"),
        (
            "  Normal   EvictedDueToPodsReadyTimeout  2m5s  kueue-workload-controller  Exceeded the PodsReady timeout",
            "found no place for all of it in time",
        ),
        ("    Reason:                ReachedMaxRestarts", "started again as often as it may be"),
        ("The RayJob has passed the activeDeadlineSeconds. ActiveDeadlineSeconds: 7200", "ended it at a time limit"),
        ('"statusReason": "Job attempt duration exceeded timeout",', "ended it at a time limit"),
        ("Job held, execution host n7 down", "taken out of service"),
        ("Job 'raysubmit_Fqk2' was stopped", "Ray's job raysubmit_Fqk2 was stopped"),
        ('ERROR: Job failed (system failure): pods "runner-7" not found', "the CI job was ended from outside"),
        ("Quota 'NVIDIA_H100_GPUS' exceeded.  Limit: 8.0 in region us-central1.", "quota NVIDIA_H100_GPUS is used up"),
        ("error pulling image configuration: download failed: i/o timeout", "Docker cannot pull the image"),
        ("queued resource grpo-v5p was preempted", "took it, or a machine of it, away"),
        ("Job 120331.pbs01 deleted by rl@login2", "the job was ended from outside"),
        ("controller.py:303] Job 12 was cancelled by user", "the job was ended from outside"),
        ("2026-11-19 10:12:12 Stopped - Training job stopped", "the job was ended from outside"),
        ("      Phase:                 Aborted", "the job was ended from outside"),
        ("Slurm Job_id=99122 Name=grpo Ended, Run time 1-00:00:21, TIMEOUT, ExitCode 0", "ended it at a time limit"),
        ("  Warning  MaximumExecutionTimeExceeded  2s  kueue-workload-controller  x", "ended it at a time limit"),
        ("with exit code 50001: Batch no longer receives VM updates: VM preempted", "or a machine of it, away"),
        (
            "srun: error: timeout waiting for task launch, started 6 of 8 tasks",
            "Slurm could not start the step: timeout waiting for task launch, started 6 of 8 tasks",
        ),
        (
            "W1120 09:00:00.0 88 dynamic_rendezvous.py:1218] The node 'n7_88_0' has failed to send a keep-alive "
            "heartbeat to the rendezvous 'grpo' due to an error of type RendezvousTimeoutError.",
            "torchrun lost a node of the job ('n7_88_0')",
        ),
        (
            "\tError from slot1@gpu3.cl: Job has gone over disk limit of 100 GB.",
            "on hold on gpu3.cl: Job has gone over",
        ),
        ("✗ Managed job finished: 12 (status: CANCELLED).", "the job was ended from outside"),
        (
            "slurmstepd: error: *** JOB 71 ON n7 FAILED (non-zero exit code or other failure mode) ***",
            "job 71 as failed",
        ),
        ("   441203  gpu  grpo  ada PD  0:00  4 (launch failed requeued held)", "Slurm could not start the job"),
        (
            "Background srun 'ray-worker-1' died (pid=12). Attempting to exit.",
            "the step ray-worker-1, which keeps a node",
        ),
        ("[2026-05-11T03:12:45.123] error: Nodes n7 not responding, setting DOWN", "taken out of service"),
        ("[2026-05-11T03:12:45.130] requeue job JobId=99121 due to failure of node n7", "taken out of service"),
        ("[2026-05-11T03:12:45.130] Time limit exhausted for JobId=99121", "ended it at a time limit"),
        ("preempted JobId=12 has been requeued to reclaim resources for JobId=13", "took it, or a machine of it, away"),
        ("node/gpu-12 drained", "taken out of service"),
        ("Job 7711/grpo killed: maximum walltime exceeded", "ended it at a time limit"),
        ("OAR job 5512 was killed: walltime reached", "ended it at a time limit"),
        ("grpo.service: Failed with result 'timeout'.", "ended it at a time limit"),
        (
            "  Warning  Evict  3s  volcano  Evict pod grpo-worker-0 on node n7 because of reclaim",
            "or a machine of it, away",
        ),
        ("  Warning  PreemptScheduled  1s  kernel-monitor  Preempt scheduled for node n7", "or a machine of it, away"),
        ("  91333 h100 grpo ada F 3:12:11 4 (NodeDown)", "taken out of service"),
        ("Job 91221 terminated with state NODE_FAIL on node gpu07", "taken out of service"),
        ("grpo-worker-3   0/1   Evicted   0   41m", "took it, or a machine of it, away"),
        ("    Reason:    MPIJobEvicted", "took it, or a machine of it, away"),
        ("Node 77aa12 is dead because the health check failed.", "taken out of service"),
        ("Interrupting training job: spot capacity was reclaimed", "took it, or a machine of it, away"),
        (
            '"error": {"code": "U", "message": "Job canceled: node t7 was preempted"}',
            "took it, or a machine of it, away",
        ),
        ("gpu-13 kernel: Kernel panic - not syncing: Fatal machine check", "taken out of service"),
        ("instance i-0aa11bb failed deep health checks and is being replaced", "taken out of service"),
        ("pbs_mom;Job;5512.pbs;walltime limit exceeded, killing job", "ended it at a time limit"),
        ("slurmctld: Time limit exhausted for JobId=91333", "ended it at a time limit"),
        ("  reason: JobStatusCheckTimeoutExceeded", "ended it at a time limit"),
        ("Job exceeded some resource limit (walltime, mem, etc.). Job was aborted.", "a limit that it had asked"),
        ("    message: TrainJob is suspended", "was ended from outside"),
        (
            "012 (88.000.000) 2026-09-18 11:12:13 Job was held.\n\tTransfer output files failure at execution point x",
            "HTCondor put the job 88.000 on hold: Transfer output files failure",
        ),
        ("ORTE was unable to reliably start one or more daemons.", "mpirun lost a node of the job"),
        ("88123|grpo|NODE_FAIL|0:0|gpu-[011-014]|05:12:11", "taken out of service: 88123|grpo"),
        ("12  -  grpo  1x[H100:8][Spot]  2 hrs ago  55m 10s  3  FAILED_NO_RESOURCE", "found no place for all of it"),
        (" gpu_worker: NodeTerminated (ip: 10.0.3.7)", "taken out of service"),
        ("broker.err[0]: n7 (rank 7) has disconnected unexpectedly. Marking it LOST.", "taken out of service"),
        ("pdsh@head: worker-3: ssh exited with exit code 255", "taken out of service"),
        (
            '{"detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"i-0f3aa12b"}}',
            "or a machine of it, away",
        ),
        (
            "  Normal  Evict  3s  kai-scheduler  Pod rl/grpo-0 was preempted by workload rl/b",
            "or a machine of it, away",
        ),
        ('  "message": "Resources are insufficient in region: us-central1."', "found no place for all of it"),
        ("error: Prolog launch failure, JobId=88123", "could not start it on a node"),
        ("  Warning  UnexpectedAdmissionError  13s  kubelet  Allocate failed", "could not start it on a node"),
        ("'stoppedReason': \"CannotPullContainerError: pull image manifest\",", "cannot pull its image"),
        ("    reason: WorkloadRequeuingLimitExceeded", "started again as often as it may be"),
        ("Fri Sep 11: Signal <KILL> requested by user or administrator <ada>;", "LSF ended the job: ada sent it KILL"),
        ("    Phase:                 Failed", "counts it as failed, and does not say why"),
        (
            "slurmstepd: error: *** JOB 88 STEPD TERMINATED ON n7 AT 2026-09-11T03:12:11 DUE TO JOB NOT RUNNING ***",
            "on n7",
        ),
        ("Diagnostics: Container released on a *lost* node", "taken out of service"),
        ("n7 systemd[1]: grpo.service: Service reached runtime time limit. Stopping.", "ended it at a time limit"),
        ("State of this instance has been externally set to failed. Terminating instance.", "ended from outside"),
        ("Terminated (Max duration exceeded)", "ended it at a time limit"),
        ("Failed (Instance unreachable)", "taken out of service"),
        ("Job Status: TASK_LOST", "taken out of service"),
        ('{"EventStatus": "Scheduled", "EventType": "Preempt"}', "took it, or a machine of it, away"),
        ("failed       37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "Grid Engine ended the job at a limit"),
        ("client_loop: send disconnect: Broken pipe", "the ssh session broke off (Broken pipe)"),
        (
            "The job attribute PeriodicRemove expression 'JobStatus == 2 && time() > 9' evaluated to TRUE",
            "HTCondor ended the job by a policy (Remove): JobStatus == 2",
        ),
        (
            "The job attribute OnExitHold expression 'ExitCode =!= 0' evaluated to TRUE",
            "HTCondor ended the job by a policy (Hold): ExitCode =!= 0",
        ),
        ("Thu Nov 12 15:49:02: Unknown; unable to reach the execution host;", "LSF could not reach the machine"),
        ("Task's current input in-w7A:1731 hit its timeout of 86400s", "Modal ended the function at its time limit"),
        (
            'spot: {"action": "terminate", "time": "2026-11-18T10:24:11Z"}',
            "took the spot instance away (terminate, at 2026-11-18T10:24:11Z)",
        ),
        ("    Exit_status = 271", "PBS ended the job by SIGTERM"),
        ("Exit_status=-29 resources_used.cput=3", "PBS ended the job at its time limit"),
        (
            "Job supervisor actor failed to start within 900.0 seconds.",
            "no place for the job's entry point within 900.0",
        ),
        (
            "main.cc:483: received SIGTERM. Existing local drain request = None",
            "a node of the Ray cluster was asked to",
        ),
    ],
)
def test_what_ends_a_run_from_outside(line: str, says: str) -> None:
    found = finding(check, f"{STEPS}{line}\n")
    assert says in found.message
    assert found.fixes


def test_a_job_that_started_late_and_ended_well_has_started() -> None:
    late = "Job supervisor actor failed to start within 900.0 seconds.\n"
    assert findings(check, f"{late}{STEPS}Training completed.\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "WARNING scheduler.py:1212] Sequence group 12 is preempted by PreemptionMode.RECOMPUTE mode",
        "WARNING 03-02 12:00:00 request 31 was preempted by the scheduler of the node",
        "If the instance is preempted, training resumes from the last checkpoint.",
        "spot interruption handler installed",
        "the job may be preempted at any time",
        "0 instances were interrupted",
        "rank 3: worker thread of the node was interrupted",
        "KV blocks of the instance were evicted",
        "sample 12: status: ABORTED, finish_reason: abort",
        "rollout 4: Reason: Timeout of the sandbox, the reward is 0",
        "Reason: RewardTimeout",
        "wandb: run was stopped by the user",
        "the job was stopped if it exceeded the time limit",
        "tool call state=TIMED_OUT, trying again",
        "  Normal   Killing    1m    kubelet  Stopping container sidecar",
        "  Warning  FailedScheduling  20m  default-scheduler  0/41 nodes are available",
        "the job has reached its time",
        "reward job 7 reached deadline scheduling",
        "rollout step 12 was interrupted by the weight update",
        "Agent 12 terminated: max steps",
        "agent loop run was interrupted by update_weights, 12 of 64 aborted",
        "trajectory collector: generation task preempted by refit",
        "container tool_1: tool step was interrupted by the simulator",
        "Environment instance is terminated",
        "sandbox host pool-3 unreachable",
        "vLLM server instance 3 is unreachable, retrying",
        "Resumed from step 300: job 443 was preempted on 11-19",
        "Found a run that was interrupted at step 300, resuming",
        "background job cancelled",
        '  "status": "DEADLINE_EXCEEDED", "message": "the judge took too long"',
        "exit_reason: AgentTimeoutError",
        'env step 7: {"action": "stop", "time": "3.2"}',
        'tool call: {"action":"stop","time":"2026-11-18T10:24:11Z"}',
        '{"role": "assistant", "call": {"action": "terminate", "time": "2026-11-18T10:24:11Z"}}',
        "sync: unable to reach the execution host of the judge, trying again",
        # A search over parameters gives trials up, an order of an agent's customer has a state, history is no end.
        "trial 3 was stopped by ASHA",
        "Trial 7 stopped by the median stopping rule; best trial 2",
        "Status: Cancelled",
        "node rebooted 3 days ago",
        "the host gpu-07 was drained last week",
        "INFO graph: node 12 not responding to the tool call, retrying",
        "INFO replay: the time limit exhausted for job shop puzzle 7",
        "INFO mcts: the value of dead node 17 (depth 4) goes to its parent",
        "removed the edges of failed nodes from the graph",
        "Node gpu-7 is not responding to a ping (1 of 5)",
        "polling for compute.instances.preempted",
        "earlier attempt: job preempted jobid=12344",
        "node failure on n1 was simulated",
        "Killed (Sample too long)",
        "WARNING tool: ssh exited with exit code 255 in the agent's terminal",
        "episode 12: Job was aborted. The agent moves on",
        "(autoscaler +5m) Node 10.0.0.7 is being drained for idle termination.",
        "INFO: node n3 is dead because of its value; pruned",
        "failed to pull image acme/tools:3, using the cached one",
        "failed to pull image of sample 3",
        "agent 3 is dead because its health is 0",
        "RuntimeError: DataLoader worker (pid 25902) is killed by signal: Terminated. ",
        "(RolloutWorker pid=71) game client disconnected unexpectedly",
        "job 3 of the curriculum is cancelled: too easy",
        "finish_reason=LENGTH_CAPPED count=12",
        "stop_reason: length, exit_reason: max_turns_exceeded",
        "sandbox sb-3: terminated_reason: timeout_exceeded",
        "rollout manager: evicted due to staleness: 3 samples",
        "vLLM engine paused due to weight update",
        "srun: error: Timed out waiting for job step to complete",
        '"Eviction manager: attempting to reclaim" resourceName="ephemeral-storage"',
        "  Normal   Killing    1m    kubelet  Stopping container istio-proxy",
        "12  train  loss  0.3  OUT_OF_VOCAB",
        "INFO wandb: the job is suspended on the server and will sync later",
        "was my job preempted because the node failed?",
        "main.cc:483: received SIGTERM. Existing local drain request = reason: DRAIN_NODE_REASON_IDLE_TERMINATION",
    ],
)
def test_what_only_resembles_a_machine_that_was_taken_away(line: str) -> None:
    assert findings(check, f"{STEPS}{line}\n") == []


@pytest.mark.parametrize(
    "line",
    ["Normal  Evicted  4s  karpenter  Evicted pod: Empty", "run.sh: line 9: 4411 Terminated    vllm serve model"],
)
def test_what_is_taken_down_behind_a_run_that_came_to_its_end(line: str) -> None:
    assert findings(check, f"{HEALTHY}{line}\n") == []


ROWS = ("1234567  grpo-7b  gpu  CANCELLED by 1001  0:0", "1234568  grpo-7b  gpu  COMPLETED  0:0")


PODS = ("grpo-a-0   0/1   Evicted   0   3d", "grpo-b-0   1/1   Running   0   3h")


@pytest.mark.parametrize("rows", [ROWS, PODS, ROWS[::-1], (*ROWS, "1234569  sft-7b  gpu  PREEMPTED  0:0")])
def test_of_a_list_of_jobs_nobody_says_which_row_is_this_run(rows: tuple[str, ...]) -> None:
    assert findings(check, STEPS + "".join(f"{row}\n" for row in rows)) == []


def test_the_steps_of_one_job_are_rows_of_that_job() -> None:
    rows = "99  train  gpu  TIMEOUT  0:0\n99.batch  batch  CANCELLED  0:15\n99.0  python  CANCELLED  0:15\n"
    assert "ended it at a time limit: 99 " in finding(check, STEPS + rows).message


@pytest.mark.parametrize("head", ["", STEPS])
def test_a_local_raylet_that_died_is_no_worker(head: str) -> None:
    text = raised(
        "ray.exceptions.LocalRayletDiedError",
        "The task's local raylet died. Check raylet.out for more information.",
    )
    found = finding(check, head + text)
    assert "(the raylet) ended" in found.message
    assert "raylet.out" in found.fixes[0].commands[0]


@pytest.mark.parametrize(
    ("name", "message", "says"),
    [
        (
            "sagemaker.exceptions.UnexpectedStatusException",
            "Error for Training job grpo: Failed. Reason: CapacityError: Unable to provision requested capacity.",
            "found no place for all of it in time",
        ),
        ("airflow.exceptions.AirflowTaskTimeout", "Timeout, PID: 441", "ended it at a time limit"),
        (
            "botocore.exceptions.ClientError",
            "An error occurred (ExpiredToken) when calling the PutObject operation: The provided token has expired.",
            "takes the job's credentials no more",
        ),
    ],
)
def test_what_a_services_client_raises_of_the_job(name: str, message: str, says: str) -> None:
    assert says in finding(check, STEPS + raised(name, message)).message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RuntimeError", "the sandbox of step 7 failed. reason: TimeLimitExceeded"),
        ("RuntimeError", "could not read the shard\nnode gpu-07 is drained"),
    ],
)
def test_what_the_run_raises_itself_is_no_end_of_its_job(name: str, message: str) -> None:
    assert findings(check, STEPS + raised(name, message)) == []


def test_a_job_that_is_counted_as_failed_says_no_more_than_what_failed() -> None:
    failed = "  jobStatus: FAILED\n  message: 'Job entrypoint command failed with exit code 137'\n"
    assert [found.message for found in findings(check, STEPS + failed) if "counts it as failed" in found.message] == []


def test_a_token_that_was_renewed_is_no_finding() -> None:
    line = (
        "WARNING botocore: An error occurred (ExpiredToken) when calling PutObject: The provided token has expired.\n"
    )
    assert findings(check, STEPS + line + STEPS) == []


@pytest.mark.parametrize(
    "fails",
    ["FailedMount  9m  kubelet  MountVolume.SetUp failed for volume", "BackOff  9m  kubelet  Back-off pulling image"],
)
def test_a_pod_whose_first_start_failed_has_started(fails: str) -> None:
    event = f'  Warning  {fails} "data"\n'
    assert findings(check, event) != []
    assert findings(check, event + "  Normal  Started  7m  kubelet  Started container main\n") == []
    assert (
        findings(check, event + "  Normal  Scheduled  7m  default-scheduler  Successfully assigned rl/a to b\n") != []
    )


def test_a_machine_that_is_drained_behind_a_rank_that_left_by_itself() -> None:
    left = "E1121 01:35:20.918000 3256 api.py:1002] failed (exitcode: 7) local_rank: 1 (pid: 3264) of binary: python\n"
    assert findings(check, f"{STEPS}{left}node gpu-07 is drained\n") == []
    assert findings(check, f"{STEPS}node gpu-07 is drained\n") != []


def test_a_machine_that_was_taken_away_from_a_run_that_went_on() -> None:
    assert findings(check, f"{STEPS}The node n7 was preempted.\n{STEPS}") == []


def test_the_rest_of_a_step_ends_with_its_first_task() -> None:
    ended = "srun: error: n1: task 0: Killed\nsrun: Terminating job step 25.1\nsrun: error: n2: task 1: Terminated\n"
    result = triage_text(STEPS + ended)
    assert result.incident is not None and result.incident.node == "n1"
    assert "SIGKILL" in result.findings[0].message and "RLD603" not in [one.code for one in result.findings]


def test_the_actor_of_a_node_that_is_gone() -> None:
    node = (
        "The actor died because its node has died. Node Id: 3f\n"
        "\tthe actor's node was preempted: the machine was taken back\n"
    )
    text = raised("ray.exceptions.ActorDiedError", "The actor died unexpectedly before finishing this task.")
    found = finding(check, f"{text}\tclass_name: Rollout\n{node}")
    assert found.message.startswith("the actor Rollout died with its node: preempted: the machine was taken back")


# Ray tells of it only where nobody asked the node to end.
NODE_DEAD = (
    "(raylet) The node with node id: 9f and address: 192.0.2.2 and node name: r5n3 has been marked dead because the "
    "detector has missed too many heartbeats from it. This can happen when a \t(1) raylet crashes unexpectedly\n"
)
LOST = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. Node ID: 9f Worker IP "
    "address: 192.0.2.2 Worker port: 10012 Worker PID: 22183 Worker exit type: SYSTEM_ERROR\n"
)
CRASHED = "(RolloutWorker pid=22183, ip=192.0.2.2) *** SIGSEGV received at time=1763461331 on cpu 12 ***\n"


@pytest.mark.parametrize("died", [DIED, LOST], ids=["actor", "worker"])
def test_a_nodes_death_is_nearer_than_its_workers(died: str) -> None:
    # Ray notices it seconds late.
    for text in (NODE_DEAD + died, died + NODE_DEAD):
        assert finding(check, STEPS + text).message.startswith("Ray counts the node r5n3 (192.0.2.2) as dead")


@pytest.mark.parametrize("died", [DIED, LOST], ids=["actor", "worker"])
def test_a_worker_that_crashed_before_its_node_was_the_first(died: str) -> None:
    for text in (CRASHED + died, CRASHED + died + NODE_DEAD):
        found = finding(check, STEPS + text)
        assert found.message.endswith("(pid 22183 on 192.0.2.2) died of a crash in native code (SIGSEGV)")
        assert any("*** SIGSEGV" in one.text for one in found.evidence)
    other = CRASHED.replace("22183", "7")
    assert "died after RolloutWorker pid=7, on 192.0.2.2 had crashed" in finding(check, other + died).message


@pytest.mark.parametrize("died", [DIED, LOST], ids=["actor", "worker"])
def test_a_worker_that_was_lost_before_on_another_node_was_the_first(died: str) -> None:
    elsewhere = NODE_DEAD.replace("192.0.2.2", "192.0.2.9")
    assert "(pid 22183 on 192.0.2.2) died" in finding(check, STEPS + died + elsewhere).message
    assert finding(check, STEPS + elsewhere + died).message.startswith("Ray counts the node r5n3 (192.0.2.9)")


def test_a_node_whose_raylet_crashed() -> None:
    raylet = (
        "(raylet, ip=192.0.2.2) [2022-03-22 15:37:44,626 E 38 39] (raylet) logging.cc:321: *** SIGSEGV received at\n"
    )
    assert finding(check, STEPS + raylet + NODE_DEAD + DIED).message.endswith("as dead: its raylet crashed")


def test_a_node_of_which_ray_tells_the_identifier_alone() -> None:
    old = "The node with client ID 1eadc9db has been marked dead because the monitor has missed too many heartbeats\n"
    assert finding(check, STEPS + old).message.startswith("Ray counts a node as dead")
    assert findings(check, f"{STEPS}The sample has been marked dead because its reward is missing\n") == []


def test_a_job_that_was_evicted_and_ran_again_is_no_finding() -> None:
    evicted = "004 (31.000.000) 2026-11-20 10:11:12 Job was evicted.\n"
    assert findings(check, evicted + HEALTHY) == []
    assert findings(check, f"{evicted}{STEPS}100%|######| 60/60 [19:00<00:00, 19.81s/it]\n") == []


def test_an_exception_that_does_not_end_a_job_of_flux() -> None:
    assert findings(check, "1.2s: job.exception type=note severity=7 a remark\n" + HEALTHY) == []


def test_an_image_that_was_pulled_at_last_is_no_finding() -> None:
    failed = '  Warning  Failed  29s  kubelet  Failed to pull image "rl:1": i/o timeout\n'
    assert findings(check, failed + HEALTHY) == []


def test_lines_of_slurm_are_not_taken_for_one_that_was_folded() -> None:
    step = "srun: error: Task launch for StepId=645805.0 failed on node dgx-51: Job credential expired"
    assert len(step) == 90  # as wide as some terminals
    text = f"{step}\nsrun: error: Application launch failed: Job credential expired\nsrun: Job step aborted\n"
    assert finding(check, text).message == "Slurm could not start the step on dgx-51: Job credential expired"


def test_how_a_worker_ended_stands_in_the_evidence_behind_its_identifiers() -> None:
    # https://github.com/verl-project/verl/issues/1986
    text = (
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot "
        f"the problem, check the logs for the dead worker. RayTask ID: ffffa8 Worker ID: {'9' * 99} Node ID: {'5' * 9} "
        "Worker IP address: 10.0.0.9 Worker port: 38191 Worker PID: 870287 Worker exit type: SYSTEM_ERROR Worker exit "
        "detail: Worker exits unexpectedly by a signal. SystemExit is raised (sys.exit is called). Exit code: 1. The "
        "process receives a SIGTERM.\n"
    )
    found = finding(check, text)
    assert "by a signal (SIGTERM); the cause is not in this log" in found.message
    assert [one.text.partition(":")[0] for one in found.evidence][1] == "Worker exit type"
    assert found.evidence[1].text.endswith("The process receives a SIGTERM.")


QUESTIONS = (
    "Prompt: why does my job die (exit code 137)?",
    "why did it crash with exit code 139?",
    "Question: what does 'Killed (exit code 137)' mean?",
    "Prompt: the pod was evicted (exit code 137)?",
    "User: How do I restart a pod that was OOMKilled with exit code 137?",
)


@pytest.mark.parametrize("asked", QUESTIONS)
def test_who_asks_about_an_end_does_not_report_one(asked: str) -> None:
    said = triage_text(f"{STEPS}{asked}\n")
    assert said.findings == ()
    assert said.incident is not None and said.incident.kind == "unfinished"


@pytest.mark.parametrize("told", ["the job died (exit code 137)", "Did the node die? Worker died with exit code 137"])
def test_who_tells_of_an_end_does(told: str) -> None:
    assert triage_text(f"{STEPS}{told}\n").findings[0].code == "RLD901"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("Pod rl/grpo-3 is being terminated since node pool-b-4 is draining for an upgrade", "taken out of service"),
        ("node ip-10-1-7-3 was replaced after a failed deep health check", "taken out of service"),
        ("Watchdog: no heartbeat from host trn-17 for 600 seconds, tearing the job down", "taken out of service"),
        ("dgx05: shutting down because the GPU temperature crossed its critical threshold", "taken out of service"),
        ("EC2 is reclaiming spot instance i-0ab12cd34ef567890 in two minutes", "machine of it, away"),
        ("Your session was disconnected because the runtime was deallocated after 12 hours of use", "time limit"),
        ("Studio was put to sleep because the machine limit of 4 hours was reached", "time limit"),
        ("Machine psx-77 was shut down because the auto-shutdown time limit of 6 hours passed", "time limit"),
        ("Workload grpo-llama suspended: project rl went over its quota", "for want of quota"),
        ("Instance 1188231 was paused: credit exhausted for account 7711", "for want of quota"),
    ],
)
def test_what_was_ended_and_why_in_a_sentence(line: str, says: str) -> None:
    assert says in finding(check, f"{STEPS}{line}\n").message


@pytest.mark.parametrize(
    "line",
    [
        "INFO eval server was shut down after 12 requests because the evaluation ended",
        "WARNING worker 3: generation was interrupted because the token budget of 4096 was used",
        "INFO run was paused by the profiler for 3 s, token counts: 120",
        "INFO environment instance 7 was terminated after 30 minutes of use, a new one starts",
        "INFO function compute_score was replaced for tickets of kind A",
        "WARNING rollout 71 was stopped: its token budget is used up",
        "INFO session 4 of the browser tool was disconnected after 10 minutes of use",
        "INFO sandbox 71 was stopped by its termination policy (10 s), reward 0",
        "WARNING agent session was stopped because its step budget is spent",
        "INFO trainer: job queue paused since the balance of losses is off",
        "INFO run 12 of the benchmark stopped after the deadline",
        "INFO kernel cluster was terminated due to temperature sampling 1.0",
        "INFO job 3 of the dataloader stopped after its timeout",
    ],
)
def test_what_a_run_ends_itself_is_no_end_of_it(line: str) -> None:
    assert findings(check, f"{STEPS}{line}\n") == []


@pytest.mark.parametrize("end", ["Training finished.\n", "100%|██████████| 400/400 [1:30:12<00:00, 386.1s/it]\n"])
def test_what_is_taken_down_behind_the_last_step_ended_nothing(end: str) -> None:
    cancelled = "Job 90112 was cancelled by ada\n"
    assert "ended from outside" in finding(check, STEPS + cancelled).message
    assert findings(check, STEPS + end + cancelled) == []


@pytest.mark.parametrize(
    "text",
    [
        # ECS and Batch give this reason for every end of a task.
        '{"stoppedReason": "Essential container in task exited", "containers": [{"exitCode": 0, "name": "trainer"}]}',
        '  "status": "SUCCEEDED",\n  "statusReason": "Essential container in task exited"',
        # A pod whose job is done, one that another takes the place of, and one that waited for its secret.
        "2m  Normal  Completed  job/train  Job completed\n"
        "1m  Normal  Killing  pod/ray-head  Stopping container ray-head",
        "  Normal  Killing  2m  kubelet  Stopping container trainer\n"
        "  Normal  Started  1m  kubelet  Started container trainer",
        "  Warning  Failed  3m  kubelet  Error: ErrImagePull\n"
        "  Normal  Started  1m  kubelet  Started container trainer",
        '  "kill_timeout": 5.0,',
    ],
)
def test_what_is_recorded_of_a_job_that_ended_well_or_began_after_all(text: str) -> None:
    assert findings(check, f"{text}\n") == []


@pytest.mark.parametrize(
    ("expression", "how"),
    [
        ("JobStatus == 2 && (time() - EnteredCurrentStatus) > 172800", "at its time limit, by a policy (Remove)"),
        ("(RemoteWallClockTime - CumulativeSuspensionTime) > 86400", "at its time limit, by a policy (Remove)"),
        ("MemoryUsage > RequestMemory", "at its memory limit, by a policy (Remove)"),
        ("DiskUsage > 1000000", "at its disk limit, by a policy (Remove)"),
        ("NumJobStarts > 5", "by a policy (Remove)"),
        # How long it was held is no limit of its time; of two conditions nobody says which held.
        ("JobStatus == 5 && (time() - EnteredCurrentStatus) > 600", "by a policy (Remove)"),
        (
            "((time() - QDate) > 7200) || (JobStatus == 5 && (time() - EnteredCurrentStatus) > 600)",
            "by a policy (Remove)",
        ),
    ],
)
def test_a_policy_of_htcondor_says_of_which_limit(expression: str, how: str) -> None:
    removed = f"\tThe job attribute PeriodicRemove expression '{expression}' evaluated to TRUE\n"
    assert finding(check, STEPS + removed).message == f"HTCondor ended the job {how}: {expression}"
    assert findings(check, STEPS + removed.replace("TRUE", "UNDEFINED")) == []


@pytest.mark.parametrize(
    ("told", "how"),
    [
        (
            "FailureReason: InternalServerError: We encountered an internal error. Please try again.",
            "SageMaker failed by",
        ),
        (
            "sagemaker.exceptions.UnexpectedStatusException: Error for Training job rl: Failed. Reason: "
            "InternalServerError: We encountered an internal error.  Please try again.. Check troubleshooting guide",
            "SageMaker failed by itself",
        ),
        ("FailureReason: AlgorithmError: ExecuteUserScriptError:\nExitCode 1", "the job's own program failed"),
    ],
)
def test_why_sagemaker_says_that_a_job_failed(told: str, how: str) -> None:
    assert finding(check, f"{STEPS}{told}\n").message.startswith(how)
    assert findings(check, f"{told}\n{HEALTHY}") == []


def test_an_internal_error_of_a_store_is_not_sagemakers() -> None:
    said = "An error occurred (InternalError) when calling the PutObject operation: We encountered an internal error."
    assert findings(check, f"{STEPS}{said}\n") == []


@pytest.mark.parametrize(
    "said",
    ["InternalServerError: Error code: 503 - {'error': 'overloaded'}", "ClientError: no answer, retrying in 2 s"],
)
def test_what_a_client_says_of_its_server_is_no_jobs_end(said: str) -> None:
    assert findings(check, f"{STEPS}{said}\n") == []


def test_what_failed_in_the_log_goes_before_what_sagemaker_says_of_it() -> None:
    told = "FailureReason: AlgorithmError: ExecuteUserScriptError: ExitCode 1\n"
    assert [one.code for one in triage_text(STEPS + OUT_OF_MEMORY + told).findings] == ["RLD206"]


@pytest.mark.parametrize("where", [": ip=192.0.2.9, id=abc3bfd3", ""])
def test_a_raylet_that_ended_without_being_asked_to(where: str) -> None:
    told = (
        f"Raylet is terminated{where}. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user\n"
    )
    text = f"{STEPS}2026-02-24 04:30:19,237\tWARNING worker.py:1851 -- {told}"
    assert finding(check, text).message.startswith("Ray's own process on a node (the raylet) ended without being asked")
    assert finding(check, text + DIED).message.startswith("Ray's own process on a node")
    incident = triage_text(text).incident
    assert incident is not None and incident.node == ("192.0.2.9" if where else None)
    assert findings(check, f"{text}{HEALTHY}") == []


def test_an_actor_that_crashed_in_a_run_that_came_to_its_end() -> None:
    crashed = "(RewardActor pid=7) *** SIGSEGV received at time=1711500431 ***\n"
    assert triage_text(f"{STEPS}{crashed}{HEALTHY}").findings == ()
    assert triage_text(f"{STEPS}{crashed}{STEPS}").findings != ()


def test_an_agent_of_a_ci_that_is_lost() -> None:
    told = "This job was terminated because the agent running it was lost.\n"
    assert finding(check, STEPS + told).message.startswith("a machine of the job failed")
