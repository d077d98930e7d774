"""A Ray actor or worker died, and this log does not say why.

What it looks for
    Ray's reports of a death: ``ActorDiedError``, ``WorkerCrashedError``, the raylet's ``A worker died or was
    killed``, a lost node. They are consequences: any cause in the log goes before them. And what ended, or never
    started, the processes from outside, in the words of Slurm, Kubernetes, LSF and PBS (preemption, time limit, node
    failure, eviction, a refused job, an image that cannot be pulled), an interruption (Ctrl-C, SIGTERM), Ray's head
    that is gone, a runtime environment that Ray cannot build.

Why it hurts
    The driver learns only that the process is gone. What killed it (a signal, the kernel's memory killer, a crash in
    native code) stands in the worker's own log or in the kernel's.

How sure it is
    That the actor died is certain. Why is not known from these lines; the ones that Ray lists are guesses. A
    scheduler says why it ended a job, and then nothing in the run is at fault.

The fix and its cost
    Fetch the log of the worker that died and judge it together with this one. What a scheduler ended is submitted
    again and resumes from its last checkpoint.

References
    https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
    ``ray/exceptions.py`` (2.46): ``ActorDiedError``, ``WorkerCrashedError``, ``NodeDiedError``,
    ``RuntimeEnvSetupError``
    https://slurm.schedmd.com/preempt.html
    https://kubernetes.io/docs/concepts/scheduling-eviction/
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, Kind, LogEvent, Role

from ..observed.endings import unfinished

check = Check("RLD603", "ray-actor-died", __doc__, kind=Kind.DEATH)


@check.logged(
    "The actor died unexpectedly before finishing this task",
    "The actor is dead because its worker process has died",
    "A worker died or was killed while executing a task by an unexpected system error",
    "The worker died unexpectedly while executing this task",
    "The actor died because its node has died",
    "The task's local raylet died",
    role=Role.CASCADE,
)
def death_recorded(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A process that Ray watched is gone."""
    name = event.search(r"class_name: (\S+)")
    detail = event.search(r"Worker exit detail: ([^\n]{1,160}?)(?:\.\s|$)")
    lost = event.search(r"the actor's node was (?:terminated (?:un)?expectedly|preempted): ([^\n]{1,160})")
    pid = event.search(r"\b(?:Worker PID|pid): (\d+)")
    address = event.search(r"\b(?:Worker IP address|ip): ([\d.]*\d)")
    where = f" (pid {pid[1]}{f' on {address[1]}' if address else ''})" if pid else ""
    log = f"/tmp/ray/session_latest/logs/worker-*-{pid[1]}.err" if pid else "/tmp/ray/session_latest/logs/worker-*.err"
    node = " on that node" if address else ""
    with_node = event.search(r"The actor died because its node has died")
    how = " with its node" if with_node else ""
    said = lost or detail
    yield check.finding(
        f"the {f'actor {name[1]}' if name else 'worker'}{where} died{how}"
        f"{f': {said[1]}' if said else ''}; the cause is not in this log",
        fixes=(
            Fix(title=f"read the dead worker's own log{node} and judge it too", commands=(f"rldoctor triage {log}",)),
            Fix(
                title=f"see whether the kernel killed it{node}",
                commands=("dmesg -T | grep -i -E 'killed process|out of memory'",),
            ),
        ),
        url="https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html",
    )


