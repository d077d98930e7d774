"""What differs between a framework's releases: rules that hold for some, and the names that each of them has."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.table import as_rules
from rldoctor.frameworks.translating import other_name
from rldoctor.versions import version_within


def within(version: str | None, low: str, high: str | None = None) -> bool:
    """Whether a version is known and in [low, high); builds count as :func:`version_within` counts them."""
    bounds = f">={low}" if high is None else f">={low},<{high}"
    return version is not None and version_within(version, bounds) is True


def between(draft: Draft, owner: str, low: str, high: str | None = None) -> bool:
    """Whether the version of ``owner`` at this launch is known and in [low, high)."""
    return within(draft.launch.version_of(owner), low, high)


@lru_cache(maxsize=32)
def writing(dialect: type[Dialect], version: str, group: str | None = None) -> Dialect:
    """A dialect that writes only options which the release has, for a framework that has renamed them; ``group`` names
    the table of the command's options."""
    from rldoctor.frameworks.option_table import OptionTable

    options = OptionTable.load(dialect.owner).at(version, group)
    table = {
        key: rule
        if key.startswith("env:") or options.known(key.removesuffix(".*")) is not False
        else replace(rule, spelled=False)
        for key, rule in as_rules(dialect.table).items()
    }
    chosen: Dialect = type(dialect.__name__, (dialect,), {"table": table})()
    return chosen


def name_anew(dialect: Dialect, draft: Draft, first: int) -> None:
    """Puts the release's name for the same setting first among the nearest of the unknown options from ``first`` on."""
    options = draft.launch.options(dialect.main_group(draft.launch))
    for index in range(first, len(draft.unknown)):
        unknown = draft.unknown[index]
        best = other_name(dialect, options, unknown.key.lstrip("-").replace("-", "_")) if options is not None else None
        if best is not None:
            others = tuple(name for name in unknown.nearest if name != best)
            draft.unknown[index] = replace(unknown, nearest=(best, *others), renamed=best)
