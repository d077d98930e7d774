"""RLD211: every row of both tables fires on a launch file and stays quiet on its nearest neighbour."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from rldoctor_checks.rollout.batch_divisibility.floors import FLOORS, Floor
from rldoctor_checks.rollout.batch_divisibility.rules import RULES, Rule

from rldoctor.api import Case, installed_within
from tests.checks.launches import LaunchFile


@dataclass(frozen=True)
class Launch:
    """A launch that breaks a row's condition in one release, and the change that mends it."""

    package: str
    version: str
    text: str
    change: tuple[str, str]


TRL = (
    "trl grpo --num_processes 1 --model_name_or_path Qwen/Qwen2.5-7B --dataset_name d --use_vllm true "
    "--vllm_mode colocate "
)
SWIFT = (
    "NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B-Instruct --use_vllm true "
    "--vllm_mode colocate "
)
VERL = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B "
    "actor_rollout_ref.rollout.name=vllm "
    "algorithm.adv_estimator=remax trainer.n_gpus_per_node=8 trainer.nnodes=1 actor_rollout_ref.rollout.n=1 "
)
EASYR1 = (
    "python3 -m verl.trainer.main worker.actor.model.model_path=Qwen/Qwen2.5-VL-7B trainer.n_gpus_per_node=8 "
    "algorithm.adv_estimator=grpo worker.rollout.n=4 worker.actor.micro_batch_size_per_device_for_update=1 "
)
OPENRLHF = (
    "python3 -m openrlhf.cli.train_ppo_ray --pretrain Qwen/Qwen2.5-7B --actor_num_nodes 1 --actor_num_gpus_per_node 8 "
)
NEMO = "uv run examples/run_grpo_math.py cluster.gpus_per_node=8 cluster.num_nodes=1 "
PRIME = "uv run python -m prime_rl.entrypoints.rl --model.name Qwen/Qwen2.5-1.5B "
AREAL = "python3 -m areal.launcher.local train.py --config x allocation_mode=sglang:d4+d4 actor.path=Qwen/Qwen2.5-1.5B "
# What starts it reads this file.
ROLL = (
    "pretrain: Qwen/Qwen2.5-7B\nrollout_batch_size: 64\nnum_return_sequences_in_group: 1\nadv_estimator: grpo\n"
    "actor_infer:\n  strategy_args:\n    strategy_name: vllm\n"
)
AGENTIC = """pretrain: Qwen/Qwen2.5-7B
rollout_batch_size: 64
val_batch_size: 64
actor_infer: {strategy_args: {strategy_name: vllm}}
reward_normalization: {grouping: traj_group_id, method: mean}
train_env_manager: {num_env_groups: 2, group_size: 4}
val_env_manager: {num_env_groups: 8, group_size: 1}
"""
SLIME = (
    "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate --hf-checkpoint Qwen/Qwen3-4B "
    "--rollout-num-gpus-per-engine 2 --advantage-estimator grpo --rollout-max-response-len 1024 "
)
SKYRL = (
    "python -m skyrl_train.entrypoints.main_base trainer.policy.model.path=Qwen/Qwen2.5-1.5B "
    "trainer.placement.policy_num_gpus_per_node=8 trainer.placement.policy_num_nodes=1 "
    "generator.n_samples_per_prompt=1 trainer.algorithm.advantage_estimator='reinforce++' "
)

CRITIC = (
    "trainer.critic.model.path=Qwen/Qwen2.5-1.5B trainer.algorithm.advantage_estimator=gae "
    "trainer.placement.policy_num_gpus_per_node=8 trainer.placement.critic_num_gpus_per_node=8 "
    "trainer.placement.policy_num_nodes=1 trainer.placement.critic_num_nodes=1 generator.n_samples_per_prompt=1 "
    "trainer.train_batch_size=256 trainer.policy_mini_batch_size=256"
)

