"""What stands on one device in each phase of a run, as a table of lower bounds with what it assumes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable, NotChecked
from rldoctor.knowledge import memory, memory_plan
from rldoctor.knowledge.model_config import model_config, number, text_config
from rldoctor.plan.evidence import plan_of
from rldoctor.plan.model import RolloutPlan
from rldoctor.records import dataclass

ACTIVATIONS_KEPT = "activations"
# What a fix leaves for activations and buffers, and the steps in which it gives the engine's share.
MARGIN = 3 * memory.GIB
STEP = 0.05
# An engine that shares the trainer's process gives back what it measured for its own activations (a prefill of 16384
# tokens, logits of 1024 sequences) between its steps; this much of its share is not counted.
ACTIVATIONS = 4 * memory.GIB


@dataclass(frozen=True)
class Part:
    """One line of the table: what it is, bytes, and on what assumption."""

    name: str
    size: float
    assumes: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.size / memory.GIB:.1f} GiB" + (f" ({self.assumes})" if self.assumes else "")


@dataclass(frozen=True)
class Phase:
    """``update`` or ``rollout``: the parts that are certain, and ``likely`` ones that come at half of the longest
    responses."""

    name: str
    parts: tuple[Part, ...]
    likely: tuple[Part, ...] = ()

    @property
    def certain(self) -> float:
        return sum(part.size for part in self.parts)

    @property
    def expected(self) -> float:
        return self.certain + sum(part.size for part in self.likely)


def phases(case: Case) -> tuple[Phase, ...]:
    """The phases of one device that trains, with the engine on it where they share devices.

    Raises :class:`NotChecked` where the plan leaves open what is on the device."""
    plan = plan_of(case)
    mode = plan.value("placement.mode")
    if memory_plan.habits(plan).shares_weights:
        raise NotApplicable(f"{plan.framework}'s trainer and engine share the weights, and it sizes the engine itself")
    if plan.role != "trainer" or mode is None:
        raise NotChecked("the launch does not tell whether trainer and engine share devices")
    training = memory_plan.training(case)
    states = memory.states(training)
    own = [part for part in _states(training, states) if part.size]
    context = Part("CUDA context", memory.CONTEXT)
    likely = _likely(case, plan)
    if mode != "colocate":
        return (Phase("update", (*own, context), likely),)
    engine = memory_plan.engine(case)
    kept = max(engine.weights, engine.share - (0 if engine.fixed_cache else ACTIVATIONS))
    how = f"{engine.utilization:g} of {engine.device / memory.GIB:.1f} GiB"
    how += f", less {ACTIVATIONS / memory.GIB:.0f} for activations"
    share = Part("engine's share", kept, how)
    inside = _inside_share(case)
    beside = [part for part in own if part.name in ("gradients", "optimizer states") or not inside]
    asleep = memory_plan.engine_sleeps(plan)
    update = Phase("update", (*own, context) if asleep else (share, *beside, context), likely)
    if not asleep:
        return (update,)
    rests = [] if _leaves(plan) else [part for part in beside if part.name != "gradients"]
    return update, Phase("rollout", (share, *rests, context))


def fitting_share(case: Case, **changes: Any) -> float | None:
    """The largest share of a device, up to the present one, that leaves room for a trainer with ``changes`` (fields of
    :class:`~rldoctor.knowledge.memory.Training`); None where weights and one sequence do not fit into it."""
    plan, engine = plan_of(case), memory_plan.engine(case)
    states = memory.states(replace(memory_plan.training(case), **changes))
    beside = states.total + sum(part.size for part in _likely(case, plan))
    if memory_plan.engine_sleeps(plan):
        beside = 0.0 if _leaves(plan) else states.resting
    upper = engine.device - beside - memory.CONTEXT - MARGIN
    share = min(engine.utilization, round(int(upper / engine.device / STEP) * STEP, 2))
    lower = engine.weights + MARGIN / 2
    if engine.cache is not None and engine.context:
        lower += engine.cache.bytes(engine.context)
    if _inside_share(case):
        lower += states.weights + states.reference
    return share if share * engine.device >= lower else None


def _leaves(plan: RolloutPlan) -> bool:
    """Whether the trainer's states are elsewhere while the engine works."""
    return bool(plan.value("sleep.trainer")) or memory_plan.habits(plan).leaves_device


def trainer_fits(case: Case, **changes: Any) -> bool:
    """Whether a trainer with ``changes`` fits on a device of its own, with room for activations."""
    states = memory.states(replace(memory_plan.training(case), **changes))
    return states.total + memory.CONTEXT + MARGIN <= memory_plan.device_memory(case)


def _inside_share(case: Case) -> bool:
    # The engine is built after the policy has been loaded, in the same process or beside it.
    return memory_plan.share_includes_trainer(case)


def _states(training: memory.Training, states: memory.States) -> tuple[Part, ...]:
    count = f"{training.parameters / 1e9:.2f} billion parameters"
    how = training.strategy + (f" ZeRO-{training.zero_stage}" if training.strategy == "deepspeed" else "")
    spread = f"{how}, {training.ranks} ranks"
    frozen = (
        f", frozen in {training.frozen_element:g} bytes each"
        if training.adapters
        else f", {training.element:g} bytes each"
    )
    return (
        Part("weights", states.weights, count + frozen),
        Part("gradients", states.gradients, spread),
        Part("optimizer states", states.optimizer, spread),
        Part("reference model", states.reference, "16 bits"),
        Part("value model", states.critic, f"between its updates; {spread}"),
    )


def _likely(case: Case, plan: RolloutPlan) -> tuple[Part, ...]:
    """What a micro step takes at half of the longest responses."""
    rows, tokens = plan.value("batch.per_device"), plan.value("lengths.response")
    # Where batches are packed by tokens, rows and responses do not tell how many there are.
    if plan.value("batch.dynamic") is True or not (rows and tokens) or case.model is None:
        return ()
    how = f"{rows} x {tokens // 2} tokens, half of the longest responses"
    return (*_logits(case, plan, rows * (tokens // 2), how), *_activations(case, plan, rows * (tokens // 2), how))


def _spread(plan: RolloutPlan) -> int:
    """Over how many ranks the tokens or the width of a micro batch are spread at most."""
    ways = ("sequence", "tensor", "context", "pipeline")
    return math.prod(plan.value(f"parallel.{way}", 1) or 1 for way in ways)


def _logits(case: Case, plan: RolloutPlan, tokens: int, how: str) -> tuple[Part, ...]:
    """Logits of a micro step, for trainers that hold them whole."""
    each, vocabulary = memory_plan.habits(plan).whole_logits, number(text_config(model_config(case)), "vocab_size")
    if not each or plan.value("trainer.logits_chunked") is not False or not vocabulary or _spread(plan) > 1:
        return ()
    return (Part("logits and their gradient", float(tokens) * vocabulary * each, f"{how}, {vocabulary} each"),)


def _activations(case: Case, plan: RolloutPlan, tokens: int, how: str) -> tuple[Part, ...]:
    """Activations where none is recomputed; Megatron has options of its own for that."""
    others = ("megatron", *memory_plan.habits(plan).recomputes)
    if plan.value("trainer.gradient_checkpointing") is not False or plan.value("trainer.strategy") in others:
        return ()
    each = memory.activations(model_config(case), memory_plan.training(case).adapters)
    if each is None:
        return ()
    return (Part(ACTIVATIONS_KEPT, each * tokens / _spread(plan), f"{how}, no gradient checkpointing"),)
