"""How sleep mode fails in a log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent

from . import NEWER_PYTHON, URL, check

# A sample or a message that tells of it.
QUOTED = re.compile(r"""["'`]Fatal Python error""")


_STOP_SLEEPING = Fix(title="or switch sleep mode off (sleep_level 0, --vllm_enable_sleep left out)")


@check.logged("Fatal Python error: none_dealloc")
def interpreter_aborted(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Python's own words when the last reference to None is gone."""
    if QUOTED.search(event.line):
        return
    python = event.versions.get("python")
    yield check.finding(
        f"Python{f' {python}' if python else ''} freed None: the sleep allocator dropped one reference in every sleep "
        "and wake-up",
        fixes=(
            NEWER_PYTHON,
            _STOP_SLEEPING,
            Fix(title="or restart from a checkpoint every few hundred steps until then"),
        ),
        url=URL,
    )


# The engine's own conditions for sleep mode.
_SLEEP_OFF = Fix(title="switch sleep mode off (enable_sleep_mode=False, sleep_level 0)")
check.signature(
    "Sleep mode is not supported on current platform",
    "Sleep mode is only supported on CUDA devices",
    "cumem allocator is not available",
    says="sleep mode is not available in this build of vLLM or on this device",
    fixes=(_SLEEP_OFF,),
)
check.signature(
    "used for one instance per process.",
    says="two engines with sleep mode are built in one process",
    fixes=(_SLEEP_OFF,),
)
check.signature(
    "Memory usage increased after sleeping",
    says="memory on the device grew while the engine fell asleep: another process allocated meanwhile",
    fixes=(_SLEEP_OFF,),
)


# The sleep allocator maps memory where an earlier cycle left a mapping, or an error, behind.
check.signature(
    "CUDA Error: invalid argument at ",
    pattern=r"cumem_allocator\.cpp|create_and_map|unmap_and_release",
    says=(
        "the sleep allocator cannot map its memory again: an earlier sleep or wake-up failed half-way and left "
        "mappings behind"
    ),
    fixes=(
        Fix(title="look further up for the first error of a sleep or wake-up, which is mostly want of memory"),
        Fix(title="start the engine anew: this one does not come back"),
        _STOP_SLEEPING,
    ),
    url="https://github.com/vllm-project/vllm/issues/36651",
)


@check.logged("an illegal memory access was encountered", unless=("RotaryEmbedding",))
def fault_after_sleep(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Kernels that ran on memory which sleep had taken away, or wake-up had not given back everywhere."""
    around = "\n".join(event.before)
    asleep = "sleep freed" in around or "POST /sleep" in around or "Sleep mode freed" in around
    if not asleep and "wake up" not in around and "wake_up" not in around:
        return
    yield check.finding(
        "illegal memory access right after " + ("the engine fell asleep" if asleep else "the engine woke up"),
        fixes=(
            Fix(title="finish or abort every request before sleep() is called"),
            Fix(title="synchronize all ranks after wake_up before the next request is sent"),
            _STOP_SLEEPING,
        ),
        url="https://github.com/vllm-project/vllm/issues/28714",
    )


check.signature(
    "Cannot pause allocation that is not active",
    "Cannot resume allocation that is not paused",
    says="the engine is put to sleep or woken up twice: {line}",
    fixes=(Fix(title="let one caller sleep and wake the engine, once each and in turn"),),
    url="https://github.com/fzyzcjy/torch_memory_saver",
)

# The memory saver of SGLang, for CUDA's error 1 (want of memory is RLD206); the library ends the process.
check.signature(
    "[torch_memory_saver.cpp] CUresult error",
    pattern=r"CUresult error:?\s+(?:result=)?1\b[^\n]*?func=(?P<function>pause|resume)",
    says="SGLang's memory saver cannot {function} its memory: CUDA refuses what it asks for (invalid value), and the "
    "process ends",
    fixes=(
        Fix(title="take the newest torch_memory_saver that this SGLang allows"),
        Fix(title="pause and resume each kind of memory (weights, KV cache) once, and in turn"),
        Fix(title="or keep the engine's memory: no --enable-memory-saver (slime: no --offload)"),
    ),
    url="https://github.com/fzyzcjy/torch_memory_saver/issues/35",
)
