"""A limit of the host or container is below what a run needs: open files, processes, locked memory, disk, memory.

What it looks for
    The soft limit of open files, the user's and the cgroup's limit of processes, the limit of locked memory where
    InfiniBand will want it, free space where temporary files and the model cache go, and a cgroup that allows much less
    memory than the machine has. In a log: too many open files, threads and processes that do not start, memory that may
    not be locked, and a full disk (of a checkpoint: RLD610).

Why it hurts
    ``Too many open files`` from Ray's workers or from a DataLoader in the middle of an epoch; ``can't start new
    thread`` or ``Resource temporarily unavailable`` when eight ranks start their threads; ``ibv_create_cq failed`` for
    want of locked memory; ``No space left on device`` at the first checkpoint or while Ray spills; and a kill by the
    kernel that leaves no message.

How sure it is
    Each limit is read, how much a run takes is an estimate. Open files: Ray asks for 65535; up to 1024 soft, with a
    hard limit that does not allow more, is a warning where Ray is installed, and where the hard limit is higher a note,
    since Ray and vLLM's server raise the soft one themselves. Processes: below 4096 for eight GPUs, in proportion for
    fewer. Disk: below 5 GiB, where one checkpoint or Ray's spilling fills it, below 1 GiB an error, and for Ray above
    95% used. Memory: a cgroup below 8 GiB beside a GPU.

The fix and its cost
    ``ulimit -n 65536`` in the shell that starts the run (of Ray: that runs ``ray start``); container limits when the
    container is started; another directory through the variable that names it.

References
    https://docs.ray.io/en/latest/cluster/vms/user-guides/large-cluster-best-practices.html
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html
    https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/utils/__init__.py
    https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, Fix, LogEvent, NotApplicable, NotChecked, Reach, Severity, find
from rldoctor.api.facts import Disk, Host

from ..observed.logged_imports import link_of, weight

check = Check("RLD114", "host-limit-too-low", __doc__)

OPEN_FILES_ADVISED = 65535
OPEN_FILES_LOW = 1024
PROCESSES_PER_GPU = 512
LOCKED_MEMORY_LOW = 64 << 20
DISK_LOW = 5 << 30
DISK_FULL = 1 << 30
MEMORY_LOW = 8 << 30
# What moves a role's files elsewhere.
_VARIABLES = {"temp": "TMPDIR", "hf-cache": "HF_HOME", "ray": "RAY_TMPDIR"}
# Ray's file system monitor refuses to spill above this share of a disk.
_RAY_FULL = 0.95


@check.declared(needs=["host.open_files"])
def few_open_files(case: Case) -> Iterator[Finding | Reach]:
    """The soft limit of open files is a login shell's default."""
    assert case.host is not None and case.host.open_files is not None
    soft, hard = case.host.open_files, case.host.open_files_hard
    if soft <= OPEN_FILES_LOW:
        raised = hard is None or hard >= OPEN_FILES_ADVISED
        ray = case.packages is not None and find(case.packages, "ray") is not None
        yield _limit(
            f"{soft} open files are allowed (hard limit {'none' if hard is None else hard}), and Ray asks for"
            f" {OPEN_FILES_ADVISED}",
            Severity.WARNING if ray and not raised else Severity.NOTE,
            f"open files: soft {soft}, hard {'unlimited' if hard is None else hard}",
            "ulimit -n 65536" if raised else "docker run --ulimit nofile=65536:65536 ...",
            "raise the limit in the shell that starts the run, and where ray start runs",
        )
    yield Reach(f"{soft} open files")


@check.declared(needs=["host"])
def few_processes(case: Case) -> Iterator[Finding | Reach]:
    """The user or the cgroup may not have as many threads as the ranks start."""
    assert case.host is not None
    limits = [limit for limit in (case.host.processes, case.host.pids_limit) if limit is not None]
    devices = len(case.gpus.devices) if case.gpus is not None else 0
    if limits and case.gpus is None:
        raise NotChecked("for how many devices there would be ranks is not known", how="--assume machine.json")
    if not limits or not devices:
        raise NotApplicable("no limit of processes, or no device whose ranks would need them")
    needed = max(1024, PROCESSES_PER_GPU * devices)
    if min(limits) < needed:
        yield _limit(
            f"{min(limits)} processes and threads are allowed, and ranks on {devices} GPUs start about {needed}",
            Severity.WARNING,
            f"processes: {min(limits)}",
            "docker run --pids-limit=-1 ..." if case.host.pids_limit == min(limits) else "ulimit -u unlimited",
            "raise the limit of processes",
        )
    yield Reach(f"{min(limits)} processes")


