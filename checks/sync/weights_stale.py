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
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    find,
    plan_of,
    version_within,
)

from ..observed.agreement import Difference, Noise, between, difference, grade_of, noise_of
from ..observed.rollout import Job, describe, records, require, runs
from ..observed.trends import DIFFERENCE, Run, finite, leaves_the_trainer

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


@check.observed(needs=["observations.weights"])
def engine_follows(case: Case) -> Iterator[Finding | Reach]:
    """New weights in the trainer, a sync, and the engine's log-probabilities before and after."""
    for job in _synced(case):
        rows, noise = require(job, "after"), noise_of(job)
        fresh = [row for row in rows if not row["seen"]]
        if between(require(job, "before"), "engine", "trainer").beyond(noise):
            raise NotApplicable("engine and trainer differ before the sync already (RLD403)")
        if not between(fresh, "trainer", "old").beyond(noise):
            raise NotChecked("the change of the weights moves this model's log-probabilities too little")
        apart, way = between(fresh, "engine", "trainer"), require(job, "way")["name"]
        again = between([row for row in rows if row["seen"]], "engine", "trainer")
        evidence = (Evidence(text=f"{way}; engine against the trainer's new weights: {apart}", source="weights probe"),)
        if apart.beyond(noise):
            yield _finding(
                f"{describe(job)} does not follow the trainer after a weight sync: {_fitting(job, fresh, noise)}",
                evidence,
                (_ANOTHER_RELEASE,),
                case,
            )
        elif (others := _rows_apart(job)) is not None and others.beyond(noise):
            yield _finding(
                f"{describe(job)} follows the trainer on likely tokens after a weight sync and not on others: rows of "
                "the embedding or of the head are still the old ones",
                (*evidence, Evidence(text=f"a prompt from the whole vocabulary: {others}", source="weights probe")),
                (_ANOTHER_RELEASE,),
                case,
            )
        elif again.beyond(noise):
            yield _cached(case, job, "a weight sync", again, evidence)
        elif (many := _of_many(job)) is not None and many.beyond(noise):
            yield _finding(
                f"{describe(job)} follows the trainer after a weight sync in small batches and not in a larger one: "
                "what it has captured or cached by size is still of the old weights",
                (*evidence, Evidence(text=f"a larger batch: {many}", source="weights probe")),
                (_ANOTHER_RELEASE,),
                case,
            )
        else:
            yield Reach(f"{describe(job)} after {way}: {apart}; a stale part would show by {_least(job, fresh)}")


@check.observed(needs=["observations.weights"])
def comes_back(case: Case) -> Iterator[Finding | Reach]:
    """The first weights, sent again at the end: the engine must answer as at the start."""
    for job in _synced(case):
        restored, noise = require(job, "restored"), noise_of(job)
        _require_followed(job)
        scores = require(job, "scores")
        if any(difference(scores["sync"], again).beyond(noise) for again in scores.values()):
            raise NotApplicable("the same weights, sent again, change what the engine answers")
        apart = difference(restored["start"], restored["end"])
        if apart.beyond(noise):
            yield _finding(
                f"{describe(job)} follows the first weight sync and not the last: with the weights of the start "
                "sent back it does not answer as then",
                (Evidence(text=f"at the start against at the end: {apart}", source="weights probe"),),
                (_ANOTHER_RELEASE,),
                case,
            )
        elif (again := _seen_again(job)) is not None and again.beyond(noise):
            yield _cached(case, job, "the last weight sync", again)
        else:
            yield Reach(f"{describe(job)} with its first weights sent back: {apart}")


@check.observed(needs=["observations.weights"])
def sync_repeats(case: Case) -> Iterator[Finding | Reach]:
    """The same weights once more, and once more in float32."""
    for job in _synced(case):
        _require_followed(job)
        scores, noise = require(job, "scores"), noise_of(job)
        for name, what in (("again", "the same weights once more"), ("float32", "the same weights in float32")):
            if name not in scores:
                raise NotChecked(f"the sync of {what} was not reached")
            apart = difference(scores["sync"], scores[name])
            if apart.beyond(noise):
                yield _finding(
                    f"a sync of {what} changes what {describe(job)} tells of fixed tokens, by {apart.mean:.2g} on "
                    "average",
                    (Evidence(text=f"{require(job, 'way')['name']}: {apart}", source="weights probe"),),
                    (_ANOTHER_RELEASE,),
                    case,
                )
                return
        yield Reach("the same weights once more, and in float32, change nothing")


def _synced(case: Case) -> Iterator[Job]:
    for job in runs(case, "weights"):
        way = require(job, "way")
        if way["name"] is None:
            raise NotApplicable(way["why"])
        if "after" not in records(job) and "rejected" in records(job):
            raise NotApplicable("the engine refuses the trainer's weights (RLD401)")
        yield job


def _require_followed(job: Job) -> None:
    """Raises :class:`NotApplicable` where the first update is found to be not followed, on new prompts or on those that
    were seen before: one cause, one finding."""
    if between(require(job, "after"), "engine", "trainer").beyond(noise_of(job)):
        raise NotApplicable("the engine does not follow the first update already")


