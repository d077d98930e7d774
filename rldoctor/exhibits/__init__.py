"""What a report can show beside its findings, taken from the case: lengths, memory, ranks, versions, metrics."""

from __future__ import annotations

from rldoctor.case import Case
from rldoctor.exhibits import lengths, memory, metrics, ranks, versions
from rldoctor.exhibits.model import Exhibits
from rldoctor.model import Report

__all__ = ["Exhibits", "of"]


def of(case: Case, report: Report) -> Exhibits:
    """What the case holds of each; what it does not hold is left out, or said to be unknown where a launch has it."""
    return Exhibits(
        title=case.target or report.target,
        lengths=lengths.of(case),
        memory=memory.of(case),
        ranks=ranks.of(case),
        versions=versions.of(case),
        metrics=metrics.of(case, report),
    )
