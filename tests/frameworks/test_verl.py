"""verl: what its overrides mean, and what each release makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.frameworks import by_name
from rldoctor.launch.recognise import read
from rldoctor.model import Edit
from rldoctor.plan.evidence import cite
from rldoctor.plan.model import RolloutPlan, Source
from rldoctor.tables.options import Option, OptionSet
from tests.frameworks.conftest import Launches

BASE = (
    "data.train_batch_size=256 data.max_prompt_length=1024 data.max_response_length=3072 "
    "actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.n=8 "
    "actor_rollout_ref.rollout.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8 trainer.nnodes=2"
)
ROLLOUT = "actor_rollout_ref.rollout"


def plan(tmp_path: Path, more: str = "", version: str | None = None, **read_more: object) -> RolloutPlan:
    (tmp_path / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo {BASE} {more}\n")
    versions = {"verl": version} if version else {}
    (found,) = read(tmp_path / "run.sh", version_of=versions, **read_more)  # type: ignore[arg-type]
    return found


def test_batch_arithmetic_counts_prompts_and_completions(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.value("batch.prompts") == 256
    assert found.value("batch.generation") == 2048
    assert found.value("batch.mini_prompts") == 64
    assert found.value("batch.train") == 512


def test_a_hybrid_engine_shares_the_trainers_devices(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.value("placement.mode") == "colocate"
    assert found.value("placement.engines") == 8
    assert found.value("ray.gpus_needed") == 16
    assert found.value("process.launcher") == "ray"


def test_separate_engines_have_devices_of_their_own(tmp_path: Path) -> None:
    entry = "verl.experimental.fully_async_policy.fully_async_main"
    text = f"python3 -m {entry} {BASE} rollout.nnodes=1 rollout.n_gpus_per_node=8\n"
    (tmp_path / "run.sh").write_text(text)
    (found,) = read(tmp_path / "run.sh")
    assert found.value("placement.mode") == "async"
    assert found.value("placement.engines") == 4
    assert found.value("ray.gpus_needed") == 24


@pytest.mark.parametrize(
    ("version", "more", "length"),
    [
        ("0.4.1", "", 4096),
        ("0.4.1", f"{ROLLOUT}.max_model_len=5000", 5000),
        ("0.6.1", f"{ROLLOUT}.max_model_len=5000 {ROLLOUT}.mode=sync", 5000),
        ("0.6.1", f"{ROLLOUT}.max_model_len=5000 {ROLLOUT}.mode=async", 4096),
        ("0.7.1", "", None),
        ("0.7.1", f"{ROLLOUT}.max_model_len=5000", 5000),
        (None, "", None),
    ],
)
def test_the_engines_context_in_each_release(
    tmp_path: Path, version: str | None, more: str, length: int | None
) -> None:
    assert plan(tmp_path, more, version).value("engine.max_model_len") == length


@pytest.mark.parametrize(
    ("version", "more", "per_replica"),
    [
        ("0.2.0", "", ("replica", 1000)),
        ("0.4.1", f"{ROLLOUT}.seed=7", ("replica", 1000)),
        ("0.4.1", f"{ROLLOUT}.mode=async", ("replica", 1000)),
        ("0.5.0", f"{ROLLOUT}.mode=async", ("replica", 1000)),
        ("0.5.0", f"{ROLLOUT}.mode=async {ROLLOUT}.free_cache_engine=False", ("same", 0)),
        ("0.5.0", f"{ROLLOUT}.mode=sync {ROLLOUT}.free_cache_engine=False", ("replica", 1000)),
        ("0.7.0", f"{ROLLOUT}.free_cache_engine=False", ("replica", 1000)),
        ("0.7.1", f"{ROLLOUT}.seed=7", ("replica", 7)),
        (None, "", (None, None)),
    ],
)
def test_how_replicas_get_their_seeds(
    tmp_path: Path, version: str | None, more: str, per_replica: tuple[str | None, int | None]
) -> None:
    found = plan(tmp_path, more, version)
    assert (found.value("seed.per_replica"), found.value("seed.engine")) == per_replica


def test_megatron_has_its_own_random_state_from_0_4_1_on(tmp_path: Path) -> None:
    def rule(version: str) -> object:
        return plan(tmp_path, "actor_rollout_ref.actor.strategy=megatron", version).value("seed.per_replica")

    assert [rule(version) for version in ("0.3.0", "0.4.0", "0.4.1", "0.7.0")] == ["same", "same", "replica", "replica"]


@pytest.mark.parametrize(("version", "rank"), [("0.5.0", 24), ("0.6.1", 32), (None, None)])
def test_the_engines_adapter_rank(tmp_path: Path, version: str | None, rank: int | None) -> None:
    found = plan(tmp_path, "actor_rollout_ref.model.lora_rank=24", version)
    assert found.value("engine.max_lora_rank") == rank
    assert found.value("lora.enabled") is True
    assert found.value("trainer.full") is False


def test_a_false_that_the_server_drops_is_no_setting_but_an_ignored_option(tmp_path: Path) -> None:
    off = f"{ROLLOUT}.enable_chunked_prefill=False {ROLLOUT}.mode="
    kept, dropped = plan(tmp_path, off + "sync", "0.6.1"), plan(tmp_path, off + "async", "0.6.1")
    assert kept.value("engine.enable_chunked_prefill") is False
    assert kept.unknown == ()
    assert dropped.get("engine.enable_chunked_prefill") is None
    (ignored,) = dropped.unknown
    assert (ignored.key, ignored.ignored) == (f"{ROLLOUT}.enable_chunked_prefill", True)
    assert ignored.nearest == (f"{ROLLOUT}.engine_kwargs.vllm.no_enable_chunked_prefill",)


@pytest.mark.parametrize(
    ("version", "more", "level"),
    [
        ("0.5.0", "", 1),
        ("0.5.0", f"{ROLLOUT}.free_cache_engine=False", 0),
        ("0.9.0", "", 2),
        ("0.9.0", "actor_rollout_ref.model.lora_rank=8", 1),
        (None, "", None),
    ],
)
def test_how_deep_the_engine_sleeps(tmp_path: Path, version: str | None, more: str, level: int | None) -> None:
    assert plan(tmp_path, more, version).value("sleep.level") == level


def test_pass_through_options_are_the_engines_and_validation_has_its_own_sampling(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        f"+{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype=fp8 +{ROLLOUT}.engine_kwargs.vllm.compilation_config.level=3 "
        f"{ROLLOUT}.val_kwargs.n=4 {ROLLOUT}.val_kwargs.temperature=0.6 "
        "+ray_kwargs.ray_init.runtime_env.env_vars.NCCL_DEBUG=INFO",
    )
    assert found.value("engine.kv_cache_dtype") == "fp8"
    assert found.value("engine.compilation_config") == {"level": 3}
    assert found.value("rollout.eval_sampling") == {"n": 4, "temperature": 0.6}
    assert found.value("env.NCCL_DEBUG") == "INFO"
    assert found.unread == ()


def test_the_megatron_config_is_another_strategy(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        "--config-path=config --config-name=ppo_megatron_trainer.yaml "
        "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2",
    )
    assert found.value("trainer.strategy") == "megatron"
    assert found.value("parallel.pipeline") == 2


def known(owner: str, group: str | None) -> OptionSet | None:
    if owner != "verl":
        return None
    options = [
        Option(f"{ROLLOUT}.gpu_memory_utilization", 0.5),
        Option(f"{ROLLOUT}.prompt_length", "${oc.select:data.max_prompt_length,512}"),
        Option(f"{ROLLOUT}.n", 1),
        Option(f"{ROLLOUT}.top_p", 1.0),
        Option("data.max_prompt_length", 512),
        Option("data.max_response_length", 512),
        Option("actor_rollout_ref.model.override_config", {}, "dict"),
        Option(f"{ROLLOUT}.engine_kwargs.vllm", {}, "dict"),
    ]
    return OptionSet({option.name: option for option in options}, source="verl 0.6.1")


def test_an_unknown_key_is_named_with_the_nearest_real_one_unless_it_is_added(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        f"python3 -m verl.trainer.main_ppo \\\n  {ROLLOUT}.gpu_memory_utilisation=0.7 \\\n  +{ROLLOUT}.my_own=1 \\\n"
        "  ++actor_rollout_ref.model.override_config.anything=1 data.max_prompt_length=8\n"
    )
    (found,) = read(tmp_path / "run.sh", known=known)
    assert [(u.key, u.line, u.nearest[:1]) for u in found.unknown] == [
        (f"{ROLLOUT}.gpu_memory_utilisation", 2, (f"{ROLLOUT}.gpu_memory_utilization",))
    ]


@pytest.mark.parametrize(
    ("version", "entry", "more", "words"),
    [
        ("0.6.1", "verl.trainer.main_ppo", "", "--config-name=ppo_megatron_trainer"),
        ("0.8.0", "verl.trainer.main_ppo", "", "model_engine=megatron"),
        ("0.8.0", "verl.trainer.main_ppo", "model_engine=veomni", "model_engine=megatron"),
        ("0.8.0", "verl.trainer.main_ppo", "model_engine=megatron", None),
        ("0.6.1", "verl.trainer.main_ppo", "--config-name=ppo_megatron_trainer", None),
        ("0.6.1", "recipe.dapo.main_dapo", "", "--config-name=dapo_megatron_trainer"),
        ("0.6.1", "recipe.dapo.main_dapo", "--config-name=dapo_megatron_trainer.yaml", None),
    ],
)
def test_options_of_an_engine_that_was_not_chosen(
    version: str, entry: str, more: str, words: str | None, launches: Launches
) -> None:
    key = "actor_rollout_ref.actor.megatron.tensor_model_parallel_size"
    (found,) = launches({"run.sh": f"python3 -m {entry} {BASE} {more} {key}=2\n"}, verl=version)
    assert [(one.key, one.chosen_by, one.nearest) for one in found.unknown] == ([(key, words, ())] if words else [])
    assert found.value("engine.tensor_parallel_size") == 2


def test_options_of_fsdp_where_megatron_trains(launches: Launches) -> None:
    key = "actor_rollout_ref.actor.fsdp_config.wrap_policy.min_num_params"
    (found,) = launches(
        {"run.sh": f"python3 -m verl.trainer.main_ppo {BASE} model_engine=megatron {key}=2\n"}, verl="0.8.0"
    )
    assert [(one.key, one.chosen_by) for one in found.unknown] == [(key, "model_engine=dp")]


@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_below_an_empty_mapping_hydra_takes_a_key_with_a_plus_alone(sign: str, tmp_path: Path) -> None:
    # https://github.com/verl-project/verl/issues/7319
    key = "actor_rollout_ref.model.override_config.attn_implementation"
    (tmp_path / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo {sign}{key}=sdpa {key}=eager\n")
    (found,) = read(tmp_path / "run.sh", known=known)
    assert [(u.key, u.nearest) for u in found.unknown] == ([] if sign else [(key, (f"+{key}",))])


def test_a_default_is_cited_as_verl_has_it(launches: Launches) -> None:
    """The plan has whether requests are asynchronous, verl a word for it."""
    (found,) = launches({"run.sh": f"python3 -m verl.trainer.main_ppo {BASE}\n"}, verl="0.8.0")
    (line,) = cite(found, "rollout.async_engine")
    assert (found.value("rollout.async_engine"), line.text) == (True, f"{ROLLOUT}.mode = async (default)")


def test_defaults_follow_what_they_refer_to(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("python3 -m verl.trainer.main_ppo data.max_prompt_length=8\n")
    (found,) = read(tmp_path / "run.sh", known=known)
    assert found.value("lengths.prompt") == 8
    setting = found.settings["lengths.response"]
    assert (setting.value, setting.source) == (512, Source.DEFAULT)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("engine.max_num_batched_tokens", 10240, f"{ROLLOUT}.max_num_batched_tokens=10240"),
        ("engine.tensor_parallel_size", 4, f"{ROLLOUT}.tensor_model_parallel_size=4"),
        ("rollout.async_engine", False, f"{ROLLOUT}.mode=sync"),
        ("engine.block_size", 32, f"++{ROLLOUT}.engine_kwargs.vllm.block_size=32"),
        ("model.path", "org/a b", "actor_rollout_ref.model.path='org/a b'"),
    ],
)
def test_fixes_are_spelled_as_overrides(tmp_path: Path, option: str, value: object, text: str) -> None:
    dialect = by_name("verl")
    assert dialect is not None
    assert dialect.spell(Edit(option=option, value=value), plan(tmp_path)).text == text


SGLANG = (
    "python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=8 actor_rollout_ref.rollout.name=sglang "
    "actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.rollout.gpu_memory_utilization=0.6 "
    "actor_rollout_ref.rollout.max_num_batched_tokens=1024 actor_rollout_ref.rollout.enable_chunked_prefill=False "
    "actor_rollout_ref.model.path=m {more}\n"
)


def test_variables_have_the_types_that_hydra_gives_them(tmp_path: Path) -> None:
    where = "+ray_kwargs.ray_init.runtime_env.env_vars"
    found = plan(tmp_path, f"{where}.VLLM_USE_V1=1 {where}.NCCL_DEBUG=WARN", "0.9.0")
    assert found.value("ray.runtime_env") == {"env_vars": {"VLLM_USE_V1": 1, "NCCL_DEBUG": "WARN"}}
    texts = plan(tmp_path, f"{where}.VLLM_USE_V1=\\'1\\' {where}.NCCL_DEBUG=WARN", "0.9.0")
    assert texts.value("ray.runtime_env") is None and texts.value("env.VLLM_USE_V1") == "1"


def test_sglang_is_said_only_what_it_is_given(launches: Launches) -> None:
    (plan,) = launches({"run.sh": SGLANG.format(more="")}, verl="0.7.0", vllm="0.12.0")
    engine = {name for name in plan.settings if name.startswith("engine.")}
    assert engine.isdisjoint({"engine.max_num_batched_tokens", "engine.enable_chunked_prefill", "engine.seed"})
    assert (plan.value("engine.tensor_parallel_size"), plan.value("engine.gpu_memory_utilization")) == (2, 0.6)
    assert plan.value("seed.per_replica") == "random"


def test_what_sglang_is_given_beside_wins(launches: Launches) -> None:
    more = " ".join(
        f"+actor_rollout_ref.rollout.engine_kwargs.sglang.{name}"
        for name in ("mem_fraction_static=0.7", "context_length=9000", "random_seed=5")
    )
    (plan,) = launches({"run.sh": SGLANG.format(more=more)}, verl="0.7.0")
    assert (plan.value("engine.gpu_memory_utilization"), plan.value("engine.max_model_len")) == (0.7, 9000)
    assert (plan.value("seed.engine"), plan.value("seed.per_replica")) == (5, "same")


def test_weights_are_kept_in_32_bits_where_nobody_chooses(tmp_path: Path) -> None:
    assert plan(tmp_path, version="0.5.0").value("trainer.param_dtype") == "float32"
    chosen = "+actor_rollout_ref.actor.fsdp_config.model_dtype=bfloat16"
    assert plan(tmp_path, chosen, version="0.5.0").value("trainer.param_dtype") == "bfloat16"


def test_fsdp_2_keeps_its_states_on_the_host(tmp_path: Path) -> None:
    policy = "actor_rollout_ref.actor.fsdp_config.offload_policy=True"
    states = [f"trainer.offload_{name}" for name in ("params", "gradients", "optimizer")]
    host = plan(tmp_path, f"actor_rollout_ref.actor.strategy=fsdp2 {policy}", version="0.5.0")
    assert [host.value(name) for name in states] == [True, True, True]
    assert plan(tmp_path, policy, version="0.5.0").value(states[0]) is not True  # FSDP 1 has no such policy
