"""RLD111: defects of releases, from the table."""

from __future__ import annotations

import re
from dataclasses import replace

from rldoctor_checks.environment.known_release import check

from rldoctor.api import Outcome, Severity
from rldoctor.judge import judge_one
from tests.cases import assumed, installed
from tests.logs.asking import finding, findings, raised
from tests.logs.raising import found, traceback
from tests.plans import case as planned
from tests.plans import judged

COLOCATE = {"framework": "TRL", "placement__mode": "colocate", "rollout__backend": "vllm"}


def test_trl_0_19_0_in_colocate_mode() -> None:
    (finding,) = judged(check, versions={"trl": "0.19.0"}, **COLOCATE).findings
    assert finding.severity is Severity.ERROR
    assert finding.fixes[0].commands == ("pip install 'trl>=0.19.1,<=0.29.1'",)
    assert finding.url == "https://github.com/huggingface/trl/issues/3633"


def test_the_fixed_release_and_another_use_are_quiet() -> None:
    assert judged(check, versions={"trl": "0.19.1"}, **COLOCATE).outcome is Outcome.PASS
    server = {**COLOCATE, "placement__mode": "server"}
    assert judged(check, versions={"trl": "0.19.0"}, **server).outcome is Outcome.PASS


def test_a_defect_that_another_check_judges_is_left_to_it() -> None:
    swift = {"framework": "ms-swift", "placement__mode": "colocate"}
    assert judged(check, versions={"ms-swift": "3.3.0"}, **swift).outcome is Outcome.PASS


ADAPTERS = {"framework": "ms-swift", "engine__enable_lora": True}


# https://github.com/modelscope/ms-swift/pull/7245
def test_a_defect_needs_the_releases_of_both_packages() -> None:
    (finding,) = judged(check, versions={"ms-swift": "3.11.0", "vllm": "0.12.0"}, **ADAPTERS).findings
    assert "lora_extra_vocab_size" in finding.message
    assert judged(check, versions={"ms-swift": "3.11.0", "vllm": "0.11.2"}, **ADAPTERS).outcome is Outcome.PASS
    assert judged(check, versions={"ms-swift": "3.12.0", "vllm": "0.12.0"}, **ADAPTERS).outcome is Outcome.PASS
    assert judged(check, versions={"ms-swift": "3.11.0"}, **ADAPTERS).outcome is Outcome.PASS


# https://github.com/verl-project/verl/issues/5607, https://github.com/verl-project/verl/pull/6620
def test_data_parallel_engines_of_verl_from_release_to_release() -> None:
    parallel = {"framework": "verl", "rollout__async_engine": True, "engine__data_parallel_size": 2}
    parallel["engine__enable_expert_parallel"] = False
    said = {
        version: [f.message for f in judged(check, versions={"verl": version}, **parallel).findings]
        for version in ("0.7.1", "0.8.0", "0.9.0")
    }
    assert "hangs" in said["0.7.1"][0] and "sockets" in said["0.8.0"][0] and said["0.9.0"] == []


def test_a_pass_counts_the_defects_of_the_packages_that_are_there() -> None:
    result = judged(check, versions={"trl": "0.19.1"}, **COLOCATE)
    assert re.fullmatch(r"none of \d+ known defects of trl", str(result.reason))


def test_a_defect_that_only_some_launches_show_waits_for_one() -> None:
    without = judge_one(check, installed({"trl": "0.19.0"}))
    assert without.outcome is Outcome.PASS
    assert re.search(r"; not judged: \d+ known defects? of trl without a launch file", str(without.reason))
    assert "without" not in str(judge_one(check, installed({"trl": "99.0"})).reason)


def test_an_engine_that_is_not_named_may_have_defects() -> None:
    result = judge_one(check, assumed(trl="0.19.0"))
    assert result.outcome is Outcome.NOT_CHECKED
    assert result.reason == "the assumed environment does not name vllm, transformers"


def test_a_defect_of_two_packages_waits_for_the_version_of_the_other() -> None:
    result = judge_one(check, assumed(ms_swift="3.11.0"))
    assert "of ms-swift without the version of vllm" in str(result.reason)


def test_without_a_package_that_has_defects_there_is_no_pass() -> None:
    unnamed = judge_one(check, assumed(numpy="2.0.0"))
    assert unnamed.outcome is Outcome.NOT_CHECKED
    assert unnamed.reason == "no package with known defects is named (--assume PACKAGE==VERSION)"
    assert judge_one(check, installed({"numpy": "2.0.0"})).outcome is Outcome.NOT_APPLICABLE


