"""The rollout plan beyond its settings."""

from __future__ import annotations

from rldoctor.frameworks import has_option
from rldoctor.plan.evidence import cite_given
from rldoctor.plan.model import RefusedValue, UnknownOption
from rldoctor.plan.vocabulary import plain

__all__ = [
    "RefusedValue",
    "UnknownOption",
    "cite_given",
    "has_option",
    "plain",
]
