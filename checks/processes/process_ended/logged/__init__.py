"""How a log shows that a run was ended, or never started, from outside (RLD603): a module for each that can do so."""

from __future__ import annotations

from . import clouds, interrupted, kubernetes, launchers, queues, ray, slurm, taken_away

__all__ = ["clouds", "interrupted", "kubernetes", "launchers", "queues", "ray", "slurm", "taken_away"]
