"""A kernel read or wrote where it may not, or an assertion inside a kernel failed.

What it looks for
    In a log: CUDA's illegal memory access, misaligned address, device-side assertion, unspecified launch failure and
    illegal instruction.

Why it hurts
    The process has lost its device: every later CUDA call fails, and all other ranks wait for it.

How sure it is
    That a kernel failed is certain. Which one is not: CUDA reports asynchronously, so the traceback shows a later,
    innocent call (often ``empty_cache`` or a copy to the host). The assertion's own line, where there is one, names the
    kernel.

The fix and its cost
    First make the report exact: ``CUDA_LAUNCH_BLOCKING=1`` costs much speed, so on a short run. In a rollout engine,
    leave out one thing at a time: CUDA graphs, the attention backend, custom all-reduce, prefix caching.

References
    https://docs.vllm.ai/en/latest/usage/troubleshooting.html
    https://github.com/Agent-RL/ReCall/issues/54, https://github.com/PeterGriffinJin/Search-R1/issues/61
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, LogEvent

check = Check("RLD305", "cuda-kernel-fault", __doc__)

_EXACT = Fix.unsafe(
    "repeat a short run in which every kernel is waited for: the traceback then shows the one that fails",
    {"env.CUDA_LAUNCH_BLOCKING": "1"},
    side_effects="much slower, and no CUDA graphs",
)
_ENGINE = (
    Fix.unsafe("run the engine without CUDA graphs", {"engine.enforce_eager": True}, side_effects="slower decoding"),
    Fix.unsafe("and without the custom all-reduce kernel", {"engine.disable_custom_all_reduce": True}),
    Fix(title="or with another attention backend or release of vLLM"),
)
_INDEX = Fix(
    title="an index is out of bounds: compare token ids with the vocabulary, positions with the context, labels with "
    "the classes (on the CPU the same call names the value)"
)


_RANKS = Fix(
    title="judge the logs of all ranks together: the one that ended or stands first holds the cause",
    commands=("torchrun --log-dir LOGS --tee 3 ...", "rldoctor triage LOGS"),
)
_GAVE_UP = re.compile(r"DeepEP [^\n]{0,80}timeout")


@check.logged(
    "an illegal memory access was encountered",
    "CUDA error: misaligned address",
    "CUDA error: unspecified launch failure",
    "CUDA error: an illegal instruction was encountered",
    "CUDA error: invalid program counter",
    # The driver's own word for it says more.
    general=True,
)
def illegal_access(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A kernel beyond its memory."""
    if "unspecified launch failure" in event.line and any(
        _GAVE_UP.search(line) for line in (*event.before, *event.run.tail)
    ):
        yield check.finding(
            "a kernel of DeepEP ended itself after it had waited for another rank in vain: that rank's log says why",
            fixes=(_RANKS,),
            url="https://github.com/deepseek-ai/DeepEP/pull/181",
        )
        return
    kind = event.search(
        r"(illegal memory access|misaligned address|unspecified launch failure|illegal instruction|invalid program \w+)"
    )
    engine = event.search(r"vllm|generate_sequences|rollout|execute_model")
    yield check.finding(
        f"a CUDA kernel failed: {kind[1] if kind else 'fault'}"
        + (", in or after the rollout engine's work" if engine else ""),
        fixes=(_EXACT, *_ENGINE) if engine else (_EXACT,),
        url="https://docs.vllm.ai/en/latest/usage/troubleshooting.html",
    )


@check.logged("CUDA error: device-side assert triggered")
def device_assertion(case: Case, event: LogEvent) -> Iterator[Finding]:
    """An assertion inside a kernel; the line before it says which."""
    said = next((line for line in reversed(event.before) if "Assertion `" in line), None)
    words = said.partition("Assertion `")[2].partition("`")[0] if said else ""
    if words.startswith("probability tensor contains"):
        return  # no index, and no fault of the kernel (RLD404, RLD504)
    yield check.finding(
        f"an assertion inside a CUDA kernel failed{f': {words}' if words else ''}",
        fixes=(_INDEX, _EXACT),
        url="https://docs.vllm.ai/en/latest/usage/troubleshooting.html",
    )


