"""What brings the names and releases of trainer and engine together, so that the weights that are sent are taken."""

from __future__ import annotations

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
MAPPED_ADAPTERS = Fix.unsafe(
    "train all weights, or adapters of a framework release that maps them for this architecture", {"lora.rank": 0}
)
