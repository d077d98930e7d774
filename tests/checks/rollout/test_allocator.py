"""RLD207: expandable segments and the engine's sleep."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.allocator import check

from rldoctor.api import Outcome
from tests.logs.asking import finding, raised
from tests.plans import edits, judged

ON = "max_split_size_mb:512,expandable_segments:True"
ASLEEP = {"engine__enable_sleep_mode": True}


@pytest.mark.parametrize("version", ["0.8.2", "0.9.1", "0.20.0"])
def test_fires_for_the_releases_that_assert(version: str) -> None:
    # https://github.com/OpenRLHF/OpenRLHF/issues/1011
    result = judged(check, versions={"vllm": version}, env__PYTORCH_CUDA_ALLOC_CONF=ON, **ASLEEP)
    assert edits(result)[0] == {"env.PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512,expandable_segments:False"}


def test_the_shells_variable_counts_where_the_launch_sets_none() -> None:
    shell = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert judged(check, versions={"vllm": "0.9.1"}, environment=shell, **ASLEEP).outcome is Outcome.FINDINGS
    off = judged(check, environment=shell, env__PYTORCH_CUDA_ALLOC_CONF="expandable_segments:False", **ASLEEP)
    assert off.outcome is Outcome.PASS


def test_quiet_without_sleep_and_on_releases_that_switch_it_off_themselves() -> None:
    assert judged(check, env__PYTORCH_CUDA_ALLOC_CONF=ON).findings == ()
    later = judged(check, versions={"vllm": "0.20.1"}, env__PYTORCH_CUDA_ALLOC_CONF=ON, **ASLEEP)
    assert later.outcome is Outcome.PASS


def test_quiet_before_vllm_could_sleep() -> None:
    result = judged(check, versions={"vllm": "0.6.3"}, env__PYTORCH_CUDA_ALLOC_CONF=ON, sleep__enabled=True)
    assert result.outcome is not Outcome.PASS and result.findings == ()
    awake = judged(check, versions={"vllm": "0.7.2"}, env__PYTORCH_CUDA_ALLOC_CONF=ON, sleep__enabled=True)
    assert awake.outcome is Outcome.FINDINGS


def test_frameworks_that_set_the_variable_for_the_engine() -> None:
    result = judged(check, framework="EasyR1", env__PYTORCH_CUDA_ALLOC_CONF=ON, **ASLEEP)
    assert result.findings == ()


def test_a_version_that_is_none_is_not_judged() -> None:
    result = judged(check, versions={"vllm": "nightly"}, env__PYTORCH_CUDA_ALLOC_CONF=ON, **ASLEEP)
    assert result.outcome is Outcome.NOT_CHECKED


def test_the_allocators_assertion_in_a_log() -> None:
    text = raised(
        "AssertionError",
        "Expandable segments are not compatible with memory pool. Please track "
        "https://github.com/pytorch/pytorch/issues/147851 for the latest updates.",
        "/opt/venv/lib/python3.11/site-packages/vllm/device_allocator/cumem.py __init__",
        code='assert "expandable_segments:True" not in conf, \\',
    )
    assert finding(check, text).fixes[0].edits[0].option == "env.PYTORCH_CUDA_ALLOC_CONF"
