"""Which releases of each framework the generator reads, and where their source is published."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rldoctor.tables.options.archives import CloneTree, git, index_files, sdist_tree, wheel_tree
from rldoctor.tables.options.trees import ChainTree, SourceTree

_VERSION = re.compile(r"^__version__\s*=\s*['\"](\d[^'\"]*)", re.MULTILINE)
_PARTS = re.compile(r"^(?:MAJOR|MINOR|PATCH|PRE_RELEASE)\s*=\s*['\"]?([\w.]*)", re.MULTILINE)


@dataclass(frozen=True)
class Published:
    """Releases on the package index from ``since`` on; of calendar versions with ``monthly`` the last of each month."""

    project: str
    since: str
    monthly: bool = False


@dataclass(frozen=True)
class Tagged:
    """Releases as tags of a repository, and its newest commit under the version that ``version_file`` states.

    ``snapshots`` is for a repository whose version never changes: its commits that touched that file, each under the
    version with the commit's day behind it (``0.1.0.dev0+20250401``)."""

    repository: str
    tag: str
    since: str
    version_file: str | None = None
    snapshots: str | None = None


@dataclass(frozen=True)
class Release:
    """One release and how to open its source."""

    version: str
    open: Callable[[], SourceTree]


SOURCES: dict[str, Published | Tagged] = {
    "trl": Published("trl", "0.14.0"),
    "ms-swift": Published("ms-swift", "3.0.0"),
    "verl": Published("verl", "0.2"),
    "easyr1": Tagged("hiyouga/EasyR1", r"v(\d.*)", "0.3.0", "verl/__init__.py"),
    "openrlhf": Published("openrlhf", "0.5.0"),
    "nemo-rl": Tagged("NVIDIA-NeMo/RL", r"v(\d.*)", "0.1.0", "nemo_rl/package_info.py"),
    "skyrl": Published("skyrl", "0.1.0"),
    "skyrl-train": Tagged("NovaSky-AI/SkyRL", r"skyrl_train-v(\d.*)", "0.1.0"),
    "axolotl": Published("axolotl", "0.5.0"),
    "open-r1": Tagged("huggingface/open-r1", r"v(\d.*)", "0", "setup.py", snapshots="src/open_r1/configs.py"),
    "unsloth": Published("unsloth", "2025.1.1", monthly=True),
    "vllm": Published("vllm", "0.6.3"),
    "transformers": Published("transformers", "4.46.0"),
}

# Files that a framework does not package but people launch from a clone: the repository, and the tag of a release there
# (None where only the newest commit can be had).
COMPANIONS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "verl": (("verl-project/verl", "v{}"), ("verl-project/verl-recipe", None)),
    "skyrl": (("NovaSky-AI/SkyRL", "skyrl-v{}"),),
}


def releases(framework: str, index: str, clones: Mapping[str, Path]) -> list[Release]:
    """The releases of ``framework``, oldest first. ``clones`` maps ``owner/name`` to a local clone.

    Raises ``KeyError`` naming a repository of which there is no clone."""
    source = SOURCES[framework]
    found = _published(source, index) if isinstance(source, Published) else _tagged(source, clones)
    companions = [(clones[repository], tag) for repository, tag in COMPANIONS.get(framework, ())]
    if companions:
        found = [Release(release.version, _with_companions(release, companions)) for release in found]
    return sorted(found, key=lambda release: Version(release.version))


def _with_companions(release: Release, companions: list[tuple[Path, str | None]]) -> Callable[[], SourceTree]:
    """The release with the clones behind it for the files that it lacks."""

    def opened() -> SourceTree:
        trees = [release.open()]
        for clone, pattern in companions:
            reference = "HEAD" if pattern is None else f"refs/tags/{pattern.format(release.version)}"
            if git(clone, "rev-parse", "--verify", "--quiet", reference):
                trees.append(CloneTree(clone, reference))
        return ChainTree(trees)

    return opened


def _published(source: Published, index: str) -> list[Release]:
    chosen: dict[Version, tuple[int, str, str]] = {}
    for name, url in index_files(index, source.project).items():
        version, rank = _ranked(name)
        if version is None or version.is_prerelease or version < Version(source.since):
            continue
        if version not in chosen or rank < chosen[version][0]:
            chosen[version] = (rank, name, url)
    if source.monthly:
        last = {version.release[:2]: version for version in sorted(chosen)}
        chosen = {version: chosen[version] for version in last.values()}
    return [Release(str(version), _opener(name, url)) for version, (_, name, url) in chosen.items()]


def _opener(name: str, url: str) -> Callable[[], SourceTree]:
    return lambda: wheel_tree(url) if name.endswith(".whl") else sdist_tree(url)


def _ranked(name: str) -> tuple[Version | None, int]:
    """The version in a file's name and how gladly it is taken: wheels for any machine first, then for x86-64."""
    try:
        if name.endswith(".whl"):
            _, version, _, tags = parse_wheel_filename(name)
            platforms = {tag.platform for tag in tags}
            return version, 0 if "any" in platforms else 1 if any("x86_64" in p for p in platforms) else 2
        if name.endswith(".tar.gz"):
            return parse_sdist_filename(name)[1], 3
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        pass
    return None, 0


def _tagged(source: Tagged, clones: Mapping[str, Path]) -> list[Release]:
    clone = clones[source.repository]
    found: list[Release] = []
    for tag in (git(clone, "tag", "--list") or "").split():
        match = re.fullmatch(source.tag, tag)
        try:
            version = Version(match.group(1)) if match else None
        except InvalidVersion:
            continue
        if version and not version.is_prerelease and version >= Version(source.since):
            found.append(Release(str(version), _commit(clone, tag)))
    if source.snapshots:
        found += _snapshots(source, clone)
    elif source.version_file:
        newest = _stated_version(git(clone, "show", f"HEAD:{source.version_file}") or "")
        if newest and all(Version(release.version) != Version(newest) for release in found):
            found.append(Release(newest, _commit(clone, "HEAD")))
    return found


def _snapshots(source: Tagged, clone: Path) -> list[Release]:
    stated = re.search(r"version=['\"]([^'\"]+)", git(clone, "show", f"HEAD:{source.version_file}") or "")
    log = git(clone, "log", "--format=%H %cd", "--date=format:%Y%m%d", "--", source.snapshots or "") or ""
    days = {day: commit for commit, _, day in (line.partition(" ") for line in reversed(log.splitlines()))}
    version = stated.group(1) if stated else "0"
    return [Release(f"{version}+{day}", _commit(clone, commit)) for day, commit in days.items()]


def _commit(clone: Path, reference: str) -> Callable[[], SourceTree]:
    return lambda: CloneTree(clone, reference)


def _stated_version(text: str) -> str | None:
    """The version in a module's text: ``__version__`` as a literal, or NVIDIA's four parts."""
    literal = _VERSION.search(text)
    if literal:
        return str(Version(literal.group(1)))
    parts = _PARTS.findall(text)
    return str(Version(".".join(parts[:3]) + "".join(parts[3:]))) if len(parts) >= 3 else None
