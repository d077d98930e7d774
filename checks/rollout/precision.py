"""A precision or quantization that this engine, model or device does not take.

What it looks for
    In a launch file: bfloat16 on a device before Ampere, float16 for model families that overflow in it, a
    quantization method below its compute capability or with a precision that its kernels lack, and one that
    contradicts the model's own ``quantization_config``.
    In a log: vLLM's and FlashAttention's refusals, kernels that are not compiled for 8-bit floats on this device, and
    layers whose two sides have different precisions.

Why it hurts
    vLLM refuses to start. Where it does not, Triton fails in the first step that needs the kernel.

How sure it is
    The conditions are the engine's own, by release. A precision left at ``auto`` is judged only where the release does
    not choose another one by itself (before 0.9).

The fix and its cost
    float16 on older devices (a smaller range: watch for infinities in the loss), bfloat16 elsewhere, the method that
    the checkpoint was made with.

References
    ``vllm/platforms/cuda.py`` (``check_if_supports_dtype``), ``vllm/config`` (``_FLOAT16_NOT_SUPPORTED_MODELS``,
    ``_verify_quantization``) and ``vllm/model_executor/layers/quantization`` of 0.7.3, 0.8.5, 0.9.1, 0.10.2, 0.20.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    cite,
    plan_of,
    release,
    text_config,
)

from .precision_fixes import (
    DTYPE,
    ENGINE_IN_BFLOAT16,
    ENGINE_IN_FLOAT16,
    MODEL_IN_BFLOAT16,
    NO_FP8_CACHE,
    OTHER_ATTENTION,
    QUANTIZATION,
    RUN_IN_BFLOAT16,
    RUN_IN_FLOAT16,
    SMALLER_RANGE,
    own_method,
)
from .precision_limits import (
    AUTO_KNOWS_THE_DEVICE,
    BFLOAT16,
    FLOAT16,
    ONLY_FLOAT16,
    OVERFLOWS,
    least_capability,
    oldest_device,
)

check = Check("RLD218", "precision-unsupported", __doc__)


@check.declared(needs=[f"plan.{DTYPE}", "packages.vllm"])
def device_lacks_it(case: Case) -> Iterator[Finding | Reach]:
    """bfloat16 below compute capability 8.0."""
    plan, version = plan_of(case), release(case)
    dtype = str(plan.value(DTYPE, "auto")).lower()
    oldest = oldest_device(case)
    if oldest is None:
        raise NotChecked("the devices' compute capability is not known", how="--assume machine.json")
    wanted = dtype
    if dtype == "auto" and version is not None and version < AUTO_KNOWS_THE_DEVICE and case.model is not None:
        text = text_config(case.model.config)
        wanted = str(text.get("torch_dtype") or text.get("dtype") or case.model.config.get("torch_dtype") or "")
    if wanted not in BFLOAT16 or oldest >= 8.0:
        yield Reach(f"{dtype} on compute capability {oldest}")
        return
    yield check.finding(
        f"the engine is to run in bfloat16, which needs compute capability 8.0; the device has {oldest}",
        evidence=(*cite(plan, DTYPE), Evidence(text=f"compute capability {oldest}", source="GPU")),
        fixes=(replace(ENGINE_IN_FLOAT16, side_effects=SMALLER_RANGE),),
    )


@check.declared(needs=[f"plan.{DTYPE}", "model.config", "packages.vllm"])
def model_overflows(case: Case) -> Iterator[Finding | Reach]:
    """float16 for families that vLLM refuses in it."""
    plan, version = plan_of(case), release(case)
    kind = str(text_config(case.model.config).get("model_type", "")) if case.model else ""
    dtype = str(plan.value(DTYPE)).lower()
    if version is None or version < (0, 9) or dtype not in FLOAT16 or kind not in OVERFLOWS:
        yield Reach(f"{kind} in {dtype}")
        return
    yield check.finding(
        f"vLLM does not run {kind} in float16 (numerical instability)",
        evidence=cite(plan, DTYPE),
        fixes=(ENGINE_IN_BFLOAT16,),
    )


@check.declared(needs=[f"plan.{QUANTIZATION}", "packages.vllm"])
def method_does_not_fit(case: Case) -> Iterator[Finding | Reach]:
    """A quantization method against the device, the precision and the model."""
    plan, version = plan_of(case), release(case)
    method, dtype = str(plan.value(QUANTIZATION)).lower(), str(plan.value(DTYPE, "auto")).lower()
    if version is None:
        raise NotChecked("the vLLM release is not known")
    if method in ONLY_FLOAT16 and dtype in BFLOAT16:
        yield check.finding(
            f"quantization {method} runs in float16 alone, the engine is to run in bfloat16",
            evidence=cite(plan, QUANTIZATION, DTYPE),
            fixes=(ENGINE_IN_FLOAT16,),
        )
    least, oldest = least_capability(method, version), oldest_device(case)
    if least is not None and oldest is not None and oldest < least:
        yield check.finding(
            f"quantization {method} needs compute capability {least}, the device has {oldest}",
            evidence=cite(plan, QUANTIZATION),
            fixes=(Fix(title="take a checkpoint in float16, or one in a method that the device has kernels for"),),
        )
    yield Reach(f"quantization {method}")


@check.declared(needs=[f"plan.{QUANTIZATION}", "model.config"])
def checkpoint_is_another(case: Case) -> Iterator[Finding | Reach]:
    """The method asked for against the one that the checkpoint was made with."""
    plan = plan_of(case)
    asked = str(plan.value(QUANTIZATION)).lower()
    stated = case.model.config.get("quantization_config") if case.model else None
    made = str(stated.get("quant_method", "")).lower() if isinstance(stated, dict) else ""
    if not made:
        raise NotApplicable("the checkpoint states no quantization")
    families = [part for part in ("awq", "gptq", "fp8", "bitsandbytes", "compressed") if part in made]
    if not families or any(part in asked for part in families) or asked in ("marlin", "modelopt", "experts_int8"):
        yield Reach(f"quantization {asked}, checkpoint {made}")
        return
    yield check.finding(
        f"quantization {asked} is asked for, the checkpoint was made with {made}: vLLM refuses to start",
        evidence=(
            *cite(plan, QUANTIZATION),
            Evidence(text=f"quant_method: {made}", source=f"{case.model.path if case.model else ''}/config.json"),
        ),
        fixes=(own_method(made, Applicability.SAFE),),
    )


@check.logged("Bfloat16 is only supported on GPUs", "Your setup doesn't support bf16/gpu")
def bfloat16_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM and transformers on devices before Ampere."""
    has = event.search(r"Your (.{2,60}?) GPU has compute capability ([\d.]+)")
    device = f": {has[1]} has compute capability {has[2]}" if has else ""
    yield check.finding(f"bfloat16 needs a device of compute capability 8.0{device}", fixes=(RUN_IN_FLOAT16,))


