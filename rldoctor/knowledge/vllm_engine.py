"""How a vLLM release resolves what it is asked: which engine generation runs, and whether prefill is chunked.

Read from ``vllm/engine/arg_utils.py`` and ``vllm/config`` of 0.6.3, 0.7.3, 0.8.0, 0.8.5, 0.9.1, 0.9.2, 0.10.0, 0.10.1,
0.10.2, 0.11.0, 0.11.1, 0.12.0, 0.13.0 and 0.20.0 on 2026-11-20."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.catalogue.scenario import MINIATURE
from rldoctor.records import dataclass
from rldoctor.versions import parsed

if TYPE_CHECKING:
    from rldoctor.plan.model import RolloutPlan

# Above this context a V0 engine on CUDA chunks prefill unasked.
V0_LONG_CONTEXT = 32768


@dataclass(frozen=True)
class Resolved:
    """What the engine makes of a question, and why; ``value`` is None where the case does not tell."""

    value: Any
    why: str


@dataclass(frozen=True)
class Fallback:
    """A request for which V1 gives way to V0 unasked, in releases from 0.8.0 to before ``until``."""

    until: tuple[int, ...]
    why: str
    holds: Callable[[RolloutPlan], bool]


ATTENTION_OF_V0 = ("XFORMERS", "TORCH_SDPA")

# `_is_v1_supported_oracle`; only what a rollout may ask for.
FALLBACKS = (
    Fallback((0, 10, 1), "num_scheduler_steps", lambda p: p.value("engine.num_scheduler_steps", 1) > 1),
    Fallback((0, 11), "preemption_mode", lambda p: p.value("engine.preemption_mode") is not None),
    Fallback((0, 11), "disable_async_output_proc", lambda p: p.value("engine.disable_async_output_proc") is True),
    Fallback((0, 9, 2), "scheduling_policy", lambda p: p.value("engine.scheduling_policy", "fcfs") != "fcfs"),
    Fallback((0, 9, 2), "dtype float32", lambda p: p.value("engine.dtype") == "float32"),
    Fallback((0, 11), "VLLM_ATTENTION_BACKEND", lambda p: p.value("env.VLLM_ATTENTION_BACKEND") in ATTENTION_OF_V0),
)
NEEDS_AMPERE_UNTIL = (0, 10, 2)


def release(case: Case) -> tuple[int, ...] | None:
    """The release numbers of the vLLM in the case, or None where there is none or its version is no version."""
    found = find(case.packages, "vllm") if case.packages is not None else None
    version = parsed(found.version) if found is not None else None
    return version.release if version is not None else None


def generation(case: Case) -> Resolved:
    """``V0`` or ``V1``: the engine that this vLLM runs under this plan and environment."""
    version = release(case)
    if version is None:
        return Resolved(None, "the vLLM release is not known")
    if version >= (0, 11):
        return Resolved("V1", "vLLM has no other engine from 0.11.0 on")
    if version < (0, 7):
        return Resolved("V0", "vLLM has no other engine before 0.7.0")
    if (booted := _booted(case)) is not None:
        return Resolved(booted, f"a {booted} engine came up")
    asked = case.variable("VLLM_USE_V1")
    if asked in ("0", "1"):
        return Resolved("V1" if asked == "1" else "V0", f"VLLM_USE_V1={asked}")
    if version < (0, 8):
        return Resolved("V0", "V0 is the default before vLLM 0.8.0")
    plan = case.plan
    for fallback in FALLBACKS if plan is not None else ():
        if plan is not None and version < fallback.until and fallback.holds(plan):
            return Resolved("V0", f"V1 of this release does not take {fallback.why}")
    if version < NEEDS_AMPERE_UNTIL and _oldest_capability(case) < 8.0:
        return Resolved("V0", "V1 of this release needs compute capability 8.0")
    return Resolved("V1", "V1 is the default from vLLM 0.8.0 on")


def chunked_prefill(case: Case) -> Resolved:
    """Whether prompts are prefilled in chunks: what was asked for, as this release takes it."""
    version, plan = release(case), case.plan
    if version is None or plan is None:
        return Resolved(None, "the vLLM release is not known")
    asked = plan.get("engine.enable_chunked_prefill")
    if asked is not None and asked.unknown is not None:
        return Resolved(None, asked.unknown)
    wanted = plan.value("engine.enable_chunked_prefill")
    engine = generation(case)
    if engine.value == "V1":
        # Up to 0.11.0 the default is set over whatever was asked for.
        if version < (0, 11, 1) or wanted is None:
            return Resolved(True, "V1 chunks prefill" + (" whatever it is asked" if wanted is False else " by default"))
        return Resolved(wanted, f"enable_chunked_prefill={wanted}")
    if wanted is not None:
        return Resolved(wanted, f"enable_chunked_prefill={wanted}")
    length = plan.value("engine.max_model_len")
    if length is None:
        return Resolved(None, f"max_model_len is not known, and V0 chunks prefill above {V0_LONG_CONTEXT}")
    if length > V0_LONG_CONTEXT:
        return Resolved(True, f"V0 chunks prefill for max_model_len {length} > {V0_LONG_CONTEXT} by default")
    return Resolved(False, f"V0's default up to max_model_len {V0_LONG_CONTEXT}")


def _booted(case: Case) -> str | None:
    """The engine that came up when a probe booted the launch's, whatever chose it. Not on the CPU: there it has neither
    the launch's precision nor its attention, and some releases have V0 alone."""
    engine = case.observations.get("rollout", {}).get(MINIATURE, {}).get("records", {}).get("engine", {})
    return engine.get("engine") if engine.get("device") == "cuda" else None


def _oldest_capability(case: Case) -> float:
    found = [float(g.compute_capability) for g in (case.gpus.devices if case.gpus else ()) if g.compute_capability]
    return min(found, default=99.0)
