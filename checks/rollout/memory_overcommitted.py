"""Trainer, engine, logits and cache do not fit on the device together.

What it looks for
    In a launch file: what stands on one device at least, phase by phase, against its memory. Weights, gradients and
    optimizer states of the trainer as its strategy spreads or offloads them (DDP, ZeRO stage, FSDP, Megatron,
    adapters), the reference model, the engine's share where it is on the same device and does not sleep, one CUDA
    context, and, for trainers that hold them whole, the logits at half of the longest responses (a warning). The table
    is printed with what each line assumes. Also a share of the whole device, and weights beyond it. In a running engine
    on a GPU, for a launch whose engine sleeps: memory that does not come back, cycle after cycle. In a log: CUDA's
    ``out of memory`` from torch's allocator, from the sleep-mode allocator, from cuBLAS and from NCCL, and vLLM's
    refusal to start because the share of memory that it is to take is not free, or changed while it measured.

Why it hurts
    The rank that runs out dies, and the others wait for it until a collective times out.

How sure it is
    The plan counts lower bounds: no activations, no buffers, no fragmentation. What does not fit there cannot run;
    what fits there may still not. Before 0.9 vLLM counts what stands on the device at its start as part of its share,
    and the plan does so too. A log has the allocator's own message, with what it asked for and what was free; in which
    phase it happened (start, wake-up, weight sync, rollout, log-probabilities, update) decides which share shrinks.

The fix and its cost
    At start, wake-up and sync: a smaller ``gpu_memory_utilization`` (fewer sequences at a time), or the trainer
    offloaded before the engine wakes. In log-probabilities and update: smaller micro batches (slower), or chunked
    logits.

References
    https://docs.vllm.ai/en/latest/configuration/conserving_memory.html
    https://github.com/verl-project/verl/pull/575, https://github.com/vllm-project/vllm/pull/12981
    https://github.com/vllm-project/vllm/issues/25837, https://github.com/NovaSky-AI/SkyRL/issues/70
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rldoctor.api import (
    GIB,
    Applicability,
    Case,
    Check,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    cite,
    device_memory,
    engine_memory,
    memory_phases,
    plan_of,
    release,
)

from .memory_remedies import SHARE, remedies
from .observed import describe, require, runs

check = Check("RLD206", "gpu-memory-overcommitted", __doc__)

STRATEGY = (
    "placement.mode",
    SHARE,
    "sleep.level",
    "sleep.enabled",
    "trainer.strategy",
    "trainer.zero_stage",
    "trainer.offload_optimizer",
    "trainer.offload_params",
    "placement.trainer_gpus",
)
URL = "https://docs.vllm.ai/en/latest/configuration/conserving_memory.html"
# From here on the CUDA context alone makes the share not free.
WHOLE_DEVICE = 0.995


@check.declared(needs=["plan", "gpus", "model.config"])
def phases_do_not_fit(case: Case) -> Iterator[Finding | Reach]:
    """The table of each phase against the device."""
    device = device_memory(case)
    phases = memory_phases(case)
    for phase in phases:
        if phase.certain > device or phase.expected > device:
            certain = phase.certain > device
            total = phase.certain if certain else phase.expected
            parts = phase.parts if certain else (*phase.parts, *phase.likely)
            yield check.finding(
                f"in the {phase.name} phase at least {total / GIB:.1f} GiB must stand on a device of "
                f"{device / GIB:.1f} GiB" + ("" if certain else ", once responses get half as long as they may"),
                severity=Severity.ERROR if certain else Severity.WARNING,
                evidence=(
                    *(Evidence(text=f"{phase.name}: {part}", source="memory plan of one device") for part in parts),
                    *cite(plan_of(case), *STRATEGY),
                ),
                fixes=tuple(remedies(case, phases)),
                url=URL,
            )
            return
    yield Reach("; ".join(f"{phase.name} {phase.expected / GIB:.1f} of {device / GIB:.1f} GiB" for phase in phases))


# Other processes' allocations move the free memory of a device by less; a leak is seen over this many cycles.
LEAKED, FEWEST_CYCLES = 128 << 20, 10


@check.observed(needs=["observations.sleep"])
def cycles_leak(case: Case) -> Iterator[Finding | Reach]:
    """The device's free memory with the engine awake, from the second cycle to the last."""
    for job in runs(case, "sleep"):
        awake = [cycle["awake"] for cycle in require(job, "cycles")][1:]
        if len(awake) < FEWEST_CYCLES:
            raise NotChecked(f"the engine slept {len(awake) + 1} times only")
        lost = awake[0] - awake[-1]
        falling = sum(later < earlier for earlier, later in pairwise(awake))
        if lost < LEAKED or falling < len(awake) // 2:
            yield Reach(f"{len(awake) + 1} cycles of sleep cost {max(lost, 0) >> 20} MiB")
            continue
        yield check.finding(
            f"{describe(job)} keeps {lost / len(awake) / (1 << 20):.0f} MiB more with every cycle of sleep: in a long "
            "run the device fills up",
            severity=Severity.WARNING,
            grade=Grade.REPRODUCED,
            evidence=(
                Evidence(
                    text=f"free: {awake[0] >> 20} MiB, after {len(awake)} cycles {awake[-1] >> 20}",
                    source="sleep probe",
                ),
                *(cite(case.plan, "engine.enable_sleep_mode", "sleep.level") if case.plan is not None else ()),
            ),
            fixes=(
                Fix.unsafe(
                    "let the engine stay awake, where both fit",
                    {"engine.enable_sleep_mode": False},
                    side_effects="the engine's share of memory is taken during training too",
                ),
            ),
        )


