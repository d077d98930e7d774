"""Which published releases would make an environment consistent: of the package that is demanded, or of the one that
demands."""

from __future__ import annotations

import re
from functools import lru_cache

from rldoctor.case import Case, Distribution
from rldoctor.knowledge.requirements import Demand, hypothetical, identity, needs_of, present_of
from rldoctor.tables import declarations
from rldoctor.versions import parsed, specifiers

# Built for one release of each other: pip replaces them when it installs another vLLM.
MOVES_WITH_VLLM = frozenset(
    {"torch", "torchvision", "torchaudio", "triton", "xformers", "xgrammar", "compressed-tensors", "flashinfer-python"}
)


def acceptable(case: Case, name: str, demands: tuple[Demand, ...]) -> tuple[str, ...]:
    """The stable releases of ``name``, oldest first, that meet every demand and that this Python can run."""
    return tuple(
        release.version
        for release in declarations.releases(name)
        if release.final and _runs_on(case, release.python) and all(d.admits(release.version) for d in demands)
    )


def accepting(case: Case, demand: Demand, version: str) -> tuple[str, ...]:
    """The neighbouring releases of the package that demands which admit ``version`` and fit the rest as well as the
    present one does: the block nearest above the present release, or else nearest below. Empty where there is none."""
    name = published_name(demand.by)
    known = [r for r in declarations.releases(name) if r.final]
    assert case.packages is not None
    present = present_of(case.packages)
    # What vLLM pins for its kernels moves along with it.
    staying = {n: d.version for n, d in present.items() if name != "vllm" or n not in MOVES_WITH_VLLM} | {
        demand.on: version
    }
    demanded = needs_of(case).on(identity(demand.by))
    fits = [
        _runs_on(case, release.python)
        and all(d.admits(release.version) for d in demanded)
        and _fits(hypothetical(case, name, release.version), demand.on, staying)
        for release in known
    ]
    if parsed(demand.by.version) is None:
        return ()
    above = [i for i, r in enumerate(known) if fits[i] and _after(r.version, demand.by.version)]
    below = [i for i, r in enumerate(known) if fits[i] and not _after(r.version, demand.by.version)]
    if above:
        end = start = above[0]
        while end + 1 < len(known) and fits[end + 1]:
            end += 1
    elif below:
        end = start = below[-1]
        while start > 0 and fits[start - 1]:
            start -= 1
    else:
        return ()
    return tuple(r.version for r in known[start : end + 1])


def as_specifier(name: str, versions: tuple[str, ...]) -> str:
    """A block of neighbouring releases as one requirement: ``==`` one, ``>=`` up to the newest, or both ends."""
    newest = next((r.version for r in reversed(declarations.releases(name)) if r.final), None)
    if len(versions) == 1:
        return f"{name}=={versions[0]}"
    return f"{name}>={versions[0]}" + ("" if versions[-1] == newest else f",<={versions[-1]}")


def combined(demands: tuple[Demand, ...]) -> str:
    """All demands on one package as one specifier, each bound once: ``>=4.55.2,<5``."""
    parts = dict.fromkeys(part for d in demands for part in d.specifier.split(","))
    exact = [part for part in parts if part.startswith("==") and not part.endswith("*")]
    if exact:
        return exact[0]
    lower = [part for part in parts if part.startswith(">")]
    upper = [part for part in parts if part.startswith("<")]
    rest = [part for part in parts if part not in lower and part not in upper]
    bounds = [max(lower, key=_bound)] if lower else []
    bounds += [min(upper, key=_bound)] if upper else []
    return ",".join(bounds + [part for part in rest if _matters(part, bounds)])


def _matters(part: str, bounds: list[str]) -> bool:
    """Whether an exclusion is of a release that the bounds let in."""
    excluded = part.removeprefix("!=")
    if excluded == part or excluded.endswith("*"):
        return True
    return specifiers(",".join(bounds)).contains(excluded, prereleases=True)


def published_name(distribution: Distribution) -> str:
    """The name under which the releases of an installed distribution are known."""
    return distribution.name if declarations.releases(distribution.name) else identity(distribution)


def _fits(demands: tuple[Demand, ...], on: str, versions: dict[str, str]) -> bool:
    """Whether what a candidate demands admits every package as it is, and speaks of the one in question: one that says
    nothing of it, such as a release that only holds a name, promises nothing."""
    return any(d.on == on for d in demands) and all(d.on not in versions or d.admits(versions[d.on]) for d in demands)


def _runs_on(case: Case, requires: str | None) -> bool:
    return requires is None or case.packages is None or python_admitted(requires, case.packages.python)


@lru_cache(maxsize=1024)
def python_admitted(specifier: str, python: str) -> bool:
    """Whether a Python meets ``Requires-Python``; ``3.13`` stands for any of its patch releases."""
    wanted = specifiers(specifier)
    forms = (python,) if python.count(".") > 1 else (python, f"{python}.99")
    return any(wanted.contains(form, prereleases=True) for form in forms)


def _after(version: str, other: str) -> bool:
    first, second = parsed(version), parsed(other)
    return first is not None and second is not None and first > second


def _bound(part: str) -> tuple[object, ...]:
    found = parsed(re.sub(r"^[<>=]+", "", part))
    return (found is not None, found)
