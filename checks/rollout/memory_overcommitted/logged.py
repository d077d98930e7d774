"""How a device without enough memory shows in a log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Edit, Finding, Fix, LogEvent

from . import check
from .fixes import smaller_micro_batches

_ENGINE_STAGES = ("start", "weights", "rollout", "weight sync")


_SMALLER_SHARE = 0.1


def _share(event: LogEvent) -> float | None:
    reported = event.search(
        r"gpu_memory_utilization['\"]?[=:]\s*(0?\.\d+|1(?:\.0+)?)\b|GPU memory utilization \((0?\.\d+|1\.0)"
    )
    return float(reported[1] or reported[2]) if reported else None


def _less_engine(event: LogEvent, free: float | None = None) -> Fix:
    """A smaller share for the engine: below what was free where that is known, else a step below what it had."""
    share = _share(event)
    target = free if free is not None else round(share - _SMALLER_SHARE, 2) if share and share > 0.2 else None
    return Fix(
        title="give the engine a smaller share of the device" + (f" (it had {share:g})" if share else ""),
        applicability=Applicability.UNSAFE,
        edits=(Edit(option="engine.gpu_memory_utilization", value=target or "SHARE"),),
        side_effects="a smaller KV cache: fewer sequences at a time, slower rollouts",
    )


_FREE_TRAINER = Fix(
    title="let the trainer give its memory back before the engine wakes up: parameters and optimizer offloaded, cached "
    "blocks freed (torch.cuda.empty_cache)",
    side_effects="time for the copies, host memory",
)


def _smaller_batch(case: Case, event: LogEvent) -> tuple[Fix, ...]:
    return tuple(smaller_micro_batches(event.incident.framework, case.plan, event.incident.stage))


@check.logged(
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDA Error: out of memory at",
    "HIP out of memory",
    "NPU out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Cuda failure 'out of memory'",
    "Cuda failure 2 'out of memory'",
    "CUDA driver error: out of memory",
)
def allocator_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``Tried to allocate 13.91 GiB. GPU 0 has a total capacity of 79.11 GiB of which 5.06 GiB is free``."""
    asked = event.search(r"Tried to allocate ([\d.]+ [KMG]iB)")
    card = event.search(r"GPU (\d+) has a total capacity of ([\d.]+ GiB) of which ([\d.]+ [KMG]iB) is free")
    # A process may have a limit of its own (torch.cuda.set_per_process_memory_fraction).
    allowed = event.search(r"([\d.]+ [KMG]iB) allowed;")
    stage = event.incident.stage
    message = f"the device is out of memory{f' during {stage}' if stage else ''}"
    if asked:
        message += f": {asked[1]} asked for"
    if allowed:
        message += f", where this process is allowed {allowed[1]} (set_per_process_memory_fraction)"
    elif card:
        message += f", {card[3]} of {card[2]} free on GPU {card[1]}"
    if event.ranks:
        message += f" (rank {', '.join(event.ranks[:4])})"
    engine = stage in _ENGINE_STAGES
    smaller, less = _smaller_batch(case, event), _less_engine(event)
    fixes = (less, _FREE_TRAINER, *smaller) if engine else (*smaller, less)
    yield check.finding(message, fixes=fixes, url="https://docs.vllm.ai/en/latest/configuration/conserving_memory.html")


def _stayed_asleep(case: Case, event: LogEvent) -> bool:
    """Whether no later wake-up succeeds in what the log still shows."""
    behind = "\n".join(event.run.tail).rpartition(event.literal)[2]
    return re.search(r"POST /wake_up HTTP/[\d.]+\" 200|seconds to wake up", behind) is None


# vLLM's engine tells its caller and goes on, without weights and cache (v1/engine/core.py).
check.signature(
    "Call to wake_up method failed: ",
    pattern=r"method failed: (?P<why>[^\n]{0,120}out of memory[^\n]{0,120})",
    when=_stayed_asleep,
    says="the engine could not wake up ({why}): it still answers, without its weights and its cache",
    fixes=lambda case, event, words: (_FREE_TRAINER, _less_engine(event)),
    silent=True,
    url="https://docs.vllm.ai/en/latest/features/sleep_mode.html",
)


# XLA, on TPUs: what a compiled program needs, and what an allocator had no room for.
check.signature(
    "RESOURCE_EXHAUSTED: ",
    pattern=r"RESOURCE_EXHAUSTED:[\s\S]{0,400}?(?:in memory space (?P<space>\w+)\. Used (?P<asked>[\d.]+[KMGT]?) of "
    r"(?P<total>[\d.]+[KMGT]?)|Attempting to (?:reserve|allocate) (?P<asked_2>[\d.]+[KMGT]?)[\s\S]{0,120}?There "
    r"are (?P<total_2>[\d.]+[KMGT]?) free|Out of memory (?:while trying to allocate|allocating) "
    r"(?P<asked_3>\d+) bytes)",
    says="the accelerator is out of memory[[ ({space})]]: {asked} asked for[[, {total} there]]",
    fixes=lambda case, event, words: (
        *_smaller_batch(case, event),
        _less_engine(event),
        Fix(title="or shard over more chips, and compute activations again in the backward pass (remat)"),
    ),
    url="https://docs.jax.dev/en/latest/gpu_memory_allocation.html",
)