@check.declared(needs=["plan", "gpus", "model.config"])
def weights_beyond_the_device(case: Case) -> Iterator[Finding | Reach]:
    """The engine's part of the weights alone is larger than a device."""
    plan, engine = plan_of(case), engine_memory(case)
    if engine.weights <= engine.device:
        yield Reach(f"engine weights {engine.weights / GIB:.1f} GiB")
        return
    ranks = plan.value("engine.tensor_parallel_size", 1)
    yield check.finding(
        f"the model's weights take {engine.weights / GIB:.1f} GiB on each rank of the engine, "
        f"a device has {engine.device / GIB:.1f}",
        evidence=cite(plan, "engine.model", "engine.tensor_parallel_size", "engine.dtype"),
        fixes=(
            Fix.unsafe(
                "spread the model over more devices",
                {"engine.tensor_parallel_size": 2 * ranks},
                side_effects="the size must divide the model's heads",
            ),
        ),
        url=URL,
    )


@check.declared(needs=[f"plan.{SHARE}", "packages.vllm"])
def whole_device_claimed(case: Case) -> Iterator[Finding | Reach]:
    """A share that no process can get: the CUDA context takes its part first."""
    plan = plan_of(case)
    share = plan.value(SHARE)
    if not isinstance(share, int | float) or plan.value("engine.kv_cache_memory_bytes") is not None:
        raise NotApplicable("the engine's cache is given in bytes")
    version = release(case)
    if share < WHOLE_DEVICE or version is None:
        yield Reach(f"share {share:g}")
        return
    refuses = version >= (0, 9) or share > 1
    yield check.finding(
        f"gpu_memory_utilization {share:g} claims the whole device: "
        + (
            "vLLM refuses to start, part of it is never free"
            if refuses
            else "nothing is left for the CUDA context and buffers"
        ),
        severity=Severity.ERROR if refuses else Severity.WARNING,
        evidence=cite(plan, SHARE),
        fixes=(Fix.safe("leave room for context and buffers", {SHARE: 0.9}, side_effects="a smaller KV cache"),),
        url="https://github.com/vllm-project/vllm/issues/17939",
    )


_ENGINE_STAGES = ("start", "weights", "rollout", "weight sync")
_SMALLER_SHARE = 0.1


def _share(event: LogEvent) -> float | None:
    told = event.search(
        r"gpu_memory_utilization['\"]?[=:]\s*(0?\.\d+|1(?:\.0+)?)\b|GPU memory utilization \((0?\.\d+|1\.0)"
    )
    return float(told[1] or told[2]) if told else None


def _less_engine(event: LogEvent, free: float | None = None) -> Fix:
    """A smaller share for the engine: below what was free where that is known, else a step below what it had."""
    share = _share(event)
    target = free if free is not None else round(share - _SMALLER_SHARE, 2) if share and share > 0.2 else None
    return Fix(
        title="give the engine a smaller share of the device" + (f" (it had {share:g})" if share else ""),
        applicability=Applicability.UNSAFE,
        edits=(Edit(option="engine.gpu_memory_utilization", value=target),) if target else (),
        side_effects="a smaller KV cache: fewer sequences at a time, slower rollouts",
    )


_FREE_TRAINER = Fix(
    title="let the trainer give its memory back before the engine wakes up: parameters and optimizer offloaded, cached "
    "blocks freed (torch.cuda.empty_cache)",
    side_effects="time for the copies, host memory",
)
_SMALLER_BATCH = Fix(
    title="smaller micro batches for log-probabilities and update, or a token limit per micro batch",
    side_effects="more steps for the same data",
)


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
    stage = event.incident.stage
    message = f"the device is out of memory{f' during {stage}' if stage else ''}"
    if asked:
        message += f": {asked[1]} asked for"
    if card:
        message += f", {card[3]} of {card[2]} free on GPU {card[1]}"
    if event.ranks:
        message += f" (rank {', '.join(event.ranks[:4])})"
    engine = stage in _ENGINE_STAGES
    fixes = (_less_engine(event), _FREE_TRAINER, _SMALLER_BATCH) if engine else (_SMALLER_BATCH, _less_engine(event))
    yield check.finding(message, fixes=fixes, url="https://docs.vllm.ai/en/latest/configuration/conserving_memory.html")


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


@check.logged("Error in memory profiling. Initial free memory", "Error in memory profiling. ")
def memory_moved_while_profiling(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Another process gave memory back while vLLM measured."""
    yield check.finding(
        "another process on the device changed its memory while the engine measured what is free",
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
