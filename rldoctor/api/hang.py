"""A run that stands still, its processes and ranks; what a Ray cluster says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rldoctor.case import Case
from rldoctor.catalogue.check import NotChecked
from rldoctor.hang import stalled_run
from rldoctor.hang.names import numbered, ranks_named
from rldoctor.hang.process_state import STOPPED

if TYPE_CHECKING:  # types alone: no start-up pays for what one command needs
    from rldoctor.hang.compare import Behind as Behind
    from rldoctor.hang.compare import MissingPeers as MissingPeers
    from rldoctor.hang.model import RayActor as RayActor
    from rldoctor.hang.model import RayBundles as RayBundles
    from rldoctor.hang.model import RayCluster as RayCluster
    from rldoctor.hang.model import RayDemand as RayDemand
    from rldoctor.hang.model import Seen as Seen
    from rldoctor.hang.process_state import ProcessState as ProcessState
    from rldoctor.hang.view import StalledRun as StalledRun


def live_cluster(case: Case) -> RayCluster:
    """The running cluster that was asked for the launch. Raises :class:`NotChecked` where it did not tell."""
    from rldoctor.hang import ray_cluster

    (observed,) = case.observations["ray_cluster"].values()
    try:
        return ray_cluster.asked(observed)
    except ray_cluster.NoAnswerError as error:
        raise NotChecked(str(error)) from None


__all__ = [
    "STOPPED",
    "live_cluster",
    "numbered",
    "ranks_named",
    "stalled_run",
]
