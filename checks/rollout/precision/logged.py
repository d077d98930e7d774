"""How engines refuse a number format."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Finding, Fix, LogEvent

from . import check
from .fixes import (
    MODEL_IN_BFLOAT16,
    NO_FP8_CACHE,
    OTHER_ATTENTION,
    QUANTIZATION,
    RUN_IN_BFLOAT16,
    RUN_IN_FLOAT16,
    own_method,
)

# vLLM and transformers on devices before Ampere.
check.signature(
    "Bfloat16 is only supported on GPUs",
    "Your setup doesn't support bf16/gpu",
    details=(r"Your (?P<gpu>.{2,60}?) GPU has compute capability (?P<capability>[\d.]+)",),
    says="bfloat16 needs a device of compute capability 8.0[[: {gpu} has compute capability {capability}]]",
    fixes=(RUN_IN_FLOAT16,),
)


# Families that overflow in float16.
check.signature(
    "does not support float16. Reason:",
    details=("model type '(?P<kind>[^']+)' does not support float16",),
    says="vLLM does not run {kind|this model} in float16",
    fixes=(RUN_IN_BFLOAT16,),
)


@check.logged(
    "is not supported for the current GPU. Minimum capability",
    "is not supported for quantization method",
    "does not match the quantization method specified in the",
)
def quantization_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The engine's tests of a quantization method."""
    only = event.search(r"(\S+) is not supported for quantization method (\w+)")
    other = event.search(r"in the model config \((\w+)\) does not match .{0,80}argument \((\w+)\)")
    least = event.search(r"quantization method (\w+) is not supported for the current GPU. Minimum capability: (\d+)")
    if only:
        message, fixes = f"quantization {only[2]} has no kernels for {only[1]}", (RUN_IN_FLOAT16,)
    elif other:
        own = own_method(other[1], Applicability.UNSAFE)
        message, fixes = f"the checkpoint was made with {other[1]}, quantization {other[2]} is asked for", (own,)
    elif least:
        other_model = Fix(title="take a checkpoint whose method the device has kernels for, or one in float16")
        message, fixes = f"quantization {least[1]} needs compute capability {int(least[2]) / 10}", (other_model,)
    else:
        return
    yield check.finding(message, fixes=fixes)


# Kernels for 8-bit floats that this device or attention backend lacks.
check.signature(
    "does not support fp8 kv-cache on this device",
    "FP8 KV cache is unsupported",
    "FP8 KV cache dtype is not supported",
    "fp8e4nv not supported in this architecture",
    says="this device or attention kernel has no 8-bit floating point",
    fixes=(NO_FP8_CACHE, Fix(title="or no fp8 weights")),
)


# DeepGEMM's own assertion, on devices whose scale layout it does not have (compute capability 12.0).
check.signature(
    "): Unknown SF transformation",
    says="DeepGEMM has no layout of fp8 block scales for this device",
    fixes=(
        Fix.unsafe("keep DeepGEMM out", {"env.VLLM_USE_DEEP_GEMM": "0"}, side_effects="other fp8 kernels"),
        Fix(title="or no fp8 block-scaled weights"),
    ),
    url="https://github.com/vllm-project/vllm/issues/51884",
)


# FlashAttention's own conditions, mostly met by a trainer that loads the model in float32.
check.signature(
    "FlashAttention only supports Ampere GPUs or newer",
    says="FlashAttention needs a device of compute capability 8.0",
    fixes=(OTHER_ATTENTION,),
)
check.signature(
    "FlashAttention only support fp16 and bf16 data type",
    says="FlashAttention gets float32: it takes float16 and bfloat16 alone",
    fixes=(MODEL_IN_BFLOAT16,),
)


# A layer whose weights and inputs have different precisions, in the words of torch's kernels. Other types than floats
# are a mistake of another kind.
check.signature(
    "mat1 and mat2 must have the same dtype",
    "mat1 and mat2 to have the same dtype, but got: ",
    "m1 and m2 to have the same dtype",
    "expected scalar type ",
    pattern=r"same dtype(?:, but got:? (?P<one>[\w:]+) (?:!=|and) (?P<other>[\w:]+))?"
    r"|expected scalar type (?P<other_2>(?:B?Float|Half|Double)\d*) but found (?P<one_2>(?:B?Float|Half|Double)\d*)",
    says="a layer's weights and its input differ in precision[[: {one} and {other}]]",
    fixes=(
        Fix(title="load every part of the model (adapters, heads, the vision part) in one precision, bfloat16"),
        Fix(title="or run the forward pass under autocast, as the trainer's own precision option does (bf16: true)"),
    ),
)


