"""Fixes of seeds that replicas or requests share, by framework and release."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Fix, RolloutPlan, version_within
from rldoctor.api.seeds import SeedTopology, in_turn

# rollout.py: every worker and every server is given vLLM's own seed.
SWIFT_SERVER = ">=3.4,<3.12.3"
SERVER_SEEDS = Fix(
    title="ms-swift 3.12.3 and later give each rollout worker a random seed",
    commands=('pip install "ms-swift>=3.12.3"',),
)


def swift(plan: RolloutPlan, versions: str) -> bool:
    known = plan.framework == "ms-swift" and plan.version is not None
    return known and version_within(plan.version or "", versions) is True


def own_seeds(plan: RolloutPlan, found: SeedTopology) -> Iterator[Fix]:
    if swift(plan, SWIFT_SERVER):
        yield SERVER_SEEDS
    elif plan.framework == "verl":
        yield Fix(
            title="verl 0.7.1 and later add the replica's rank to the seed", commands=('pip install "verl>=0.7.1"',)
        )
    elif plan.framework == "NeMo-RL":
        yield Fix(title="NeMo-RL 0.2.0 and later give each engine its own seed (pull request 171)")
    n, rows = plan.value("batch.generations"), plan.value("batch.generation")
    if n and rows and rows // n < found.replicas and not in_turn(plan):
        yield Fix(title=f"or at least {found.replicas} prompts at a time, so that every group stays on one replica")


def no_request_seed(plan: RolloutPlan) -> Iterator[Fix]:
    if plan.framework == "ms-swift":
        yield Fix(
            title="ms-swift 3.5.3 and later add the index of the request to the seed",
            commands=('pip install "ms-swift>=3.5.3"',),
        )
    elif plan.value("seed.deterministic"):
        yield Fix.safe(
            "switch full determinism of the rollout off: it puts the replica's seed into every request",
            {"seed.deterministic": False},
            side_effects="rollouts are not reproducible bit by bit",
        )
    elif plan.value("sampling.seed") is not None:
        yield Fix.safe("send no seed with the requests", {"sampling.seed": None})
    else:
        yield Fix(title="send no seed with the requests, or a different one with each sample of a group")
