"""The ``seeds`` scenario: two replicas with the seeds that the launch gives them, and an engine of two tensor parallel
ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.knowledge import vllm_engine
from rldoctor.model import Level
from rldoctor.plan.model import RolloutPlan
from rldoctor.plan.seeds import (
    SeedTopology,
    completions_per_request,
    engine_seeds,
    replicas_per_prompt,
    request_seeds,
    seed_topology,
)
from rldoctor.probes.basis import with_counts
from rldoctor.probes.feasible import SEPARATE, pair_environ

REPLICAS = ("first", "second")
# Of a group; eight that are equal by chance are as good as never.
MOST_COMPLETIONS = 8
PROMPT_TOKENS, MAX_TOKENS = 24, 16
SECONDS = 120.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    plan = case.plan
    if plan is None:
        raise NotApplicable("no launch gives its engines seeds")
    if plan.value("rollout.backend", "vllm") != "vllm":
        raise NotApplicable(f"the launch samples with {plan.value('rollout.backend')}")
    plan = with_counts(plan)
    topology = seed_topology(plan)
    if topology is None:
        raise NotApplicable("which seed each engine gets is not known for this framework and release")
    seeds = engine_seeds(plan, topology)
    runs = {
        REPLICAS[replica]: Run(
            # The state that a group is drawn in depends on what the engine is made to do while it boots.
            engine=Engine(options=_seed(case, basis, seeds[replica]), replica=replica, alone=True),
            arguments={"seed": seeds[replica], **_requests(plan, topology, replica)},
            time_limit=SECONDS,
        )
        for replica in _replicas(plan, topology)
    }
    if _parallel(plan) and _even_heads(case, request):
        two = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
        environ = pair_environ(case, request, basis.device)
        if environ is not None:
            engine = Engine(options={**two, **_seed(case, basis, seeds[0])}, environ=environ, alone=True)
            runs["peers"] = Run(engine=engine, arguments={"seed": seeds[0]}, time_limit=SECONDS)
    if not runs:
        raise NotApplicable("one replica, and how its requests draw a group is not known")
    return runs


def _replicas(plan: RolloutPlan, topology: SeedTopology) -> tuple[int, ...]:
    """The replicas whose completions tell something: two where they may get parts of the same group, one where only
    its requests are in question."""
    # With one seed and whole groups nothing that two replicas draw would be wrong.
    divided = topology.rule != "same" or replicas_per_prompt(plan, topology.replicas) != 1
    if topology.replicas > 1 and divided:
        return (0, 1)
    return (0,) if _requests(plan, topology, 0) else ()


def _requests(plan: RolloutPlan, topology: SeedTopology, replica: int) -> dict[str, Any]:
    """A prompt's group as the launch asks for it, with the seeds of its requests."""
    wanted, each = plan.value("batch.generations"), completions_per_request(plan)
    if wanted is None or each is None or wanted < 2:
        return {}
    each = min(each, MOST_COMPLETIONS)
    count = max(min(wanted, MOST_COMPLETIONS) // each, 1)
    if count * each < 2:
        return {}
    seeds = request_seeds(plan, topology, replica, count)
    return {"requests": {"seeds": seeds, "each": each, "prompt": PROMPT_TOKENS, "response": MAX_TOKENS}}


def _seed(case: Case, basis: Basis, seed: int | None) -> dict[str, Any]:
    """The option, where one is given and the plain engine has not this seed anyway: V1 takes 0 by itself."""
    plain = basis.options.get("seed", 0 if vllm_engine.generation(case).value == "V1" else None)
    return {} if seed is None or seed == plain else {"seed": seed}


def _parallel(plan: RolloutPlan) -> bool:
    """Whether one engine drives several tensor parallel ranks; where the launcher starts them see ``probes/peers``."""
    launch = plan.server or plan
    ranks: int = launch.value("engine.tensor_parallel_size", 1)
    return ranks > 1 and launch.value("engine.distributed_executor_backend") != SEPARATE


def _even_heads(case: Case, request: Request) -> bool:
    """Whether the model, or the miniature that keeps its ratio of heads, can be divided between two ranks."""
    config = (case.model.config or {}) if case.model else {}
    heads = config.get("num_attention_heads", 2)
    kv_heads = config.get("num_key_value_heads") or heads
    kept = heads if request.model is not None or kv_heads == heads else heads // kv_heads
    return isinstance(heads, int) and (kept % 2 == 0 or kv_heads == heads)


seeds = Scenario(
    name="seeds",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "seeds.py",
    runs=_runs,
    reads=("plan", "model", "gpus", "host"),
    seconds=1.0,
)
