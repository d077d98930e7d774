"""Engines that several tests of scenarios look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.api import Case
from rldoctor.probes.rollout import rollout
from rldoctor.probes.scenarios.chunked_prefill import chunked_prefill
from rldoctor.probes.scenarios.lengths import lengths
from rldoctor.probes.scenarios.min_tokens import min_tokens
from tests.live import scenario_case


@pytest.fixture(scope="session")
def under_traffic(patient: Path) -> Case:
    """What traffic and lengths show of the healthy patient, on two engines."""
    return scenario_case(patient, rollout, chunked_prefill, lengths, min_tokens)
