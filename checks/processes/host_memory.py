"""The host ran out of memory, and something was killed or refused for it.

What it looks for
    Ray's memory monitor (``killed due to the node running low on memory``), the kernel's and the cgroup's out-of-memory
    killer, Slurm's ``oom_kill event``, and allocations on the CPU that were refused. A bare ``Killed`` is no proof and
    does not count. Before a run: memory of this host in use beyond the share from which Ray ends workers. Under
    ``--soak``: memory of the engine's processes that grows with the cycles.

Why it hurts
    Offloaded parameters and optimizer states, sleeping engines (their weights move to host memory), data loaders and
    Ray's object store add up on one node. The kernel ends the largest process without a word in its own log.

How sure it is
    The killer's own line names the process. Which part of the job grew is not in it. Growth counts from a third of the
    soak on, when caches and pools are filled, where it goes on to the end, and where a line through the measures has a
    slope of eight times its uncertainty; the noise is said, and how little would have shown.

The fix and its cost
    Less offloading to the host or fewer processes per node; more memory, or a higher limit of the container. Switching
    Ray's monitor off only hands the choice to the kernel.

References
    https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html
    https://github.com/OpenRLHF/OpenRLHF/issues/1013, https://github.com/verl-project/verl/issues/3453
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)

from ..declared.devices import is_of_this_machine
from ..observed.causes import Why
from ..observed.endings import cut_short
from ..observed.outside import is_of_a_tool
from ..observed.rollout import describe
from ..observed.soak import DEVICE, HOST, reach, soaked, trend
from ..observed.states import FORMS, tells

check = Check(
    "RLD604",
    "host-memory-exhausted",
    __doc__,
    before=(
        "RLD603",
        "RLD606",
    ),
)

_LESS = Fix(
    title="use less host memory on the node: fewer actors and loader workers per node, no parameter or optimizer "
    "offload where the GPUs have room, no sleep level that keeps weights in host memory",
)
# `docker inspect` has the field for every container.
_IS_NOT = re.compile(r"(?i:OOMKilled\W{1,4}false)\b")
_MORE = Fix(title="give the node or container more memory (docker run --memory, Slurm --mem, a pod's limit)")


# ray_config_def.h: from this share on Ray ends workers, and it looks so often (milliseconds; 0: never).
_THRESHOLD, _REFRESH = "RAY_memory_usage_threshold", "RAY_memory_monitor_refresh_ms"
_USUAL_THRESHOLD = 0.95


@check.declared(needs=["plan.ray.gpus_needed", "node", "host"])
def ray_ends_workers_at_once(case: Case) -> Iterator[Finding | Reach]:
    """What others use of this host's memory before the run begins, against what Ray allows all processes together."""
    plan, host = plan_of(case), case.host
    assert host is not None  # it is among the needs
    address = plan.value("ray.address")
    elsewhere = plan.value("scheduler.name") or not (address is None or is_of_this_machine(address))
    if plan.value("process.launcher") != "ray" or elsewhere:
        raise NotApplicable("no Ray of this host runs the launch")
    if host.memory_limit is not None and host.memory_limit < host.memory_total:
        raise NotChecked("how much of this container's memory is in use is not known")
    threshold = _number(case, plan, _THRESHOLD, _USUAL_THRESHOLD)
    if _number(case, plan, _REFRESH, 1) == 0:
        raise NotApplicable("Ray's memory monitor is off")
    used = 1 - host.memory_available / host.memory_total
    if used < threshold:
        yield Reach(f"{used:.0%} of this host's memory is in use, Ray ends workers from {threshold:.0%} on")
        return
    yield check.finding(
        f"{used:.0%} of this host's memory is in use before the run begins, and from {threshold:.0%} on Ray ends "
        "workers: those of this run as soon as they start",
        severity=Severity.WARNING,
        evidence=(
            Evidence(
                text=f"{host.memory_available >> 20} of {host.memory_total >> 20} MiB available", source="this host"
            ),
            *cite(plan, f"env.{_THRESHOLD}"),
        ),
        fixes=(
            Fix(title="see what holds it, and end what an earlier run left", commands=("ps aux --sort=-rss | head",)),
        ),
        url="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
    )


def _number(case: Case, plan: RolloutPlan, name: str, usual: float) -> float:
    given = plan.value(f"env.{name}", (case.environment or {}).get(name))
    try:
        return float(given) if given is not None else usual
    except ValueError:
        return usual


@check.observed(needs=["observations.soak"])
def grows_under_traffic(case: Case) -> Iterator[Finding | Reach]:
    """The engine's processes take more host memory with every round of the same traffic."""
    job, windows = soaked(case)
    seen = [one for one in (trend(windows, HOST), trend(windows, DEVICE)) if one is not None]
    grown = [one for one in seen if one.grows]
    if not grown:
        yield reach(windows, seen)
        return
    yield check.finding(
        f"{grown[0].quantity.what} of {describe(job)} grows under steady traffic by {grown[0].rate}",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=tuple(one.evidence() for one in grown),
        fixes=(Fix(title="start the engine anew every so many steps, or take another vLLM release"), _MORE),
    )


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
        _LESS,
        _MORE,
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
    yield check.finding(text, fixes=(_LESS, _MORE))


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
        _LESS,
        _MORE,
        Fix(title="see what it did", commands=("journalctl -u systemd-oomd -u earlyoom --since -2h",)),
    ),
    silent=True,
    url="https://www.freedesktop.org/software/systemd/man/latest/systemd-oomd.service.html",
)

check.signature(
    "crashed after using all available RAM",
    says="the notebook's machine ran out of host memory and its kernel was ended",
    fixes=(_LESS, Fix(title="or take a machine with more memory (Colab: a high-RAM runtime)")),
    silent=True,
    url="https://research.google.com/colaboratory/faq.html",
)

# What schedulers say where a job is beyond the memory that it asked for.
check.signature(
    "The node was low on resource: memory",
    says="Kubernetes evicted the pod: its node ran low on memory",
    fixes=(_LESS, _MORE),
)
check.signature(
    "TERM_MEMLIMIT: job killed",
    when=cut_short,
    says="LSF ended the job at its memory limit",
    fixes=(_LESS, _MORE),
)
check.signature(
    "=>> PBS: job killed: mem ",
    "=>> PBS: job killed: vmem ",
    when=_at_the_limit_of_pbs,
    says="PBS ended the job at its memory limit: {used} GiB used of {most} GiB",
    fixes=(_LESS, _MORE),
)
check.signature(
    'exceeds job hard limit "h_vmem"',
    'exceeds job hard limit "h_rss"',
    pattern=r"\bjob (?P<job>[\d.]+) exceeds job hard limit",
    says="Grid Engine ended the job {job} at its memory limit (h_vmem)",
    fixes=(_LESS, _MORE),
)
check.signature(
    "Job has gone over cgroup memory limit of ",
    "Job has gone over memory limit of ",
    details=(r"memory limit of (?P<limit>\d+) megabytes",),
    says="HTCondor put the job on hold at its memory limit[[ of {limit} MiB]]",
    fixes=(_LESS, _MORE),
)
check.signature(
    *FORMS,
    when=tells(Why.MEMORY),
    says="whoever runs the job ended it, or a process of it, at a limit of host memory: {line}",
    fixes=(_LESS, _MORE),
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
        fixes=(_LESS, _MORE, Fix(title="see the limits that the process runs under", commands=("ulimit -a",))),
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
        _MORE,
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
