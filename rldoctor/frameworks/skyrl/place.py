"""Where SkyRL puts its models and engines (``build_models`` in trainer.py), and the arithmetic of its batches
(``validate_batch_sizes`` in utils/utils.py)."""

from __future__ import annotations

from typing import Any

from rldoctor.counted import counted
from rldoctor.formats.values import Unresolved, convert
from rldoctor.frameworks.batch import count_completions
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.groups import driver, placement_group
from rldoctor.frameworks.skyrl.release import handed_over, owner_of, second
from rldoctor.frameworks.skyrl.table import ENGINE, PLACEMENT


def _number(draft: Draft, key: str) -> int | None:
    """A number given under a native key, else the release's default."""
    native = draft.natives.get(key)
    value = draft.launch.default(owner_of(draft.launch), key) if native is None else native.value
    try:
        found = None if isinstance(value, Unresolved) else convert(value, "int")
    except ValueError:
        return None
    return found if isinstance(found, int) else None


def _local(draft: Draft) -> bool:
    """Whether the run starts its own engines."""
    return all(draft.native(f"{root}.run_engines_locally") is not False for root in (ENGINE, "generator"))


def _trains(draft: Draft) -> bool:
    """Whether models beside the engines are built; ``serve`` and ``main_generate`` start engines alone."""
    return not draft.launch.entry.endswith((".serve", ".main_generate"))


def trainer(draft: Draft) -> None:
    draft.override("process.launcher", "ray", "SkyRL starts its workers with Ray")
    if draft.native("trainer.algorithm.use_kl_in_reward") is True:
        draft.override("trainer.reference", True, "use_kl_in_reward")
    if draft.value("trainer.strategy") in ("fsdp", "fsdp2"):
        draft.derive("trainer.param_dtype", "float32", "fsdp_worker.py loads the policy so, for its optimizer")
    draft.derive("trainer.critic", bool(draft.value("model.critic_path")), "critic.model.path", "model.critic_path")
    draft.derive(
        "trainer.temperature", draft.value("sampling.temperature"), "the sampling temperature", "sampling.temperature"
    )
    draft.derive("model.reference_path", draft.value("model.path"), "the policy's own", "model.path")
    if second(draft, "0.1"):  # GeneratorConfig.__post_init__
        draft.derive("rollout.eval_sampling", {"temperature": 0.0}, "no eval_sampling_params are given")
    every = draft.value("trainer.eval_every")
    draft.derive(
        "rollout.evaluates", None if every is None else every > 0, "eval_interval above 0", "trainer.eval_every"
    )
    turns = draft.value("lengths.turns")
    draft.derive("rollout.multi_turn", None if turns is None else turns > 1, f"{turns} turns", "lengths.turns")
    if "fully_async" in draft.launch.entry or draft.launch.entry.endswith("main_async"):
        draft.override("rollout.async", True, f"{draft.launch.entry} trains and samples at the same time")


def placement(draft: Draft) -> None:
    if handed_over(draft):
        return
    engines = draft.value("placement.engines")
    ranks = 1
    for name in ("tensor", "pipeline", "data"):
        ranks *= draft.value(f"engine.{name}_parallel_size", 1)
    if not _local(draft):
        draft.override("placement.mode", "server", "run_engines_locally is false")
    elif draft.value("rollout.async") and draft.value("placement.mode") == "separate":
        draft.override("placement.mode", "async", "engines on devices of their own, overlapping with training")
    elif engines:
        draft.derive(
            "placement.engine_gpus", engines * ranks, f"{engines} engines x {ranks} ranks", "placement.engines"
        )
    if engines and draft.value("placement.mode") == "async":
        draft.derive(
            "placement.engine_gpus", engines * ranks, f"{engines} engines x {ranks} ranks", "placement.engines"
        )
    nodes, each = draft.value("placement.nodes"), draft.value("placement.gpus_per_node")
    if nodes and each and _trains(draft):
        how = f"{counted(nodes, 'node')} x {each} devices"
        draft.derive("placement.trainer_gpus", nodes * each, how, "placement.gpus_per_node", "placement.nodes")
    _roles(draft)
    if draft.value("sync.backend") == "nccl" and draft.value("placement.mode") == "colocate":
        # weight_sync/__init__.py, get_transfer_strategy
        draft.override("sync.backend", "cuda_ipc", "nccl with colocate_all is CUDA IPC", "placement.mode")


