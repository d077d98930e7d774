"""Trainer, engine, logits and cache do not fit on the device together.

What it looks for
    In a launch file: what stands on one device at least, phase by phase, against its memory. Weights, gradients and
    optimizer states of the trainer as its strategy spreads or offloads them (DDP, ZeRO stage, FSDP, Megatron,
    adapters), the reference model, a value model like the policy that verl leaves there, the engine's share where it is
    on the same device and does not sleep, one CUDA context, and, at half of the longest responses (a warning), the
    logits, for trainers that hold them whole (in 32 bits where they are converted), and the activations where none is
    computed again. The table is printed with what each line assumes. Also a share of the whole device, and weights
    beyond it. In a running engine on a GPU, for a launch whose engine sleeps: memory that does not come back, cycle
    after cycle. In a log: CUDA's ``out of memory`` from torch's allocator, from the sleep-mode allocator, from cuBLAS
    and from NCCL, and vLLM's refusal to start because the share of memory that it is to take is not free, or changed
    while it measured.

Why it hurts
    The rank that runs out dies, and the others wait for it until a collective times out.

How sure it is
    The plan counts lower bounds: no other activations, no buffers, no fragmentation. What does not fit there by far
    cannot run; what comes within five percent of the device is a warning, and what fits may still not. Before 0.9 vLLM
    counts what stands on the device at its start as part of its share, and the plan does so too. A log has the
    allocator's own message, with what it asked for and what was free; in which phase it happened (start, wake-up,
    weight sync, rollout, log-probabilities, update) decides which share shrinks.

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

from rldoctor.api import Case, Check, Evidence, Finding, Fix, NotApplicable, NotChecked, Reach, Severity, cite, plan_of
from rldoctor.api.engine import release
from rldoctor.api.memory import GIB, device_memory, engine_memory, memory_phases, size_defaults
from rldoctor.api.models import cite_config

from ...declared.beside import named
from .fixes import SHARE, remedies, spread_weights

check = Check("RLD206", "gpu-memory-overcommitted", __doc__, before=("RLD321",))

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

# What is so near to a device's size is neither too much for sure nor room enough.
BORDER = check.threshold("border", 0.05, "how near to the device's size a need is a warning, as a share of it", most=1)
# From here on the CUDA context alone makes the share not free.
WHOLE_DEVICE = 0.995


@check.declared(needs=["plan", "gpus", "model.config"])
def phases_do_not_fit(case: Case) -> Iterator[Finding | Reach]:
    """The table of each phase against the device."""
    device = device_memory(case)
    phases = memory_phases(case)
    border = BORDER.of(case)
    # The worst phase first: one at the border is no answer while another is beyond it.
    for phase in sorted(phases, key=lambda phase: -phase.certain):
        if phase.certain > device * (1 - border) or phase.expected > device:
            certain = phase.certain > device * (1 - border)
            total = phase.certain if certain else phase.expected
            parts = phase.parts if certain else (*phase.parts, *phase.likely)
            at_border = certain and phase.certain <= device * (1 + border)
            needs = f"the {phase.name} phase needs at least {total / GIB:.1f} GiB on a device of {device / GIB:.1f} GiB"
            more = "" if certain else ", once responses get half as long as they may"
            if at_border:
                more = f", within {border:.0%} of the border, and activations come on top"
            yield check.finding(
                needs + more,
                severity=Severity.WARNING if at_border or not certain else Severity.ERROR,
                evidence=(
                    *(Evidence(text=f"{phase.name}: {part}", source="memory plan of one device") for part in parts),
                    *cite(plan_of(case), *STRATEGY),
                    *cite_config(case, "", size_defaults(case)),
                ),
                fixes=tuple(remedies(case, logits=not certain)),
                url=URL,
            )
            return
    yield Reach("; ".join(f"{phase.name} {phase.expected / GIB:.1f} of {device / GIB:.1f} GiB" for phase in phases))


@check.declared(needs=["plan", "gpus", "model.config"])
def weights_beyond_the_device(case: Case) -> Iterator[Finding | Reach]:
    """The engine's part of the weights alone is larger than a device."""
    plan, engine = plan_of(case), engine_memory(case)
    if engine.weights <= engine.device:
        yield Reach(f"engine weights {engine.weights / GIB:.1f} GiB")
        return
    yield check.finding(
        f"the model's weights take {engine.weights / GIB:.1f} GiB on each rank of the engine, "
        f"a device has {engine.device / GIB:.1f}",
        evidence=(
            *cite(plan, "engine.model", "engine.tensor_parallel_size", "engine.dtype"),
            *cite_config(case, "", engine.defaulted),
        ),
        fixes=(spread_weights(case, engine),),
        url=URL,
    )


@check.declared(needs=[f"plan.{SHARE}", "plan.process.beside"])
def engines_on_one_device(case: Case) -> Iterator[Finding | Reach]:
    """Servers, or trainers with their engines, that one file runs at the same time and whose shares of one device add
    up to more than it has."""
    plan = plan_of(case)
    where = "placement.engine_devices" if plan.role == "server" else "placement.trainer_devices"
    share, devices = plan.value(SHARE), plan.value(where) or ()
    kind = "server" if plan.role == "server" else "run"
    for other in plan.value("process.beside"):
        both = [device for device in devices if device in (other.get("devices") or ())]
        if not both or not other.get("share") or share + other["share"] <= 1:
            continue
        yield check.finding(
            f"{named(plan, other, kind)} takes {other['share']:g} of device {both[0]}, and this one wants {share:g} of "
            "it",
            evidence=(
                Evidence(text="started in the background", source=other["file"], line=other["line"]),
                *cite(plan, SHARE, where),
            ),
            fixes=(
                Fix(title=f"give each {kind} devices of its own (CUDA_VISIBLE_DEVICES), or start one after the other"),
            ),
        )
        return
    yield Reach(f"no other {kind} of the file takes the same devices")


@check.declared(needs=[f"plan.{SHARE}", "packages.vllm"])
def whole_device_claimed(case: Case) -> Iterator[Finding | Reach]:
    """A share that no process can get: the CUDA context takes its part first."""
    plan = plan_of(case)
    share = plan.value(SHARE)
    if not isinstance(share, int | float) or plan.value("engine.kv_cache_memory_bytes") is not None:
        raise NotApplicable("the engine's cache is given in bytes")
    version = release(case)
    if share < WHOLE_DEVICE or version is None:
        if case.gpus is None or case.model is None:
            raise NotChecked(
                f"a share of {share:g} is possible; whether all fits beside it depends on the device and the model",
                how="--assume machine.json, --model PATH",
            )
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
