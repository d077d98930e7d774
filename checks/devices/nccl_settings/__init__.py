"""NCCL settings that differ between peers, or do not suit the network and the GPUs.

What it looks for
    NCCL variables that the rollout server's command and the trainer's set differently, the loopback interface for a run
    over several nodes, OpenRLHF releases that set ``NCCL_CUMEM_ENABLE=0`` under a vLLM whose NCCL no longer takes it. A
    small job of several ranks on this host that fails with the communication settings of the launch or the shell and
    succeeds without them, or whose numbers come out wrong. Over several nodes, where torchrun or srun runs rldoctor
    once on each: a node, or a pair of nodes, that exchanges less than a quarter of what the fastest pair does. In a
    log: CUDA failures in NCCL's transports, an interface that does not exist, InfiniBand errors, peer access that the
    GPUs refuse.

Why it hurts
    Both ends of a group choose their transport from these settings. Where they differ the group hangs, or fails with
    ``unhandled cuda error`` or ``unhandled system error`` when the first weights are sent, after everything has loaded.

How sure it is
    Different values in one file are certain; which of them is right is not. The small job is run again without the
    settings, and without each by itself: the fewest that cure it are named, and the cure is proven. In a log, NCCL's
    own warning (with ``NCCL_DEBUG=WARN``) names the failing call, without it only the kind of error is known.

The fix and its cost
    One value on both sides. ``NCCL_P2P_DISABLE=1`` and ``NCCL_SHM_DISABLE=1`` avoid the failing path, at the price of
    slower transfers.

References
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    ``vllm/env_override.py``: vLLM 0.6.3 to 0.10.1 set NCCL_CUMEM_ENABLE=0 in its processes, 0.10.2 no longer does
    https://github.com/NovaSky-AI/SkyRL/pull/143, https://github.com/NVIDIA-NeMo/RL/pull/601
    https://github.com/NVIDIA-NeMo/RL/issues/722, https://github.com/NovaSky-AI/SkyRL/issues/84
    ``openrlhf/trainer/ray/ppo_actor.py`` (``Skip for vLLM >= 0.16``, from 0.9.5)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Role,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
    version_within,
)
from rldoctor.api.engine import release

from ...observed.communication import (
    PROBE,
    Links,
    cured_without,
    evidence,
    for_elsewhere,
    node_named,
    origin,
    runs,
    settings,
    unset,
)
from .fixes import DEBUG, NAME_INTERFACE, NEWER_VLLM, NO_DIRECT_TRANSFERS, NO_NVLS, SAME_CUMEM

check = Check("RLD322", "nccl-settings-mismatch", __doc__, before=("RLD320",))

# What every rank of a group must see alike.
ALIKE = (
    "NCCL_CUMEM_ENABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_IB_DISABLE",
    "NCCL_NET",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
)
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


@check.declared(needs=["plan"])
def peers_differ(case: Case) -> Iterator[Finding | Reach]:
    """The variables of a rollout server's command against those of the trainer's, in one file."""
    plan = plan_of(case)
    if plan.server is None:
        raise NotApplicable("no rollout server is started beside the trainer")
    unread = [name for name in ALIKE if _unread(plan, name) or _unread(plan.server, name)]
    compared = [name for name in ALIKE if name not in unread]
    differing = [name for name in compared if _value(plan, name) != _value(plan.server, name)]
    if not differing and compared:
        yield Reach(f"{len(compared)} NCCL settings are alike for server and trainer")
    if unread and not differing:
        raise NotChecked(f"{', '.join(unread)} cannot be read from the launch file")
    for name in differing:
        ours, theirs = _value(plan, name), _value(plan.server, name)
        option = f"env.{name}"
        yield check.finding(
            f"{name} is {theirs or 'not set'} for the rollout server and {ours or 'not set'} for the trainer, which "
            "meet in one NCCL group",
            evidence=(*cite(plan.server, option), *cite(plan, option)),
            fixes=(
                Fix(
                    title="the same for both" if theirs else "leave it unset for both",
                    applicability=Applicability.SAFE if _spelled_here(plan, option) else Applicability.UNSAFE,
                    edits=(Edit(option=option, value=theirs),),
                ),
            ),
            url="https://github.com/NovaSky-AI/SkyRL/pull/143",
        )


@check.declared(needs=["plan"])
def loopback_over_nodes(case: Case) -> Iterator[Finding | Reach]:
    """The loopback interface reaches no other node."""
    plan = plan_of(case)
    nodes = max(plan.value("process.nnodes", 1), plan.value("placement.nodes", 1))
    given = [name for name in INTERFACES if plan.value(f"env.{name}") is not None]
    if nodes < 2 or not given:
        raise NotApplicable("one node, or no interface is named")
    for name in given:
        text = str(plan.value(f"env.{name}"))
        if text.lstrip("=") != "lo":
            yield Reach(f"{name}={text}")
            continue
        yield check.finding(
            f"{name}={text} names the loopback interface, and the run spans {nodes} nodes",
            evidence=cite(plan, f"env.{name}", "process.nnodes", "placement.nodes"),
            fixes=(
                Fix.unsafe(
                    "name the interface that reaches the other nodes, or exclude the ones that do not",
                    {f"env.{name}": "^lo,docker0"},
                ),
            ),
        )


@check.declared(needs=["plan.sync.backend", "packages.vllm"])
def memory_mapping_of_openrlhf(case: Case) -> Iterator[Finding | Reach]:
    """OpenRLHF 0.5.5 to 0.9.4 set NCCL_CUMEM_ENABLE=0 in the actor, for the vLLM of their time."""
    plan = plan_of(case)
    if plan.framework != "OpenRLHF" or plan.version is None or plan.value("sync.backend") != "nccl":
        raise NotApplicable("a matter of OpenRLHF's weight sync by NCCL")
    if plan.value("placement.mode") == "colocate":
        raise NotApplicable("colocated weights go by CUDA IPC")
    vllm = release(case)
    if vllm is None:
        raise NotChecked("the vLLM release is not known")
    if vllm < (0, 16) or not version_within(plan.version, ">=0.5.5,<0.9.5"):
        yield Reach(f"OpenRLHF {plan.version} and this vLLM agree on NCCL_CUMEM_ENABLE")
        return
    yield check.finding(
        f"OpenRLHF {plan.version} sets NCCL_CUMEM_ENABLE=0 in the actor, and the NCCL of vLLM 0.16 and later then "
        "refuses the weight sync group (unhandled cuda error)",
        evidence=cite(plan, "sync.backend", "placement.mode"),
        fixes=(
            Fix(
                title="OpenRLHF 0.9.5 and later leave it to NCCL under vLLM 0.16",
                commands=('pip install "openrlhf>=0.9.5"',),
            ),
            Fix.safe("or send the weights by gloo", {"sync.backend": "gloo"}, side_effects="a slower weight sync"),
        ),
    )


_LINKS = Fix(
    title="see how its device is connected, and whether its link has errors or runs at a lower width",
    commands=("nvidia-smi topo -m", "nvidia-smi nvlink --status", "nvidia-smi -q -d PCIE"),
)


@check.observed(needs=["observations.collectives"])
def job_fails_with_settings(case: Case) -> Iterator[Finding | Reach]:
    """The probe's job with the settings and without them."""
    found = runs(case)
    first, cure, given = found[0], cured_without(found), settings(case)
    if first.done and (apart := first.apart()) is not None:
        rank, fastest, slowest = apart
        yield check.finding(
            f"rank {rank} of {len(first.ranks)} {first.where}{first.at(rank)} exchanges at most {fastest:g} GB/s "
            f"with any other, and the others at least {slowest:g} GB/s with each other ({fastest / slowest:.0%})",
            severity=Severity.WARNING,
            grade=Grade.REPRODUCED,
            evidence=tuple(
                Evidence(text=f"ranks {pair}: {rate:g} GB/s", source=PROBE)
                for row in first.ranks
                for pair, rate in row["measured"]["pairs"].items()
            )[:8],
            fixes=(_LINKS,),
        )
    elif first.done and (links := first.links()) is not None and (at_fault := links.at_fault()):
        yield _slow_nodes(at_fault, links, first.hosts)
    elif first.done:
        yield Reach(f"{len(given)} communication settings {first.where}" if given else "no communication settings here")
    elif first.shared():
        raise NotApplicable("two ranks share a GPU: RLD302")
    elif cure:
        plan, elsewhere = case.plan, for_elsewhere(case, cure)
        safe = plan is not None and not elsewhere and all(_spelled_here(plan, f"env.{name}") for name in cure)
        named = ", ".join(f"{name}={given[name]}" for name in cure)
        yield check.finding(
            f"ranks {first.where} cannot work together with {named}, and do so without",
            severity=Severity.WARNING if elsewhere else Severity.ERROR,
            grade=Grade.REPRODUCED,
            evidence=(*origin(case, cure), *evidence(first.failed)),
            fixes=(unset(case, cure, safe), *(NAME_INTERFACE for name in cure[:1] if name in INTERFACES)),
            url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        )
    elif first.wrong():
        yield check.finding(
            f"collectives between the ranks of this host come out wrong: {first.wrong()[0]}",
            grade=Grade.REPRODUCED,
            evidence=tuple(Evidence(text=text, source=PROBE) for text in first.wrong()[:4]),
            fixes=(NO_DIRECT_TRANSFERS,),
            url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        )
    else:
        raise NotApplicable("the job fails without these settings, too: RLD320, RLD321")


