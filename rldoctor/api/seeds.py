"""Seeds of replicas and requests, as the framework of a launch derives them."""

from __future__ import annotations

from rldoctor.plan.seeds import (
    SeedTopology,
    completions_per_request,
    in_turn,
    replicas_per_prompt,
    requests_alike,
    seed_topology,
)

__all__ = [
    "SeedTopology",
    "completions_per_request",
    "in_turn",
    "replicas_per_prompt",
    "requests_alike",
    "seed_topology",
]
