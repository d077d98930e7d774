"""What makes room on a device that trainer and engine overcommit: changes that the launch can express."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from rldoctor.api import Applicability, Case, Edit, Fix, RolloutPlan, Setting, plan_of
from rldoctor.api.memory import EngineMemory, MemoryPhase, device_memory, fitting_share, memory_phases, trainer_fits
from rldoctor.api.models import model_config, model_heads
from rldoctor.api.plan import has_option

SHARE = "engine.gpu_memory_utilization"
UPDATE, EXPERIENCE = "batch.per_device", "batch.logprob_per_device"
CRITIC = ("trainer.critic_offload_params", "trainer.critic_offload_optimizer")
TOKENS, ACCUMULATION = "batch.tokens_per_device", "batch.accumulation"
# Title, edits, what they change of the trainer (fields of the memory plan's Training), and their cost.
Change = tuple[str, tuple[Edit, ...], dict[str, object], str]


def remedies(case: Case, logits: bool) -> Iterator[Fix]:
    """A smaller share for the engine, with the least change of the trainer that makes room for it. Where only the
    ``logits`` or activations are too much, less of them at a time."""
    plan = plan_of(case)
    shared = plan.value("placement.mode") == "colocate" and plan.value("engine.kv_cache_memory_bytes") is None
    found = False
    for title, edits, changes, cost in _changes(plan):
        if shared:
            share = fitting_share(case, **changes)
            fits = share is not None
            if share is not None and share < plan.value(SHARE):
                title = f"give the engine {share:.2f} of the device" + (f", and {title}" if title else "")
                edits = (Edit(option=SHARE, value=share), *edits)
        else:
            fits = bool(edits) and trainer_fits(case, **changes)
        if fits and edits and not found:
            found = True
            yield Fix(title=title, applicability=Applicability.SAFE, edits=edits, side_effects=cost)
    sleeping = next((o for o in ("sleep.level", "engine.enable_sleep_mode") if _off(plan, o)), None) if shared else None
    if sleeping is not None:
        yield from _asleep(case, plan, sleeping)
    if logits:
        if plan.value("trainer.gradient_checkpointing") is False:
            yield Fix.safe(
                "compute activations again in the backward pass",
                {"trainer.gradient_checkpointing": True},
                side_effects="a forward pass more for each update",
            )
        yield from smaller_micro_batches(plan.framework, plan, "update")
        yield Fix(title="compute the loss without holding all logits at once (a chunked or fused loss)")
    yield Fix(title="train adapters (LoRA), or use more devices")


def spread_weights(case: Case, engine: EngineMemory) -> Fix:
    """The fewest tensor parallel ranks that hold the weights, of the sizes that divide the heads and the devices of a
    machine; where there is none, what would help instead."""
    plan = plan_of(case)
    tensor = plan.value("engine.tensor_parallel_size", 1)
    share = engine.share or engine.device
    here = (len(case.gpus.devices) if case.gpus is not None else 0) // plan.value("engine.pipeline_parallel_size", 1)
    query, _ = model_heads(model_config(case))
    for ranks in range(tensor + 1, here + 1):
        if here % ranks == 0 and not (query or 0) % ranks and engine.weights * tensor / ranks < share:
            title = f"spread the model over {ranks} devices"
            return Fix.unsafe(title, {"engine.tensor_parallel_size": ranks}, side_effects="fewer engines")
    needed = math.ceil(engine.weights * engine.ranks / share)
    return Fix(title=f"{needed} such devices for an engine at least, a quantized model, or a smaller one")


def smaller_micro_batches(framework: str | None, plan: RolloutPlan | None, stage: str | None) -> Iterator[Fix]:
    """Less on a device at a time, in the stage that it is too much for: half of what the launch has, where that is
    known; nothing where it cannot have less."""
    option = _micro_batch(framework or "", plan, stage)
    now = plan.value(option) if plan is not None and option is not None else None
    title, settings = "smaller micro batches", {}
    if plan is not None and isinstance(now, int):
        least = plan.value("lengths.total") or 0 if option == TOKENS else 1
        if now <= least:
            return
        settings = _halved(plan, str(option), now, least)
    elif option is not None:
        settings = {option: "SIZE"}
    if option == TOKENS:
        title = "fewer tokens in a micro batch"
    elif option == UPDATE and has_option(framework or "", ACCUMULATION):
        title += ", with as many times more accumulation"
    yield Fix.unsafe(title, settings, side_effects="more, smaller steps for the same data")


def _halved(plan: RolloutPlan, option: str, now: int, least: int) -> dict[str, object]:
    """Half of it, with the accumulation that keeps the batch; nothing where the ranks would no longer hold whole groups
    of completions."""
    half = max(now // 2, least)
    steps = plan.value(ACCUMULATION) if has_option(plan.framework, ACCUMULATION) else None
    if option != UPDATE or not isinstance(steps, int):
        return {option: half}
    half = half if now % half == 0 else 1
    group, ranks = plan.value("batch.generations"), plan.value("process.total")
    if isinstance(group, int) and isinstance(ranks, int) and half * ranks % group:
        return {}
    return {option: half, ACCUMULATION: steps * now // half}


def _micro_batch(framework: str, plan: RolloutPlan | None, stage: str | None) -> str | None:
    """What says how much a device takes at a time in a stage, of what the framework has options for."""
    if plan is not None and plan.value("batch.dynamic") and has_option(framework, TOKENS):
        return TOKENS
    wanted = (EXPERIENCE, UPDATE) if stage == "log-probabilities" else (UPDATE,)
    return next((option for option in wanted if has_option(framework, option)), None)


def _asleep(case: Case, plan: RolloutPlan, option: str) -> Iterator[Fix]:
    """An engine that sleeps while the trainer works; where they do not fit so, the trainer's states leave the device
    while the engine works, and the engine's share is smaller. Nothing where not even that fits."""
    asleep = {"sleep.level": 1, "sleep.enabled": True, "engine.enable_sleep_mode": True}
    sleeps: dict[str, object] = {option: asleep[option]}
    leaves: list[dict[str, object]] = [{"sleep.trainer": True}] if _off(plan, "sleep.trainer") else []
    for more in ({}, *leaves):
        given = {name: Setting(value=value) for name, value in {**asleep, **more}.items()}
        would_be = replace(case, plan=replace(plan, settings={**plan.settings, **given}))
        share = fitting_share(would_be)
        if share is None or any(phase.certain > device_memory(case) for phase in _with_share(would_be, share)):
            continue
        smaller = {SHARE: share} if share < plan.value(SHARE) else {}
        yield Fix.unsafe(
            "let the engine sleep while the trainer works"
            + (", and the trainer's states leave the device meanwhile" if more else "")
            + (f", with {share:.2f} of the device" if smaller else ""),
            {**sleeps, **more, **smaller},
            side_effects="time for it in every step; long runs need Python 3.12, and no expandable segments",
        )
        return


