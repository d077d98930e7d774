"""The KV cache cannot hold one sequence of the engine's context.

What it looks for
    In a launch file: what the engine's share of the device leaves beside the weights, against the KV cache that one
    sequence of ``max_model_len`` needs (layers, key-value heads and head width of the model's ``config.json``, tensor
    parallel size, cache precision), and a number of blocks that holds fewer tokens.
    In a log: vLLM's refusals at start (``No available memory for the cache blocks``, ``larger than the available KV
    cache memory``, ``maximum number of tokens that can be stored in KV cache``), a prompt beyond the capacity of V0's
    block manager, and the CPU engine's cache that is larger than the node's memory.

Why it hurts
    vLLM refuses to start. With a model whose context is 128k or 1M tokens that happens on any small device, unless
    ``max_model_len`` is set.

How sure it is
    The estimate leaves out everything but weights and cache (activations, CUDA graphs, communication), so it speaks
    only where not even these two fit. The numbers of a log are the engine's own.

The fix and its cost
    A shorter ``max_model_len``, as long as prompt and response fit. Or a larger share of the device, more tensor
    parallel ranks, or an 8-bit cache (slightly different log-probabilities).

References
    ``_check_enough_kv_cache_memory``: https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/v1/core/kv_cache_utils.py
    ``raise_if_cache_size_invalid`` (V0): https://github.com/vllm-project/vllm/blob/v0.8.5/vllm/worker/worker.py#L551
    https://github.com/vllm-project/vllm/issues/16118, https://github.com/vllm-project/vllm/issues/34076
    https://docs.vllm.ai/en/latest/configuration/conserving_memory.html
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    cite,
    plan_of,
)
from rldoctor.api.memory import GIB, EngineMemory, engine_memory
from rldoctor.api.models import cite_config

check = Check("RLD205", "kv-cache-too-small", __doc__)

CONTEXT = "engine.max_model_len"
SHARE = "engine.gpu_memory_utilization"
TENSOR = "engine.tensor_parallel_size"
BLOCKS = "engine.num_gpu_blocks_override"
PROMPT, RESPONSE = "lengths.prompt", "lengths.response"
URL = "https://docs.vllm.ai/en/latest/configuration/conserving_memory.html"
# What a start needs beside weights and cache, as fixes allow for it: the part of the share, and at least so much.
RESERVE_SHARE, RESERVE = 0.06, 1.5 * GIB
HIGHEST_SHARE = 0.95
# Engines with less than this have no language model on the device (encoders of a disaggregated server).
LEAST_SHARE = 0.05
# Lengths are rounded down to these.
STEPS = (1024, 128, 16)


@check.declared(needs=["plan", "gpus", "model.config"])
def one_sequence(case: Case) -> Iterator[Finding | Reach]:
    """Weights and one sequence against the engine's share of a device."""
    plan, engine = plan_of(case), engine_memory(case)
    if engine.fixed_cache is None and engine.utilization < LEAST_SHARE:
        raise NotApplicable("the engine's share is too small for a language model")
    if engine.weights > engine.device:
        raise NotChecked("the weights alone exceed the device (RLD206)")
    evidence = (
        *cite(plan, SHARE, CONTEXT, TENSOR, "engine.kv_cache_dtype"),
        *cite_config(case, _sum(engine), engine.defaulted),
    )
    if engine.available <= 0:
        yield check.finding(
            f"the engine's share ({_share(engine)}) does not hold the model's weights of {_gib(engine.weights)}: "
            "there is no block for the KV cache",
            evidence=evidence,
            fixes=tuple(_larger(case, engine, 0)),
            url=URL,
        )
        return
    if engine.context is None or engine.cache is None:
        raise NotChecked("the engine's context, or what the model keeps for each token, is not known")
    needed = engine.cache.bytes(engine.context)
    if needed <= engine.available:
        yield Reach(f"{_gib(needed)} of KV cache for {engine.context} tokens within {_gib(engine.available)}")
        return
    yield check.finding(
        f"one sequence of max_model_len {engine.context} needs {_gib(needed)} of KV cache; the engine's share "
        f"({_share(engine)}) leaves at most {_gib(engine.available)} beside the weights: vLLM refuses to start",
        evidence=evidence,
        fixes=(*_shorter(case, engine), *_larger(case, engine, needed)),
        url=URL,
    )


