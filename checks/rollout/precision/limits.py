"""Which precisions and quantization methods engines, model families and devices take."""

from __future__ import annotations

from rldoctor.api import Case

# What vLLM takes for its dtype (vllm/config, ModelDType), the same in all releases.
PRECISIONS = ("auto", "half", "float16", "bfloat16", "float", "float32")
BFLOAT16, FLOAT16 = ("bfloat16",), ("float16", "half")
# From here on "auto" takes the best precision that the device has.
AUTO_KNOWS_THE_DEVICE = (0, 9)
# Model families that vLLM refuses in float16, since they overflow in it.
OVERFLOWS = ("gemma2", "gemma3", "gemma3_text", "plamo2", "glm4")
# Methods whose kernels take float16 alone, in every release read; unnamed, awq and gptq are run by Marlin's.
ONLY_FLOAT16 = ("awq", "gptq", "marlin", "aqlm")
# Least compute capability: before 0.20 and since. Methods that are not named are not judged.
CAPABILITY = {
    "awq": (7.5, 7.5),
    "gptq": (6.0, 6.0),
    "awq_marlin": (8.0, 7.5),
    "gptq_marlin": (8.0, 7.5),
    "fp8": (8.0, 7.5),
    "fbgemm_fp8": (8.0, 8.0),
    "bitsandbytes": (7.0, 7.0),
}
MARLIN_ON_TURING = (0, 20)
# Methods that a checkpoint is made with, and the files that state how where its config.json does not
# (get_config_filenames, the same in every release read). Others quantize while they load.
STATED_IN = {
    **dict.fromkeys(("awq", "awq_marlin"), ("quant_config.json", "quantize_config.json")),
    **dict.fromkeys(("gptq", "gptq_marlin", "marlin"), ("quantize_config.json",)),
}


def least_capability(method: str, version: tuple[int, ...]) -> float | None:
    """The compute capability that a quantization method needs in a vLLM release; None where that is not judged."""
    least = CAPABILITY.get(method)
    return None if least is None else least[version >= MARLIN_ON_TURING]


def oldest_device(case: Case) -> float | None:
    """The least compute capability of the devices, None where none is known."""
    reported = (device.compute_capability for device in (case.gpus.devices if case.gpus else ()))
    return min((float(capability) for capability in reported if capability), default=None)
