"""The ranks do not find each other: the meeting address or port is wrong, taken or blocked.

What it looks for
    A master address of this machine alone in a run over several nodes, none at all where ms-swift or accelerate start
    one, a port outside the range or taken already (a server's too), one port for two launches of a file that run at
    the same time on one host, or for a server and ranks that meet or weights that go to another server, nodes that
    join Ray at another port than the head's, TRL's fixed port of colocated engines. In a log: sockets that time out,
    fail to listen or cannot resolve a name, and torchelastic's rendezvous errors.

Why it hurts
    Each node waits for itself, or for a host that does not answer, until the time limit. A taken port ends the second
    run on a host at its start.

How sure it is
    An address is judged where the launch states it and is meant for other nodes too; one that a scheduler's variable
    may replace is left alone. Ports in use are those of this host at this moment.

The fix and its cost
    The first node's address on every node, and a free port. ``--standalone`` on one node chooses a free one.

References
    https://docs.pytorch.org/docs/stable/elastic/run.html
    https://github.com/huggingface/trl/issues/3979 (port 12345 through 0.23),
    https://github.com/huggingface/trl/pull/4057
    https://github.com/verl-project/verl/issues/5889, https://github.com/vllm-project/vllm/issues/12526
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Role,
    RolloutPlan,
    Setting,
    Severity,
    cite,
    plan_of,
    version_within,
)
from rldoctor.api.logs import LoggedException

from ..declared.beside import counted_up, named
from ..declared.devices import LOOPBACK
from ..observed.servers import STOPS_ALL_OF_RAY

check = Check("RLD323", "rendezvous-unreachable", __doc__, before=("RLD321",))

ADDRESS, PORT, ENDPOINT = "process.master_addr", "process.master_port", "process.rdzv_endpoint"
HIGHEST_PORT = 65535
# torch/distributed/run.py --master-port, deepspeed/constants.py TORCH_DISTRIBUTED_DEFAULT_PORT
DEFAULT_PORT = 29500
# grpo_trainer.py 0.18 to 0.23: os.environ.get("MASTER_PORT", "12345")
TRL_PORT, TRL_RELEASES = 12345, ">=0.18,<0.24"
# Frameworks whose servers look for a free port from the one that they are given on.
SEEK = ("ms-swift",)
# What a part of a launch does at a port, and the option that moves it.
_DOES = {"meets": "meets at", "listens": "listens at", "group": "builds its group for weights at"}
_SETTING = {"meets": PORT, "listens": "placement.listen_port", "group": "sync.port"}
# What weight sync and its servers say with the same words is RLD406's.
SYNC = ("init_communicator", "StatelessProcessGroup", "init_weight_update_group", "vllm_client", "51216")


@check.declared(needs=["plan.process.nnodes"])
def address_of_the_first_node(case: Case) -> Iterator[Finding | Reach]:
    """Where the nodes of a run are to meet."""
    plan = plan_of(case)
    if plan.value("process.nnodes") < 2 or plan.value("process.launcher") not in ("torchrun", "accelerate"):
        raise NotApplicable("a single node needs no rendezvous address")
    if plan.get(ENDPOINT) is not None and plan.value("process.launcher") == "torchrun":
        yield from _endpoint(plan)
        return
    setting = plan.get(ADDRESS)
    if setting is None or (setting.value is None and setting.unknown is None):
        yield from _no_address(plan)
        return
    if setting.value is None or _replaceable(setting):
        raise NotChecked(f"the master address comes from outside the launch: {setting.unknown or setting.raw}")
    if setting.value not in (*LOOPBACK, "0.0.0.0"):
        yield Reach(f"{plan.value('process.nnodes')} nodes meet at {setting.value}")
        return
    if not _for_other_nodes(plan):
        raise NotChecked("this is the first node's launch, or which node's it is cannot be read")
    yield check.finding(
        f"{plan.value('process.nnodes')} nodes are to meet at {setting.value}, which is each node itself",
        evidence=cite(plan, ADDRESS, "process.nnodes"),
        fixes=(_name_the_first(plan),),
    )


@check.declared(needs=[f"plan.{PORT}"])
def port_can_be_used(case: Case) -> Iterator[Finding | Reach]:
    """The port of the launch itself."""
    plan = plan_of(case)
    port = plan.value(PORT)
    if not 0 <= port <= HIGHEST_PORT:
        yield check.finding(
            f"port {port} does not exist: torch takes 0 to {HIGHEST_PORT}",
            evidence=cite(plan, PORT),
            fixes=(_another_port(29500),),
        )
        return
    taken = case.host.listening_ports if case.host is not None else ()
    here = plan.value("process.node_rank", 0) == 0 and plan.value("process.nnodes", 1) == 1 and not _elsewhere(plan)
    if port in taken and here:
        yield check.finding(
            f"port {port} is in use on this host already",
            severity=Severity.WARNING,
            evidence=(*cite(plan, PORT), Evidence(text=f"a process listens on port {port}", source="host")),
            fixes=(_another_port(_free(port, taken)),),
        )
        return
    free = "is free on this host" if here and case.host is not None else "is a port; who uses it there is not known"
    yield Reach(f"port {port} {free}")


@check.declared(needs=["plan.placement.listen_port", "host.listening_ports"])
def port_of_a_server(case: Case) -> Iterator[Finding | Reach]:
    """The port at which a server of the file is to listen, on this host."""
    plan = plan_of(case)
    server = plan if plan.role == "server" else plan.server
    if server is None or _elsewhere(server):
        raise NotApplicable("the launch starts no server on this host")
    if server.framework in SEEK:
        raise NotApplicable(f"{server.framework} takes the next port that is free")
    port, taken = server.value("placement.listen_port"), case.host.listening_ports if case.host is not None else ()
    if port not in taken:
        yield Reach(f"port {port}, at which the server is to listen, is free on this host")
        return
    yield check.finding(
        f"a process on this host listens already at port {port}, where the server is to",
        severity=Severity.WARNING,
        evidence=(
            *cite(server, "placement.listen_port"),
            Evidence(text=f"a process listens on port {port}", source="host"),
        ),
        fixes=(
            Fix(
                title=f"see who has it, and end it where an earlier run left it; or take port {_free(port, taken)}",
                commands=(f"ss -ltnp 'sport = :{port}'",),
            ),
        ),
    )


def _elsewhere(plan: RolloutPlan) -> bool:
    """Whether the ports of this host are not those of the launch."""
    return bool(plan.value("process.own_ports"))


@check.declared(needs=["plan.process.beside"])
def port_of_two_launches(case: Case) -> Iterator[Finding | Reach]:
    """Two launches of one file that run at the same time, and whose ranks meet at one port."""
    plan = plan_of(case)
    reported = {
        name: plan.value(f"process.{name}") for name in ("launcher", "master_port", "standalone", "rdzv_backend")
    }
    port = _meets_at(reported)
    if port is None:
        raise NotApplicable("its launcher takes a free port, or which one is not known")
    for other in plan.value("process.beside"):
        if _meets_at(other) != port or other.get("nnodes") not in (None, 1) or plan.value("process.nnodes", 1) != 1:
            continue
        given = "" if reported["master_port"] else ", the launcher's default"
        yield check.finding(
            f"{named(plan, other, 'launch')} meets at the same port {port}{given}: the second cannot listen there "
            "(EADDRINUSE)",
            evidence=(
                Evidence(text="started in the background", source=other["file"], line=other["line"]),
                Evidence(text=f"meets at port {port} as well", source=plan.file, line=plan.line),
            ),
            fixes=(counted_up(plan, other, port, "the port", _another_port(port + 1)),),
        )
        return
    yield Reach(f"no other launch of the file meets at port {port}")


@check.declared(needs=["plan.process.beside", "plan.placement.listen_port"])
def port_of_two_servers(case: Case) -> Iterator[Finding | Reach]:
    """Two servers of one file that run at the same time, and listen at one port."""
    plan = plan_of(case)
    if plan.role != "server":
        raise NotApplicable("the launch is no server")
    if plan.framework in SEEK:
        raise NotApplicable(f"{plan.framework} takes the next port that is free")
    port = plan.value("placement.listen_port")
    for other in plan.value("process.beside"):
        if other.get("port") != port:
            continue
        own = Fix.safe("give this server a port of its own", {"placement.listen_port": port + 1})
        yield check.finding(
            f"{named(plan, other, 'server')} listens at the same port {port}: the second cannot listen there "
            "(EADDRINUSE)",
            evidence=(
                Evidence(text="started in the background", source=other["file"], line=other["line"]),
                *cite(plan, "placement.listen_port"),
            ),
            fixes=(counted_up(plan, other, port, "the port", own),),
        )
        return
    yield Reach(f"no other server of the file listens at port {port}")


@check.declared(needs=["plan.process.ports_beside"])
def port_of_another_part(case: Case) -> Iterator[Finding | Reach]:
    """Parts of one file that run at the same time and take one port for different ends: ranks that meet, a server that
    listens, the group over which weights go to a server."""
    plan = plan_of(case)
    names = ("launcher", "master_port", "standalone", "rdzv_backend")
    own = {
        "meets": _meets_at({name: plan.value(f"process.{name}") for name in names}),
        "listens": plan.value("placement.listen_port") if plan.role == "server" else None,
        "group": plan.value("sync.port") if _asks_this_host(plan) else None,
    }
    for other in plan.value("process.ports_beside"):
        does = next((name for name, port in own.items() if port == other["port"]), None)
        shared = does is not None and (does, other["does"]) != ("listens", "listens")
        if does is None or not shared or (other["does"] == "listens" and other["framework"] in SEEK):
            continue
        this = "does the same" if does == other["does"] else _DOES[does].removesuffix(" at")
        yield check.finding(
            f"{named(plan, other, other['role'])} {_DOES[other['does']]} port {other['port']}, at which this one "
            f"{this}: the second cannot listen there (EADDRINUSE)",
            evidence=(
                Evidence(text=f"{_DOES[other['does']]} port {other['port']}", source=other["file"], line=other["line"]),
                Evidence(text=f"{_DOES[does]} the same port", source=plan.file, line=plan.line),
            ),
            fixes=(Fix.safe("a port of its own", {_SETTING[does]: other["port"] + 1}),),
        )
        return
    yield Reach(f"no other part of the file takes its ports ({', '.join(str(p) for p in own.values() if p) or 'none'})")


@check.declared(needs=["plan.ray.head_port", "plan.ray.joined_port"])
def port_of_rays_head(case: Case) -> Iterator[Finding | Reach]:
    """The port at which the file's head of Ray listens, and the one at which its further nodes look for it."""
    plan = plan_of(case)
    listens, joined = plan.value("ray.head_port"), plan.value("ray.joined_port")
    if listens == joined:
        yield Reach(f"Ray's head listens at port {listens}, where the further nodes join")
        return
    yield check.finding(
        f"further nodes are to join Ray at port {joined}, and the head that the file starts listens at {listens}: "
        "they find nobody there, and the cluster stays one node",
        evidence=cite(plan, "ray.joined_port", "ray.head_port"),
        fixes=(Fix(title=f"join the head where it listens: ray start --address=HEAD:{listens}"),),
        url="https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html",
    )


