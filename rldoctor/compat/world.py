"""One environment, and what any set of versions would break in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from rldoctor.case import Case, Distribution, Packages
from rldoctor.case.lookup import canonical, provided
from rldoctor.compat.model import COMMAND_LINE, Clash, Versions
from rldoctor.knowledge.cuda import driver_for, toolkit_of
from rldoctor.knowledge.known_issues import KnownIssue, known_issues
from rldoctor.knowledge.packages import FRAMEWORKS
from rldoctor.knowledge.releases import published_name, python_admitted
from rldoctor.knowledge.requirements import (
    Demand,
    identity,
    is_framework,
    matters,
    needs_of,
    shipped_together,
    unreleased,
)
from rldoctor.records import dataclass
from rldoctor.tables import declarations
from rldoctor.versions import is_before, parsed, specifiers, version_within

# Whose versions a person chooses; what else these bring along, pip finds by itself: nothing but declarations binds it.
MAIN = (*FRAMEWORKS, "vllm", "torch", "transformers")

_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A package that was named: the distribution's name and a specifier, empty for any version."""

    name: str
    specifier: str

    def admits(self, version: str) -> bool:
        # An exact version may carry the label of its build, which a specifier compares; elsewhere it says nothing.
        public = version.partition("+")[0]
        wanted = specifiers(self.specifier)
        return any(wanted.contains(form, prereleases=True) for form in (version, public))


