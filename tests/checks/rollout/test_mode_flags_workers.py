"""RLD212: settings of the training workers that a framework refuses together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.rollout.mode_flags import check

from rldoctor.api import Outcome
from rldoctor.api.plan import UnknownOption
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from rldoctor.plan.model import Form, Given
from tests.plans import case, edits, judged

VERL = {"framework": "verl", "versions": {"verl": "0.6.1"}, "batch__dynamic": False}
SIZES = {"batch__per_device": 4, "batch__logprob_per_device": 8, "batch__reference_per_device": 8}
SKYRL = {"skyrl-train": "0.4.0"}


def given(framework: str, versions: dict[str, str], settings: dict[str, Any], **natives: Any) -> CheckResult:
    """A launch that also gives ``natives``, spelled ``trainer__algorithm__use_kl_in_reward=True``."""
    made = case(framework, versions, **settings)
    assert made.plan is not None
    lines = tuple(
        Given(key=name.replace("__", "."), value=value, file="run.sh", line=9, form=Form.OVERRIDE)
        for name, value in natives.items()
    )
    return judge_one(check, replace(made, plan=replace(made.plan, given=lines)))


# https://github.com/verl-project/verl/issues/145
@pytest.mark.parametrize("missing", SIZES)
def test_verl_without_a_micro_batch(missing: str) -> None:
    result = judged(check, **VERL, **{**SIZES, missing: None}, trainer__reference=True)
    assert "Please set at least one of" in result.findings[0].message
    assert edits(result)[0] == {missing.replace("__", "."): 1}
    assert judged(check, **{**VERL, "batch__dynamic": True}, **{**SIZES, missing: None}).outcome is Outcome.PASS


def test_verl_with_micro_batches_or_their_older_names() -> None:
    assert judged(check, **VERL, **SIZES, trainer__reference=True).outcome is Outcome.PASS
    older = {"actor_rollout_ref__rollout__log_prob_micro_batch_size": 64}
    settings = {"batch__dynamic": False, **SIZES, "batch__logprob_per_device": None}
    assert given("verl", {"verl": "0.6.1"}, settings, **older).outcome is Outcome.PASS
    assert judged(check, **VERL, **{**SIZES, "batch__reference_per_device": None}).outcome is Outcome.PASS


def test_a_configuration_by_itself_leaves_them_to_the_command_line() -> None:
    made = case("verl", {"verl": "0.6.1"}, batch__dynamic=False, batch__per_device=None, batch__logprob_per_device=8)
    assert made.plan is not None
    assert judge_one(check, made).outcome is Outcome.FINDINGS
    assert judge_one(check, replace(made, plan=replace(made.plan, entry=""))).outcome is Outcome.PASS


def test_a_micro_batch_under_another_name_is_the_finding_of_another_check() -> None:
    made = case("verl", {"verl": "0.6.1"}, batch__dynamic=False, batch__per_device=None)
    typo = UnknownOption(key="a.ppo_micro_batch_size_per_gp", file="run.sh", line=3, form=Form.OVERRIDE)
    assert made.plan is not None
    assert judge_one(check, replace(made, plan=replace(made.plan, unknown=(typo,)))).outcome is Outcome.PASS


def test_verl_does_not_validate_where_it_only_samples() -> None:
    made = case("verl", {"verl": "0.6.1"}, batch__dynamic=False, batch__per_device=None)
    assert made.plan is not None
    sampling = replace(made.plan, entry="verl.trainer.main_generation_server")
    assert judge_one(check, replace(made, plan=sampling)).outcome is Outcome.PASS


def test_both_names_of_a_micro_batch() -> None:
    result = judged(check, **VERL, **SIZES, batch__micro=64)
    assert "which takes its place" in result.findings[0].message


def test_adapters_summoned_by_layers_need_the_model_in_the_engine() -> None:
    adapted = {**VERL, **SIZES, "lora__rank": 32, "sync__layered": True}
    assert edits(judged(check, **adapted, engine__load_format="dummy")) == [{"engine.load_format": "safetensors"}]
    assert judged(check, **adapted, engine__load_format="safetensors").outcome is Outcome.PASS
    assert judged(check, **{**adapted, "lora__rank": 0}, engine__load_format="dummy").outcome is Outcome.PASS


def test_easyr1_offloads_or_accumulates() -> None:
    easyr1 = {"framework": "EasyR1", "versions": {"easyr1": "0.3.2"}, "trainer__offload_gradients": True}
    assert edits(judged(check, **easyr1, batch__accumulation=20)) == [{"trainer.offload_gradients": False}]
    assert judged(check, **easyr1, batch__accumulation=1).outcome is Outcome.PASS


def test_openrlhf_colocates_models_of_one_size() -> None:
    shared = {"placement__colocated_roles": ["actor", "reference", "engine"]}
    openrlhf = {"framework": "OpenRLHF", "versions": {"openrlhf": "0.8.5"}, **shared}
    result = judged(check, **openrlhf, placement__roles={"actor": 8, "reference": 4, "engine": 8})
    assert "different numbers of devices" in result.findings[0].message
    same = {"actor": 8, "reference": 8, "engine": 8}
    assert judged(check, **openrlhf, placement__roles=same).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("settings", "natives", "said"),
    [
        ({}, {"trainer__algorithm__use_kl_in_reward": True}, "one of them"),
        (
            {},
            {"trainer__algorithm__use_kl_in_reward": True, "trainer__algorithm__use_kl_loss": False},
            None,
        ),
        ({"lengths__prompt": 512, "lengths__turns": 1}, {"generator__max_input_length": 1024}, "are equal"),
        ({"lengths__prompt": 512, "lengths__turns": 3}, {"generator__max_input_length": 1024}, None),
        ({"trainer__algorithm": "gae", "model__critic_path": None}, {}, "without a critic"),
        ({"trainer__algorithm": "gae", "model__critic_path": "m"}, {}, None),
        ({"rollout__async_engine": False}, {}, "generates in batches"),
        ({"rollout__async_engine": False}, {"generator__batched": True}, None),
    ],
)
def test_skyrl_asserts(settings: dict[str, Any], natives: dict[str, Any], said: str | None) -> None:
    result = given("SkyRL", SKYRL, settings, **natives)
    assert [said] == [said for f in result.findings if said and said in f.message] if said else not result.findings