# The driver's own report of a fault, by its number; without one where it finds the device gone as it loads, and what
# nvidia-smi says of such a device.
check.signature(
    "uncorrectable ECC error encountered",
    "NVRM: Xid (PCI:",
    "GPU has fallen off the bus",
    "fallen off the bus and is not responding to commands",
    "Unable to determine the device handle for GPU",
    details=(
        r"Xid \(PCI:(?P<device>[\w:.]+)\): (?P<number>\d+)",
        r"device handle for GPU ?(?P<lost>[0-9A-Fa-f:.]{7,20}): (?P<why>[^\n]{1,60})",
    ),
    # A count of them that is none.
    unless=("encountered: 0", "encountered = 0"),
    says="a GPU failed[[: Xid {number} on {device}]][[: {lost} does not answer ({why})]]",
    fixes=(
        Fix(
            title="look the number up; take the GPU (ECC, fallen off the bus) or node out and have it reset",
            commands=("dmesg -T | grep -i xid", "nvidia-smi -q -d ECC"),
        ),
    ),
    url="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


check.signature(
    "] Assertion `",
    "failed, thread: ",
    # An editor's or a pager's window may end before the assertion does.
    pattern=r"\.cu:\d+: [^\n]{0,200}Assertion `(?P<words>[^`'\n]{1,120}?)(?:[`'] failed|\$?(?:\n|$))",
    unless=("srcIndex < srcSelectDimSize", "probability tensor contains"),
    says="an assertion inside a CUDA kernel failed: {words}",
    fixes=(_INDEX, _EXACT),
    silent=True,
    url="https://docs.vllm.ai/en/latest/usage/troubleshooting.html",
)
check.signature(
    "WithPagedKVCache failed with error ",
    "WithRaggedKVCache failed with error ",
    "Dispatched failed with error ",
    pattern=r"(?P<kernel>\w{5,80}) failed with error (?P<why>[^\n,]{3,80})",
    says="FlashInfer could not run its kernel {kernel} on this GPU: {why}",
    fixes=(
        Fix.unsafe(
            "another attention backend (FlashInfer is chosen on GPUs below compute capability 8.0, for lack of "
            "FlashAttention)",
            {"engine.attention_backend": "TRITON_ATTN"},
            side_effects="attention is slower",
        ),
        Fix(
            title="or let FlashInfer compile its kernels again, where its release or the GPU has changed",
            commands=("rm -rf ~/.cache/flashinfer",),
        ),
    ),
    url="https://docs.flashinfer.ai",
)
check.signature(
    "aicore exception",
    "PTA call acl api failed",
    "RuntimeError: call aclnn",
    "the current working operator name is ",
    "AICORE error",
    "an aicore error",
    "error code is 507015",
    "error code is 507057",
    "ACL stream synchronize failed, error code:507",
    "AclrtSynchronizeStreamWithTimeout(stream()), error code is 507",
    says="a kernel failed on an Ascend device: {error}",
    fixes=(
        Fix.safe("let every call wait for its kernel, so that the stack names it", {"env.ASCEND_LAUNCH_BLOCKING": "1"}),
        Fix(
            title="then look for ids or indices beyond their table, and try the CANN release that this torch_npu names"
        ),
    ),
    url="https://github.com/Ascend/pytorch/blob/master/README.md",
)


check.signature(
    "operation not permitted when stream is capturing",
    "operation failed due to a previous error during capture",
    "operation would make the legacy stream depend on a capturing",
    says="a CUDA graph cannot record what was called while it was captured: {error}",
    fixes=(
        Fix(
            title="run the function once or twice before it is captured, so that libraries make their handles, and "
            "take out what waits for the device (.item(), .cpu(), print of a tensor)"
        ),
        Fix.unsafe("or do without CUDA graphs", {"engine.enforce_eager": True}, side_effects="slower decoding"),
    ),
    url="https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graph-constraints",
)


# ROCm's runtime ends the process at a fault of a kernel.
check.signature(
    "Memory access fault by GPU node-",
    pattern=r"Memory access fault by GPU node-(?P<device>\d+)",
    says="a kernel on GPU {device} read or wrote beyond its memory (ROCm)",
    fixes=(
        Fix.safe("let every call wait for its kernel, so that the stack names it", {"env.AMD_SERIALIZE_KERNEL": "3"}),
        *_ENGINE,
    ),
    silent=True,
    url="https://rocm.docs.amd.com/projects/HIP/en/latest/how-to/debugging.html",
)
