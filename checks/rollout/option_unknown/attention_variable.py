"""``VLLM_ATTENTION_BACKEND``, release by release: names that are gone, and then the variable itself.

Read from ``vllm/envs.py``, ``vllm/config/attention.py`` and the registry of attention backends of 0.11.2, 0.12.0,
0.13.0, 0.14.1, 0.15.1 and 0.17.0."""

from __future__ import annotations

from rldoctor.api import Fix, Severity

VARIABLE = "env.VLLM_ATTENTION_BACKEND"
# From the first on the value must be one of the registry's names, which no longer has these; from the second on nothing
# reads the variable.
NAMES_GONE, VARIABLE_GONE = (0, 12), (0, 15)
GONE = ("XFORMERS", "XFORMERS_VLLM_V1", "FLASH_ATTN_VLLM_V1", "TRITON_ATTN_VLLM_V1", "FLASHINFER_VLLM_V1")
URL = "https://github.com/vllm-project/vllm/issues/50292"


def verdict(asked: str, version: tuple[int, ...]) -> tuple[Severity, str] | None:
    """How bad it is that the variable has that value in that release, and why; None where the release takes it."""
    named = ".".join(map(str, version))
    if version >= VARIABLE_GONE:
        return Severity.WARNING, f"vLLM {named} does not read VLLM_ATTENTION_BACKEND: {asked} is not what runs"
    if version >= NAMES_GONE and asked in GONE:
        return Severity.ERROR, f"vLLM {named} has no attention backend {asked}: it refuses the variable's value"
    return None


def remedies(asked: str) -> tuple[Fix, ...]:
    """Without the variable the engine chooses; a backend that there still is can be asked for as an option."""
    unset = Fix.safe("let the engine choose", {VARIABLE: None})
    if asked in GONE:
        return (unset,)
    option = Fix.unsafe("or ask for it as an engine option", {"engine.attention_backend": asked})
    return unset, option
