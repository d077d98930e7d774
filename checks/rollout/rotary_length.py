"""The rotary position tables of the engine are shorter than the sequences it accepts.

What it looks for
    In the model's ``config.json`` (and a ``rope_scaling`` or ``hf_overrides`` of the launch): a rotary scaling that
    lacks what vLLM indexes for its kind (YaRN without ``original_max_position_embeddings``, a missing ``factor`` or
    ``rope_type``, mrope without its sections), two names for different kinds, and a rotary base that only transformers
    5 reads, with transformers 4.
    In a real engine (on a miniature of the given model where there is one, with its rope settings): every rotary table
    of the text model must have a row for each position up to ``max_model_len``. Where the engine did not start or
    failed in a rotary module: sizes that do not match there, and rope settings that the engine refuses as incomplete.
    In a running engine and in the trainer's model beside it: sequences one token short of ``max_model_len`` and of
    exactly that length, whole, padded and decoded; sizes or positions that do not match there and do at short ones, and
    log-probabilities of the two that agree at the beginning of a sequence and not at its end.
    In a log: the engine's and transformers' refusals of rope settings, and sizes or indexes that do not match in a
    rotary function.

Why it hurts
    An incomplete scaling ends the start with ``KeyError: 'original_max_position_embeddings'``. A position beyond the
    table reads memory that belongs to something else, or raises (``The size of tensor a (1034) must match the size of
    tensor b (1035)``): long sequences come out as garbage or end the run, short ones are fine.

How sure it is
    The keys are those that each kind's code indexes, by release; transformers 5 fills the original length in. Rows are
    counted on the engine's own tables. A live failure at the limit counts where a short sequence passed, and want of
    memory is none. Towers for images and sound, whose positions are not the text's, are left out.

The fix and its cost
    Keep ``max_model_len`` within what the model's config covers, or complete its rope scaling (``rope_type``,
    ``factor``, ``original_max_position_embeddings``). ``VLLM_ALLOW_LONG_MAX_MODEL_LEN=1`` lifts the test and not the
    limit.

References
    https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/model_executor/layers/rotary_embedding/base.py
    https://docs.vllm.ai/en/latest/configuration/env_vars.html (VLLM_ALLOW_LONG_MAX_MODEL_LEN)
    https://arxiv.org/abs/2309.00071 (YaRN)
    ``_get_and_verify_max_len``: https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/config/__init__.py
    https://github.com/verl-project/verl/issues/649, https://github.com/unslothai/unsloth/issues/4612
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    Reach,
    Severity,
    cite,
    find,
    original_length_filled_in,
    release,
    rope_config,
    rope_contradiction,
    rope_missing,
    rope_settings,
    text_config,
    version_within,
)

from .agreement import grade_of
from .live_lengths import trainer_side
from .observed import Job, describe, records, require, rollouts, runs
from .rope_fixes import COMPLETE, ORIGINAL, completed
from .rotary_live import (
    ROTARY_CODE,
    Told,
    end_parts,
    ends,
    engine_fails,
    explanation,
    rollout_failure,
    table_short,
    text_tables,
    trainer_fails,
)

check = Check("RLD204", "rotary-length-mismatch", __doc__)

# vLLM's own default for the base, and transformers 4's for most families.
PLAIN_BASE = 10000


@check.declared(needs=["model.config", "packages.vllm"])
def scaling_incomplete(case: Case) -> Iterator[Finding | Reach]:
    """What the engine's code for this kind of scaling indexes, and the config lacks."""
    config, source = rope_config(case)
    stated = rope_settings(config)
    if stated is None:
        raise NotApplicable("the model has no rotary scaling")
    key, settings = stated
    fills_in = original_length_filled_in(case)
    names = rope_contradiction(settings)
    if names is not None:
        yield _declared(case, f"{key} names two kinds, rope_type {names[0]} and type {names[1]}", source, settings, ())
        return
    kind = settings.get("rope_type") or settings.get("type")
    if not kind and key == "rope_scaling" and not fills_in:
        yield _declared(case, f"{key} has no rope_type", source, settings, ("rope_type",))
        return
    absent = rope_missing(settings, config, fills_in)
    version = release(case)
    if not absent and version == (0, 6, 3) and kind in ("mrope", "default") and "factor" not in settings:
        absent = ("factor",)  # `assert "factor" in rope_scaling`, which transformers' "default" for mrope does not have
    if not absent:
        yield Reach(f"{key} {kind or 'default'} is complete")
        return
    yield _declared(case, f"{key} of kind {kind} lacks {', '.join(absent)}", source, settings, absent)


@check.declared(needs=["model.config", "packages.transformers", "packages.vllm"])
def base_not_read(case: Case) -> Iterator[Finding | Reach]:
    """A config written by transformers 5, read by transformers 4: base and scaling fall back to their defaults."""
    text = text_config(case.model.config) if case.model else {}
    parameters = text.get("rope_parameters")
    base = parameters.get("rope_theta") if isinstance(parameters, Mapping) else None
    if not isinstance(base, int | float) or text.get("rope_theta") is not None or text.get("rope_scaling"):
        raise NotApplicable("the config does not keep its rotary base in rope_parameters alone")
    transformers = find(case.packages, "transformers") if case.packages else None
    if transformers is None or version_within(transformers.version, ">=5") is not False or base == PLAIN_BASE:
        yield Reach(f"rope_theta {base:g}")
        return
    yield check.finding(
        f"the config keeps rope_theta {base:g} in rope_parameters, which transformers {transformers.version} does not "
        "read: engine and trainer fall back to the family's default base, and outputs are garbage",
        severity=Severity.WARNING,
        evidence=(Evidence(text=f"rope_parameters.rope_theta {base:g}", source=_config_file(case)),),
        fixes=(
            Fix(title=f'add "rope_theta": {base:g} (and rope_scaling) to the config.json, beside rope_parameters'),
            Fix(title="or read it with transformers 5", commands=("pip install 'transformers>=5'",)),
        ),
    )


