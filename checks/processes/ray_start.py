"""Ray itself does not start on a node.

What it looks for
    In a launch: ports of ``ray start`` that two parts of Ray share, also with the range of its workers (10002 to 19999
    where no other is named), a range that ends before it begins, one with fewer ports than cores, a port of the head
    or its dashboard that is taken on this host. In a log: the same in Ray's words, a raylet that did not come up within
    the time limit, a socket path that is too long, an instance that runs already at the address, processes of Ray
    that ended while it started.

Why it hurts
    Nothing of the training has begun. The driver's traceback ends in Ray's own code and names no reason.

How sure it is
    Ray refuses ports that two parts share before it starts. Who listens at a port is asked when rldoctor runs: it may
    be this very cluster. That Ray did not start is its own word. Why stands in ``raylet.out`` and ``gcs_server.out`` of
    the session.

The fix and its cost
    Stop what an earlier run left, and put Ray's folder on a local disk under a short path.

References
    https://docs.ray.io/en/latest/ray-core/starting-ray.html
    https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
    ``ray/_private/services.py``, ``ray/_private/node.py``, ``ray/scripts/scripts.py``, ``ray/_private/parameter.py``
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from rldoctor.api import Case, Check, Evidence, Finding, Fix, NotApplicable, Reach, RolloutPlan, Severity, plan_of

from ..observed.servers import STOPS_ALL_OF_RAY

check = Check("RLD611", "ray-start-failed", __doc__, before=("RLD603",))

_URL = "https://docs.ray.io/en/latest/ray-core/starting-ray.html"
_READ = Fix(
    title="read why on that node",
    commands=("tail -50 /tmp/ray/session_latest/logs/raylet.out /tmp/ray/session_latest/logs/gcs_server.out",),
)
_LOCAL = Fix(
    title="put Ray's folder on a local disk with space, under a short path",
    commands=("ray start --head --temp-dir=/tmp/ray",),
)
_STOP = Fix(
    title="where no other run uses Ray on this node, stop what an earlier one left",
    commands=("ray stop --force",),
    side_effects=STOPS_ALL_OF_RAY,
)

_PORTS_URL = "https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations"
# The option of `ray start` for each part, by the names that Ray's refusal has.
_OPTIONS = {
    "gcs": "--port",
    "dashboard": "--dashboard-port",
    "dashboard_agent_http": "--dashboard-agent-listen-port",
    "dashboard_agent_grpc": "--dashboard-agent-grpc-port",
    "runtime_env_agent": "--runtime-env-agent-port",
    "metrics_export": "--metrics-export-port",
    "client_server": "--ray-client-server-port",
    "object_manager": "--object-manager-port",
    "node_manager": "--node-manager-port",
    "worker_ports": "--min-worker-port and --max-worker-port",
}
_HEAD = ("gcs", "dashboard")


@check.declared(needs=["plan.ray.ports"])
def ports_of_ray(case: Case) -> Iterator[Finding | Reach]:
    """The ports of each node of Ray that the file starts, among themselves."""
    plan = plan_of(case)
    nodes = plan.value("ray.ports")
    for node in nodes:
        yield from _refused(plan, node)
    yield Reach(f"{len(nodes)} times ray start: no port has two parts of Ray")


def _refused(plan: RolloutPlan, node: dict[str, Any]) -> Iterator[Finding]:
    first, last = node["ports"].get("worker_ports", (0, 0))
    if last and last <= first:
        yield check.finding(
            f"the ports of Ray's workers end at {last}, before they begin at {first}: ray start refuses that",
            evidence=(_at(plan, node, "worker_ports"),),
            fixes=(Fix(title=f"let them end higher: --max-worker-port={first + 10000}"),),
            url=_PORTS_URL,
        )
        return
    for (one, its), (other, theirs) in combinations(node["ports"].items(), 2):
        port = max(its[0], theirs[0])
        if port > min(its[1], theirs[1]):
            continue
        part = other if one == "worker_ports" else one
        yield check.finding(
            f"{_OPTIONS[part]} {port} is "
            + ("among the ports of Ray's workers" if "worker_ports" in (one, other) else f"{_OPTIONS[other]} as well")
            + ": ray start refuses ports that two parts of Ray share",
            evidence=(_at(plan, node, one), _at(plan, node, other)),
            fixes=(
                Fix(
                    title=f"give {_OPTIONS[part]} a port that no other part has, outside "
                    + (f"{first} to {last}" if last else "the workers' range")
                ),
            ),
            url=_PORTS_URL,
        )
    room, cores = last - first + 1, node["cores"]
    if last and cores and room < cores:
        yield check.finding(
            f"Ray's workers have {room} ports on a node that is told to have {cores} cores: each worker, actor and "
            "driver takes one, and what comes after the last cannot start",
            severity=Severity.WARNING,
            evidence=(_at(plan, node, "worker_ports"),),
            fixes=(Fix(title=f"let the range hold them several times over: --max-worker-port={first + 10000}"),),
            url=_PORTS_URL,
        )


@check.declared(needs=["plan.ray.ports", "host.listening_ports"])
def ports_of_the_host(case: Case) -> Iterator[Finding | Reach]:
    """The ports at which the head and its dashboard listen, on this host."""
    plan, taken = plan_of(case), case.host.listening_ports if case.host is not None else ()
    heads = [node for node in plan.value("ray.ports") if node["here"] and "gcs" in node["ports"]]
    if len(heads) != 1:
        raise NotApplicable("the file starts no head of Ray on this host, or several")
    (head,) = heads
    if head["stopped"]:
        raise NotApplicable("the file ends the Ray of this host before it starts one")
    busy = [part for part in _HEAD if head["ports"].get(part, (0,))[0] in taken]
    if not busy:
        yield Reach("the ports of Ray's head are free on this host")
        return
    named = " and ".join(f"{_OPTIONS[part]} {head['ports'][part][0]}" for part in busy)
    rays = [one for one in case.node.ray if one.port == head["ports"]["gcs"][0]] if case.node is not None else []
    yield check.finding(
        f"{'a Ray' if rays else 'a process'} on this host listens already where Ray's head is to: {named}",
        severity=Severity.WARNING,
        evidence=(
            *(_at(plan, head, part) for part in busy),
            *(Evidence(text=f"{one.session}, at {one.address}", source=f"raylet, pid {one.pid}") for one in rays[:1]),
        ),
        fixes=(
            *(() if rays else (Fix(title="see who it is", commands=(f"ss -ltnp | grep {_first(head, busy)}",)),)),
            _STOP,
            Fix(title="or start this one at ports of its own: ray start --head --port=6380 ..."),
        ),
        url=_PORTS_URL,
    )


def _first(head: dict[str, Any], parts: list[str]) -> int:
    return int(head["ports"][parts[0]][0])


def _at(plan: RolloutPlan, node: dict[str, Any], part: str) -> Evidence:
    first, last = node["ports"][part]
    text = f"{_OPTIONS[part]}: {first}" + (f" to {last}" if last != first else "")
    return Evidence(text=text, source=plan.file, line=node["line"])


check.signature(
    "that is used by other components",
    pattern=r"Ray component (?P<part>\w+) is trying to use a port number (?P<port>\d+) that is used by other",
    says="two parts of Ray are to have port {port} ({part} and another)",
    fixes=(
        Fix(
            title="give the parts whose ports are drawn at random ports outside the range of the workers (10002 to "
            "19999 where no other is named)",
            commands=(
                "ray start ... --dashboard-agent-grpc-port=20001 --runtime-env-agent-port=20002 "
                "--metrics-export-port=20003",
            ),
        ),
        Fix(title="and the head a port outside that range, too (--port=6379)"),
    ),
    url=_PORTS_URL,
)
check.signature(
    "while waiting for node to startup",
    "The current node timed out during startup",
    "The current node has not been updated within",
    details=(r"Did not find socket name (?P<socket>\S{1,300})",),
    says="Ray's raylet did not come up on this node within the time limit[[ (socket {socket})]]",
    fixes=(_READ, _STOP, _LOCAL),
    url=_URL,
)
check.signature(
    "AF_UNIX path length cannot exceed ",
    pattern=r"cannot exceed (?P<most>\d+) bytes: (?P<path>\S{1,400})",
    says="the path of Ray's socket is longer than {most} bytes: {path}",
    fixes=(_LOCAL,),
    url=_URL,
)
check.signature(
    "but is already running at",
    pattern=r"(?s)Ray is trying to start at (?P<wanted>\S+),?\s+but is already running at (?P<running>[\w.:-]*\w)",
    says="a Ray instance runs already at {running}, and another is to start at {wanted}",
    fixes=(_STOP, Fix(title="or start this one at a port of its own: ray start --head --port=6380")),
    url=_URL,
)
check.signature(
    "Some Ray subprocesses exited unexpectedly:",
    details=(r"unexpectedly:\s+(?P<which>\w+) \[exit code=(?P<code>-?\d+)\]",),
    says="processes of Ray ended on this node[[: {which}, exit code {code}]]",
    fixes=(_READ, _STOP),
    url=_URL,
)
check.signature(
    "No available agent to submit job",
    says="Ray's head has no agent that could take the job: the dashboard's agent on its node did not start, or ended",
    fixes=(
        Fix(
            title="read why on the head node; a port that is taken and a missing ray[default] are the usual reasons",
            commands=("tail -50 /tmp/ray/session_latest/logs/dashboard_agent.log", 'pip install "ray[default]"'),
        ),
        Fix(title="start Ray again, and give its dashboard time before the job is submitted", commands=_STOP.commands),
        Fix(title="or run the script on the head node itself, without ray job submit"),
    ),
    url="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html",
)
check.signature(
    "does not match persisted value",
    pattern=r"Session name (?P<new>\S+) does not match persisted value b?'?(?P<old>[\w.-]+)",
    says="another Ray instance answers at this address: it belongs to {old}, and {new} is to start",
    fixes=(_STOP, Fix(title="or start this one at a port of its own: ray start --head --port=6380")),
    url=_URL,
)
check.signature(
    "Failed to connect to Ray at address: ",
    pattern=r"Failed to connect to Ray at address: (?P<address>\S*\w)",
    says="no Ray dashboard answers at {address}, where the job is to be submitted",
    fixes=(
        Fix(title="start the cluster first", commands=("ray start --head --dashboard-host=0.0.0.0", "ray status")),
        Fix(title="or name the head node's own address and its dashboard's port (8265): ray job submit --address=..."),
    ),
    url="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html",
)
check.signature(
    "have not registered within the timeout",
    pattern=r"worker process\((?P<pid>\d+)\) have not registered within the timeout",
    says="worker processes that Ray starts do not come up in time (pid {pid}): they hang in their start",
    fixes=(
        Fix(
            title="see where one hangs, on its node; an environment on slow shared storage and too many workers at "
            "once are the usual reasons",
            commands=("py-spy dump --pid {pid}",),
        ),
        Fix.safe("give them more time", {"env.RAY_worker_register_timeout_seconds": "600"}),
        Fix(title="or put the environment on a local disk (uv, pip and conda in runtime_env are copied for each job)"),
    ),
    url=_URL,
)
check.signature(
    "Failed to register worker to Raylet",
    "Unable to register worker with raylet",
    details=(r"Failed to (?P<what>read data from the socket|connect to socket[^:.]*)",),
    says="a process of Ray cannot register with the raylet of its node[[: failed to {what}]]: the raylet has ended or "
    "does not answer",
    fixes=(
        _READ,
        Fix(
            title="in a container or a Slurm job that has fewer CPUs than the node: tell Ray how many, so that it "
            "starts no more workers than they can serve (ray start --num-cpus=N, ray.init(num_cpus=N))"
        ),
        _STOP,
    ),
    url="https://github.com/verl-project/verl/issues/3972",
)
