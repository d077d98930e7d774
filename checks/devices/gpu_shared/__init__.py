"""Two ranks that need a device each, or the trainer and its rollout server, are on one physical GPU.

What it looks for
    A rollout server and a trainer started by the same file whose visible devices overlap, a server mode on a machine
    with one GPU, OpenRLHF's first colocated releases with NCCL as the sync backend. In a log: NCCL's ``Duplicate GPU
    detected``, ``NCCL error: invalid usage`` where the weight sync group is built, and TRL's own refusal. In a small
    job of several ranks on this host: the UUID of each rank's GPU.

Why it hurts
    From TRL 0.16 and ms-swift 3.4 on, the server's ranks and the trainer's first rank join one NCCL group to send the
    weights. NCCL refuses two ranks of a group on one device, so the run ends when the trainer connects. Where only
    other trainer ranks share a device with the server, both fight for its memory.

How sure it is
    The devices are those that the launch gives to each side; without CUDA_VISIBLE_DEVICES both see all of them and take
    the first ones. Servers on other nodes are not judged.

The fix and its cost
    Devices of their own for each side. On one GPU: colocated mode, where the engine lives in the trainer's process and
    needs no group; trainer and engine then share the memory.

References
    https://github.com/huggingface/trl/issues/3158, https://github.com/huggingface/trl/issues/3706
    ``trl/scripts/vllm_serve.py`` (``init_communicator``: the device UUID test, from 0.20)
    https://github.com/OpenRLHF/OpenRLHF/issues/726, https://github.com/OpenRLHF/OpenRLHF/pull/729 (CUDA IPC, 0.5.9)
    https://github.com/rllm-org/rllm/issues/10
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
    version_within,
)

from ...declared.devices import (
    LOOPBACK,
    VISIBLE,
    Visible,
    engine_ranks,
    joined,
    machine_devices,
    machine_evidence,
    on_one_node,
    visible,
)

check = Check("RLD302", "gpu-shared-by-ranks", __doc__, before=("RLD320",))
_COLOCATE = {"TRL": ">=0.18", "open-r1": ">=0", "ms-swift": ">=3.5"}


@check.declared(needs=["plan.placement.mode"])
def server_and_trainer(case: Case) -> Iterator[Finding | Reach]:
    """The devices of a rollout server and of the trainer that the same file starts."""
    plan = plan_of(case)
    if plan.value("placement.mode") != "server" or plan.role == "server" or plan.value("sync.backend") == "file":
        raise NotApplicable("no rollout server and trainer share a group here")
    if plan.server is None:
        yield from _one_device(case, plan)
        return
    if not on_one_node(plan) or not on_one_node(plan.server):
        raise NotChecked("the launch spans nodes: which of them holds the server is not known")
    if not plan.server.value("process.background"):
        raise NotChecked("the server is not started in the background: the two may be for different nodes")
    trainers, engines = visible(case, plan), visible(case, plan.server)
    ranks = engine_ranks(plan.server)
    if trainers is None or engines is None or ranks is None:
        raise NotChecked("the devices of the server or of the trainer are not known")
    taken = engines.ids[:ranks]
    training = trainers.ids[: plan.value("process.nproc", 1)]
    shared = [device for device in training if device in taken]
    if not shared:
        yield Reach(f"server on {joined(taken)}, trainer on {joined(training)}")
        return
    first = training[0] in taken
    how = (
        "both join the weight sync group, and NCCL refuses two ranks on one device"
        if first
        else "they compete for its memory"
    )
    yield check.finding(
        f"the rollout server and the trainer both use GPU {joined(shared)}: {how}",
        severity=Severity.ERROR if first else Severity.WARNING,
        evidence=tuple(
            dict.fromkeys(
                (
                    *_of(plan.server, engines),
                    *_of(plan, trainers),
                    *cite(plan.server, "engine.tensor_parallel_size", "engine.data_parallel_size"),
                    *cite(plan, "process.total"),
                )
            )
        ),
        fixes=tuple(_apart(case, plan, taken, len(training))),
        url="https://github.com/huggingface/trl/issues/3158",
    )


@check.declared(needs=["plan.placement.mode", "plan.sync.backend"])
def colocated_group(case: Case) -> Iterator[Finding | Reach]:
    """OpenRLHF's hybrid engine before it sent weights by CUDA IPC."""
    plan = plan_of(case)
    if plan.framework != "OpenRLHF" or plan.value("placement.mode") != "colocate" or plan.version is None:
        raise NotApplicable("a matter of OpenRLHF's colocated engines")
    if plan.value("sync.backend") != "nccl" or not version_within(plan.version, ">=0.5.8,<0.5.9"):
        yield Reach(f"OpenRLHF {plan.version} sends weights by {plan.value('sync.backend')} or CUDA IPC")
        return
    yield check.finding(
        f"OpenRLHF {plan.version} puts actor rank 0 and the engine on one device into one NCCL group",
        evidence=cite(plan, "placement.mode", "sync.backend"),
        fixes=(
            Fix(
                title="OpenRLHF 0.5.9 and later send the weights of colocated models by CUDA IPC",
                commands=('pip install "openrlhf>=0.5.9"',),
            ),
            Fix.safe("send them by gloo", {"sync.backend": "gloo"}, side_effects="a slower weight sync"),
        ),
        url="https://github.com/OpenRLHF/OpenRLHF/issues/726",
    )