def _asks_this_host(plan: RolloutPlan) -> bool:
    """Whether the server that a trainer asks is on its own host."""
    if plan.value("placement.mode") != "server" or plan.value("placement.server_url"):
        return False
    return plan.value("placement.server_host") in (None, "0.0.0.0", *LOOPBACK)


def _meets_at(reported: Mapping[str, Any]) -> int | None:
    """The port at which the ranks of a launch meet on their host, None where the launcher looks for a free one or it is
    not known which it takes."""
    if reported.get("standalone") or reported.get("rdzv_backend") not in (None, "static"):
        return None
    if reported.get("master_port"):
        return int(reported["master_port"]) if reported["launcher"] in ("torchrun", "deepspeed", "accelerate") else None
    return DEFAULT_PORT if reported["launcher"] in ("torchrun", "deepspeed") else None


@check.declared(needs=["plan.placement.mode", "host.listening_ports"])
def fixed_port_of_colocated_engines(case: Case) -> Iterator[Finding | Reach]:
    """TRL's colocated engines meet at port 12345 where no launcher sets MASTER_PORT."""
    plan = plan_of(case)
    fixed = plan.framework in ("TRL", "open-r1") and plan.version is not None
    if not fixed or plan.value("placement.mode") != "colocate" or plan.value("process.launcher") != "none":
        raise NotApplicable("a launcher chooses the port, or no engine is colocated")
    if not version_within(plan.version or "", TRL_RELEASES) or plan.value("env.MASTER_PORT") is not None:
        yield Reach(f"TRL {plan.version} finds a free port, or MASTER_PORT is set")
        return
    taken = case.host.listening_ports if case.host is not None else ()
    if TRL_PORT not in taken:
        yield Reach(f"port {TRL_PORT} is free")
        return
    yield check.finding(
        f"TRL {plan.version} lets colocated engines meet at port {TRL_PORT}, which another process on this host uses",
        evidence=(
            *cite(plan, "placement.mode", "process.launcher"),
            Evidence(text=f"a process listens on port {TRL_PORT}", source="host"),
        ),
        fixes=(
            Fix.safe("give this run a port of its own", {"env.MASTER_PORT": str(_free(29500, taken))}),
            Fix(title="TRL 0.24 and later find a free one", commands=('pip install "trl>=0.24"',)),
        ),
        url="https://github.com/huggingface/trl/issues/3979",
    )


