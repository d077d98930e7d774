"""What a launch does not tell could be anything: a plan knows what comes out the same whatever it is.

Where values cannot be read, a plan is completed once without them, and once more for each of a few worlds in which they
are something. A setting that differs between these follows from what cannot be read, and is as unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from rldoctor.frameworks.draft import Draft
from rldoctor.plan.model import Setting, Source
from rldoctor.plan.vocabulary import plain, term

# What a setting of each type is, from world to world: sizes that divide each other and that do not, shares and weights.
_IMAGINED: Mapping[str, tuple[Any, ...]] = {
    "bool": (True, False),
    "int": (1, 2, 6, 96, 480),
    "size": (1, 2, 6, 96, 480),
    "float": (0.25, 0.0, 0.75),
    "str": ("something", "something else"),
    "list": ([0], [0, 1]),
}
# What a native setting is that has no name in the vocabulary, and so no type.
_UNTYPED = (True, 2, "something", 96, False)
# Words on which much depends.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "placement.mode": ("colocate", "server", "separate", "async", "none"),
    "process.launcher": ("none", "torchrun", "accelerate", "deepspeed"),
    "rollout.backend": ("vllm", "sglang", "hf", "something"),
    "trainer.algorithm": ("grpo", "ppo", "gae", "rloo", "something"),
    "trainer.strategy": ("fsdp", "megatron", "deepspeed", "ddp", "fsdp2"),
}
_WORLDS = 5
# More are not tried one by one for what a difference comes from.
_MOST_TRIED = 24
# More are counted, not named.
_MOST_NAMED = 3
# What a world was asked to be, and its settings; None where nothing runs with such values.
_Played = tuple[Mapping[str, Any], dict[str, Setting] | None]


def agreed(draft: Draft, complete: Callable[[Draft], None]) -> None:
    """Completes a draft; settings that follow from what cannot be read are unknown, and say from what they follow."""
    begun = draft.copy()
    complete(draft)
    unread = {option: setting for option, setting in draft.settings.items() if setting.unknown is not None}
    unread |= begun.unread_natives()
    if not unread:
        return

    first: list[_Played] = []

    def worlds(changed: str | None = None) -> list[dict[str, Setting]]:
        """The settings of every world that is another than those before; with ``changed`` all but that one are as in
        the first, which is the same whatever changes."""
        played = [*first]
        for number in range(_WORLDS):
            imagine = partial(_imagined, number, changed)
            if not any(all(imagine(option) == value for option, value in asked.items()) for asked, _ in played):
                played.append(_played(begun, complete, imagine))
        first[:] = played[:1]
        return [settings for _, settings in played if settings is not None]

    differing = _differing([draft.settings, *worlds()]) - unread.keys()
    causes: dict[str, list[str]] = {name: [] for name in differing}
    if differing and len(unread) <= _MOST_TRIED:
        for option in unread:
            for name in _differing(worlds(option)) & differing:
                causes[name].append(option)
    for name in differing:
        behind = {option: unread[option] for option in causes[name] or unread}
        draft.settings[name] = _following(draft.settings.get(name), behind)


def _played(begun: Draft, complete: Callable[[Draft], None], imagine: Callable[[str], Any]) -> _Played:
    asked: dict[str, Any] = {}

    def told(option: str) -> Any:
        asked[option] = imagine(option)
        return asked[option]

    world = begun.copy(told)
    try:
        complete(world)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return asked, None
    return asked, world.settings


def _imagined(world: int, changed: str | None, option: str) -> Any:
    """What a setting is in a world, in which only the ``changed`` one may differ from the first; None where nothing can
    be imagined for its type."""
    found = term(option)
    kind = found.kind if found is not None else ""
    values = _WORDS.get(option) or (_IMAGINED.get(kind, (None,)) if found is not None else _UNTYPED)
    return values[(world if changed in (None, option) else 0) % len(values)]


def _differing(worlds: list[dict[str, Setting]]) -> set[str]:
    """The settings that are not the same in all of these worlds."""
    names = {name for settings in worlds for name in settings}
    said = {name: [_said(settings.get(name)) for settings in worlds] for name in names}
    return {name for name, found in said.items() if any(one != found[0] for one in found)}


def _said(setting: Setting | None) -> tuple[Any, bool]:
    return (None, False) if setting is None else (setting.value, setting.unknown is not None)


def _following(held: Setting | None, behind: Mapping[str, Setting]) -> Setting:
    """A setting that nobody knows, with the settings from which it follows and that cannot be read."""
    first = next(iter(behind.values()))
    named = list(dict.fromkeys(setting.key or plain(option) for option, setting in behind.items()))
    more = " ..." if len(named) > _MOST_NAMED else ""
    why = f"it follows from {', '.join(named[:_MOST_NAMED])}{more}: {first.unknown}"
    if held is None:
        return Setting(source=Source.DERIVED, file=first.file, line=first.line, unknown=why)
    return replace(held, value=None, unknown=why)
