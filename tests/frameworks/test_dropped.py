"""What is dropped from a launch, into a variable that nobody sets or a file that is not there, makes no new error: what
was not seen is unknown, and no default stands in for it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rldoctor.api import Severity
from rldoctor.errors import InputError
from tests.checks.launches import LaunchFile
from tests.loaded import REGISTRY

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
    "ms-swift": (
        "NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo",
        [
            "--model Qwen/Qwen3-4B",
            "--use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.4",
            "--vllm_max_model_len 10240 --vllm_tensor_parallel_size 2",
            "--max_length 2048 --max_completion_length 8192",
            "--per_device_train_batch_size 8 --gradient_accumulation_steps 4",
            "--num_generations 16",
            "--sleep_level 1 --offload_optimizer true --offload_model true",
            "--deepspeed zero3 --torch_dtype bfloat16",
        ],
        {"ms-swift": "3.8.1", "vllm": "0.10.2", "torch": "2.8.0", "transformers": "4.56.2"},
    ),
    "slime": (
        "ray job submit --address=http://127.0.0.1:8265 -- python3 train.py --actor-num-nodes 1",
        [
            "--actor-num-gpus-per-node 8 --colocate",
            "--hf-checkpoint /opt/Qwen3-4B",
            "--rollout-batch-size 32 --n-samples-per-prompt 8 --global-batch-size 256",
            "--rollout-max-response-len 8192",
            "--rollout-num-gpus-per-engine 2 --sglang-mem-fraction-static 0.7",
            "--tensor-model-parallel-size 2 --use-dynamic-batch-size --max-tokens-per-gpu 9216",
            "--advantage-estimator grpo --use-kl-loss",
        ],
        {"slime": "0.3.1", "torch": "2.8.0", "transformers": "4.56.2"},
    ),
    "prime-rl": (
        "uv run python -m prime_rl.entrypoints.rl",
        [
            "--model.name Qwen/Qwen3-4B",
            "--deployment.num-train-gpus 2 --deployment.num-infer-gpus 6",
            "--orchestrator.batch-size 512",
            "--orchestrator.group-size 16",
            "--seq-len 8192",
            "--inference.parallel.tp 2 --inference.gpu-memory-utilization 0.9",
            "--inference.model.max-model-len 8192",
        ],
        {"prime-rl": "0.6.0", "vllm": "0.15.0", "torch": "2.9.0", "transformers": "4.57.1"},
    ),
}
SEEDS = range(3)
# Launches of several files, any of which may be elsewhere.
FOLDERS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "verl": (
        {
            "run.sh": "source common.sh\nsource lengths.sh\nbash inner.sh\n",
            "common.sh": "export TP=2 GPUS=8\nexport MODEL=Qwen/Qwen3-4B\n",
            "lengths.sh": "export PROMPT=1024 RESPONSE=7168 LENGTH=8192\n",
            "inner.sh": "python3 -m verl.trainer.main_ppo data.train_batch_size=256 data.max_prompt_length=$PROMPT "
            "data.max_response_length=$RESPONSE actor_rollout_ref.rollout.max_model_len=$LENGTH "
            "actor_rollout_ref.rollout.max_num_batched_tokens=$LENGTH actor_rollout_ref.model.path=$MODEL "
            "actor_rollout_ref.rollout.tensor_model_parallel_size=$TP trainer.n_gpus_per_node=$GPUS "
            'actor_rollout_ref.rollout.n=8 algorithm.adv_estimator=grpo "${MORE[@]}"\n',
        },
        {"verl": "0.6.1", "vllm": "0.11.0", "torch": "2.8.0", "transformers": "4.56.2"},
    ),
    "AReaL": (
        {
            "run.sh": "python3 train.py --config grpo.yaml sglang.context_length=16384\n",
            "grpo.yaml": "rollout: {backend: 'sglang:d4t2', max_head_offpolicyness: 2}\n"
            "actor: {backend: 'fsdp:d8', path: Qwen/Qwen3-4B}\ngconfig: {n_samples: 8, max_new_tokens: 8192}\n"
            "train_dataset: {batch_size: 64, max_length: 1024}\n",
            "train.py": "from areal.api.cli_args import GRPOConfig, load_expr_config\n"
            "load_expr_config(args, GRPOConfig)\n",
        },
        {"areal": "1.0.4", "vllm": "0.11.0", "torch": "2.8.0", "transformers": "4.56.2"},
    ),
}


def errors(folder: Path, text: str, versions: dict[str, str], beside: dict[str, str] | None = None) -> set[str]:
    """The codes of the errors that any check finds in a launch of this text, with files beside it."""
    folder.mkdir()
    for name, content in (beside or {}).items():
        (folder / name).write_text(content)
    file = LaunchFile(folder, text, versions)
    try:
        assert file.cases() or beside
    except InputError as refused:  # the script that holds the launch is gone, and named
        assert beside and "not found here" in str(refused)
        return set()
    judging = [check for check in REGISTRY.checks.values() if check.detectors]
    found = [finding for check in judging for finding in file.findings(check)]
    return {finding.code for finding in found if finding.severity is Severity.ERROR}


@pytest.mark.parametrize("framework", LAUNCHES)
def test_what_is_dropped_makes_no_new_error(framework: str, tmp_path: Path) -> None:
    command, options, versions = LAUNCHES[framework]
    whole = errors(tmp_path / "whole", f"{command} {' '.join(options)}\n", versions)
    for seed in SEEDS:
        chosen = random.Random(f"{framework} {seed}")
        kept = [option for option in options if chosen.random() < 0.6]
        lost = "$MORE" if seed % 2 else '"${MORE}"'
        found = errors(tmp_path / str(seed), f"{command} {' '.join([*kept, lost])}\n", versions)
        assert found <= whole, f"kept {kept}"


@pytest.mark.parametrize("framework", FOLDERS)
def test_files_that_are_elsewhere_make_no_new_error(framework: str, tmp_path: Path) -> None:
    files, versions = FOLDERS[framework]
    beside = {name: text for name, text in files.items() if name != "run.sh"}
    whole = errors(tmp_path / "whole", files["run.sh"], versions, beside)
    for gone in beside:
        kept = {name: text for name, text in beside.items() if name != gone}
        assert errors(tmp_path / f"without {gone}", files["run.sh"], versions, kept) <= whole, f"without {gone}"


UNKNOWN_VALUES = {
    "ms-swift": (
        "NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-4B --use_vllm true --vllm_mode server "
        "--vllm_server_host $HOST --per_device_train_batch_size 8 --num_generations 8\n"
    ),
    "slime, an option": (
        "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate --hf-checkpoint /opt/Qwen3-4B "
        "--rollout-batch-size 32 $MORE --global-batch-size 128\n"
    ),
    "openrlhf, the estimator": (
        "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 "
        "--pretrain Qwen/Qwen3-4B --n_samples_per_prompt 1 --rollout_batch_size 128 --train_batch_size 128 $MORE\n"
    ),
    "slime": (
        "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate --hf-checkpoint /opt/Qwen3-4B "
        "--rollout-batch-size 16 --n-samples-per-prompt $SAMPLES --global-batch-size 128\n"
    ),
    "openrlhf, the size of an engine": (
        "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 --colocate_all_models "
        "--vllm_num_engines 4 --pretrain Qwen/Qwen3-4B $MORE\n"
    ),
    "skyrl, a switch": (
        "python3 -m skyrl_train.entrypoints.main_base trainer.placement.policy_num_gpus_per_node=8 "
        "generator.async_engine=false $MORE\n"
    ),
    "verl": (
        "python3 -m verl.trainer.main_ppo data.train_files=a.parquet data.train_batch_size=128 "
        "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.use_kl_loss=True "
        "actor_rollout_ref.actor.ppo_micro_batch_size=16 "
        "actor_rollout_ref.rollout.log_prob_micro_batch_size=16 "
        "actor_rollout_ref.ref.log_prob_micro_batch_size=$MICRO algorithm.adv_estimator=grpo\n"
    ),
}


RELEASES = {name: versions for name, (_, _, versions) in LAUNCHES.items()}
RELEASES["skyrl"] = {"skyrl-train": "0.4.0", "vllm": "0.13.0"}


@pytest.mark.parametrize("framework", UNKNOWN_VALUES)
def test_a_value_that_is_not_known_is_not_a_missing_one(framework: str, tmp_path: Path) -> None:
    assert errors(tmp_path / "launch", UNKNOWN_VALUES[framework], RELEASES[framework.partition(",")[0]]) == set()


def test_what_a_file_says_is_no_error_where_the_command_line_may_overrule_it(tmp_path: Path) -> None:
    prompts = "grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4}\npolicy: {train_global_batch_size: 512}\n"
    run = "uv run examples/run_grpo.py --config grpo.yaml{more}\n"
    versions = {"nemo-rl": "0.7.0", "vllm": "0.20.0"}
    assert "RLD211" in errors(tmp_path / "whole", run.format(more=""), versions, {"grpo.yaml": prompts})
    assert errors(tmp_path / "open", run.format(more=" $MORE"), versions, {"grpo.yaml": prompts}) == set()
    said = run.format(more=" policy.train_global_batch_size=512 grpo.num_prompts_per_step=2 $MORE")
    assert "RLD211" not in errors(tmp_path / "said", said, versions, {"grpo.yaml": prompts})


def test_ranks_of_a_model_that_may_be_given_in_what_was_dropped(tmp_path: Path) -> None:
    command = (
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm "
        "actor_rollout_ref.actor.strategy=megatron data.train_batch_size=3 "
        "actor_rollout_ref.actor.ppo_mini_batch_size=3 actor_rollout_ref.rollout.n=8 "
        "actor_rollout_ref.actor.use_dynamic_bsz=False trainer.n_gpus_per_node=8 trainer.nnodes=6 "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 {more}\n"
    )
    versions = {"verl": "0.6.1", "vllm": "0.11.0"}
    assert "RLD211" in errors(tmp_path / "whole", command.format(more=""), versions)
    assert "RLD211" not in errors(tmp_path / "open", command.format(more="$MORE"), versions)


def test_a_batch_that_may_be_given_in_what_was_dropped(tmp_path: Path) -> None:
    command = (
        "NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-4B --micro_batch_size 2 "
        "--tensor_model_parallel_size 4 --pipeline_model_parallel_size 2 --steps_per_generation 2 --num_generations 8 "
        "{more}\n"
    )
    versions = {"ms-swift": "4.5.2", "vllm": "0.20.0"}
    for more in ("$MORE", "--global_batch_size 64 $MORE"):
        assert "RLD211" not in errors(tmp_path / str(len(more)), command.format(more=more), versions)


def test_devices_of_which_engines_may_have_some(tmp_path: Path) -> None:
    config = (
        "cluster: {{num_nodes: 20, gpus_per_node: 8}}\n"
        "grpo: {{num_prompts_per_step: 256, num_generations_per_prompt: 16, async_grpo: {{enabled: true}}}}\n"
        "policy:\n  train_global_batch_size: 4096\n  dtensor_cfg: {{enabled: false}}\n"
        "  megatron_cfg: {{enabled: true, tensor_model_parallel_size: 8, context_parallel_size: 4}}\n"
        "  generation: {{colocated: {{enabled: false, resources: {{num_nodes: {nodes}, gpus_per_node: 8}}}}}}\n"
    )
    versions = {"nemo-rl": "0.7.0", "vllm": "0.20.0"}
    run = "uv run examples/run_grpo.py --config grpo.yaml\n"
    assert "RLD211" in errors(tmp_path / "ten", run, versions, {"grpo.yaml": config.format(nodes=8)})
    assert "RLD211" not in errors(tmp_path / "twelve", run, versions, {"grpo.yaml": config.format(nodes=12)})
    hidden = config.format(nodes='"${oc.env:NODES}"')
    assert "RLD211" not in errors(tmp_path / "hidden", run, versions, {"grpo.yaml": hidden})
