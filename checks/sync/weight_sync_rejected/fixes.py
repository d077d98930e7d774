"""What brings the names and releases of trainer and engine together, so that the weights that are sent are taken."""

from __future__ import annotations

import re

from rldoctor.api import Fix

NAMES = Fix(
    title="send names as the engine's model has them: merge the adapters first and strip base_model.model., "
    ".base_layer and modules_to_save, or send adapters to an engine with LoRA enabled",
)
RELEASES = Fix(
    title="bring framework, transformers and vLLM to releases that go together: renamed layers are mapped by the "
    "newer ones",
    commands=("rldoctor compat",),
)
# https://github.com/verl-project/verl/pull/6896
EXPERTS_APART = Fix(
    title="send each expert separately, as checkpoints have them: transformers 5 keeps a layer's experts in one tensor "
    "(verl 0.9 and later take it apart; else stay below transformers 5, where vLLM allows that)",
)
MAPPED_ADAPTERS = Fix.unsafe(
    "train all weights, or adapters of a framework release that maps them for this architecture", {"lora.rank": 0}
)

_IN_ONE_TENSOR = re.compile(r"\.experts\.(?:gate_up_proj|down_proj)\b")


def for_name(name: str) -> tuple[Fix, ...]:
    """What helps where the engine does not have a name that was sent."""
    return (EXPERTS_APART if _IN_ONE_TENSOR.search(name) else NAMES, RELEASES)