LAUNCHES = [
    # TRL: completions of a step, of a generation, of an evaluation step; groups of one.
    Launch("trl", "0.16.0", TRL + "--per_device_train_batch_size 4 --num_generations 8", ("size 4", "size 8")),
    Launch(
        "trl",
        "0.18.0",
        TRL + "--per_device_train_batch_size 4 --gradient_accumulation_steps 1 --num_generations 8",
        ("size 4", "size 8"),
    ),
    Launch(
        "trl",
        "0.19.1",
        TRL + "--per_device_train_batch_size 4 --generation_batch_size 6 --num_generations 2",
        ("batch_size 6", "batch_size 8"),
    ),
    Launch(
        "trl",
        "0.22.0",
        TRL
        + "--per_device_train_batch_size 8 --num_generations 8 --per_device_eval_batch_size 4 --eval_strategy steps",
        ("eval_batch_size 4", "eval_batch_size 8"),
    ),
    Launch(
        "trl", "0.22.0", TRL + "--per_device_train_batch_size 8 --num_generations 1", ("generations 1", "generations 2")
    ),
    # ms-swift
    Launch("ms-swift", "3.4.0", SWIFT + "--per_device_train_batch_size 3 --num_generations 8", ("size 3", "size 4")),
    Launch(
        "ms-swift",
        "3.6.0",
        SWIFT + "--gradient_accumulation_steps 1 --per_device_train_batch_size 3 --num_generations 8",
        ("size 3", "size 4"),
    ),
    Launch(
        "ms-swift",
        "3.8.0",
        SWIFT + "--per_device_train_batch_size 3 --generation_batch_size 16 --num_generations 4",
        ("train_batch_size 3", "train_batch_size 4"),
    ),
    Launch(
        "ms-swift",
        "3.8.0",
        SWIFT + "--per_device_train_batch_size 4 --num_generations 1",
        ("generations 1", "generations 4"),
    ),
    # verl
    Launch(
        "verl",
        "0.4.1",
        VERL + "data.train_batch_size=12 actor_rollout_ref.actor.ppo_mini_batch_size=12",
        ("train_batch_size=12", "train_batch_size=16"),
    ),
    Launch(
        "verl",
        "0.6.1",
        VERL + "data.train_batch_size=12 actor_rollout_ref.actor.ppo_mini_batch_size=8",
        ("train_batch_size=12", "train_batch_size=16"),
    ),
    Launch(
        "verl",
        "0.6.1",
        VERL + "data.train_batch_size=32 actor_rollout_ref.actor.ppo_mini_batch_size=32 "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=3",
        ("gpu=3", "gpu=4"),
    ),
    Launch(
        "verl",
        "0.6.1",
        VERL + "data.train_batch_size=32 actor_rollout_ref.actor.ppo_mini_batch_size=64",
        ("batch_size=64", "batch_size=32"),
    ),
    Launch(
        "verl",
        "0.6.1",
        VERL + "data.train_batch_size=32 actor_rollout_ref.actor.ppo_mini_batch_size=4",
        ("batch_size=4", "batch_size=8"),
    ),
    Launch(
        "verl",
        "0.6.1",
        VERL + "data.train_batch_size=32 actor_rollout_ref.actor.ppo_mini_batch_size=32 data.max_prompt_length=512 "
        "data.max_response_length=1024 actor_rollout_ref.actor.use_dynamic_bsz=True "
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=1024",
        ("per_gpu=1024", "per_gpu=4096"),
    ),
    *(
        Launch(
            "verl",
            "0.6.1",
            VERL.replace("remax", "gae") + "data.max_prompt_length=512 data.max_response_length=1024 "
            "data.train_batch_size=32 actor_rollout_ref.actor.ppo_mini_batch_size=32 "
            f"actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.use_kl_loss=True {limit}=1024",
            (f"{limit}=1024", f"{limit}=4096"),
        )
        for limit in (
            "critic.ppo_max_token_len_per_gpu",
            "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
        )
    ),
    *(
        Launch(
            "verl",
            version,
            VERL + "data.train_batch_size=12 actor_rollout_ref.actor.ppo_mini_batch_size=12 "
            "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384",
            ("train_batch_size=12", "train_batch_size=16"),
        )
        for version in ("0.6.1", "0.7.0")
    ),
    # EasyR1
    Launch(
        "easyr1",
        "0.3.2",
        EASYR1 + "data.rollout_batch_size=96 worker.actor.global_batch_size=64",
        ("rollout_batch_size=96", "rollout_batch_size=128"),
    ),
    Launch(
        "easyr1",
        "0.3.2",
        EASYR1 + "data.rollout_batch_size=12 worker.actor.global_batch_size=12",
        ("rollout_batch_size=12", "rollout_batch_size=24"),
    ),
    Launch(
        "easyr1",
        "0.3.2",
        EASYR1 + "data.rollout_batch_size=8 worker.actor.global_batch_size=8 "
        "worker.actor.micro_batch_size_per_device_for_experience=12",
        ("experience=12", "experience=8"),
    ),
    Launch(
        "easyr1",
        "0.3.2",
        EASYR1 + "data.rollout_batch_size=64 worker.actor.global_batch_size=16 "
        "worker.actor.micro_batch_size_per_device_for_update=3",
        ("update=3", "update=4"),
    ),
    Launch(
        "easyr1",
        "0.3.2",
        EASYR1 + "data.rollout_batch_size=8 worker.rollout.n=2 worker.actor.global_batch_size=2",
        ("global_batch_size=2", "global_batch_size=8"),
    ),
    Launch("easyr1", "0.3.2", EASYR1 + "worker.rollout.n=1", ("n=1", "n=2")),
    # OpenRLHF
    Launch("openrlhf", "0.6.0", OPENRLHF + "--rollout_batch_size 100", ("size 100", "size 104")),
    Launch("openrlhf", "0.5.6", OPENRLHF + "--vllm_num_engines 3", ("engines 3", "engines 4")),
    Launch("openrlhf", "0.6.0", OPENRLHF + "--vllm_num_engines 12", ("engines 12", "engines 16")),
    Launch(
        "openrlhf",
        "0.8.0",
        OPENRLHF + "--train_batch_size 100 --micro_train_batch_size 4",
        ("batch_size 100", "batch_size 96"),
    ),
    Launch(
        "openrlhf",
        "0.8.0",
        OPENRLHF + "--rollout_batch_size 8 --n_samples_per_prompt 4 --micro_rollout_batch_size 8",
        ("micro_rollout_batch_size 8", "micro_rollout_batch_size 4"),
    ),
    Launch(
        "openrlhf", "0.8.0", OPENRLHF + "--advantage_estimator rloo --n_samples_per_prompt 1", ("prompt 1", "prompt 4")
    ),
    # NeMo-RL
    Launch(
        "nemo-rl",
        "0.4.0",
        NEMO + "grpo.num_prompts_per_step=32 grpo.num_generations_per_prompt=16 policy.train_global_batch_size=500",
        ("size=500", "size=512"),
    ),
    Launch(
        "nemo-rl",
        "0.4.0",
        NEMO + "grpo.num_prompts_per_step=3 grpo.num_generations_per_prompt=4 policy.train_global_batch_size=12",
        (
            "step=3 grpo.num_generations_per_prompt=4 policy.train_global_batch_size=12",
            "step=4 grpo.num_generations_per_prompt=4 policy.train_global_batch_size=16",
        ),
    ),
    # SkyRL, under both names of its package
    *(
        launch
        for package, version in (("skyrl-train", "0.4.0"), ("skyrl", "0.2.0"))
        for launch in (
            Launch(
                package,
                version,
                SKYRL + "trainer.train_batch_size=100 trainer.policy_mini_batch_size=64",
                ("batch_size=100", "batch_size=128"),
            ),
            Launch(
                package,
                version,
                SKYRL + "trainer.train_batch_size=32 trainer.policy_mini_batch_size=32 "
                "trainer.micro_train_batch_size_per_gpu=3",
                ("gpu=3", "gpu=4"),
            ),
            Launch(
                package,
                version,
                SKYRL + "trainer.train_batch_size=32 trainer.policy_mini_batch_size=4",
                ("mini_batch_size=4", "mini_batch_size=8"),
            ),
            Launch(
                package,
                version,
                SKYRL.replace("'reinforce++'", "grpo") + "trainer.train_batch_size=32 trainer.policy_mini_batch_size=8",
                ("samples_per_prompt=1", "samples_per_prompt=8"),
            ),
        )
    ),
    # Runs that learn from the differences within a group.
    Launch(
        "prime-rl",
        "0.5.0",
        PRIME + "--orchestrator.batch-size 500 --orchestrator.rollouts-per-example 8",
        ("size 500", "size 512"),
    ),
    Launch(
        "prime-rl",
        "0.5.0",
        PRIME + "--orchestrator.batch-size 512 --orchestrator.rollouts-per-example 1",
        ("example 1", "example 8"),
    ),
    Launch("slime", "0.2.3", SLIME + "--rollout-batch-size 32 --n-samples-per-prompt 1", ("prompt 1", "prompt 8")),
    Launch(
        "slime",
        "0.3.1",
        SLIME + "--rollout-batch-size 15 --n-samples-per-prompt 8 --global-batch-size 128",
        ("size 15", "size 16"),
    ),
    Launch(
        "slime",
        "0.2.4",
        SLIME + "--rollout-batch-size 40 --n-samples-per-prompt 8 --global-batch-size 256",
        ("size 40", "size 64"),
    ),
    Launch("roll", "0.3.0", ROLL, ("estimator: grpo", "estimator: reinforce")),
    Launch(
        "roll",
        "0.2.1",
        ROLL.replace("in_group: 1", "in_group: 8")
        + "actor_train:\n  device_mapping: list(range(0,16))\n  training_args:\n"
        "    per_device_train_batch_size: 1\n    gradient_accumulation_steps: 24\n",
        ("steps: 24", "steps: 32"),
    ),
    *(
        Launch(
            "verl",
            "0.8.0",
            VERL + "data.train_batch_size=1024 actor_rollout_ref.actor.use_dynamic_bsz=True "
            f"actor_rollout_ref.actor.ppo_mini_batch_size={mini}",
            (f"mini_batch_size={mini}", "mini_batch_size=256"),
        )
        for mini in (384, 2048)
    ),
    Launch(
        "verl",
        "0.9.0",
        VERL + "data.train_batch_size=96 actor_rollout_ref.actor.use_dynamic_bsz=True "
        "actor_rollout_ref.actor.ppo_mini_batch_size=12",
        ("mini_batch_size=12", "mini_batch_size=24"),
    ),
    Launch(
        "areal",
        "0.4.0",
        AREAL.replace("+d4", "+d7") + "train_dataset.batch_size=32",
        ("batch_size=32", "batch_size=28"),
    ),
    Launch("roll", "0.2.1", AGENTIC.replace("size: 4", "size: 3"), ("size: 3", "size: 4")),
    Launch("roll", "0.2.1", AGENTIC.replace("groups: 8", "groups: 3"), ("groups: 3", "groups: 8")),
    Launch("roll", "0.2.1", AGENTIC.replace("size: 4", "size: 1"), ("method: mean", "method: identity")),
    Launch("roll", "0.1.3", AGENTIC.replace("groups: 2", "groups: 0"), ("groups: 0", "groups: 2")),
    Launch("roll", "0.1.3", AGENTIC.replace("groups: 8", "groups: 0"), ("groups: 0", "groups: 8")),
    Launch("areal", "1.0.4", AREAL + "actor.reward_norm.mean_level=group gconfig.n_samples=1", ("es=1", "es=8")),
    Launch(
        "verl",
        "0.7.1",
        VERL.replace("remax", "grpo") + "data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64",
        ("rollout.n=1", "rollout.n=8"),
    ),
    # The value model's mini and micro batches.
    Launch(
        "easyr1",
        "0.3.2",
        EASYR1.replace("grpo", "gae") + "data.rollout_batch_size=512 worker.critic.global_batch_size=192 "
        "worker.actor.global_batch_size=128",
        ("critic.global_batch_size=192", "critic.global_batch_size=256"),
    ),
    *(
        Launch(
            package,
            version,
            entry + f"trainer.policy.model.path=Qwen/Qwen2.5-1.5B {CRITIC} trainer.critic_mini_batch_size={mini} "
            f"trainer.micro_train_batch_size_per_gpu={micro}",
            change,
        )
        for package, version, entry in (
            ("skyrl-train", "0.4.0", "python -m skyrl_train.entrypoints.main_base "),
            ("skyrl", "0.3.0", "python -m skyrl.train.entrypoints.main_base "),
        )
        for mini, micro, change in (
            (192, 1, ("critic_mini_batch_size=192", "critic_mini_batch_size=256")),
            (32, 8, ("critic_mini_batch_size=32", "critic_mini_batch_size=64")),
        )
    ),
    Launch(
        "verl",
        "0.6.1",
        VERL.replace("remax", "gae") + "data.train_batch_size=1024 actor_rollout_ref.actor.ppo_mini_batch_size=256 "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 critic.ppo_micro_batch_size_per_gpu=24",
        ("critic.ppo_micro_batch_size_per_gpu=24", "critic.ppo_micro_batch_size_per_gpu=32"),
    ),
]


