"""How engines refuse weights in a log."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent

from ...observed.loading import COMPARES_SHAPES, loads_its_checkpoint
from . import check
from .fixes import MAPPED_ADAPTERS, NAMES, RELEASES, for_name

# What stands around a failure that concerns weights at all.
SYNC_WORDS = (
    r"load_weights|update_weight|update_named_param|sync_weight|update_params|weight_loader|_load_module"
    r"|load_lora_weights"
)


@check.logged("There is no module or parameter named '")
def unknown_name(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM's AutoWeightsLoader; the same words come up when a checkpoint is loaded at start."""
    found = event.search(r"no module or parameter named '([^']+)' in (\w+)")
    if found is None or loads_its_checkpoint(event):
        return
    peft = found[1].startswith(("base_model", "lora_", "modules_to_save")) or "base_layer" in found[1]
    yield check.finding(
        f"the engine's {found[2]} has no parameter {found[1]!r}" + (": PEFT's names were sent" if peft else ""),
        fixes=for_name(found[1]),
        url="https://github.com/TIGER-AI-Lab/verl-tool/issues/125",
    )


# The engine's client and its executor repeat a KeyError's words without its name.
_REPEATED = r"collective_rpc method failed: (?:Worker failed with error ')?"


@check.logged("KeyError: '", "collective_rpc method failed: ")
def missing_key(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A model's own ``load_weights`` looks the name up in a dictionary."""
    error = event.exception
    found = event.search(
        rf"(?:KeyError: |{_REPEATED})"
        r"'((?:[\w-]+\.)*(?:weight|bias|base_layer\.\w+|qkv_proj\.\w+|weight_scale\w*|experts\.\w+))'"
    )
    if found is None or error is None or loads_its_checkpoint(event):
        return
    if not event.search(rf"{SYNC_WORDS}|{_REPEATED}"):
        return
    layered = "base_layer" in found[1] or "lora" in error.text.lower()
    yield check.finding(
        f"the engine's model has no parameter {found[1]!r}"
        + (": names of a model with adapters meet one without, or the other way round" if layered else ""),
        fixes=(NAMES, MAPPED_ADAPTERS, RELEASES) if layered else for_name(found[1]),
        url="https://github.com/verl-project/verl/issues/2160",
    )


# `default_weight_loader` compares the shapes.
check.signature(
    "Attempted to load weight (",
    pattern=(
        r"Attempted to load weight \(torch\.Size\((?P<sent>.+?)\)\) into parameter "
        r"\(torch\.Size\((?P<held>.+?)\)\)"
    ),
    when=lambda case, event: not loads_its_checkpoint(event),
    says="weights of shape {sent} do not fit the engine's parameter of shape {held}",
    fixes=(
        Fix(
            title="send whole tensors: gather all shards (FSDP, ZeRO-3, tensor parallel) without their padding, "
            "merge checkpoints with the release's own merger, no packed 4-bit weights",
        ),
        RELEASES,
    ),
    url="https://github.com/verl-project/verl/issues/834",
)


check.signature(
    *COMPARES_SHAPES,
    when=lambda case, event: (
        not (
            event.exception is None
            or not event.exception.type.endswith("AssertionError")
            or loads_its_checkpoint(event)
        )
    ),
    says=(
        "a weight of the update has another shape than the engine's parameter (packed 4-bit weights, shards, a "
        "resized vocabulary)"
    ),
    fixes=(
        Fix(title="send whole tensors in full precision, as many rows as the model's own vocabulary has"),
        RELEASES,
    ),
    url="https://github.com/modelscope/ms-swift/issues/6884",
)


# vLLM's protocol of start, chunks and finish (0.20 on), and SkyRL's of the same kind.
check.signature(
    "called while a weight update is already active",
    "start_weight_update must be called before ",
    "finish_weight_update called without a matching",
    "weight update is already active. Call ",
    says=(
        "two weight updates overlap, or one was never finished: start, all chunks and finish must come once for "
        "each sync"
    ),
    fixes=(
        Fix(title="let one rank start and finish the update, behind a barrier, and finish it also after an error"),
        Fix(title="a release of the framework that orders them", commands=("pip install --upgrade skyrl",)),
    ),
    url="https://github.com/NovaSky-AI/SkyRL/issues/1605",
)


# fp8 scales are laid out anew for DeepGEMM at every load, and no longer fit.
check.signature(
    "layer.weight_scale.data.copy_(",
    "maybe_post_process_fp8_weight_block",
    says="fp8 block scales of the update have another layout than the engine keeps (DeepGEMM on this GPU)",
    fixes=(
        Fix.unsafe("keep DeepGEMM out", {"env.VLLM_USE_DEEP_GEMM": "0"}),
        Fix.unsafe("or an engine of bfloat16 weights", {"engine.quantization": None}),
    ),
    url="https://github.com/NVIDIA-NeMo/RL/issues/2081",
)


# `shard_dim=0 is not a valid data dimension for a 3D tensor`: vLLM's loader of single experts.
check.signature(
    " is not a valid data dimension for a ",
    when=lambda case, event: "shard_dim=" in event.line and not loads_its_checkpoint(event),
    says=(
        "an expert's weight does not fit the engine's: the MoE kernel laid the experts out in blocks when they "
        "were loaded, or all experts were sent in one tensor"
    ),
    fixes=(
        Fix(
            title="a MoE kernel that keeps the checkpoint's layout (NeMo-RL's recipes take Triton)",
            commands=("--moe-backend triton",),
            side_effects="a slower kernel on Blackwell",
        ),
        RELEASES,
    ),
    url="https://github.com/verl-project/verl/pull/7987",
)


# After loading, some kernels lay weights out anew, in parameters that cannot be loaded again.
check.signature(
    "object has no attribute 'weight_loader'",
    "'Parameter' object has no attribute 'load_",
    when=lambda case, event: not loads_its_checkpoint(event),
    says=(
        "the engine laid its weights out anew after loading (quantized, CPU or fp8 kernels) and takes no update since"
    ),
    fixes=(
        Fix(title="run the engine in bfloat16 without quantization, on the device that the framework supports"),
        RELEASES,
    ),
)


def _in_update(case: Case, event: LogEvent) -> bool:
    """Whether weights from a trainer are being loaded, not the engine's own checkpoint."""
    return bool(event.search(SYNC_WORDS)) and not loads_its_checkpoint(event)


_WHOLE = Fix(
    title="send whole tensors: gather all shards (full_tensor() of a DTensor, FSDP.summon_full_params, "
    "GatheredParameters), without padding and without packed 4-bit weights"
)

check.signature(
    "Tried to load weights of size ",
    pattern=r"Tried to load weights of size torch\.Size\((?P<sent>.+?)\)\s*to a parameter of size "
    r"torch\.Size\((?P<kept>.+?)\)",
    when=_in_update,
    says="weights of shape {sent} do not fit the engine's parameter of shape {kept}",
    fixes=(_WHOLE, RELEASES),
)
check.signature(
    "exceeds dimension size (",
    pattern=r"start \((?P<start>\d+)\) \+ length \((?P<length>\d+)\) exceeds dimension size \((?P<size>\d+)\)",
    when=_in_update,
    says="a weight of the update has {size} rows where the engine's rank reads {length} from row {start}: a shard was "
    "sent where the whole tensor is expected, or twice divided",
    fixes=(_WHOLE, RELEASES),
)
check.signature(
    "must match the size of tensor b",
    pattern=r"size of tensor a \((?P<kept>\d+)\) must match the size of tensor b \((?P<sent>\d+)\)",
    when=lambda case, event: _in_update(case, event) and _copies(event),
    says="a weight of the update has another size ({sent}) than the engine's parameter ({kept})",
    fixes=(_WHOLE, RELEASES),
)
check.signature(
    "got mixed torch.Tensor and DTensor",
    when=_in_update,
    says="sharded tensors (DTensor) are copied into the engine's plain parameters",
    fixes=(_WHOLE,),
    url="https://docs.pytorch.org/docs/stable/distributed.tensor.html",
)
check.signature(
    "Failed to update parameter online: ",
    pattern=r"Failed to update parameter online: (?P<why>[^\n]{1,200})",
    says="SGLang refused an update half-way and holds a mixture of old and new weights: {why}",
    fixes=(NAMES, _WHOLE, RELEASES),
    url="https://github.com/sgl-project/sglang",
)


def _copies(event: LogEvent) -> bool:
    """Whether the innermost frame copies into a parameter."""
    return bool(event.frames) and "copy_(" in event.frames[-1].code
