"""What a shell offers for the values of options; nothing is imported for it before a shell asks."""

from __future__ import annotations

from collections.abc import Iterable


def levels(incomplete: str) -> list[str]:
    """The levels of a check."""
    from rldoctor.model import Level

    return _begun(["auto", *(level.label for level in Level)], incomplete)


def formats(incomplete: str) -> list[str]:
    """The formats of a report."""
    from rldoctor import report

    return _begun(report.FORMATS, incomplete)


def thresholds(incomplete: str) -> list[str]:
    """The values of ``--fail-on``."""
    from rldoctor import verdict

    return _begun(verdict.THRESHOLDS, incomplete)


def frameworks(incomplete: str) -> list[str]:
    """The frameworks that a launch can be read as."""
    from rldoctor.frameworks import all_dialects

    return _begun((dialect.name for dialect in all_dialects()), incomplete)


def codes(incomplete: str) -> list[str]:
    """The codes of all checks; after a comma the next one."""
    from rldoctor.catalogue import registry

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{code}" for code in _begun(sorted(registry.load().checks), last)]


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
