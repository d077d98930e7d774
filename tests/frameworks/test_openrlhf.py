"""OpenRLHF: flat and dotted options, the devices that its placement groups ask for, its engines' seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.edits.edit import apply, save
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan, Source
from tests.frameworks.making import is_made, made

Launches = Callable[..., list[RolloutPlan]]

SUBMITTED = """\
ray job submit --address="http://127.0.0.1:8265" \\
   --runtime-env-json='{"env_vars": {"NCCL_DEBUG": "INFO"}}' \\
   -- python3 -m openrlhf.cli.train_ppo_ray \\
"""
FLAT = """\
   --actor_num_nodes 1 --actor_num_gpus_per_node 4 \\
   --ref_num_nodes 1 --ref_num_gpus_per_node 4 \\
   --vllm_num_engines 2 \\
   --vllm_tensor_parallel_size 2 \\
   --advantage_estimator group_norm --remote_rm_url reward.py \\
   --pretrain org/model --bf16 --packing_samples \\
   --micro_train_batch_size 4 --train_batch_size 128 \\
   --rollout_batch_size 128 --n_samples_per_prompt 8 \\
   --prompt_max_len 1024 \\
   --generate_max_len 3072 {more}
"""
DOTTED = """\
python3 -m openrlhf.cli.train_ppo_ray \\
   --actor.num_nodes 1 --actor.num_gpus_per_node 8 \\
   --vllm.num_engines 4 --vllm.tensor_parallel_size 2 \\
   --train.colocate_all \\
   --data.max_len 4096 \\
   --actor.model_name_or_path org/model --reward.remote_url reward.py \\
   --algo.advantage.estimator group_norm --algo.kl.init_coef 0 {more}
