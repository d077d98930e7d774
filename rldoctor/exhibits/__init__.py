"""What a report can show beside its findings, taken from the case: lengths, memory, ranks, versions, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rldoctor.exhibits.model import Exhibits

if TYPE_CHECKING:  # a report holds exhibits, and msgspec reads its types when they run
    from rldoctor.case import Case
    from rldoctor.model import Report

__all__ = ["Exhibits", "of"]


def of(case: Case, report: Report) -> Exhibits:
    """What the case holds of each; what it does not hold is left out, or said to be unknown where a launch has it."""
    from rldoctor.exhibits import agreement, lengths, memory, metrics, ranks, versions

    return Exhibits(
        title=case.target or report.target,
        lengths=lengths.of(case),
        memory=memory.of(case),
        ranks=ranks.of(case),
        versions=versions.of(case),
        metrics=metrics.of(case, report),
        agreement=agreement.of(case),
    )