def _config_file(case: Case) -> str:
    return f"{case.model.path if case.model else ''}/config.json"


def _declared(case: Case, message: str, option: str, settings: Mapping[str, Any], absent: tuple[str, ...]) -> Finding:
    where = cite(case.plan, option) if option and case.plan is not None else ()
    return check.finding(
        f"{message}: vLLM refuses to start",
        evidence=where or (Evidence(text=f"rope settings {dict(settings)}"[:300], source=_config_file(case)),),
        fixes=tuple(completed(case, option, settings, absent)),
    )


@check.observed(needs=["observations.rollout"])
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
        rows = min(table["rows"] for table in tables)
        yield Reach(f"{rows} rows for max_model_len {limit} in {describe(job)}")


@check.observed(needs=["observations.rollout"])
def rollout_fails(case: Case) -> Iterator[Finding | Reach]:
    """The rollout failed on rotary sizes or settings."""
    for job in rollouts(case).values():
        told = rollout_failure(job)
        yield Reach(f"no rotary failure in {describe(job)}") if told is None else _live(case, told, Grade.OBSERVED)


@check.observed(needs=["observations.lengths"])
def engine_at_its_limit(case: Case) -> Iterator[Finding | Reach]:
    """The engine fails at a length that it accepts."""
    for job in runs(case, "lengths"):
        told = engine_fails(job)
        if told is not None:
            yield _live(case, told)
        elif records(job).get("engine_side", {}).get("to the limit", {}).get("ended") == "answered":
            yield Reach(f"engine answers up to {require(job, 'limit')} tokens ({describe(job)})")


@check.observed(needs=["observations.lengths"])
def trainer_at_the_limit(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's model fails at a length that the engine accepts, and works at a short one."""
    for job in runs(case, "lengths"):
        side = trainer_side(job)
        told = trainer_fails(job, side)
        if told is not None:
            yield _live(case, told)
            continue
        longest = max(one["length"] for one in side["attempts"] if one["ended"] == "done")
        yield Reach(f"trainer's {side['architecture']} runs at up to {longest} tokens, whole, padded and decoding")


@check.observed(needs=["observations.lengths"])
def parts_at_the_end(case: Case) -> Iterator[Finding | Reach]:
    """Engine and trainer agree at the beginning of a sequence and not at its end."""
    for job in runs(case, "lengths"):
        near, far = ends(job)
        told = end_parts(job, near, far)
        if told is not None:
            yield _live(case, told)
        yield Reach(
            f"log-probabilities of engine and trainer differ by {far.mean:.2g} on average at the end of "
            f"{require(job, 'limit')} tokens"
        )


def _live(case: Case, told: Told, grade: Grade | None = None) -> Finding:
    grade = grade or grade_of(case, told.fixes)
    return check.finding(told.message, grade=grade, evidence=told.evidence, fixes=told.fixes)


def explains(job: Job) -> bool:
    """Whether a rollout failed because of this pattern."""
    return explanation(job) is not None


@check.logged(
    "KeyError: 'original_max_position_embeddings'",
    "should have a 'rope_type' key",
    "rope_scaling must have a 'type' or 'rope_type' key",
    'assert "factor" in rope_scaling',
    'assert "mrope_section" in rope_scaling',
    "Legacy rope_type 'mrope' requires 'mrope_section'",
    "Dynamic rope scaling must contain either",
    "Unknown RoPE scaling type",
    "Found conflicts between 'rope_type=",
    "Missing required keys in `rope_scaling` for",
    "Missing required keys in `rope_parameters` for",
    "`rope_scaling` must be a dictionary",
)
def settings_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """What vLLM and transformers say of rope settings."""
    if event.exception is None and event.level not in ("ERROR", None):
        return
    if event.literal == "KeyError: 'original_max_position_embeddings'":
        said = f"the model's rope scaling lacks {ORIGINAL}"
        fix = Fix(
            title=f"add {ORIGINAL} (the model's length before scaling) to rope_scaling in the model's config.json, or "
            "to the rope_scaling or hf_overrides of the launch"
        )
    else:
        said, fix = f"the model's rope settings are refused: {event.line.strip()[:200]}", COMPLETE
    yield check.finding(said, fixes=(fix, Fix(title="or take a transformers and vLLM that know this model's settings")))


@check.logged("must match the size of tensor b", "is out of bounds for dimension 0 with size")
def positions_disagree(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Sizes or indexes that do not match inside a rotary function."""
    frames = event.exception.frames[-4:] if event.exception else ()
    if not any(ROTARY_CODE.search(f"{frame.file} {frame.function} {frame.code}") for frame in frames):
        return
    numbers = event.search(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
    what = f": {numbers[1]} against {numbers[2]} positions" if numbers else ""
    yield check.finding(
        f"rotary position tables and sequence disagree in length{what}",
        fixes=(
            Fix(
                title="keep prompt plus response within the length that the model's rotary tables cover (max_model_len)"
            ),
            Fix(title="let engine and trainer build their position ids the same way (padding, image tokens)"),
            COMPLETE,
        ),
    )