def broken(folder: Path, launch: Launch, text: str) -> set[Rule | Floor]:
    """The rows whose condition the launch file breaks."""
    name = "rlvr.yaml" if launch.package == "roll" else "run.sh"
    file = LaunchFile(folder, text, {launch.package: launch.version}, gpus=8, name=name)
    (case,) = file.cases()
    return {row for row in (*RULES, *FLOORS) if _breaks(row, case)}


def _breaks(row: Rule | Floor, case: Case) -> bool:
    assert case.plan is not None
    if case.plan.framework not in row.frameworks or not installed_within(case, row.package, row.versions):
        return False
    if isinstance(row, Rule):
        dividend, divisor = row.dividend(case.plan), row.divisor(case.plan)
        return dividend is not None and divisor is not None and dividend[0] % divisor[0] != 0
    number, least = row.number(case.plan), row.least(case.plan)
    return number is not None and least is not None and number < least


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: f"{launch.package}-{launch.version}-{launch.change[0]}")
def test_fires_and_stays_quiet(launch: Launch, tmp_path: Path) -> None:
    assert launch.change[0] in launch.text
    assert broken(tmp_path, launch, launch.text)
    assert broken(tmp_path, launch, launch.text.replace(*launch.change)) == set()


def test_every_row_is_among_them(tmp_path: Path) -> None:
    shown = {row for launch in LAUNCHES for row in broken(tmp_path, launch, launch.text)}
    assert [row for row in (*RULES, *FLOORS) if row not in shown] == []


