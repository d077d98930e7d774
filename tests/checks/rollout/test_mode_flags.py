"""RLD212: settings of which the framework refuses the pair or drops one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rldoctor_checks.rollout.mode_flags import check

from rldoctor.api import Outcome
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from rldoctor.plan.model import Form, Given
from tests.checks.launches import LaunchFile
from tests.logs.raising import found, traceback
from tests.plans import case, edits, judged

SWIFT = {"framework": "ms-swift", "versions": {"ms-swift": "3.8.1"}}


def said(mode: str, becomes: str, version: str = "3.8.1", **settings: Any) -> CheckResult:
    """A launch that says one mode, of which the framework makes another."""
    reported = case("ms-swift", {"ms-swift": version}, placement__mode=becomes, **settings)
    given = Given(key="vllm_mode", value=mode, file="run.sh", line=7, form=Form.OPTION, option="placement.mode")
    assert reported.plan is not None
    return judge_one(check, replace(reported, plan=replace(reported.plan, given=(given,))))


def test_a_server_address_switches_swift_out_of_colocate() -> None:
    result = said("colocate", becomes="server", placement__server_host="127.0.0.1")
    assert "switches to server mode" in result.findings[0].message
    assert edits(result)[0] == {"placement.mode": "server"}


def test_swift_3_12_no_longer_switches() -> None:
    result = said("colocate", becomes="colocate", version="3.12.0", placement__server_host="127.0.0.1")
    assert "samples with an engine of its own" in result.findings[0].message


def test_a_server_without_an_address_becomes_colocate() -> None:
    assert "switches to colocate mode" in said("server", becomes="colocate").findings[0].message


def test_each_of_the_two_alone_is_quiet() -> None:
    assert judged(check, **SWIFT, placement__mode="colocate").outcome is Outcome.PASS
    assert said("server", becomes="server", placement__server_host="127.0.0.1").outcome is Outcome.PASS


def test_asynchronous_generation_needs_a_server() -> None:
    result = judged(check, **SWIFT, placement__mode="colocate", rollout__async=True)
    assert edits(result) == [{"rollout.async": False}]


def test_verl_frees_no_cache_under_cuda_graphs_before_0_5() -> None:
    both = {"engine__enforce_eager": False, "sleep__enabled": True}
    result = judged(check, versions={"verl": "0.4.1"}, **both)
    assert edits(result) == [{"engine.enforce_eager": True}]
    assert judged(check, versions={"verl": "0.5.0"}, **both).outcome is Outcome.PASS


def test_verl_0_7_has_no_synchronous_rollout() -> None:
    result = judged(check, versions={"verl": "0.7.0"}, rollout__async_engine=False)
    assert edits(result) == [{"rollout.async_engine": True}]
    assert judged(check, versions={"verl": "0.6.1"}, rollout__async_engine=False).outcome is Outcome.PASS


def test_nemo_trains_asynchronously_on_the_asynchronous_engine() -> None:
    nemo = {"framework": "NeMo-RL", "versions": {"nemo-rl": "0.5.0"}, "rollout__async": True}
    assert judged(check, **nemo, rollout__async_engine=False).outcome is Outcome.FINDINGS
    assert judged(check, **nemo, rollout__async_engine=True).outcome is Outcome.PASS


def test_the_frameworks_own_words() -> None:
    error = "AssertionError: async generate require vllm_mode == server, "
    (finding,) = found(check, traceback(error, "swift/llm/argument/rlhf_args.py _check_grpo"))
    assert [fix.title for fix in finding.fixes] == ["set vllm_mode to 'server'", "or leave async_generate off"]
    warning = "[WARNING:swift] set vllm_mode to `colocate` since vllm_server_host is not provided\nDONE\n"
    assert found(check, warning) == []


def test_trl_takes_one_of_two_ways_to_say_the_generation_batch() -> None:
    both = {"batch__generation": 32, "batch__steps_per_generation": 4}
    trl = {"framework": "TRL", "versions": {"trl": "0.24.0"}}
    assert judged(check, **trl, **both).outcome is Outcome.FINDINGS
    assert judged(check, **trl, batch__generation=32).outcome is Outcome.PASS


def test_a_framework_without_known_conflicts_is_left_to_the_validators() -> None:
    result = judged(check, framework="unsloth", versions={"unsloth": "2025.8.9"})
    assert result.outcome is Outcome.NOT_CHECKED
    assert result.reason == "the validators probe did not run"


def test_a_server_that_was_never_switched_on() -> None:
    # https://github.com/modelscope/ms-swift/issues/5185
    (only,) = found(check, traceback("AttributeError: 'GRPOTrainer' object has no attribute 'vllm_client'"))
    assert "without use_vllm" in only.message


def test_a_backend_without_the_synchronous_mode() -> None:
    # https://github.com/verl-project/verl/issues/4424
    (only,) = found(check, traceback("AssertionError: Rollout hf with mode sync not found"))
    assert "synchronous" in only.message


def test_deepspeed_and_the_trainer_disagree() -> None:
    error = (
        "ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:\n"
        "- ds gradient_accumulation_steps=1 vs hf gradient_accumulation_steps=8\n"
        "The easiest method is to set these DeepSpeed config values to 'auto'."
    )
    (finding,) = found(check, traceback(error, "transformers/integrations/deepspeed.py trainer_config_finalize"))
    assert "DeepSpeed gradient_accumulation_steps=1, trainer gradient_accumulation_steps=8" in finding.message


def test_megatron_wants_one_connection() -> None:
    error = (
        "RuntimeError: Using async gradient all reduce requires setting the environment variable "
        "CUDA_DEVICE_MAX_CONNECTIONS to 1"
    )
    (finding,) = found(check, traceback(error, "megatron/core/tensor_parallel/layers.py linear"))
    assert finding.fixes[0].edits[0].option == "env.CUDA_DEVICE_MAX_CONNECTIONS"


def test_what_the_installed_frameworks_own_class_refuses() -> None:
    given = Given(key="--num_generations", value=1, file="run.sh", line=3, form=Form.OPTION)
    refusal = {
        "type": "ValueError",
        "message": "GRPO requires at least 2 generations",
        "reads": ["num_generations"],
        "file": "trl/trainer/grpo_config.py",
        "line": 685,
        "function": "GRPOConfig.__post_init__",
        "condition": "self.num_generations < 2",
    }
    base = case("TRL", {"trl": "0.23.1"})
    assert base.plan is not None
    links = {"frameworks": [{"name": "trl", "version": "0.23.1", "validated": True, "refusal": refusal}]}
    one = replace(base, plan=replace(base.plan, given=(given,)), links=links)
    (finding,) = judge_one(check, one).findings
    assert finding.message == (
        "trl 0.23.1 refuses this in GRPOConfig.__post_init__: GRPO requires at least 2 generations"
    )
    assert [(e.source, e.line) for e in finding.evidence] == [("run.sh", 3), ("trl/trainer/grpo_config.py", 685)]
    assert [fix.title for fix in finding.fixes] == ["give num_generations a value of at least 2"]
    outside = {**refusal, "function": "", "file": "openrlhf/cli/train_ppo_ray.py"}  # of the program itself
    links = {"frameworks": [{"name": "openrlhf", "version": "0.9.9", "validated": True, "refusal": outside}]}
    (finding,) = judge_one(check, replace(one, links=links)).findings
    assert finding.message.startswith("openrlhf 0.9.9 refuses this in train_ppo_ray.py: ")
    links = {"frameworks": [{"name": "trl", "version": "0.23.1", "validated": True, "refusal": None}]}
    quiet = replace(one, links=links)
    assert judge_one(check, quiet).outcome is Outcome.PASS
    nowhere = replace(one, links={"frameworks": [{"name": "axolotl", "version": "1", "validated": False}]})
    assert "the argument classes" not in (judge_one(check, nowhere).reason or "")


def test_the_server_itself_needs_no_address(tmp_path: Path) -> None:
    swift = {"ms-swift": "4.5.2"}
    server = LaunchFile(tmp_path, "swift rollout --model org/m --vllm_tensor_parallel_size 2\n", swift, name="serve.sh")
    assert server.findings(check) == []
    trainer = "swift rlhf --rlhf_type grpo --model org/m --use_vllm true --vllm_mode server "
    assert LaunchFile(tmp_path, trainer + "--vllm_server_base_url http://a:8000\n", swift).findings(check) == []


def test_a_hook_of_rays_that_the_engine_hands_on() -> None:
    # https://github.com/NovaSky-AI/SkyRL/issues/1343
    error = (
        "AssertionError: The env var, __RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR, is not permitted because it is reserved "
        "for the internal use."
    )
    (only,) = found(check, traceback(error, "ray/_private/runtime_env/setup_hook.py export_setup_func_module"))
    assert only.fixes[0].edits[0].option == "engine.distributed_executor_backend"
    assert found(check, "WARNING: The env var, __RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR, is set\nDONE\n") == []


def test_frozen_and_trained_parameters_in_one_flat_one() -> None:
    # https://github.com/huggingface/peft/issues/1702, https://github.com/huggingface/transformers/issues/27744
    for said in (
        "`FlatParameter` requires uniform `requires_grad`",
        "Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",
        "Must flatten tensors with uniform requires_grad when use_orig_params=False",
    ):
        (only,) = found(
            check, traceback(f"ValueError: {said}", "torch/distributed/fsdp/flat_param.py _init_flat_param")
        )
        assert "fsdp_use_orig_params" in only.fixes[0].title