def _with_share(case: Case, share: float) -> tuple[MemoryPhase, ...]:
    plan = plan_of(case)
    settings = {**plan.settings, SHARE: Setting(value=share)}
    return memory_phases(replace(case, plan=replace(plan, settings=settings)))


def _changes(plan: RolloutPlan) -> Iterator[Change]:
    """Changes of the trainer that the launch can express, the least first: title, edits, what they change, the cost."""
    yield "", (), {}, "a smaller KV cache: fewer sequences at a time, slower rollouts"
    cost, named = "slower steps, a smaller KV cache", plan.value("trainer.deepspeed")
    offloaded: dict[str, object] = {"weights_offloaded": True, "optimizer_offloaded": True}
    preset = isinstance(named, str) and named in ("zero0", "zero1", "zero2")
    if preset:
        zero3 = (Edit(option="trainer.deepspeed", value="zero3"),)
        yield "shard the trainer's states over all ranks (ZeRO-3)", zero3, {"zero_stage": 3}, cost
    if preset or named == "zero3":
        host = (Edit(option="trainer.deepspeed", value="zero3_offload"),)
        yield "offload the trainer's states to the host", host, {**offloaded, "zero_stage": 3}, f"{cost}, host memory"
    value_model = [name for name in CRITIC if _off(plan, name)] if plan.value("trainer.critic") else []
    away = tuple(Edit(option=name, value=True) for name in value_model)
    gone: dict[str, object] = {"critic_weights": False, "critic_optimizer": False}
    if away:
        yield "keep the value model in host memory", away, gone, f"{cost}, host memory"
    if named is None and _off(plan, "trainer.offload_optimizer"):
        optimizer = Edit(option="trainer.offload_optimizer", value=True)
        yield "keep the optimizer in host memory", (optimizer,), {"optimizer_offloaded": True}, f"{cost}, host memory"
        if _off(plan, "trainer.offload_params"):
            both = (optimizer, Edit(option="trainer.offload_params", value=True))
            yield "keep weights and optimizer in host memory", both, offloaded, f"{cost}, host memory"
            if away:
                everything = (*both, *away)
                yield "keep policy and value model in host memory", everything, offloaded | gone, f"{cost}, host memory"


def _off(plan: RolloutPlan, option: str) -> bool:
    """Whether the launch could switch it on: it stands there, or the framework has a default."""
    setting = plan.get(option)
    return setting is not None and setting.source in ("given", "default") and not setting.value
