"""How the end of the host's memory reads in a log: the kernel's, Ray's, schedulers' and allocators' words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent
from rldoctor.api.logs import job_states

from ...observed.causes import Why
from ...observed.endings import cut_short
from ...observed.outside import is_of_a_tool
from ...observed.states import FORMS, tells
from . import check
from .fixes import LESS, MORE

# `docker inspect` has the field for every container.
_IS_NOT = re.compile(r"(?i:OOMKilled\W{1,4}false)\b")

# Ray's memory monitor chose a worker.
check.signature(
    "due to the node running low on memory",
    "killed due to memory pressure (OOM)",
    "which exceeds the memory usage threshold of ",
    "System memory low at node with IP ",
    # A summary counts those that ended otherwise, too.
    when=lambda case, event: event.search(r"(?<!\d)0 Workers \(tasks / actors\) killed due to memory") is None,
    details=(
        r"was (?P<used>[\d.]+\s?[GM]B)(?: used)? ?/ ?(?P<total>[\d.]+\s?[GM]B)",
        r"Used memory \((?P<used_2>[\d.]+[GM]B)\) / total capacity \((?P<total_2>[\d.]+[GM]B)\)",
        r"(?m)^\d+\t(?P<size>[\d.]+)\t(?P<process>\S(?:.{0,59}\S)?)\s*$",
    ),
    says="Ray killed a worker because its node ran low on memory[[ ({used} of {total} used)]]"
    "[[; the largest process was {process} with {size} GB]]",
    fixes=(
        LESS,
        MORE,
        Fix(
            title="raise Ray's threshold where the node has room left, and see who uses the memory",
            commands=("export RAY_memory_usage_threshold=0.98", "ray logs raylet.out"),
            side_effects="above it the kernel kills instead",
        ),
    ),
    url="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
)


def _at_the_limit_of_pbs(case: Case, event: LogEvent) -> dict[str, str] | None:
    ended = event.search(
        r"=>> PBS: job killed: v?mem (?:job total )?([\d.]+) ?([kmg])b exceeded limit ([\d.]+) ?([kmg])b"
    )
    if ended is None or not cut_short(case, event):
        return None
    return {"used": _gib(ended[1], ended[2]), "most": _gib(ended[3], ended[4])}


def _gib(number: str, unit: str) -> str:
    return f"{float(number) / 1024 ** 'gmk'.index(unit):.1f}"


@check.logged(
    "Out of memory: Killed process ",
    "out of memory: Killed process ",
    "Out of memory: Kill process ",  # kernels before 5.0
    "out of memory: Kill process ",
    "oom-kill:constraint=",
    "oom_kill event",
    "oom-kill event",
    "OOMKilled",
    "have been OOM Killed",
    "Exceeded job memory limit",
    "Exceeded step memory limit",
    " ran out-of-memory and exited ",
)
def killed_by_the_kernel(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The kernel's limit, the cgroup's, the pod's or the job's."""
    if _IS_NOT.search(event.line) or is_of_a_tool(event.line):
        return
    if event.outlived and "memory limit at some point" in event.line:
        return  # Slurm counts the files in the page cache, too
    process = event.search(r"Kill(?:ed)? process (\d+) \(([^)]+)\)(?:.{0,80}anon-rss:(\d+)kB)?")
    name = f"{process[2]} (pid {process[1]})" if process else "a process"
    size = f", {int(process[3]) / 1024**2:.1f} GiB resident" if process and process[3] else ""
    text = f"the kernel killed {name}{size} because the host's memory was used up"
    yield check.finding(text, fixes=(LESS, MORE))


# Nomad's client, to which the end of a task is mere information.
check.signature(
    "and error OOM Killed",
    'Exit Message: \\"OOM Killed',
    pattern=r"\btask(?:=| \")(?P<task>[\w.-]+).{0,200}\bOOM Killed\b",
    when=cut_short,
    says="the kernel killed the task {task}, as Nomad tells, because its memory was used up",
    fixes=(LESS, MORE),
    silent=True,
    url="https://developer.hashicorp.com/nomad/docs/job-specification/resources",
)