check.signature(
    "has been marked dead because ",
    # Ray 1 tells the address alone.
    pattern=r"and (?:address: (?P<address>\S+) and node name|ip): (?P<node>[\w.-]+) has been marked dead because "
    r"(?:the detector has missed too many heartbeats|(?P<why>[^\n]{3,160}))",
    when=unfinished,
    says="Ray counts the node {node}[[ ({address})]] as dead: [[{why}||it was not heard of any more; why is not in "
    "this log]]",
    fixes=(
        Fix(title="see on that node whether it, its raylet or its network is gone", commands=("ray status",)),
        Fix(title="see whether the kernel killed Ray there", commands=("dmesg -T | grep -i -E 'killed process|oom'",)),
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
)
check.signature(
    "has mistakenly been marked as dead by the GCS",
    when=unfinished,
    says="Ray's head took a node for dead that lived: its raylet did not answer in time and ended itself",
    fixes=(
        Fix(title="see what kept that node from answering: its processors, memory and network", commands=("top",)),
        Fix(
            title="where it was only busy, let the head wait longer (set it where the head is started)",
            commands=("export RAY_health_check_failure_threshold=20", "ray start --head ..."),
        ),
    ),
    silent=True,
    url="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
)


# Ray hands an exception over to the caller; what it carries is judged by itself.
check.passes_on(
    "The actor died because of an error raised in its creation task",
    "ray.exceptions.RayActorError",
    "ray.exceptions.ActorDiedError",
    "ray.exceptions.ActorUnavailableError",
)


def _nothing_failed_before(case: Case, event: LogEvent) -> bool:
    """Whether the job was sound until it was ended: what failed by itself before may have left it waiting."""
    root = event.run.root
    return root is None or "Signal" in root.type or (root.source == event.source and root.line > event.number)


def _no_task_ended_before(case: Case, event: LogEvent) -> bool:
    """Whether it is the first that is said of an end: Slurm cancels a step of which a task has failed, too."""
    ended = (one for one in event.run.failures if one.source == event.source and one.line < event.number)
    return _nothing_failed_before(case, event) and not any(one.type == "exit code" for one in ended)


_RESUME = Fix(
    title="submit the job again (Slurm: --requeue) and resume from the last checkpoint; save often enough that little "
    "is lost"
)
_MORE_WALLTIME = (_RESUME, Fix(title="or ask for more time", commands=("qsub -l walltime=HOURS:00:00 ...",)))
_SLURM = r"\*\*\* (?:JOB|STEP) (?P<job>[\d._+]+)(?: \(\d+\))? ON (?P<node>\S+) CANCELLED AT "
_EVICTION = "https://kubernetes.io/docs/concepts/scheduling-eviction/"
_CANCELLED = "https://slurm.schedmd.com/scancel.html"

check.signature(
    " DUE TO PREEMPTION",
    pattern=_SLURM,
    when=_nothing_failed_before,
    says="Slurm preempted the job {job} for one of higher priority: nothing in the run is at fault",
    fixes=(_RESUME, Fix(title="or use a partition or quality of service that is not preempted")),
    silent=True,
    url="https://slurm.schedmd.com/preempt.html",
)
check.signature(
    " DUE TO TIME LIMIT",
    pattern=_SLURM,
    when=_nothing_failed_before,
    says="Slurm ended the job {job} at its time limit: nothing in the run is at fault",
    fixes=(
        _RESUME,
        Fix(
            title="or ask for more time, and for a signal early enough to save a checkpoint",
            commands=("sbatch --time=HOURS:00:00 --signal=B:USR1@600 ...",),
        ),
    ),
    silent=True,
    url="https://slurm.schedmd.com/sbatch.html#OPT_time",
)
check.signature(
    " DUE TO NODE FAILURE",
    pattern=_SLURM,
    when=_nothing_failed_before,
    says="Slurm ended the job {job} because the node {node} failed",
    fixes=(
        _RESUME,
        Fix(
            title="leave the node out, and report it",
            commands=("sbatch --exclude={node} ...", "scontrol show node {node}"),
        ),
    ),
    silent=True,
    url=_CANCELLED,
)
check.signature(
    "srun: error: Node failure on ",
    "salloc: error: Node failure on ",
    pattern=r"Node failure on (?P<node>[\w.\[\],-]+)",
    when=_nothing_failed_before,
    says="the node {node} failed, and Slurm ended the step that ran on it",
    fixes=(_RESUME, Fix(title="leave the node out, and report it", commands=("sbatch --exclude={node} ...",))),
    silent=True,
    url=_CANCELLED,
)
check.signature(
    " DUE TO JOB REQUEUE",
    pattern=_SLURM,
    when=_nothing_failed_before,
    says="Slurm took the job {job} from {node} back into the queue: it starts again from its beginning",
    fixes=(
        Fix(
            title="see why it was requeued (node, preemption, a person), and how often",
            commands=("sacct -j {job} --duplicates --format=JobID,State,NodeList,Reason",),
        ),
        Fix(title="resume from the last checkpoint when it starts again (SLURM_RESTART_COUNT is above 0)"),
    ),
    silent=True,
    url="https://slurm.schedmd.com/sbatch.html#OPT_requeue",
)
check.signature(
    "Task launch for StepId=",
    "Application launch failed: ",
    "Unable to create step for job ",
    "Unable to confirm allocation for job ",
    pattern=r"(?:launch failed|for job \d+|failed on node (?P<node>[\w.-]+)): (?P<why>[^\n]{3,120})",
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
check.signature(
    "slurmstepd: error: execve(): ",
    pattern=r"execve\(\): (?P<program>[^\n:]{1,200}): (?P<why>[^\n]{3,120})",
    when=unfinished,
    says="Slurm could not start {program} on a node: {why}",
    fixes=(
        Fix(title="give a path that all nodes have (a shared file system), and let it be executable"),
        Fix(title="where it is Slurm's own copy of the script, the node lost its spool: report it, and leave it out"),
    ),
    silent=True,
    url="https://slurm.schedmd.com/srun.html",
)
check.signature(
    " DUE TO JOB NOT ENDING WITH SIGNALS",
    pattern=r"\*\*\* (?:JOB|STEP) (?P<job>[\d._+]+) STEPD TERMINATED ON (?P<node>\S+) AT ",
    when=_nothing_failed_before,
    says="processes of the job {job} on {node} could not be ended by a signal: they hang in a driver or a file system",
    fixes=(
        Fix(title="report the node: Slurm takes it out of service", commands=("scontrol show node {node}",)),
        _RESUME,
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://slurm.schedmd.com/slurm.conf.html#OPT_UnkillableStepTimeout",
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
    when=_no_task_ended_before,
    says="the job {job} was cancelled on {node}: by a person, a script, or by Slurm after another task had failed",
    fixes=(
        Fix(
            title="see who ended it, and how its tasks ended",
            commands=("sacct -j {job} --format=JobID,State,ExitCode,Reason",),
        ),
        _RESUME,
    ),
    role=Role.CASCADE,
    url=_CANCELLED,
)
_LSF = "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bhist-description"
check.signature(
    "TERM_RUNLIMIT: job killed",
    "TERM_DEADLINE: job killed",
    "TERM_CPULIMIT: job killed",
    when=_nothing_failed_before,
    says="LSF ended the job at its time limit: nothing in the run is at fault",
    fixes=(_RESUME, Fix(title="or ask for more time", commands=("bsub -W HOURS:00 ...",))),
    silent=True,
    url=_LSF,
)
check.signature(
    "TERM_PREEMPT: job killed",
    when=_nothing_failed_before,
    says="LSF preempted the job for one of higher priority: nothing in the run is at fault",
    fixes=(_RESUME, Fix(title="or use a queue that is not preempted")),
    silent=True,
    url=_LSF,
)
check.signature(
    "TERM_OWNER: job killed",
    "TERM_ADMIN: job killed",
    "TERM_FORCE_OWNER: job killed",
    "TERM_FORCE_ADMIN: job killed",
    "TERM_REQUEUE_OWNER: job killed",
    "TERM_REQUEUE_ADMIN: job killed",
    "TERM_LOAD: job killed",
    "TERM_WINDOW: job killed",
    "TERM_PROCESSLIMIT: job killed",
    "TERM_THREADLIMIT: job killed",
    "TERM_SWAP: job killed",
    "TERM_EXTERNAL_SIGNAL: job killed",
    pattern=r"TERM_\w+: job (?P<how>killed [^\n.]{3,120})",
    when=_nothing_failed_before,
    says="LSF ended the job: {how}",
    fixes=(_RESUME, Fix(title="see who or what ended it", commands=("bhist -l JOB",))),
    silent=True,
    url=_LSF,
)
check.signature(
    "=>> PBS: job killed: walltime ",
    pattern=r"walltime (?P<used>\d+) exceeded limit (?P<limit>\d+)",
    when=_nothing_failed_before,
    says="PBS ended the job at its time limit of {limit} s (walltime): nothing in the run is at fault",
    fixes=_MORE_WALLTIME,
    silent=True,
    url="https://openpbs.org",
)
# Torque's and Moab's letters, which people keep with the output.
check.signature(
    "Job exceeded its walltime limit",
    "job exceeded wallclock limit",
    when=_nothing_failed_before,
    says="PBS ended the job at its time limit: nothing in the run is at fault",
    fixes=_MORE_WALLTIME,
    silent=True,
    url="https://openpbs.org",
)
check.signature(
    "job preempted (",
    pattern=r"(?m)^\s*job preempted \((?P<why>[^\n)]{3,80})\)",
    when=_nothing_failed_before,
    says="PBS preempted the job ({why}): nothing in the run is at fault",
    fixes=(_RESUME, Fix(title="see what the server recorded", commands=("tracejob JOB", "qstat -xf JOB"))),
    silent=True,
    url="https://openpbs.org",
)
check.signature(
    "=>> PBS: job killed: ",
    unless=("job killed: walltime ", "job killed: mem ", "job killed: vmem "),
    pattern=r"(?m)^\s*=>> PBS: job killed: (?P<why>[^\n]{3,160})",
    when=_nothing_failed_before,
    says="PBS ended the job: {why}",
    fixes=(_RESUME, Fix(title="see what the server recorded", commands=("tracejob JOB", "qstat -xf JOB"))),
    silent=True,
    url="https://openpbs.org",
)
check.signature(
    "Cluster is preempted or failed",
    when=_nothing_failed_before,
    says="SkyPilot's cluster was preempted or failed, and the managed job starts again on another",
    fixes=(
        Fix(title="resume from the last checkpoint, kept in a mounted bucket"),
        Fix(title="or use machines that are not preempted (use_spot: false)", commands=("sky jobs queue",)),
    ),
    silent=True,
    url="https://docs.skypilot.co/en/latest/examples/managed-jobs.html",
)
check.signature(
    "death signal, shutting down workers",
    "multiprocessing.api.SignalException: Process ",
    "*** SIGTERM received at time=",
    details=(r"Received (?P<number>\d+) death signal", r"got signal: (?P<number>\d+)"),
    says="the run was terminated (signal {number|15}): by a scheduler, a person or a script",
    fixes=(
        Fix(
            title="see what the scheduler says of the job (time limit, preemption, memory), and whether "
            "another node failed"
        ),
        _RESUME,
    ),
    role=Role.CASCADE,
    url="https://pytorch.org/docs/stable/elastic/agent.html",
)
check.signature(
    "KeyboardInterrupt",
    when=lambda case, event: event.exception is not None and event.exception.chain[0].type == "KeyboardInterrupt",
    details=(r"KeyboardInterrupt: (?P<sent>terminated)",),
    says="the run was interrupted[[ ({sent}: SIGTERM)|| (Ctrl-C, SIGINT)]]: by a person, a script or a scheduler",
    fixes=(
        Fix(
            title="if nobody meant to: see what else ran in that session, and start it so that it outlives the "
            "terminal (nohup, tmux, a batch job)"
        ),
        Fix(
            title="if it stood still before: the frames show where; next time ask the living run",
            commands=("rldoctor hang",),
        ),
        _RESUME,
    ),
    role=Role.CASCADE,
    url="https://docs.python.org/3/library/exceptions.html#KeyboardInterrupt",
)
check.signature(
    "Preempted in order to admit critical pod",
    "reason: Preempting",
    "reason: Preempted",
    "reason: PreemptionByScheduler",
    "reason: DeletionByTaintManager",
    "reason: EvictionByEvictionAPI",
    "TaintManagerEviction",
    says="Kubernetes ended the pod: {line}",
    fixes=(_RESUME, Fix(title="or give the job a higher priority class")),
    silent=True,
    url=_EVICTION,
)
# The scheduler's event has named the pod that takes the place in three ways since 1.20.
check.signature(
    "Preempted by ",
    pattern=r"Preempted by (?:a pod|pod \S{1,80}|[\w.-]{1,253}/[\w.-]{1,253})(?: on node (?P<node>[\w.-]+))",
    says="Kubernetes ended the pod on {node}: it was preempted for one of higher priority, nothing in the run is at "
    "fault",
    fixes=(_RESUME, Fix(title="or give the job a higher priority class")),
    silent=True,
    url=_EVICTION,
)
check.signature(
    "Job was active longer than specified deadline",
    "Pod was active on the node longer than the specified deadline",
    says="Kubernetes ended the pod at its deadline: {line}",
    fixes=(_RESUME, Fix(title="or give the job a longer activeDeadlineSeconds")),
    silent=True,
    url="https://kubernetes.io/docs/concepts/workloads/controllers/job/",
)
check.signature(
    "Usage of EmptyDir volume ",
    pattern=r"Usage of EmptyDir volume \\?\"(?P<volume>[^\"\\]+)\\?\" exceeds the limit \\?\"(?P<limit>[^\"\\]+)",
    says="Kubernetes evicted the pod: its volume {volume} holds more than the {limit} of its limit",
    fixes=(
        Fix(title="raise the sizeLimit of that emptyDir, or write less there (checkpoints, caches, Ray's session)"),
        _RESUME,
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
)
check.signature(
    "The node was low on resource: ",
    unless=("resource: memory", "resource: ephemeral-storage"),
    pattern=r"The node was low on resource: (?P<what>[\w./-]{1,60})",
    says="Kubernetes evicted the pod: its node was low on {what}",
    fixes=(_RESUME, Fix(title="see who uses it on that node", commands=("kubectl describe node NODE",))),
    silent=True,
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
)
check.signature(
    "The node had condition: [",
    pattern=r"The node had condition: \[(?P<what>\w{3,60})\]",
    says="Kubernetes evicted the pod: its node was in {what}",
    fixes=(_RESUME, Fix(title="see what fills that node", commands=("kubectl describe node NODE",))),
    silent=True,
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
)
check.signature(
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "MountVolume.SetUp failed for volume",
    "Unable to attach or mount volumes",
    "Failed to create pod sandbox",
    when=unfinished,
    says="Kubernetes could not start the container: {line}",
    fixes=(
        Fix(
            title="correct what the event names (a secret, a config map, a volume, a command), or leave it out",
            commands=("kubectl describe pod POD",),
        ),
    ),
    silent=True,
    url="https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/",
)
check.signature(
    "failed liveness probe, will be restarted",
    pattern=r"Container (?P<name>\S{1,80}) failed liveness probe",
    says="Kubernetes ended the container {name}: it did not answer its liveness probe",
    fixes=(
        Fix(title="give it longer (initialDelaySeconds, failureThreshold): loading a model takes minutes"),
        Fix(title="read what it did before", commands=("kubectl logs POD --previous",)),
    ),
    role=Role.CASCADE,
    url="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
)
check.signature(
    "Failed to pull image ",
    "Back-off pulling image ",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "Failed to apply default image tag",
    details=(r"(?:[Ff]ailed to pull|Back-off pulling|apply default) image (?:tag )?\\?\"(?P<image>[^\"\\]+)",),
    when=unfinished,
    says="Kubernetes cannot pull the image[[ {image}]]: the run has not started",
    fixes=(
        Fix(title="correct the image's name and tag, or give the pod the registry's credentials (imagePullSecrets)"),
        Fix(title="see what the registry answered", commands=("kubectl describe pod POD",)),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/containers/images/",
)
check.signature(
    "NodeNotReady",
    " which was running pod ",
    "NodeLost",
    "NodeControllerEviction",
    details=(r"\bNode (?P<node>[\w.-]+) (?:status is now|is not ready|was unresponsive|which was running pod)",),
    says="the node[[ {node}]] of the pod is not ready: Kubernetes ends what runs on it",
    fixes=(_RESUME, Fix(title="see what ails the node", commands=("kubectl describe node {node|NODE}",))),
    silent=True,
    url="https://kubernetes.io/docs/concepts/architecture/nodes/",
)
check.signature(
    "in response to imminent node shutdown",
    "Pod was rejected as the node is shutting down",
    "NodeShutdown",
    says="the node of the pod was shut down, and Kubernetes ended the pod with it: nothing in the run is at fault",
    fixes=(_RESUME, Fix(title="see who shut it down (maintenance, an autoscaler, a spot machine taken back)")),
    silent=True,
    url="https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/",
)
check.signature(
    "has reached the specified backoff limit",
    "BackoffLimitExceeded",
    says="Kubernetes started the pod as often as it may, and it failed each time: the cause is in the pods' logs",
    fixes=(Fix(title="read the log of a pod that failed", commands=("kubectl logs POD --previous",)),),
    role=Role.CASCADE,
    url="https://kubernetes.io/docs/concepts/workloads/controllers/job/",
)
check.signature(
    "GCS may have been killed",
    "gcs_server.out for more details",
    pattern=r"(?s)Failed to connect to GCS",
    says="the head of the Ray cluster is gone: its GCS answers no more",
    fixes=(
        Fix(
            title="read on the head node why it ended (`ray stop`, a scheduler, the memory killer), and "
            "start the cluster again",
            commands=("tail -50 /tmp/ray/session_latest/logs/gcs_server.out", "ray stop && ray start --head"),
        ),
    ),
    url="https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html",
)

_RUNTIME_ENV = "https://docs.ray.io/en/latest/ray-core/handling-dependencies.html"
check.signature(
    "Failed to set up runtime environment",
    "Failed to setup runtime environment",
    "associated runtime env failed to be created",
    unless=("exceeds the maximum size of",),
    details=(r"(?m)^(?:\S+\.)?(?!RuntimeEnvSetupError)(?P<error>\w+(?:Error|Exception): [^\n]{1,200})$",),
    says="Ray could not build the runtime environment of an actor or job[[: {error}]]",
    fixes=(
        Fix(
            title="see what the installation or the copy said, on the node that failed",
            commands=("cat /tmp/ray/session_latest/logs/runtime_env_setup-*.log",),
        ),
        Fix(title="or leave pip, conda and working_dir out of runtime_env, and use an environment that all nodes have"),
    ),
    url=_RUNTIME_ENV,
)
check.signature(
    "exceeds the maximum size of ",
    pattern=r"Package size \((?P<size>[^)]+)\) exceeds the maximum size of (?P<limit>[\d.]+ ?\w+)",
    says="the working directory that Ray copies to the nodes has {size}, and {limit} is the most",
    fixes=(
        Fix(
            title='leave data, checkpoints and .git out: runtime_env={"excludes": ["/data", "/ckpts", ".git"]}, '
            "or start from a folder that holds the code alone"
        ),
    ),
    url=_RUNTIME_ENV,
)
