"""What vLLM needs of a rotary scaling, by kind, and what a given one lacks.

Read from ``get_rope`` (``vllm/model_executor/layers/rotary_embedding``), ``patch_rope_scaling_dict`` and
``_get_and_verify_max_len`` of vLLM 0.6.3 to 0.20.0, and from ``transformers/modeling_rope_utils.py`` of 4.57 and 5.19
(which fills in ``original_max_position_embeddings`` where it is missing)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.catalogue.check import NotChecked
from rldoctor.knowledge.model_config import text_config
from rldoctor.knowledge.vllm_engine import release
from rldoctor.versions import version_within

ORIGINAL = "original_max_position_embeddings"
NEEDS = {
    "yarn": ("factor", ORIGINAL),
    "deepseek_yarn": ("factor", ORIGINAL),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", ORIGINAL),
    "longrope": ("short_factor", "long_factor", ORIGINAL),
    "su": ("short_factor", "long_factor", ORIGINAL),
    "mrope": ("mrope_section",),
}
# Releases that came out before transformers 5, where its version is not known.
BEFORE_TRANSFORMERS_5 = (0, 15)
# Old and new name of one thing, which a config may state side by side.
SAME = ({"mrope", "default"}, {"su", "longrope"})


def scaling(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The rotary scaling as it stands in the language model's config, its kind stated or not: the key and the
    settings; None where there is none (transformers 5 writes a plain rotary base as ``rope_parameters`` too)."""
    for key in ("rope_scaling", "rope_parameters"):
        found = config.get(key)
        if isinstance(found, Mapping) and found and not all(isinstance(v, Mapping) for v in found.values()):
            return key, found
    return None


def missing(settings: Mapping[str, Any], config: Mapping[str, Any], fills_in: bool) -> tuple[str, ...]:
    """Keys that its kind needs and that are not there. ``fills_in`` tells that transformers supplies the original
    length. Models that keep it beside the scaling (Phi-3) have it."""
    kind = str(settings.get("rope_type") or settings.get("type") or "")
    given = {key for key, value in settings.items() if value is not None}
    if fills_in or (config.get(ORIGINAL) is not None and kind in ("su", "longrope")):
        given.add(ORIGINAL)
    absent = [key for key in NEEDS.get(kind, ()) if key not in given]
    if kind == "dynamic" and not given & {"factor", "alpha"}:
        absent.append("factor")
    return tuple(absent)


def contradiction(settings: Mapping[str, Any]) -> tuple[str, str] | None:
    """``rope_type`` and the older ``type`` where they name different kinds."""
    new, old = settings.get("rope_type"), settings.get("type")
    if new and old and new != old and {str(new), str(old)} not in SAME:
        return str(new), str(old)
    return None


def effective(case: Case) -> tuple[Mapping[str, Any], str]:
    """The language model's config with the launch's changes to its rotary scaling, and where the scaling stands."""
    config = text_config(case.model.config) if case.model else {}
    plan = case.plan
    for option in ("engine.rope_scaling", "engine.hf_overrides"):
        setting = plan.get(option) if plan is not None else None
        if setting is None or not setting.value:
            if setting is not None and setting.unknown and setting.source == "given":
                raise NotChecked(f"{option}: {setting.unknown}")
            continue
        value = setting.value if isinstance(setting.value, Mapping) else None
        if value is None:
            raise NotChecked(f"{option} is not a dictionary that can be read")
        changed = {"rope_scaling": value} if option == "engine.rope_scaling" else text_config(value)
        if "rope_scaling" in changed or "rope_parameters" in changed:
            kept = {k: v for k, v in config.items() if k not in ("rope_scaling", "rope_parameters")}
            return {**kept, **changed}, option
    return config, ""


def original_length_filled_in(case: Case) -> bool:
    """Whether transformers fills the original length in; by vLLM's release where its own is not known."""
    found = find(case.packages, "transformers") if case.packages else None
    if found is not None:
        return version_within(found.version, ">=5") is not False
    version = release(case)
    if version is None:
        raise NotChecked("neither transformers' nor vLLM's release is known")
    return version >= BEFORE_TRANSFORMERS_5
