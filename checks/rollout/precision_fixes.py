"""What brings an engine, a trainer's model or a checkpoint into a precision that its device and kernels take."""

from __future__ import annotations

from rldoctor.api import Applicability, Edit, Fix

DTYPE = "engine.dtype"
QUANTIZATION = "engine.quantization"
SMALLER_RANGE = "a smaller range of numbers; the trainer should use the same precision"

# Of a launch file, where engine and device are known.
ENGINE_IN_FLOAT16 = Fix(
    title="run the engine in float16",
    applicability=Applicability.SAFE,
    edits=(Edit(option=DTYPE, value="float16"),),
)
ENGINE_IN_BFLOAT16 = Fix(
    title="run the engine in bfloat16",
    applicability=Applicability.SAFE,
    edits=(Edit(option=DTYPE, value="bfloat16"),),
)
# Of a log, which does not always tell whether engine or trainer spoke.
RUN_IN_FLOAT16 = Fix(
    title="run in float16 on this device",
    applicability=Applicability.UNSAFE,
    edits=(Edit(option=DTYPE, value="float16"),),
    side_effects=SMALLER_RANGE,
)
RUN_IN_BFLOAT16 = Fix(
    title="run in bfloat16", applicability=Applicability.UNSAFE, edits=(Edit(option=DTYPE, value="bfloat16"),)
)
MODEL_IN_BFLOAT16 = Fix(
    title="load the model in bfloat16",
    applicability=Applicability.UNSAFE,
    edits=(Edit(option="model.dtype", value="bfloat16"),),
)
NO_FP8_CACHE = Fix(
    title="keep the KV cache in the model's precision",
    applicability=Applicability.UNSAFE,
    edits=(Edit(option="engine.kv_cache_dtype", value="auto"),),
    side_effects="twice the KV cache for each token",
)
OTHER_ATTENTION = Fix(
    title="use another attention implementation (sdpa)",
    applicability=Applicability.UNSAFE,
    edits=(Edit(option="model.attention", value="sdpa"),),
    side_effects="slower, more memory",
)


def own_method(made: str, applicability: Applicability) -> Fix:
    """The quantization that a checkpoint was ``made`` with, in place of the one that is asked for."""
    return Fix(
        title="take the checkpoint's own method",
        applicability=applicability,
        edits=(Edit(option=QUANTIZATION, value=made),),
    )
