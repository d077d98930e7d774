"""What mends a defect that the table of known ones has."""

from __future__ import annotations

from rldoctor.api import Applicability, Case, Edit, Fix
from rldoctor.api.releases import KnownIssue, known_here


def fixes_of(row: KnownIssue) -> tuple[Fix, ...]:
    edits = tuple(Edit(option=option, value=value) for option, value in row.edits.items())
    commands = (row.command,) if row.command else ()
    return (Fix(title=row.fix, applicability=Applicability.UNSAFE, edits=edits, commands=commands),)


def fixes_here(name: str, case: Case, otherwise: str) -> tuple[Fix, ...]:
    """What the row of that id says, where the case's release has its defect; else ``otherwise``."""
    row = known_here(name, case)
    return (Fix(title=otherwise),) if row is None else fixes_of(row)
