"""The engine refuses the weights that the trainer sends: names, shapes, shards or precision do not fit.

What it looks for
    A trainer in 4 bits whose framework sends the packed weights to an engine that holds none (TRL before 0.26, ms-swift
    before 4.1). In a running engine: changed weights sent the way that the framework sends them, and whether a tensor
    of a wrong name or shape is refused. In a log: names that the engine's model does not have, shapes that do not fit,
    quantization scales of another layout, an update that begins while another one is open.

Why it hurts
    The first sync after the first step fails, when everything else has been paid for. Where shapes happen to fit, the
    engine samples from rounded or wrong weights and nothing is said.

How sure it is
    The engine names the parameter or both shapes. The names and shapes that are sent are those of the same model in
    transformers. The releases are those in which the frameworks began to tell the
    engine of the quantization.

The fix and its cost
    Names as vLLM's model has them: without PEFT's ``base_model.model.`` and ``.base_layer``, adapters merged or sent as
    adapters. Full precision in the trainer costs memory; adapters alone cost none.

References
    ``vllm/model_executor/models/utils.py`` (``There is no module or parameter named``), ``weight_utils.py``
    https://github.com/modelscope/ms-swift/pull/8350 (QLoRA, 4.1.0), https://github.com/huggingface/trl/issues/3466
    https://github.com/verl-project/verl/issues/2160, https://github.com/TIGER-AI-Lab/verl-tool/issues/125
    https://github.com/NovaSky-AI/SkyRL/issues/1605, https://github.com/NVIDIA-NeMo/RL/issues/2081
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, NotApplicable, Reach, Severity, cite, plan_of, version_within

check = Check("RLD401", "weight-sync-rejected", __doc__)

QUANTIZATION = "model.quantization"

# The releases that send packed 4-bit weights to an engine of full precision, by framework, and the first that do not.
PACKED = {
    "TRL": (">=0.16,<0.26", 'pip install "trl>=0.26"', "TRL 0.26 and later load the colocated engine in 4 bits too"),
    "ms-swift": (">=3.5,<4.1", 'pip install "ms-swift>=4.1"', "ms-swift 4.1 and later load the engine in 4 bits too"),
}


@check.declared(needs=[f"plan.{QUANTIZATION}", "plan.placement.mode"])
def packed_weights(case: Case) -> Iterator[Finding | Reach]:
    """A quantized policy whose own weights go to the engine."""
    plan = plan_of(case)
    versions, command, says = PACKED.get(plan.framework, ("", "", ""))
    sampling = plan.value("placement.mode") in ("colocate", "server")
    if not versions or plan.version is None or not sampling or plan.value(QUANTIZATION) != "4bit":
        raise NotApplicable("no 4-bit policy sends its weights to vLLM")
    if plan.value("engine.enable_lora") or not version_within(plan.version, versions):
        yield Reach("adapters alone are sent, or the engine is quantized too")
        return
    yield check.finding(
        f"the policy is held in 4 bits, and {plan.framework} {plan.version} sends its weights to an engine of full "
        "precision: packed shapes are refused, merged adapters are rounded",
        severity=Severity.WARNING,
        evidence=cite(plan, QUANTIZATION, "placement.mode", "lora.enabled"),
        fixes=(
            Fix(title=says, commands=(command,)),
            Fix.unsafe(
                "or train adapters on weights in full precision",
                {QUANTIZATION: None},
                side_effects="four times the memory for the weights",
            ),
        ),
        url="https://github.com/huggingface/trl/issues/3466",
    )