def _rows_apart(job: Job) -> Difference | None:
    """How far engine and trainer are apart on a prompt from the whole vocabulary after the sync."""
    reported = records(job).get("vocabulary")
    return difference(reported["engine"], reported["trainer"]) if reported else None


def _of_many(job: Job) -> Difference | None:
    """How far engine and trainer are apart in a batch of more requests after the sync; older bundles have none."""
    rows = records(job).get("many")
    return between(rows, "engine", "trainer") if rows else None


def _seen_again(job: Job) -> Difference | None:
    """How far engine and trainer are apart at the end on prompts that were seen before the last sync."""
    rows: list[dict[str, Any]] = require(job, "again")
    return between(rows, "engine", "trainer") if rows else None


def _fitting(job: Job, fresh: list[dict[str, Any]], noise: Noise) -> str:
    """With which weights what the engine tells agrees."""
    if not between(fresh, "engine", "old").beyond(noise):
        return "it still samples with the old weights"
    reported = [value for row in fresh for value in row["engine"]]
    apart = {part: difference(reported, values) for part, values in _by_part(job).items()}
    part = min(apart, key=lambda part: apart[part].mean, default=None)
    if part is None or apart[part].beyond(noise):
        return "what it tells fits neither the old weights nor the new ones"
    return f"its {part} is still the old one"


def _by_part(job: Job) -> dict[str, list[float]]:
    """What the trainer tells of the fresh tokens where one part of its weights is old."""
    reported = records(job).get("sensitivity", {})
    return {part: [value for row in rows for value in row] for part, rows in reported.items()}


def _least(job: Job, fresh: list[dict[str, Any]]) -> str:
    now = [value for row in fresh for value in row["trainer"]]
    shown = {part: difference(now, values).mean for part, values in _by_part(job).items()}
    part = min(shown, key=lambda part: shown[part], default=None)
    return f"{shown[part]:.2g} or more ({part})" if part is not None else "an unknown amount"


def _cached(case: Case, job: Job, sync: str, seen: Difference, evidence: tuple[Evidence, ...] = ()) -> Finding:
    return _finding(
        f"{describe(job)} continues prompts that it has seen before {sync} from the old policy's prefix cache",
        (*evidence, Evidence(text=f"prompts seen before {sync}: {seen}", source="weights probe")),
        (_NO_SHARED_PREFIXES, _RESET),
        case,
    )


def _finding(message: str, evidence: tuple[Evidence, ...], fixes: tuple[Fix, ...], case: Case) -> Finding:
    return check.finding(
        message,
        grade=grade_of(case, fixes),
        evidence=(
            *evidence,
            *(cite(case.plan, *(e.option for fix in fixes for e in fix.edits)) if case.plan is not None else ()),
        ),
        fixes=fixes,
        url="https://github.com/vllm-project/vllm/issues/9744",
    )


_NO_SHARED_PREFIXES = Fix.safe(
    "share no prefixes between requests",
    {"engine.enable_prefix_caching": False},
    side_effects="the prompt of a group is prefilled once for each completion",
)
_RESET = Fix(
    title="or reset the prefix cache after every sync (LLM.reset_prefix_cache, /reset_prefix_cache of a server)"
)
_ANOTHER_RELEASE = Fix(
    title="releases of framework and vLLM that go together: what load_weights writes must be what the kernels read",
    commands=("rldoctor compat",),
)


@check.observed(needs=["metrics"])
def difference_grows(case: Case) -> Iterator[Finding | Reach]:
    """The gap between engine and trainer widens with every update."""
    run = Run.of(case)
    grown = leaves_the_trainer(run)
    if grown is None:
        raise NotApplicable("no difference between the engine's and the trainer's log-probabilities is logged for long")
    if not grown:
        yield Reach("the difference between engine and trainer does not grow with the steps")
        return
    values = finite(run.at(DIFFERENCE))
    first, last = min(values), max(values)
    yield check.finding(
        f"the engine's log-probabilities leave the trainer's step by step: {values[first]:.3g} at step {first}, "
        f"{values[last]:.3g} at step {last}; the engine does not get the updates",
        grade=Grade.OBSERVED,
        evidence=run.evidences((first, last), DIFFERENCE, "importance_ratio_mean", "loss", "reward"),
        fixes=(
            Fix.unsafe(
                "let the engine stay awake (TRL 0.28 to 1.9 reload the checkpoint when it wakes up)", {SLEEP: False}
            ),
            Fix(title="TRL 1.10 and later sync after every wake-up", commands=('pip install "trl>=1.10"',)),
            Fix(title="see that every update reaches the engine", commands=("rldoctor check --level compare",)),
        ),
        url="https://github.com/huggingface/trl/issues/5312",
    )


def _trl(case: Case, plan: RolloutPlan) -> str:
    """TRL's own release; frameworks on top of it have releases of theirs."""
    found = find(case.packages, "trl") if plan.framework != "TRL" and case.packages is not None else None
    return found.version if found is not None else plan.version or ""
