"""A precision or quantization that this engine, model or device does not take.

What it looks for
    In a launch file: bfloat16 on a device before Ampere, float16 for model families that overflow in it, a
    quantization method below its compute capability or with a precision that its kernels lack, one that contradicts the
    model's own ``quantization_config``, and one that reads quantized weights where the checkpoint has none.
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
    ``check_if_supports_dtype``: https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/platforms/cuda.py,
    ``vllm/config`` (``_FLOAT16_NOT_SUPPORTED_MODELS``, ``_verify_quantization``) and
    ``vllm/model_executor/layers/quantization`` of 0.7.3, 0.8.5, 0.9.1, 0.10.2, 0.20.0.
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
    NotApplicable,
    NotChecked,
    Reach,
    cite,
    plan_of,
)
from rldoctor.api.engine import release
from rldoctor.api.models import text_config

from .fixes import DTYPE, ENGINE_IN_BFLOAT16, ENGINE_IN_FLOAT16, QUANTIZATION, SMALLER_RANGE, own_method
from .limits import (
    AUTO_KNOWS_THE_DEVICE,
    BFLOAT16,
    FLOAT16,
    ONLY_FLOAT16,
    OVERFLOWS,
    PRECISIONS,
    STATED_IN,
    least_capability,
    oldest_device,
)

check = Check("RLD218", "precision-unsupported", __doc__)


@check.declared(needs=[f"plan.{DTYPE}", "packages.vllm"])
def engine_knows_none_such(case: Case) -> Iterator[Finding | Reach]:
    """A precision that vLLM has no name for (vllm/config, ModelDType: the same in all releases)."""
    plan = plan_of(case)
    asked = str(plan.value(DTYPE)).lower().removeprefix("torch.")
    if plan.usual("rollout.backend", "vllm") != "vllm" or asked in PRECISIONS:
        yield Reach(f"the engine knows {asked}")
        return
    yield check.finding(
        f"vLLM knows no dtype {plan.value(DTYPE)}: it takes {', '.join(PRECISIONS)}",
        evidence=cite(plan, DTYPE),
        fixes=(ENGINE_IN_BFLOAT16,),
    )


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
def checkpoint_is_not_quantized(case: Case) -> Iterator[Finding | Reach]:
    """A method that reads quantized weights, on a checkpoint that says nothing of being quantized."""
    plan, model = plan_of(case), case.model
    asked = str(plan.value(QUANTIZATION)).lower()
    files = STATED_IN.get(asked)
    if model is None or files is None or plan.value("engine.hf_overrides"):
        raise NotApplicable(f"quantization {asked} needs no words of the checkpoint")
    stated = {"quantization_config", "compression_config"} & {*model.config, *text_config(model.config)}
    if stated or model.cached or not model.files or set(files) & set(model.files):
        yield Reach(f"quantization {asked}, and the checkpoint says how")
        return
    yield check.finding(
        f"quantization {asked} is asked for, and the checkpoint is not quantized: vLLM does not find how it was made",
        evidence=(
            *cite(plan, QUANTIZATION),
            Evidence(text=f"no quantization_config, no {' or '.join(files)}", source=f"{model.path}/config.json"),
        ),
        fixes=(
            Fix(title=f"take a checkpoint that was made with {asked}, or leave quantization out"),
            Fix.unsafe(
                "or quantize it while it loads", {QUANTIZATION: "fp8"}, side_effects="other outputs than in bfloat16"
            ),
        ),
    )


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
