"""Which models an OpenRLHF run has, and the devices that its placement groups ask for."""

from __future__ import annotations

from typing import Any

from rldoctor.formats.values import Unresolved, convert
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.groups import placement_group
from rldoctor.frameworks.releases import between

# Roles whose options have another name.
_NATIVE = {"reference": "ref"}


def with_ray(draft: Draft) -> bool:
    return "ray" in draft.launch.entry.rpartition("/")[2]


def native_or_default(draft: Draft, *keys: str) -> Any:
    """What is given under one of the native keys, else the release's default; None where neither is known."""
    for key in keys:
        if key in draft.natives:
            value = draft.natives[key].value
            return None if isinstance(value, Unresolved) else value
    if draft.launch.missed is not None:
        return None
    defaults = (draft.launch.default("openrlhf", key) for key in keys)
    return next((value for value in defaults if value is not None and not isinstance(value, Unresolved)), None)


def number(value: Any, kind: str) -> Any:
    """``value`` as an int, float or bool; None where it is none."""
    try:
        return convert(value, kind)
    except ValueError:
        return None


def _flag(draft: Draft, *keys: str) -> bool:
    return bool(number(native_or_default(draft, *keys), "bool"))


def _size(draft: Draft, role: str) -> int | None:
    """Devices that a role asks for."""
    nodes, each = (
        number(native_or_default(draft, f"{role}_num_{of}", f"{role}.num_{of}"), "int")
        for of in ("nodes", "gpus_per_node")
    )
    return None if nodes is None or each is None else int(nodes * each)


def _roles(draft: Draft) -> dict[str, int | None]:
    """Devices by role, of the roles that the run has (train() in cli/train_ppo_ray.py)."""
    found: dict[str, int | None] = {"actor": _size(draft, "actor")}
    # A reference model unless the KL weight is 0; through 0.5.9 always.
    kept = draft.value("trainer.reference")
    if kept is not False:
        found["reference"] = _size(draft, "ref") if kept else None
    if draft.value("trainer.critic"):
        found["critic"] = _size(draft, "critic")
    served = native_or_default(draft, "remote_rm_url", "reward.remote_url") or native_or_default(
        draft, "agent_func_path", "train.agent_func_path"
    )
    if not served:
        reward = _size(draft, "reward")
        # One group for each of several reward models, through 0.7.0.
        several = (
            str(draft.value("model.reward_path", "")).count(",") + 1
            if between(draft, "openrlhf", "0.5", "0.7.1")
            else 1
        )
        found["reward"] = None if reward is None else reward * several
    engines, ranks = draft.value("placement.engines"), draft.value("engine.tensor_parallel_size")
    if engines is None and not draft.is_open("placement.engines"):
        found["engine"] = None
    elif engines:
        if ranks is None and draft.is_open("engine.tensor_parallel_size"):
            ranks = 1
        found["engine"] = None if ranks is None else engines * ranks
    return found


def models(draft: Draft) -> None:
    """Which models there are beside the policy."""
    weight, algorithm = draft.value("trainer.kl_coefficient"), draft.value("trainer.algorithm", "gae")
    if isinstance(weight, int | float):
        kept = weight > 0 or between(draft, "openrlhf", "0", "0.6")
        draft.derive("trainer.reference", kept, f"the weight of the KL term is {weight}", "trainer.kl_coefficient")
    draft.derive("trainer.critic", algorithm == "gae", f"advantage estimator {algorithm}", "trainer.algorithm")


