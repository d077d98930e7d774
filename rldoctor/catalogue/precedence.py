"""Which code comes first where one failure shows several, as the checks themselves say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from rldoctor.catalogue.check import Check, Kind
from rldoctor.records import dataclass


@dataclass(frozen=True)
class Precedence:
    """What the checks of one vocabulary say of each other. ``before`` has pairs of codes, the first before the second
    whichever stands earlier in a log; ``explained`` maps a code to those whose conclusion makes its own needless."""

    before: tuple[tuple[str, str], ...] = ()
    explained: Mapping[str, frozenset[str]] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)

    @classmethod
    def of(cls, checks: Iterable[Check]) -> Precedence:
        """The precedence among these checks; what they say of others is left out."""
        checks = list(checks)
        codes = {key: check.code for check in checks for key in (check.code, check.name, *check.formerly)}
        explained: dict[str, set[str]] = {}
        for check in checks:
            for other in check.explains:
                if other in codes:
                    explained.setdefault(codes[other], set()).add(check.code)
        return cls(
            tuple((check.code, codes[other]) for check in checks for other in check.before if other in codes),
            {code: frozenset(others) for code, others in explained.items()},
            {check.code: check.kind for check in checks},
        )

    def of_kind(self, *kinds: Kind) -> frozenset[str]:
        """The codes whose findings say this of a run."""
        return frozenset(code for code, kind in self.kinds.items() if kind in kinds)

    def is_explained(self, code: str, concluded: Iterable[str]) -> bool:
        """Whether one of the codes that concluded something makes this one's conclusion needless."""
        return not self.explained.get(code, frozenset()).isdisjoint(concluded)

    def ordered(self, codes: Sequence[str]) -> list[str]:
        """The codes, each that must come before another moved up to just before it."""
        order = list(codes)
        for first, second in self.before:
            if first in order and second in order and order.index(first) > order.index(second):
                order.remove(first)
                order.insert(order.index(second), first)
        return order
