"""The engine still samples with old weights, or with a prefix cache from before the update.

What it looks for
    In a running engine: the trainer's weights are changed by a known amount and sent the way the framework does. The
    engine's log-probabilities must follow those of the trainer, for prompts that it has seen before too, stay the same
    when the same weights come again, and not depend on the precision that they are sent in.
    In a launch file: TRL releases whose sleep mode reloads the checkpoint over the synced weights, a TRL that shares
    prefixes over updates without a reset, verl releases whose servers get the weights only when they are woken, and
    never sleep.
    In the logged metrics: a difference between the engine's and the trainer's log-probabilities that begins at noise
    and grows with every step.

Why it hurts
    Rollouts come from the base model, the trainer moves away from it, importance ratios fall to nothing, and the loss
    with them. Nothing is raised; rewards stay where they were.

How sure it is
    What the engine tells after the sync is compared with transformers holding the new weights, the old ones, and the
    new ones with one part old: the part that fits is named. Differences within rounding (``observed/agreement.py``)
    pass. The releases were read in TRL's source. A growing difference also comes from drifting numerics; it must start
    within noise and grow steadily to six times what it was.

The fix and its cost
    The release that mended it, or no sleep mode: the engine's share of memory is then taken all the time.

References
    https://github.com/huggingface/trl/issues/5312, https://github.com/huggingface/trl/pull/5313 (1.10.0)
    ``trl/generation/vllm_generation.py`` 0.28.0 line 519, ``trl/trainer/grpo_trainer.py`` 0.26.2 lines 1237-1242
    https://github.com/verl-project/verl/issues/4147, https://github.com/verl-project/verl/pull/4248 (0.7.0)
    https://github.com/vllm-project/vllm/issues/9744, https://github.com/NovaSky-AI/SkyRL/pull/1737
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    NotApplicable,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    find,
    plan_of,
    version_within,
)

check = Check("RLD402", "weights-stale", __doc__)
SLEEP = "engine.enable_sleep_mode"
# sync_weights() first, then generate() reloads the checkpoint from disk.
RELOADED = ">=0.28,<1.10"
# The checkpoint is reloaded before each generation, the weights follow only where the step has changed.
RELOADED_WITHIN_A_STEP = ">=0.26,<0.28"
# LLM(enable_prefix_caching=True) and no reset_prefix_cache() in the release.
NEVER_RESET = ">=0.15,<0.16"
# AgentLoopManager.generate_sequences calls wake_up(), which alone sends the weights, under `free_cache_engine`.
NEVER_WOKEN = ">=0.5,<0.7"


@check.declared(needs=["plan.placement.mode", f"plan.{SLEEP}"])
def reloaded_from_disk(case: Case) -> Iterator[Finding | Reach]:
    """TRL's colocated engine with sleep mode."""
    plan = plan_of(case)
    if plan.framework not in ("TRL", "open-r1", "axolotl") or plan.version is None:
        raise NotApplicable("a matter of TRL's releases")
    if plan.value("placement.mode") != "colocate" or not plan.value(SLEEP):
        raise NotApplicable("no colocated engine sleeps")
    always = version_within(_trl(case, plan), RELOADED)
    accumulated, steps = plan.value("batch.accumulation", 1), plan.value("batch.steps_per_generation", 1)
    sometimes = version_within(_trl(case, plan), RELOADED_WITHIN_A_STEP) and accumulated > steps
    if not always and not sometimes:
        yield Reach(f"TRL {_trl(case, plan)} syncs after the engine wakes up")
        return
    yield check.finding(
        f"TRL {_trl(case, plan)} reloads the checkpoint from disk when the engine wakes up, "
        + ("over the weights that it has just synced" if always else "and syncs only at the first generation of a step")
        + ": rollouts come from the base model",
        evidence=cite(plan, SLEEP, "placement.mode", "batch.steps_per_generation"),
        fixes=(
            Fix.safe(
                "let the engine stay awake",
                {SLEEP: False},
                side_effects="the engine's share of memory is taken during training too",
            ),
            Fix(title="TRL 1.10 and later sync after every wake-up", commands=('pip install "trl>=1.10"',)),
        ),
        url="https://github.com/huggingface/trl/issues/5312",
    )


@check.declared(needs=["plan.placement.engine_device"])
def cached_prefixes(case: Case) -> Iterator[Finding | Reach]:
    """KV blocks of the old policy under equal prompts."""
    plan = plan_of(case)
    if plan.framework != "TRL" or plan.version is None or not version_within(plan.version, NEVER_RESET):
        raise NotApplicable("the prefix cache is reset with the weights, or there is none")
    yield check.finding(
        f"TRL {plan.version} shares prefixes in the engine and never resets that cache: a prompt that comes again is "
        "continued from the old policy's keys and values",
        severity=Severity.NOTE,
        evidence=cite(plan, "placement.engine_device", "rollout.enabled"),
        fixes=(Fix(title="TRL 0.16 and later reset it at each sync", commands=('pip install "trl>=0.16"',)),),
        url="https://github.com/vllm-project/vllm/issues/9744",
    )


@check.declared(needs=["plan.rollout.async_engine", "plan.sleep.enabled"])
def never_woken(case: Case) -> Iterator[Finding | Reach]:
    """verl's servers whose engines stay awake."""
    plan = plan_of(case)
    trains = plan.framework == "verl" and plan.entry.endswith("main_ppo") and plan.version is not None
    if not trains or plan.value("placement.mode") != "colocate" or not plan.value("rollout.async_engine"):
        raise NotApplicable("no server of verl's that shares the trainer's devices")
    if not version_within(str(plan.version), NEVER_WOKEN):
        raise NotApplicable("the weights are sent before every rollout")
    if plan.value("sleep.enabled") is not False:
        yield Reach("the weights are sent when the engines wake up")
        return
    yield check.finding(
        f"verl {plan.version} sends the trained weights only to engines that it wakes up, and these never sleep: every "
        "rollout comes from the weights that the engine started with",
        evidence=cite(plan, "sleep.enabled", "rollout.async_engine"),
        fixes=(
            Fix.safe(
                "let the engines sleep between rollouts",
                {"sleep.enabled": True},
                side_effects="each step takes the time to put the engine to sleep and to wake it",
            ),
            Fix(title="verl 0.7 and later send them either way", commands=('pip install "verl>=0.7"',)),
        ),
        url="https://github.com/verl-project/verl/issues/4147",
    )


def _trl(case: Case, plan: RolloutPlan) -> str:
    """TRL's own release; frameworks on top of it have releases of theirs."""
    found = find(case.packages, "trl") if plan.framework != "TRL" and case.packages is not None else None
    return found.version if found is not None else plan.version or ""
