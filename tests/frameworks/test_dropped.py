"""What is dropped from a launch, into a variable that nobody sets or a file that is not there, makes no new error: what
was not seen is unknown, and no default stands in for it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rldoctor.api import Severity
from rldoctor.registry import load
from tests.checks.launches import LaunchFile

LAUNCHES: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "verl": (
        "python3 -m verl.trainer.main_ppo",
        [
            "data.train_batch_size=256 actor_rollout_ref.actor.ppo_mini_batch_size=64",
            "data.max_prompt_length=1024 data.max_response_length=8192",
            "actor_rollout_ref.rollout.max_num_batched_tokens=16384",
            "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
            "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
            "actor_rollout_ref.rollout.n=8",
            "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384",
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
            "algorithm.adv_estimator=grpo trainer.n_gpus_per_node=8 trainer.nnodes=1",
        ],
        {"verl": "0.6.1", "vllm": "0.11.0", "torch": "2.8.0", "transformers": "4.56.2"},
    ),
    "trl": (
        "accelerate launch --num_processes 4 -m trl.scripts.grpo",
        [
            "--model_name_or_path Qwen/Qwen3-4B",
            "--use_vllm true --vllm_mode colocate",
            "--per_device_train_batch_size 8 --num_generations 8",
            "--gradient_accumulation_steps 4 --steps_per_generation 4",
            "--max_completion_length 2048",
            "--vllm_gpu_memory_utilization 0.3",
            "--bf16 true --gradient_checkpointing true",
        ],
        {"trl": "0.24.0", "vllm": "0.10.2", "torch": "2.8.0", "transformers": "4.56.2", "accelerate": "1.10.1"},
    ),
    "openrlhf": (
        "python3 -m openrlhf.cli.train_ppo_ray",
        [
            "--actor_num_nodes 1 --actor_num_gpus_per_node 4",
            "--ref_num_nodes 1 --ref_num_gpus_per_node 4 --colocate_all_models",
            "--vllm_num_engines 4 --vllm_tensor_parallel_size 1 --vllm_gpu_memory_utilization 0.5",
            "--vllm_enable_sleep --deepspeed_enable_sleep",
            "--pretrain Qwen/Qwen3-4B --prompt_max_len 1024 --generate_max_len 1024",
            "--train_batch_size 128 --micro_train_batch_size 8 --rollout_batch_size 128 --n_samples_per_prompt 8",
            "--advantage_estimator group_norm --zero_stage 3 --bf16",
        ],
        {"openrlhf": "0.8.5", "vllm": "0.9.1", "torch": "2.7.0", "transformers": "4.52.4"},
    ),
}
SEEDS = range(4)


def errors(folder: Path, command: str, options: list[str], versions: dict[str, str]) -> set[str]:
    """The codes of the errors that any check finds in a launch with these options."""
    folder.mkdir()
    file = LaunchFile(folder, f"{command} {' '.join(options)}\n", versions)
    judging = [check for check in load().checks.values() if check.detectors]
    found = [finding for check in judging for finding in file.findings(check)]
    return {finding.code for finding in found if finding.severity is Severity.ERROR}


@pytest.mark.parametrize("framework", LAUNCHES)
def test_what_is_dropped_makes_no_new_error(framework: str, tmp_path: Path) -> None:
    command, options, versions = LAUNCHES[framework]
    whole = errors(tmp_path / "whole", command, options, versions)
    for seed in SEEDS:
        chosen = random.Random(f"{framework} {seed}")
        kept = [option for option in options if chosen.random() < 0.6]
        lost = "$MORE" if seed % 2 else '"${MORE}"'
        found = errors(tmp_path / str(seed), command, [*kept, lost], versions)
        assert found <= whole, f"kept {kept}"
