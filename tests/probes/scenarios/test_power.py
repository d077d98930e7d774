"""Small faults, one at a time, in a real engine: each is found, and under one code."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.catalogue import registry
from rldoctor.catalogue.scenario import Scenario
from rldoctor.judge import judge
from rldoctor.plan.model import RolloutPlan
from rldoctor.probes.rollout import rollout
from rldoctor.probes.scenarios.agreement import agreement
from rldoctor.probes.scenarios.chunked_prefill import chunked_prefill
from rldoctor.probes.scenarios.lora import lora
from rldoctor.probes.scenarios.tokens import tokens
from tests.live import scenario_case
from tests.plans import case as planned

# A launch whose adapters have a scale of 1, which would hide that it is missing.
ADAPTERS = planned(engine__enable_lora=True, lora__rank=8, lora__alpha=8, engine__max_lora_rank=16).plan

FAULTS: dict[str, tuple[set[str], tuple[Scenario, ...], RolloutPlan | None]] = {
    "layer_off": ({"RLD403"}, (agreement,), None),
    # It acts in steps that decode alone, so a batch that mixes prompts with decoding escapes it.
    "decode_one_late": ({"RLD403"}, (agreement,), None),
    "one_token_masked": ({"RLD404"}, (agreement,), None),
    "last_rotary_row": ({"RLD204"}, (rollout,), None),
    "keys_off_at_chunk_ends": ({"RLD201"}, (chunked_prefill,), None),
    "garbled_text": ({"RLD404"}, (tokens,), None),
    "adapters_without_scale": ({"RLD214"}, (lora,), ADAPTERS),
}


@pytest.mark.engine
@pytest.mark.parametrize("fault", FAULTS)
def test_a_small_fault_is_found_under_one_code(patient: Path, fault: str) -> None:
    codes, scenarios, plan = FAULTS[fault]
    case = scenario_case(patient, *scenarios, fault=f"small:{fault}", plan=plan)
    results = judge(registry.load().checks.values(), case)
    found = {finding.code for result in results for finding in result.findings if "observ" in finding.grade.value}
    assert found == codes, [finding.message for result in results for finding in result.findings]