# A service of the host that ends processes before the kernel has to: systemd-oomd, earlyoom.
check.signature(
    "systemd-oomd[",
    " due to memory pressure for ",
    "sending SIGTERM to process ",
    "sending SIGKILL to process ",
    pattern=r"Killed (?P<name>\S+) due to memory (?:pressure|used)\b"
    r"|sending SIG(?:TERM|KILL) to process (?P<pid>\d+)(?: uid \d+)? \"(?P<name_2>[^\"]{1,60})\": "
    r"(?:badness|oom_score)",
    says="a service of the host (systemd-oomd, earlyoom) ended {name}[[ (pid {pid})]], for memory was short",
    fixes=(
        LESS,
        MORE,
        Fix(title="see what it did", commands=("journalctl -u systemd-oomd -u earlyoom --since -2h",)),
    ),
    silent=True,
    url="https://www.freedesktop.org/software/systemd/man/latest/systemd-oomd.service.html",
)

check.signature(
    "crashed after using all available RAM",
    says="the notebook's machine ran out of host memory and its kernel was ended",
    fixes=(LESS, Fix(title="or take a machine with more memory (Colab: a high-RAM runtime)")),
    silent=True,
    url="https://research.google.com/colaboratory/faq.html",
)

# What schedulers say where a job is beyond the memory that it asked for.
check.signature(
    "The node was low on resource: memory",
    says="Kubernetes evicted the pod: its node ran low on memory",
    fixes=(LESS, MORE),
)
check.signature(
    *(f"{word}: job killed" for word, why in job_states("LSF").items() if why == "memory"),
    when=cut_short,
    says="LSF ended the job at its memory limit",
    fixes=(LESS, MORE),
)
check.signature(
    "=>> PBS: job killed: mem ",
    "=>> PBS: job killed: vmem ",
    when=_at_the_limit_of_pbs,
    says="PBS ended the job at its memory limit: {used} GiB used of {most} GiB",
    fixes=(LESS, MORE),
)
check.signature(
    'exceeds job hard limit "h_vmem"',
    'exceeds job hard limit "h_rss"',
    pattern=r"\bjob (?P<job>[\d.]+) exceeds job hard limit",
    says="Grid Engine ended the job {job} at its memory limit (h_vmem)",
    fixes=(LESS, MORE),
)
check.signature(
    "Job has gone over cgroup memory limit of ",
    "Job has gone over memory limit of ",
    details=(r"memory limit of (?P<limit>\d+) megabytes",),
    says="HTCondor put the job on hold at its memory limit[[ of {limit} MiB]]",
    fixes=(LESS, MORE),
)
check.signature(
    *FORMS,
    when=tells(Why.MEMORY),
    says="whoever runs the job ended it, or a process of it, at a limit of host memory: {line}",
    fixes=(LESS, MORE),
    silent=True,
    general=True,
    behind=True,
)


@check.logged(
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "[Errno 12] Cannot allocate memory",
    "ArrayMemoryError",
    "std::bad_alloc",
    "MemoryError",
)
def allocation_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The process asked the host for memory and did not get it."""
    error = event.exception
    if event.literal == "MemoryError" and (error is None or error.type != "MemoryError"):
        return  # OutOfMemoryError is the device's
    size = event.search(r"tried to allocate (\d+) bytes")
    amount = f" of {int(size[1]) / 1024**3:.2f} GiB" if size else ""
    yield check.finding(
        f"the host refused an allocation{amount}",
        fixes=(LESS, MORE, Fix(title="see the limits that the process runs under", commands=("ulimit -a",))),
    )


check.signature(
    "ObjectStoreFullError",
    details=(r"Object size is (?P<bytes>\d+) bytes",),
    says="Ray's object store is full[[: an object of {bytes} bytes found no room]]",
    fixes=(
        Fix(
            title="give Ray's object store more memory on the node, or hold fewer and smaller objects (batches, "
            "weights that are passed as arguments)",
            commands=("ray start --object-store-memory=BYTES ...", "ray memory --stats-only"),
        ),
        MORE,
    ),
    url="https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html",
)

# A worker of a DataLoader got SIGKILL, which the kernel sends for want of memory.
check.signature(
    "is killed by signal: Killed",
    says="a DataLoader's worker was killed, most likely for want of host memory",
    fixes=(
        Fix(title="fewer or no loader workers (dataloader_num_workers=0), smaller prefetch"),
        Fix(
            title="see whether the kernel killed it",
            commands=("dmesg -T | grep -i -E 'killed process|out of memory'",),
        ),
    ),
)
