"""One table of metric names: what each framework logs, and the canonical name that checks read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from rldoctor.frameworks import logged
from rldoctor.logs.metrics.values import is_rounded_zero, number
from rldoctor.records import dataclass

# A record without one of these is an evaluation, a user's own print or something else that is not a training step.
ANCHORS = frozenset({"loss", "policy_loss", "grad_norm", "learning_rate"})

# Small values of these mean something, so that a 0 which rounding may have made is no value.
_FINE = frozenset({"loss", "policy_loss", "grad_norm", "learning_rate", "kl"})


@dataclass(frozen=True)
class Name:
    """One row: the canonical name, its preference (lower is better), and whether 0 may mean that the feature is off:
    always, or (``shown_by``) in a record that does not hold the metric which only the feature logs."""

    canonical: str
    preference: int
    off: bool
    shown_by: str | None = None

    def means_off(self, value: float, record: Mapping[str, object]) -> bool:
        """Whether ``value`` may only say that nothing was measured."""
        return self.off and value == 0 and (self.shown_by is None or self.shown_by not in record)


@cache
def table(framework: str) -> dict[str, Name]:
    """Native names of one framework."""
    rows = [line.split() for line in logged()[framework].names.strip().splitlines()]
    if not rows:
        return table(logged()[framework].like)
    names: dict[str, Name] = {}
    for preference, row in enumerate(rows):
        off, _, shown_by = row[-1].partition(":")
        *native, canonical = row[:-1] if off == "off" else row
        names[" ".join(native)] = Name(canonical, preference, off == "off", shown_by or None)
    return names


def framework_of(natives: Iterable[str]) -> str:
    """The table for a record with these native names."""
    plain = [plain_name(native) for native in natives]
    for framework, held in logged().items():
        if held.markers and any(name.startswith(held.markers) for name in plain):
            return framework
    # Whatever has none of these is read by the table that needs none.
    return next(framework for framework, held in logged().items() if held.names and not held.markers)


def plain_name(native: str) -> str:
    """The name without the ``train/`` that trainers put in front for TensorBoard and W&B."""
    return native.removeprefix("train/")


def translate(record: Mapping[str, object], framework: str | None = None) -> dict[str, tuple[str, float]]:
    """Canonical name to native name and value, for those names of ``record`` that the table knows and that have a
    number."""
    known = table(framework or framework_of(record))
    chosen: dict[str, tuple[int, str, float]] = {}
    for native, raw in record.items():
        name = known.get(plain_name(native))
        value = number(raw) if name is not None else None
        if name is None or value is None or name.means_off(value, record):
            continue
        if name.canonical in _FINE and is_rounded_zero(raw):
            continue
        present = chosen.get(name.canonical)
        if present is None or name.preference < present[0]:
            chosen[name.canonical] = (name.preference, native, value)
    return {canonical: (native, value) for canonical, (_, native, value) in chosen.items()}