@pytest.mark.parametrize("own", ["--custom-generate-function-path fan.out", "--rollout-function-path fully_async.run"])
def test_a_launchs_own_rollouts_may_draw_more(own: str, tmp_path: Path) -> None:
    text = SLIME + f"--rollout-batch-size 8 --n-samples-per-prompt 8 --global-batch-size 128 {own}"
    assert broken(tmp_path, Launch("slime", "0.3.1", text, ("", "")), text) == set()


@pytest.mark.parametrize("kind", ["rae", "opsd", "sft", "grpo"])
def test_only_algorithms_that_compare_need_groups(kind: str, tmp_path: Path) -> None:
    text = PRIME + f"--orchestrator.batch-size 32 --orchestrator.group-size 1 --orchestrator.algo.type {kind}"
    assert bool(broken(tmp_path, Launch("prime-rl", "0.8.0", text, ("", "")), text)) == (kind == "grpo")


@pytest.mark.parametrize("line", ["group_size = 8", "", 'algo = { type = "rae" }'])
def test_each_source_may_have_a_group_size_of_its_own(line: str, tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text(
        f'[orchestrator]\nbatch_size = 32\ngroup_size = 1\n[[orchestrator.train.source]]\nname = "math"\n{line}\n'
    )
    launch = Launch("prime-rl", "0.8.0", "uv run rl @ rl.toml", ("", ""))
    assert bool(broken(tmp_path, launch, launch.text)) == (line == "")


def test_a_student_of_another_model_needs_no_group(tmp_path: Path) -> None:
    text = VERL.replace("remax", "grpo") + "data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64"
    launch = Launch("verl", "0.9.0", text, ("", ""))
    assert broken(tmp_path, launch, text)
    assert broken(tmp_path, launch, f"{text} distillation.enabled=True") == set()
