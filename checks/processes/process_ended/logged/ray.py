"""Ray's words for a node or a head that is gone, and for an environment that it cannot build (RLD603)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from rldoctor.api import Case, Fix, LogEvent, Role
from rldoctor.api.logs import LoggedException

from ....observed.endings import before_its_end, crashed_before, cut_short, unfinished
from .. import check
from ..fixes import LESS_TO_COPY, RESUME, RUNTIME_ENV

_RAYLET = "raylet"
_RAYLET_ENDED = (
    Fix(
        title="read on that node what the raylet wrote last",
        commands=("tail -50 /tmp/ray/session_latest/logs/raylet.out /tmp/ray/session_latest/logs/raylet.err",),
    ),
    Fix(title="see whether the kernel killed it there", commands=("dmesg -T | grep -i -E 'killed process|oom'",)),
)
_ADDRESS = re.compile(r"(?:\bWorker IP address|\band address|\band ip|^\s*ip): (?P<address>[\d.]*\d)", re.MULTILINE)


def _above(event: LogEvent) -> Iterator[LoggedException]:
    """What had failed before the line."""
    return (one for one in event.run.failures if one.source == event.source and one.line < event.number)


def _took_workers_along(event: LogEvent) -> bool:
    """Whether a node's death is nearer to the cause than a worker's: Ray tells of it where nobody asked for it, and
    seconds late. A worker that crashed before, or was lost before on another node, was the first."""
    crash = crashed_before(event)
    if crash is not None and crash.origin.actor != _RAYLET:
        return False
    own, tail = _ADDRESS.search(event.line), event.run.tail
    # Whoever speaks of a failure is alive then, and so is its node.
    spoke = (one.origin for one in _above(event) if one.origin.actor != _RAYLET)
    if own is not None and any(origin.node == own["address"] for origin in spoke):
        return False
    above = tail[: tail.index(event.line)] if event.line in tail else ()
    elsewhere = (
        found["address"] for text in (*(one.text for one in _above(event)), *above) for found in _ADDRESS.finditer(text)
    )
    return own is None or all(address == own["address"] for address in elsewhere)


def _node_is_dead(nearer: bool) -> Callable[[Case, LogEvent], bool | Mapping[str, str]]:
    def condition(case: Case, event: LogEvent) -> bool | Mapping[str, str]:
        if not before_its_end(case, event) or nearer is not _took_workers_along(event):
            return False
        crash = crashed_before(event)
        return {"why": "its raylet crashed"} if crash is not None and crash.origin.actor == _RAYLET else True

    return condition


# src/ray/gcs/gcs_node_manager.cc; Ray 1 tells the address alone, or nothing but an identifier.
for nearer in (True, False):
    check.signature(
        "has been marked dead because ",
        pattern=r"\bnode with (?:client ID|node id):? \S+ "
        r"(?:and (?:address: (?P<address>\S+) and node name|address|ip): (?P<node>[\w.-]+) )?has been marked dead "
        r"because (?:the (?:detector|monitor) has missed too many heartbeats|(?P<why>[^\n]{3,160}))",
        when=_node_is_dead(nearer),
        says="Ray counts [[the node {node}||a node]][[ ({address})]] as dead: [[{why}||it was not heard of any more; "
        "why is not in this log]]",
        fixes=(
            Fix(title="see on that node whether it, its raylet or its network is gone", commands=("ray status",)),
            Fix(
                title="see whether the kernel killed Ray there",
                commands=("dmesg -T | grep -i -E 'killed process|oom'",),
            ),
        ),
        role=Role.CASCADE,
        silent=True,
        general=not nearer,
        lost=nearer,
        url="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
    )
# dashboard/agent.py: its agent sees a raylet go, whose log it shows.
check.signature(
    "Raylet is terminated",
    pattern=r"Raylet is terminated(?:: ip=(?P<node>[\w.:-]+\w), id=\w+)?\. Termination is unexpected",
    when=unfinished,
    says="Ray's own process on a node (the raylet) ended without being asked to, and all that ran there[[: {node}]]",
    fixes=_RAYLET_ENDED,
    role=Role.CASCADE,
    lost=True,
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
check.signature(
    "Job supervisor actor died because its node has died",
    when=unfinished,
    says="the node on which Ray ran the job's entry point is gone, and the job with it",
    fixes=(
        Fix(title="see whether that node, its raylet or its machine is gone", commands=("ray status",)),
        RESUME,
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html",
)
check.signature(
    "Job supervisor actor failed to start within ",
    pattern=r"failed to start within (?P<limit>[\d.]+) ?s",
    when=lambda case, event: not event.finished,
    says="Ray found no place for the job's entry point within {limit} s: the job has not started",
    fixes=(
        Fix(
            title="ask for less for the entry point (entrypoint_num_gpus, entrypoint_num_cpus, entrypoint_resources), "
            "or let the nodes that have it join first",
            commands=("ray status",),
        ),
        Fix(
            title="or wait longer (set it where the head is started)",
            commands=("export RAY_JOB_START_TIMEOUT_SECONDS=3600",),
        ),
    ),
    silent=True,
    url="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html",
)
check.signature(
    "Job was intentionally stopped.",
    "' was stopped",
    pattern=r"Job was intentionally stopped\.|\bJob '(?P<job>[\w.-]{1,120})' was stopped$",
    when=cut_short,
    says="Ray's job[[ {job}]] was stopped: somebody asked for it (`ray job stop`, the dashboard, a script)",
    fixes=(RESUME,),
    role=Role.CASCADE,
    silent=True,
    url="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html",
)
# ray/train/v2/_internal/execution: the controller watches for nodes that are drained to be taken away.
check.signature(
    "PreemptionWatcher: preemption detected",
    when=cut_short,
    says="a node of the Ray Train run was preempted: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or use machines that are not preempted")),
    silent=True,
    url="https://docs.ray.io/en/latest/train/user-guides/fault-tolerance.html",
)
# src/ray/raylet/main.cc; where the head had asked for it, the line tells.
check.signature(
    "received SIGTERM. Existing local drain request = None",
    when=cut_short,
    says="a node of the Ray cluster was asked to end (SIGTERM to its raylet): by a scheduler, a script or `ray stop`",
    fixes=(
        Fix(title="see what the scheduler says of that node or pod (time limit, preemption, memory)"),
        RESUME,
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
)
check.signature(
    "because the node it was running on is dead or unavailable",
    details=(r"Node IP: (?P<node>[\w.:-]+\w)",),
    says="the node[[ {node}]] on which Ray ran a task is gone; why is not in this log",
    fixes=(
        Fix(title="see on that node whether it, its raylet or its network is gone", commands=("ray status",)),
        Fix(title="see whether the kernel killed Ray there", commands=("dmesg -T | grep -i -E 'killed process|oom'",)),
    ),
    role=Role.CASCADE,
    lost=True,
    url="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
)
# ray.exceptions.LocalRayletDiedError: it is not the worker that is gone.
check.signature(
    "The task's local raylet died",
    says="Ray's own process on the node (the raylet) ended, and with it what ran there; why is not in this log",
    fixes=_RAYLET_ENDED,
    role=Role.CASCADE,
    lost=True,
    url="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
)
# Ray hands an exception over to the caller; what it carries is judged by itself.
check.passes_on(
    "The actor died because of an error raised in its creation task",
    "ray.exceptions.RayActorError",
    "ray.exceptions.ActorDiedError",
    "ray.exceptions.ActorUnavailableError",
)
check.signature(
    "GCS may have been killed",
    "gcs_server.out for more details",
    "gcs_rpc_server_reconnect_timeout_s",
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
    url=RUNTIME_ENV,
)
check.signature(
    "exceeds the maximum size of ",
    pattern=r"Package size \((?P<size>[^)]+)\) exceeds the maximum size of (?P<limit>[\d.]+ ?\w+)",
    says="the working directory that Ray copies to the nodes has {size}, and {limit} is the most",
    fixes=(LESS_TO_COPY,),
    url=RUNTIME_ENV,
)


check.signature(
    "The object's owner has exited",
    "ray.exceptions.OwnerDiedError",
    general=True,
    says="the process that held an object for others is gone, and the object with it",
    fixes=(
        Fix(title="see why it ended: its own output", commands=("rldoctor triage /tmp/ray/session_latest/logs",)),
        Fix(title="keep the actor that makes objects alive until they are read"),
    ),
    role=Role.CASCADE,
    url="https://docs.ray.io/en/latest/ray-core/fault_tolerance/objects.html",
)
