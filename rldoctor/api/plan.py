"""The rollout plan beyond its settings."""

from __future__ import annotations

from rldoctor.plan.model import RefusedValue, UnknownOption

__all__ = [
    "RefusedValue",
    "UnknownOption",
]
