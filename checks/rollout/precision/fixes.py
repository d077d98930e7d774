"""What brings an engine, a trainer's model or a checkpoint into a precision that its device and kernels take."""

from __future__ import annotations

from rldoctor.api import Applicability, Edit, Fix

DTYPE = "engine.dtype"
QUANTIZATION = "engine.quantization"
SMALLER_RANGE = "a smaller range of numbers; the trainer should use the same precision"

# Of a launch file, where engine and device are known.
ENGINE_IN_FLOAT16 = Fix.safe("run the engine in float16", {DTYPE: "float16"})
ENGINE_IN_BFLOAT16 = Fix.safe("run the engine in bfloat16", {DTYPE: "bfloat16"})
# Of a log, which does not always tell whether engine or trainer spoke.
RUN_IN_FLOAT16 = Fix.unsafe("run in float16 on this device", {DTYPE: "float16"}, side_effects=SMALLER_RANGE)
RUN_IN_BFLOAT16 = Fix.unsafe("run in bfloat16", {DTYPE: "bfloat16"})
MODEL_IN_BFLOAT16 = Fix.unsafe("load the model in bfloat16", {"model.dtype": "bfloat16"})
NO_FP8_CACHE = Fix.unsafe(
    "keep the KV cache in the model's precision",
    {"engine.kv_cache_dtype": "auto"},
    side_effects="twice the KV cache for each token",
)
OTHER_ATTENTION = Fix.unsafe(
    "use another attention implementation (sdpa)", {"model.attention": "sdpa"}, side_effects="slower, more memory"
)


def own_method(made: str, applicability: Applicability) -> Fix:
    """The quantization that a checkpoint was ``made`` with, in place of the one that is asked for."""
    return Fix(
        title="take the checkpoint's own method",
        applicability=applicability,
        edits=(Edit(option=QUANTIZATION, value=made),),
    )