def _endpoint(plan: RolloutPlan) -> Iterator[Finding | Reach]:
    """The endpoint that torchrun is given on every node alike; the first node's own command may name itself so."""
    setting = plan.settings[ENDPOINT]
    if setting.value is None or _replaceable(setting):
        raise NotChecked(f"the rendezvous comes from outside the launch: {setting.unknown or setting.raw}")
    host = str(setting.value).rpartition(":")[0] or str(setting.value)
    if host.strip("[]") not in LOOPBACK:
        yield Reach(f"{plan.value('process.nnodes')} nodes meet at {setting.value}")
        return
    yield check.finding(
        f"{plan.value('process.nnodes')} nodes are to meet at {setting.value}, which is each node itself where all run "
        "this command",
        severity=Severity.WARNING,
        evidence=cite(plan, ENDPOINT, "process.nnodes"),
        fixes=(_name_the_first(plan),),
    )


def _no_address(plan: RolloutPlan) -> Iterator[Finding | Reach]:
    """ms-swift hands torchrun what the variables say, and accelerate its own option; both default to nobody."""
    swift = plan.framework == "ms-swift" and plan.entry.startswith(("swift ", "megatron "))
    accelerate = plan.value("process.launcher") == "accelerate" and plan.value("process.rdzv_backend") in (
        None,
        "static",
    )
    if plan.value("trainer.strategy") == "deepspeed" or not (swift or accelerate):
        raise NotChecked("the launch does not say where the nodes meet")
    if swift and not _for_other_nodes(plan):
        raise NotChecked("this is the first node's launch, or which node's it is cannot be read")
    default = "127.0.0.1" if swift else "no address"
    yield check.finding(
        f"{plan.value('process.nnodes')} nodes and no master address: the launcher takes {default}",
        evidence=cite(plan, "process.nnodes", "process.launcher"),
        fixes=(_name_the_first(plan),),
    )


