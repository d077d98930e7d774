"""What a running Ray cluster shows (RLD602): its room for a launch, and what waits in it while a run stands still."""

from __future__ import annotations

from . import cluster, pending

__all__ = ["cluster", "pending"]
