"""Writes the dated option tables from published releases: a maintainer's command, never run by the doctor.

    python -m rldoctor.tables.options.generate [FRAMEWORK...] --clone OWNER/NAME=PATH... [--cache DIR]

Releases come from the package index that pip uses (wheels are read by range requests, only the files needed) and from
local clones of the repositories that publish no packages."""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rldoctor.tables.options.archives import CachedTree
from rldoctor.tables.options.extract import Extractor
from rldoctor.tables.options.layouts import LAYOUTS
from rldoctor.tables.options.model import Options
from rldoctor.tables.options.releases import SOURCES, Release, releases
from rldoctor.tables.options.table import DATA, encoded
from rldoctor.tables.options.trees import PrefixTree

Groups = dict[str, Options]


def main(arguments: list[str] | None = None) -> int:
    """Reads the releases, writes the tables, and reports per group what the first and the last release have."""
    given = _parser().parse_args(arguments)
    clones = {name: Path(path) for name, _, path in (pair.partition("=") for pair in given.clone)}
    for framework in given.framework or SOURCES:
        try:
            chosen = releases(framework, given.index or default_index(), clones)
        except KeyError as missing:
            print(f"{framework}: needs --clone {missing.args[0]}=PATH", file=sys.stderr)
            return 2
        read = read_releases(framework, chosen, given.cache)
        content = table(framework, read, datetime.date.today().isoformat())
        target = given.output / f"{framework}.json"
        target.write_text(rendered(content), "utf-8")
        _report(framework, read, target)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rldoctor.tables.options.generate", description=__doc__)
    parser.add_argument("framework", nargs="*", choices=[*SOURCES, []], help="all of them if none is named")
    parser.add_argument("--clone", action="append", default=[], metavar="OWNER/NAME=PATH", help="a local clone")
    parser.add_argument("--index", help="the simple index to use (default: pip's)")
    parser.add_argument("--cache", type=Path, help="a folder that keeps what was fetched")
    parser.add_argument("--output", type=Path, default=DATA, help="where the tables go")
    return parser


def default_index() -> str:
    """The package index that pip would use."""
    configured = os.environ.get("PIP_INDEX_URL")
    # pip has no public way to say this; the constant has stood there since pip 9.
    return configured or str(importlib.import_module("pip._internal.models.index").PyPI.simple_url)


def read_releases(framework: str, chosen: list[Release], cache: Path | None) -> dict[str, Groups]:
    """The groups of every release, oldest first; a release without any of them is left out with a warning."""
    layout = LAYOUTS[framework]
    found: dict[str, Groups] = {}
    for release in chosen:
        tree = CachedTree(cache / framework / release.version, release.open) if cache else release.open()
        groups = Extractor(layout, PrefixTree(tree, layout.roots)).groups()
        if groups:
            found[release.version] = groups
        else:
            print(f"{framework} {release.version}: no options found, left out", file=sys.stderr)
    return found


def table(framework: str, read: Mapping[str, Groups], day: str) -> dict[str, Any]:
    """The table's content: per group and option the ranges of releases in which one declaration stood."""
    versions = list(read)
    names = [group for group in LAYOUTS[framework].groups if any(group in groups for groups in read.values())]
    groups: dict[str, dict[str, Any]] = {}
    for group in names:
        options = sorted({name for release in read.values() for name in release.get(group, {})})
        ranges = {name: _ranges(name, versions, [read[v].get(group, {}) for v in versions]) for name in options}
        # What an earlier group says in the same words is said by naming that group.
        groups[group] = {
            name: next((g for g, held in groups.items() if held.get(name) == found), found)
            for name, found in ranges.items()
        }
    return {"framework": framework, "generated": day, "versions": versions, "groups": groups}


def _ranges(name: str, versions: list[str], read: Iterable[Options]) -> list[dict[str, Any]]:
    """The option's declarations with the releases they hold for; equal neighbours are one range."""
    ranges: list[dict[str, Any]] = []
    held: dict[str, Any] | None = None
    for position, (version, options) in enumerate(zip(versions, read, strict=True)):
        found = encoded(options[name]) if name in options else None
        if found == held and type(found) is type(held):
            continue
        if held is not None:
            ranges[-1]["until"] = version
        if found is not None:
            ranges.append({**found, **({"since": version} if position else {})})
        held = found
    return ranges


def rendered(content: Mapping[str, Any]) -> str:
    """The table as JSON with one line per option, so that a change of one shows as one."""

    def compact(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    groups = []
    for group, options in content["groups"].items():
        lines = ",\n".join(f"{compact(name)}:{compact(ranges)}" for name, ranges in options.items())
        groups.append(f"{compact(group)}:{{\n{lines}\n}}")
    head = ",\n".join(f"{compact(key)}:{compact(content[key])}" for key in ("framework", "generated", "versions"))
    return f'{{{head},\n"groups":{{\n' + ",\n".join(groups) + "\n}}\n"


def _report(framework: str, read: Mapping[str, Groups], target: Path) -> None:
    size = target.stat().st_size / 1024
    span = " to ".join([*read][:: max(len(read) - 1, 1)])
    print(f"{framework}: {len(read)} releases, {span}, {size:.0f} KiB", file=sys.stderr)
    for group in LAYOUTS[framework].groups:
        present = [version for version, groups in read.items() if group in groups]
        if present:
            counts = f"{len(read[present[0]][group])} to {len(read[present[-1]][group])} options"
            print(f"  {group}: {present[0]} to {present[-1]} ({len(present)} releases), {counts}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
