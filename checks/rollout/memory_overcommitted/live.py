"""Device memory over the cycles of sleep and wake-up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotChecked, Reach, Severity, cite

from ...observed.rollout import describe, require, runs
from . import check

# Other processes' allocations move the free memory of a device by less; a leak is seen over this many cycles.
LEAKED, FEWEST_CYCLES = 128 << 20, 10


@check.observed(needs=["observations.sleep"])
def cycles_leak(case: Case) -> Iterator[Finding | Reach]:
    """The device's free memory with the engine awake, from the second cycle to the last."""
    for job in runs(case, "sleep"):
        awake = [cycle["awake"] for cycle in require(job, "cycles")][1:]
        if len(awake) < FEWEST_CYCLES:
            raise NotChecked(f"the engine slept {len(awake) + 1} times only")
        lost, more = awake[0] - awake[-1], len(awake) - 1
        falling = sum(later < earlier for earlier, later in pairwise(awake))
        if lost < LEAKED or falling < len(awake) // 2:
            yield Reach(f"{len(awake) + 1} cycles of sleep cost {max(lost, 0) >> 20} MiB")
            continue
        yield check.finding(
            f"{describe(job)} keeps {lost / more / (1 << 20):.0f} MiB more with every cycle of sleep: in a long "
            "run the device fills up",
            severity=Severity.WARNING,
            grade=Grade.REPRODUCED,
            evidence=(
                Evidence(
                    text=f"free: {awake[0] >> 20} MiB, after {more} more cycles {awake[-1] >> 20}",
                    source="sleep probe",
                ),
                *(cite(case.plan, "engine.enable_sleep_mode", "sleep.level") if case.plan is not None else ()),
            ),
            fixes=(
                Fix.unsafe(
                    "let the engine stay awake, where both fit",
                    {"engine.enable_sleep_mode": False},
                    side_effects="the engine's share of memory is taken during training too",
                ),
            ),
        )