@check.logged("Unknown quantization method: ", "validation error for CacheConfig")
def name_unknown(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A name of a quantization or KV-cache type that this release does not have."""
    method = event.search(r"Unknown quantization method: ([\w-]+)\. Must be one of \[([^\]]*)")
    cache = event.search(r"cache_dtype\s+Input should be ([^\[]{1,400})\[type=literal_error, input_value=([^,\]]+)")
    if method:
        message, known = f"this vLLM has no quantization {method[1]!r}", method[2]
    elif cache:
        message, known = f"this vLLM has no KV-cache type {cache[2]}", cache[1]
    else:
        return
    option = QUANTIZATION if method else "engine.kv_cache_dtype"
    yield check.finding(
        message,
        fixes=(
            Fix(title=f"take one that it has: {known.strip()[:300]}"),
            Fix.unsafe("or none", {option: None if method else "auto"}),
        ),
    )


# No attention kernel for the model's head size on this device.
check.signature(
    "Unsupported CPU attention configuration: ",
    "Supported head sizes are: ",
    "head_size not supported",
    details=(r"head_dim=(?P<size>\d+)|[Hh]ead size (?P<size_2>\d+)|head_size[^\d\n]{1,20}(?P<size_3>\d+)",),
    says="vLLM has no attention kernel here for the model's head size[[ {size}]]",
    fixes=(
        Fix(title="take a model with a usual head size (64, 96, 128, 256; a test model too), or another device"),
        Fix(title="or another attention backend", commands=("VLLM_ATTENTION_BACKEND=TRITON_ATTN ...",)),
    ),
)


check.signature(
    "mixed precision requires a GPU (not",
    "mixed precision requires a GPU",
    pattern=r"(?P<kind>fp16|bf16|fp8) mixed precision requires",
    says="{kind} was asked for, and this process sees no GPU",
    fixes=(
        Fix(
            title="see why it sees none: CUDA_VISIBLE_DEVICES, the driver, a torch without CUDA",
            commands=('python -c "import torch; print(torch.version.cuda, torch.cuda.device_count())"',),
        ),
        Fix(title="or train without mixed precision", commands=("accelerate launch --mixed_precision no ...",)),
    ),
)
check.signature(
    "Must flatten tensors with uniform dtype but got",
    details=(r"uniform dtype but got (?P<one>\S+) and (?P<other>\S+)",),
    says="FSDP keeps parameters of one precision together, and this model has two[[: {one} and {other}]]",
    fixes=(
        Fix(title="load every part of the model (adapters, heads, quantization storage) in one precision"),
        Fix(title="quantized base: let bnb_4bit_quant_storage be the dtype that is trained in"),
    ),
    url="https://huggingface.co/docs/bitsandbytes/fsdp_qlora",
)
check.signature(
    "No dot product attention backend is available for the provided inputs",
    says="Transformer Engine has no attention kernel for these inputs on this GPU",
    fixes=(
        Fix(title="see which it left out, and why", commands=("NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2 ...",)),
        Fix(title="mostly flash-attn is missing or not of the release that it wants, or the dtype is float32"),
    ),
    url="https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/examples/attention/attention.html",
)
check.signature(
    "FlashAttention forward only supports head dimension at most",
    pattern=r"head dimension at most (?P<most>\d+)",
    says="FlashAttention has kernels for heads of at most {most}, and this model's are larger",
    fixes=(OTHER_ATTENTION,),
)


# vLLM asks every attention backend whether it can do what model, device and cache want.
check.signature(
    "is not valid for this configuration. Reason: ",
    "No valid attention backend found for ",
    pattern=r"Selected backend (?:\w+\.)?(?P<backend>\w+) is not valid for this configuration\. "
    r"Reason: (?P<why>[^\n]{1,200})"
    r"|No valid attention backend found for (?P<device>\w+)[\s\S]{0,600}?Reasons: (?P<why_2>[^\n]{1,300})",
    says="[[the attention backend {backend} cannot serve this model here||no attention backend can serve this model on "
    "{device}]]: {why}",
    fixes=(
        Fix(
            title="let the engine choose: leave VLLM_ATTENTION_BACKEND and --attention-backend out, or name one that "
            "the reasons do not rule out",
            commands=("unset VLLM_ATTENTION_BACKEND",),
        ),
        Fix(title="or take away what it lacks: an fp8 KV cache, float32, an unusual block size; else another device"),
    ),
    general=True,
    url="https://docs.vllm.ai/en/latest/design/attention_backends",
)
check.signature(
    "Sinks are only supported in FlashAttention 3",
    "attention sinks are only supported",
    "Attention sinks are only supported",
    says="the model has attention sinks (gpt-oss), and the attention backend that was taken has none on this GPU",
    fixes=(
        Fix.unsafe(
            "an attention backend that has them on every GPU",
            {"engine.attention_backend": "TRITON_ATTN"},
            side_effects="attention is slower than FlashAttention 3, which needs compute capability 9.0",
        ),
        Fix(title="or a later vLLM, which chooses it by itself", commands=("pip install --upgrade vllm",)),
    ),
    url="https://github.com/vllm-project/vllm/issues/22331",
)
