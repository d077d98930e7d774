"""Rotary tables and positions on a live engine and in the trainer's model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, Reach, dataclass

from ...observed.agreement import Difference, apart_from_trainer, difference, grade_of, noise_of
from ...observed.lengths import SIZES, engine_mismatch, failed_passes, message_of, positions, trainer_side
from ...observed.positions import ROTARY_CODE
from ...observed.rollout import Job, describe, failure_text, frames, one_cause, records, require, rollouts, runs
from ...observed.traces import decided_by_chunks
from . import check
from .fixes import COMPLETE, limited

# Parts of a multimodal model that count patches or frames, not text positions.
OTHER_TOWERS = re.compile(r"visual|vision|image|audio|speech|encoder|tower", re.IGNORECASE)
INCOMPLETE = re.compile(r"rope_scaling|rope_parameters|original_max_position_embeddings|rope_type")
# Beyond this a message tells its circumstances, which may name any setting.
HEAD = 240
_ALIKE = Fix(title="the same rope settings (scaling, base, length) for engine and trainer")


@dataclass(frozen=True)
class Told:
    """What a finding is made of."""

    message: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...]


def text_tables(job: Job) -> list[Mapping[str, Any]]:
    """The rotary tables of the text model, as the rollout saw them."""
    return [table for table in require(job, "rotary") if not OTHER_TOWERS.search(table["module"])]


def table_short(job: Job, table: Mapping[str, Any], limit: int) -> Told:
    """That a rotary table has fewer rows than the engine accepts positions."""
    module, rows = table["module"], table["rows"]
    return Told(
        f"the rotary table of {module} has {rows} rows, the engine accepts {limit} positions ({describe(job)})",
        (
            Evidence(text=f"{table['kind']}: {rows} rows", source=module),
            Evidence(text=f"max_model_len {limit}", source="resolved engine configuration"),
        ),
        (limited(rows), COMPLETE),
    )


def rows_broken(job: Job, table: Mapping[str, Any], broken: list[int], limit: int) -> Told:
    """That positions which the engine accepts have no cosines and sines in a rotary table."""
    shown = ", ".join(map(str, broken[:5]))
    return Told(
        f"the rotary table of {table['module']} is broken at position {shown}: its values are no cosine and sine of "
        f"one angle ({describe(job)})",
        (
            Evidence(
                text=f"{table['kind']}: {table['rows']} rows, {len(broken)} of them broken", source=table["module"]
            ),
            Evidence(text=f"max_model_len {limit}", source="resolved engine configuration"),
        ),
        (limited(broken[0]),) if broken[0] else (),
    )


def rollout_failure(job: Job) -> Told | None:
    """How a rollout failed on rotary sizes or settings."""
    line = explanation(job)
    if line is None:
        return None
    return Told(
        f"{describe(job)} fails on rotary positions or rope settings at stage {records(job).get('stage')}",
        (Evidence(text=line[:400], source="rollout probe"), *_innermost(job)),
        (COMPLETE,),
    )


def explanation(job: Job) -> str | None:
    """The line that shows a rotary failure, where the rollout had one."""
    if job.get("ended") != "raised":
        return None
    if (line := engine_mismatch(job)) is not None:
        return line
    text = failure_text(job)
    in_rotary = any(ROTARY_CODE.search(f"{f['file']} {f['function']}") for f in frames(job)[-4:])
    if in_rotary and (match := SIZES.search(text)):
        return match[0]
    return next((line for line in text.splitlines() if INCOMPLETE.search(line[:HEAD])), None)


def _innermost(job: Job) -> list[Evidence]:
    return [Evidence(text=f"in {f['function']}", source=f["file"], line=f["line"]) for f in frames(job)[-1:]]


def engine_fails(job: Job) -> Told | None:
    """How the engine fails at a length that it accepts."""
    line, limit = engine_mismatch(job), require(job, "limit")
    if line is None:
        return None
    return Told(
        f"the engine fails at its own limit of {limit} tokens (request: {records(job)['asking']}){_against(line)} "
        f"({describe(job)})",
        (Evidence(text=line[:400], source="lengths scenario"), *_innermost(job)),
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


@check.observed(needs=["observations.rollout"])
@one_cause
def table_too_short(case: Case) -> Iterator[Finding | Reach]:
    """A rotary table has fewer rows than there are positions."""
    jobs = list(rollouts(case).values())
    # An engine in processes of its own does not let its model be seen; where all are, the first says so.
    seen = [job for job in jobs if records(job).get("rotary") is not None] or jobs[:1]
    for job in seen:
        if explains(job):
            raise NotApplicable("the rollout failed on it")
        limit = require(job, "engine")["max_model_len"]
        tables = text_tables(job)
        if not tables:
            raise NotApplicable("no rotary table was found in this model")
        for table in tables:
            if table["rows"] < limit:
                yield _live(case, table_short(job, table, limit), Grade.OBSERVED)
            elif broken := [row for row in table.get("broken_rows", ()) if row < limit]:
                yield _live(case, rows_broken(job, table, broken, limit), Grade.OBSERVED)
        rows = min(table["rows"] for table in tables)
        yield Reach(f"{rows} rows for max_model_len {limit} in {describe(job)}")


@check.observed(needs=["observations.rollout"])
@one_cause
def rollout_fails(case: Case) -> Iterator[Finding | Reach]:
    """The rollout failed on rotary sizes or settings."""
    for job in rollouts(case).values():
        reported = rollout_failure(job)
        yield (
            Reach(f"no rotary failure in {describe(job)}")
            if reported is None
            else _live(case, reported, Grade.OBSERVED)
        )


@check.observed(needs=["observations.lengths"])
def engine_at_its_limit(case: Case) -> Iterator[Finding | Reach]:
    """The engine fails at a length that it accepts."""
    for job in runs(case, "lengths"):
        reported = engine_fails(job)
        if reported is not None:
            yield _live(case, reported)
        elif records(job).get("engine_side", {}).get("to the limit", {}).get("ended") == "answered":
            yield Reach(f"engine answers up to {require(job, 'limit')} tokens ({describe(job)})")


@check.observed(needs=["observations.lengths"])
def trainer_at_the_limit(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's model fails at a length that the engine accepts, and works at a short one."""
    for job in runs(case, "lengths"):
        side = trainer_side(job)
        reported = trainer_fails(job, side)
        if reported is not None:
            yield _live(case, reported)
            continue
        longest = max(one["length"] for one in side["attempts"] if one["ended"] == "done")
        yield Reach(f"trainer's {side['architecture']} runs at up to {longest} tokens, whole, padded and decoding")


@check.observed(needs=["observations.lengths"])
def parts_at_the_end(case: Case) -> Iterator[Finding | Reach]:
    """Engine and trainer agree at the beginning of a sequence and not at its end."""
    if decided_by_chunks(case):
        raise NotApplicable("an engine that prefills whole prompts agrees with transformers (RLD201)")
    if any(apart_from_trainer(job) for job in case.observations.get("agreement", {}).values()):
        raise NotApplicable("engine and trainer do not agree on ordinary prompts either (RLD403)")
    for job in runs(case, "lengths"):
        near, far = ends(job)
        reported = end_parts(job, near, far)
        if reported is not None:
            yield _live(case, reported)
        yield Reach(
            f"log-probabilities of engine and trainer differ by {far.mean:.2g} on average at the end of "
            f"{require(job, 'limit')} tokens"
        )


def _live(case: Case, reported: Told, grade: Grade | None = None) -> Finding:
    grade = grade or grade_of(case, reported.fixes)
    return check.finding(reported.message, grade=grade, evidence=reported.evidence, fixes=reported.fixes)


@check.knows
def explains(job: Job) -> bool:
    """Whether a rollout failed because of this pattern."""
    return explanation(job) is not None
