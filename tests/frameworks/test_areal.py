"""AReaL: letters for devices, a section for each engine of which one samples, Hydra over the script's own file."""

from __future__ import annotations

import pytest

from rldoctor.errors import InputError
from rldoctor.frameworks import by_name
from rldoctor.frameworks.areal.allocation import role, roles
from rldoctor.model import Edit
from rldoctor.plan.model import Source
from tests.frameworks.conftest import Launches

# examples/math/gsm8k_grpo.yaml of 1.0.4, shortened.
CONFIG = """\
seed: 1
cluster: {n_nodes: 1, n_gpus_per_node: 8}
rollout:
  backend: "sglang:d4p1t1"
  max_concurrent_rollouts: 256
  max_head_offpolicyness: 2
gconfig: {n_samples: 4, max_new_tokens: 1024, temperature: 1.0}
actor:
  backend: "fsdp:d4p1t1"
  path: Qwen/Qwen2.5-1.5B-Instruct
  mb_spec: {max_tokens_per_mb: 10240}
  temperature: ${gconfig.temperature}
  kl_ctl: 0.0
  ppo_n_minibatches: 1
ref: {backend: "${actor.backend}", path: "${actor.path}"}
sglang: {context_length: 32768, mem_fraction_static: 0.8, random_seed: "${seed}"}
vllm: {max_model_len: 16384, gpu_memory_utilization: 0.7, seed: "${seed}"}
train_dataset: {batch_size: 256, max_length: 1024}
"""
SCRIPT = "from areal.api.cli_args import {name}, load_expr_config\nconfig, _ = load_expr_config(args, {name})\n"


def test_the_configuration_by_itself(launches: Launches) -> None:
    (plan,) = launches({"grpo.yaml": CONFIG}, areal="1.0.4", vllm="0.11.0")
    assert (plan.framework, plan.value("rollout.backend"), plan.value("placement.mode")) == ("AReaL", "sglang", "async")
    assert (plan.value("engine.max_model_len"), plan.value("engine.gpu_memory_utilization")) == (32768, 0.8)
    assert (plan.value("placement.engine_gpus"), plan.value("placement.trainer_gpus")) == (4, 4)
    assert (plan.value("batch.generation"), plan.value("lengths.prompt")) == (1024, 1024)
    assert (plan.value("trainer.temperature"), plan.value("trainer.reference")) == (1.0, False)
    assert plan.unread == () and plan.unknown == ()


def test_the_file_tells_whose_a_script_is_that_is_not_at_hand(launches: Launches) -> None:
    run = "python3 examples/math/gsm8k_rl.py --config {} scheduler.type=local\n"
    (plan,) = launches({"run.sh": run.format("grpo.yaml"), "grpo.yaml": CONFIG}, areal="1.0.4")
    assert (plan.framework, plan.value("engine.max_model_len")) == ("AReaL", 32768)


def test_no_default_of_vllm_is_said_of_sglang(launches: Launches) -> None:
    (plan,) = launches({"grpo.yaml": CONFIG}, areal="1.0.4", vllm="0.11.0")
    defaults = {n: s for n, s in plan.settings.items() if n.startswith("engine.") and s.source is Source.DEFAULT}
    assert defaults and all(str(setting.key).startswith("sglang.") for setting in defaults.values())


def test_an_override_chooses_the_other_engine_and_its_section(launches: Launches) -> None:
    text = "python3 train.py --config grpo.yaml rollout.backend=vllm:d2t2 vllm.enforce_eager=true\n"
    files = {"run.sh": text, "grpo.yaml": CONFIG, "train.py": SCRIPT.format(name="GRPOConfig")}
    (plan,) = launches(files, areal="1.0.4", vllm="0.11.0")
    assert (plan.value("rollout.backend"), plan.value("engine.max_model_len")) == ("vllm", 16384)
    assert (plan.value("engine.tensor_parallel_size"), plan.value("placement.engines")) == (2, 2)
    assert plan.value("engine.enforce_eager") is True
    found = plan.get("engine.enable_prefix_caching")
    assert found is not None and (found.value, found.key) == (False, "vllm.no_enable_prefix_caching")
    assert plan.value("seed.engine") == 1