# All that is left of it where the worker's own words are cut off.
check.signature(
    "RayTaskError(OutOfMemoryError): ",
    unless=("CUDA out of memory", "NPU out of memory", "HIP out of memory", "running low on memory", "Task was killed"),
    says="a worker of Ray ran out of device memory[[ in {function}]]; its own words are not in this log",
    details=(r"RayTaskError\(OutOfMemoryError\): ray::(?P<function>[\w.]+)\(\)",),
    fixes=lambda case, event, words: (*_smaller_batch(case, event), _less_engine(event)),
    url="https://docs.vllm.ai/en/latest/configuration/conserving_memory.html",
)


@check.logged("is less than desired GPU memory utilization")
def share_not_free(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM 0.9 and later compares at start: ``Free memory on device (3.22/4.0 GiB) on startup is less than
    desired``."""
    numbers = event.search(r"Free memory on device (?:\S+ )?\(([\d.]+)/([\d.]+) GiB\) on startup")
    if numbers is None:
        return
    free = int(float(numbers[1]) / float(numbers[2]) * 100 - 3) / 100
    yield check.finding(
        f"the engine is to take more than is free: {numbers[1]} of {numbers[2]} GiB are free when it starts",
        fixes=(
            _less_engine(event, free if free > 0.05 else None),
            Fix(title="or end what else is on the device (a trainer, an earlier run)", commands=("nvidia-smi",)),
        ),
        url="https://github.com/vllm-project/vllm/issues/25837",
    )


# Another process gave memory back while vLLM measured.
check.signature(
    "Error in memory profiling. Initial free memory",
    "Error in memory profiling. ",
    says="another process on the device changed its memory while the engine measured what is free",
    fixes=(
        Fix(
            title="start the engine while nothing else on the device allocates or frees: one after the "
            "other, with a barrier"
        ),
        Fix(
            title="or give the cache a fixed size, so that nothing is measured",
            edits=(Edit(option="engine.kv_cache_memory_bytes", value="SIZE"),),
            valid_for="vllm>=0.10.2",
        ),
    ),
    url="https://github.com/vllm-project/vllm/issues/56830",
)


_SMALLER_STATIC_SHARE = Fix(
    title="give SGLang a smaller static share: --mem-fraction-static (gpu_memory_utilization in verl), 0.1 less",
    side_effects="a smaller KV cache: fewer sequences at a time",
)

# The library ends the process: there is no exception, and the peers only see a closed connection.
check.signature(
    "[torch_memory_saver.cpp] CUresult error",
    pattern=r"CUresult error:?\s+(?:result=)?2\b",
    says="the engine cannot take its memory back when it wakes up: the trainer still holds it",
    fixes=(_FREE_TRAINER, _SMALLER_STATIC_SHARE),
    url="https://github.com/fzyzcjy/torch_memory_saver",
)
check.signature(
    "Capture cuda graph failed",
    "Capture CUDA graph failed",
    pattern=r"(?i)capture cuda graph failed:[^\n]*out of memory",
    says="SGLang has no memory left to capture CUDA graphs beside weights and KV cache",
    fixes=(
        _SMALLER_STATIC_SHARE,
        Fix(title="or capture graphs for smaller batches: --cuda-graph-max-bs", side_effects="slower large batches"),
    ),
    url="https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html",
)
check.signature(
    "The memory capacity is unbalanced. Some GPUs may be occupied",
    exception=("ValueError", "RuntimeError"),  # where the comparison is switched off it is a warning
    says="SGLang finds other processes on some of its devices: their free memory differs between ranks",
    fixes=(
        Fix(title="end what else is on these devices", commands=("nvidia-smi",)),
        Fix.unsafe(
            "or switch the comparison off, where the trainer's ranks load one after the other (newer releases: "
            "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0)",
            {"env.SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK": "True"},
        ),
    ),
    url="https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/model_executor/model_runner.py",
)


def _captures(event: LogEvent) -> bool:
    """Whether a CUDA graph was captured meanwhile, which no handle may be made in (RLD305)."""
    return any("during capture" in failure.message for failure in event.run.failures)


# The handle takes some MiB of the device; where no byte is left, this is the first that is refused.
check.signature(
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_NOT_INITIALIZED",
    pattern=r"CU(?P<library>BLAS|DNN)_STATUS_NOT_INITIALIZED",
    when=lambda case, event: not _captures(event),
    says="cu{library} cannot be set up on the device: mostly nothing of its memory is left for it",
    fixes=lambda case, event, words: (
        _less_engine(event),
        *_smaller_batch(case, event),
        Fix(
            title="where memory is free: look for a second CUDA library in front of torch's own",
            commands=("echo $LD_LIBRARY_PATH", "pip list | grep -i nvidia"),
        ),
    ),
    url="https://discuss.pytorch.org/t/cuda-error-cublas-status-not-initialized-when-calling-cublascreate-handle/125450",
)
