"""A dialect's table as it is looked up: the rows by native key and by canonical name, the sections, what is beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from rldoctor.frameworks.patterns import Patterns
from rldoctor.frameworks.rule import Boolean, Rule
from rldoctor.plan.vocabulary import term


class Rows:
    """``keys`` are the rows that name one key each; those that end in ``.*`` stand for everything one level below."""

    def __init__(self, table: Mapping[str, str | Rule], beside: Iterable[str]) -> None:
        rows = as_rules(table)
        self.keys = {key: rule for key, rule in rows.items() if not key.endswith(".*")}
        self._below = [(key[:-1], rule) for key, rule in rows.items() if key.endswith(".*")]
        self._named = (*table, *beside)
        self._patterns = tuple(beside)

    def rule(self, key: str) -> tuple[str, Rule] | None:
        """The canonical name and the rule of a native key, or None."""
        found = self.keys.get(key)
        if found is not None:
            return found.option, found
        for prefix, rule in self._below:
            if key.startswith(prefix) and len(key) > len(prefix):
                name = rule.option[:-1] + key[len(prefix) :].replace("-", "_")
                # Only the first level below is an option; deeper keys belong to its dictionary.
                return None if "." in key[len(prefix) :] else (name, rule)
        return None

    def native_keys(self, option: str) -> Iterator[tuple[str, Rule]]:
        """The native keys that set a canonical option, the one to write first."""
        for key, rule in self.keys.items():
            if rule.option == option and rule.spelled and not key.startswith("env:"):
                yield key, rule
        for prefix, rule in self._below:
            if rule.spelled and option.startswith(rule.option[:-1]):
                yield prefix + option[len(rule.option) - 1 :], rule

    def flags(self, booleans: Boolean) -> frozenset[str]:
        """The keys whose options are written without a value, where ``booleans`` is how the framework writes them."""

        def bare(rule: Rule) -> bool:
            kind = term(rule.option)
            if rule.read is bool:  # whether it has a value at all is what counts
                return False
            if rule.boolean is Boolean.FLAG:  # it may choose a mode
                return True
            return (rule.boolean or booleans) is not Boolean.VALUE and kind is not None and kind.kind == "bool"

        return frozenset(key for key, rule in self.keys.items() if bare(rule))

    @cached_property
    def beside(self) -> Patterns:
        """Of keys that do not concern a plan."""
        return Patterns(self._patterns)

    @cached_property
    def sections(self) -> frozenset[str]:
        """Every key that has others below it."""
        return frozenset(parent for key in self._named for parent in parents(key))


def as_rules(table: Mapping[str, str | Rule]) -> dict[str, Rule]:
    """Every row of a table as a rule, those included that give only a canonical name."""
    return {key: rule if isinstance(rule, Rule) else Rule(rule) for key, rule in table.items()}


def parents(key: str) -> Iterator[str]:
    """The sections around a dotted key, the innermost first."""
    while "." in key:
        key = key.rpartition(".")[0]
        yield key
