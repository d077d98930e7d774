"""Engines that several tests of scenarios look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.api import Case
from rldoctor.probes.rollout import rollout
from rldoctor.probes.scenarios.chunked_prefill import chunked_prefill
from rldoctor.probes.scenarios.lengths import lengths
from rldoctor.probes.scenarios.min_tokens import min_tokens
from tests.live import Played, cases_of_one_import, only


@pytest.fixture(scope="session")
def traffic(patient: Path) -> dict[str, Case]:
    """What traffic and lengths show of the healthy patient, on two engines, and what traffic shows of one whose steps
    have no room for its prompts and of one whose step never ends."""
    no_room, hang = "chunked_prefill:budget_below_the_prompts", "chunked_prefill:hang"
    engines = {
        "healthy": Played((rollout, chunked_prefill, lengths, min_tokens)),
        "no room": Played((only(chunked_prefill, "off"),), fault=no_room),
        "hang": Played((rollout, only(chunked_prefill, "on", seconds=15.0)), fault=hang),
    }
    return cases_of_one_import(patient, engines)


@pytest.fixture(scope="session")
def under_traffic(traffic: dict[str, Case]) -> Case:
    return traffic["healthy"]
