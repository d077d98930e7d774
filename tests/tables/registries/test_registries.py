"""First releases of architectures and model types, and how they are read."""

from __future__ import annotations

from rldoctor.refresh.registries import architectures, firsts, model_types
from rldoctor.tables.registries import First, architecture_since, model_type_since


def test_the_shipped_table() -> None:
    assert architecture_since("Qwen3ForCausalLM") == First("0.8.4")
    assert architecture_since("Qwen3VLForConditionalGeneration") == First("0.11.0")
    assert architecture_since("LlamaForCausalLM") == First("0.6.3", oldest=True)
    assert architecture_since("Qwen2ForCausalLMWithHead") is None
    assert model_type_since("qwen3") == First("4.51.0")
    assert model_type_since("gpt_oss") == First("4.55.0")


def test_what_releases_before_the_table_had_is_not_known() -> None:
    since = First("0.6.3", oldest=True)
    assert str(since) == "0.6.3 or earlier"
    assert since.known_to("0.6.3") is True and since.known_to("0.5.4") is None
    later = First("0.8.4")
    assert str(later) == "0.8.4"
    assert later.known_to("0.8.4") is True and later.known_to("0.8.3") is False and later.known_to("nightly") is None


def test_registries_are_read_as_source() -> None:
    registry = (
        '_TEXT_GENERATION_MODELS = {"A": ("a", "A"), "B": ("b", "B")}\n_PREVIOUSLY_SUPPORTED_MODELS = {"C": "0.9"}\n'
    )
    assert architectures(registry) == {"A", "B"}
    auto = 'CONFIG_MAPPING_NAMES = OrderedDict([("qwen3", "Qwen3Config")])\nOTHER = [("x", "Y")]\n'
    assert model_types(auto) == {"qwen3"}


def test_what_the_oldest_release_has_may_have_come_before() -> None:
    releases = {"0.10.0": {"A", "B", "C"}, "0.9.1": {"A", "B"}, "0.8.5": {"A"}}
    assert firsts(releases) == {"A": "0", "B": "0.9.1", "C": "0.10.0"}
