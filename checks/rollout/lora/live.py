"""What a live engine does with an adapter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, NotChecked, Reach, Severity, cite
from rldoctor.api.engine import release

from ...exceptions import root_of
from ...observed.agreement import Noise, between, noise_of
from ...observed.rollout import describe, failure_text, require, runs
from . import check, served
from .ranks import LIMIT, accepted, instead_of, room_for

SETTINGS = ("engine.enable_lora", "engine.max_lora_rank", "lora.rank", "lora.alpha")
# What the engine's numbers may agree with in place of the adapter that was asked for.
INSTEAD = {
    "base": "it ignores the adapter",
    **dict.fromkeys(("first", "renewed"), "it still uses an earlier adapter"),
    "unscaled": "it applies the adapter without its scale (lora_alpha / r)",
}
ADAPTERS = ("first", "renewed", "second")
# Requests that ask for no adapter where there have been some.
WITHOUT = {"none again": "after others that did", "beside": "in a batch with one that does"}
# How vLLM refuses a limit before it starts.
REFUSED_AT_START = r"max_lora_rank \(\d+\) must be one of|Input should be 1, 8, 16, 32"


@check.observed(needs=["observations.lora"])
def applied(case: Case) -> Iterator[Finding | Reach]:
    """What the running engine tells under each adapter, against transformers with that adapter merged."""
    for job in runs(case, "lora"):
        require(job, "trainer")
        rows, noise = require(job, "rows"), noise_of(job)
        if between([row for row in rows if row["case"] == "none"], "engine", "base").beyond(noise):
            raise NotApplicable("engine and trainer differ without an adapter already (RLD403)")
        wrong: dict[str, str] = {}
        evidence: list[Evidence] = []
        for name in ADAPTERS:
            under = [row for row in rows if row["case"] == name]
            if not under:
                continue
            apart = between(under, "engine", name)
            if not apart.beyond(noise):
                yield Reach(f"{describe(job)} applies the {name} adapter: {apart}")
                continue
            wrong[name] = _instead(under, name, noise)
            text = f"{name} adapter, engine against merged weights: {apart}"
            evidence.append(Evidence(text=text, source="lora probe"))
        if wrong:
            count = len({row["case"] for row in rows} & set(ADAPTERS))
            how = "; ".join(f"{instead} ({name})" for name, instead in wrong.items())
            yield _wrong(
                case,
                f"{describe(job)} does not apply {len(wrong)} of {count} adapters as transformers does: {how}",
                evidence,
            )
            continue
        asked = {name: [row for row in rows if row["case"] == name] for name in WITHOUT}
        off = {name: between(own, "engine", "base") for name, own in asked.items() if own}
        leaking = next((name for name, one in off.items() if one.beyond(noise)), None)
        if leaking is not None:
            what = f"{describe(job)} applies an adapter to requests that ask for none, {WITHOUT[leaking]}"
            text = f"without an adapter, {WITHOUT[leaking]}, engine against base weights: {off[leaking]}"
            yield _wrong(case, what, [Evidence(text=text, source="lora probe")])
        elif off:
            yield Reach(f"requests without an adapter get none {' and '.join(WITHOUT[name] for name in off)}")


def _wrong(case: Case, message: str, evidence: list[Evidence]) -> Finding:
    return check.finding(
        message,
        grade=Grade.OBSERVED,
        evidence=(*evidence, *(cite(case.plan, *SETTINGS) if case.plan is not None else ())),
        fixes=(
            Fix(title="let the framework merge the adapter into the weights that it sends, or another vLLM release"),
        ),
    )


def _instead(rows: list[dict[str, Any]], name: str, noise: Noise) -> str:
    fitting = (
        what
        for other, what in INSTEAD.items()
        if other in rows[0] and other != name and not between(rows, "engine", other).beyond(noise)
    )
    return next(fitting, "its log-probabilities fit neither the base model nor another adapter")


@check.observed(needs=["observations.lora"])
def limit_refused(case: Case) -> Iterator[Finding | Reach]:
    """The engine does not start with the limit that the launch gives it."""
    plan = served(case)
    limit = plan.value(LIMIT, 0)
    for job in case.observations["lora"].values():
        if not explains(job):
            yield Reach(f"the engine's own test of max_lora_rank {limit}")
            continue
        said = next(line for line in failure_text(job).splitlines() if re.search(REFUSED_AT_START, line))
        yield check.finding(
            f"{describe(job)} does not start with max_lora_rank {limit}",
            grade=Grade.REPRODUCED,
            evidence=(
                *(cite(case.plan, *SETTINGS) if case.plan is not None else ()),
                Evidence(text=said[:300], source="lora probe"),
            ),
            fixes=tuple(instead_of(plan, limit, accepted(release(case)))),
            url="https://docs.vllm.ai/en/latest/features/lora.html",
        )


@check.observed(needs=["observations.lora"])
def too_large_refused(case: Case) -> Iterator[Finding | Reach]:
    """An adapter above the limit."""
    for job in runs(case, "lora"):
        reported, limit = require(job, "refused"), require(job, "asked").get("max_lora_rank")
        if limit is None:
            raise NotChecked("the engine's max_lora_rank was not recorded")
        root = root_of(reported["exceptions"] or ())
        if root is not None:
            yield Reach(f"rank {reported['rank']} above {limit} is refused: {root['message']}"[:200])
            continue
        yield check.finding(
            f"{describe(job)} takes an adapter of rank {reported['rank']} without a word, its max_lora_rank is "
            f"{limit}: what is above the limit is lost or overwrites other adapters",
            severity=Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=(Evidence(text=f"add_lora of rank {reported['rank']} returned", source="lora probe"),),
            fixes=(room_for(reported["rank"], accepted(release(case))),),
        )


@check.knows
def explains(job: Mapping[str, Any]) -> bool:
    """Whether an engine did not start because of the limit that it was asked for."""
    return job.get("ended") in ("raised", "not-run") and re.search(REFUSED_AT_START, failure_text(job)) is not None
