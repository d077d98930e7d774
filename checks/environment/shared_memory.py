"""/dev/shm is too small for the processes that share it.

What it looks for
    The size of ``/dev/shm`` against the number of ranks on this machine, and how much of it is still free. Docker gives
    a container 64 MiB unless told otherwise: a launch that starts one for several ranks. In a log: what data loaders,
    NCCL and Ray print when it is used up.

Why it hurts
    NCCL fails to start (``failed to extend /dev/shm/nccl-... to 4194660 bytes``), a DataLoader's worker dies with ``Bus
    error``, vLLM's tensor-parallel workers cannot open their message queue, and Ray moves its object store to disk.

How sure it is
    NVIDIA advises 1 GiB for NCCL in a container, and DeepSpeed's own report warns below 512 MiB. With several ranks
    Docker's default is an error and less than 512 MiB a warning; with one it is a note. Space that leftovers of killed
    runs hold is a warning once less than 128 MiB are free.

The fix and its cost
    ``docker run --shm-size=16g`` or ``--ipc=host``; a Kubernetes ``emptyDir`` of medium ``Memory`` at ``/dev/shm``; as
    root ``mount -o remount,size=16G /dev/shm``. The memory is taken only as it is used.

References
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html
    https://github.com/vllm-project/vllm/issues/1710
    https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/env_report.py
    https://docs.ray.io/en/latest/cluster/vms/user-guides/large-cluster-best-practices.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    Reach,
    Severity,
    cite,
)

from ..observed.logged_imports import link_of, weight

check = Check(
    "RLD113",
    "shared-memory-too-small",
    __doc__,
    before=(
        "RLD114",
        "RLD320",
    ),
)

_MIB = 1 << 20
# 64 MiB, and what a container's own rounding adds.
DOCKER_DEFAULT = 65 * _MIB
WARN_BELOW = 512 * _MIB
NEEDED_FREE = 128 * _MIB
OWN = "process.shared_memory"
RANKS = ("placement.gpus_per_node", "process.nproc", "engine.tensor_parallel_size")


@check.declared(needs=["host.shm_total"])
def too_small(case: Case) -> Iterator[Finding | Reach]:
    """/dev/shm is smaller than what several ranks share through it, or full."""
    assert case.host is not None and case.host.shm_total is not None
    total, free = case.host.shm_total, case.host.shm_free
    devices = len(case.gpus.devices) if case.gpus is not None else 0
    ranks_reported = f"{devices} GPUs" if case.gpus is not None else "an unknown number of GPUs"
    several = devices > 1
    size = f"/dev/shm has {_mib(total)}"
    ranks = f"{devices} GPUs share it" if several else "enough for one process without workers of its own"
    if total < WARN_BELOW:
        severity = Severity.NOTE
        if several:
            severity = Severity.ERROR if total <= DOCKER_DEFAULT else Severity.WARNING
        default = " (Docker's default)" if total <= DOCKER_DEFAULT else ""
        yield check.finding(
            f"{size}{default}, and {ranks}: NVIDIA advises 1 GiB for NCCL",
            severity=severity,
            evidence=(
                Evidence(text=f"{size}, {_mib(free) if free is not None else 'unknown'} free", source="/dev/shm"),
            ),
            fixes=(_enlarge(case),),
            url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html",
        )
    elif free is not None and free < NEEDED_FREE:
        yield check.finding(
            f"{size}, of which {_mib(free)} are free: leftovers of earlier runs hold the rest",
            severity=Severity.WARNING,
            evidence=(Evidence(text=f"{_mib(free)} of {_mib(total)} free", source="/dev/shm"),),
            fixes=(
                Fix(
                    title="see what lies there and remove what no process uses",
                    commands=("ls -la /dev/shm", "fuser -v /dev/shm/*"),
                ),
            ),
        )
    yield Reach(f"{size}, {_mib(free) if free is not None else 'an unknown part'} free, for {ranks_reported}")


@check.declared(needs=[])
def too_small_in_the_container(case: Case) -> Iterator[Finding | Reach]:
    """The launch starts a container with a /dev/shm of its own, and several ranks in it."""
    plan = case.plan
    if plan is None or plan.value(OWN) is None:
        raise NotApplicable("the launch starts no container with a /dev/shm of its own")
    ranks = max(plan.value(option) or 1 for option in RANKS)
    if ranks < 2:
        yield Reach("one rank in the container")
        return
    yield check.finding(
        f"the container has {plan.value(OWN)} MiB of /dev/shm, its default, and {ranks} ranks share it: NVIDIA advises "
        "1 GiB for NCCL",
        severity=Severity.WARNING,
        evidence=cite(plan, OWN, *RANKS),
        fixes=(
            Fix(
                title="start the container with more shared memory (--shm-size=16g), or with the host's (--ipc=host)",
                commands=("docker run --shm-size=16g ...",),
            ),
        ),
        url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html",
    )


@check.logged(
    "unable to allocate shared memory(shm) for file",
    "This might be caused by insufficient shared memory (shm)",
    "is killed by signal: Bus error",
    "workers are out of shared memory",
    "failed to extend /dev/shm/",
    "creating shared memory segment /dev/shm/",
    "Call to posix_fallocate failed",
    "ncclShmOpen",
    "exceeds /dev/shm size",
    unless=("Too many open files",),
)
def used_up(case: Case, event: LogEvent) -> Iterator[Finding]:
    """What torch, NCCL and Ray print when /dev/shm is full."""
    yield from _used_up(case, event)


@check.logged("No space left on device", unless=("Too many open files",))
def no_space_in_it(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The file that could not be written lies in /dev/shm, or is a segment of Python's shared memory."""
    if re.search(r"No space left on device[^\n]*'(?:/dev/shm/|/psm_)|/dev/shm/\S+[^\n]*No space left", event.text):
        yield from _used_up(case, event)


def _used_up(case: Case, event: LogEvent) -> Iterator[Finding]:
    if event.exception is not None and link_of(event) is None:
        return
    asked = event.search(r"(?:failed to extend \S+ to|\(size) (\d+)(?: bytes|\))")
    loader = event.search(r"DataLoader|data loader|torch_\d+_|dataloader") is not None
    by = "the data loader's workers" if loader else "NCCL" if event.search(r"nccl|NCCL") else "a process"
    amount = f" ({int(asked[1]) / _MIB:.0f} MiB asked for)" if asked else ""
    yield check.finding(
        f"/dev/shm is too small or full: {by} got no shared memory{amount}",
        severity=weight(event),
        fixes=(
            _enlarge(case),
            Fix(
                title="see what holds it: killed runs leave files there, which nobody uses any more",
                commands=("df -h /dev/shm", "ls -la /dev/shm"),
            ),
            Fix(title="or share less: fewer data loader workers (num_workers=0 needs no shared memory)"),
        ),
    )


def _enlarge(case: Case) -> Fix:
    container = case.host.container if case.host else None
    if container == "kubernetes":
        title, command = (
            "mount an emptyDir of medium Memory at /dev/shm in the pod",
            "kubectl explain pod.spec.volumes.emptyDir",
        )
    elif container:
        title, command = "start the container with more shared memory", "docker run --shm-size=16g ..."
    else:
        title, command = "enlarge it, as root", "mount -o remount,size=16G /dev/shm"
    return Fix(
        title=f"{title} (--shm-size=16g or --ipc=host with Docker)",
        commands=(command,),
        applicability=Applicability.DISPLAY,
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size // _MIB} MiB"
