"""RLD402: an engine that keeps its old weights."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.sync.weights_stale import check

from rldoctor.api import Applicability, Case, Outcome, Severity
from rldoctor.api.facts import Series
from rldoctor.judge import judge_one
from tests.checks.launches import finding, judged, quiet

ASLEEP: dict[str, Any] = {"placement__mode": "colocate", "engine__enable_sleep_mode": True}


def measured(*differences: float) -> Case:
    name = "sampling_logp_difference_mean"
    steps = tuple(range(1, len(differences) + 1))
    return Case(metrics={name: Series(key="sampling/sampling_logp_difference/mean", steps=steps, values=differences)})


@pytest.mark.parametrize("version", ["0.28.0", "1.0.0", "1.9.2"])
def test_trl_reloads_over_the_synced_weights(version: str) -> None:
    # https://github.com/huggingface/trl/issues/5312
    found = finding(check, version=version, **ASLEEP)
    assert found.severity is Severity.ERROR
    assert found.fixes[0].applicability is Applicability.SAFE
    assert found.fixes[0].edits[0].option == "engine.enable_sleep_mode"


def test_trl_0_26_only_within_a_step() -> None:
    twice: dict[str, Any] = {"batch__accumulation": 4, "batch__steps_per_generation": 2}
    assert "first generation of a step" in finding(check, version="0.26.2", **ASLEEP, **twice).message
    once: dict[str, Any] = {"batch__accumulation": 4, "batch__steps_per_generation": 4}
    assert quiet(check, version="0.26.2", **ASLEEP, **once)


def test_mended_releases_and_engines_awake() -> None:
    assert judged(check, version="1.10.0", **ASLEEP).outcome is Outcome.PASS
    assert quiet(check, version="0.25.1", **ASLEEP)
    assert quiet(check, version="1.0.0", **{**ASLEEP, "engine__enable_sleep_mode": False})
    assert quiet(check, version="1.0.0", **{**ASLEEP, "placement__mode": "server"})
    assert quiet(check, "verl", version="0.9.0", **ASLEEP)


def test_prefixes_of_the_old_policy_are_a_note() -> None:
    assert finding(check, version="0.15.2", placement__engine_device="cuda:1").severity is Severity.NOTE
    assert quiet(check, version="0.14.0", placement__engine_device="cuda:1")


AWAKE: dict[str, Any] = {"placement__mode": "colocate", "rollout__async_engine": True, "sleep__enabled": False}


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1"])
def test_verl_wakes_no_engine_that_never_sleeps(version: str) -> None:
    # https://github.com/verl-project/verl/issues/4147
    found = finding(check, "verl", entry="verl.trainer.main_ppo", version=version, **AWAKE)
    assert "every rollout comes from the weights that the engine started with" in found.message
    assert found.fixes[0].edits[0].option == "sleep.enabled"


@pytest.mark.parametrize("version", ["0.4.1", "0.7.0"])
def test_verl_sends_the_weights_either_way(version: str) -> None:
    assert quiet(check, "verl", entry="verl.trainer.main_ppo", version=version, **AWAKE)


def test_verl_whose_engines_sleep_or_do_not_train() -> None:
    ppo: dict[str, Any] = {"entry": "verl.trainer.main_ppo", "version": "0.6.1"}
    assert quiet(check, "verl", **ppo, **{**AWAKE, "sleep__enabled": True})
    assert quiet(check, "verl", **ppo, **{**AWAKE, "rollout__async_engine": False})
    assert quiet(check, "verl", **{**ppo, "entry": "verl.trainer.main_generation_server"}, **AWAKE)


def test_a_difference_that_grows_with_the_steps() -> None:
    (found,) = judge_one(check, measured(0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.6, 0.7, 0.81)).findings
    assert "0.01 at step 1, 0.81 at step 9" in found.message


def test_differences_that_do_not_grow() -> None:
    assert judge_one(check, measured(*[0.012] * 9)).outcome is Outcome.PASS
    # A wrong setting differs from the first step on.
    assert judge_one(check, measured(*[0.6] * 9)).outcome is Outcome.PASS
    # One spike.
    assert judge_one(check, measured(0.01, 0.01, 0.01, 0.9, 0.01, 0.01, 0.01, 0.01, 0.01)).outcome is Outcome.PASS
    assert not judge_one(check, measured(0.01, 0.9)).findings
