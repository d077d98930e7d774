"""New weights in a stand-in for the trainer, a sync, and what a real engine makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Fix, NotApplicable, NotChecked, Reach, cite

from ...observed.agreement import Difference, Noise, between, difference, grade_of, noise_of
from ...observed.rollout import Job, describe, records, require, runs
from . import check


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


# How weights are sent that the engine has already.
SAME = {
    "again": "the same weights once more",
    "float32": "the same weights in float32",
    "views": "the same weights as views of other memory",
}


@check.observed(needs=["observations.weights"])
def sync_repeats(case: Case) -> Iterator[Finding | Reach]:
    """The same weights once more, in float32, and as views."""
    for job in _synced(case):
        _require_followed(job)
        scores, noise = require(job, "scores"), noise_of(job)
        for name, what in SAME.items():
            if name not in scores:
                if name == "views":
                    continue  # older bundles have none
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
        yield Reach(f"{', '.join(what for name, what in SAME.items() if name in scores)} change nothing")


def _synced(case: Case) -> Iterator[Job]:
    for job in runs(case, "weights"):
        way = require(job, "way")
        if way["name"] is None:
            raise NotApplicable(way["why"])
        if "after" not in records(job) and "rejected" in records(job):
            raise NotApplicable("the engine refuses the trainer's weights (RLD401)")
        yield job


def _require_followed(job: Job) -> None:
    """Raises :class:`NotApplicable` where the first update is found to be not followed, on new prompts, on those that
    were seen before, on other tokens or in a larger batch: one cause, one finding."""
    apart = (between(require(job, "after"), "engine", "trainer"), _rows_apart(job), _of_many(job))
    if any(one is not None and one.beyond(noise_of(job)) for one in apart):
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
