"""Reads what was named on the command line: ``trl==0.19``, ``vllm``, ``transformers<5``."""

from __future__ import annotations

from collections.abc import Iterable

from rldoctor.case.lookup import canonical, provided
from rldoctor.compat.candidates import candidates
from rldoctor.compat.world import Wanted, World
from rldoctor.errors import InputError, meant
from rldoctor.expressions import expression
from rldoctor.knowledge.packages import FRAMEWORKS, PACKAGES
from rldoctor.tables import declarations

# As conda and npm write a version.
_SINGLE = expression(r"(?P<name>[\w.-]+)(?:=|@)(?P<version>v?\d[\w.+]*)")


def parse(texts: Iterable[str]) -> dict[str, Wanted]:
    """Every named package under the name by which it is known here. Raises :class:`InputError` for what is none."""
    from packaging.requirements import InvalidRequirement, Requirement

    wanted: dict[str, Wanted] = {}
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            single = _SINGLE.fullmatch(text)
            hint = f"did you mean {single['name']}=={single['version']}?" if single else str(error).splitlines()[0]
            raise InputError(f"{text!r}: a package is expected, such as torch or vllm==0.8.5; {hint}") from None
        if requirement.url or requirement.marker:
            raise InputError(f"{text!r}: a name and versions are expected, without an address or a marker")
        name = canonical(requirement.name)
        known = provided(name)
        if known not in PACKAGES:
            near = meant(name, PACKAGES, 0.75)
            hint = f"did you mean {near!r}?" if near else f"frameworks are {', '.join(FRAMEWORKS)}"
            raise InputError(f"{requirement.name}: versions of this package are not known; {hint}")
        if known in wanted:
            raise InputError(f"{text!r}: {known} is named a second time")
        wanted[known] = Wanted(name=name, specifier=str(requirement.specifier))
    return wanted


def with_engine(wanted: dict[str, Wanted], installed: Iterable[str]) -> dict[str, Wanted]:
    """The same and vLLM, where a framework is named that stands on one: which one is what was asked."""
    asks = any(
        line.startswith("vllm")
        for name in wanted
        if name in FRAMEWORKS
        for release in declarations.releases(name)[-1:]
        for line in release.requires
    )
    if not asks or "vllm" in wanted or "vllm" in installed:
        return wanted
    return {**wanted, "vllm": Wanted(name="vllm", specifier="")}


def verify(world: World) -> None:
    """Raises :class:`InputError` where nothing is known that would be what was named."""
    for name, wanted in world.wanted.items():
        installed = world.versions.get(name)
        if installed is not None and installed.name != wanted.name:
            raise InputError(
                f"{wanted.name} and {installed.name} {installed.version}, which is installed, are one module:"
                f" uninstall {installed.name} first, or name that"
            )
        if (installed is not None and wanted.admits(installed.version)) or candidates(world, name):
            continue
        python = world.packages.python
        if any(wanted.admits(release.version) for release in declarations.releases(wanted.name)):
            raise InputError(
                f"{wanted.name}{wanted.specifier}: no such release runs here (Python {python}, the driver)"
            )
        date = declarations.date()
        raise InputError(f"{wanted.name}{wanted.specifier}: no such release is known (as published on {date})")
