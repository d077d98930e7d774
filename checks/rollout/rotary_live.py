"""Says what a running engine and the trainer's model beside it do at the longest sequence: the live side of RLD204."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rldoctor.api import Applicability, Edit, Evidence, Fix, NotApplicable

from .agreement import Difference, difference, noise_of
from .live_lengths import SIZES, engine_mismatch, failed_passes, message_of, positions, trainer_side
from .observed import Job, describe, frames, records, require

COMPLETE = Fix(
    title="complete the rope settings in the model's config.json: rope_type, factor, original_max_position_embeddings"
)
_ALIKE = Fix(title="the same rope settings (scaling, base, length) for engine and trainer")


@dataclass(frozen=True)
class Told:
    """What a finding is made of."""

    message: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...]


def limited(tokens: int) -> Fix:
    return Fix(
        title=f"limit the engine to {tokens} positions",
        applicability=Applicability.UNSAFE,
        edits=(Edit(option="engine.max_model_len", value=tokens),),
        side_effects="prompts and responses must fit",
    )


def engine_fails(job: Job) -> Told | None:
    """How the engine fails at a length that it accepts."""
    line, limit = engine_mismatch(job), require(job, "limit")
    if line is None:
        return None
    evidence = [Evidence(text=line[:400], source="lengths scenario")]
    evidence += [Evidence(text=f"in {f['function']}", source=f["file"], line=f["line"]) for f in frames(job)[-1:]]
    return Told(
        f"the engine fails at its own limit of {limit} tokens (request: {records(job)['asking']}){_against(line)} "
        f"({describe(job)})",
        tuple(evidence),
        (*_reach(line), COMPLETE),
    )


def _reach(line: str) -> tuple[Fix, ...]:
    """As far as the shorter side of a mismatch reaches."""
    sizes = SIZES.search(line)
    return (limited(min(int(sizes[1]), int(sizes[2]))),) if sizes else ()


def trainer_fails(job: Job, side: Mapping[str, Any]) -> Told | None:
    """How the trainer's model fails at a length that the engine accepts."""
    failed = failed_passes(side)
    if not failed:
        return None
    first, kind_and_message = failed[0], message_of(failed[0])
    module = first.get("module")
    place = f"{module['name'] or 'the model'} ({module['class']})" if module else side["architecture"]
    works = max(one["length"] for one in side["attempts"] if one["ended"] == "done" and one["length"] < first["length"])
    evidence = [Evidence(text=f"{first['name']}: {': '.join(kind_and_message)}"[:400], source="trainer's model")]
    where = first["exceptions"][-1]["frames"][-1:]
    evidence += [Evidence(text=f"in {f['function']}", source=f["file"], line=f["line"]) for f in where]
    evidence += [Evidence(text=f"so does: {one['name']} ({one['length']} tokens)") for one in failed[1:]]
    return Told(
        f"the trainer's model fails at {first['length']} tokens in {place}{_against(kind_and_message[1])}; the engine "
        f"accepts {require(job, 'limit')}",
        tuple(evidence),
        (limited(works), COMPLETE),
    )


def ends(job: Job) -> tuple[Difference, Difference]:
    """How far engine and trainer are apart at the beginning of a sequence and at the end of the longest.

    Raises :class:`NotApplicable` where they are not to be compared."""
    compared = trainer_side(job)["compared"]
    mode = records(job).get("engine", {}).get("logprobs_mode")
    if not {"short", "to the limit"} <= compared.keys() or mode not in (None, "raw_logprobs"):
        raise NotApplicable("there are no log-probabilities of engine and trainer to compare")
    near, far = (difference(compared[name]["engine"], compared[name]["trainer"]) for name in ("short", "to the limit"))
    if near.beyond(noise_of(job)):
        raise NotApplicable("engine and trainer do not agree at short lengths either (RLD403)")
    return near, far


def end_parts(job: Job, near: Difference, far: Difference) -> Told | None:
    """How engine and trainer part at the end of the longest sequence, where they do."""
    if not far.beyond(noise_of(job)):
        return None
    limit = require(job, "limit")
    return Told(
        f"engine and trainer part at the end of a sequence of {limit} tokens: log-probabilities differ by "
        f"{far.mean:.3g} on average there, by {near.mean:.3g} at the beginning ({describe(job)})",
        (
            Evidence(text=f"last {far.tokens} of {limit} tokens: {far}", source="lengths scenario"),
            Evidence(text=f"first tokens: {near}", source="lengths scenario"),
        ),
        (_ALIKE, COMPLETE),
    )


def _against(message: str) -> str:
    numbers = positions(message)
    return f": {numbers}" if numbers else ""