def _slow_nodes(at_fault: tuple[int, ...], links: Links, hosts: Mapping[str, str]) -> Finding:
    names = " and ".join(node_named(node, hosts) for node in at_fault)
    rate = max(links.rates[pair] for pair in links.slow)
    others = (
        f"with any other of {len(hosts)} nodes" if len(at_fault) == 1 else f"with each other, of {len(hosts)} nodes"
    )
    verb = "exchanges" if len(at_fault) == 1 else "exchange"
    return check.finding(
        f"{names} {verb} at most {rate:g} GB/s {others}, {rate / links.fastest:.0%} of what the fastest pair does "
        f"({links.fastest:g} GB/s)",
        severity=Severity.WARNING,
        grade=Grade.REPRODUCED,
        evidence=tuple(
            Evidence(text=f"nodes {first} and {second}: {one:g} GB/s", source=PROBE)
            for (first, second), one in sorted(links.rates.items(), key=lambda row: row[1])[:8]
        ),
        fixes=(_NODE_LINKS,),
    )


_NODE_LINKS = Fix(
    title="see which interface or adapter NCCL and gloo chose there, its speed and its errors",
    commands=("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET torchrun ...", "ip -brief address", "ibstat"),
)


def _value(plan: RolloutPlan, name: str) -> str | None:
    value: str | None = plan.value(f"env.{name}")
    return value


