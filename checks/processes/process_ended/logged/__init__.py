"""How a log shows that a run was ended, or never started, from outside (RLD603): a module for each that can do so."""

from __future__ import annotations

from . import clouds, containers, interrupted, kubernetes, launchers, queues, ray, slurm, states, tickets

__all__ = [
    "clouds",
    "containers",
    "interrupted",
    "kubernetes",
    "launchers",
    "queues",
    "ray",
    "slurm",
    "states",
    "tickets",
]
