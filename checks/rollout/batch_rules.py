"""The divisions that each framework makes of its batches, by release: the table of RLD211."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rldoctor.api import (
    RolloutPlan,
)

TRL_LIKE = ("TRL", "open-r1", "axolotl")
GROUP = "batch.generations"
PER_DEVICE = "batch.per_device"
GENERATION = "batch.generation"
STEPS = "batch.steps_per_generation"
ACCUMULATION = "batch.accumulation"
PROMPTS = "batch.prompts"
MINI = "batch.mini_prompts"
TRAIN = "batch.train"


@dataclass(frozen=True)
class Rule:
    """``dividend`` must be a multiple of ``divisor``; both give a number and how it came about, or None where it is not
    known. ``package`` decides by its ``versions`` (a specifier) whether the release has the rule."""

    frameworks: tuple[str, ...]
    package: str
    versions: str
    dividend: Callable[[RolloutPlan], tuple[int, str] | None]
    divisor: Callable[[RolloutPlan], tuple[int, str] | None]
    cites: tuple[str, ...]


def _ranks(plan: RolloutPlan) -> int | None:
    """The processes of the trainer, None where they are not known."""
    nodes = plan.get("process.nnodes")
    # A script for a later node says nothing of how many processes the others start.
    if (nodes is not None and nodes.unknown) or plan.value("process.node_rank", 0) not in (0, "0"):
        return None
    total = plan.value("process.total")
    per_node = plan.value("process.nproc") or plan.value("placement.gpus_per_node")
    count = plan.value("process.nnodes") or plan.value("placement.nodes") or 1
    return total or (per_node * count if per_node else None)


def _one(option: str, name: str) -> Callable[[RolloutPlan], tuple[int, str] | None]:
    def value(plan: RolloutPlan) -> tuple[int, str] | None:
        number = plan.value(option)
        return (number, f"{name} {number}") if isinstance(number, int) and number > 0 else None

    return value


def _per_step(plan: RolloutPlan) -> tuple[int, str] | None:
    each, ranks = plan.value(PER_DEVICE), _ranks(plan)
    return (each * ranks, f"{each} per device x {ranks} processes") if each and ranks else None


def _generation(plan: RolloutPlan) -> tuple[int, str] | None:
    setting = plan.get(GENERATION)
    if setting is not None and setting.value and (setting.source == "given" or _ranks(plan)):
        return setting.value, f"generation batch {setting.value}"
    step, steps = _per_step(plan), plan.value(STEPS) or plan.value(ACCUMULATION) or 1
    return (step[0] * steps, f"{step[1]} x {steps} steps") if step else None


def _rollout(plan: RolloutPlan) -> tuple[int, str] | None:
    prompts, group = plan.value(PROMPTS), plan.value(GROUP, 1)
    return (prompts * group, f"{prompts} prompts x {group}") if prompts and group else None


def _devices(plan: RolloutPlan) -> tuple[int, str] | None:
    # verl divides by all devices; Megatron's model parallel ranks share a batch.
    devices = plan.value("placement.trainer_gpus") or _ranks(plan)
    model = 1
    for option in ("parallel.tensor", "parallel.pipeline", "parallel.context"):
        model *= plan.value(option) or 1
    if not devices or devices % model:
        return None
    return devices // model, f"{devices} devices" + (f" / {model} model parallel ranks" if model > 1 else "")


RULES = (
    Rule(
        TRL_LIKE, "trl", ">=0.15,<0.17", _per_step, _one(GROUP, "num_generations"), (GROUP, PER_DEVICE, "process.nproc")
    ),
    Rule(
        TRL_LIKE,
        "trl",
        ">=0.17",
        _generation,
        _one(GROUP, "num_generations"),
        (GROUP, PER_DEVICE, GENERATION, STEPS, ACCUMULATION, "process.total", "process.nproc"),
    ),
    Rule(
        TRL_LIKE,
        "trl",
        ">=0.19",
        _generation,
        _per_step,
        (GENERATION, PER_DEVICE, "process.total", "process.nproc"),
    ),
    Rule(
        ("ms-swift",),
        "ms-swift",
        ">=3.2,<3.5",
        _per_step,
        _one(GROUP, "num_generations"),
        (GROUP, PER_DEVICE, "process.nproc"),
    ),
    Rule(
        ("ms-swift",),
        "ms-swift",
        ">=3.5",
        _generation,
        _one(GROUP, "num_generations"),
        (GROUP, PER_DEVICE, GENERATION, STEPS, ACCUMULATION, "process.nproc"),
    ),
    Rule(
        ("ms-swift",),
        "ms-swift",
        ">=3.8",
        _generation,
        _per_step,
        (GENERATION, PER_DEVICE, "process.nproc"),
    ),
    Rule(
        ("verl",), "verl", "<=0.5.0", _rollout, _devices, (PROMPTS, GROUP, "placement.gpus_per_node", "placement.nodes")
    ),
    Rule(("EasyR1",), "easyr1", ">=0", _one(PROMPTS, "rollout batch"), _one(MINI, "global batch"), (PROMPTS, MINI)),
    Rule(("NeMo-RL",), "nemo-rl", ">=0", _rollout, _one(TRAIN, "train_global_batch_size"), (PROMPTS, GROUP, TRAIN)),
    Rule(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0",
        _one(TRAIN, "train_global_batch_size"),
        _devices,
        (TRAIN, "placement.gpus_per_node"),
    ),
    Rule(
        ("SkyRL",),
        "skyrl-train",
        ">=0",
        _one(PROMPTS, "train_batch_size"),
        _one(MINI, "policy_mini_batch_size"),
        (PROMPTS, MINI),
    ),
    Rule(
        ("SkyRL",),
        "skyrl",
        ">=0",
        _one(PROMPTS, "train_batch_size"),
        _one(MINI, "policy_mini_batch_size"),
        (PROMPTS, MINI),
    ),
)