def _unread(plan: RolloutPlan, name: str) -> bool:
    setting = plan.get(f"env.{name}")
    return setting is not None and setting.unknown is not None


def _spelled_here(plan: RolloutPlan, option: str) -> bool:
    """Whether an edit reaches the trainer alone: what stands in one line for both would change both."""
    ours, theirs = plan.get(option), plan.server.get(option) if plan.server else None
    if ours is None:
        return True
    return ours.line is not None and (theirs is None or (ours.file, ours.line) != (theirs.file, theirs.line))


def _disagree(case: Case, event: LogEvent) -> bool:
    in_ray = event.incident.framework in ("nemo-rl", "skyrl")
    return in_ray or event.search(r"(?i)cumem|invalid argument|transport/(?:p2p|nvls|shm)") is not None


# pynccl's words where trainer and engine on one node disagree about their transport.
check.signature(
    "NCCL error: unhandled cuda error",
    "NCCL error: unhandled system error",
    when=_disagree,
    says="the NCCL group of trainer and engine cannot be built: the two ends differ in their NCCL settings "
    "(CUMEM, P2P)",
    fixes=(NEWER_VLLM, SAME_CUMEM, NO_DIRECT_TRANSFERS, DEBUG),
    url="https://github.com/NVIDIA-NeMo/RL/issues/722",
)