def _name_the_first(plan: RolloutPlan) -> Fix:
    launcher = plan.value("process.launcher")
    option = {"accelerate": "--main_process_ip", "torchrun": "--master_addr"}.get(launcher, "")
    if launcher == "torchrun" and plan.get(ENDPOINT) is not None:
        option = "--rdzv_endpoint"
    if plan.framework == "ms-swift":
        option = "MASTER_ADDR"
    return Fix(
        title=f"name the first node's address on every node ({option})",
        commands=(f"{option}={'$(hostname -i of the first node)'}",),
    )


def _for_other_nodes(plan: RolloutPlan) -> bool:
    """Whether the launch is, or is also, that of a node which is not the first: a rank above 0, or one from a variable.
    The first node may well call itself by its loopback address."""
    rank = plan.get("process.node_rank")
    return rank is not None and (bool(rank.value) or rank.unknown is not None or _replaceable(rank))


def _replaceable(setting: Setting) -> bool:
    """Whether the value is only the default of a variable (``${MASTER_ADDR:-127.0.0.1}``)."""
    return "$" in (setting.raw or "")


def _another_port(port: int) -> Fix:
    return Fix.safe("a free port", {PORT: port})


def _free(port: int, taken: tuple[int, ...]) -> int:
    return next(number for number in range(port + 1, HIGHEST_PORT) if number not in taken)


_PORT = Fix(
    title="another MASTER_PORT for every run on a host, and no leftover of an earlier run (--master_port of torchrun, "
    "--main_process_port of accelerate; --standalone chooses a free one)",
    commands=("export MASTER_PORT=$(shuf -i 20000-60000 -n 1)", "torchrun --standalone ..."),
)
_TRL_PORT = Fix(
    title="TRL 0.24 and later find a free port for colocated engines", commands=('pip install "trl>=0.24"',)
)
_REACH = Fix(
    title="see that the first node's name resolves and its port is open from every node, and that the first node's "
    "launcher runs (MASTER_ADDR, MASTER_PORT, NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME of the right interface)",
    commands=("getent hosts $MASTER_ADDR", "nc -zv $MASTER_ADDR $MASTER_PORT"),
)