"""


def flat(launches: Launches, more: str = "", version: str = "0.8.5") -> RolloutPlan:
    (plan,) = launches({"run.sh": SUBMITTED + FLAT.format(more=more)}, openrlhf=version, vllm="0.9.1")
    return plan


def dotted(launches: Launches, more: str = "", version: str = "0.10.4") -> RolloutPlan:
    (plan,) = launches({"run.sh": DOTTED.format(more=more)}, openrlhf=version, vllm="0.19.1")
    return plan


def test_options_keep_their_places_behind_ray_job_submit(launches: Launches) -> None:
    plan = flat(launches)
    engines = plan.get("placement.engines")
    assert engines is not None
    assert (engines.value, engines.key, engines.line, engines.form) == (2, "--vllm_num_engines", 6, Form.OPTION)
    assert (plan.framework, plan.version, plan.unread, plan.unknown) == ("OpenRLHF", "0.8.5", (), ())
    assert plan.value("env.NCCL_DEBUG") == "INFO" and plan.value("ray.address") == "http://127.0.0.1:8265"
    assert plan.value("trainer.dtype") == "bfloat16" and plan.value("batch.packing") is True
    assert plan.value("process.launcher") == "ray"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m openrlhf.cli.train_ppo_ray --vllm_num_engines 2",
        "python openrlhf/cli/train_ppo_ray.py --vllm_num_engines 2",
        "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --vllm.num_engines 2",
        "deepspeed --module openrlhf.cli.train_ppo --pretrain org/model",
        "python3 -m fork.cli.train_ppo_ray --vllm_num_engines 2",
        "python3 -m fork.cli.train_grpo --vllm_num_engines 2",
    ],
)
def test_its_entry_points(launches: Launches, command: str) -> None:
    (plan,) = launches({"run.sh": f"{command}\n"})
    assert plan.framework == "OpenRLHF"


@pytest.mark.parametrize(
    ("more", "needed", "mode"),
    [
        ("", 12, "separate"),
        ("--colocate_actor_ref", 8, "separate"),
        ("--colocate_all_models", 4, "colocate"),
        ("--init_kl_coef 0", 8, "separate"),
        ("--colocate_all_models --async_train", 8, "async"),
        ("--vllm_num_engines 0", 8, "none"),
    ],
)
def test_devices_asked_for(launches: Launches, more: str, needed: int, mode: str) -> None:
    plan = flat(launches, more)
    assert (plan.value("ray.gpus_needed"), plan.value("placement.mode")) == (needed, mode)


@pytest.mark.parametrize("more", ["--vllm_num_engines $N", "--vllm_tensor_parallel_size $N"])
def test_engines_of_an_unknown_number_are_still_engines(launches: Launches, more: str) -> None:
    plan = flat(launches, more)
    assert (plan.value("rollout.backend"), plan.value("placement.mode")) == ("vllm", "separate")
    assert plan.value("placement.engine_gpus") is None and plan.value("ray.gpus_needed") is None


def test_critic_and_reward_model_take_devices_of_their_own(launches: Launches) -> None:
    sizes = "--critic_num_gpus_per_node 2 --reward_num_gpus_per_node 2"
    ppo = FLAT.replace("group_norm --remote_rm_url reward.py", "gae --reward_pretrain org/reward")
    (apart,) = launches({"run.sh": SUBMITTED + ppo.format(more=sizes)}, openrlhf="0.8.5")
    assert apart.value("placement.roles") == {"actor": 4, "reference": 4, "critic": 2, "reward": 2, "engine": 4}
    assert apart.value("ray.gpus_needed") == 16 and apart.value("trainer.critic") is True
    text = SUBMITTED + ppo.format(more=f"{sizes} --colocate_critic_reward")
    (paired,) = launches({"run.sh": text}, openrlhf="0.8.5")
    assert paired.value("ray.gpus_needed") == 14
    assert paired.value("placement.colocated_roles") == ["critic", "reward"]
    # cli/train_ppo_ray.py: critic and reward get a group of their own although everything else is colocated.
    both = f"{sizes} --colocate_critic_reward --colocate_all_models"
    (mixed,) = launches({"run.sh": SUBMITTED + ppo.format(more=both)}, openrlhf="0.8.5")
    assert mixed.value("ray.gpus_needed") == 6


def test_sizes_that_nobody_gives_are_the_releases_defaults(launches: Launches) -> None:
    (plan,) = launches({"run.sh": "python3 -m openrlhf.cli.train_ppo_ray --vllm_num_engines 2\n"}, openrlhf="0.8.5")
    assert plan.value("ray.gpus_needed") == 4 * 8 + 2
    (unknown,) = launches({"run.sh": "python3 -m openrlhf.cli.train_ppo_ray --vllm_num_engines 2\n"})
    assert unknown.value("ray.gpus_needed") is None


@pytest.mark.parametrize(
    ("version", "options", "context", "total"),
    [
        ("0.8.5", "", 4096, None),
        ("0.8.5", "--max_len 8192", 8192, None),
        ("0.9.7", "", 4096, None),
    ],
)
def test_context_through_0_9_7(launches: Launches, version: str, options: str, context: int, total: int | None) -> None:
    plan = flat(launches, options, version)
    assert plan.value("engine.max_model_len") == context and plan.value("lengths.total") == total
    assert plan.value("sampling.max_tokens") == 3072


def test_context_from_0_9_8_is_max_len(launches: Launches) -> None:
    plan = dotted(launches)
    assert plan.value("engine.max_model_len") == plan.value("lengths.total") == 4096
    assert plan.value("lengths.prompt") is None and plan.value("sampling.max_tokens") is None
    assert dotted(launches, "--rollout.max_new_tokens 512").value("lengths.response") == 512


def test_each_engine_has_its_own_seed(launches: Launches) -> None:
    plan = flat(launches, "--seed 7")
    assert (plan.value("seed.engine"), plan.value("engine.seed")) == (7, 7)
    assert (plan.value("seed.per_replica"), plan.value("seed.per_request")) == ("replica", "none")
    assert plan.value("sampling.n") == 1


def test_sleep_needs_everything_colocated(launches: Launches) -> None:
    asleep = flat(launches, "--colocate_all_models --vllm_enable_sleep")
    assert (asleep.value("engine.enable_sleep_mode"), asleep.value("sleep.level")) == (True, 1)
    apart = flat(launches, "--vllm_enable_sleep").get("engine.enable_sleep_mode")
    assert apart is not None and (apart.value, apart.source) == (False, Source.DERIVED)


@pytest.mark.parametrize(
    ("version", "share"),
    # cli/train_ppo_ray.py 0.5.8 to 0.6.0 replaces 0.9 and more, 0.6.0.post1 no longer does.
    [("0.5.9", 0.4), ("0.6.0", 0.4), ("0.6.0.post1", 0.9), ("0.8.5", 0.95)],
)
def test_share_of_memory_of_a_colocated_engine(launches: Launches, version: str, share: float) -> None:
    assert flat(launches, "--colocate_all_models", version).value("engine.gpu_memory_utilization") == share


def test_a_reference_model_is_kept_unless_its_weight_is_zero(launches: Launches) -> None:
    assert flat(launches, "--init_kl_coef 0", "0.5.9").value("trainer.reference") is True
    assert flat(launches, "--init_kl_coef 0", "0.6.2").value("trainer.reference") is False
    assert flat(launches).value("trainer.reference") is True


def test_batches_over_data_parallel_ranks(launches: Launches) -> None:
    plan = flat(launches, "--ring_attn_size 2")
    assert (plan.value("parallel.sequence"), plan.value("parallel.data")) == (2, 2)
    assert (plan.value("batch.generation"), plan.value("batch.accumulation")) == (1024, 16)


def test_the_v1_engine_is_forced_in_the_actors(launches: Launches) -> None:
    assert dotted(launches).value("env.VLLM_USE_V1") == "1" and dotted(launches).value("rollout.async_engine") is True
    assert flat(launches).get("env.VLLM_USE_V1") is None
    assert flat(launches, "--agent_func_path agent.py").value("env.VLLM_USE_V1") == "1"


def test_importance_correction_asks_for_processed_log_probabilities(launches: Launches) -> None:
    plan = dotted(launches, "--algo.advantage.is_correction_enable")
    assert plan.value("engine.logprobs_mode") == "processed_logprobs" and plan.value("sampling.logprobs") == 1


@pytest.mark.parametrize(
    ("version", "option", "nearest"),
    [
        ("0.10.4", "--vllm_num_engines 2", "vllm.num_engines"),
        ("0.8.5", "--vllm.num_engines 2", "vllm_num_engines"),
        ("0.9.3", "--vllm_enable_is_correction", "enable_vllm_is_correction"),
        ("0.11.0", "--ref_num_gpus_per_node 4", "ref.num_gpus_per_node"),
        ("0.10.0", "--generate_max_len 64", "max_new_tokens"),
    ],
)
def test_names_of_the_other_generation_are_unknown(launches: Launches, version: str, option: str, nearest: str) -> None:
    text = f"python3 -m openrlhf.cli.train_ppo_ray {option}\n"
    (plan,) = launches({"run.sh": text}, openrlhf=version)
    (unknown,) = plan.unknown
    assert unknown.key == option.split()[0] and unknown.nearest[0] == nearest and not unknown.ignored


def test_an_option_that_begins_with_no_denies_none(launches: Launches) -> None:
    assert flat(launches, "--no_advantage_std_norm").unknown == ()
    (unknown,) = flat(launches, "--no_advantage_norm").unknown
    assert unknown.key == "advantage_norm" or unknown.key == "--no_advantage_norm"


def test_unambiguous_beginnings_are_options(launches: Launches) -> None:
    (plan,) = launches({"run.sh": "python3 -m openrlhf.cli.train_ppo_ray --vllm_num_eng 2\n"}, openrlhf="0.8.5")
    assert plan.unknown == ()


@pytest.mark.parametrize(
    ("option", "value", "spelled"),
    [
        ("placement.mode", "colocate", "--colocate_all_models"),
        ("placement.engines", 1, "--vllm_num_engines 1"),
        ("placement.colocated_roles", ["actor", "reference"], "--colocate_actor_ref"),
        ("engine.max_model_len", 8192, "--max_len 8192"),
        ("engine.enforce_eager", True, "--enforce_eager"),
        ("lengths.response", 2048, "--generate_max_len 2048"),
        ("model.apply_chat_template", True, "--apply_chat_template"),
    ],
)
def test_fixes_in_flat_names(launches: Launches, tmp_path: Path, option: str, value: object, spelled: str) -> None:
    plan = flat(launches)
    assert made(plan, option, value) == spelled
    (mended,) = launches({"run.sh": (tmp_path / "run.sh").read_text()}, openrlhf="0.8.5", vllm="0.9.1")
    assert is_made(mended, option, value) and mended.unknown == ()


@pytest.mark.parametrize(
    ("option", "value", "spelled"),
    [
        ("engine.tensor_parallel_size", 4, "--vllm.tensor_parallel_size 4"),
        ("engine.max_model_len", 2048, "--data.max_len 2048"),
        ("lengths.response", 1024, "--rollout.max_new_tokens 1024"),
        ("engine.gpu_memory_utilization", 0.5, "--vllm.gpu_memory_utilization 0.5"),
        ("sleep.enabled", True, "--vllm.enable_sleep"),
    ],
)
def test_fixes_in_dotted_names(launches: Launches, tmp_path: Path, option: str, value: object, spelled: str) -> None:
    plan = dotted(launches)
    assert made(plan, option, value) == spelled
    (mended,) = launches({"run.sh": (tmp_path / "run.sh").read_text()}, openrlhf="0.10.4", vllm="0.19.1")
    assert is_made(mended, option, value) and mended.unknown == ()


def test_a_flag_is_taken_out_and_the_generation_of_names_is_guessed_without_a_release(
    launches: Launches, tmp_path: Path
) -> None:
    (plan,) = launches({"run.sh": DOTTED.format(more="--vllm.enable_sleep")})
    dialect = by_name("OpenRLHF")
    assert dialect is not None
    assert dialect.spell(Edit(option="lengths.response", value=64), plan).text == "--rollout.max_new_tokens 64"
    spelling = dialect.spell(Edit(option="engine.enable_sleep_mode", value=False), plan)
    assert spelling.text == "without --vllm.enable_sleep"
    save(apply([spelling]))
    assert "enable_sleep" not in (tmp_path / "run.sh").read_text()


def test_a_script_of_that_name_outside_the_package_has_a_parser_of_its_own(launches: Launches) -> None:
    options = "--pretrain org/model --vllm_num_engines 2 --oracle_steps 3\n"
    (own,) = launches({"run.sh": f"ray job submit -- python train_ppo_ray.py {options}"}, openrlhf="0.8.5")
    assert own.unknown == () and own.value("placement.engines") == 2
    (package,) = launches({"run.sh": f"python openrlhf/cli/train_ppo_ray.py {options}"}, openrlhf="0.8.5")
    assert [option.key for option in package.unknown] == ["--oracle_steps"]
