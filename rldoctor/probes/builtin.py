"""The probes that rldoctor brings along; plugins bring theirs through the same entry-point group."""

from __future__ import annotations

from rldoctor.probes.collectives import collectives
from rldoctor.probes.imports import imports
from rldoctor.probes.own_step import own_step
from rldoctor.probes.peers import peers
from rldoctor.probes.placement import placement
from rldoctor.probes.ray_cluster import ray_cluster
from rldoctor.probes.ray_lookup import ray_lookup
from rldoctor.probes.ray_package import ray_package
from rldoctor.probes.rollout import rollout
from rldoctor.probes.scenarios.agreement import agreement
from rldoctor.probes.scenarios.answers import answers
from rldoctor.probes.scenarios.chunked_prefill import chunked_prefill
from rldoctor.probes.scenarios.exact import exact
from rldoctor.probes.scenarios.interrupted import interrupted
from rldoctor.probes.scenarios.lengths import lengths
from rldoctor.probes.scenarios.lora import lora
from rldoctor.probes.scenarios.min_tokens import min_tokens
from rldoctor.probes.scenarios.mixed import mixed
from rldoctor.probes.scenarios.requests import requests
from rldoctor.probes.scenarios.sampling import sampling
from rldoctor.probes.scenarios.seeds import seeds
from rldoctor.probes.scenarios.shared_engine import shared_engine
from rldoctor.probes.scenarios.sleep import sleep
from rldoctor.probes.scenarios.soak import soak
from rldoctor.probes.scenarios.tokens import tokens
from rldoctor.probes.scenarios.trainer_code import trainer_code
from rldoctor.probes.scenarios.weights import weights
from rldoctor.probes.validators import validators

__all__ = [
    "agreement",
    "answers",
    "chunked_prefill",
    "collectives",
    "exact",
    "imports",
    "interrupted",
    "lengths",
    "lora",
    "min_tokens",
    "mixed",
    "own_step",
    "peers",
    "placement",
    "ray_cluster",
    "ray_lookup",
    "ray_package",
    "requests",
    "rollout",
    "sampling",
    "seeds",
    "shared_engine",
    "sleep",
    "soak",
    "tokens",
    "trainer_code",
    "validators",
    "weights",
]
