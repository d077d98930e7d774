"""What a framework calls an option that a launch names in another framework's words, as when it was copied from one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from rldoctor.frameworks.rule import Rule

if TYPE_CHECKING:
    from rldoctor.frameworks.dialect import Dialect


def translated(dialect: Dialect, key: str) -> list[str]:
    """The dialect's own keys for what the last part of ``key`` means in the frameworks that have it, those of its own
    section first; none where they mean different things by it."""
    means = _meanings().get(_leaf(key), frozenset())
    if len(means) != 1:
        return []
    section = key.rpartition(".")[0]
    names = [name for option in means for name, rule in dialect.native_keys(option) if _plain(rule)]
    return sorted(names, key=lambda name: name.rpartition(".")[0] != section)


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
