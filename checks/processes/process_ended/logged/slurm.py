"""Slurm's words for a job that it ended, took back, refused or could not start (RLD603)."""

from __future__ import annotations

from functools import partial

from rldoctor.api import Fix, Role

from ....observed.endings import given_back, no_task_ended_before, unfinished, was_at_work, was_sound
from .. import check
from ..fixes import RESUME

# Before 14.11 the node stood at the end of the line.
_SLURM = (
    r"\*\*\* (?:JOB|STEP) (?P<job>[\d_+]+)(?:\.[\w+]+)?(?: \(\d+\))?"
    r"(?: ON (?P<node>\S+) CANCELLED AT | CANCELLED AT .{10,80}\*\*\* on (?P<node_2>[\w.-]+))"
)
_CANCELLED = "https://slurm.schedmd.com/scancel.html"
_ended = partial(check.signature, when=was_sound, silent=True)

_ended(
    " DUE TO PREEMPTION",
    pattern=_SLURM,
    says="Slurm preempted the job {job} for one of higher priority: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or use a partition or quality of service that is not preempted")),
    url="https://slurm.schedmd.com/preempt.html",
)
_ended(
    " DUE TO TIME LIMIT",
    pattern=_SLURM,
    says="Slurm ended the job {job} at its time limit: nothing in the run is at fault",
    fixes=(
        RESUME,
        Fix(
            title="or ask for more time, and for a signal early enough to save a checkpoint",
            commands=("sbatch --time=HOURS:00:00 --signal=B:USR1@600 ...",),
        ),
    ),
    url="https://slurm.schedmd.com/sbatch.html#OPT_time",
)
_ended(
    "has exceeded its time limit and its allocation has been revoked",
    pattern=r"Job (?P<job>\d+) has exceeded its time limit",
    says="Slurm ended the allocation {job} at its time limit: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or ask for more time", commands=("salloc --time=HOURS:00:00 ...",))),
    url="https://slurm.schedmd.com/salloc.html#OPT_time",
)
_ended(
    " DUE TO NODE FAILURE",
    pattern=_SLURM,
    says="Slurm ended the job {job} because the node {node} failed",
    fixes=(
        RESUME,
        Fix(
            title="leave the node out, and report it",
            commands=("sbatch --exclude={node} ...", "scontrol show node {node}"),
        ),
    ),
    url=_CANCELLED,
)
_ended(
    "srun: error: Node failure on ",
    "salloc: error: Node failure on ",
    pattern=r"Node failure on (?P<node>[\w.\[\],-]+)",
    says="the node {node} failed, and Slurm ended the step that ran on it",
    fixes=(RESUME, Fix(title="leave the node out, and report it", commands=("sbatch --exclude={node} ...",))),
    url=_CANCELLED,
)
_ended(
    " DUE TO JOB REQUEUE",
    pattern=_SLURM,
    says="Slurm took the job {job} from {node} back into the queue: it starts again from its beginning",
    fixes=(
        Fix(
            title="see why it was requeued (node, preemption, a person), and how often",
            commands=("sacct -j {job} --duplicates --format=JobID,State,NodeList,Reason",),
        ),
        Fix(title="resume from the last checkpoint when it starts again (SLURM_RESTART_COUNT is above 0)"),
    ),
    url="https://slurm.schedmd.com/sbatch.html#OPT_requeue",
)
check.signature(
    "Task launch for StepId=",
    "Application launch failed: ",
    "Unable to create step for job ",
    "Unable to confirm allocation for job ",
    "timeout waiting for task launch, ",
    pattern=r"(?P<why_2>timeout waiting for task launch, started \d+ of \d+ tasks)"
    r"|(?:launch failed|for job \d+|failed on node (?P<node>[\w.-]+)): (?P<why>[^\n]{3,120})",
    says="Slurm could not start the step[[ on {node}]]: {why}",
    fixes=(
        Fix(
            title="see what the node's daemon says; a credential is refused where clocks or munge keys differ",
            commands=("scontrol show node {node|NODE}", "munge -n | ssh {node|NODE} unmunge"),
        ),
        Fix(title="leave the node out", commands=("sbatch --exclude={node|NODE} ...",)),
    ),
    silent=True,
    url="https://slurm.schedmd.com/troubleshoot.html",
)
# submitit/core/job_environment.py
_ended(
    ": this job is timed-out.",
    ": this job is preempted.",
    pattern=r"Caught signal SIG\w{2,6} on (?P<node>[\w.-]+): this job is (?P<how>timed-out|preempted)\.",
    details=(r"Job not requeued because: (?P<why>[^\n]{3,120}?)\.\s*$",),
    says="Slurm ended the job on {node}, which submitit counts as {how}[[; it was not requeued: {why}]]",
    fixes=(
        RESUME,
        Fix(
            title="or let it be requeued: a callable with a checkpoint method, more time (timeout_min), more restarts "
            "(slurm_max_num_timeout)"
        ),
    ),
    url="https://github.com/facebookincubator/submitit/blob/main/docs/checkpointing.md",
)
check.signature(
    "salloc: Job allocation ",
    pattern=r"Job allocation (?P<job>\d+) has been revoked",
    # Who leaves gives it back.
    when=lambda case, event: was_at_work(case, event) and not given_back(event),
    silent=True,
    says="Slurm took the allocation {job} away: its time was over, or somebody cancelled it",
    fixes=(
        Fix(title="see which", commands=("sacct -j {job} --format=JobID,State,Elapsed,Timelimit,Reason",)),
        RESUME,
    ),
    url="https://slurm.schedmd.com/salloc.html",
)
# src/api/step_launch.c: srun misses its connections to a step's daemon.
_ended(
    "srun: error: Aborting, ",
    "aborting, io error with slurmstepd on node ",
    pattern=r"(?i)\baborting, (?P<why>[^\n]{3,80} node \d+)",
    says="srun gave the step up, it lost a node of it: {why} (counted from 0 in the step's list)",
    fixes=(
        Fix(title="see which node that is and whether it is down", commands=("sacct -j JOB --format=NodeList,State",)),
        RESUME,
    ),
    url="https://slurm.schedmd.com/srun.html",
)
check.signature(
    "srun: Force Terminated ",
    "srun: Job step aborted: Waiting up to ",
    "srun: forcing job termination",
    when=no_task_ended_before,
    says="Slurm's step was aborted: by a person, a limit, or because its allocation ended",
    fixes=(Fix(title="see which", commands=("sacct -j JOB --format=JobID,State,ExitCode,Elapsed,Timelimit",)), RESUME),
    role=Role.CASCADE,
    silent=True,
    general=True,
    url=_CANCELLED,
)
check.signature(
    "Munge encode failed: ",
    "Munge decode failed: ",
    pattern=r"Munge (?:en|de)code failed: (?P<why>[^\n]{3,160})",
    when=unfinished,
    says="Slurm's commands cannot prove who they are: munge says {why}",
    fixes=(
        Fix(
            title="have munge's daemon started on the node (in a container, its socket mounted), with one key and one "
            "time on all nodes",
            commands=("munge -n | unmunge", "systemctl status munge", "chronyc tracking"),
        ),
    ),
    silent=True,
    url="https://slurm.schedmd.com/authentication.html",
)
check.signature(
    "slurmstepd: error: execve(): ",
    "srun: fatal: Can not execute ",
    "slurmstepd: error: Failed to invoke task plugins: ",
    pattern=r"execve\(\): (?P<program>[^\n:]{1,200}): (?P<why>[^\n]{3,120})"
    r"|Can not execute (?P<program_2>[^\n]{1,200})|Failed to invoke task plugins: (?P<why_2>[^\n]{3,160})",
    when=unfinished,
    says="Slurm could not start {program|the task} on a node: {why|it is not there, or may not be executed}",
    fixes=(
        Fix(title="give a path that all nodes have (a shared file system), and let it be executable"),
        Fix(title="where it is Slurm's own copy of the script, the node lost its spool: report it, and leave it out"),
    ),
    silent=True,
    url="https://slurm.schedmd.com/srun.html",
)
_ended(
    " DUE TO JOB NOT ENDING WITH SIGNALS",
    " DUE TO JOB NOT RUNNING",
    pattern=r"\*\*\* (?:JOB|STEP) (?P<job>[\d_+]+)(?:\.[\w+]+)? STEPD TERMINATED ON (?P<node>\S+) AT ",
    says="processes of the job {job} on {node} could not be ended by a signal: they hang in a driver or a file system",
    fixes=(
        Fix(title="report the node: Slurm takes it out of service", commands=("scontrol show node {node}",)),
        RESUME,
    ),
    role=Role.CASCADE,
    url="https://slurm.schedmd.com/slurm.conf.html#OPT_UnkillableStepTimeout",
)
check.signature(
    " FAILED (non-zero exit code or other failure mode) ***",
    pattern=r"\*\*\* (?:JOB|STEP) (?P<job>[\d_+]+)(?:\.[\w+]+)? ON (?P<node>\S+) FAILED",
    when=no_task_ended_before,
    says="Slurm counts the job {job} as failed, with its script on {node}; why is in what its tasks wrote",
    fixes=(
        Fix(
            title="see how its tasks ended", commands=("sacct -j {job} --format=JobID,State,ExitCode,NodeList,Reason",)
        ),
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://slurm.schedmd.com/sacct.html",
)
check.signature(
    "(launch failed requeued held)",
    "JobHoldMaxRequeue",
    "(job requeued in held state)",
    when=unfinished,
    says="Slurm could not start the job, took it back into the queue and holds it there: {line}",
    fixes=(
        Fix(
            title="see which node failed to start it and why, leave it out, and release the job",
            commands=("scontrol show job JOB", "scontrol update JobId=JOB ExcNodeList=NODE", "scontrol release JOB"),
        ),
    ),
    silent=True,
    url="https://slurm.schedmd.com/job_reason_codes.html",
)
# A script that starts Ray's nodes as steps in the background watches over them.
check.signature(
    "Background srun '",
    pattern=r"^(?:\[ERROR\] )?Background srun '(?P<step>[\w.-]{1,80})' died",
    when=no_task_ended_before,
    says="the step {step}, which keeps a node of the Ray cluster, ended, and the job with it",
    fixes=(
        Fix(title="read that step's own output, and see whether its node failed", commands=("sacct -j JOB",)),
        RESUME,
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://slurm.schedmd.com/srun.html",
)
check.signature(
    "srun: error: Unable to allocate resources: ",
    "Batch job submission failed: ",
    "Job submit/allocate failed: ",
    pattern=r"(?:Unable to allocate resources|Batch job submission failed|Job submit/allocate failed): "
    r"(?P<why>[^\n]{3,120})",
    says="Slurm refused the job: {why}",
    fixes=(
        Fix(
            title="ask for what a partition of yours has: nodes, GPUs per node, time, account",
            commands=("sinfo -o '%P %l %D %G'", "sacctmgr show assoc user=$USER format=Account,Partition,QOS"),
        ),
    ),
    silent=True,
    url="https://slurm.schedmd.com/sbatch.html",
)
check.signature(
    " CANCELLED AT ",
    pattern=_SLURM,
    unless=(" DUE TO PREEMPTION", " DUE TO TIME LIMIT", " DUE TO NODE FAILURE", " DUE TO JOB REQUEUE"),
    when=no_task_ended_before,
    says="the job {job} was cancelled on {node}: by a person, a script, or by Slurm after another task had failed",
    fixes=(
        Fix(
            title="see who ended it, and how its tasks ended",
            commands=("sacct -j {job} --format=JobID,State,ExitCode,Reason",),
        ),
        RESUME,
    ),
    role=Role.CASCADE,
    url=_CANCELLED,
)
