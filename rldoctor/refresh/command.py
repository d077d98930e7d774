"""Brings every table that speaks about a package up to date with its published releases.

    python -m rldoctor.refresh PACKAGE... [--clone OWNER/NAME=PATH] [--index URL] [--cache FOLDER]

To be run when a release of vLLM, transformers or a framework comes out, and before a release of rldoctor. It reads what
the package index and the repositories have (a few kilobytes of each wheel, or only the files that are needed), writes
the tables, and says what changed in each and what a person must still judge. Nothing of a package is executed.
Each kind of table has a module here: ``COVERED`` names its packages, and
``refresh(package, published, say)`` returns what changed."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rldoctor.case.lookup import canonical
from rldoctor.knowledge.known_issues import known_issues
from rldoctor.refresh.declarations import SourceError
from rldoctor.refresh.releases import Publications
from rldoctor.tables import declarations
from rldoctor.versions import version_within

TABLES = ("declarations", "frames", "messages", "model_defaults", "options", "registries", "symbols", "uses", "bounds")


def main(arguments: list[str]) -> int:
    """The command: 0; 2 where a package has no table, or a source did not answer."""
    given = _parser().parse_args(arguments)
    clones = {name: Path(path) for name, _, path in (pair.partition("=") for pair in given.clone)}
    with tempfile.TemporaryDirectory(prefix="rldoctor-sources-") as made:
        published = Publications(given.cache or Path(made), given.index, clones)
        results = [refresh(canonical(package), published, _stderr) for package in given.package]
    return 0 if all(results) else 2


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> bool:
    """Remakes the tables of one package and says what changed. Returns whether every source answered."""
    makers = {name: importlib.import_module(f"rldoctor.refresh.{name}") for name in TABLES}
    covering = {name: maker for name, maker in makers.items() if package in maker.COVERED}
    if not covering:
        covered = sorted({name for maker in makers.values() for name in maker.COVERED})
        say(f"{package}: no table speaks about it; they cover {', '.join(covered)}")
        return False
    complete = True
    for name, maker in covering.items():
        try:
            changes = maker.refresh(package, published, say)
        except (OSError, SourceError) as error:
            complete = False
            say(f"{package}, {name}: not read: {error}")
            continue
        for change in changes or ["nothing new"]:
            say(f"{package}, {name}: {change}")
    for question in to_judge(package):
        say(f"{package}, to judge: {question}")
    return complete


def to_judge(package: str) -> Iterator[str]:
    """What no table can say: which known defects, written down for an older release, the newest one still has."""
    newest = next((r.version for r in reversed(declarations.releases(package)) if r.final), None)
    if newest is None:
        return
    for issue in known_issues():
        if issue.package == package and issue.fixed is None and version_within(newest, issue.versions):
            yield f"does {newest} still have {issue.id} (seen {issue.verified})? {issue.url}"


def _stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rldoctor.refresh", description=__doc__.partition("\n")[0])
    parser.add_argument("package", nargs="+", metavar="PACKAGE")
    parser.add_argument("--clone", action="append", default=[], metavar="OWNER/NAME=PATH", help="use this local clone")
    parser.add_argument("--index", help="the simple index to ask (default: pip's)")
    parser.add_argument("--cache", type=Path, help="a folder that keeps what was fetched")
    return parser
