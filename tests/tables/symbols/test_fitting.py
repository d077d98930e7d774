"""Which releases accept what is asked of a class or function."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rldoctor.tables.symbols.fitting import Request, accepting, exports, refused_by_all, taken_by_all


@pytest.mark.parametrize(
    ("package", "asked", "specifier"),
    [
        ("vllm", Request("argument", "EngineArgs.__init__", ("device",)), "<0.10"),  # a field of a dataclass
        ("trl", Request("argument", "GRPOConfig.__init__", ("vllm_mode",)), ">=0.18.0"),
        ("transformers", Request("argument", "Trainer.__init__", ("tokenizer",)), "<5.0"),
        ("vllm", Request("attribute", "LLM", ("get_world_size",)), ">=0.16.0"),
        # The module of the class moved; its history goes on.
        ("trl", Request("attribute", "VLLMClient", ("close_communicator",)), ""),
    ],
)
def test_the_last_stretch_that_accepts_it(package: str, asked: Request, specifier: str) -> None:
    found = accepting(package, asked)
    assert {one.specifier for one in found} == ({specifier} if specifier else set())


def test_a_release_that_accepts_it_explains_nothing() -> None:
    device = Request("argument", "EngineArgs.__init__", ("device",))
    assert accepting("vllm", device, "0.9.1") == ()
    assert [one.specifier for one in accepting("vllm", device, "0.11.0")] == ["<0.10"]


def test_what_every_release_takes_or_none_explains_nothing() -> None:
    assert accepting("vllm", Request("argument", "LLM.__init__", ("device",))) == ()  # it passes any keyword on
    assert accepting("vllm", Request("argument", "EngineArgs.__init__", ("no_such",))) == ()
    assert accepting("flask", Request("argument", "Flask.__init__", ("name",))) == ()


def test_what_a_package_gives_out() -> None:
    assert exports("vllm", "LLM", outside=True)
    assert exports("vllm", "GPUModelRunner") and not exports("vllm", "GPUModelRunner", outside=True)
    assert not exports("flask", "Flask")


def test_a_member_that_a_class_of_the_same_module_had_may_be_inherited() -> None:
    found = accepting("transformers", Request("attribute", "DynamicCache", ("get_usable_length",)))
    assert [one.specifier for one in found] == ["<4.54"]


def test_an_argument_that_no_release_read_takes() -> None:
    batches = Request("argument", "Accelerator.__init__", ("dispatch_batches",))
    refused = refused_by_all("accelerate", batches)
    assert refused is not None and str(refused).startswith("no accelerate from 1.0.0 to ")
    # Some release takes it, a dataclass has no signature of its own, and every trainer derives from another.
    assert refused_by_all("accelerate", Request("argument", "Accelerator.__init__", ("parallelism_config",))) is None
    assert refused_by_all("trl", Request("argument", "GRPOConfig.__init__", ("no_such",))) is None
    assert refused_by_all("accelerate", Request("attribute", "Accelerator", ("no_such",))) is None
    assert refused_by_all("flask", batches) is None


def test_an_argument_of_a_class_that_takes_its_fields_alone() -> None:
    beams = Request("argument", "SamplingParams", ("use_beam_search",))
    assert refused_by_all("vllm", beams) is None  # a signature of its own might take more
    assert refused_by_all("vllm", replace(beams, by_fields=True)) is not None


def test_an_argument_that_only_releases_before_the_table_refuse() -> None:
    found = taken_by_all("vllm", Request("argument", "EngineArgs.__init__", ("limit_mm_per_prompt",)))
    assert found is not None and found.wanted == f">={found.first}"
    assert taken_by_all("vllm", Request("argument", "EngineArgs.__init__", ("device",))) is None
    assert taken_by_all("vllm", Request("argument", "LLM.__init__", ("device",))) is None  # it passes any keyword on
