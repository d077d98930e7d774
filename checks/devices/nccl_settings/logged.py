"""Failures of NCCL's transports, interfaces and InfiniBand in a log."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent, Role

from . import check
from .fixes import DEBUG, NAME_INTERFACE, NEWER_VLLM, NO_DIRECT_TRANSFERS, NO_NVLS, SAME_CUMEM


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
