"""Where the releases of each package are published, and how the source of one is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rldoctor.frameworks import packages
from rldoctor.frameworks.layouts import covered, layout_of
from rldoctor.frameworks.record import Repository
from rldoctor.records import dataclass
from rldoctor.tables.sources.archives import CachedTree, sdist_tree, wheel_tree
from rldoctor.tables.sources.git import CloneTree, GitError, clone_of, git, tags
from rldoctor.tables.sources.index import archives, default_index
from rldoctor.tables.sources.trees import ChainTree, PrefixTree, SourceTree

Row = TypeVar("Row", bound=Hashable)

_LITERAL = re.compile(r"^(?:__version__|\s*version)\s*=\s*['\"](\d[^'\"]*)", re.MULTILINE)
_PARTS = re.compile(r"^(?:MAJOR|MINOR|PATCH|PRE_RELEASE)\s*=\s*['\"]?([\w.]*)", re.MULTILINE)


# Not on the package index, or with releases there only of late.
REPOSITORIES = {package.name: package.repository for package in packages() if package.repository is not None}
UNPUBLISHED = frozenset(package.name for package in packages() if not package.published)
_BESIDE = {package.name: package.beside for package in packages()}
_LAID_OUT = frozenset(covered())


@dataclass(frozen=True)
class Release:
    """One release and how to open its source."""

    version: str
    open: Callable[[], SourceTree]


@dataclass
class Publications:
    """Where releases are looked for: a simple index (pip's own by default), clones by ``owner/name``. ``cache`` is the
    caller's folder that keeps what was fetched."""

    cache: Path
    index: str | None = None
    clones: Mapping[str, Path] = field(default_factory=dict)

    def index_address(self) -> str:
        """The index to ask. Raises ``OSError`` where none is named and pip cannot be asked."""
        self.index = self.index or default_index()
        return self.index

    def clone(self, url: str) -> Path:
        """A clone of the repository. Raises :class:`GitError`."""
        return clone_of(url, self.clones, self.cache / "clones")

    def releases(
        self, package: str, since: str, newest_of: Callable[[Version], object] = lambda v: v, *, beside: bool = True
    ) -> list[Release]:
        """The final releases of ``package`` from ``since`` on, oldest first, and of each group that ``newest_of`` puts
        together the newest; with what people launch ``beside`` the package, or without.

        Raises ``OSError`` where a source does not answer."""
        if package in UNPUBLISHED:
            found = self._tagged(REPOSITORIES[package])
        else:
            found = self._published(package)
            further = _BESIDE.get(package, ()) if beside else ()
            companions = [(self.clone(f"https://github.com/{name}"), tag) for name, tag in further]
            if companions:
                found = [Release(release.version, _with_companions(release, companions)) for release in found]
        found = [release for release in found if Version(release.version) >= Version(since)]
        found.sort(key=lambda release: Version(release.version))
        return list({newest_of(Version(release.version)): self._kept(package, release) for release in found}.values())

    def _kept(self, package: str, release: Release) -> Release:
        """A release of which what is read is kept, its packages at the root wherever they lie in its archive."""
        folder = self.cache / "files" / package / release.version
        roots = layout_of(package).roots if package in _LAID_OUT else ("",)
        return Release(release.version, lambda: PrefixTree(CachedTree(folder, release.open), roots))

    def _published(self, package: str) -> list[Release]:
        chosen: dict[Version, tuple[int, str, str]] = {}
        for files in archives(self.index_address(), package).values():
            for file in files:
                version, rank = _ranked(file.filename)
                if version is None or version.is_prerelease or file.yanked:
                    continue
                if version not in chosen or rank < chosen[version][0]:
                    chosen[version] = (rank, file.filename, file.url)
        return [Release(str(version), _opener(name, url)) for version, (_, name, url) in chosen.items()]

    def _tagged(self, source: Repository) -> list[Release]:
        clone = self.clone(source.url)
        found: list[Release] = []
        for tag in tags(clone, source.tag):
            version = _version(tag.removeprefix(source.tag))
            if version and not version.is_prerelease:
                found.append(Release(str(version), _commit(clone, tag)))
        newest = newest_version(source, clone)
        if source.snapshots:
            found += _snapshots(source, clone, newest or "0")
        elif newest and all(Version(release.version) != Version(newest) for release in found):
            found.append(Release(newest, _commit(clone, "HEAD")))
        return found


def newest_version(source: Repository, clone: Path) -> str | None:
    """The version that the newest commit states, or None where it is not what people install."""
    if source.version_file is None:
        return None
    text = CloneTree(clone, "HEAD").read(source.version_file) or ""
    literal = _LITERAL.search(text)
    if literal:
        return str(Version(literal.group(1)))
    parts = _PARTS.findall(text)
    return str(Version(".".join(parts[:3]) + "".join(parts[3:]))) if len(parts) >= 3 else None


def with_releases(releases: Sequence[str], rows: Iterable[tuple[Row, Sequence[int]]]) -> dict[Row, set[str]]:
    """The rows of a table, each with the releases that its positions stand for."""
    return {row: {releases[position] for position in positions} for row, positions in rows}


def news(versions: Sequence[str]) -> list[str]:
    """What there is to say of releases that a table did not have, oldest first."""
    if not versions:
        return []
    several = f"{len(versions)} new releases, {versions[0]} to {versions[-1]}"
    return [several if len(versions) > 1 else f"a new release, {versions[0]}"]


def minor(version: Version) -> tuple[int, ...]:
    """The releases that differ only in their last number share this."""
    return version.release[:2]


def _with_companions(release: Release, companions: list[tuple[Path, str | None]]) -> Callable[[], SourceTree]:
    """The release with the clones behind it for the files that it lacks."""

    def opened() -> SourceTree:
        trees: list[SourceTree] = [release.open()]
        for clone, pattern in companions:
            reference = "HEAD" if pattern is None else f"refs/tags/{pattern.format(release.version)}"
            try:
                git(clone, "rev-parse", "--verify", "--quiet", reference)
            except GitError:  # the repository has no tag for this release
                continue
            trees.append(CloneTree(clone, reference))
        return ChainTree(trees)

    return opened


def _opener(name: str, url: str) -> Callable[[], SourceTree]:
    return lambda: wheel_tree(url) if name.endswith(".whl") else sdist_tree(url)


def _ranked(name: str) -> tuple[Version | None, int]:
    """The version in a file's name and how gladly it is taken: wheels for any machine first, then for x86-64."""
    try:
        if name.endswith(".whl"):
            _, version, _, marks = parse_wheel_filename(name)
            platforms = {mark.platform for mark in marks}
            return version, 0 if "any" in platforms else 1 if any("x86_64" in p for p in platforms) else 2
        if name.endswith(".tar.gz"):
            return parse_sdist_filename(name)[1], 3
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        pass
    return None, 0


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _snapshots(source: Repository, clone: Path, version: str) -> list[Release]:
    log = git(clone, "log", "--format=%H %cd", "--date=format:%Y%m%d", "--", source.snapshots or "")
    days = {day: commit for commit, _, day in (line.partition(" ") for line in reversed(log.splitlines()))}
    return [Release(f"{version}+{day}", _commit(clone, commit)) for day, commit in days.items()]


def _commit(clone: Path, reference: str) -> Callable[[], SourceTree]:
    return lambda: CloneTree(clone, reference)
