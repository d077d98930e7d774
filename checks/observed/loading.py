"""Whether weights that were refused came from a checkpoint, as an engine or a trainer loaded its model, or from a
trainer's update."""

from __future__ import annotations

import re

from rldoctor.api import LogEvent

# Functions through which an engine loads its own checkpoint, and those through which weights come from a trainer.
_LOADING = frozenset({"load_model", "get_model", "_load_model"})
# vLLM's own, which read files; what a trainer sends goes to the model's ``load_weights`` directly.
_LOADERS = re.compile(r"/vllm/model_executor/model_loader/\w+_loader\.py$")
_UPDATING = re.compile(r"^(?:update_|_update_w|sync_|receive_|broadcast_)|weight_update|named_param|collective_rpc")
# vLLM's and SGLang's words of an engine that did not come up; a traceback that was cut at its head holds no functions.
_NOT_UP = re.compile(r"(?:EngineCore|WorkerProc|Engine) failed to start|Loading safetensors checkpoint shards: ")

# The layers of vLLM and SGLang compare shapes by a bare assertion; the code line is all there is.
COMPARES_SHAPES = (
    "assert param_data.shape == loaded_weight.shape",
    "assert self.data.shape == loaded_weight.shape",
    "assert param.data.shape == loaded_weight.shape",
    "assert param.size() == loaded_weight.size()",
    "assert loaded_weight.shape[output_dim] == self.org_vocab_size",
    "assert args[0].numel() == args[1].numel()",
)


def loads_its_checkpoint(event: LogEvent) -> bool:
    """Whether a model was being loaded from its checkpoint (RLD115), not updated (RLD401): the innermost function that
    tells decides, as both go through the same remote calls."""
    chain = event.exception.chain if event.exception is not None else ()
    frames = [frame for link in reversed(chain) for frame in link.frames]
    for frame in reversed(frames):
        if frame.function in _LOADING or _LOADERS.search(frame.file):
            return True
        if _UPDATING.search(frame.function):
            return False
    around = (*event.before, *event.after, *event.run.tail)
    return bool(frames) and any(_NOT_UP.search(line) for line in around)