def _one_device(case: Case, plan: RolloutPlan) -> Iterator[Finding | Reach]:
    """Where the server is started elsewhere: on a machine with one GPU there is no room for both."""
    here = (None, "0.0.0.0", *LOOPBACK)
    if plan.value("placement.server_host") not in here or plan.value("placement.server_url") is not None:
        raise NotChecked("the server runs on another host")
    if machine_devices(case) != 1 or not on_one_node(plan):
        raise NotChecked("the server's own launch is not in this file")
    yield check.finding(
        "the trainer asks a rollout server on this machine, which has one GPU: both would sit on it, and NCCL refuses "
        "that for the weight sync group",
        evidence=(*cite(plan, "placement.mode", "placement.server_host"), *machine_evidence(case)),
        fixes=tuple(_colocate(plan)),
        url="https://github.com/huggingface/trl/issues/3487",
    )


def _of(plan: RolloutPlan, seen: Visible) -> tuple[Evidence, ...]:
    """The devices' evidence; without a list the launch itself, which names none."""
    return seen.evidence if seen.listed else (*seen.evidence, *cite(plan, "process.launcher", "placement.listen_port"))


# Where an edit finds the text that it changes.
_STATED = ("given", "environment")


def _apart(case: Case, plan: RolloutPlan, taken: tuple[str, ...], processes: int) -> Iterator[Fix]:
    count = machine_devices(case)
    free = [str(index) for index in range(count or 0) if str(index) not in taken]
    devices = joined(free[:processes])
    ours, theirs = plan.get(VISIBLE), plan.server.get(VISIBLE) if plan.server else None
    # One export for both cannot be split by an edit of one variable.
    alone = ours is None or theirs is None or (ours.file, ours.line) != (theirs.file, theirs.line)
    if 0 < len(free) < processes and alone:
        # The one of the two that stands in the launch: the other follows from it.
        sizes = {name: plan.get(name) for name in ("process.total", "process.nproc")}
        size = next((name for name, one in sizes.items() if one is not None and one.source in _STATED), None)
        yield Fix.unsafe(
            f"train in {len(free)} processes, on GPU {devices}",
            {VISIBLE: devices, **({size: len(free)} if size else {})},
            side_effects="fewer completions in a step: the groups must still fill it",
        )
    if len(free) >= processes:
        if alone and (ours is None or ours.line is not None):
            yield Fix.safe(f"give the trainer GPU {devices}", {VISIBLE: devices})
        else:
            yield Fix(
                title=f"give the trainer GPU {devices}, in front of its own command",
                commands=(f"CUDA_VISIBLE_DEVICES={devices} {_command(plan)}",),
            )
    yield from _colocate(plan)


def _command(plan: RolloutPlan) -> str:
    launcher = plan.value("process.launcher")
    started = {"accelerate": "accelerate launch ... ", "torchrun": "torchrun ... ", "none": "python "}.get(launcher, "")
    return f"{'' if ' ' in plan.entry else started}{plan.entry} ..."


def _colocate(plan: RolloutPlan) -> Iterator[Fix]:
    """In place of the server: the engine inside the trainer's processes."""
    wanted = _COLOCATE.get(plan.framework)
    if wanted is not None and (plan.version is None or version_within(plan.version, wanted) is not False):
        yield Fix.unsafe(
            "colocate the engine with the trainer, and start no server",
            {"placement.mode": "colocate"},
            side_effects="trainer and engine share the device's memory: lower gpu_memory_utilization, or let it sleep",
        )
