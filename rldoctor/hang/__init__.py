"""A stalled run as it stands: collects what every process of it does, keeps it in a folder, and compares the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rldoctor.case import Case
    from rldoctor.hang.view import StalledRun


def stalled_run(case: Case) -> StalledRun:
    """The stalled run in a case that holds ``observations.hang``. Raises :class:`msgspec.ValidationError` where the
    record is damaged."""
    # Imported here, since every start loads what checks import, and hardly any has a stalled run.
    from rldoctor.hang.model import hang_of
    from rldoctor.hang.view import StalledRun

    return StalledRun(hang_of(case))
