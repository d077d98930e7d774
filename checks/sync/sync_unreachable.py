"""Trainer and rollout server cannot reach each other's weight sync port, or the sync hangs.

What it looks for
    One port for two purposes, a sync port that is taken on this host, two trainers of one file that run at the same
    time and ask one server. In a log: sockets of the weight sync group that time out, are taken or refused, and groups
    that wait for a member. In a run that still stands (``rldoctor hang``): processes that wait in a collective of the
    weight sync for one that is elsewhere.

Why it hurts
    The HTTP side works, so the server counts as up. The trainer then waits for the NCCL group, five minutes or for
    ever, and the error speaks of a client socket.

How sure it is
    Port 51216 is the default of TRL and ms-swift, other ports are known by the functions in the traceback.

The fix and its cost
    A port that is open from the trainer to the server's host, no proxy between, one trainer for each server.

References
    ``trl/generation/vllm_client.py`` (``group_port=51216``), ms-swift ``vllm_server_group_port``
    https://github.com/modelscope/ms-swift/issues/5545, https://github.com/modelscope/ms-swift/issues/6244
    https://github.com/PrimeIntellect-ai/prime-rl/issues/1713
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    Reach,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.hang import stalled_run

from ..declared.beside import counted_up, named
from ..observed.waiting import LONGER, evidence, missing_peers, missing_text, syncs

if TYPE_CHECKING:
    from rldoctor.api.hang import MissingPeers

check = Check("RLD406", "weight-sync-unreachable", __doc__, before=("RLD323",))

PORT, SERVER_PORT, MASTER_PORT = "sync.port", "placement.server_port", "process.master_port"
SYNC = r"51216|init_communicator|StatelessProcessGroup|init_weight_update_group|vllm_client|init_collective"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Seconds by which an event loop is late when it is blocked, not busy.
LATE = 30


@check.declared(needs=[f"plan.{PORT}"])
def one_port_for_two(case: Case) -> Iterator[Finding | Reach]:
    """The group's port against the server's HTTP port and the rendezvous."""
    plan = plan_of(case)
    port = plan.value(PORT)
    for option, whose in ((SERVER_PORT, "the server's HTTP port"), (MASTER_PORT, "the training rendezvous")):
        others = plan.value(option)
        if port == others or (isinstance(others, list) and port in others):
            yield check.finding(
                f"the weight sync group meets at port {port}, which is {whose} too",
                evidence=cite(plan, PORT, option),
                fixes=(Fix.safe("give the group a port of its own", {PORT: 51216 if port != 51216 else 51217}),),
            )
            return
    taken = case.host.listening_ports if case.host is not None else ()
    if port in taken and plan.value("placement.server_host") in (None, "0.0.0.0", *LOOPBACK):
        yield check.finding(
            f"weight sync port {port} is in use on this host already (another run's server?)",
            severity=Severity.WARNING,
            evidence=(*cite(plan, PORT), Evidence(text=f"a process listens on port {port}", source="host")),
            fixes=(Fix(title="end the other run, or give this one another group port"),),
        )
        return
    yield Reach(f"weight sync at port {port}")


@check.declared(needs=["plan.process.beside", "plan.placement.mode"])
def one_server_for_two(case: Case) -> Iterator[Finding | Reach]:
    """Two trainers that run at the same time: the server keeps one group for weights, and one model."""
    plan = plan_of(case)
    if plan.role != "trainer" or plan.value("placement.mode") != "server":
        raise NotApplicable("the launch asks no server")
    for other in plan.value("process.beside"):
        if not other.get("shares_server"):
            continue
        port = plan.value(SERVER_PORT)
        own = Fix.unsafe(
            "give this trainer a server of its own",
            {SERVER_PORT: port + 1} if isinstance(port, int) else {},
            side_effects="the server has to listen there; its group port has to be another one too",
        )
        yield check.finding(
            f"{named(plan, other, 'trainer')} asks the same server ({other['server']}), which takes the weights of one "
            "trainer",
            evidence=(
                Evidence(text="started in the background", source=other["file"], line=other["line"]),
                *cite(plan, SERVER_PORT, "placement.server_host", "placement.server_url"),
            ),
            fixes=(counted_up(plan, other, port, "the server's port", own) if isinstance(port, int) else own,),
        )
        return
    yield Reach("no other trainer of the file asks its server")


_OPEN = Fix(
    title="open the group port (51216 unless another is given) from the trainer to the server's host, name the host "
    "by the address that the trainer reaches, and keep proxies away from it",
    commands=("nc -zv SERVER_HOST 51216", "unset http_proxy https_proxy all_proxy"),
)
_NO_PROXY = Fix.unsafe(
    "take the server's host out of the proxy",
    {"env.no_proxy": "localhost,127.0.0.1"},
    side_effects="add the server's host where it is another machine",
)
_RESTART = Fix(title="restart server and trainer together: the group is built once for each pair, and both must be new")


@check.observed(needs=["observations.hang"])
def sync_stands(case: Case) -> Iterator[Finding | Reach]:
    """Peers of which some stand in a collective of the weight sync, and others do not come."""
    run = stalled_run(case)

    def finding(group: MissingPeers, severity: Severity) -> Finding:
        return check.finding(
            f"the weight sync stands: {missing_text(group, run)}",
            severity=severity,
            grade=Grade.OBSERVED,
            evidence=evidence(run, (*group.missing, *group.waiting)),
            fixes=(
                Fix(title="let every rank of trainer and engine enter the update, in the same order of parameters"),
                LONGER,
            ),
        )

    yield from missing_peers(run, syncs, finding)


# torch's store under the weight sync group.
check.signature(
    "The client socket has timed out after",
    "The client socket has failed to connect to any network address",
    "waiting for clients. ",
    "wait timeout after ",
    details=(r"(?:connect to|address of) \(?\[?(?P<host>[\w.:-]+?)\]?, (?P<port>\d+)\)?",),
    pattern=SYNC,
    says="the weight sync group does not come about[[: nobody answers at {host}, port {port}]]",
    fixes=(_OPEN, _NO_PROXY, _RESTART),
    url="https://github.com/modelscope/ms-swift/issues/6244",
)


# The port is another run's, or this server's from before.
check.signature(
    "The server socket has failed to listen on any local network address",
    pattern=SYNC,
    details=(r"port: (?P<port>\d+)|\[::\]:(?P<port_2>\d+)",),
    says="the weight sync port[[ {port}]] is in use already",
    fixes=(Fix.unsafe("another port for the group of each run", {PORT: 51217}), _RESTART),
)


# The request that tells the server to take new weights is not answered in time.
check.signature(
    "httpx.ReadTimeout",
    "httpx.ReadError",
    "Read timed out. (read timeout=",
    pattern=r"\b(?P<asked>update_weights\w*|load_lora_adapter|update_named_param|update_flattened_params)\b",
    says="the rollout server did not answer {asked} in time: it still loads the weights, or hangs in the sync",
    fixes=(
        Fix(title="see in the server's log whether the update ended", commands=("rldoctor triage server.log",)),
        Fix(title="put the weights on storage that the server reads faster, or allow the request more time"),
        _RESTART,
    ),
    url="https://github.com/PrimeIntellect-ai/prime-rl/issues/1119",
)


def _late(case: Case, event: LogEvent) -> Mapping[str, str] | None:
    """prime-rl's orchestrator measures how late its event loop runs."""
    lag = event.search(r"event_loop_lag\w*\W+(?:max\W+)?(\d+(?:\.\d+)?)")
    return {"seconds": f"{float(lag[1]):.0f}"} if lag is not None and float(lag[1]) >= LATE else None


# Mooncake's transfer engine under checkpoint-engine and the engines' connectors answers with a number alone.
check.signature(
    "assert self.engine.batch_transfer_sync_read(",
    "Mooncake Transfer Engine initialization failed",
    "Sync batch data transfer timeout after ",
    exception=("AssertionError", "RuntimeError"),
    says="Mooncake could not move data between two processes (RDMA device, address or protocol)",
    fixes=(
        Fix(
            title="name the devices that both nodes reach each other by, and see what Mooncake's own lines say (they "
            "begin with E and a date)",
            commands=("ibv_devinfo", "export MC_LOG_LEVEL=INFO"),
        ),
        Fix(title="or send weights without it: the broadcast over NCCL of the same framework"),
    ),
    url="https://github.com/MoonshotAI/checkpoint-engine/issues/3",
)
check.signature(
    "event_loop_lag",
    when=_late,
    says="the orchestrator's event loop is {seconds} s late: trainer, orchestrator and inference wait for each other",
    severity=Severity.WARNING,
    fixes=(Fix(title="move blocking work (tokenization, verification) out of the event loop, and restart the run"),),
    url="https://github.com/PrimeIntellect-ai/prime-rl/issues/1713",
)
