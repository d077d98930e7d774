"""Rows of a table that more than one framework needs: keys that only count together with others, sizes in GB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from rldoctor.formats.native import Native
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.spelled import Spelling


class Decided(Rule):
    """A key that says something of an option which only the derivations can tell, together with other keys: it is
    understood, and sets nothing by itself."""

    carries: ClassVar[bool] = False


def decided(option: str) -> Rule:
    """A row for such a key."""
    return Decided(option, read=lambda value: None, write=lambda value: value)


def gigabytes(option: str) -> Rule:
    """A native size in GB for a canonical one in MiB."""
    return Rule(option, read=_megabytes, write=lambda size: size / 1024)


def _megabytes(size: Any) -> int:
    return int(float(size) * 1024)


def below(section: str, names: str) -> tuple[str, ...]:
    """Patterns of keys below a section, from their last parts written one after the other."""
    return tuple(f"{section}.{name}" for name in names.split())


def keys_of(table: Mapping[str, str | Rule], option: str) -> Iterator[str]:
    """The native keys of a table that set a canonical option by themselves."""
    return (key for key, rule in table.items() if option == (rule if isinstance(rule, str) else rule.option))


def passed_twice(
    draft: Draft, section: str, names: Iterable[str], owner: str, own: Callable[[str], str | None]
) -> None:
    """Engine arguments below ``section`` that the framework passes itself: ``f(a=1, **{"a": 2})`` is a TypeError.
    ``own`` tells the framework's key for one, if it has any."""
    for name in names:
        native = draft.natives.get(f"{section}.{name}")
        if native is None or native.operator == "~":
            continue
        key = own(name)
        draft.unknown.append(
            native.as_unknown(
                owner=f"{section} of {owner} (which passes {name} to the engine itself)",
                nearest=() if key is None else (key,),
            )
        )


def not_twice(spelling: Spelling, section: str, names: Iterable[str], owner: str) -> Spelling:
    """A spelling as it is, unless it would give the engine an argument that the framework passes itself."""
    write = spelling.write
    if write is None or write.remove or write.key not in {f"{section}.{name}" for name in names}:
        return spelling
    name = write.key.rpartition(".")[2]
    return Spelling(text=spelling.text, reason=f"{owner} passes {name} to the engine itself, and takes no other")


class Deciding(Dialect):
    """A dialect whose table has such keys."""

    def take(self, draft: Draft, native: Native) -> None:
        found = self.rules().get(native.key)
        if isinstance(found, Decided):
            self.check_known(draft, native)
            self.check_name(draft, native)
            draft.record(native, found.option)
        else:
            super().take(draft, native)
