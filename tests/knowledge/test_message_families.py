"""The pattern that a place in a package's source belongs to."""

from __future__ import annotations

import pytest

from rldoctor.knowledge.message_families import family_of
from rldoctor.tables.messages import Table
from tests.loaded import REGISTRY


@pytest.mark.parametrize(
    ("code", "where", "template"),
    [
        ("RLD107", "vllm: vllm.x", "FlashMLA needs compute capability {} or more"),
        ("RLD202", "vllm: vllm.config.C.verify", "max_num_batched_tokens ({}) must be >= max_num_seqs ({})."),
        (
            "RLD203",
            "vllm: vllm.v1.engine.x",
            "The {} prompt (length {}) is longer than the maximum model length of {}.",
        ),
        ("RLD205", "vllm: vllm.v1.core.x", "{} GiB KV cache is needed, more than {} GiB"),
        ("RLD206", "vllm: vllm.v1.worker.x", "Free memory on device ({}/{} GiB) is less than desired"),
        ("RLD208", "vllm: vllm.config.x", "Sleep mode is not supported on current platform."),
        ("RLD209", "vllm: vllm.config.x", "Total number of attention heads ({}) must be divisible by {}"),
        ("RLD209", "megatron-core: megatron.core.x", "num_layers should be divisible by pipeline_model_parallel_size"),
        ("RLD211", "verl: verl.utils.config.validate", "real_train_batch_size ({}) must be divisible by {}"),
        ("RLD212", "axolotl: axolotl.utils.schemas.validation.V.c", "deepspeed and fsdp cannot be used together."),
        ("RLD214", "vllm: vllm.lora.worker_manager.M.load", "{} is greater than {}"),
        ("RLD215", "trl: trl.data_utils.f", "The chat template applied to {} differs"),
        ("RLD218", "vllm: vllm.config._get_and_verify_dtype", "Unknown dtype: {}"),
        (
            "RLD610",
            "deepspeed: deepspeed.runtime.engine.E.load",
            "Client provided checkpoint load path: {} does not exist",
        ),
        ("RLD610", "torch: torch.serialization.load", "Expected input to be a checkpoint returned by torch.save"),
        ("RLD610", "torch: torch.distributed.checkpoint.state_dict_loader.local_step", ""),
        (
            "RLD902",
            "datasets: datasets.packaged_modules.json.json.Json._generate_tables",
            "Failed to convert {} from file",
        ),
        ("RLD301", "bitsandbytes: bitsandbytes.functional.is_on_gpu", "All input tensors need to be on the same GPU"),
        ("RLD218", "bitsandbytes: bitsandbytes.functional.q", "Blockwise quantization only supports 16/32-bit floats"),
        ("RLD112", "triton: triton.compiler.compiler.compile", "Unsupported conversion from {} to {}"),
        ("RLD902", "datasets: datasets.arrow_reader._rel_to_abs_instr", 'Unknown split "{}". Should be one of {}.'),
    ],
)
def test_what_its_words_and_place_make_certain(code: str, where: str, template: str) -> None:
    assert family_of(where, template, "ValueError") == code


@pytest.mark.parametrize(
    ("where", "template", "exception"),
    [
        ("vllm: vllm.v1.engine.core.E.step", "", "AssertionError"),
        ("trl: trl.trainer.x.T.__init__", "Unknown mode {}", "ValueError"),
        ("trl: trl.trainer.x.T.__init__", "transformers version 5.2.0 or higher has to be installed", "ImportError"),
        ("axolotl: axolotl.x", "gradient checkpointing fails here", "ValueError"),
        ("vllm: vllm.x", "FlashAttention has no head size {} on V0", "ValueError"),
        (
            "torch: torch.utils.checkpoint.check",
            "torch.utils.checkpoint: Recomputed values, on load",
            "CheckpointError",
        ),
        ("datasets: datasets.builder.f", "An error occurred while generating the dataset", "DatasetGenerationError"),
        ("datasets: datasets.utils.file_utils.xopen", "Server disconnected, cannot connect", "ConnectionError"),
        ("tensordict: tensordict.base.f", "Failed to serialize the metadata", "RuntimeError"),
        ("bitsandbytes: bitsandbytes.optim.adam.A", "Adam8bit does not support amsgrad=True", "ValueError"),
        ("torch: torch.distributed.checkpoint.state_dict.f", "a wrapper has no parameters", "RuntimeError"),
        ("torch: torch.distributed.x", "the arguments have the same DeviceMesh", "RuntimeError"),
    ],
)
def test_what_could_be_several_things_is_nobodys(where: str, template: str, exception: str) -> None:
    assert family_of(where, template, exception) is None


def test_most_places_have_no_family_and_every_code_exists() -> None:
    codes = set(REGISTRY.checks)
    rows = [row for package in ("vllm", "trl") for row, _ in list(Table.load(package).rows())[::40]]
    found = [family_of(f"{m.partition('.')[0]}: {m}.{f}", "{}".join(t.split("\x7f")[::2]), e) for m, f, e, t, _ in rows]
    assert {code for code in found if code is not None} <= codes
    assert 0.03 < sum(code is not None for code in found) / len(found) < 0.4
