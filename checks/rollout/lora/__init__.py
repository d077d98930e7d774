"""Adapters that the engine cannot take, or does not apply.

What it looks for
    In a launch file: a ``max_lora_rank`` that this vLLM does not accept, an adapter whose rank is above it, and adapter
    kinds (DoRA, fully trained modules beside the adapter) that vLLM does not load.
    In a running engine, for a launch that gives it adapters: adapters one after the other, under one name and under
    another, against transformers with W + scale B A in the place of each W, and an adapter of a rank above the limit,
    which must be refused.
    In a log: the engine's refusals of an adapter.

Why it hurts
    vLLM accepts certain sizes only: ``max_lora_rank (24) must be one of (8, 16, 32, 64, 128, 256, 320, 512)``.
    Frameworks that hand the trainer's rank on as it is do not start. A rank above the engine's limit is refused with
    the first request that names the adapter, and takes the engine down.

How sure it is
    The sizes are read from each release: up to 256 before vLLM 0.8.0, 320 and 512 from 0.8.0 on, 1 from 0.11.1 on.
    Adapters that are merged into the weights before they reach the engine are not judged. In a running engine adapters
    move the log-probabilities far beyond rounding (``agreement.py``), so which weights it used is plain.

The fix and its cost
    The next larger rank that is accepted (``lora_alpha`` in proportion, so that the scale stays), or a larger
    ``max_lora_rank``. Both take a little memory.

References
    ``LoRAConfig``: https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/config/lora.py
    ``PEFTHelper``: https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/lora/peft_helper.py
    https://github.com/PrimeIntellect-ai/prime-rl/pull/1408
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, NotApplicable, NotChecked, Reach, RolloutPlan, cite, plan_of
from rldoctor.api.engine import release

from .ranks import LIMIT, RANK, accepted, instead_of

check = Check("RLD214", "lora-misconfigured", __doc__, before=("RLD502",))


def served(case: Case) -> RolloutPlan:
    """The plan, where its engine is given adapters."""
    plan = plan_of(case)
    if plan.value("engine.enable_lora") is not True or plan.value("lora.merged") is True:
        raise NotApplicable("the engine is given no adapters")
    return plan


def served_by_vllm(case: Case) -> RolloutPlan:
    """The same, where the engine is vLLM."""
    plan = served(case)
    if plan.usual("rollout.backend", "vllm") != "vllm":
        raise NotApplicable("which adapters another engine takes is not known")
    return plan


@check.declared(needs=[f"plan.{LIMIT}"])
def size_not_accepted(case: Case) -> Iterator[Finding | Reach]:
    """The largest rank, as the engine's config tests it."""
    plan = served_by_vllm(case)
    limit, version = plan.value(LIMIT), release(case)
    if jobs := case.observations.get("lora"):
        from .live import explains

        if any(map(explains, jobs.values())):
            raise NotApplicable("a running engine was asked")
    sizes = accepted(version)
    if not isinstance(limit, int):
        raise NotChecked("max_lora_rank cannot be read from the launch file")
    if limit in sizes:
        yield Reach(f"max_lora_rank {limit}")
        return
    yield check.finding(
        f"vLLM does not accept max_lora_rank {limit}: it must be one of {', '.join(map(str, sizes))}",
        evidence=cite(plan, LIMIT, RANK),
        fixes=tuple(instead_of(plan, limit, sizes)),
        url="https://docs.vllm.ai/en/latest/features/lora.html",
    )


@check.declared(needs=[f"plan.{LIMIT}", f"plan.{RANK}"])
def rank_above_the_limit(case: Case) -> Iterator[Finding | Reach]:
    """The trained adapter against the engine's limit."""
    plan = served(case)
    rank, limit = plan.value(RANK), plan.value(LIMIT)
    if not isinstance(rank, int) or not isinstance(limit, int):
        raise NotChecked("the adapter's rank or max_lora_rank cannot be read from the launch file")
    # Where the framework switches adapters on by itself, it has a limit of its own too (unsloth: 64).
    setting, enabled = plan.get(LIMIT), plan.get("engine.enable_lora")
    if setting and setting.source == "default" and enabled and enabled.source == "derived":
        raise NotChecked(f"{plan.framework} sets max_lora_rank itself, to a value that is not known")
    if rank <= limit:
        yield Reach(f"rank {rank} within {limit}")
        return
    fitting = [rank] if plan.value("rollout.backend") == "sglang" else [s for s in accepted(release(case)) if s >= rank]
    yield check.finding(
        f"the adapter's rank {rank} is above the engine's max_lora_rank {limit}: the engine refuses it",
        evidence=cite(plan, RANK, LIMIT),
        fixes=(
            *(
                Fix.safe(
                    f"let the engine take rank {size}",
                    {LIMIT: size},
                    side_effects="adapter weights of that rank are reserved on the device",
                )
                for size in fitting[:1]
            ),
            Fix.unsafe(f"or train an adapter of rank {limit}", {RANK: limit}),
        ),
    )


@check.declared(needs=["plan.engine.enable_lora"])
def kind_not_supported(case: Case) -> Iterator[Finding | Reach]:
    """DoRA, and modules that are trained in full beside the adapter."""
    plan = served_by_vllm(case)
    if plan.value("lora.dora") is True:
        yield check.finding(
            "vLLM does not support DoRA adapters",
            evidence=cite(plan, "lora.dora", "engine.enable_lora"),
            fixes=(Fix.safe("train a plain LoRA adapter", {"lora.dora": False}),),
        )
    if plan.value("lora.modules_to_save"):
        yield check.finding(
            "vLLM loads no adapter with modules_to_save: modules that are trained in full never reach the engine",
            evidence=cite(plan, "lora.modules_to_save", "engine.enable_lora"),
            fixes=(Fix(title="train adapters only, or merge them into the weights before they go to the engine"),),
        )
    yield Reach("the adapter's kind")
