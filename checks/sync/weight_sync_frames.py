"""Tells from the frames of a logged failure whether an engine was loading its own checkpoint or taking a trainer's
weights."""

from __future__ import annotations

import re

from rldoctor.api import LogEvent

# Functions through which an engine loads its own checkpoint, and those through which weights come from a trainer.
LOADING = frozenset({"load_model", "get_model", "_load_model"})
UPDATING = r"^(?:update_|sync_|receive_|broadcast_)|weight_update|named_param|collective_rpc"
# What stands around a failure that concerns weights at all.
SYNC_WORDS = (
    r"load_weights|update_weight|update_named_param|sync_weight|update_params|weight_loader|_load_module"
    r"|load_lora_weights"
)


def loads_its_checkpoint(event: LogEvent) -> bool:
    """Whether the engine was loading its own checkpoint: a matter of model files (RLD115), not of sync."""
    chain = event.exception.chain if event.exception is not None else ()
    functions = {frame.function for link in chain for frame in link.frames}
    return bool(functions & LOADING) and not any(re.search(UPDATING, function) for function in functions)