@check.declared(needs=["host.locked_memory", "nodes"])
def little_locked_memory(case: Case) -> Iterator[Finding | Reach]:
    """InfiniBand registers memory that must be locked, and a run over several nodes is likely to use it."""
    assert case.host is not None and case.host.locked_memory is not None and case.nodes is not None
    if case.nodes < 2 or case.variable("NCCL_IB_DISABLE") == "1":
        raise NotApplicable("one node, or InfiniBand is switched off")
    if case.host.locked_memory < LOCKED_MEMORY_LOW:
        yield _limit(
            f"{case.host.locked_memory >> 10} KiB of locked memory are allowed, and NCCL over InfiniBand needs them"
            " unlimited",
            Severity.WARNING,
            f"locked memory: {case.host.locked_memory >> 10} KiB",
            "docker run --ulimit memlock=-1 ..." if case.host.container else "ulimit -l unlimited",
            "lift the limit of locked memory",
        )
    yield Reach(f"{case.host.locked_memory >> 20} MiB of locked memory")


@check.declared(needs=["host"])
def little_disk(case: Case) -> Iterator[Finding | Reach]:
    """A file system that a run writes to is nearly full."""
    assert case.host is not None
    if not case.host.disks:
        raise NotChecked("no file system of this host answered")
    ray = case.packages is not None and find(case.packages, "ray") is not None
    seen: set[tuple[int, int]] = set()
    for disk in case.host.disks:
        if disk.free < DISK_LOW and (disk.total, disk.free) not in seen:
            seen.add((disk.total, disk.free))  # two roles on one file system are one finding
            yield _disk(disk)
        elif disk.role == "ray" and ray and disk.free < (1 - _RAY_FULL) * disk.total and not seen:
            yield _limit(
                f"{disk.path} is more than 95% full, and there Ray refuses to spill objects",
                Severity.WARNING,
                f"{disk.free >> 30} of {disk.total >> 30} GiB free",
                "export RAY_TMPDIR=/path/with/space",
                "free space, or keep Ray's files elsewhere",
                source=disk.path,
            )
    yield Reach(", ".join(f"{disk.role}: {disk.free >> 30} GiB free" for disk in case.host.disks))


def _disk(disk: Disk) -> Finding:
    variable = _VARIABLES.get(disk.role)
    elsewhere = f"export {variable}=/path/with/space" if variable else f"df -h {disk.path}"
    return _limit(
        f"{disk.path} ({disk.role}) has {disk.free / (1 << 30):.1f} GiB free of {disk.total >> 30}",
        Severity.ERROR if disk.free < DISK_FULL else Severity.WARNING,
        f"{disk.free >> 20} MiB free",
        elsewhere,
        "free space, or keep these files elsewhere",
        source=disk.path,
    )


@check.declared(needs=["host.memory_limit", "gpus"])
def little_memory(case: Case) -> Iterator[Finding | Reach]:
    """The cgroup allows so little memory that loading a model will be killed."""
    assert case.host is not None and case.host.memory_limit is not None and case.gpus is not None
    host: Host = case.host
    allowed = case.host.memory_limit
    if not case.gpus.devices:
        raise NotApplicable("no device: a run on the CPU knows its own needs")
    if allowed < MEMORY_LOW and allowed < host.memory_total // 2:
        yield _limit(
            f"this container may use {allowed / (1 << 30):.1f} GiB of the machine's {host.memory_total >> 30}:"
            " loading a model is killed without a message",
            Severity.WARNING,
            f"cgroup memory: {allowed >> 20} MiB",
            "docker run --memory=0 ..."
            if host.container != "kubernetes"
            else "kubectl edit pod ... (resources.limits.memory)",
            "raise the container's memory limit",
        )
    yield Reach(f"{allowed >> 30} GiB of memory allowed")


def _limit(
    message: str, severity: Severity, evidence: str, command: str, title: str, source: str | None = None
) -> Finding:
    return check.finding(
        message,
        severity=severity,
        evidence=(Evidence(text=evidence, source=source),),
        fixes=(Fix(title=title, commands=(command,)),),
    )