# torch's TCPStore cannot bind; the words after the port differ over the releases.
check.signature(
    "The server socket has failed to listen on any local network address",
    unless=SYNC,
    details=(r"port: (?P<port>\d+)|\[::\]:(?P<port_2>\d+)|0\.0\.0\.0:(?P<port_3>\d+)",),
    says="the rendezvous port[[ {port}]] is in use already",
    fixes=lambda case, event, words: ((_TRL_PORT,) if words.get("port") == str(TRL_PORT) else ()) + (_PORT,),
    url="https://docs.pytorch.org/docs/stable/elastic/run.html",
)


# A socket of a server (asyncio, as uvicorn passes it on without a traceback) or of ZeroMQ.
_TAKEN = (
    Fix(
        title="see who has it, and end it where an earlier run left it; or choose another port for the server",
        commands=("ss -ltnp 'sport = :{port|PORT}'",),
    ),
)
check.signature(
    "error while attempting to bind on address (",
    details=(r"bind on address \('[^'\n]*', (?P<port>\d+)",),
    unless=SYNC,
    says="another program on this host has the port[[ {port}]] already",
    fixes=_TAKEN,
    silent=True,
)
check.signature(
    "[Errno 98] Address already in use",
    "ZMQError: Address already in use",
    details=(r"addr='\w+://[^'\n]*:(?P<port>\d+)'",),
    unless=SYNC,
    says="another program on this host has the port[[ {port}]] already",
    fixes=_TAKEN,
)


# torch's own test of the number.
check.signature(
    "port must have value from 0 to 65535",
    details=(r"but was (?P<number>-?\d+)",),
    says="port [[{number}]] does not exist",
    fixes=(_PORT,),
)


# A rank, or torchelastic's agent, does not get through to the store.
check.signature(
    "The client socket has timed out after",
    "The client socket has failed to connect to any network address",
    "The connection to the C10d store has failed",
    "RendezvousTimeoutError",
    details=(r"(?:connect to|address of) \(?\[?(?P<host>[\w.:-]+?)\]?, (?P<port>\d+)\)?",),
    unless=SYNC,
    says="nobody answers at the meeting address[[ {host}, port {port}]]",
    fixes=(_REACH, _PORT),
    url="https://docs.pytorch.org/docs/stable/elastic/run.html",
)


def _waits(error: LoggedException) -> bool:
    """Whether an exception is a store's time-out, or only passes one on."""
    text = f"{error.type}: {error.message}"
    return "wait timeout after " in text or re.search(r"Engine ?core|EngineDead|ChildFailed|RayTask", text) is not None


def _nothing_else_failed(case: Case, event: LogEvent) -> bool:
    return all(map(_waits, event.run.failures))


def _something_else_failed(case: Case, event: LogEvent) -> bool:
    return not _nothing_else_failed(case, event)


# The store is there, and some rank never wrote what the others wait for; beside another failure that is no cause.
for _role, _when in ((Role.CAUSE, _nothing_else_failed), (Role.CASCADE, _something_else_failed)):
    check.signature(
        "wait timeout after ",
        pattern=r"wait timeout after (?:(?P<seconds>\d+)\d{3}|\d{1,3})ms, keys: (?P<key>\S+)",
        when=_when,
        unless=SYNC,
        role=_role,
        says="a rank did not arrive at the store within {seconds|0} s (key {key})",
        fixes=(Fix(title="the rank that is missing tells why: its own log, or its stack"), _REACH),
        url="https://github.com/vllm-project/vllm/issues/12526",
    )


# torch's warning before the time-out; healthy runs print it for IPv6 alone.
check.signature(
    "(gai error: ",
    says="the host name of the meeting address does not resolve",
    role=Role.CONFIRMATION,
)


check.signature(
    "Failed to connect to GCS at address",
    "Failed to get cluster ID from GCS server",
    "Unable to connect to GCS",
    details=(r"GCS (?:\(ray head\) )?at (?:address )?(?P<address>[\w.:-]*\d)",),
    unless=("GCS may have been killed",),
    says="no Ray head answers[[ at {address}]]: its address or port is wrong, blocked, or that of a cluster "
    "that has ended",
    fixes=(
        Fix(
            title="where no other run uses Ray on these nodes, end what an earlier cluster left, start the head, and "
            "join it by the address that it prints",
            commands=("ray stop --force", "ray start --head --port=6379", "ray start --address=HEAD_ADDRESS:6379"),
            side_effects=STOPS_ALL_OF_RAY,
        ),
        Fix(
            title="see that the port is open between the nodes, and that no proxy variable or RAY_ADDRESS "
            "names another one"
        ),
    ),
    url="https://docs.ray.io/en/latest/ray-core/starting-ray.html",
)
