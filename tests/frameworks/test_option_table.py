"""Facts that the shipped tables must hold, and what they answer beside what they hold."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rldoctor.case import Unknown
from rldoctor.frameworks import option_table
from rldoctor.frameworks.layouts import covered, file_of, layout_of
from rldoctor.frameworks.option_table import OptionTable
from rldoctor.tables.options import Computed


@pytest.mark.parametrize(
    ("framework", "group", "version", "name", "default"),
    [
        ("trl", "GRPOConfig", "0.19.1", "vllm_mode", "server"),
        ("trl", "GRPOConfig", "1.0.0", "vllm_mode", "colocate"),
        ("trl", "GRPOConfig", "0.15.2", "vllm_gpu_memory_utilization", 0.9),
        ("trl", "GRPOConfig", "0.14.0", "vllm_device", "auto"),
        ("trl", "vllm-serve", "0.19.1", "gpu_memory_utilization", 0.9),
        ("trl", "grpo", "0.19.1", "num_generations", 8),
        ("ms-swift", "rlhf", "3.6.4", "vllm_gpu_memory_utilization", 0.9),
        ("ms-swift", "rlhf", "3.6.4", "vllm_mode", "colocate"),
        ("ms-swift", "rlhf", "3.6.4", "num_generations", 8),
        ("ms-swift", "rollout", "3.6.4", "port", 8000),
        ("verl", None, "0.6.1", "actor_rollout_ref.rollout.gpu_memory_utilization", 0.5),
        ("verl", None, "0.6.1", "actor_rollout_ref.rollout.max_num_batched_tokens", 8192),
        ("verl", None, "0.2", "actor_rollout_ref.rollout.tensor_model_parallel_size", 2),
        ("verl", "dapo_trainer", "0.6.1", "reward_model.overlong_buffer.enable", False),
        ("easyr1", None, "0.3.0", "worker.rollout.enable_chunked_prefill", False),
        ("easyr1", None, "0.3.2", "worker.rollout.tensor_parallel_size", 2),
        ("openrlhf", None, "0.8.5", "vllm_gpu_memory_utilization", 0.95),
        ("openrlhf", None, "0.11.0", "vllm.gpu_memory_utilization", 0.95),
        ("nemo-rl", "grpo_math_1B", "0.3.1", "policy.generation.vllm_cfg.gpu_memory_utilization", 0.6),
        ("skyrl-train", None, "0.1.0", "generator.gpu_memory_utilization", 0.8),
        ("axolotl", None, "0.12.0", "trl.vllm_server_port", 8000),
        ("unsloth", None, "2025.9.11", "gpu_memory_utilization", 0.5),
        ("vllm", "LLM", "0.8.5", "gpu_memory_utilization", 0.9),
        ("vllm", "EngineArgs", "0.6.3", "num_scheduler_steps", 1),
        ("vllm", "serve", "0.10.0", "port", 8000),
        ("vllm", "SamplingParams", "0.10.0", "max_tokens", 16),
        ("transformers", None, "4.57.1", "per_device_train_batch_size", 8),
    ],
)
def test_defaults(framework: str, group: str | None, version: str, name: str, default: Any) -> None:
    assert OptionTable.load(framework).default(name, version, group) == default


@pytest.mark.parametrize(
    ("framework", "group", "version", "name", "known"),
    [
        ("verl", None, "0.6.1", "actor_rollout_ref.rollout.gpu_memory_utilization", True),
        ("verl", None, "0.6.1", "actor_rollout_ref.rollout.gpu_memory_utilisation", False),
        ("trl", "GRPOConfig", "0.17.0", "vllm_device", True),
        ("trl", "GRPOConfig", "0.18.0", "vllm_device", False),
        ("trl", "GRPOConfig", "0.27.2", "max_prompt_length", True),
        ("trl", "GRPOConfig", "0.28.0", "max_prompt_length", False),
        ("vllm", "LLM", "0.10.0", "num_scheduler_steps", True),
        ("vllm", "LLM", "0.10.2", "num_scheduler_steps", False),
        ("vllm", "serve", "0.9.2", "--use-v2-block-manager", True),
        ("vllm", "serve", "0.10.0", "--use-v2-block-manager", False),
        ("vllm", "serve", "0.6.3", "--no-enable-chunked-prefill", False),
        ("vllm", "serve", "0.9.0", "--no-enable-chunked-prefill", True),
        ("vllm", "serve", "0.9.0", "-tp", True),
        ("ms-swift", "rlhf", "3.6.4", "--use_vllm", True),
        ("ms-swift", "rlhf", "3.6.4", "--vllm_gpu_memory_utilisation", False),
        ("openrlhf", None, "0.8.5", "--vllm_num_engines", True),
        ("openrlhf", None, "0.11.0", "--vllm_num_engines", False),
        ("openrlhf", None, "0.11.0", "--vllm.num_engines", True),
        ("easyr1", None, "0.3.2", "worker.actor.ulysses_size", True),
        ("easyr1", None, "0.3.2", "worker.actor.ulysses_sequence_parallel_size", False),
    ],
)
def test_options_that_came_and_went(framework: str, group: str | None, version: str, name: str, known: bool) -> None:
    assert OptionTable.load(framework).known(name, version, group) is known


def test_the_misspelled_option_of_a_verl_run_is_put_right() -> None:
    wrong = "actor_rollout_ref.rollout.gpu_memory_utilisation"
    assert OptionTable.load("verl").nearest(wrong, "0.6.1") == ["actor_rollout_ref.rollout.gpu_memory_utilization"]


def test_when_options_came_and_went() -> None:
    trl = OptionTable.load("trl")
    assert trl.removed("vllm_mode") is None
    assert trl.removed("vllm_device") == "0.18.0"
    assert trl.removed("never_there") is None
    assert OptionTable.load("vllm").removed("num_scheduler_steps") == "0.10.1"


def test_the_releases_around_one_that_lacks_an_option() -> None:
    assert OptionTable.load("trl").around("vllm_mode", "0.17.0") == ("0.18.0", None)
    verl = OptionTable.load("verl")
    assert verl.around("actor_rollout_ref.actor.fsdp_config.grad_offload", "0.4.0") == (None, "0.3.0.post0")
    assert verl.around("never.there", "0.4.0") == (None, None)
    assert verl.around("trainer.nnodes", None) == (None, None)


def test_a_release_between_two_that_were_read() -> None:
    vllm = OptionTable.load("vllm")
    assert vllm.known("max_model_len", "0.9.0.2") is True
    assert vllm.known("no_such_option", "0.9.0.2") is False
    disputed = vllm.known("use_v2_block_manager", "0.10.0rc1")  # 0.9.2 has it, 0.10.0 has not
    assert isinstance(disputed, Unknown)
    changed = vllm.default("gpu_memory_utilization", "0.20.0.dev5")
    assert isinstance(changed, Unknown)
    assert "0.20.0" in changed.reason


def test_a_local_build_is_its_release() -> None:
    assert OptionTable.load("vllm").default("gpu_memory_utilization", "0.20.0+cu129") == 0.92


@pytest.mark.parametrize("version", ["0.5.0", "99.0", "not a version"])
def test_outside_the_table_nothing_is_claimed(version: str) -> None:
    vllm = OptionTable.load("vllm")
    for answer in (vllm.known("max_model_len", version), vllm.known("zzz", version), vllm.default("seed", version)):
        assert isinstance(answer, Unknown)


def test_without_a_version_all_releases_count() -> None:
    vllm = OptionTable.load("vllm")
    assert vllm.known("max_model_len", None) is True
    assert vllm.known("max_model_length", None) is False
    assert isinstance(vllm.known("num_scheduler_steps", None), Unknown)


def test_a_command_that_a_release_does_not_have() -> None:
    trl = OptionTable.load("trl")
    assert trl.has_group("vllm-serve", "0.15.2") is False
    assert trl.has_group("vllm-serve", "0.16.0") is True
    assert isinstance(trl.known("model", "0.15.2", "vllm-serve"), Unknown)
    assert trl.known("zzz", "0.16.0", "grpo") is False  # a later addition to the command is no gap


def test_options_of_an_inherited_framework_follow_its_version() -> None:
    open_r1 = OptionTable.load("open-r1").at("0.1.0.dev0", "grpo", {"trl": "0.18.0", "transformers": "4.52.3"})
    assert open_r1.default("vllm_mode") == "server"
    assert open_r1.known("vllm_modus") is False
    new = OptionTable.load("trl").at("0.24.0", "GRPOConfig", {"transformers": "5.0.0"})
    old = OptionTable.load("trl").at("0.24.0", "GRPOConfig", {"transformers": "4.57.1"})
    assert (old.known("fp16_backend"), new.known("fp16_backend")) == (True, False)
    assert isinstance(OptionTable.load("trl").at("0.24.0").known("fp16_backend"), Unknown)


@pytest.mark.parametrize("framework", covered())
def test_every_table_is_whole_and_small(framework: str) -> None:
    table = OptionTable.load(framework)
    assert table.generated >= "2026-11-20"
    assert file_of(framework).stat().st_size < 320 * 1024
    for group in layout_of(framework).groups:
        for version in (table.versions[0], table.versions[-1], None):
            options = table.at(version, group)
            for name, option in options.items():
                assert option.name == name
                assert option.alias is None or option.alias in options
                assert isinstance(option.default, Computed) or option.default == option.default  # no NaN


def test_all_tables_together_stay_small() -> None:
    assert sum(file_of(name).stat().st_size for name in covered()) < 1.5 * 1024 * 1024


@pytest.mark.parametrize(("framework", "version"), [("verl", "0.6.1"), ("vllm", "0.10.0"), ("ms-swift", "3.6.4")])
def test_one_framework_at_one_version_is_read_in_ten_milliseconds(framework: str, version: str) -> None:
    spent = []
    for _ in range(5):
        option_table._load.cache_clear()
        start = time.process_time()
        OptionTable.load(framework).at(version)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.010


def test_a_framework_without_a_table() -> None:
    with pytest.raises(KeyError, match="no option table for nobody"):
        OptionTable.load("nobody")


def test_what_a_command_includes_came_and_went_with_the_release_of_its_class() -> None:
    trl = OptionTable.load("trl")
    assert trl.around("max_prompt_length", "1.5.0", "grpo") == (None, "0.28.0")
    assert trl.removed("max_prompt_length", "grpo") == trl.removed("max_prompt_length", "GRPOConfig")
