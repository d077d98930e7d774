"""Who replaces whom: a fact about a package holds only where no layer above it replaces what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.environment.vllm_version import check

from rldoctor.api import Case, Severity
from rldoctor.api.releases import known_issues, mended, replaced
from tests.cases import assumed, judged
from tests.checks.launches import launch

GUIDED = "the GRPO trainer imports GuidedDecodingParams from vllm.sampling_params, which vLLM 0.12 has no more"


def launched(framework: str, versions: dict[str, str], **settings: Any) -> Case:
    return replace(assumed(**versions), plan=launch(framework, **settings).plan)


@pytest.mark.parametrize(
    ("framework", "holds"),
    # verl stands beside TRL: its colocated engines are none of TRL's.
    [("TRL", True), ("axolotl", True), ("unsloth", False), ("ms-swift", False), ("verl", False), ("generic", True)],
)
def test_known_defects_of_trainers_that_another_replaces(framework: str, holds: bool) -> None:
    (issue,) = (issue for issue in known_issues() if issue.id == "trl-fixed-master-port")
    found = launched(framework, {"trl": "0.22.2", "unsloth": "2025.9.12"}, placement__mode="colocate")
    assert issue.covers(found) is holds


@pytest.mark.parametrize(
    ("versions", "holds"),
    [({"unsloth": "2025.11.6"}, True), ({"unsloth": "2025.11.5"}, False), ({"trl": "0.22.2"}, False)],
)
def test_a_name_that_is_put_back(versions: dict[str, str], holds: bool) -> None:
    found = launched("unsloth", versions)
    assert mended(found, "trl", GUIDED) is holds
    assert not mended(found, "trl", "another name is missing")


def test_without_a_launch_the_installed_layer_counts() -> None:
    assert replaced(assumed(trl="0.22.2", ms_swift="3.12.0"), "trl")
    assert not replaced(assumed(trl="0.22.2", axolotl="0.12.0"), "trl")


@pytest.mark.parametrize(
    ("framework", "versions", "loud"),
    [
        ("unsloth", {"unsloth": "2026.1.4"}, False),
        ("unsloth", {"unsloth": "2025.9.12"}, True),
        ("TRL", {}, True),
        ("TRL", {"unsloth": "2026.1.4"}, True),
    ],
)
def test_a_stock_launch_is_not_blamed_for_what_its_framework_mends(
    framework: str, versions: dict[str, str], loud: bool
) -> None:
    found = launched(framework, {"trl": "0.22.2", "vllm": "0.12.0", **versions})
    severities = {finding.severity for finding in judged(check, found).findings}
    assert (Severity.ERROR in severities) is loud
