"""First releases of architectures and model types, and how they are read."""

from __future__ import annotations

from rldoctor.knowledge.registries import architecture_since, architectures, firsts, model_type_since, model_types


def test_the_shipped_table() -> None:
    assert architecture_since("Qwen3ForCausalLM") == "0.8.4"
    assert architecture_since("Qwen3VLForConditionalGeneration") == "0.11.0"
    assert architecture_since("LlamaForCausalLM") == "0"
    assert architecture_since("Qwen2ForCausalLMWithHead") is None
    assert model_type_since("qwen3") == "4.51.0"
    assert model_type_since("gpt_oss") == "4.55.0"


def test_registries_are_read_as_source() -> None:
    registry = (
        '_TEXT_GENERATION_MODELS = {"A": ("a", "A"), "B": ("b", "B")}\n_PREVIOUSLY_SUPPORTED_MODELS = {"C": "0.9"}\n'
    )
    assert architectures(registry) == {"A", "B"}
    auto = 'CONFIG_MAPPING_NAMES = OrderedDict([("qwen3", "Qwen3Config")])\nOTHER = [("x", "Y")]\n'
    assert model_types(auto) == {"qwen3"}


def test_what_the_oldest_release_has_was_always_there() -> None:
    releases = {"0.10.0": {"A", "B", "C"}, "0.9.1": {"A", "B"}, "0.8.5": {"A"}}
    assert firsts(releases) == {"A": "0", "B": "0.9.1", "C": "0.10.0"}