@check.logged(
    "Cuda failure 1 'invalid argument'",
    "Cuda failure 'invalid argument'",
    "transport/nvls.cc:",
    "peer access is not supported between these two devices",
)
def transport_fails(case: Case, event: LogEvent) -> Iterator[Finding]:
    """NCCL's own warning of a CUDA call in its transports; a second group in a vLLM worker is RLD320."""
    failures = [link for error in event.run.failures for link in error.chain]
    if any(frame.function.startswith("update_weight") for error in failures for frame in error.frames):
        return
    where = event.search(r"(transport/\w+\.cc:\d+|include/alloc\.h:\d+)")
    nvls = "nvls" in event.line
    yield check.finding(
        f"a CUDA call of NCCL's transport fails{f' ({where[1]})' if where else ''}: memory mapping or direct GPU "
        "transfers do not work between these processes",
        fixes=(NO_NVLS,) if nvls else (SAME_CUMEM, NO_DIRECT_TRANSFERS, NEWER_VLLM),
        url="https://github.com/NovaSky-AI/SkyRL/issues/84",
    )


# NCCL and gloo look for the interface that a variable names.
check.signature(
    "Bootstrap : no socket interface found",
    "Unable to find address for: ",
    "Unable to find interface for: ",
    details=(r"Unable to find (?:address|interface) for: (?P<name>\S+)",),
    says="the network interface {name|that NCCL is configured to use} does not exist here or has no address",
    fixes=(NAME_INTERFACE,),
    url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
)


# Of another rank's address that nothing leads to; one that refuses is there, and its process is gone.
check.signature(
    "Connect to ",
    pattern=r"socket\w*Connect\w*: Connect to (?P<to>[\w.:%-]+)(?:<\d+>)? (?:failed|returned) ?: ?"
    r"(?P<why>No route to host|Network is unreachable|Connection timed out)",
    says="NCCL finds no way to another rank's address {to} ({why}): it took an interface that the nodes do not share, "
    "or a firewall stands between",
    fixes=(
        NAME_INTERFACE,
        Fix(title="and let the nodes reach each other at all ports: NCCL takes any that is free"),
    ),
    url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
)


# NCCL's InfiniBand transport, which does not fall back by itself.
_INFINIBAND = (
    Fix.unsafe(
        "choose adapter and GID (NCCL_IB_HCA, NCCL_IB_GID_INDEX), raise the limit of locked memory, or "
        "leave InfiniBand aside to see that the rest works",
        {"env.NCCL_IB_DISABLE": "1"},
        side_effects="transfers between nodes go by TCP",
    ),
    DEBUG,
)
check.signature(
    "Call to ibv_reg_mr",
    "Call to ibv_modify_qp failed",
    "Call to ibv_create_qp failed",
    "Call to ibv_alloc_pd failed",
    "Call to ibv_open_device failed",
    says="an InfiniBand transfer of NCCL fails: adapter, GID index or locked memory do not fit",
    fixes=_INFINIBAND,
)
# What is sent to a process that is gone completes with an error as well: another rank's own failure goes before it.
check.signature(
    *(f"NET/IB{name}: Got completion from peer" for name in (" ", "", "/GIN")),  # up to 2.19, since 2.20, of GIN
    ": got completion with error:",  # libmlx5, of a work request that the adapter gave up
    details=(r"from peer (?!with\b)(?P<peer>[\w.:-]+)",),
    says="an InfiniBand transfer of NCCL [[with {peer} ]]fails: adapter, GID index or cable do not carry it, or the "
    "other end is gone",
    fixes=_INFINIBAND,
    role=Role.CASCADE,
)


# accelerate refuses RTX 4000 cards with drivers before 550.40.07, unless its launcher started the run.
check.signature(
    "support faster communication broadband via P2P or IB",
    says="these GPUs have no direct transfers, and NCCL is not configured for that",
    fixes=(
        Fix.safe(
            "switch both off in NCCL, as accelerate launch does",
            {"env.NCCL_P2P_DISABLE": "1", "env.NCCL_IB_DISABLE": "1"},
        ),
    ),
)
