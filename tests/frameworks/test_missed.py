"""What a launch lost on the way: defaults are unknown then, with the reason, and the model is never a default."""

from __future__ import annotations

import pytest

from tests.frameworks.conftest import Launches

VERL = {"verl": "0.7.0", "vllm": "0.11.0"}
RUN = "python3 -m verl.trainer.main_ppo data.max_prompt_length=512 {more}\n"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("$EXTRA", "$EXTRA may hold more options"),
        ('"$EXTRA"', '"$EXTRA" may hold more options'),
        ("--config-name $NAME", "the name of its configuration is not known"),
        ("--config-name my_experiment", "its configuration my_experiment was not found"),
        ("--config-path conf --config-name my_experiment", "its configuration my_experiment was not found"),
    ],
)
def test_defaults_of_a_launch_that_lost_something(launches: Launches, more: str, why: str) -> None:
    (plan,) = launches({"run.sh": RUN.format(more=more)}, **VERL)
    given, response = plan.get("lengths.prompt"), plan.get("lengths.response")
    assert given is not None and given.value == 512
    assert response is not None and response.value is None and why in (response.unknown or "")
    # vLLM's own defaults may be overruled there as well, and what is derived from a default is no better known.
    for name in ("engine.max_logprobs", "lora.enabled"):
        setting = plan.get(name)
        assert setting is not None and setting.value is None and why in (setting.unknown or ""), name


@pytest.mark.parametrize("option", ["+actor_rollout_ref.actor.use_kl_loss=False", "data.max_respons_length=4096"])
def test_keys_of_a_configuration_that_is_not_here(launches: Launches, option: str) -> None:
    (plan,) = launches({"run.sh": RUN.format(more=option)}, **VERL)
    assert len(plan.unknown) == 1
    (plan,) = launches({"run.sh": RUN.format(more=f"--config-name distill {option}")}, **VERL)
    assert not plan.unknown  # which keys it has nobody knows


@pytest.mark.parametrize("more", ["", '"$@"', "$1", "--config-name ppo_megatron_trainer", "trainer.nnodes=$NODES"])
def test_defaults_of_a_launch_that_was_read(launches: Launches, more: str) -> None:
    (plan,) = launches({"run.sh": RUN.format(more=more)}, **VERL)
    assert plan.value("lengths.response") == 512


def test_a_config_option_whose_file_is_not_here(launches: Launches) -> None:
    text = "trl grpo --config absent.yaml --max_prompt_length 512\n"
    (plan,) = launches({"run.sh": text}, trl="0.24.0", transformers="4.57.1")
    assert plan.value("lengths.prompt") == 512 and plan.value("batch.generations") is None
    assert any(note.unread and note.text == "absent.yaml: named here, not found" for note in plan.notes)


def test_a_model_that_nobody_names_is_unknown(launches: Launches) -> None:
    for text in (RUN.format(more=""), "trl grpo --use_vllm true --vllm_mode colocate\n", "vllm serve\n"):
        (plan,) = launches({"run.sh": text}, **VERL, trl="0.24.0")
        for name in ("model.path", "engine.model"):
            setting = plan.get(name)
            assert setting is None or (setting.value is None and setting.unknown == "the launch names no model"), text


def test_the_default_of_what_a_misspelled_key_was_meant_for(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN.format(more="data.max_respons_length=4096")}, **VERL)
    setting = plan.get("lengths.response")
    assert setting is not None and setting.value is None
    assert setting.unknown == "not set, and data.max_respons_length may have been meant for it"
    assert plan.value("lengths.truncation") == "error"
