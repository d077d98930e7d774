"""The seeds of a plan as a topology: the engine replica that each rank belongs to, the seed that it gets, and which
replicas sample completions of the same prompt. How seeds are made, each framework's dialect says in settings."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rldoctor.plan.model import RolloutPlan
from rldoctor.records import dataclass

# Above this many ranks a table is cut in the middle.
SHOWN = 16
# What a framework could have drawn.
DRAWN = 20250321


@dataclass(frozen=True)
class RankSeed:
    """One rank of an engine: its number in the run, its node, its replica, its place in the replica's tensor and
    pipeline parallel group, and the engine's seed there; a seed of None is drawn at random."""

    rank: int
    node: int
    replica: int
    peer: int
    seed: int | None


@dataclass(frozen=True)
class SeedTopology:
    """The seeds of all ranks of a launch. ``rule`` is how replicas differ (``same``, ``rank``, ``replica``,
    ``random``), ``formula`` the framework's words for it, ``requests`` how requests differ."""

    ranks: tuple[RankSeed, ...]
    rule: str
    formula: str
    requests: str

    @property
    def replicas(self) -> int:
        return 1 + max(row.replica for row in self.ranks)

    @property
    def disagreeing(self) -> tuple[int, ...]:
        """Replicas whose tensor or pipeline parallel peers have different seeds."""
        seeds: dict[int, set[int | None]] = {}
        for row in self.ranks:
            seeds.setdefault(row.replica, set()).add(row.seed)
        return tuple(replica for replica, found in seeds.items() if len(found) > 1)

    @property
    def shared(self) -> dict[int, int]:
        """Seeds that more than one replica has, with the number of those replicas."""
        firsts = Counter(row.seed for row in self.ranks if row.peer == 0 and row.seed is not None)
        return {seed: count for seed, count in firsts.items() if count > 1}

    def summary(self) -> str:
        """One line: ranks, replicas and their seeds."""
        firsts = [_shown(row.seed) for row in self.ranks if row.peer == 0]
        listed = ", ".join(firsts if len(firsts) <= SHOWN else [*firsts[:4], "...", firsts[-1]])
        return f"{len(self.ranks)} ranks in {self.replicas} replicas, seeds {listed} ({self.formula})"

    def by_replica(self) -> str:
        """The seeds of each replica's ranks, in one line; many replicas are cut in the middle."""
        seeds: dict[int, list[str]] = {}
        for row in self.ranks:
            seeds.setdefault(row.replica, []).append(_shown(row.seed))
        said = [f"replica {number}: {', '.join(dict.fromkeys(found))}" for number, found in seeds.items()]
        if len(said) > SHOWN:
            said = [*said[:4], "...", said[-1]]
        return "; ".join(said)


# What the number of replicas and their seeds are counted from.
_COUNTED = (
    "engine.tensor_parallel_size",
    "engine.pipeline_parallel_size",
    "placement.engine_gpus",
    "placement.engines",
    "placement.gpus_per_node",
    "seed.engine",
)