@pytest.mark.parametrize(("more", "requests"), [("", "none"), (" gconfig.seed=7", "same")])
def test_a_seed_of_the_samples_is_in_every_request(launches: Launches, more: str, requests: str) -> None:
    text = f"python3 train.py --config grpo.yaml{more}\n"
    files = {"run.sh": text, "grpo.yaml": CONFIG, "train.py": SCRIPT.format(name="GRPOConfig")}
    (plan,) = launches(files, areal="2.0.0")
    assert plan.value("seed.per_request") == requests


def test_one_text_for_all_devices_of_older_releases(launches: Launches) -> None:
    old = CONFIG.replace('  backend: "sglang:d4p1t1"\n', "").replace('  backend: "fsdp:d4p1t1"\n', "")
    (plan,) = launches({"grpo.yaml": old + "allocation_mode: sglang:d2t2+megatron:d1t4\n"}, areal="0.5.1")
    assert (plan.value("placement.engines"), plan.value("engine.tensor_parallel_size")) == (2, 2)
    assert (plan.value("trainer.strategy"), plan.value("parallel.tensor")) == ("megatron", 4)


@pytest.mark.parametrize(
    ("option", "size", "text"),
    [
        ("placement.engine_gpus", 2, "sglang:d2p1t1"),
        ("engine.tensor_parallel_size", 2, "sglang:d4p1t2"),
        ("parallel.context", 2, "fsdp:d4p1t1c2"),
    ],
)
def test_a_size_is_a_letter_of_the_allocation(launches: Launches, option: str, size: int, text: str) -> None:
    (plan,) = launches({"grpo.yaml": CONFIG}, areal="1.0.4")
    dialect = by_name("AReaL")
    assert dialect is not None
    spelling = dialect.spell(Edit(option=option, value=size), plan)
    assert spelling.write is not None and spelling.write.value is not None and text in spelling.write.value
    old = CONFIG.replace('  backend: "sglang:d4p1t1"\n', "").replace('  backend: "fsdp:d4p1t1"\n', "")
    (plan,) = launches({"grpo.yaml": old + "allocation_mode: sglang:d4p1t1+fsdp:d4p1t1\n"}, areal="0.5.1")
    other = "fsdp:d4p1t1" if text.startswith("sglang") else "sglang:d4p1t1"
    assert {*dialect.spell(Edit(option=option, value=size), plan).text.split(": ")[1].split("+")} == {text, other}


def test_an_unknown_key_is_reported_where_the_scripts_configuration_is_areals_own(launches: Launches) -> None:
    wrong = CONFIG.replace("n_samples: 4", "n_sample: 4")
    run = "python3 train.py --config grpo.yaml\n"
    own = SCRIPT.format(name="GRPOConfig")
    (plan,) = launches({"run.sh": run, "grpo.yaml": wrong, "train.py": own}, areal="1.0.4")
    assert [(option.key, option.nearest[0]) for option in plan.unknown] == [("gconfig.n_sample", "gconfig.n_samples")]
    further = "from areal.api.cli_args import GRPOConfig, load_expr_config\nclass Mine(GRPOConfig):\n    n: int = 1\n"
    script = further + "load_expr_config(args, Mine)\n"
    (plan,) = launches({"run.sh": run, "grpo.yaml": wrong, "train.py": script}, areal="1.0.4")
    assert plan.unknown == ()


def test_a_script_without_rollouts_is_no_launch_of_these(launches: Launches) -> None:
    files = {
        "run.sh": "python3 sft.py --config a.yaml\n",
        "a.yaml": "seed: 1\n",
        "sft.py": SCRIPT.format(name="SFTConfig"),
    }
    with pytest.raises(InputError, match=r"sft\.py is AReaL's, and none of its launches with a rollout engine"):
        launches(files)


