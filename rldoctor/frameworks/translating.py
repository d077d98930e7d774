"""What a framework calls an option that a launch names in another framework's words, as when it was copied from one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rldoctor.frameworks.rule import Rule

if TYPE_CHECKING:
    from rldoctor.frameworks.dialect import Dialect
    from rldoctor.tables.options.optionset import OptionSet


def translated(dialect: Dialect, key: str) -> list[str]:
    """The dialect's own keys for what the last part of ``key`` means in the frameworks that have it, those of its own
    section first; none where they mean different things by it."""
    means = _meanings().get(_leaf(key), frozenset())
    if len(means) != 1:
        return []
    section = key.rpartition(".")[0]
    names = [name for option in means for name, rule in dialect.native_keys(option) if _plain(rule)]
    return sorted(names, key=lambda name: name.rpartition(".")[0] != section)


def other_name(dialect: Dialect, options: OptionSet, key: str) -> str | None:
    """The release's own name for what the dialect reads as the same setting in the same way: a flag that chooses one
    value is no name for the option that takes the value, nor a list of devices for their number."""
    found = dialect.rule(key)
    if found is None or not found[1].carries:
        return None
    named = [name for name, rule in dialect.native_keys(found[0]) if rule.carries and _read_alike(rule, found[1])]
    known = [name for name in named if options.known(name) is True]
    if not known:
        return None
    from difflib import SequenceMatcher

    return max(known, key=lambda name: SequenceMatcher(None, name, key).ratio())


def _read_alike(one: Rule, other: Rule) -> bool:
    """Whether two rows read a value in one way, also where one function made what reads it for both."""

    def told_by(rule: Rule) -> Any:
        code = getattr(rule.read, "__code__", rule.read)
        return code, [cell.cell_contents for cell in getattr(rule.read, "__closure__", None) or ()]

    return bool(told_by(one) == told_by(other))


@lru_cache(maxsize=1)
def _meanings() -> Mapping[str, frozenset[str]]:
    """What each last part of a key stands for, in all frameworks that take its value as it is."""
    from rldoctor.frameworks import all_dialects

    found: dict[str, set[str]] = defaultdict(set)
    for dialect in all_dialects():
        for key, rule in dialect.rules().items():
            if _plain(rule):
                found[_leaf(key)].add(rule.option)
    return {leaf: frozenset(options) for leaf, options in found.items()}


def _plain(rule: Rule) -> bool:
    return rule.carries and rule.read is None and rule.write is None


def _leaf(key: str) -> str:
    return key.rpartition(".")[2].removeprefix("--").replace("-", "_")
