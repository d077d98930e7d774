"""RLD115: models that cannot be loaded, by their files, their architecture, and in a log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.environment.model_files import check

from rldoctor.api import Outcome, Severity
from rldoctor.api.facts import ModelFiles
from rldoctor.api.results import CheckResult
from rldoctor.flow.collect import launches
from rldoctor.flow.session import Options
from rldoctor.judge import judge_one
from tests.checks.launches import LaunchFile
from tests.logs.asking import finding, findings, raised
from tests.logs.raising import found, traceback
from tests.plans import case

GIB = 1 << 30
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
QWEN3_VL = {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "text_config": {}}
QWEN3_MOE = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 128}


def judged(config: dict[str, Any] | None = None, files: dict[str, int] | None = None, **versions: str) -> CheckResult:
    named = {name.replace("_", "-"): version for name, version in (versions or {"vllm": "0.11.0"}).items()}
    model = ModelFiles(path="model", config=config or {"model_type": "qwen2"}, files=files or {})
    return judge_one(check, replace(case(versions=named), model=model))


@pytest.mark.parametrize(
    ("model", "said"),
    [("'$MODEL'", "within single quotes"), ("'${MODEL}/chat'", "within single quotes"), ("$MODEL", ""), ("org/m", "")],
)
def test_a_variable_that_the_shell_leaves_as_it_is(model: str, said: str, tmp_path: Path) -> None:
    file = LaunchFile(tmp_path, f"MODEL=org/m\nswift rlhf --rlhf_type grpo --model {model}\n", {"ms-swift": "4.5.2"})
    assert [said in found.message for found in file.findings(check)] == ([True] if said else [])


def test_a_variable_in_a_file_that_no_shell_reads(tmp_path: Path) -> None:
    (tmp_path / "grpo.yaml").write_text("model_name_or_path: $MODEL\ndataset_name: d\n")
    (found,) = LaunchFile(tmp_path, "trl grpo --config grpo.yaml\n", {"trl": "0.24.0"}).findings(check)
    assert "no shell reads it there" in found.message
    assert (found.evidence[0].line, found.severity) == (1, Severity.WARNING)


def test_a_shard_is_missing() -> None:
    files = {f"model-{n:05}-of-00004.safetensors": GIB for n in (1, 2, 4)}
    (finding,) = judged(files=files).findings
    assert finding.message == "the model's weights are incomplete: no model-00003-of-00004.safetensors"


def test_pointers_of_git_lfs_are_no_weights() -> None:
    (finding,) = judged(files={"model.safetensors": 134}).findings
    assert "pointer of git LFS" in finding.message
    assert finding.fixes[0].commands == ("git lfs pull",)


def test_an_index_without_weights() -> None:
    (finding,) = judged(files={"model.safetensors.index.json": 9000}).findings
    assert "lists weights and the directory holds none" in finding.message


def test_the_values_of_a_message_and_not_the_names_of_its_source() -> None:
    text = traceback(
        "OSError: It looks like the config file at '/data/m/config.json' is not a valid JSON file.",
        "transformers/configuration_utils.py _get_config_dict",
        code="""raise OSError(f"It looks like the config file at '{path}' is not a valid JSON file.")""",
    )
    assert found(check, text)[0].message == "a config file of the model is not valid JSON: /data/m/config.json"


def test_what_a_cache_lacks_is_downloaded() -> None:
    for files in ({"model-00001-of-00002.safetensors": 1 << 30}, {"model.safetensors.index.json": 9}):
        model = ModelFiles(path="m", config={"model_type": "qwen2"}, files=files, cached=True)
        assert judge_one(check, replace(case(), model=model)).findings == ()


def test_a_directory_with_a_config_alone_is_no_pass() -> None:
    alone = judged(files={"config.json": 700})
    assert alone.outcome is Outcome.NOT_CHECKED
    assert "no weights lie in model (--model DIRECTORY with them)" in str(alone.reason)
    whole = judged(files={f"model-{n:05}-of-00002.safetensors": GIB for n in (1, 2)})
    assert whole.findings == ()
    assert "2 weight files of model" in str(whole.reason)


@pytest.mark.parametrize(
    ("config", "vllm", "severity"),
    [
        (QWEN3, "0.6.6", Severity.ERROR),  # no fallback yet
        (QWEN3, "0.8.3", Severity.WARNING),  # falls back to transformers
        (QWEN3_VL, "0.9.2", Severity.ERROR),
        (QWEN3_MOE, "0.8.3", Severity.ERROR),
    ],
)
def test_an_architecture_that_came_later(config: dict[str, Any], vllm: str, severity: Severity) -> None:
    (finding,) = judged(config, vllm=vllm).findings
    assert finding.severity is severity
    assert finding.fixes[0].commands[0].startswith("pip install 'vllm>=0.")


def test_an_architecture_that_is_there() -> None:
    for version in ("0.8.4", "0.8.5.post1", "0.11.0"):
        assert judged(QWEN3, vllm=version).outcome is not Outcome.FINDINGS
    assert judged({"architectures": ["MyOwnModel"]}, vllm="0.8.5").outcome is not Outcome.FINDINGS
    assert judged({**QWEN3, "auto_map": {"AutoModel": "m.M"}}, vllm="0.6.6").outcome is not Outcome.FINDINGS


def test_what_came_before_the_table_is_reported_as_such() -> None:
    llama = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    known = judged(llama, vllm="0.8.5", transformers="4.51.3")
    assert known.findings == ()
    assert "vLLM has LlamaForCausalLM since 0.6.3 or earlier" in str(known.reason)
    assert "transformers knows llama since 4.37.0 or earlier" in str(known.reason)


def test_a_release_before_the_table_and_a_build_of_no_release_are_not_judged() -> None:
    llama = {"architectures": ["LlamaForCausalLM"]}
    old = judged(llama, vllm="0.5.4")
    assert old.outcome is Outcome.NOT_CHECKED
    assert "the table of vLLM's architectures begins with 0.6.3, after 0.5.4" in str(old.reason)
    built = judged(QWEN3, vllm="0.1.dev1+gabcdef0")  # a clone without tags
    assert built.outcome is Outcome.NOT_CHECKED
    assert "is a development build" in str(built.reason)


def test_a_model_type_that_transformers_does_not_know_yet() -> None:
    (finding,) = judged(QWEN3, transformers="4.50.3").findings
    assert finding.message == "transformers 4.50.3 does not know the model type qwen3 (it came with 4.51.0)"
    assert judged(QWEN3, transformers="4.51.3").outcome is not Outcome.FINDINGS


# The shared logs of vLLM 0.32.0 and transformers 5.19, and older wordings.
@pytest.mark.parametrize(
    ("error", "frame", "said"),
    [
        (
            "OSError: It looks like the config file at 'm' is not a valid JSON file.",
            "transformers/x.py f",
            "not valid JSON",
        ),
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the "
            "cached files.",
            "transformers/utils/hub.py f",
            "the hub cannot be reached",
        ),
        (
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            "'namespace/repo_name': '/data/models/q'. Use `repo_type` argument if needed.",
            "huggingface_hub/utils/_validators.py f",
            "no such model directory",
        ),
        (
            "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete "
            "metadata, file "
            "not fully covered",
            "vllm/model_executor/model_loader/weight_utils.py f",
            "cut off",
        ),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
            "transformers/modeling_utils.py f",
            "HeaderTooLarge",
        ),
        (
            "RuntimeError: start (0) + length (320) exceeds dimension size (256).",
            "vllm/v1/worker/gpu_model_runner.py load_model",
            "320 in the config, 256 in the weights",
        ),
        (
            "AssertionError: Attempted to load weight (torch.Size([1024, 896])) into parameter "
            "(torch.Size([896, 896]))",
            "vllm/model_executor/model_loader/default_loader.py load_weights",
            "[896, 896] in the config, [1024, 896] in the weights",
        ),
        (
            "RuntimeError: The size of tensor a (896) must match the size of tensor b (1024) at non-singleton "
            "dimension 0",
            "vllm/model_executor/model_loader/default_loader.py load_weights",
            "896 in the config, 1024 in the weights",
        ),
        (
            "ValueError: Model architectures ['Qwen3VLForConditionalGeneration'] are not supported for now. Supported "
            "architectures: dict_keys(['A'])",
            "vllm/model_executor/models/registry.py f",
            "no implementation of Qwen3VLForConditionalGeneration (it came with 0.11.0)",
        ),
        (
            "ValueError: Qwen3VLForConditionalGeneration has no vLLM implementation and the Transformers "
            "implementation is "
            "not compatible with vLLM. Try setting VLLM_USE_V1=0.",
            "vllm/model_executor/model_loader/utils.py f",
            "it came with 0.11.0",
        ),
        (
            "ValueError: The checkpoint you are trying to load has model type `qwen3` but Transformers does not "
            "recognize "
            "this architecture.",
            "transformers/models/auto/configuration_auto.py f",
            "it came with 4.51.0",
        ),
        ("KeyError: 'qwen3'", "transformers/models/auto/configuration_auto.py __getitem__", "model type qwen3"),
        (  # https://github.com/modelscope/ms-swift/issues/9172
            "ValueError: Following weights were not initialized from checkpoint: {'visual.blocks.12.norm2.bias', 'x'}",
            "vllm/model_executor/model_loader/default_loader.py load_weights",
            "visual.blocks.12.norm2.bias",
        ),
    ],
)
def test_refusals_in_a_log(error: str, frame: str, said: str) -> None:
    (finding,) = found(check, traceback(error, frame))
    assert said in finding.message
    assert finding.fixes


@pytest.mark.parametrize(
    "text",
    [
        "WARNING: Error no file named chat_template.jinja found in directory m\nDONE\n",
        traceback("KeyError: 'qwen3'", "mylib/rewards.py score"),
        "WARNING Following weights were not initialized from checkpoint: {'lm_head.weight'}\nDONE\n",
        traceback("RuntimeError: start (0) + length (9) exceeds dimension size (3).", "torch/x.py narrow"),
        "completion: OSError: It looks like the config file at 'm' is not a valid JSON file.\nDONE\n",
    ],
)
def test_the_same_words_elsewhere_are_quiet(text: str) -> None:
    assert found(check, text) == []


def test_a_model_that_the_hub_does_not_have() -> None:
    error = (
        "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. (Request ID: Root=1-2)\n\n"
        "Repository Not Found for url: https://huggingface.co/api/models/Qwen/Qwen2.5-Foo."
    )
    (finding,) = found(check, traceback(error, "huggingface_hub/utils/_http.py hf_raise_for_status"))
    assert finding.message.startswith("there is no model Qwen/Qwen2.5-Foo on the hub")
    data = error.replace("api/models/", "api/datasets/")
    assert found(check, traceback(data, "huggingface_hub/utils/_http.py hf_raise_for_status")) == []


def test_a_hub_that_refuses_more_requests() -> None:
    error = (
        "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: "
        "https://huggingface.co/api/models/Qwen/Qwen2.5"
    )
    (finding,) = found(check, traceback(error, "huggingface_hub/utils/_http.py hf_raise_for_status"))
    assert "refuses further requests" in finding.message


@pytest.mark.parametrize(
    ("named", "lies", "fires"),
    [
        ("./Qwen2.5-7B-Instrct", "Qwen2.5-7B-Instruct", True),
        ("../models/mergd-1", "../models/merged-1", True),
        ("./checkpoint-200", "checkpoint-100", False),  # which the run may be about to make
        ("./merged", "merged-1", False),
        ("./Qwen2.5-7B-Instruct", "Qwen2.5-7B-Instruct", False),
        ("./checkpoints/step_100", "Qwen2.5-7B-Instruct", False),  # it may come later, or lie on the nodes
        ("/no/such/disk/model", "model", False),
        ("Qwen/Qwen2.5-7B-Instrct", "Qwen2.5-7B-Instruct", False),  # a name on the hub
    ],
)
def test_a_directory_that_is_called_otherwise(tmp_path: Path, named: str, lies: str, fires: bool) -> None:
    home = tmp_path / "run"
    (home / lies).mkdir(parents=True)
    (home / lies / "config.json").write_text("{}")
    (home / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path={named}\n")
    (one,) = launches(case(versions={"verl": "0.6.1", "vllm": "0.11.0"}), Options(target=home / "run.sh"))
    said = [f.message for f in judge_one(check, one).findings if "does not exist" in f.message]
    assert len(said) == fires


def test_a_tokenizer_of_a_later_release() -> None:
    error = "Exception: data did not match any variant of untagged enum ModelWrapper at line 757479 column 3"
    (finding,) = found(check, traceback(error, "transformers/tokenization_utils_fast.py __init__"))
    assert "ModelWrapper" in finding.message
    assert finding.fixes[0].commands == ("pip install --upgrade transformers tokenizers",)


def test_a_sentencepiece_model_that_is_cut_off() -> None:
    error = "RuntimeError: Internal: could not parse ModelProto from /models/llama/tokenizer.model"
    (finding,) = found(check, traceback(error, "sentencepiece/__init__.py LoadFromFile"))
    assert finding.message.endswith("/models/llama/tokenizer.model")


def test_a_weight_that_the_engines_class_has_no_place_for() -> None:
    # https://github.com/sgl-project/sglang/issues/4598, https://github.com/vllm-project/vllm/issues/23025
    key = "KeyError: 'model.layers.13.mlp.experts.w2_weight_scale'"
    (finding,) = found(check, traceback(key, "sglang/model_runner.py load_model", "sglang/models/m.py load_weights"))
    assert finding.message.endswith("model.layers.13.mlp.experts.w2_weight_scale")
    cut = traceback("KeyError: 'layers.1.mlp.experts.w13_weight'", "vllm/models/glm4_moe.py load_weights")
    (finding,) = found(check, cut + "ERROR 08-16 11:45:17 [core.py:632] EngineCore failed to start.\n")
    assert finding.message.endswith("layers.1.mlp.experts.w13_weight")
    # the same from a trainer's update is a matter of sync
    update = traceback(key, "sglang/runner.py update_weights_from_tensor", "sglang/models/m.py load_weights")
    assert found(check, update) == []


def test_a_reward_model_without_its_head() -> None:
    # https://github.com/hiyouga/LLaMA-Factory/issues/7706
    where = "/srv/LLaMA-Factory/src/llamafactory/model/loader.py load_model"
    found = finding(check, raised("AssertionError", "Reward model is not correctly loaded.", where))
    assert "value head" in found.message
    assert findings(check, "Reward model is not correctly loaded? It is: loaded.\n") == []


def test_a_model_that_scores_without_a_padding_token() -> None:
    said = "Cannot handle batch sizes > 1 if no padding token is defined."
    assert "pad_token_id" in finding(check, raised("ValueError", said)).fixes[0].title


@pytest.mark.parametrize("part", ["image_processor", "video_processor"])
def test_a_processor_that_did_not_load(part: str) -> None:
    error = ("AttributeError", f"'NoneType' object has no attribute '{part}'")
    plugin = "/opt/LLaMA-Factory/src/llamafactory/data/mm_plugin.py _regularize"
    assert f"{part} of it is asked for" in finding(check, raised(*error, plugin)).message
    assert findings(check, raised(*error)) == []


def test_a_file_that_is_named_last() -> None:
    # https://github.com/OptimalScale/LMFlow/issues/104
    said = "output/checkpoint-5000 does not appear to have a file named config.json."
    assert "output/checkpoint-5000, config.json" in finding(check, raised("OSError", said)).message
