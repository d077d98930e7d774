"""What to do about a run that asks Ray for more than there is."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Fix, RolloutPlan

from ...declared.devices import VISIBLE, Visible, joined

EACH, NODES = "placement.gpus_per_node", "placement.nodes"
RANKS = "engine.tensor_parallel_size"
_ENGINES, _ENGINES_EACH = "placement.engines", "placement.engine_gpus_per_node"
_DIVIDE = "batch sizes must divide by the new number"

STATUS = Fix(
    title="compare what is asked for with what the cluster has, and start the missing nodes before the job",
    commands=("ray status",),
)


def groups_of(plan: RolloutPlan) -> dict[str, int]:
    """The devices of each role; roles that share theirs are one."""
    roles = dict(plan.value("placement.roles") or {})
    shared = [role for role in plan.value("placement.colocated_roles") or () if role in roles]
    if len(shared) < 2:
        return roles
    together = {" with ".join(shared): max(roles[role] for role in shared)}
    return together | {role: size for role, size in roles.items() if role not in shared}


def smaller(plan: RolloutPlan, each: int, nodes: int) -> Iterator[Fix]:
    """Ways to ask for less: share devices between roles, take the devices that are there, or share them out anew."""
    groups, shared = groups_of(plan), plan.value("placement.colocated_roles") or []
    engines = groups.get("engine")
    if engines is not None and not shared and groups.get("actor") == engines:
        yield Fix.unsafe(
            "let all models and the engines share the actor's devices",
            {"placement.mode": "colocate"},
            side_effects="the engine's share of memory must be smaller, or it must sleep",
        )
    size = plan.value(RANKS, 1)
    others = sum(count for role, count in groups.items() if role != "engine")
    left = (each * nodes - others) // size
    if engines and left > 0:
        counted = plan.get("placement.engine_gpus")
        by_devices = counted is not None and counted.source == "given"
        fewer = {"placement.engine_gpus": left * size} if by_devices else {_ENGINES: left}
        yield Fix.unsafe(f"{left} engines", fewer)
    elif len(groups) == 2 and engines:
        yield from _shared_out(plan, each * nodes, others, size)
    elif not groups and plan.value(_ENGINES_EACH) and plan.value(EACH):
        yield from _part_of_a_node(plan, each)
    if len(groups) < 2 and plan.value(EACH) and plan.value(EACH) > each:
        yield _as_many(plan, f"take the {each} GPUs of a node", each, plan.value(NODES, 1), EACH)
    if len(groups) < 2 and plan.value(NODES, 1) > nodes:
        many = f"take {nodes} node{'s' if nodes > 1 else ''}"
        yield _as_many(plan, many, min(each, plan.value(EACH) or each), nodes, NODES)


def by_hand(plan: RolloutPlan, total: int) -> tuple[Fix, ...]:
    """Where the options that ask for devices are lists of them: their names."""
    asking = ("placement.trainer_gpus", "placement.engine_gpus")
    keys = dict.fromkeys(given.key for given in plan.given if given.option in asking)
    return (Fix(title=f"ask for {total} devices at most: {', '.join(keys)}"),) if keys else ()


def all_devices(plan: RolloutPlan, seen: Visible, count: int | None) -> Iterator[Fix]:
    """All devices of the machine, where a variable shows the run fewer."""
    if seen.listed and count and len(seen) < count and (plan.value(EACH) or 0) <= count:
        ids = joined([str(index) for index in range(count)])
        yield Fix.unsafe(f"or let the run see all {count} devices of the machine", {VISIBLE: ids})


def all_offered(plan: RolloutPlan, count: int | None) -> Iterator[Fix]:
    """All devices of the machine, where ``ray start`` is told fewer."""
    told = plan.value("ray.num_gpus")
    if count and isinstance(told, int) and 0 < told < count and (plan.value(EACH) or 0) <= count:
        yield Fix.unsafe(f"or have Ray offer all {count} devices of the machine", {"ray.num_gpus": count})


def _as_many(plan: RolloutPlan, title: str, each: int, nodes: int, option: str) -> Fix:
    """So many devices on a node, or so many nodes, for all that share them, and as many engines as these hold."""
    edits = {option: each if option == EACH else nodes}
    size = plan.value(RANKS, 1)
    if "engine" in (plan.value("placement.colocated_roles") or ()) and each * nodes % size == 0:
        edits[_ENGINES] = each * nodes // size
    return Fix.unsafe(f"{title}{_for_others(plan)}", edits, side_effects=_DIVIDE)


def _for_others(plan: RolloutPlan) -> str:
    """The models that share the policy's devices and whose number stands in options of their own."""
    others = [role for role in plan.value("placement.colocated_roles") or () if role not in ("actor", "engine")]
    return f", with as many for {' and '.join(others)}" if others else ""


def _shared_out(plan: RolloutPlan, total: int, trainer: int, size: int) -> Iterator[Fix]:
    """The devices that there are, in the proportion that was asked for."""
    asked = plan.value("placement.engine_gpus") or size
    engines = max(1, total * asked // (trainer + asked) // size)
    rest = total - engines * size
    if plan.value(NODES, 1) == 1 and rest > 0:
        theirs = f"{engines} engine{'s' if engines > 1 else ''} of {size}"
        yield Fix.unsafe(
            f"{rest} GPUs for the trainer and {theirs}{_for_others(plan)}",
            {EACH: rest, _ENGINES: engines},
            side_effects=_DIVIDE,
        )


def _part_of_a_node(plan: RolloutPlan, each: int) -> Iterator[Fix]:
    """A node's devices shared by a trainer and engines that have some of each node."""
    trainer, engines = plan.value(EACH), plan.value(_ENGINES_EACH)
    if trainer < each < trainer + engines:
        yield Fix.unsafe(f"{each - trainer} GPUs of a node for the engines", {_ENGINES_EACH: each - trainer})
    if engines < each < trainer + engines:
        yield Fix.unsafe(f"or {each - engines} GPUs of a node for the trainer", {EACH: each - engines})