@pytest.mark.parametrize(
    ("text", "backend", "devices"),
    [
        ("sglang:d4p1t1", "sglang", 4),
        ("vllm:d2t4", "vllm", 8),
        ("fsdp:d4c2", "fsdp", 8),
        ("d2t2", "", 4),
        ("megatron[actor]:d1t8", "megatron", 8),
        ("megatron:(attn:d1p4t2c2|ffn:d1p4t1e4)", "megatron", 16),
    ],
)
def test_the_letters_of_a_role(text: str, backend: str, devices: int) -> None:
    found = role(text)
    assert found is not None and (found.backend, found.devices) == (backend, devices)


@pytest.mark.parametrize("text", ["", "8 GPUs", "${actor.backend}", None, 4])
def test_what_is_no_role(text: object) -> None:
    assert role(text) is None and roles(text) == (None, None)


def test_a_section_of_the_release_is_known_without_its_script(launches: Launches) -> None:
    own = CONFIG.replace("n_samples: 4", "num_samples: 4") + "mine: {threshold: 3}\n"
    (plan,) = launches({"grpo.yaml": own}, areal="1.0.4")
    assert [(option.key, option.nearest[0]) for option in plan.unknown] == [
        ("gconfig.num_samples", "gconfig.n_samples")
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("attn_impl: sdpa", ""),
        ("attn_impl: paged_attention", ""),
        ("attn_impl: flsah_attention_2", "flsah_attention_2"),
    ],
)
def test_what_the_help_lists_is_no_limit(launches: Launches, text: str, value: str) -> None:
    (plan,) = launches({"grpo.yaml": f"{CONFIG}ref: {{{text}}}\n"}, areal="0.5.1")
    assert [one.value for one in plan.refused if one.key.endswith("attn_impl")] == ([value] if value else [])


@pytest.mark.parametrize(
    ("run", "release", "found"),
    [
        ("python3 -m areal.infra.launcher.local train.py", "1.0.4", ("replica", "turns")),
        ("python3 -m areal.launcher.local train.py", "0.5.1", ("replica", "turns")),
        # One process drives the servers, which all get the same arguments.
        ("python3 train.py", "1.0.4", ("same", "prompt")),
        ("python3 train.py", "0.5.1", (None, None)),
    ],
)
def test_seeds_of_servers(launches: Launches, run: str, release: str, found: tuple[str | None, str | None]) -> None:
    files = {"run.sh": f"{run} --config grpo.yaml\n", "grpo.yaml": CONFIG, "train.py": SCRIPT.format(name="GRPOConfig")}
    (plan,) = launches(files, areal=release)
    assert (plan.value("seed.per_replica"), plan.value("rollout.spread")) == found


def test_rays_launcher_counts_vllms_servers_twice(launches: Launches) -> None:
    run = "python3 -m areal.infra.launcher.ray train.py --config grpo.yaml rollout.backend=vllm:d4t1\n"
    files = {"run.sh": run, "grpo.yaml": CONFIG, "train.py": SCRIPT.format(name="GRPOConfig")}
    (plan,) = launches(files, areal="1.0.4", vllm="0.11.0")
    assert plan.value("seed.per_replica") is None and plan.value("rollout.spread") == "turns"


def test_a_configuration_by_itself_may_be_of_a_script_with_a_class_of_its_own(launches: Launches) -> None:
    wrong = CONFIG.replace("n_samples: 4", "n_sample: 4, entropy_clamp: 0.3")
    (plan,) = launches({"grpo.yaml": wrong}, areal="1.0.4")
    assert [(option.key, option.nearest[0]) for option in plan.unknown] == [("gconfig.n_sample", "gconfig.n_samples")]


def test_a_schedule_that_megatron_has_is_not_refused(launches: Launches) -> None:
    text = CONFIG.replace("  kl_ctl: 0.0\n", "  kl_ctl: 0.0\n  optimizer: {lr_scheduler_type: inverse-square-root}\n")
    (plan,) = launches({"grpo.yaml": text}, areal="1.0.4", vllm="0.11.0")
    assert plan.refused == ()