def seed_topology(plan: RolloutPlan) -> SeedTopology | None:
    """The seeds of a plan's engines (of the rollout server's, where the file starts one), or None where the number of
    replicas or the rule is not known."""
    launch = plan.server or plan
    rule = launch.value("seed.per_replica")
    # The engine's own option may differ from replica to replica; what that is made from is the base.
    counted = _COUNTED if launch.value("seed.engine") is not None else (*_COUNTED, "engine.seed")
    if any(setting is not None and setting.unknown is not None for setting in map(launch.get, counted)):
        return None
    size = launch.value("engine.tensor_parallel_size", 1) * launch.value("engine.pipeline_parallel_size", 1)
    devices, engines = launch.value("placement.engine_gpus"), launch.value("placement.engines")
    if devices and engines and devices % (engines * size) == 0:
        size = devices // engines  # with data parallel ranks of its own
    replicas = devices // size if devices and devices % size == 0 else engines
    if rule is None or not replicas:
        return None
    total = replicas * size
    each = ranks_per_node(launch) or total
    base = launch.value("seed.engine")
    base = launch.value("engine.seed", 0) if base is None else base
    setting = launch.get("seed.per_replica")
    ranks = tuple(
        RankSeed(rank, rank // each, rank // size, rank % size, _seed(launch, rule, base, rank, size, each))
        for rank in range(total)
    )
    formula = (setting.how if setting is not None else None) or rule
    return SeedTopology(ranks, rule, formula, request_rule(launch) or "none")


def ranks_per_node(launch: RolloutPlan) -> int | None:
    """How many ranks of its engines a node holds: as many as devices that the launch names there, or as the launcher
    starts processes where each of these has one."""
    named = launch.value("placement.gpus_per_node") or launch.value("placement.engine_gpus_per_node")
    started = launch.value("process.nproc") if launch.value("placement.mode") == "colocate" else None
    return named or (started if isinstance(started, int) else None)


def completions_per_request(plan: RolloutPlan) -> int | None:
    """How many samples of a prompt the engine draws for one request, or None where it is not known."""
    n = plan.value("sampling.n", plan.value("batch.per_request"))
    return None if n is None else int(n)


def replicas_per_prompt(plan: RolloutPlan, replicas: int) -> int | None:
    """How many replicas get equal parts of the same group of completions, where a generation batch is cut into
    contiguous parts, one for each replica, or each request goes to the next replica in turn: 1 where every group stays
    together. None where the batch is not known, or how requests are spread, or where that is a matter of load."""
    rows, n, each = plan.value("batch.generation"), plan.value("batch.generations"), completions_per_request(plan)
    if plan.value("rollout.spread") == "prompt" or (each is not None and n is not None and each >= n):
        return 1
    if in_turn(plan):
        return min(replicas, -(-n // each)) if n and each else None
    if plan.value("rollout.spread") != "parts" or not rows or not n or each is None or rows % replicas or rows < n:
        return None
    part = rows // replicas
    return n // part if part < n and n % part == 0 else 1


def in_turn(plan: RolloutPlan) -> bool:
    """Whether each request goes to the next replica, so that the requests of one prompt reach all of them."""
    return bool(plan.value("rollout.spread") == "turns")


def engine_seeds(plan: RolloutPlan, topology: SeedTopology) -> tuple[int | None, ...]:
    """The seed that the engine of each replica is given; None where it is given none and takes what is vLLM's own. For
    seeds that a framework draws at random some that differ stand in."""
    launch = plan.server or plan
    firsts = [row.seed for row in topology.ranks if row.peer == 0]
    if topology.rule == "random":
        return tuple(DRAWN + number for number in range(len(firsts)))
    if topology.rule == "same" and launch.value("seed.engine") is None and launch.value("engine.seed") is None:
        return (None,) * len(firsts)
    return tuple(firsts)


def request_rule(plan: RolloutPlan) -> str | None:
    """How the seeds of requests differ (``none``: they carry none); None where it is not known."""
    rule: str | None = plan.value("seed.per_request")
    if rule == "same" and not plan.value("seed.deterministic") and plan.value("sampling.seed") is None:
        return "none"  # what was the same has been taken away, as a fix does
    return rule


def requests_alike(plan: RolloutPlan) -> bool:
    """Whether all requests of an engine carry the same seed."""
    rule = request_rule(plan)
    return rule in ("same", "engine")


def request_seeds(plan: RolloutPlan, topology: SeedTopology, replica: int, count: int) -> list[int] | list[None]:
    """The seeds of the first ``count`` requests that a replica gets."""
    if topology.requests not in ("same", "engine", "rank", "counter"):
        return [None] * count
    own = next((row.seed for row in topology.ranks if row.replica == replica), None) or 0
    if topology.requests == "same":
        return [plan.value("sampling.seed", own)] * count
    if topology.requests == "engine":
        return [own] * count
    # The inference worker's rank is the number of its replica; the index of the request is added to it.
    base = replica if topology.requests == "rank" else own
    return [base + index for index in range(count)]


def _seed(plan: RolloutPlan, rule: Any, base: int, rank: int, size: int, each: int) -> int | None:
    replica = rank // size
    if rule == "random":
        return None
    if rule == "rank":
        return base + rank
    if rule == "replica":
        if stride := plan.value("seed.node_stride"):
            return int(base + (replica * size // each) * stride + (replica * size % each) // size)
        return int(base + replica * plan.value("seed.stride", 1))
    return base


def _shown(seed: int | None) -> str:
    return "random" if seed is None else str(seed)
