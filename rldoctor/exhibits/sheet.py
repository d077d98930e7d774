"""What a launch comes to, number by number: ranks, replicas, seeds, devices, lengths, ports and memory, each with where
it comes from; what is not known is said as not known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable, NotChecked
from rldoctor.judge import first_missing
from rldoctor.knowledge.memory_phases import phases
from rldoctor.knowledge.memory_plan import device_memory
from rldoctor.knowledge.model_config import context
from rldoctor.plan.model import RolloutPlan, Setting, Source
from rldoctor.plan.seeds import SeedTopology, ranks_per_node, replicas_per_prompt, seed_topology
from rldoctor.plan.vocabulary import plain, terms
from rldoctor.records import dataclass

# The settings of each part, in their order. Those of the first group are always there, those of the second where the
# plan has them.
_PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "nodes and ranks": (
        ("process.launcher",),
        (
            "scheduler.name", "scheduler.nodes", "scheduler.gpus_per_node", "scheduler.gpus", "scheduler.step_tasks",
            "scheduler.visible", "process.nnodes", "process.nproc", "process.total", "placement.nodes",
            "placement.gpus_per_node", "placement.trainer_gpus", "ray.gpus_needed", "ray.address",
        ),
    ),
    "engines": (
        ("placement.mode", "placement.engines", "engine.tensor_parallel_size"),
        (
            "placement.engine_gpus", "engine.pipeline_parallel_size", "engine.data_parallel_size",
            "engine.distributed_executor_backend", "rollout.spread",
        ),
    ),
    "seeds": (
        ("seed.per_replica", "seed.per_request"),
        ("seed.engine", "seed.trainer", "seed.data", "sampling.seed", "seed.deterministic"),
    ),
    "devices": (
        (),
        (
            "env.CUDA_VISIBLE_DEVICES", "process.devices", "placement.trainer_devices", "placement.engine_devices",
            "placement.engine_device",
        ),
    ),
    "lengths": (
        ("lengths.prompt", "lengths.response", "engine.max_model_len"),
        (
            "lengths.total", "lengths.turns", "sampling.max_tokens", "engine.max_num_batched_tokens",
            "engine.max_num_seqs", "engine.enable_chunked_prefill",
        ),
    ),
    "batch": (
        ("batch.generations",),
        (
            "batch.prompts", "batch.generation", "batch.per_request", "batch.per_device", "batch.accumulation",
            "batch.train", "batch.mini_prompts",
        ),
    ),
    "memory": (
        ("engine.gpu_memory_utilization",),
        ("engine.kv_cache_memory_bytes", "engine.dtype", "engine.enable_sleep_mode", "sleep.level", "trainer.strategy"),
    ),
    "ports": (
        (),
        (
            "process.master_addr", "process.master_port", "placement.server_host", "placement.server_port",
            "placement.server_url", "placement.listen_port", "engine.data_parallel_rpc_port",
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number. ``source`` is given, default, derived, environment or unknown; ``why`` says how it was derived, or
    why it is not known; ``key`` is the framework's own name."""

    option: str
    name: str
    value: Any
    unit: str
    source: str
    key: str | None = None
    file: str | None = None
    line: int | None = None
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One rank of an engine: its place, its device on the node (None where not known), its seed (None: random)."""

    rank: int
    node: int
    replica: int
    peer: int
    device: int | str | None
    seed: int | None


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What stands on one device in a phase, in bytes by part; ``expected`` counts the likely parts too."""

    name: str
    parts: dict[str, int]
    certain: int
    expected: int
    device: int


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """One launch. ``ranks`` is empty where ``ranks_unknown`` says why, ``memory`` where ``memory_unknown`` does.
    ``seeds`` is the rule in the framework's words, ``together`` how many replicas get parts of one prompt's group."""

    framework: str
    version: str | None
    file: str
    line: int
    rows: dict[str, tuple[Row, ...]]
    ranks: tuple[Rank, ...] = ()
    ranks_unknown: str | None = None
    seeds: str | None = None
    together: int | None = None
    memory: tuple[Phase, ...] = ()
    memory_unknown: str | None = None