class World:
    """The facts that hold whatever is installed (Python, platform, driver, what was named), and the demands of
    distributions, each read once."""

    def __init__(self, case: Case, wanted: Mapping[str, Wanted]) -> None:
        assert case.packages is not None
        self.case = case
        self.packages: Packages = case.packages
        self.wanted = dict(wanted)
        self.versions: dict[str, Distribution] = {}
        for distribution in case.packages.distributions:
            if matters(distribution):
                self.versions.setdefault(identity(distribution), distribution)
        # Installed in a version that is not known: neither there nor missing.
        self.opaque = {provided(name): reason for name, reason in case.packages.broken.items()}
        self.candidates: dict[str, tuple[Distribution, ...]] = {}
        self._own: dict[tuple[str, str, bool], tuple[Demand, ...]] = {}
        self._demands: dict[tuple[str, str, bool], tuple[Demand, ...]] = {}
        self._required: dict[tuple[str, str, bool], frozenset[str]] = {}
        self._runs: dict[str | None, bool] = {}
        self.undeclared: dict[str, str] = {}

    @cached_property
    def served_cuda(self) -> str | None:
        """The newest CUDA of the NVIDIA driver; None where there is none, or where forward-compatibility libraries
        raise it."""
        gpus = self.case.gpus
        compatibility = "compat" in (self.case.variable("LD_LIBRARY_PATH") or "")
        return gpus.cuda if gpus is not None and gpus.vendor == "nvidia" and not compatibility else None

    def demands(self, by: Distribution) -> tuple[Demand, ...]:
        """What counts as demanded by one distribution here: its own demands, and those that it inherits."""
        key = (by.name, by.version, bool(by.requires))
        if key not in self._demands:
            self._demands[key] = (*self.own(by), *self._inherited(by))
        return self._demands[key]

    def own(self, by: Distribution) -> tuple[Demand, ...]:
        """What one distribution demands: its own metadata, or its published release's, and known breaks."""
        key = (by.name, by.version, bool(by.requires))
        if key not in self._own:
            needs = needs_of(replace(self.case, packages=replace(self.packages, distributions=(by,))))
            # The published metadata is that of the build for CUDA; the one without it has no use for Triton.
            plain = not by.requires and by.name == "torch" and by.version.endswith("+cpu")
            self._own[key] = tuple(d for d in needs.demands if not (plain and d.on == "triton"))
            self.undeclared.update(needs.undeclared)
        return self._own[key]

    def _inherited(self, by: Distribution) -> Iterator[Demand]:
        """What newer releases do not accept any more, an older one that has to be installed does not either, though it
        could not declare that: the releases that it stops at were not out."""
        name = identity(by)
        if self.versions.get(name) == by or unreleased(by.version):
            return
        for newer in self._newer(by):
            for demand in self.own(newer):
                ceiling = _ceiling(demand)
                if ceiling and (demand.on in MAIN or demand.on == "python"):
                    reason = f"{newer.name} {newer.version}, which is newer, goes no further"
                    yield Demand(by=by, on=demand.on, specifier=ceiling, source=demand.source, reason=reason)

    def _newer(self, by: Distribution) -> Iterator[Distribution]:
        """The newest release, and the installed one where that is newer."""
        present = self.versions.get(identity(by))
        newest = self._newest(by.name)
        for other in (present, newest):
            if other is not None and other.name == by.name and is_before(by.version, other.version):
                yield other

    def _newest(self, name: str) -> Distribution | None:
        for release in reversed(declarations.releases(name)):
            found = parsed(release.version)
            if found is not None and not found.is_prerelease and not release.yanked:
                return Distribution(name=name, version=release.version)
        return None

    def python_ceiling(self, name: str, version: str) -> bool:
        """Whether newer releases of a package still run on this Python."""
        newer = self._newer(Distribution(name=name, version=version))
        ceilings = (_ceiling(d) for other in newer for d in self.own(other) if d.on == "python")
        return all(self.runs(ceiling) for ceiling in ceilings if ceiling)

    def requires(self, by: Distribution) -> frozenset[str]:
        """The packages that pip brings along with one, whatever its extras."""
        key = (by.name, by.version, bool(by.requires))
        if key not in self._required:
            published = None if by.requires else declarations.release(published_name(by), by.version)
            lines = published.requires if published else by.requires
            names = (_NAME.match(line) for line in lines if not re.search(r"\bextra\s*==", line))
            self._required[key] = frozenset(canonical(name.group()) for name in names if name)
        return self._required[key]

    @cached_property
    def defects(self) -> tuple[KnownIssue, ...]:
        """Known defects that break every run with certain versions, whatever its settings."""
        python = self.packages.python
        return tuple(
            issue
            for issue in known_issues()
            if issue.severity == "error"
            and not issue.when
            and not issue.frameworks
            and (issue.python is None or version_within(python, issue.python))
        )

    def runs(self, requires_python: str | None) -> bool:
        """Whether this Python is among those that a release declares."""
        if requires_python not in self._runs:
            admitted = requires_python is None or python_admitted(requires_python, self.packages.python)
            self._runs[requires_python] = admitted
        return self._runs[requires_python]

    def is_open(self, name: str, version: str) -> bool:
        """Whether a demand on this version cannot be decided."""
        return name in self.opaque or unreleased(version) is not None

    def adds(self, demand: Demand) -> bool:
        """Whether whoever installs the package that demands gets the demanded one, which is not there, along with it.
        What is missing beside packages that stay is left missing."""
        moved = self.versions.get(identity(demand.by)) != demand.by
        return moved and demand.on not in self.opaque and demand.on in self.requires(demand.by)

    def clashes(self, versions: Versions) -> Iterator[Clash]:
        """Everything that a set of versions breaks; none means that it is consistent."""
        demands = [demand for distribution in versions.values() for demand in self.demands(distribution)]
        frameworks = frozenset(name for name, d in versions.items() if is_framework(d))
        for demand in demands:
            if not self._met(demand, versions) and not shipped_together(demand, demands, dict(versions)):
                yield self._clash(demand, versions.get(demand.on), frameworks)
        yield from self._defective(versions)
        yield from self._unmet_here(versions)

    def decided(self, versions: Versions) -> int:
        """How many demands between these versions can be judged at all."""
        demands = [demand for distribution in versions.values() for demand in self.demands(distribution)]
        return sum(
            d.on == "python" or (d.on in versions and not self.is_open(d.on, versions[d.on].version)) for d in demands
        )

    def _met(self, demand: Demand, versions: Versions) -> bool:
        """Whether there is what is demanded, as far as that can be judged."""
        if demand.on == "python":
            return self.runs(demand.specifier)
        installed = versions.get(demand.on)
        if installed is None:
            return demand.reason is not None or demand.on not in MAIN or not self.adds(demand)
        version = installed.version
        return self.is_open(demand.on, version) or demand.admits(version) or demand.tolerates(version)

    def _clash(self, demand: Demand, installed: Distribution | None, frameworks: frozenset[str]) -> Clash:
        by, on = identity(demand.by), demand.on
        # A framework that pins both ends exempts them (shipped_together), so moving one can settle it, too.
        exempting = frozenset() if demand.reason else frameworks
        has = f"{installed.name} {installed.version}" if installed else None
        return Clash(
            asks=f"{demand.by.name} {demand.by.version}",
            wants=f"{'Python' if on == 'python' else on}{demand.specifier}",
            has=f"Python {self.packages.python}" if on == "python" else has,
            source=demand.source,
            involved=frozenset({by}) if on == "python" else frozenset({by, on}) | exempting,
            reason=demand.reason,
            url=demand.url,
        )

    def _defective(self, versions: Versions) -> Iterator[Clash]:
        for issue in self.defects:
            ranges = {issue.package: issue.versions, **issue.beside}
            if not all(name in versions and version_within(versions[name].version, ranges[name]) for name in ranges):
                continue
            subject = versions[issue.package]
            others = issue.beside or {issue.package: issue.versions}
            yield Clash(
                asks=f"{subject.name} {subject.version}",
                wants=" or ".join(f"{name} outside {within}" for name, within in others.items()),
                has=" and ".join(f"{versions[name].name} {versions[name].version}" for name in others),
                source=f"known since {issue.verified}",
                involved=frozenset(ranges),
                reason=issue.symptom,
                url=issue.url,
            )

    def _unmet_here(self, versions: Versions) -> Iterator[Clash]:
        """What the command line and the driver ask for."""
        for name, wanted in self.wanted.items():
            installed = versions.get(name)
            if installed is None or installed.name != wanted.name or not wanted.admits(installed.version):
                yield Clash(
                    asks=COMMAND_LINE,
                    wants=f"{wanted.name}{wanted.specifier}",
                    has=f"{installed.name} {installed.version}" if installed else None,
                    source="named on the command line",
                    involved=frozenset({name}),
                )
        torch = versions.get("torch")
        if torch is not None and (why := self.beyond_driver(torch)):
            yield Clash(
                asks=f"the NVIDIA driver (CUDA {self.served_cuda})",
                wants=f"a torch built for CUDA {self.served_cuda.partition('.')[0] if self.served_cuda else ''}",
                has=why,
                source="NVML",
                involved=frozenset({"torch"}),
                url="https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
            )

    def beyond_driver(self, torch: Distribution) -> str | None:
        """Why the driver cannot run a torch, or None where it can or that is not known."""
        toolkit = toolkit_of(torch) if self.served_cuda else None
        if toolkit is None or self.served_cuda is None:
            return None
        major = toolkit.partition(".")[0]
        if not version_within(self.served_cuda, f"<{major}"):
            return None
        return f"torch {torch.version} for CUDA {toolkit} (driver {driver_for(toolkit)} or newer)"


def _ceiling(demand: Demand) -> str:
    """The upper bounds of a demand."""
    parts = []
    for part in demand.specifier.split(","):
        if part.startswith("<"):
            parts.append(part)
        elif part.startswith("==") and "*" not in part:
            parts.append(f"<={part.removeprefix('==').partition('+')[0]}")
    # Where another extra lets newer ones in, the pin is no bound.
    return "" if demand.alternative else ",".join(parts)