@check.declared(needs=[f"plan.{BLOCKS}", f"plan.{CONTEXT}"])
def blocks_for_one_sequence(case: Case) -> Iterator[Finding | Reach]:
    """A fixed number of blocks against the context."""
    plan = plan_of(case)
    blocks, context = plan.value(BLOCKS), plan.value(CONTEXT)
    size = plan.value("engine.block_size", 16)
    if not isinstance(blocks, int) or not isinstance(context, int) or blocks * size >= context:
        return
    if plan.value("engine.block_size") is None and blocks * 256 >= context:
        raise NotChecked("the block size is the attention kernel's choice")
    yield check.finding(
        f"{blocks} blocks of {size} tokens hold {blocks * size} tokens, fewer than max_model_len {context}: "
        "vLLM refuses to start",
        evidence=cite(plan, BLOCKS, "engine.block_size", CONTEXT),
        fixes=(Fix.safe("as many blocks as one sequence needs", {BLOCKS: -(-context // size)}),),
    )


def _shorter(case: Case, engine: EngineMemory) -> Iterator[Fix]:
    plan = plan_of(case)
    if engine.cache is None:
        return
    room = engine.available - max(RESERVE, RESERVE_SHARE * engine.share)
    fitting = engine.cache.tokens(room) if room > 0 else 0
    limit = next((fitting // step * step for step in STEPS if fitting >= step), 0)
    if not limit:
        return
    prompt, response = plan.value(PROMPT, 0), plan.value(RESPONSE, 0)
    enough = prompt + response <= limit
    yield Fix(
        title=f"limit the context to {limit} tokens",
        applicability=Applicability.SAFE if enough else Applicability.UNSAFE,
        edits=(Edit(option=CONTEXT, value=limit),),
        side_effects="longer sequences are refused",
    )
    if not enough and limit > prompt:
        yield Fix.unsafe(
            f"shorten the response to {limit - prompt} tokens",
            {RESPONSE: limit - prompt, CONTEXT: limit},
            side_effects="longer answers are cut off",
        )


def _larger(case: Case, engine: EngineMemory, needed: float) -> Iterator[Fix]:
    plan = plan_of(case)
    reserve = max(RESERVE, RESERVE_SHARE * engine.share)
    share = -(-(engine.weights + needed + reserve) * 100 // engine.device) / 100
    alone = plan.value("placement.mode") not in ("colocate", None) or plan.role != "trainer"
    if engine.fixed_cache is None and engine.utilization < share <= HIGHEST_SHARE:
        yield Fix(
            title=f"give the engine {share:g} of the device",
            applicability=Applicability.SAFE if alone else Applicability.UNSAFE,
            edits=(Edit(option=SHARE, value=share),),
            side_effects="less is left for anything else on the device",
        )
    ranks = plan.value(TENSOR, 1)
    there = plan.value("placement.engine_gpus") or len(plan.value("placement.engine_devices") or ())
    spread = (engine.weights + needed) / 2 + reserve <= engine.share
    if there and there >= 2 * ranks and spread:
        yield Fix.unsafe(
            f"spread the model over {2 * ranks} devices",
            {TENSOR: 2 * ranks},
            side_effects="fewer engines; the size must divide the model's heads",
        )
    whole = not str(plan.value("engine.kv_cache_dtype", "auto")).startswith("fp8")
    if needed and whole and needed / 2 + reserve <= engine.available:
        yield Fix.unsafe(
            "keep the KV cache in 8 bits",
            {"engine.kv_cache_dtype": "fp8"},
            side_effects="the engine's log-probabilities differ more from the trainer's",
        )


def _sum(engine: EngineMemory) -> str:
    parts = [f"weights {_gib(engine.weights)}"]
    if engine.cache is not None:
        parts.append(f"KV cache {(engine.cache.full + engine.cache.windowed) / 1024:.1f} KiB a token")
    return ", ".join(parts) + (f", on each of {engine.ranks} ranks" if engine.ranks > 1 else "")


def _share(engine: EngineMemory) -> str:
    return f"{engine.share / GIB:.1f} of {_gib(engine.device)}"


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


_MORE_SHARE = Fix(
    title="a larger share of the device (gpu_memory_utilization), where nothing else needs it",
    side_effects="less is left for anything else on the device",
)
_MORE_RANKS = Fix(title="more tensor parallel ranks for one engine: each holds a smaller part of the weights")
# A context below this holds no answer: then it is the cache that is too small.
_SHORTEST_USE = 128
_MORE_BLOCKS = Fix(
    title="start without num_gpu_blocks_override, where it is set: the engine then takes all that its share leaves"
)


@check.logged(
    "No available memory for the cache blocks",
    "GiB KV cache is needed, which is larger than the available KV cache",
    "is larger than the maximum number of tokens that can be stored in KV cache",
)
def refused_at_start(case: Case, event: LogEvent) -> Iterator[Finding]:
    """V0's and V1's tests once the memory has been measured."""
    v1 = event.search(
        r"max seq len \((\d+)\), \(([\d.]+) GiB KV cache is needed, which is larger than the available "
        r"KV cache memory \(([\d.]+) GiB\)"
    )
    v0 = event.search(
        r"max seq len \((\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((\d+)\)"
    )
    estimated = event.search(r"estimated maximum model length is (\d+)")
    limit = int(estimated[1]) if estimated else int(v0[2]) if v0 else None
    if v1:
        # vLLM rounds both: of a small model they may look the same.
        amounts = f": {v1[2]} GiB are needed, {v1[3]} GiB are available" if v1[2] != v1[3] else ""
        message = f"one sequence of max_model_len {v1[1]} does not fit into the KV cache{amounts}"
    elif v0:
        message = f"the KV cache holds {v0[2]} tokens, fewer than max_model_len {v0[1]}"
    else:
        message = "the engine's share of the device leaves no memory for the KV cache beside the weights"
    edits = (Edit(option=CONTEXT, value=limit),) if limit else ()
    shorter = Fix(
        title="a shorter max_model_len"
        + (f": {limit} tokens fit" if limit else ", as long as prompt and response fit"),
        applicability=Applicability.UNSAFE,
        edits=edits,
        side_effects="longer sequences are refused",
    )
    fixes = (shorter, _MORE_SHARE, _MORE_BLOCKS) if v1 or v0 else (_MORE_SHARE, _MORE_RANKS)
    if limit and limit < _SHORTEST_USE:
        fixes = (_MORE_BLOCKS, _MORE_SHARE)
    yield check.finding(message, fixes=fixes, url=URL)


# V0 gives such a prompt up with a warning, and the request comes back without an output.
check.signature(
    "exceeds the capacity of block_manager",
    details=(r"Input prompt \((?P<tokens>\d+) tokens\)",),
    says=(
        "a prompt [[of {tokens} tokens ]]needs more blocks than the KV cache has; the engine answers it with nothing"
    ),
    fixes=(_MORE_SHARE, _MORE_BLOCKS, Fix(title="or drop prompts of that length")),
)


@check.logged("allocation is less than requested memory for kv")
def beyond_host_memory(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The CPU engine's cache is reserved from the node's memory."""
    numbers = event.search(
        r"Available memory on node (\d+) \(([\d.]+)/([\d.]+) GiB\).{0,40}requested memory for kv \(([\d.]+) GiB\)"
    )
    if numbers is None:
        return
    fitting = int(float(numbers[2]) * 0.8)
    yield check.finding(
        f"the KV cache is set to take {numbers[4]} GiB, {numbers[2]} GiB are free on memory node {numbers[1]}",
        fixes=(
            Fix.unsafe(
                "a KV cache that fits into the node's free memory (VLLM_CPU_KVCACHE_SPACE, in GiB)",
                {"env.VLLM_CPU_KVCACHE_SPACE": str(max(1, fitting))},
            ),
            Fix(title="or, where it is set in bytes, a smaller --kv-cache-memory-bytes"),
        ),
        url="https://docs.vllm.ai/en/latest/configuration/env_vars.html",
    )


# https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html: the share holds weights and KV cache.
check.signature(
    "Please try to increase --mem-fraction-static",
    says="the weights fill SGLang's static share of the device[[ ({share})]]: no token of KV cache is left",
    details=(r"mem_fraction_static=(?P<share>0?\.\d+)",),
    fixes=(
        Fix(
            title="give the engine a larger static share: --mem-fraction-static, which verl, SkyRL and slime pass on "
            "from their own option (gpu_memory_utilization in verl)",
            side_effects="less is left for the trainer on the same device",
        ),
        Fix(title="or more tensor parallel ranks for one engine (tensor_model_parallel_size), each with less weights"),
    ),
    url="https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html",
)
