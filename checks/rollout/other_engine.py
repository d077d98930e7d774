"""A rollout engine other than vLLM (SGLang) fails in a way of its own.

What it looks for
    In a log of a framework that samples with SGLang: a pool of tokens that does not add up after a step, a server whose
    first request fails, a scheduler that answers no health check or raises in its own code, a watchdog that found one
    forward pass too long.
    What every engine shares (memory, cache, weights, devices) is told by the codes of those.

Why it hurts
    The engine's processes end each other by signals; the trainer sees refused connections, or waits.

How sure it is
    These are the engine's own words. An unanswered health check alone may be one long prompt: a warning.

The fix and its cost
    Another release of the engine, as the framework pins it; a longer limit for what is merely slow.

References
    https://docs.sglang.ai/advanced_features/server_arguments.html
    https://github.com/sgl-project/sglang/issues/22511
"""

from __future__ import annotations

from rldoctor.api import Check, Fix, LogEvent, Severity

check = Check("RLD221", "other-engine-failed", __doc__, before=("RLD606", "RLD607"))

_PINNED = Fix(title="take the SGLang release that the framework pins or names in its image, or a newer one of it")
_ARGUMENTS = "https://docs.sglang.ai/advanced_features/server_arguments.html"

check.signature(
    "token_to_kv_pool_allocator memory leak detected",
    "token_to_kv_pool memory leak detected",
    "req_to_token_pool memory leak detected",
    "ValueError: pool memory leak detected",
    says="SGLang's scheduler counts tokens of the KV cache that no request holds, and ends: a defect of this release",
    fixes=(
        _PINNED,
        Fix(
            title="or leave out what the release is new to: overlap scheduling (--disable-overlap-schedule), the radix "
            "cache (--disable-radix-cache), speculative decoding"
        ),
    ),
    url="https://github.com/sgl-project/sglang/issues?q=memory+leak+detected",
)
check.signature(
    "Initialization failed. warmup error: ",
    details=(r"(?m)^(?:\w+\.)*(?P<why>\w+(?:Error|Exception): [^\n]{1,160})",),
    says="SGLang's server came up, and its own first request failed[[ ({why})]]",
    fixes=(
        Fix(
            title="where the reason is a status 502 or 503, or a connection: keep the proxy away from the server",
            commands=("export no_proxy=localhost,127.0.0.1,$(hostname -i)",),
        ),
        Fix(title="else read what the scheduler's process wrote just before it"),
    ),
    url="https://github.com/sgl-project/sglang/issues/2193",
)
check.signature(
    "Server couldn't get a response from detokenizer for last",
    pattern=r"for last (?P<seconds>\d+) seconds",
    severity=Severity.WARNING,
    when=lambda case, event: event.count > 1 and not event.finished,
    says="SGLang answered no health check within {seconds} s: its scheduler is in one long step, or stands still",
    fixes=(
        Fix(
            title="where long prompts come in: give the check more time",
            commands=("export SGLANG_HEALTH_CHECK_TIMEOUT=120",),
        ),
        Fix(title="where it stands still: look at the scheduler's stack", commands=("rldoctor hang",)),
    ),
    url="https://github.com/sgl-project/sglang/issues/22511",
)
check.signature(
    "Watchdog timeout (self.watchdog_last_forward_",
    "cheduler watchdog timeout",
    says="SGLang's watchdog ended the engine: one forward pass took longer than it allows",
    fixes=(
        Fix(title="read what the scheduler's stacks in the log wait for: a collective waits for a rank that is gone"),
        Fix(title="or give slow passes more time: --watchdog-timeout 3600 (compilation, first use of kernels)"),
    ),
    url=_ARGUMENTS,
)

# What its scheduler raises in its own code has no code of its own where no other signature names the words.
check.signature(
    "in run_scheduler_process",
    exception=("RuntimeError", "AssertionError", "AttributeError", "IndexError", "KeyError", "TypeError", "ValueError"),
    unless=("out of memory", "CUDA error", "NCCL", "No available", "Not enough memory"),
    when=lambda case, event: _of_the_scheduler(event),
    general=True,
    says="SGLang's scheduler raised in its own code and ended: {error}",
    fixes=(_PINNED,),
    url="https://github.com/sgl-project/sglang/issues",
)


def _of_the_scheduler(event: LogEvent) -> bool:
    """Whether the process of SGLang's scheduler raised, in SGLang's own code."""
    runs = any(frame.function == "run_scheduler_process" and "/sglang/" in frame.file for frame in event.frames)
    return runs and "/sglang/" in event.frames[-1].file
