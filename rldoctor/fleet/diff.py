"""What differs between two cases: a machine on which a run works and one on which it fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rldoctor.case import Case
from rldoctor.fleet import compared
from rldoctor.fleet.compared import Facts, Order
from rldoctor.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One fact that is not the same: its value in the first and in the second case, None where there is none; ``note``
    says of an unknown one why it is not known. ``minor`` is a package that no rollout stands on, in one case only."""

    section: str
    name: str
    first: Any
    second: Any
    note: str | None = None
    minor: bool = False


def differences(first: Case, second: Case) -> tuple[Difference, ...]:
    """Everything that differs, section by section, what is most likely to matter first in each."""
    return tuple(
        difference
        for section, facts, order in compared.SECTIONS
        for difference in _compared(section, first, second, facts, order)
        if section != "packages" or not _unknowable(difference, first, second)
    )


def _compared(section: str, first: Case, second: Case, facts: Facts, order: Order | None) -> Iterator[Difference]:
    one, other = facts(first), facts(second)
    if one is None and other is None:
        return
    if one is None or other is None:
        lacking = first if one is None else second
        note = _why_not(lacking, section)
        yield Difference(
            section=section,
            name=section,
            first=None if one is None else f"{len(one)} facts",
            second=None if other is None else f"{len(other)} facts",
            note=note,
        )
        return
    names = [*one, *(name for name in other if name not in one)]
    for name in sorted(names, key=order) if order else names:
        if one.get(name) != other.get(name):
            minor = (
                section == "packages" and compared.package_order(name)[0] == 3 and not (name in one and name in other)
            )
            yield Difference(section=section, name=name, first=one.get(name), second=other.get(name), minor=minor)


def _unknowable(difference: Difference, first: Case, second: Case) -> bool:
    """Whether a package is only not named where an environment was assumed, which says nothing."""
    sides = ((difference.first, first), (difference.second, second))
    return any(value is None and case.packages is not None and not case.packages.complete for value, case in sides)


def _why_not(case: Case, section: str) -> str:
    unknown = case.unknown.get(section)
    return unknown.reason if unknown else case.absent.get(section, "not collected")
