"""What completes a model's rope settings, or keeps an engine within the length that they give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Applicability, Case, Edit, Fix
from rldoctor.api.engine import release
from rldoctor.api.models import text_config

ORIGINAL = "original_max_position_embeddings"

COMPLETE = Fix(
    title="complete the rope settings in the model's config.json: rope_type, factor, original_max_position_embeddings"
)


def limited(tokens: int) -> Fix:
    return Fix.unsafe(
        f"limit the engine to {tokens} positions",
        {"engine.max_model_len": tokens},
        side_effects="prompts and responses must fit",
    )


def completed(case: Case, option: str, settings: Mapping[str, Any], absent: tuple[str, ...]) -> Iterator[Fix]:
    """The scaling completed by an override of the config, where only the original length is missing: it is the length
    before scaling, for which transformers takes max_position_embeddings."""
    length = (text_config(case.model.config) if case.model else {}).get("max_position_embeddings")
    if absent == (ORIGINAL,) and isinstance(length, int):
        complete = {**settings, "rope_type": settings.get("rope_type") or settings.get("type"), ORIGINAL: length}
        complete.pop("type", None)
        yield Fix(title=f'add "{ORIGINAL}": {length} to rope_scaling in the model\'s config.json')
        if case.plan is not None and (release(case) or ()) >= (0, 8):
            overrides = {**(case.plan.value("engine.hf_overrides") or {}), "rope_scaling": complete}
            edit = (
                Edit(option=option, value=complete)
                if option == "engine.rope_scaling"
                else Edit(option="engine.hf_overrides", value=overrides)
            )
            yield Fix(
                title=f"or complete it in the launch ({ORIGINAL} {length})",
                applicability=Applicability.SAFE,
                edits=(edit,),
                side_effects="the trainer reads the model's own config",
            )
    elif absent:
        yield Fix(title=f"add {', '.join(absent)} to rope_scaling in the model's config.json")
    else:
        yield Fix(title="keep one of rope_type and type in the model's config.json")
