"""Makes the tables of what each release of a trainer imports from other packages."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from rldoctor.frameworks import frameworks
from rldoctor.link.framework import OTHERS
from rldoctor.link.uses import uses
from rldoctor.refresh.modules import modules, order
from rldoctor.refresh.releases import Publications, news, with_releases
from rldoctor.tables.sources.trees import SourceTree
from rldoctor.tables.uses import Table

# What a launch always imports; an engine of its own in a server's process may be of another environment.
_KIND = "always"
_ALGORITHM = "grpo"
_TRAINERS = {
    package.name: record
    for record in frameworks()
    for package in record.packages
    if record.trains and record.imports and package.published and package.since and not package.distribution
}
COVERED = tuple(_TRAINERS)


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Reads the releases that the table lacks and writes it. Returns what changed, a line each.

    Raises ``OSError`` where the index does not answer."""
    record = _TRAINERS[package]
    since = next(one.since for one in record.packages if one.name == package)
    chosen = published.releases(package, since, beside=False)
    table = Table.load(package) if package in Table.packages() else None
    known = table.releases if table is not None else []
    rows: dict[str, set[str]] = defaultdict(set, with_releases(known, table.rows()) if table is not None else {})
    own = frozenset(record.modules)
    entries = [module.format(algorithm=_ALGORITHM) for module in record.imports[_KIND]]
    fresh = [release for release in chosen if release.version not in known]
    for release in fresh:
        found = _found(release.open(), own, entries)
        say(f"{package} {release.version}: {len(found)} imports of other packages")
        for asked in found:
            rows[asked].add(release.version)
    content = encoded(rows, sorted((release.version for release in chosen), key=order))
    Table.write(package, content)
    return news([release.version for release in fresh])


def encoded(rows: Mapping[str, set[str]], releases: list[str]) -> dict[str, object]:
    """The table's content: by ``module:name`` the first and last of each stretch of releases, by position."""
    found: dict[str, list[int]] = {}
    for asked, versions in sorted(rows.items()):
        there = [position for position, release in enumerate(releases) if release in versions]
        if there:
            found[asked] = [p for p in there for edge in (p - 1, p + 1) if edge not in there]
    return {"releases": releases, "uses": found}


def _found(tree: SourceTree, own: frozenset[str], entries: list[str]) -> frozenset[str]:
    with tempfile.TemporaryDirectory() as folder:
        for top in own:
            for path, text in modules(tree, top):
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
        return uses(Path(folder), own, OTHERS - own, entries)
