"""What a scheduler gives a launch to run on: the ground of the checks of nodes, ranks and Ray's resources."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Evidence, Fix, RolloutPlan, cite, counted
from rldoctor.api.facts import aside

NODES, EACH, SHAPES = "scheduler.nodes", "scheduler.gpus_per_node", "scheduler.shapes"


def named(case: Case) -> int | None:
    """The number of nodes that the case names; where it names none, another number may decide."""
    with aside():
        return case.nodes


def nodes_there(case: Case, plan: RolloutPlan) -> tuple[int | None, tuple[Evidence, ...]]:
    """How many nodes there are for the launch, and how that is known: those that the scheduler is asked for, at most
    those that the case names."""
    nodes, asked = named(case), plan.value(NODES)
    if nodes is not None and not (isinstance(asked, int) and asked < nodes):
        return nodes, (Evidence(text=counted(nodes, "node"), source="nodes"),)
    return plan.value(NODES), cite(plan, NODES)


def more_nodes(plan: RolloutPlan, count: int) -> Iterator[Fix]:
    """The scheduler is asked for so many nodes, in its own words."""
    if count <= plan.value(NODES, 0):
        return
    if plan.value("scheduler.name") == "slurm":
        yield Fix(title=f"or ask Slurm for {count} nodes", commands=(f"#SBATCH --nodes={count}",))
    elif plan.value("scheduler.name") == "kubernetes":
        yield Fix(title=f"or ask Kubernetes for {count} pods with these devices (replicas)")