def sheet(case: Case) -> Sheet:
    """The sheet of a case with a plan."""
    plan = case.plan
    assert plan is not None
    topology = seed_topology(plan)
    memory, lacking = _memory(case)
    return Sheet(
        framework=plan.framework,
        version=plan.version,
        file=plan.file,
        line=plan.line,
        rows={part: tuple(_rows(case, plan, *options)) for part, options in _PARTS.items()},
        ranks=tuple(_ranks(plan, topology)) if topology is not None else (),
        ranks_unknown=None if topology is not None else _no_topology(plan),
        seeds=topology.formula if topology is not None else None,
        together=replicas_per_prompt(plan, topology.replicas) if topology is not None else None,
        memory=memory,
        memory_unknown=lacking,
    )


def _rows(case: Case, plan: RolloutPlan, always: tuple[str, ...], where_known: tuple[str, ...]) -> Iterator[Row]:
    for option in (*always, *where_known):
        setting = plan.settings.get(option)
        if option == "engine.max_model_len" and setting is not None and setting.value is None and not setting.unknown:
            setting = _own_context(case)
        if setting is not None and (setting.value is not None or setting.unknown is not None):
            yield _row(option, setting)
        elif option in always:
            why = "not set, and the default is not known" if option in plan.unset else "the launch does not say"
            yield _row(option, Setting(unknown=why))


def _own_context(case: Case) -> Setting:
    """The context of an engine that is told none: the model's own."""
    found = context(case.model.config) if case.model is not None else None
    if found is None:
        return Setting(unknown="the model's own context (--model DIRECTORY)")
    return Setting(value=found.tokens, source=Source.DERIVED, how=f"the model's own context: {found.key}")


def _row(option: str, setting: Setting) -> Row:
    known = setting.unknown is None
    term = terms().get(option)
    return Row(
        option=option,
        name=plain(option),
        value=setting.value,
        unit=term.unit if term is not None else "",
        source=setting.source.value if known else "unknown",
        key=setting.key,
        file=setting.file,
        line=setting.line,
        why=setting.how if known else setting.unknown,
    )


def _no_topology(plan: RolloutPlan) -> str:
    launch = plan.server or plan
    if not launch.value("placement.engines") and not launch.value("placement.engine_gpus"):
        return "how many engine replicas there are is not known"
    seeds = f"how {plan.framework} {plan.version or 'of an unknown release'} seeds"
    return (
        f"{seeds} its replicas is not known"
        if launch.value("placement.engines") != 1
        else f"{seeds} its one engine is not known"
    )


def _ranks(plan: RolloutPlan, topology: SeedTopology) -> Iterator[Rank]:
    launch = plan.server or plan
    each = ranks_per_node(launch)
    listed = launch.value("placement.engine_devices")
    if launch is plan and listed is None and plan.value("placement.mode") == "colocate":
        listed = plan.value("placement.trainer_devices")
    for row in topology.ranks:
        device: int | str | None = None
        if isinstance(listed, list):
            device = listed[row.rank] if row.node == 0 and row.rank < len(listed) else None
        elif each:
            device = row.rank % each
        yield Rank(rank=row.rank, node=row.node, replica=row.replica, peer=row.peer, device=device, seed=row.seed)


def _memory(case: Case) -> tuple[tuple[Phase, ...], str | None]:
    missing = first_missing(case, ("plan", "gpus", "model.config"))
    if missing is not None:
        how = getattr(missing, "how", None)
        return (), f"{missing.reason}" + (f" ({how})" if how else "")
    try:
        device = device_memory(case)
        found = phases(case)
    except (NotApplicable, NotChecked) as error:
        return (), str(error)
    return tuple(
        Phase(
            name=phase.name,
            parts={part.name: round(part.size) for part in (*phase.parts, *phase.likely)},
            certain=round(phase.certain),
            expected=round(phase.expected),
            device=round(device),
        )
        for phase in found
    ), None


def source_of(row: Row) -> str:
    """Where a row comes from, in a few words: ``run.sh:7``, a default, a derivation."""
    place = f"{row.file}:{row.line}" if row.file and row.line else row.file or ""
    if row.source == "unknown":
        return f"not known: {row.why}"
    said = row.why if row.source in (Source.DEFAULT.value, Source.DERIVED.value) and row.why else None
    if row.source == Source.DEFAULT.value:
        return ": ".join(part for part in (row.key, said or "default") if part)
    said = said or row.key
    return f"{said} ({place})" if said and place else said or place or row.source
