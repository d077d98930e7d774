"""Carries out the overrides of a command line on a composed configuration, as Hydra does with a closed one."""

from __future__ import annotations

from typing import Any

from rldoctor.formats.hydra.composer import Composition, merge
from rldoctor.formats.hydra.grammar import Override

_ABSENT = object()


def applied(done: Composition) -> dict[str, Any]:
    """The composed tree after the overrides; what Hydra would refuse is added to its problems."""
    tree = done.tree()
    for override in done.overrides:
        problem = _apply(tree, override)
        if problem:
            done.problems.append(f"{override.sign}{override.key}: {problem}")
    return tree


def _apply(tree: dict[str, Any], override: Override) -> str:
    """Carries one out; the reason where Hydra refuses it."""
    if override.package is not None:
        return "no such group"
    *above, name = override.key.split(".")
    holder: Any = tree
    for part in above:
        if isinstance(holder, dict) and part not in holder and override.sign in ("+", "++"):
            holder[part] = {}
        if isinstance(holder, dict) and isinstance(holder.get(part), dict):
            holder = holder[part]
        elif isinstance(holder, dict) and override.sign in ("+", "++"):
            holder[part] = {}
            holder = holder[part]
        else:
            return "the configuration has no such key"
    held = holder.get(name, _ABSENT)
    if override.sign == "~":
        if held is _ABSENT or held is None:
            return "the configuration has no such key"
        if override.given and override.value is not None and override.value != held:
            return "it has another value"
        del holder[name]
        return ""
    if not override.sign and held is _ABSENT:
        return "the configuration has no such key"
    composite = isinstance(override.value, dict | list)
    if override.sign == "+" and held is not _ABSENT and held is not None and not composite:
        return "the configuration has this key"
    if isinstance(override.value, dict) and isinstance(held, dict):
        if not override.sign and (new := _new(held, override.value)):
            return f"the configuration has no key {new}"
        merge(held, override.value)
    else:
        holder[name] = override.value
    return ""


def _new(held: dict[str, Any], given: dict[Any, Any]) -> str:
    for key, value in given.items():
        if key not in held:
            return str(key)
        inner = held[key]
        if isinstance(value, dict) and isinstance(inner, dict) and (found := _new(inner, value)):
            return found
    return ""
