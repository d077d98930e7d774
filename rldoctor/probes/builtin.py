"""The probes that rldoctor brings along; plugins bring theirs through the same entry-point group."""

from __future__ import annotations

from rldoctor.probes.imports import imports
from rldoctor.probes.rollout import rollout

__all__ = ["imports", "rollout"]
