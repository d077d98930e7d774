"""Suggestions for misspelled and misplaced names."""

from __future__ import annotations

import pytest

from rldoctor.tables.options.nearest import nearest_names

NAMES = [
    "actor_rollout_ref.rollout._target_",
    "actor_rollout_ref.rollout.gpu_memory_utilization",
    "actor_rollout_ref.rollout.tensor_model_parallel_size",
    "actor_rollout_ref.rollout.enable_chunked_prefill",
    "actor_rollout_ref.rollout.n",
    "data.max_prompt_length",
    "data.max_response_length",
    "trainer.n_gpus_per_node",
]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("actor_rollout_ref.rollout.gpu_memory_utilisation", "actor_rollout_ref.rollout.gpu_memory_utilization"),
        ("actor_rollout_ref.rollout.tensor_parallel_size", "actor_rollout_ref.rollout.tensor_model_parallel_size"),
        ("actor_rollout_ref.rollout.chunked_prefill_enable", "actor_rollout_ref.rollout.enable_chunked_prefill"),
        ("rollout.enable_chunked_prefill", "actor_rollout_ref.rollout.enable_chunked_prefill"),
        ("worker.rollout.n", "actor_rollout_ref.rollout.n"),
        ("data.max_promt_length", "data.max_prompt_length"),
        ("trainer.n_gpu_per_node", "trainer.n_gpus_per_node"),
    ],
)
def test_the_first_suggestion_is_the_option_that_was_meant(asked: str, meant: str) -> None:
    assert nearest_names(asked, NAMES, 3)[0] == meant


def test_nothing_is_suggested_where_nothing_is_close() -> None:
    # The long section in common makes no likeness.
    assert nearest_names("actor_rollout_ref.rollout.foo_bar", NAMES, 3) == []
    assert nearest_names("use_vllm", NAMES, 3) == []
    # What many sections have is meant of none that shares nothing.
    switches = ["reward.reward_model.enable", "actor_rollout_ref.rollout.multi_turn.enable"]
    assert nearest_names("data.continuous_token.enable", switches, 3) == []
    assert nearest_names("rollout.multi_turn.enable", switches, 3) == switches[1:]


def test_no_more_are_given_than_asked_for() -> None:
    assert nearest_names("data.max_length", NAMES, 1) == ["data.max_prompt_length"]
