"""The placement probe: what it tries, and what it records of real models on pretended devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldoctor.api import Case, NotApplicable
from rldoctor.api.probes import Request
from rldoctor.probes.placement import placement
from tests.observations import failed, imports_case, packages
from tests.probes.ranks import placement_case, plan

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 16,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
EXPERTS = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_hidden_layers": 48,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 1000,
}


def test_without_a_launch_only_what_every_launch_does() -> None:
    (alone,) = placement.jobs(Case(), Request()).values()
    (launched,) = placement.jobs(Case(plan=plan()), Request()).values()
    assert alone.arguments["placements"] == ["one device"]
    assert launched.arguments["placements"] == ["one device", "second device", "data parallel", "device map"]
    assert alone.environ == {"CUDA_VISIBLE_DEVICES": ""}


def test_where_transformers_cannot_be_imported_it_does_not_run() -> None:
    with pytest.raises(NotApplicable):
        placement.jobs(imports_case(packages(transformers="5.0"), transformers=failed()), Request())


def rows(case: Case) -> dict[str, dict[str, Any]]:
    reported = case.observations["placement"]["forward"]
    assert reported["ended"] == "done", reported["tail"][-5:]
    return {row["placement"]: row for row in reported["records"]["placements"]}


@pytest.mark.engine
@pytest.mark.parametrize("config", [None, LLAMA, EXPERTS], ids=["Qwen2", "Llama", "experts"])
def test_healthy_models_mix_nothing(patient: Path, config: dict[str, Any] | None) -> None:
    reported = rows(placement_case(patient, config=config, launch=plan()))
    each = ("one device", "second device", "data parallel")
    assert [reported[name]["ended"] for name in each] == ["done", "done", "done"]
    # Where accelerate is not installed there is no device map either.
    assert reported["device map"]["ended"] in ("done", "unavailable")
    assert reported["one device"]["operators"] > 100
    assert (
        reported["one device"]["architecture"]
        == (config or {"architectures": ["Qwen2ForCausalLM"]})["architectures"][0]
    )


@pytest.mark.engine
def test_a_tensor_made_on_the_host_is_found_with_its_line(patient: Path) -> None:
    row = rows(placement_case(patient, "host_buffer"))["one device"]
    assert (row["ended"], row["mixed"]["operator"]) == ("mixed", "aten.mul.Tensor")
    assert [device for device, _ in row["mixed"]["operands"]] == ["cuda:0", "cpu"]
    assert row["mixed"]["module"] == {"name": "model.layers.1.mlp", "class": "Qwen2MLP"}
    assert source_line(row).endswith("# host buffer")


@pytest.mark.engine
def test_a_device_in_the_code_is_found_where_it_is_another_one(patient: Path) -> None:
    reported = rows(placement_case(patient, "first_device", launch=plan()))
    assert reported["one device"]["ended"] == "done"
    for name in ("second device", "data parallel"):
        mixed = reported[name]["mixed"]
        assert [device for device, _ in mixed["operands"]] == ["cuda:1", "cuda:0"]
        assert mixed["module"]["name"] == "model.layers.0.input_layernorm"
        assert source_line(reported[name]).endswith("# first device")


def source_line(row: dict[str, Any]) -> str:
    frame = [frame for frame in row["mixed"]["frames"] if frame["package"] != "torch"][-1]
    return Path(str(frame["file"])).read_text().splitlines()[int(frame["line"]) - 1]
