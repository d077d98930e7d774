"""Which probes a budget of minutes is spent on: those that see the most for each second. That are the faults that tests
put into a real engine (``docs/faults.md``), and each code that nothing else judges counts as one more: not everything
that may be wrong is in a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rldoctor.case import Case, Unknown
from rldoctor.catalogue.check import Check
from rldoctor.catalogue.probe import Request
from rldoctor.flow import probe as probing
from rldoctor.flow.probe import AnyProbe
from rldoctor.knowledge import table
from rldoctor.model import Level
from rldoctor.records import dataclass


@dataclass(frozen=True)
class Choice:
    """What is run, and the case in which each probe that is left out is unknown for that reason."""

    case: Case
    chosen: tuple[str, ...]
    left_out: tuple[str, ...]
    seconds: float

    @property
    def text(self) -> str:
        """What was chosen and what it is expected to take."""
        spent = f"the budget goes to {', '.join(self.chosen) or 'nothing'}: about {self.seconds:.0f} s"
        return f"{spent}; left out: {', '.join(self.left_out)}" if self.left_out else spent


def choose(
    case: Case, probes: Iterable[AnyProbe], checks: Iterable[Check], request: Request, level: Level, minutes: float
) -> Choice:
    """Takes, time and again, the probe that sees the most for each second that it adds, as long as the budget has room
    for it. What shares an engine with what was taken adds no boot."""
    codes, faults = codes_by_probe(checks), table("faults_seen")
    open_ = {probe.name: probe for probe in probes if probing.is_due(case, probe, level)}
    taken: list[AnyProbe] = []
    judged: set[str] = set()
    spent = 0.0
    while open_:
        costs = {
            name: probing.expected(case, [*taken, probe], request) - spent for name, probe in sorted(open_.items())
        }
        # One that is refused costs nothing and says why.
        fits = [name for name, cost in costs.items() if spent + cost <= 60 * minutes]
        if not fits:
            break
        sees = {name: faults.get(name, 0) + len(codes.get(name, set()) - judged) for name in fits}
        best = max(fits, key=lambda name: sees[name] / max(costs[name], 0.1))
        spent += costs[best]
        judged |= codes.get(best, set()) if costs[best] > 0 else set()
        taken.append(open_.pop(best))
    why = Unknown(reason=f"a budget of {minutes:g} minutes had no room for it", how="--budget with more minutes")
    unknown = {f"observations.{name}": why for name in open_}
    run = tuple(sorted(probe.name for probe in taken if probing.expected(case, [probe], request)))
    return Choice(replace(case, unknown={**case.unknown, **unknown}), run, tuple(sorted(open_)), spent)


def codes_by_probe(checks: Iterable[Check]) -> dict[str, set[str]]:
    """The codes that judge what each probe records."""
    found: dict[str, set[str]] = {}
    for check in checks:
        for need in (need for detector in check.detectors for need in detector.needs):
            if need.startswith("observations."):
                found.setdefault(need.split(".")[1], set()).add(check.code)
    return found