@check.logged("does not support float16. Reason:")
def float16_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Families that overflow in float16."""
    kind = event.search(r"model type '([^']+)' does not support float16")
    yield check.finding(f"vLLM does not run {kind[1] if kind else 'this model'} in float16", fixes=(RUN_IN_BFLOAT16,))


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


@check.logged(
    "does not support fp8 kv-cache on this device",
    "FP8 KV cache is unsupported",
    "FP8 KV cache dtype is not supported",
    "fp8e4nv not supported in this architecture",
)
def eight_bits_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Kernels for 8-bit floats that this device or attention backend lacks."""
    yield check.finding(
        "this device or attention kernel has no 8-bit floating point",
        fixes=(NO_FP8_CACHE, Fix(title="or no fp8 weights")),
    )


@check.logged("): Unknown SF transformation")
def scales_not_known(case: Case, event: LogEvent) -> Iterator[Finding]:
    """DeepGEMM's own assertion, on devices whose scale layout it does not have (compute capability 12.0)."""
    yield check.finding(
        "DeepGEMM has no layout of fp8 block scales for this device",
        fixes=(
            Fix.unsafe("keep DeepGEMM out", {"env.VLLM_USE_DEEP_GEMM": "0"}, side_effects="other fp8 kernels"),
            Fix(title="or no fp8 block-scaled weights"),
        ),
        url="https://github.com/vllm-project/vllm/issues/51884",
    )


@check.logged(
    "FlashAttention only supports Ampere GPUs or newer", "FlashAttention only support fp16 and bf16 data type"
)
def flash_attention_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """FlashAttention's own conditions, mostly met by a trainer that loads the model in float32."""
    old = "Ampere" in event.literal
    yield check.finding(
        "FlashAttention needs a device of compute capability 8.0"
        if old
        else "FlashAttention gets float32: it takes float16 and bfloat16 alone",
        fixes=(OTHER_ATTENTION if old else MODEL_IN_BFLOAT16,),
    )


@check.logged("mat1 and mat2 must have the same dtype", "expected m1 and m2 to have the same dtype")
def layers_disagree(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A layer whose weights and inputs have different precisions."""
    kinds = event.search(r"same dtype, but got:? (\S+) (?:!=|and) (\S+)")
    yield check.finding(
        "a layer's weights and its input differ in precision" + (f": {kinds[1]} and {kinds[2]}" if kinds else ""),
        fixes=(
            Fix(title="load every part of the model (adapters, value head, vision tower) in one precision"),
            Fix(title="or run the forward pass under autocast (bf16: true)"),
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


@check.logged("Unsupported CPU attention configuration: ", "Supported head sizes are: ", "head_size not supported")
def head_size_unsupported(case: Case, event: LogEvent) -> Iterator[Finding]:
    """No attention kernel for the model's head size on this device."""
    size = event.search(r"head_dim=(\d+)|[Hh]ead size (\d+)|head_size[^\d\n]{1,20}(\d+)")
    width = f" {next(group for group in size.groups() if group)}" if size else ""
    yield check.finding(
        f"vLLM has no attention kernel here for the model's head size{width}",
        fixes=(
            Fix(title="take a model with a usual head size (64, 96, 128, 256; a test model too), or another device"),
            Fix(title="or another attention backend", commands=("VLLM_ATTENTION_BACKEND=TRITON_ATTN ...",)),
        ),
    )