@check.logged("Too many open files", "received 0 items of ancdata")
def files_used_up(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``[Errno 24] Too many open files``."""
    if event.exception is not None and link_of(event) is None:
        return
    sharing = Fix(
        title="or let torch's workers share through files: torch.multiprocessing.set_sharing_strategy('file_system')",
        side_effects="files of a killed run stay in /dev/shm",
    )
    loader = event.search(r"sharing strategy|DataLoader|torch[./]multiprocessing|resource_sharer") is not None
    yield check.finding(
        "a process ran out of file descriptors: the limit of open files (ulimit -n) is too low for the run",
        severity=weight(event),
        fixes=(
            Fix(
                title="raise the limit of open files in the shell that starts the run, and where ray start runs",
                commands=("ulimit -n 65536", "docker run --ulimit nofile=65536:65536 ..."),
            ),
            *((sharing,) if loader else ()),
        ),
    )


_MORE_PROCESSES = (
    Fix(
        title="raise the limit of processes (ulimit -u; a container's or Slurm job's pids limit)",
        commands=("ulimit -u unlimited", "docker run --pids-limit=-1 ..."),
    ),
    Fix(title="or start fewer threads per process", commands=("export OMP_NUM_THREADS=8",)),
)


@check.logged(
    "can't start new thread",
    "thread: Resource temporarily unavailable",
    "Resource temporarily unavailable",
    "pthread_create failed",
    "Thread creation failed",
)
def processes_used_up(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A thread or process could not be started. Sockets and locks say ``Resource temporarily unavailable`` as well."""
    link = link_of(event)
    # C++ says what was thrown in a line of its own.
    native = event.exception is not None and not event.exception.frames
    if event.exception is not None and link is None and not native:
        return
    started = r"fork|spawn|thread|posix_spawn|Popen|_launch"
    places = " ".join(f"{f.function} {f.code}" for f in link.frames[-4:]) if link is not None else event.line
    if event.literal == "Resource temporarily unavailable" and not re.search(started, places, re.IGNORECASE):
        return
    yield check.finding(
        "a process or thread could not be started: the limit of processes is too low for the ranks on this machine",
        severity=weight(event),
        fixes=_MORE_PROCESSES,
    )


# Of an abort the words that were thrown are often cut off, and its stack says what was to be started.
check.signature(
    "SIGABRT received at time=",
    pattern=r"posix_thread::start_thread|std::thread::_M_start_thread",
    says="a thread could not be started: the limit of processes is too low for the ranks on this machine",
    fixes=_MORE_PROCESSES,
    url="https://github.com/hiyouga/EasyR1/issues/52",
)


# NCCL registers memory with the InfiniBand card and may not lock it.
check.signature(
    "ibv_create_cq failed",
    "ibv_reg_mr failed",
    "ibv_reg_mr_iova2 failed",
    "Call to ibv_reg_mr",
    pattern=r"Cannot allocate memory|Resource temporarily unavailable",
    says="NCCL may not lock the memory that InfiniBand needs: the limit of locked memory is too low",
    severity=weight,
    fixes=(
        Fix(
            title="lift the limit of locked memory where the ranks start",
            commands=("ulimit -l unlimited", "docker run --ulimit memlock=-1 ..."),
        ),
    ),
)


@check.logged(
    "No space left on device",
    "Disk quota exceeded",
    "OutOfDiskError",
    unless=("unable to allocate shared memory", "/dev/shm", "'/psm_"),
)
def disk_used_up(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A file system is full. Where a checkpoint was being written it is RLD610."""
    link = link_of(event)
    frames = link.frames if link is not None else ()
    if (event.exception is not None and link is None) or any(_SAVES.search(f.function) for f in frames):
        return
    path = event.search(r"(?:No space left on device|Disk quota exceeded)\)?: '([^']+)'")
    where = f" where {path[1]} is written" if path else ""
    if event.search(r"OutOfDiskError|spill"):
        variable = "RAY_TMPDIR"
    elif event.search(r"huggingface|datasets|hf_hub|snapshot_download"):
        variable = "HF_HOME"
    else:
        variable = "TMPDIR"
    yield check.finding(
        f"the file system is full{where}" if "quota" not in event.literal else f"the disk quota is used up{where}",
        severity=weight(event),
        fixes=(
            Fix(
                title="free space there, or keep these files elsewhere",
                commands=("df -h", f"export {variable}=/path/with/space"),
            ),
        ),
    )


_SAVES = re.compile(r"save|checkpoint|serialize", re.IGNORECASE)

check.signature(
    "Object creation will fail if spilling is required",
    details=(
        r"(?P<path>/\S+) is over (?P<share>[\d.]+)% full, available space: (?P<left>[^;.]+?(?:\.\d+)?(?: "
        r"?[A-Z]+)?); capacity: (?P<all>[\d.]+ ?\w*)",
    ),
    says="the disk of Ray's session is full[[: {path} over {share} %, {left} left of {all}]]; Ray stores no "
    "more objects there",
    severity=Severity.WARNING,
    fixes=(
        Fix(
            title="free space there, such as of sessions of Rays that have ended, or let Ray work on a larger disk",
            commands=("du -sh /tmp/ray/session_20*", "export RAY_TMPDIR=/path/with/space"),
        ),
    ),
    url="https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html",
)
check.signature(
    "The node was low on resource: ephemeral-storage",
    "ephemeral local storage usage exceeds the total limit",
    "ephemeral-storage usage exceeds",
    "exceeded its local ephemeral storage limit",
    says="Kubernetes evicted the pod: its local disk is used up",
    fixes=(
        Fix(
            title="mount a volume for checkpoints, caches and Ray's session, or raise the pod's ephemeral-storage limit"
        ),
        Fix(
            title="keep caches there", commands=("export HF_HOME=/volume/hf RAY_TMPDIR=/volume/ray TMPDIR=/volume/tmp",)
        ),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
)


# A file system that does not answer as it should; of a checkpoint it is RLD610.
check.signature(
    "] Stale file handle",
    "[Errno 5] Input/output error",
    "] Read-only file system",
    # Of a socket they have no path.
    "] Cannot send after transport endpoint shutdown: '",
    "] Transport endpoint is not connected: '",
    pattern=r"\[Errno (?:5|30|107|108|116)\] (?P<why>Input/output error|Read-only file system|Stale file handle|"
    r"Cannot send after transport endpoint shutdown|Transport endpoint is not connected)"
    r"(?:: '(?P<path>[^'\n]{1,300})')?",
    exception="OSError",
    when=lambda case, event: link_of(event) is not None,
    says="a file system failed[[ at {path}]]: {why}",
    fixes=(
        Fix(
            title="see whether it is mounted, and may be written, on the node that failed", commands=("mount", "df -h")
        ),
        Fix(
            title="or keep caches and output where this user may write",
            commands=(
                "export HOME=/path/with/space HF_HOME=/path/with/space/hf TRITON_CACHE_DIR=/path/with/space/triton",
            ),
        ),
    ),
)
check.signature(
    "PermissionError: [Errno 13] Permission denied: '",
    pattern=r"Permission denied: '(?P<path>[^'\n]{0,200}(?:/\.cache|/\.triton|/\.config|/huggingface|/torchinductor|"
    r"/\.local|/tmp/ray)[^'\n]{0,200})'",
    when=lambda case, event: link_of(event) is not None,
    says="this user may not write where a cache is kept: {path}",
    fixes=(
        Fix(
            title="keep the caches where this user may write (in a container without a home of its own, too)",
            commands=(
                "export HOME=/path/with/space HF_HOME=/path/with/space/hf TRITON_CACHE_DIR=/path/with/space/triton",
            ),
        ),
    ),
)
check.signature(
    "inotify watch limit reached",
    "inotify instance limit reached",
    says="the host allows no more watches of files (inotify)",
    fixes=(
        Fix(
            title="raise the limit on the host",
            commands=("sysctl -w fs.inotify.max_user_watches=1048576 fs.inotify.max_user_instances=8192",),
        ),
    ),
)
check.signature(
    "[Errno 36] File name too long: ",
    pattern=r"File name too long: '(?P<path>[^'\n]{1,120})",
    exception="OSError",
    when=lambda case, event: link_of(event) is not None,
    says="a name in this path is longer than the file system allows (255 bytes): {path}...",
    fixes=(Fix(title="give the run, its experiment or its output folder a shorter name"),),
)
