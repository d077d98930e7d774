"""RLD212: every row of the table fires on a launch file and stays quiet on its nearest neighbour."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from rldoctor_checks.rollout.mode_flags import check
from rldoctor_checks.rollout.mode_flags.conflicts import CONFLICTS

from tests.checks.launches import LaunchFile


@dataclass(frozen=True)
class Launch:
    """A launch that the row with ``says`` in its message is about, and the change after which it is not."""

    says: str
    package: str
    version: str
    text: str
    change: tuple[str, str]


SWIFT = "swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B-Instruct --use_vllm true"
SERVER = " --vllm_server_host 10.0.0.1 --vllm_server_port 8000"
TRL = """from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig(output_dir="out", use_vllm=True, {})
trainer = GRPOTrainer(model="Qwen/Qwen2.5-7B", args=args, reward_funcs=len, train_dataset=[])
trainer.train()
"""
VERL = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.rollout.name=vllm "
)
SLIME = (
    "ray job submit -- python3 train_async.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate "
    "--rollout-num-gpus-per-engine 2 --hf-checkpoint org/model --rollout-batch-size 32 --n-samples-per-prompt 8"
)
BATCHES = (
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 "
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 actor_rollout_ref.actor.use_kl_loss=True"
)
EASYR1 = "python3 -m verl.trainer.main worker.actor.model.model_path=Qwen/Qwen2.5-VL-7B "
OPENRLHF = "python3 -m openrlhf.cli.train_ppo_ray --pretrain Qwen/Qwen2.5-7B --vllm_num_engines 4 "
NEMO = "uv run examples/run_grpo_math.py "
SKYRL = "python -m skyrl_train.entrypoints.main_base trainer.policy.model.path=Qwen/Qwen2.5-1.5B "
STARTED = {"skyrl-train": SKYRL, "skyrl": SKYRL.replace("skyrl_train", "skyrl.train")}
ASYNC_NEMO = (
    NEMO + "grpo.async_grpo.enabled=true policy.generation.vllm_cfg.async_engine=true "
    "loss_fn.use_importance_sampling_correction=true policy.generation.colocated.enabled=false"
)

AXOLOTL = """base_model: Qwen/Qwen2.5-1.5B-Instruct
rl: grpo
trl: {use_vllm: true, num_generations: 8, vllm_mode: colocate}
load_in_4bit: true
"""

LAUNCHES = [
    *(
        Launch(
            "adapters with SGLang",
            package,
            version,
            SKYRL + "generator.backend=sglang trainer.policy.model.lora.rank=32",
            ("rank=32", "rank=0"),
        )
        for package, version in (("skyrl-train", "0.4.0"), ("skyrl", "0.2.0"))
    ),
    Launch("kl_coef together", "slime", "0.2.4", SLIME + " --kl-coef 0.01 --kl-loss-coef 0.001", ("0.001", "0.00")),
    Launch("without an adapter", "axolotl", "0.13.0", AXOLOTL, ("load_in_4bit", "adapter: qlora\nload_in_4bit")),
    *(
        Launch(
            "nothing is left for training",
            "nemo-rl",
            "0.7.0",
            f"{NEMO}policy.generation.colocated.enabled=false cluster.gpus_per_node=8 {theirs}",
            change,
        )
        for theirs, change in (
            (
                "cluster.num_nodes=2 policy.generation.colocated.resources.num_nodes=2",
                ("s.num_nodes=2", "s.num_nodes=1"),
            ),
            (
                "cluster.num_nodes=1 policy.generation.colocated.resources.gpus_per_node=8",
                ("s.gpus_per_node=8", "s.gpus_per_node=4"),
            ),
        )
    ),
    Launch(
        "refuses the two together unless they are equal",
        "ms-swift",
        "4.5.2",
        f"NPROC_PER_NODE=6 {SWIFT}{SERVER} --vllm_mode server --per_device_train_batch_size 2 "
        "--steps_per_generation 2 --generation_batch_size 48",
        ("size 48", "size 24"),
    ),
    Launch(
        "below the orchestrator's seq_len",
        "prime-rl",
        "0.8.0",
        "uv run python -m prime_rl.entrypoints.rl --model.name Qwen/Qwen2.5-1.5B --orchestrator.seq-len 8192 "
        "--trainer.model.seq-len 4096",
        ("seq-len 4096", "seq-len 16384"),
    ),
    # https://github.com/modelscope/ms-swift/issues/5185
    Launch(
        "has not connected to",
        "ms-swift",
        "3.6.4",
        "swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-VL-7B-Instruct --vllm_mode server --num_generations 4",
        ("server", "colocate"),
    ),
    Launch(
        "is not supported when use_vllm is false",
        "ms-swift",
        "3.12.0",
        "swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-VL-7B-Instruct --vllm_mode colocate --num_generations 4",
        ("--vllm_mode", "--use_vllm true --vllm_mode"),
    ),
    # https://github.com/verl-project/verl/issues/4424
    Launch(
        "tells a Ray how many cores it has",
        "verl",
        "0.7.0",
        f"ray start --head\n{VERL} ray_kwargs.ray_init.num_cpus=16",
        ("ray start --head\n", ""),
    ),
    Launch(
        "tells a Ray how many cores it has",
        "verl",
        "0.4.1",
        f"RAY_ADDRESS=10.0.0.1:6379 {VERL} ray_init.num_cpus=16",
        ("num_cpus=16", "num_cpus=null"),
    ),
    Launch(
        "removed the rollout of transformers",
        "verl",
        "0.6.1",
        f"{VERL} {BATCHES} actor_rollout_ref.rollout.name=hf",
        ("name=hf", "name=sglang"),
    ),
    Launch(
        "and is given none",
        "slime",
        "0.2.4",
        SLIME.replace("--colocate ", ""),
        ("--hf-checkpoint", "--rollout-num-gpus 8 --hf-checkpoint"),
    ),
    Launch("switches to server mode", "ms-swift", "3.8.1", f"{SWIFT} --vllm_mode colocate{SERVER}", (SERVER, "")),
    Launch(
        "switches to colocate mode", "ms-swift", "3.8.1", f"{SWIFT} --vllm_mode server", ("server", f"server{SERVER}")
    ),
    Launch(
        "asserts that it has one", "ms-swift", "4.5.2", f"{SWIFT} --vllm_mode server", ("server", f"server{SERVER}")
    ),
    Launch("with an engine of its own", "ms-swift", "3.12.0", f"{SWIFT} --vllm_mode colocate{SERVER}", (SERVER, "")),
    Launch(
        "asserts that vllm_mode is",
        "ms-swift",
        "3.8.1",
        f"{SWIFT} --vllm_mode colocate --async_generate true",
        ("true", "false"),
    ),
    Launch(
        "engines have devices of their own",
        "ms-swift",
        "3.3.0",
        f"NPROC_PER_NODE=8 {SWIFT} --num_infer_workers 8 --async_generate true",
        ("async_generate true", "async_generate false"),
    ),
    Launch(
        "several turns",
        "ms-swift",
        "3.8.1",
        f"{SWIFT} --vllm_mode server{SERVER} --async_generate true --multi_turn_scheduler math_tip_trick",
        (" --multi_turn_scheduler math_tip_trick", ""),
    ),
    Launch(
        "never asked",
        "trl",
        "0.21.0",
        TRL.format('vllm_mode="colocate", vllm_server_host="10.0.0.1"'),
        (', vllm_server_host="10.0.0.1"', ""),
    ),
    Launch(
        "are both given",
        "trl",
        "0.18.1",
        TRL.format("generation_batch_size=64, steps_per_generation=4"),
        (", steps_per_generation=4", ""),
    ),
    Launch(
        "CUDA graphs are off",
        "verl",
        "0.4.1",
        VERL + "actor_rollout_ref.rollout.enforce_eager=False actor_rollout_ref.rollout.free_cache_engine=True",
        ("enforce_eager=False", "enforce_eager=True"),
    ),
    Launch(
        "verl has removed it",
        "verl",
        "0.7.0",
        VERL + "actor_rollout_ref.rollout.mode=sync",
        ("mode=sync", "mode=async"),
    ),
    Launch(
        "without use_remove_padding",
        "verl",
        "0.6.1",
        VERL
        + "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 actor_rollout_ref.model.use_remove_padding=False",
        ("padding=False", "padding=True"),
    ),
    Launch(
        "together with vllm_enable_sleep",
        "openrlhf",
        "0.8.5",
        OPENRLHF + "--async_train --colocate_all_models --vllm_enable_sleep",
        (" --vllm_enable_sleep", ""),
    ),
    Launch(
        "together with --colocate",
        "slime",
        "0.3.1",
        SLIME,
        ("train_async.py", "train.py"),
    ),
    Launch(
        "asynchronous GRPO needs the asynchronous engine",
        "nemo-rl",
        "0.4.0",
        ASYNC_NEMO,
        ("async_engine=true", "async_engine=false"),
    ),
    Launch(
        "engines on devices of their own",
        "nemo-rl",
        "0.4.0",
        ASYNC_NEMO,
        ("colocated.enabled=false", "colocated.enabled=true"),
    ),
    Launch(
        "does not say how many",
        "nemo-rl",
        "0.5.0",
        NEMO + "cluster.num_nodes=2 cluster.gpus_per_node=8 policy.generation.colocated.enabled=false "
        "policy.generation.colocated.resources.num_nodes=1",
        (".num_nodes=1", ".num_nodes=1 policy.generation.colocated.resources.gpus_per_node=8"),
    ),
    Launch(
        "share a packed sequence by",
        "nemo-rl",
        "0.6.0",
        NEMO + "--config examples/configs/grpo_math_1B_megatron.yaml policy.sequence_packing.enabled=true "
        "policy.dynamic_batching.enabled=false policy.megatron_cfg.enabled=true policy.dtensor_cfg.enabled=false "
        "policy.megatron_cfg.tensor_model_parallel_size=4 policy.megatron_cfg.sequence_parallel=true "
        "policy.megatron_cfg.context_parallel_size=1 policy.make_sequence_length_divisible_by=2",
        ("divisible_by=2", "divisible_by=4"),
    ),
    Launch(
        "below the orchestrator's seq_len",
        "prime-rl",
        "0.3.0",
        "uv run python -m prime_rl.rl --model.name Qwen/Qwen2.5-1.5B --orchestrator.seq-len 4096",
        ("--orchestrator.seq-len", "--seq-len"),
    ),
    Launch(
        "several optimizer passes",
        "ms-swift",
        "4.0.0",
        "NPROC_PER_NODE=4 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --tensor_model_parallel_size 4 "
        "--global_batch_size 64 --num_generations 8 --num_iterations 2",
        ("iterations 2", "iterations 1"),
    ),
    Launch("samples of older weights", "nemo-rl", "0.4.0", ASYNC_NEMO, ("correction=true", "correction=false")),
    Launch(
        "pipeline parallel engines",
        "nemo-rl",
        "0.4.0",
        NEMO + "policy.generation.vllm_cfg.pipeline_parallel_size=2 policy.generation.vllm_cfg.async_engine=false",
        ("engine=false", "engine=true"),
    ),
    Launch(
        "the actor has neither",
        "verl",
        "0.6.1",
        VERL + BATCHES,
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 ", ""),
    ),
    Launch(
        "log-probabilities have neither",
        "verl",
        "0.6.1",
        VERL + BATCHES,
        ("actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 ", ""),
    ),
    Launch(
        "the reference model has neither",
        "verl",
        "0.6.1",
        VERL + BATCHES,
        ("actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 ", ""),
    ),
    Launch(
        "which takes its place",
        "verl",
        "0.6.1",
        VERL + BATCHES + " actor_rollout_ref.actor.ppo_micro_batch_size=64",
        (" actor_rollout_ref.actor.ppo_micro_batch_size=64", ""),
    ),
    Launch(
        "layered_summon",
        "verl",
        "0.6.1",
        VERL + BATCHES + " actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.rollout.layered_summon=True "
        "actor_rollout_ref.rollout.load_format=dummy",
        ("load_format=dummy", "load_format=safetensors"),
    ),
    Launch(
        "a loader of verl's earlier rollouts",
        "verl",
        "0.7.0",
        VERL + BATCHES + " actor_rollout_ref.rollout.load_format=dummy_dtensor",
        ("load_format=dummy_dtensor", "load_format=dummy"),
    ),
    Launch(
        "fsdp.enable_cpu_offload",
        "easyr1",
        "0.3.2",
        EASYR1 + "worker.actor.fsdp.enable_cpu_offload=true worker.actor.global_batch_size=128 "
        "worker.actor.micro_batch_size_per_device_for_update=4 trainer.n_gpus_per_node=8",
        ("offload=true", "offload=false"),
    ),
    Launch(
        "different numbers of devices",
        "openrlhf",
        "0.8.5",
        OPENRLHF + "--colocate_actor_ref --actor_num_nodes 1 --actor_num_gpus_per_node 8 --ref_num_nodes 1 "
        "--ref_num_gpus_per_node 4",
        ("ref_num_gpus_per_node 4", "ref_num_gpus_per_node 8"),
    ),
    Launch(
        "the critic and the reward model are colocated",
        "openrlhf",
        "0.9.9",
        OPENRLHF + "--reward_pretrain org/reward --colocate_critic_reward --critic_num_nodes 1 "
        "--critic_num_gpus_per_node 2 --reward_num_nodes 1 --reward_num_gpus_per_node 4",
        ("reward_num_gpus_per_node 4", "reward_num_gpus_per_node 2"),
    ),
    Launch(
        "dual_clip bounds the loss",
        "openrlhf",
        "0.9.9",
        OPENRLHF + "--reward_pretrain org/reward --dual_clip 0.5",
        ("--dual_clip 0.5", "--dual_clip 3.0"),
    ),
    Launch(
        "reward_weights are not as many as the rewards",
        "ms-swift",
        "4.5.2",
        SWIFT + " --vllm_mode colocate --reward_funcs accuracy format --reward_model org/judge --reward_weights 1 0.1",
        ("--reward_weights 1 0.1", "--reward_weights 1 0.1 0.5"),
    ),
    *(
        Launch(
            "the overlong buffer is longer than the longest response",
            "verl",
            version,
            VERL + f"{BATCHES} data.max_response_length=2048 {section}.enable=True {section}.len=4096",
            (".len=4096", ".len=512"),
        )
        for version, section in (
            ("0.6.1", "+reward_model.reward_kwargs.overlong_buffer_cfg"),
            ("0.9.0", "+reward.reward_kwargs.overlong_buffer_cfg"),
        )
    ),
    *(
        launch
        for package, version in (("skyrl-train", "0.4.0"), ("skyrl", "0.2.0"))
        for launch in (
            Launch(
                "the policy and the reference model are colocated",
                package,
                version,
                STARTED[package]
                + "trainer.placement.policy_num_gpus_per_node=8 trainer.placement.ref_num_gpus_per_node=4 "
                "trainer.placement.colocate_policy_ref=true trainer.algorithm.use_kl_loss=true",
                ("ref_num_gpus_per_node=4", "ref_num_gpus_per_node=8"),
            ),
            Launch(
                "the policy and the critic model are colocated",
                package,
                version,
                STARTED[package]
                + "trainer.placement.policy_num_gpus_per_node=8 trainer.placement.ref_num_gpus_per_node=8 "
                "trainer.placement.colocate_all=true trainer.algorithm.advantage_estimator=gae "
                "trainer.critic.model.path=Qwen/Qwen2.5-1.5B",
                ("=gae", "=gae trainer.placement.critic_num_gpus_per_node=8"),
            ),
            Launch(
                "with engines that the launch does not start",
                package,
                version,
                STARTED[package]
                + ("generator." if package == "skyrl-train" else "generator.inference_engine.")
                + "run_engines_locally=false generator.sampling_params.logprobs=0",
                ("logprobs=0", "logprobs=null"),
            ),
            Launch(
                "async_engine=false without",
                package,
                version,
                SKYRL + "generator.async_engine=false",
                ("=false", "=false generator.batched=true"),
            ),
            Launch(
                "use_kl_in_reward",
                package,
                version,
                SKYRL + "trainer.algorithm.use_kl_in_reward=true",
                ("=true", "=true trainer.algorithm.use_kl_loss=false"),
            ),
            Launch(
                "generator.max_input_length differs",
                package,
                version,
                SKYRL + "trainer.max_prompt_length=512 generator.max_input_length=1024",
                ("1024", "512"),
            ),
            Launch(
                "without a critic",
                package,
                version,
                SKYRL + "trainer.algorithm.advantage_estimator=gae",
                ("=gae", "=gae trainer.critic.model.path=m"),
            ),
        )
    ),
    Launch(
        "a path of no step",
        "verl",
        "0.7.0",
        VERL + "trainer.resume_mode=resume_path trainer.resume_from_path=/ckpt/run/last",
        ("run/last", "run/global_step_100"),
    ),
    Launch(
        "one of them is off",
        "nemo-rl",
        "0.7.0",
        NEMO + "policy.sequence_packing.enabled=true policy.dynamic_batching.enabled=true",
        ("dynamic_batching.enabled=true", "dynamic_batching.enabled=false"),
    ),
    Launch(
        "takes one of them",
        "nemo-rl",
        "0.5.0",
        NEMO + "policy.megatron_cfg.enabled=true policy.dtensor_cfg.enabled=true",
        ("dtensor_cfg.enabled=true", "dtensor_cfg.enabled=false"),
    ),
    Launch(
        "that there is one stage",
        "nemo-rl",
        "0.4.0",
        NEMO + "policy.dtensor_cfg.enabled=false policy.megatron_cfg.enabled=true policy.sequence_packing.enabled=false"
        " policy.dynamic_batching.enabled=true policy.megatron_cfg.pipeline_model_parallel_size=2",
        ("pipeline_model_parallel_size=2", "pipeline_model_parallel_size=1"),
    ),
    Launch(
        "asserts that they are equal",
        "nemo-rl",
        "0.7.0",
        NEMO + "loss_fn.force_on_policy_ratio=true grpo.num_prompts_per_step=32 grpo.num_generations_per_prompt=16 "
        "policy.train_global_batch_size=256",
        ("batch_size=256", "batch_size=512"),
    ),
    Launch(
        "nothing to train with",
        "nemo-rl",
        "0.6.0",
        NEMO + "policy.megatron_cfg.enabled=false policy.dtensor_cfg.enabled=false",
        ("dtensor_cfg.enabled=false", "dtensor_cfg.enabled=true"),
    ),
]


def said(folder: Path, launch: Launch, text: str) -> list[str]:
    name = {"from": "train.py", "base_model:": "grpo.yaml"}.get(text.split()[0], "run.sh")
    file = LaunchFile(folder, text, {launch.package: launch.version}, gpus=8, name=name)
    assert file.cases(), text
    return [finding.message for finding in file.findings(check)]


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: f"{launch.package}-{launch.says}")
def test_fires_and_stays_quiet(launch: Launch, tmp_path: Path) -> None:
    assert launch.change[0] in launch.text
    texts = [launch.text, launch.text.replace(*launch.change)]
    fires = [any(launch.says in message for message in said(tmp_path, launch, text)) for text in texts]
    assert sorted(fires) == [False, True], texts


def test_every_row_is_among_them() -> None:
    shown = {(launch.package, row.message) for launch in LAUNCHES for row in CONFLICTS if launch.says in row.message}
    assert [row.message for row in CONFLICTS if (row.package, row.message) not in shown] == []


@pytest.mark.parametrize(("more", "fires"), [("data.train_files=./t.parquet", True), ("", False)])
def test_a_whole_launch_without_any_micro_batch_is_refused_and_an_excerpt_is_not(
    tmp_path: Path, more: str, fires: bool
) -> None:
    found = said(tmp_path, Launch("", "verl", "0.6.1", VERL + more, ("", "")), VERL + more)
    assert any("Please set at least one of" in message for message in found) == fires


def test_what_only_the_shell_knows_is_not_taken_for_left_out(tmp_path: Path) -> None:
    (tmp_path / "grpo.yaml").write_text(AXOLOTL)
    text = "axolotl train grpo.yaml --adapter $ADAPTER"
    assert said(tmp_path, Launch("", "axolotl", "0.13.0", text, ("", "")), text) == []


@pytest.mark.parametrize(("name", "fires"), [("main.py", False), ("run.sh", True)])
def test_who_starts_a_main_may_fill_the_blanks_of_its_configuration(tmp_path: Path, name: str, fires: bool) -> None:
    sizes = "{ppo_micro_batch_size_per_gpu: null, use_dynamic_bsz: false}"
    (tmp_path / "mine.yaml").write_text(
        f"data: {{train_files: a.parquet}}\nactor_rollout_ref: {{actor: {sizes}, rollout: {{name: vllm}}}}\n"
    )
    main = (
        "import hydra\nfrom verl.trainer.ppo.ray_trainer import RayPPOTrainer\n\n\n"
        '@hydra.main(config_path=".", config_name="mine", version_base=None)\ndef main(config):\n    pass\n'
    )
    (tmp_path / "main.py").write_text(main)
    text = main if name == "main.py" else "python3 main.py\n"
    found = LaunchFile(tmp_path, text, {"verl": "0.6.1"}, name=name).findings(check)
    assert any("Please set at least one of" in one.message for one in found) == fires
