"""Since and until which release a package has a name."""

from __future__ import annotations

import pytest

from rldoctor.tables.symbols import Span, Table
from rldoctor.tables.symbols.columns import Names, columns
from rldoctor.tables.symbols.history import history, history_of


@pytest.mark.parametrize(
    ("package", "name", "specifier", "place"),
    [
        ("vllm", "vllm.sampling_params.GuidedDecodingParams", "<0.12", ""),
        # From 0.11 on a __getattr__ gives what moved, and 0.14 has that no more.
        ("vllm", "vllm.utils.FlexibleArgumentParser", "<0.14", "vllm.utils.argparse_utils"),
        ("vllm", "vllm.utils.get_open_port", "<0.14", "vllm.utils.network_utils"),
        ("vllm", "vllm.worker.worker_base.WorkerWrapperBase", "<0.11.1", "vllm.v1.worker.worker_base"),
        ("vllm", "vllm.v1.engine.utils", ">=0.9.2", ""),
        ("vllm", "vllm.LLM", "", ""),
        ("vllm", "vllm.engine.arg_utils.EngineArgs.device", "<0.10", ""),
        # A lazy package: the name is in no text of the package's own __init__.
        ("transformers", "transformers.AutoModelForVision2Seq", "<5.0", ""),
        ("transformers", "transformers.Qwen3ForCausalLM", ">=4.51.3", ""),
        # What frameworks import beside the engine.
        ("torch", "torch.distributed.fsdp.fully_shard", ">=2.6.0", ""),
        ("torch", "torch.float8_e8m0fnu", ">=2.7.1", ""),  # compiled: its stub tells
        ("torch", "torch.distributed.elastic.agent.server.api.log", "<2.4", ""),
        ("ray", "ray.experimental.channel.accelerator_context", ">=2.48.0", ""),
        ("huggingface-hub", "huggingface_hub.HfFolder", "<1.0", ""),
        ("datasets", "datasets.LargeList", ">=2.21.0", ""),
        ("megatron-core", "megatron.core.utils.get_tensor_model_parallel_group_if_none", ">=0.13.1", ""),
        ("megatron-core", "megatron.core.enums.ModelType.encoder_and_decoder", "<0.17", ""),
        # Patches are told apart, and a folder without __init__.py is a module.
        ("deepspeed", "deepspeed.runtime.zenflow", ">=0.17.5", ""),
        ("sglang", "sglang.srt.weight_sync", ">=0.4.9.post5", ""),
        ("sglang", "sglang.srt.utils.get_ip", ">=0.4.1.post7,<0.5.3", ""),
    ],
)
def test_names_whose_history_is_known(package: str, name: str, specifier: str, place: str) -> None:
    found = history_of(package, name)
    assert found is not None
    assert (found.specifier, found.place) == (specifier, place)


def test_a_history_is_a_sentence() -> None:
    assert str(history_of("vllm", "vllm.utils.get_open_port")).endswith(
        "or earlier to 0.13.0; 0.33.0 keeps it in vllm.utils.network_utils"
    )
    assert "vllm has it in 0.9.2 and later" in str(history_of("vllm", "vllm.v1.engine.utils"))
    assert str(history_of("vllm", "vllm.LLMX")).startswith("no vllm from 0.6.3")
    # It moved, and went from there too; it is in other modules, of which none has to be the one.
    assert str(history_of("trl", "trl.AutoModelForCausalLMWithValueHead")).endswith(
        "or earlier to 0.28.0; trl.experimental.ppo has it until 1.12.0"
    )
    assert "it is in vllm.model_executor.layers.sampler (0.6.3 to 0.10.2), vllm.v1.outputs (0.6.4 to " in str(
        history_of("vllm", "vllm.sequence.SamplerOutput")
    )


def test_what_no_table_speaks_about() -> None:
    assert history_of("flask", "flask.Flask") is None
    assert history_of("vllm", "vllm.no.such.module") is None
    # Of a library only what changed is kept: any release may have it, or none.
    assert history_of("torch", "torch.nn.Linear") is None
    assert history_of("torch", "torch.nn.NoSuchLayer") is None


def test_what_a_module_has_without_binding_it() -> None:
    # A module of a package is there whether or not the package binds it.
    found = history("huggingface-hub", "huggingface_hub.utils", "logging")
    assert found is not None and "in every release" in str(found)
    # All releases bind it, the module of that name is gone.
    assert history("ray", "ray.util.accelerators", "tpu") is None


def test_the_shipped_tables_are_small() -> None:
    assert sum(file.stat().st_size for file in Table.folder.iterdir()) < 1_700_000
    assert set(Table.packages()) >= {"vllm", "transformers", "trl", "verl", "peft", "accelerate"}


@pytest.mark.parametrize(
    ("star", "name", "specifier"),
    [
        ("*typing", "Any", ""),  # Python's own has it
        ("*typing", "Gone", "<2.0"),
        ("*elsewhere.names", "Gone", None),  # what another package has is in no table
    ],
)
def test_a_star_of_others_gives_what_they_have(star: str, name: str, specifier: str | None) -> None:
    names = {"": [[0, 1]], "*": [[1, 1]], star: [[1, 1]], name: [[0, 0]]}
    table = Table("engine", {"releases": ["1.0", "2.0"], **columns({"engine.tools": names})})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "load", lambda package: table)
        found = history("engine", "engine.tools", name)
    assert (found.specifier if found is not None else None) == specifier


def test_columns_give_back_what_went_in() -> None:
    names: Names = {
        "": [[0, 4]],
        "*engine": [[0, 4]],
        "*engine.tools": [[1, 1]],
        "Engine": [[0, 4]],
        "Engine.run": [[0, 1, "a,b="], [2, 4, "a,*,c="]],
        "Engine.stop": [[0, 0], [3, 4]],
        "Other.stop": [[0, 4]],
        "Other.start": [[0, 4, "**"]],
        "start": [[4, 4, "a"]],
    }
    table = Table("engine", {"releases": list("abcde"), **columns({"engine": names, "engine.empty": {"": [[1, 3]]}})})
    assert table.names("engine") == tuple(names)
    assert table.spans("engine", "Engine.run") == (Span("a", "b", "a,b="), Span("c", "e", "a,*,c="))
    assert table.spans("engine", "Engine.stop") == (Span("a", "a"), Span("d", "e"))
    assert table.homes("Other.start") == {"engine": (Span("a", "e", "**"),)}
    assert table.modules() == ("engine", "engine.empty") and table.spans("engine.empty") == (Span("b", "d"),)
    assert table.spans("engine.gone") == () and table.names("engine.gone") == () and table.homes("tart") == {}