def test_a_withdrawn_release_is_a_note() -> None:
    (finding,) = judged(check, versions={"transformers": "4.57.0"}).findings
    assert finding.severity is Severity.NOTE


def test_a_version_that_is_none_is_not_judged() -> None:
    assert judged(check, versions={"trl": "nightly"}, **COLOCATE).outcome is Outcome.PASS


def test_the_defective_line_in_a_log() -> None:
    text = traceback(
        "TypeError: 'NoneType' object is not iterable",
        "trl/trainer/grpo_trainer.py _generate_and_score_completions",
        code="generation_kwargs.update(self.args.generation_kwargs)",
    )
    (finding,) = found(check, text)
    assert finding.message.startswith("trl==0.19.0: colocate mode merges generation_kwargs")


def test_words_that_a_users_own_generate_prints_too() -> None:
    error = "ValueError: The following `model_kwargs` are not used by the model: ['solution_rich'] (note: typos)"
    assert found(check, traceback(error, "transformers/generation/utils.py _validate_model_kwargs")) == []


OWN = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/opt/venv/lib/python3.12/site-packages/swift/cli/rlhf.py", line 5, in <module>
[rank0]:     rlhf_main()
[rank0]:   File "/opt/venv/lib/python3.12/site-packages/swift/llm/train/sft.py", line 32, in __init__
[rank0]:     if self.args.use_flash_ckpt:
[rank0]: AttributeError: 'RLHFArguments' object has no attribute 'use_flash_ckpt'
"""


def test_a_framework_reads_an_option_that_its_own_class_lacks() -> None:
    assert "use_flash_ckpt" in finding(check, OWN).message


def test_another_packages_options_are_no_defect_of_one() -> None:
    mixed = OWN.replace("swift/llm/train/sft.py", "trl/trainer/grpo_trainer.py")
    users = OWN.replace("/opt/venv/lib/python3.12/site-packages/swift/llm/train/sft.py", "/home/me/train.py")
    assert not findings(check, mixed)
    assert not findings(check, users)
    given = OWN.replace("swift/", "trl/").replace("RLHFArguments", "TrainingArguments")  # transformers'
    assert not findings(check, given)


def test_a_parser_that_does_not_make_an_option_of_its_own_script() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/issues/846
    parsed = OWN.replace("RLHFArguments", "Namespace")
    assert "use_flash_ckpt" in finding(check, parsed).message
    assert not findings(check, parsed.replace("/opt/venv/lib/python3.12/site-packages/swift/llm/train", "/home/me"))


def test_what_the_launch_s_framework_asks_for_has_to_be_named() -> None:
    def said(**versions: str) -> tuple[Outcome, str | None]:
        result = judge_one(check, replace(assumed(**versions), plan=planned(framework="verl").plan))
        return result.outcome, result.reason

    named = {"verl": "0.6.0", "vllm": "0.11.0", "transformers": "4.56.2"}
    assert said(**named) == (Outcome.NOT_CHECKED, "the assumed environment does not name ray")
    assert said(**named, ray="2.49.0")[0] is Outcome.PASS


def test_a_package_that_the_run_does_not_use_is_not_judged() -> None:
    beside = {"trl": "0.24.0", "unsloth": "2025.12.2"}
    assert judged(check, versions=beside, **COLOCATE).outcome is Outcome.PASS
    assert judged(check, versions={"unsloth": "2025.12.2"}, framework="unsloth").findings


def test_what_comes_along_with_a_framework_does_not_stand_for_it() -> None:
    plan = planned(framework="unsloth").plan
    named = {"vllm": "0.10.2", "transformers": "4.56.1", "trl": "0.22.2", "ray": "2.48.0", "unsloth_zoo": "2025.9.12"}
    result = judge_one(check, replace(assumed(**named), plan=plan))
    assert (result.outcome, result.reason) == (Outcome.NOT_CHECKED, "the assumed environment does not name unsloth")
    assert judge_one(check, replace(assumed(**named, unsloth="2025.9.9"), plan=plan)).outcome is Outcome.PASS


UCX = """\
[gpu-1:1520757:0:1520757] Caught signal 8 (Floating point exception: integer divide by zero)
==== backtrace (tid:1520757) ====
 0 0x0000000000042520 __sigaction()  ???:0
 1 0x0000000000aff921 {function}()  ???:0
