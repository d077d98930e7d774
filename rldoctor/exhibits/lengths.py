"""The chain of lengths: prompt and response, the engine's limits, the model's positions."""

from __future__ import annotations

from pathlib import PurePath

from rldoctor.case import Case
from rldoctor.exhibits.model import Length
from rldoctor.knowledge.model_config import context, model_config
from rldoctor.plan.model import RolloutPlan, Setting, Source

_LIMITS = (("engine.max_model_len", "max_model_len"), ("engine.max_num_batched_tokens", "token budget"))


def of(case: Case) -> tuple[Length, ...]:
    """The lengths that the plan or the model speak of; none where no length is known at all."""
    plan = case.plan
    if plan is None:
        return ()
    launch = plan.server or plan
    found = [_asked(plan)]
    found += [_length(name, launch.settings.get(option)) for option, name in _LIMITS]
    found.append(_positions(case))
    return tuple(found) if any(length.tokens for length in found) else ()


def _asked(plan: RolloutPlan) -> Length:
    prompt, response = plan.settings.get("lengths.prompt"), plan.settings.get("lengths.response")
    parts = tuple(
        (name, tokens)
        for name, setting in (("prompt", prompt), ("response", response))
        if (tokens := _tokens(setting)) is not None
    )
    source = ", ".join(dict.fromkeys(_source(one) for one in (prompt, response) if one is not None and _source(one)))
    if len(parts) == 2:
        return Length(name="prompt + response", tokens=sum(size for _, size in parts), source=source, parts=parts)
    missing = " and ".join({"prompt", "response"} - {name for name, _ in parts})
    return Length(name="prompt + response", tokens=None, note=f"{missing}: not known", source=source, parts=parts)


def _length(name: str, setting: Setting | None) -> Length:
    tokens = _tokens(setting)
    if setting is None:
        return Length(name=name, tokens=None, note="not set, and no default is known")
    why = setting.unknown or ("the engine's own choice" if tokens is None else setting.how or "")
    if not why and setting.source is Source.DEFAULT:
        why = "default"
    return Length(name=name, tokens=tokens, note=why, source=_source(setting))


def _positions(case: Case) -> Length:
    name = "model's positions"
    if case.model is None:
        return Length(name=name, tokens=None, note="the model's config.json is not at hand")
    config = model_config(case)
    found = context(config)
    if found is None:
        return Length(name=name, tokens=None, note="its config.json does not tell")
    return Length(name=name, tokens=found.tokens, note=config.defaulted or found.key, source="config.json")


def _tokens(setting: Setting | None) -> int | None:
    value = setting.value if setting is not None and setting.unknown is None else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _source(setting: Setting) -> str:
    return f"{PurePath(setting.file).name}:{setting.line}" if setting.file and setting.line else ""
