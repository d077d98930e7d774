"""The ``peers`` probe: two tensor parallel ranks that a launcher starts, each with its own engine object, as trainers
colocate them; with the seeds that the launch gives them."""

from __future__ import annotations

from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.knowledge import vllm_engine
from rldoctor.model import Level
from rldoctor.plan.model import RolloutPlan
from rldoctor.plan.seeds import engine_seeds, seed_topology
from rldoctor.probes.basis import basis, with_counts
from rldoctor.probes.feasible import SEPARATE, pair_environ, require_import

SECONDS = 240.0
# Peers that fell out of step wait for each other for ever.
GENERATION_SECONDS = 60.0
SAMPLES, PROMPT_TOKENS, MAX_TOKENS = 8, 24, 16


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    plan = None if case.plan is None else with_counts(case.plan)
    if plan is None or not _launched(plan):
        raise NotApplicable("no launch starts the ranks of an engine by itself")
    topology = seed_topology(plan)
    if topology is None:
        raise NotApplicable("which seed each engine gets is not known for this framework and release")
    require_import(case, "vllm")
    base = basis(case, request)
    if base.device == "cpu" and vllm_engine.generation(case).value == "V0":
        # vllm/platforms/cpu.py, 0.9.1: every executor but mp is replaced by mp
        raise NotApplicable("V0 on the CPU starts the ranks of an engine itself, whoever is asked to")
    environ = pair_environ(case, request, base.device)
    if environ is None:
        raise NotApplicable("there are no two free devices here")
    given = [row.seed for row in topology.ranks if row.replica == 0][:2]
    if None in given:
        given = [engine_seeds(plan, topology)[0]] * 2  # one draw for all of them
    arguments = {
        "engine": {**base.options, "tensor_parallel_size": 2, "distributed_executor_backend": SEPARATE},
        "seeds": given,
        "samples": SAMPLES,
        "prompt_tokens": PROMPT_TOKENS,
        "max_tokens": MAX_TOKENS,
        "time_limit": request.time_limit or SECONDS,
        "patience": GENERATION_SECONDS,
    }
    return {"peers": Job(arguments=arguments, environ={**base.environ, **environ}, time_limit=SECONDS)}


def _launched(plan: RolloutPlan) -> bool:
    launch = plan.server or plan
    ranks: int = launch.value("engine.tensor_parallel_size", 1)
    launched = launch.value("engine.distributed_executor_backend") == SEPARATE
    return ranks > 1 and launched and bool(plan.value("rollout.backend", "vllm") == "vllm")


peers = Probe(
    name="peers",
    level=Level.COMPARE,
    child=Path(__file__).parent / "children" / "peers.py",
    jobs=_jobs,
    needs=("packages.vllm", "packages.torch"),
    reads=("plan", "gpus", "host", "environment"),
    seconds=30.0,
)