=================================
"""


def test_cublas_that_divides_by_zero() -> None:
    # https://github.com/om-ai-lab/VLM-R1/issues/71
    found = finding(check, UCX.format(function="cublasLtMatmulAlgoCheck"))
    assert "cuBLAS" in found.message and any("12.4.5.8" in c for fix in found.fixes for c in fix.commands)
    assert findings(check, UCX.format(function="reward_parser_divide")) == []
    assert findings(check, "Floating point exception (core dumped)\n") == []


HYBRID = "/opt/venv/lib/python3.9/site-packages/deepspeed/runtime/hybrid_engine.py step"
CONTAINER = "/opt/venv/lib/python3.9/site-packages/deepspeed/module_inject/containers/opt.py attention"


def test_a_model_that_the_hybrid_engine_does_not_know() -> None:
    # https://github.com/deepspeedai/DeepSpeedExamples/issues/456, 448, 379; DeepSpeed issue 4302
    for log in (
        raised("IndexError", "list index out of range", HYBRID),
        raised("AttributeError", "'OPTAttention' object has no attribute 'kproj'", HYBRID, CONTAINER),
        "AttributeError: 'DeepSpeedHybridEngine' object has no attribute '_total_batch_size'\n",
        "in _unfuse_lora\n    weight.data -= lora_scaling * torch.matmul(lora_left_weight.t(), lora_right_weight.t())\n"
        "RuntimeError: The size of tensor a (64) must match the size of tensor b (128) at non-singleton dimension 0\n",
    ):
        assert "enable_hybrid_engine" in finding(check, log).fixes[0].title


def test_what_only_went_through_the_hybrid_engine() -> None:
    matmul = "/opt/venv/lib/python3.9/site-packages/torch/nn/functional.py linear"
    shapes = "mat1 and mat2 shapes cannot be multiplied (4x8 and 4x8)"
    assert findings(check, raised("RuntimeError", shapes, HYBRID, matmul)) == []
    assert findings(check, raised("torch.cuda.OutOfMemoryError", "CUDA out of memory.", HYBRID)) == []
    sizes = "The size of tensor a (64) must match the size of tensor b (128) at non-singleton dimension 0"
    assert findings(check, raised("RuntimeError", sizes, matmul)) == []


def test_a_message_that_refuses_what_it_asks_for() -> None:
    # https://github.com/huggingface/trl/issues/3885
    mode = "vllm_mode must be either 'server' or 'colocate', got '{}'."
    level = "importance_sampling_level must be one of 'token', 'sequence', but got 'token'"
    assert "vllm_mode is refused" in finding(check, raised("ValueError", mode.format("server"))).message
    assert "importance_sampling_level is refused" in finding(check, raised("ValueError", level)).message
    assert findings(check, raised("ValueError", mode.format("colocated"))) == []


WORKERS = "/home/me/verl/verl/workers/megatron_workers.py _build_rollout"


def test_a_variable_that_a_framework_gives_no_value() -> None:
    # https://github.com/verl-project/verl/pull/885
    for said in (
        "local variable 'rollout' referenced before assignment",
        "cannot access local variable 'rollout' where it is not associated with a value",
    ):
        assert "uses rollout without a value" in finding(check, raised("UnboundLocalError", said, WORKERS)).message
    assert findings(check, raised("UnboundLocalError", "local variable 'x' referenced before assignment")) == []
    generated = "/home/me/rl/unsloth_compiled_cache/UnslothGRPOTrainer.py compute_loss"
    assert (
        findings(check, raised("UnboundLocalError", "local variable 'x' referenced before assignment", generated)) == []
    )


def test_what_a_frameworks_own_class_lacks() -> None:
    # https://github.com/verl-project/verl/issues/157
    said = "'NVMegatronRayWorkerGroup' object has no attribute 'compute_log_prob'"
    fit, code = (
        "/home/me/verl/verl/trainer/ppo/ray_trainer.py fit",
        "old = self.actor_rollout_wg.compute_log_prob(batch)",
    )
    assert (
        "asks its own NVMegatronRayWorkerGroup"
        in finding(check, raised("AttributeError", said, fit, code=code)).message
    )
    mine = said.replace("NVMegatronRayWorkerGroup", "MyWorkerGroup")
    assert findings(check, raised("AttributeError", mine, fit, code=code)) == []
    assert findings(check, raised("AttributeError", said, code=code)) == []
