"""The engine's replicas, their ranks and the seed of each."""

from __future__ import annotations

from itertools import groupby

from rldoctor.case import Case
from rldoctor.exhibits.model import Rank, Ranks
from rldoctor.plan.seeds import seed_topology

# What a page can show; more replicas are counted.
MOST = 64


def of(case: Case) -> Ranks | None:
    """The topology of the plan's engines; None where there is no plan, or nothing samples."""
    plan = case.plan
    if plan is None or plan.value("rollout.enabled") is False:
        return None
    found = seed_topology(plan)
    if found is None:
        return Ranks(unknown="how many replicas there are, or which seed each gets, is not known")
    replicas = tuple(
        tuple(Rank(rank=row.rank, node=row.node, seed=row.seed) for row in rows)
        for _, rows in groupby(found.ranks, key=lambda row: row.replica)
    )
    return Ranks(replicas=replicas[:MOST], formula=found.formula, left_out=max(0, len(replicas) - MOST))
