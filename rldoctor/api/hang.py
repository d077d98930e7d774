"""A run that stands still: its processes, ranks and Ray's cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rldoctor.hang import stalled_run
from rldoctor.hang.names import numbered, ranks_named

if TYPE_CHECKING:  # types alone: no start-up pays for what one command needs
    from rldoctor.hang.compare import Behind as Behind
    from rldoctor.hang.compare import MissingPeers as MissingPeers
    from rldoctor.hang.model import RayActor as RayActor
    from rldoctor.hang.model import RayBundles as RayBundles
    from rldoctor.hang.model import RayCluster as RayCluster
    from rldoctor.hang.model import Seen as Seen
    from rldoctor.hang.process_state import ProcessState as ProcessState
    from rldoctor.hang.view import StalledRun as StalledRun

__all__ = [
    "numbered",
    "ranks_named",
    "stalled_run",
]
