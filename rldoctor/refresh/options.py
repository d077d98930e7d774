"""Makes the dated option tables from published releases: files are read by ranges, only those that are needed."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rldoctor.frameworks import frameworks
from rldoctor.frameworks.layouts import covered, file_of, layout_of
from rldoctor.frameworks.option_table import encoded
from rldoctor.refresh.declarations import SourceError
from rldoctor.refresh.releases import Publications, Release, minor, news
from rldoctor.tables.options.extract import Extractor
from rldoctor.tables.options.model import Options

Groups = dict[str, Options]

# The oldest release that is read of a package that is no framework.
_SINCE = {"transformers": "4.46.0"}
COVERED = covered()


def refresh(package: str, published: Publications, say: Callable[[str], None], folder: Path | None = None) -> list[str]:
    """Reads the options of every release of one framework and writes its table, into the package unless ``folder`` is
    given. Returns what changed, a line each. Raises ``OSError`` where a source does not answer, and
    :class:`SourceError` where a release that the table has would be lost."""
    held = next((held for framework in frameworks() for held in framework.packages if held.name == package), None)
    since = _SINCE[package] if held is None else held.since
    monthly = held is not None and held.monthly
    chosen = published.releases(package, since, minor if monthly else lambda version: version)
    read = read_releases(package, chosen, say)
    target = file_of(package) if folder is None else folder / f"{package}.json"
    old = json.loads(target.read_text("utf-8")) if target.exists() else {"versions": [], "groups": {}}
    asked = {release.version for release in chosen}
    if lost := [version for version in old["versions"] if version in asked and version not in read]:
        raise SourceError(f"the table has {', '.join(lost)}, of which nothing was found now: it stays as it is")
    content = table(package, read, datetime.date.today().isoformat())
    target.parent.mkdir(exist_ok=True)  # a new framework has no table yet
    target.write_text(rendered(content), "utf-8")
    return list(_changes(old, content))


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:
    """New releases, and by group the options that came, went or changed with them."""
    fresh = [version for version in new["versions"] if version not in old["versions"]]
    yield from news(fresh)
    for group in dict.fromkeys((*old["groups"], *new["groups"])):
        before, after = old["groups"].get(group, {}), new["groups"].get(group, {})
        if before and not after:
            yield f"{group}: not found in any release any more; its layout has to be adapted"
            continue
        came = sorted(after.keys() - before.keys())
        ended = [
            name
            for name, ranges in after.items()
            if not isinstance(ranges, str) and ranges[-1].get("until") in fresh and name in before
        ]
        changed = [
            name
            for name, ranges in after.items()
            if name not in ended and not isinstance(ranges, str) and ranges != before.get(name, ranges)
        ]
        for said, names in (("new", came), ("gone", sorted(ended)), ("changed", sorted(changed))):
            if names and old["versions"]:
                yield f"{group}: {said}: {', '.join(names)}"


def read_releases(framework: str, chosen: list[Release], say: Callable[[str], None]) -> dict[str, Groups]:
    """The groups of every release, oldest first; a release without any of them is left out with a warning."""
    layout = layout_of(framework)
    found: dict[str, Groups] = {}
    for release in chosen:
        extractor = Extractor(layout, release.open())
        groups = extractor.groups()
        for path, why in extractor.sources.unreadable.items():
            say(f"{framework} {release.version}: {path} is not for Python {platform.python_version()} ({why})")
        if groups:
            found[release.version] = groups
        else:
            say(f"{framework} {release.version}: no options found, left out")
    return found


def table(framework: str, read: Mapping[str, Groups], day: str) -> dict[str, Any]:
    """The table's content: per group and option the ranges of releases in which one declaration stood."""
    versions = list(read)
    names = [group for group in layout_of(framework).groups if any(group in groups for groups in read.values())]
    groups: dict[str, dict[str, Any]] = {}
    for group in names:
        options = sorted({name for release in read.values() for name in release.get(group, {})})
        ranges = {name: _ranges(name, versions, [read[v].get(group, {}) for v in versions]) for name in options}
        # What an earlier group says in the same words is said by naming that group.
        groups[group] = {
            name: next((g for g, held in groups.items() if _compact(held.get(name)) == _compact(found)), found)
            for name, found in ranges.items()
        }
    return {"framework": framework, "generated": day, "versions": versions, "groups": groups}


def _ranges(name: str, versions: list[str], read: Iterable[Options]) -> list[dict[str, Any]]:
    """The option's declarations with the releases they hold for; equal neighbours are one range."""
    ranges: list[dict[str, Any]] = []
    held: dict[str, Any] | None = None
    for position, (version, options) in enumerate(zip(versions, read, strict=True)):
        found = encoded(options[name]) if name in options else None
        if _compact(found) == _compact(held):  # 1 is not 1.0: the type is that of the default
            continue
        if held is not None:
            ranges[-1]["until"] = version
        if found is not None:
            ranges.append({**found, **({"since": version} if position else {})})
        held = found
    return ranges


def rendered(content: Mapping[str, Any]) -> str:
    """The table as JSON with one line per option, so that a change of one shows as one."""
    groups = []
    for group, options in content["groups"].items():
        lines = ",\n".join(f"{_compact(name)}:{_compact(ranges)}" for name, ranges in options.items())
        groups.append(f"{_compact(group)}:{{\n{lines}\n}}")
    head = ",\n".join(f"{_compact(key)}:{_compact(content[key])}" for key in ("framework", "generated", "versions"))
    return f'{{{head},\n"groups":{{\n' + ",\n".join(groups) + "\n}}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
