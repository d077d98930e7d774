"""Known defects of releases as data: which versions have them, under which settings, what shows and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any

from rldoctor.case import Case
from rldoctor.knowledge import table
from rldoctor.knowledge.scope import Scope
from rldoctor.records import dataclass


@dataclass(frozen=True, kw_only=True)
class KnownIssue(Scope):
    """One defect, and the releases and settings that have it. ``shown_by`` is the code whose check judges it."""

    id: str
    symptom: str
    fix: str
    url: str
    verified: str
    introduced: str | None = None
    fixed: str | None = None
    shown_by: str = "RLD111"
    severity: str = "warning"
    command: str | None = None
    edits: Mapping[str, Any] = field(default_factory=dict)


def known_here(name: str, case: Case) -> KnownIssue | None:
    """The row of that ``id``, where a case has its releases and settings."""
    row = next(issue for issue in known_issues() if issue.id == name)
    return row if row.covers(case) else None


@lru_cache(maxsize=1)
def known_issues() -> tuple[KnownIssue, ...]:
    """Every row of ``known_issues.json``."""
    return tuple(
        KnownIssue(
            beside=row.get("with", {}),
            frameworks=tuple(row.get("frameworks", ())),
            **{key: value for key, value in row.items() if key not in ("with", "frameworks")},
        )
        for row in table("known_issues")["rows"]
    )