def placement(draft: Draft) -> None:
    """Placement groups: one for the actor, shared by what is colocated with it, and one for everybody else."""
    if not with_ray(draft):
        draft.derive("placement.mode", "none", "the trainer's own generate")
        return
    draft.override("process.launcher", "ray", "OpenRLHF starts its workers with Ray")
    everything = draft.value("placement.mode") == "colocate"
    overlapping = bool(draft.value("rollout.async"))
    roles = _roles(draft)
    if "engine" not in roles:
        draft.override("placement.mode", "none", "no vLLM engines: the trainer's own generate", "placement.engines")
        draft.derive("rollout.enabled", False, "no vLLM engines", "placement.engines")
        draft.derive("rollout.backend", "hf", "no vLLM engines", "placement.engines")
    elif overlapping:
        # Colocation then covers the trainer's models only.
        draft.override(
            "placement.mode", "async", "asynchronous training: the engines have devices of their own", "rollout.async"
        )
    else:
        draft.derive("placement.mode", "separate", "nothing is colocated with the engines", "placement.engines")
    draft.derive("rollout.backend", "vllm", "vLLM engines", "placement.engines")
    shared = _sharing(draft, roles, everything, overlapping)
    sizes = {role: size for role, size in roles.items() if size is not None}
    draft.override("placement.roles", sizes, "devices asked for by role", "placement.gpus_per_node")
    draft.override("placement.colocated_roles", [role for role in roles if role in shared], "roles that share devices")
    draft.derive(
        "placement.trainer_gpus", roles["actor"], "the actor's devices", "placement.gpus_per_node", "placement.nodes"
    )
    draft.derive("placement.engine_gpus", roles.get("engine"), "engines x tensor parallel ranks", "placement.engines")
    if len(sizes) == len(roles):
        alone = {role: size for role, size in sizes.items() if role not in shared}
        leaders = {shared[role]: sizes[shared[role]] for role in shared}
        parts = " + ".join(f"{role} {size}" for role, size in {**leaders, **alone}.items())
        draft.derive(
            "ray.gpus_needed",
            sum(alone.values()) + sum(leaders.values()),
            parts,
            "placement.gpus_per_node",
            "placement.engines",
        )
        _groups(draft, sizes, shared)


def _groups(draft: Draft, sizes: dict[str, int], shared: dict[str, str]) -> None:
    """launcher.py and vllm_engine.py: since 0.5.8 a bundle for each device, before it one for each node, on nodes of
    their own. A role with one device on each node has no group there, which comes to groups of one bundle."""
    per_device = between(draft, "openrlhf", "0.5.8")
    several = "," in str(draft.value("model.reward_path", ""))
    if not per_device and (several or not between(draft, "openrlhf", "0", "0.5.8")):
        return
    groups = []
    for role, size in sizes.items():
        if shared.get(role, role) != role:
            continue
        native = _NATIVE.get(role, role)
        each = number(native_or_default(draft, f"{native}_num_gpus_per_node", f"{native}.num_gpus_per_node"), "int")
        if role == "engine" and not between(draft, "openrlhf", "0.6"):
            ranks = draft.value("engine.tensor_parallel_size") or 1
            groups.append(placement_group("PACK", ranks, count=size // ranks))
        elif role != "engine" and each == 1 and role not in shared:
            groups.append(placement_group("PACK", 1, count=size))
        elif role == "engine" or per_device:
            groups.append(placement_group("PACK", size))
        elif each:
            groups.append(placement_group("STRICT_SPREAD", size // each, gpus=each, cpus=each))
        else:
            return
    draft.derive("ray.groups", groups, "a group for each role that shares no devices", "placement.gpus_per_node")


def _sharing(draft: Draft, roles: dict[str, int | None], everything: bool, overlapping: bool) -> dict[str, str]:
    """For each role that shares devices, the role whose placement group it is in."""
    shared: dict[str, str] = {}
    if everything or _flag(draft, "colocate_actor_ref", "train.colocate_actor_ref"):
        shared.update({role: "actor" for role in ("actor", "reference") if role in roles})
    if everything:
        others = ("critic", "reward") if overlapping else ("critic", "reward", "engine")
        shared.update({role: "actor" for role in others if role in roles})
    if "critic" in roles and _flag(draft, "colocate_critic_reward", "train.colocate_critic_reward"):
        # Made anew, also where everything else is colocated.
        shared.update({role: "critic" for role in ("critic", "reward") if role in roles})
    return {role: leader for role, leader in shared.items() if list(shared.values()).count(leader) > 1}