def _roles(draft: Draft) -> None:
    """Devices asked for by role, and which of them share devices."""
    trained = _trains(draft)
    sizes: dict[str, int | None] = {"actor": draft.value("placement.trainer_gpus")} if trained else {}
    for role, name, kept in (
        ("reference", "ref", draft.value("trainer.reference")),
        ("critic", "critic", draft.value("trainer.critic")),
    ):
        if kept and trained:
            parts = [_number(draft, f"{PLACEMENT}.{name}_num_{of}") for of in ("nodes", "gpus_per_node")]
            sizes[role] = None if parts[0] is None or parts[1] is None else parts[0] * parts[1]
    engine = draft.value("placement.engine_gpus")
    if engine:
        sizes["engine"] = engine
    known = {role: size for role, size in sizes.items() if size is not None}
    draft.override("placement.roles", known, "devices asked for by role", "placement.gpus_per_node")
    mode, paired = draft.value("placement.mode"), draft.native(f"{PLACEMENT}.colocate_policy_ref") is not False
    shared = list(sizes) if mode == "colocate" else ["actor", "reference"] if paired and "reference" in sizes else []
    draft.override("placement.colocated_roles", shared, "roles that share devices")
    if mode is None or len(known) < len(sizes) or not (engine or mode == "server"):
        return
    if mode == "colocate":
        # The placement group of the engines is everybody's.
        draft.derive("ray.gpus_needed", engine, f"{engine} devices of the engines", "placement.engines")
    else:
        apart = {role: size for role, size in known.items() if role not in shared[1:]}
        parts_text = " + ".join(f"{role} {size}" for role, size in apart.items())
        draft.derive("ray.gpus_needed", sum(apart.values()), parts_text, "placement.gpus_per_node", "placement.engines")
    groups = _groups(draft, known if mode != "colocate" else {"engine": engine or 0}, shared[1:])
    draft.derive("ray.groups", groups, "a group for each role that shares no devices", "placement.gpus_per_node")


def _groups(draft: Draft, sizes: dict[str, int], within: list[str]) -> list[dict[str, Any]]:
    """The loop is a task (skyrl_entrypoint). Engines have a bundle for each device (main_base.py, setup.py,
    ray_wrapped_inference_engine.py), a model one for each node (worker.py), or workers without a group where a node has
    one device of it."""
    groups = [driver()]
    if sizes.get("engine"):
        groups.append(placement_group("PACK", sizes["engine"]))
    for role, size in sizes.items():
        if role == "engine" or role in within:
            continue
        each = draft.value("placement.gpus_per_node")
        if role != "actor":
            each = _number(draft, f"{PLACEMENT}.{'ref' if role == 'reference' else role}_num_gpus_per_node")
        if each and each > 1:
            groups.append(placement_group("PACK", size // each, gpus=each, cpus=each))
        elif each:
            groups.append(placement_group("PACK", 1, count=size))
    return groups


def batch(draft: Draft) -> None:
    count_completions(draft)
    mini, n = draft.value("batch.mini_prompts"), draft.value("batch.generations")
    world, megatron = draft.value("placement.trainer_gpus"), draft.value("trainer.strategy") == "megatron"
    names = ("tensor", "pipeline", "context") if megatron else ("sequence",)
    if not megatron:
        for name in ("tensor", "pipeline", "context", "expert", "expert_tensor"):
            draft.settings.pop(f"parallel.{name}", None)  # megatron_config is read with that strategy only
    model = 1
    for name in names:
        model *= draft.value(f"parallel.{name}", 1)
    if world and model and world % model == 0:
        draft.derive("parallel.data", world // model, f"{world} ranks / {model}", "placement.gpus_per_node")
    ranks, each = draft.value("parallel.data"), draft.value("batch.per_device")
    if mini and n and ranks and each and (mini * n // ranks) % each == 0:
        how = f"{mini * n} completions / {ranks} ranks / {each}"
        draft.derive(
            "batch.accumulation", mini * n // ranks // each or None, how, "batch.mini_prompts", "batch.per_device"
        )
