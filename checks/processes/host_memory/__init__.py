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

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)

from ...declared.devices import is_of_this_machine

check = Check(
    "RLD604",
    "host-memory-exhausted",
    __doc__,
    before=(
        "RLD323",
        "RLD603",
        "RLD606",
    ),
)

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
