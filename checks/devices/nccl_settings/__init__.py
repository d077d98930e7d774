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

from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    cite,
    plan_of,
    version_within,
)
from rldoctor.api.engine import release

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
                    applicability=Applicability.SAFE if spelled_here(plan, option) else Applicability.UNSAFE,
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


def _value(plan: RolloutPlan, name: str) -> str | None:
    value: str | None = plan.value(f"env.{name}")
    return value


def _unread(plan: RolloutPlan, name: str) -> bool:
    setting = plan.get(f"env.{name}")
    return setting is not None and setting.unknown is not None


def spelled_here(plan: RolloutPlan, option: str) -> bool:
    """Whether an edit reaches the trainer alone: what stands in one line for both would change both."""
    ours, theirs = plan.get(option), plan.server.get(option) if plan.server else None
    if ours is None:
        return True
    return ours.line is not None and (theirs is None or (ours.file, ours.line) != (theirs.file, theirs.line))
