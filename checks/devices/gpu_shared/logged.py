"""What NCCL, pynccl and TRL say of two ranks on one device, in a log."""

from __future__ import annotations

from rldoctor.api import Fix, LogEvent

from ...observed.servers import serving
from . import check

_EACH = Fix(
    title="give each rank a device of its own before the group is made, and start as many processes on a node as it "
    "shows devices: torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
    commands=("torchrun --nproc_per_node=GPUS train.py", "nvidia-smi -L"),
)
_IN_PROCESS = Fix.unsafe(
    "on one GPU colocate the engine with the trainer (TRL 0.18 and later, ms-swift 3.5 and later)",
    {"placement.mode": "colocate"},
)
_RAY = (
    Fix(
        title="one worker for each GPU bundle: max_colocate_count=1 in the resource pool (verl and its forks)",
    ),
    Fix.unsafe(
        "let colocated weights go by CUDA IPC or gloo (OpenRLHF 0.5.9 and later do; else)", {"sync.backend": "gloo"}
    ),
)


def _fixes(event: LogEvent) -> tuple[Fix, ...]:
    if event.incident.framework in ("verl", "openrlhf", "easyr1", "skyrl", "nemo-rl"):
        return _RAY
    if event.incident.framework is None and not event.search("vllm"):
        return (_EACH,)
    own = Fix(
        title="give server and trainer devices of their own: CUDA_VISIBLE_DEVICES=0 for the server's command, "
        "CUDA_VISIBLE_DEVICES=1 for the trainer's (the client takes its first visible device)",
        commands=tuple(
            line
            for command in serving(event)
            for line in (f"CUDA_VISIBLE_DEVICES=0 {command}", "CUDA_VISIBLE_DEVICES=1 accelerate launch ...")
        ),
    )
    return own, _IN_PROCESS


# NCCL's own words: `Duplicate GPU detected : rank 7 and rank 5 both on CUDA device 10000`.
check.signature(
    "Duplicate GPU detected",
    details=(r"rank (?P<one>\d+) and rank (?P<other>\d+) both on CUDA device (?P<device>\w+)",),
    says=(
        "NCCL refuses the group: [[ranks {other} and {one} are both on CUDA device {device}||two ranks share a GPU]]"
    ),
    fixes=lambda case, event, words: _fixes(event),
)


# What pynccl and torch print of it where NCCL_DEBUG is not set; while a group is built there is no other cause.
check.signature(
    "NCCL error: invalid usage",
    "ncclInvalidUsage",
    pattern="(?i)init|broadcast",
    says="NCCL refuses to build a group (invalid usage): two of its ranks are on one physical GPU",
    fixes=lambda case, event, words: (
        *_fixes(event),
        Fix(title="let NCCL name the ranks", commands=("export NCCL_DEBUG=WARN",)),
    ),
    url="https://github.com/huggingface/trl/issues/3487",
)


# TRL's server compares the device UUIDs before it builds the group.
check.signature(
    "for multiple distinct roles/ranks within the same communicator",
    says="the rollout server and the trainer are on one physical GPU",
    fixes=lambda case, event, words: _fixes(event),
)
