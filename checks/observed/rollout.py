"""Reads what the rollout probe recorded: the ground of the checks that judge a live engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

from rldoctor.api import Case, Finding, NotApplicable, NotChecked, Reach
from rldoctor.api.facts import aside

from ..exceptions import Link, root_of

Job = Mapping[str, Any]
Completion = Mapping[str, Any]

Judge = Callable[[Case], Iterator[Finding | Reach]]

# That something of this probability happened by chance is not worth considering.
NEVER = math.log(1e-9)
# Shorter completions repeat a token by chance.
_SHORTEST = 6
# The sleep allocator's own words (``vllm/device_allocator/cumem.py``).
_REFUSAL = "xpandable segments are not compatible with memory pool"


def one_cause(judge: Judge) -> Judge:
    """A detector that looks at several engines for one thing: what it sees on more than one of them is one finding, the
    first engine's, with the evidence of all."""

    @wraps(judge)
    def joined(case: Case) -> Iterator[Finding | Reach]:
        found: list[Finding] = []
        try:
            for item in judge(case):
                if isinstance(item, Reach):
                    yield item
                else:
                    found.append(item)
        except (NotApplicable, NotChecked):
            if not found:
                raise
        if found:
            first, *others = found
            shown = dict.fromkeys(line for one in others for line in one.evidence if line not in first.evidence)
            beside = f"; seen {len(found)} times in all" if others else ""
            yield replace(first, message=first.message + beside, evidence=(*first.evidence, *shown))

    return joined


def rollouts(case: Case) -> dict[str, Job]:
    """The rollout probe's jobs by name."""
    return dict(case.observations.get("rollout", {}))


def scenario_runs(case: Case) -> Iterator[Job]:
    """Every run of every scenario that was played on an engine."""
    for jobs in case.observations.values():
        yield from (job for job in jobs.values() if "boot" in job)


def runs(case: Case, scenario: str) -> list[Job]:
    """A scenario's runs. Raises :class:`NotChecked` where its engine was never reached."""
    found = list(case.observations.get(scenario, {}).values())
    if all(job.get("ended") == "not-run" for job in found):
        why = found[0].get("why", "its engine did not come up") if found else "nothing of it was played"
        raise NotChecked(f"the {scenario} scenario was not reached: {why}")
    return found


def records(job: Job) -> Mapping[str, Any]:
    found: Mapping[str, Any] = job.get("records", {})
    return found


def require(job: Job, name: str) -> Any:
    """A record of the job. Raises :class:`NotChecked` where the rollout ended before it, could not be played or could
    not read it."""
    found = records(job).get(name)
    if found is not None:
        return found
    unread = records(job).get("unread", {}).get(name)
    stage = records(job).get("stage", "start")
    raise NotChecked(
        unread or job.get("why") or f"the rollout {job.get('ended')} at stage {stage}, before {name} was recorded"
    )


def completions(job: Job) -> list[Completion]:
    """All completions. Raises :class:`NotChecked` where the rollout got to none."""
    return list(require(job, "completions"))


def groups(job: Job) -> Iterator[tuple[str, list[Completion]]]:
    """The completions of each request that was sampled at a temperature above 0 without a seed of its own."""
    by_request: dict[str, list[Completion]] = {}
    for completion in completions(job):
        if completion["temperature"] > 0 and completion["seed"] is None:
            by_request.setdefault(completion["request"], []).append(completion)
    yield from by_request.items()


def log_probability(completion: Completion) -> float | None:
    """Of the whole completion, as the engine told it; None where a token's is missing or no number."""
    reported = completion["logprobs"]
    if len(reported) != len(completion["token_ids"]) or not all(isinstance(value, (int, float)) for value in reported):
        return None
    return float(sum(reported))


def repeats_one_token(rows: list[Completion]) -> bool:
    """Whether every completion, of some length, is one and the same token."""
    return len({token for row in rows for token in row["token_ids"]}) == 1 and all(
        len(row["token_ids"]) >= _SHORTEST for row in rows
    )


def failure_text(job: Job) -> str:
    """Type and message of every exception of a rollout that raised, outermost first, one per line."""
    links = records(job).get("exceptions", ())
    return "\n".join(f"{link['type']}: {link['message']}" for link in links if link.get("link") != "suppressed")


def refuses_segments(job: Job) -> bool:
    """Whether an engine failed because of expandable segments."""
    failed = records(job).get("failed", {}).get("exceptions", ())
    reported = [failure_text(job), *(str(link["message"]) for link in failed)]
    return any(_REFUSAL in text for text in reported)


def frames(job: Job) -> list[Link]:
    """The frames of the exception that the failure began with, innermost last."""
    root = root_of(records(job).get("exceptions", ()))
    return list(root["frames"]) if root else []


def describe(job: Job) -> str:
    """One phrase for what was run: the engine, its version and device, and the model that the miniature stands in
    for."""
    with aside():
        versions, engine = records(job).get("versions", {}), records(job).get("engine", {})
        made = records(job).get("miniature", {})
        model = made.get("like")
        parts = [
            f"vLLM {versions.get('vllm', '?')}",
            engine.get("engine"),
            f"on {engine['device']}" if "device" in engine else None,
        ]
        stands_in = "a miniature" if made.get("weights") != "own" else "the model itself, a"
        parts.append(f"with {stands_in} {model}" if model else None)
        parts.append("of few tokens" if made.get("few_tokens") else None)
        if engine.get("attention_backend") == "CPU_ATTN" and made.get("config", {}).get("kv_lora_rank"):
            parts.append("whose compressed attention is computed as plain attention")
        return " ".join(part for part in parts if part)
