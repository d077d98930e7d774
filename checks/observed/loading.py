"""Whether weights that were refused came from a checkpoint, as an engine or a trainer loaded its model, or from a
trainer's update."""

from __future__ import annotations

import re

from rldoctor.api import LogEvent

# Functions through which an engine loads its own checkpoint, and those through which weights come from a trainer.
_LOADING = frozenset({"load_model", "get_model", "_load_model"})
_UPDATING = re.compile(r"^(?:update_|_update_w|sync_|receive_|broadcast_)|weight_update|named_param|collective_rpc")
# vLLM's and SGLang's words of an engine that did not come up; a traceback that was cut at its head holds no functions.
_NOT_UP = re.compile(r"(?:EngineCore|WorkerProc|Engine) failed to start|Loading safetensors checkpoint shards: ")


def loads_its_checkpoint(event: LogEvent) -> bool:
    """Whether a model was being loaded from its checkpoint (RLD115), not updated (RLD401): the innermost function that
    tells decides, as both go through the same remote calls."""
    chain = event.exception.chain if event.exception is not None else ()
    functions = [frame.function for link in reversed(chain) for frame in link.frames]
    for function in reversed(functions):
        if function in _LOADING:
            return True
        if _UPDATING.search(function):
            return False
    around = (*event.before, *event.after, *event.run.tail)
    return bool(functions) and any(_NOT_UP.search(line) for line in around)
