"""Memory of the engine's processes under steady traffic."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, Grade, Reach, Severity

from ...observed.rollout import describe
from ...observed.soak import DEVICE, HOST, measured, reach, trend
from . import check
from .fixes import MORE


@check.observed(needs=["observations.soak"])
def grows_under_traffic(case: Case) -> Iterator[Finding | Reach]:
    """The engine's processes take more host memory with every round of the same traffic."""
    job, windows = measured(case)
    seen = [one for one in (trend(windows, HOST), trend(windows, DEVICE)) if one is not None]
    grown = [one for one in seen if one.grows]
    if not grown:
        yield reach(windows, seen)
        return
    yield check.finding(
        f"{grown[0].quantity.what} of {describe(job)} grows under steady traffic by {grown[0].rate}",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=tuple(one.evidence() for one in grown),
        fixes=(Fix(title="start the engine anew every so many steps, or take another vLLM release"), MORE),
    )
