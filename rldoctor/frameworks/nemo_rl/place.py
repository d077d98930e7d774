"""Where NeMo-RL puts trainer and engines, and the arithmetic of its batches (``setup`` in
nemo_rl/algorithms/grpo.py)."""

from __future__ import annotations

import re
from typing import Any

from rldoctor.counted import counted
from rldoctor.frameworks.batch import count_completions
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.groups import placement_group
from rldoctor.frameworks.nemo_rl.table import DTENSOR, LOOPS, MEGATRON
from rldoctor.frameworks.releases import between

_REWARD = "env.reward_model.resources"
_TEACHERS = "on_policy_distillation.non_colocated_teachers"
_DATA_ENVIRONMENTS = ("data.env_name", "data.default.env_name", "data.train.env_name")

_SAMPLES = re.compile(r"grpo|ppo|distillation|nemo_gym")


def trainer(draft: Draft) -> None:
    """The training backend, which algorithm, and whether there is an engine at all."""
    draft.override("process.launcher", "ray", "NeMo-RL starts its workers with Ray")
    for section, strategy in ((MEGATRON, "megatron"), (DTENSOR, "fsdp2")):
        if draft.native(f"{section}.enabled") is True:
            draft.derive("trainer.strategy", strategy, f"{section}.enabled")
    if draft.value("trainer.strategy") == "fsdp2" and between(draft, "nemo-rl", "0.3"):
        draft.derive("trainer.param_dtype", "float32", "the DTensor worker loads the policy so, for its optimizer")
    if draft.native(f"{DTENSOR}.enabled") is False and draft.native(MEGATRON) is None:
        draft.derive("trainer.strategy", "fsdp", "neither DTensor nor Megatron: FSDP 1, through 0.2")
    loop = next((name for name in LOOPS if any(key.startswith(f"{name}.") for key in draft.natives)), None)
    draft.derive("trainer.algorithm", loop, f"the section {loop}")
    draft.derive("trainer.critic", loop == "ppo" if loop else None, f"the section {loop}")
    weight = draft.value("trainer.kl_coefficient")
    draft.derive(
        "trainer.reference", None if weight is None else weight > 0, f"KL weight {weight}", "trainer.kl_coefficient"
    )
    draft.derive(
        "trainer.temperature", draft.value("sampling.temperature"), "the sampling temperature", "sampling.temperature"
    )
    every = draft.value("trainer.eval_every")
    draft.derive("rollout.evaluates", None if every is None else every > 0, "val_period above 0", "trainer.eval_every")
    turns = draft.value("lengths.turns")
    draft.derive("rollout.multi_turn", None if turns is None else turns > 1, f"{turns} turns", "lengths.turns")
    settings = {key: draft.native(f"policy.generation.val_{key}") for key in ("temperature", "top_p", "top_k")}
    found = {key: value for key, value in settings.items() if value is not None}
    draft.derive("rollout.eval_sampling", found or None, "val_temperature, val_top_p, val_top_k")
    # Of a script that is named for its loop the configuration may just not be at hand.
    generates = any(key.startswith(("policy.generation", "generation.")) for key in draft.natives)
    if loop is None and not generates and not _SAMPLES.search(draft.launch.entry):
        draft.derive("rollout.enabled", False, "no loop with generation: supervised training")


def placement(draft: Draft) -> None:
    """One Ray cluster for everything; without colocation the engines take nodes of it, or devices of its only node."""
    if draft.value("rollout.enabled") is False:
        draft.derive("placement.mode", "none", "no generation")
        return
    # The key came with 0.3; before it trainer and engines always shared devices.
    if draft.launch.missed is None:
        draft.derive("placement.mode", "colocate", "no colocated section")
    if draft.value("placement.mode") == "separate" and draft.value("rollout.async"):
        draft.override("placement.mode", "async", "asynchronous training on devices of its own", "rollout.async")
    nodes, each = draft.value("placement.nodes"), draft.value("placement.gpus_per_node")
    if not nodes or not each:
        return
    total = f"{counted(nodes, 'node')} x {each} devices"
    draft.derive("ray.gpus_needed", nodes * each, total, "placement.gpus_per_node", "placement.nodes")
    reward_nodes, reward_each = _reward(draft)
    teachers = _teachers(draft)
    if reward_nodes is None or teachers is None:
        return  # devices of other models, how many is not known here
    kept = (nodes if nodes == 1 else nodes - reward_nodes) - teachers
    spared = reward_each if nodes == 1 else 0
    if draft.value("placement.mode") == "colocate":
        _both(draft, kept * (each - spared), total)
    else:
        _apart(draft, kept, each, spared)
    _engines(draft)
    if not reward_nodes and not teachers:
        _groups(draft)


