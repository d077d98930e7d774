"""Takes the secrets out of a rollout plan, which is printed in reports and kept in bundles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor import redact
from rldoctor.frameworks import trainers
from rldoctor.plan.model import Given, Note, RolloutPlan, Setting

# Options that take a key under a name that does not say so, with one that does.
_KEYS = {option: name for framework in trainers() for option, name in framework.secrets.items()}


def without_secrets(plan: RolloutPlan) -> RolloutPlan:
    """The plan with marks in place of tokens, keys and passwords, under whatever name they stand."""
    return replace(
        plan,
        settings={name: _setting(name, setting) for name, setting in plan.settings.items()},
        given=tuple(map(_given, plan.given)),
        unread=tuple(map(_given, plan.unread)),
        notes=tuple(_note(note) for note in plan.notes),
        server=without_secrets(plan.server) if plan.server is not None else None,
    )


def _setting(name: str, setting: Setting) -> Setting:
    names = (name, setting.key or "", *setting.path)
    value = _value(names, setting.value)
    # The text of a dictionary holds the secrets of its entries in many spellings.
    hidden = value != setting.value or (setting.raw and any(_is_secret(part, setting.raw) for part in names))
    return replace(
        setting,
        value=value,
        raw=redact.mark(setting.key or name) if hidden and setting.raw else _text(setting.raw),
        how=_text(setting.how),
        unknown=_text(setting.unknown),
    )


def _given(given: Given) -> Given:
    return replace(given, value=_value((given.key,), given.value), unknown=_text(given.unknown))


def _note(note: Note) -> Note:
    return replace(note, text=redact.text(note.text))


def _text(text: str | None) -> str | None:
    return None if text is None else redact.text(text)


def _value(names: tuple[str, ...], value: Any) -> Any:
    """The value that stands under these names; what a dictionary holds stands under its own keys as well."""
    if isinstance(value, dict):
        return {key: _value((str(key),), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_value(names, item) for item in value)
    if not isinstance(value, str):
        return value
    for name in names:
        if _is_secret(name, value):
            redact.remember(name, value)
            return redact.mark(name)
    return redact.text(value)


def _is_secret(key: str, value: str | None) -> bool:
    *above, name = key.lstrip("-+").replace("-", "_").split(".")
    if name.isupper():
        return redact.is_secret_variable(name, value or "")
    names = (_KEYS.get(name, name), "_".join([*above[-1:], name]))
    return any(redact.is_secret_option(name, value or "") for name in names)
