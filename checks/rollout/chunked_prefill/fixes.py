"""What keeps a V0 engine from the assertion."""

from __future__ import annotations

from rldoctor.api import Fix

LENGTHS = Fix(
    title="raise max_model_len, or lower min_tokens or the prompt limit, until prompt plus min_tokens fit: what does "
    "not fit is known to trigger the assertion",
)
V1 = Fix.unsafe("or move to the V1 engine, which has no such list", {"env.VLLM_USE_V1": "1"}, valid_for="vllm>=0.8")
