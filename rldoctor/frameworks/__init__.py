"""The frameworks: one folder with one record (:class:`Framework`) for each, and the registers that derive from them.

A distribution brings one by an entry point of the group ``rldoctor.frameworks`` that names its folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from rldoctor.catalogue import plugins
from rldoctor.catalogue.plugins import BrokenPlugin
from rldoctor.frameworks.record import Framework, Package

if TYPE_CHECKING:
    from rldoctor.frameworks.dialect import Dialect
    from rldoctor.frameworks.metrics import Metrics

GROUP = "rldoctor.frameworks"


@lru_cache(maxsize=1)
def _found() -> tuple[tuple[Framework, ...], tuple[BrokenPlugin, ...]]:
    records = {}
    broken = []
    for folder in sorted(m.name for m in pkgutil.iter_modules(__path__) if m.ispkg):
        record: Framework = importlib.import_module(f"{__name__}.{folder}").FRAMEWORK
        records[record.name] = record
    for entry in plugins.entries(GROUP):  # a module here is called entries, too
        try:
            record = importlib.import_module(entry.module or entry.value).FRAMEWORK
        except (Exception, SystemExit) as error:  # a plugin may fail in any way; the others still count
            broken.append(BrokenPlugin.of(entry, error))
            continue
        if records.setdefault(record.name, record) is not record:
            broken.append(BrokenPlugin(entry.name, f"there is a framework called {record.name} already"))
    return tuple(records.values()), tuple(broken)


def frameworks() -> tuple[Framework, ...]:
    """Every record: those of this folder by name, then those that other distributions bring."""
    return _found()[0]


def broken() -> tuple[BrokenPlugin, ...]:
    """Entry points that brought no framework, and why."""
    return _found()[1]


@lru_cache(maxsize=1)
def trainers() -> tuple[Framework, ...]:
    """The frameworks that train, those that are built over others before these."""
    owners = {package.name: record for record in frameworks() for package in record.packages}

    def depth(record: Framework) -> int:
        return 1 + max((depth(owners[layer.package]) for layer in record.over if layer.package in owners), default=0)

    return tuple(sorted((r for r in frameworks() if r.trains), key=lambda record: -depth(record)))


@lru_cache(maxsize=1)
def logged() -> Mapping[str, Metrics]:
    """How the frameworks log, by name, in the order of :func:`trainers`."""
    found = ((record.name, record.metrics()) for record in trainers())
    return {name: held for name, held in found if held is not None}


@lru_cache(maxsize=1)
def packages() -> tuple[Package, ...]:
    """The distributions of all frameworks that train."""
    return tuple(package for record in frameworks() if record.trains for package in record.packages)


def framework(name: str) -> Framework | None:
    """The framework of that name or title, or of a distribution of that name, however it is written (``ms-swift``,
    ``ms_swift``, ``MS-Swift``)."""
    wanted = _plain(name)
    found = (r for r in frameworks() if wanted in (_plain(r.name), _plain(r.title)))
    owner = (r for r in frameworks() if any(wanted == _plain(package.name) for package in r.packages))
    return next(found, None) or next(owner, None)


@lru_cache(maxsize=1)
def all_dialects() -> tuple[Dialect, ...]:
    """Every dialect, in the order of the frameworks."""
    return tuple(dialect for record in frameworks() for dialect in record.dialects())


def likely_dialects(*texts: str) -> Iterator[Dialect]:
    """The dialects that may claim a launch in which these texts stand, in the order of the frameworks; none other is
    imported."""
    for record in frameworks():
        if record.marks is None or any(mark in text for mark in record.marks for text in texts):
            yield from record.dialects()


def last_dialects() -> Iterator[Dialect]:
    """Those that are asked for what nobody else claims."""
    return (dialect for record in frameworks() if record.marks == () for dialect in record.dialects())


@lru_cache(maxsize=64)
def by_name(name: str) -> Dialect | None:
    """The dialect of a framework, however its name is written."""
    wanted = _plain(name)
    # The record of that name first: a server's dialect alone is called otherwise than its framework.
    likely = sorted(frameworks(), key=lambda record: wanted not in (_plain(record.name), _plain(record.title)))
    found = (dialect for record in likely for dialect in record.dialects())
    return next((d for d in found if wanted in (_plain(d.name), _plain(d.owner))), None)


def has_option(framework: str, option: str) -> bool:
    """Whether a framework's launches can set a canonical option."""
    dialect = by_name(framework)
    return dialect is not None and next(dialect.native_keys(option), None) is not None


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "").replace(".", "")


__all__ = [
    "Framework",
    "Package",
    "all_dialects",
    "broken",
    "by_name",
    "framework",
    "frameworks",
    "has_option",
    "last_dialects",
    "likely_dialects",
    "logged",
    "packages",
    "trainers",
]