def _groups(draft: Draft) -> None:
    """RayVirtualCluster: a group for each node, with two cores for a device that trainer and engine share; one for all
    nodes where an engine spans several (vllm_generation.py)."""
    nodes, each = draft.value("placement.nodes"), draft.value("placement.gpus_per_node")
    trainer, engine = draft.value("placement.trainer_gpus"), draft.value("placement.engine_gpus")
    span = draft.ranks("engine.tensor_parallel_size", "engine.pipeline_parallel_size")
    if not trainer or not engine or span is None:
        return

    def cluster(devices: int, cpus: int, unified: bool) -> dict[str, Any]:
        on_a_node = min(devices, each)
        if unified:
            return placement_group("SPREAD", devices, cpus=cpus)
        return placement_group("PACK", on_a_node, cpus=cpus, count=devices // on_a_node)

    if draft.value("placement.mode") == "colocate":
        shared = 2 if draft.value("rollout.backend", "vllm") != "megatron" else 1
        groups = [cluster(nodes * each, shared, span > each)]
    else:
        per_node = draft.value("placement.engine_gpus_per_node") or each
        groups = [cluster(engine, 1, span > per_node), cluster(trainer, 1, False)]
    draft.derive("ray.groups", groups, "virtual clusters of a group for each node", "placement.gpus_per_node")


def _reward(draft: Draft) -> tuple[int | None, int]:
    """Nodes, and devices on each, of a reward model that runs as an environment (from 0.4)."""
    if not any(draft.native(key) == "reward_model" for key in _DATA_ENVIRONMENTS):
        return 0, 0
    nodes, each = draft.native(f"{_REWARD}.num_nodes"), draft.native(f"{_REWARD}.gpus_per_node")
    return (nodes, each) if isinstance(nodes, int) and isinstance(each, int) else (None, 0)


def _teachers(draft: Draft) -> int | None:
    """Nodes of teachers with devices of their own, a group for each checkpoint (teacher_worker_group.py, from 0.7)."""
    if draft.native(f"{_TEACHERS}.enabled") is not True:
        return 0
    names = "on_policy_distillation.teacher_model_by_agent_name."
    models = {str(native.value): key[len(names) :] for key, native in draft.natives.items() if key.startswith(names)}
    usual = draft.native(f"{_TEACHERS}.default_teacher_cfg.num_nodes") or 1
    sizes = [draft.native(f"{_TEACHERS}.teacher_overrides.{alias}.num_nodes") or usual for alias in models.values()]
    return sum(sizes) if all(isinstance(size, int) for size in sizes) else None


def _both(draft: Draft, devices: int, how: str) -> None:
    for option in ("placement.trainer_gpus", "placement.engine_gpus"):
        draft.derive(option, devices if devices > 0 else None, how, "placement.gpus_per_node", "placement.nodes")


def _apart(draft: Draft, nodes: int, each: int, spared: int) -> None:
    theirs = draft.value("placement.engine_gpus_per_node")
    if nodes == 1:
        left: Any = None if theirs is None else each - theirs - spared
        draft.derive("placement.engine_gpus", theirs, f"{theirs} devices of the node", "placement.engine_gpus_per_node")
        how = f"{each} devices - {theirs} for the engines"
        draft.derive("placement.trainer_gpus", left if left and left > 0 else None, how, "placement.gpus_per_node")
        return
    taken = draft.value("placement.engine_nodes")
    if taken:
        draft.derive(
            "placement.engine_gpus", taken * each, f"{counted(taken, 'node')} x {each}", "placement.engine_nodes"
        )
        left = (nodes - taken) * each
        how = f"({nodes} - {taken}) nodes x {each}"
        draft.derive(
            "placement.trainer_gpus", left if left > 0 else None, how, "placement.nodes", "placement.engine_nodes"
        )


def _engines(draft: Draft) -> None:
    # vllm_generation.py: dp_size = world_size // (tp_size * pp_size)
    devices = draft.value("placement.engine_gpus")
    ranks = draft.ranks("engine.tensor_parallel_size", "engine.pipeline_parallel_size")
    if devices and ranks and devices % ranks == 0:
        draft.derive(
            "placement.engines", devices // ranks, f"{devices} devices / {ranks}", "engine.tensor_parallel_size"
        )
    world = draft.value("placement.trainer_gpus")
    model = draft.ranks("parallel.tensor", "parallel.pipeline", "parallel.context")
    if world and model and world % model == 0 and draft.value("trainer.strategy"):
        # lm_policy.py: dp = world / (pp * cp * tp)
        draft.derive(
            "parallel.data", world // model, f"{world} devices / {model} model parallel ranks", "parallel.tensor"
        )


def batch(draft: Draft) -> None:
    count_completions(draft)
    prompts, train = draft.value("batch.prompts"), draft.value("batch.train")
    multiplier = next((v for name in LOOPS if (v := draft.native(f"{name}.batch_multiplier")) is not None), None)
    if prompts and draft.value("rollout.filtered") and isinstance(multiplier, int | float):
        draft.derive("batch.pool", int(prompts * multiplier), f"{prompts} prompts x {multiplier}", "batch.prompts")
    each, ranks = draft.value("batch.per_device"), draft.value("parallel.data")
    cut = draft.value("batch.dynamic") or draft.value("batch.packing")
    if train and each and ranks and not cut and train % (each * ranks) == 0:
        how = f"{train} completions / {ranks} ranks / {each}"
        draft.derive("batch.accumulation", train // ranks // each, how, "batch.train", "batch.per_device")
