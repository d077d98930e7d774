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

from rldoctor.api import Case, Check, Evidence, Finding, Fix, NotApplicable, Reach, Severity, cite, find, version_within
from rldoctor.api.engine import release
from rldoctor.api.models import text_config
from rldoctor.api.rope import original_length_filled_in, rope_config, rope_contradiction, rope_missing, rope_settings

from .fixes import completed

check = Check("RLD204", "rotary-length-mismatch", __doc__, before=("RLD305",))

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
