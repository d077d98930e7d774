"""Finds versions that go together, with the resolver that pip uses: keep what is installed where that can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from resolvelib import AbstractProvider, BaseReporter, ResolutionImpossible, ResolutionTooDeep, Resolver
from resolvelib.structs import RequirementInformation

from rldoctor.case import Distribution
from rldoctor.compat.candidates import candidates
from rldoctor.compat.model import Versions
from rldoctor.compat.world import MAIN, World
from rldoctor.knowledge.requirements import Demand, is_framework
from rldoctor.records import dataclass
from rldoctor.versions import version_within

# Enough for everything that was tried; beyond it a person is better served by hearing so.
MOST_ROUNDS = 3000


@dataclass(frozen=True, kw_only=True)
class Need:
    """That a package be there, in a version that ``demand`` admits where there is one, and not in the range of a known
    defect."""

    on: str
    demand: Demand | None = None
    outside: str | None = None

    @property
    def range(self) -> tuple[str, str | None, str | None]:
        """What decides which versions will do."""
        return (self.demand.specifier, self.demand.alternative, None) if self.demand else ("", None, self.outside)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A package in one version."""

    name: str
    distribution: Distribution


class Impossible(Exception):  # noqa: N818 (an answer, not a mistake)
    """No versions go together; ``needs`` are the last ones that excluded each other, empty where the search was given
    up."""

    def __init__(self, needs: tuple[Need, ...]) -> None:
        super().__init__(needs)
        self.needs = needs


class Solver:
    """Resolves for one world, and remembers between attempts what each demand admits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._choices: dict[str, tuple[Choice, ...]] = {}
        self._admitted: dict[tuple[str, tuple[str, str | None, str | None], str], bool] = {}
        self._matching: dict[tuple[str, frozenset[tuple[str, str | None, str | None]]], tuple[Choice, ...]] = {}

    def resolve(self, kept: frozenset[str] = frozenset(), rounds: int = MOST_ROUNDS) -> Versions:
        """Versions without a clash: of the packages in ``kept`` the installed ones, of the others too as far as can be.
        Raises :class:`Impossible`."""
        counted = {*self.world.versions, *self.world.wanted}
        shipped = self._shipped_pairs()
        while True:
            found = self._attempt(_Provider(self, kept, frozenset(counted), shipped), sorted(counted), rounds)
            if not any(self.world.clashes(found)):
                return found
            # A package came along that an extra, or a known break, of another one has something to say about.
            if not found.keys() <= counted:
                counted |= found.keys()
            elif shipped:
                shipped = frozenset()
            else:
                raise Impossible(())

    def choices(self, name: str) -> tuple[Choice, ...]:
        """Every version that a package may be in, the most preferred first."""
        if name not in self._choices:
            found = candidates(self.world, name)
            # Releases were looked at one by one; what is installed may be at odds with this Python or driver itself.
            if found[:1] == (self.world.versions.get(name),) and not self._can_be(name, found[0]):
                found = found[1:]
            self._choices[name] = tuple(Choice(name=name, distribution=distribution) for distribution in found)
        return self._choices[name]

    def matching(self, name: str, needs: Iterable[Need]) -> tuple[Choice, ...]:
        """The choices that meet all needs. What only another extra lets in comes last, unless it is there already."""
        by_range = {need.range: need for need in needs}
        key = (name, frozenset(by_range))
        if key not in self._matching:
            found = [c for c in self.choices(name) if all(self.meets(need, c) for need in by_range.values())]
            present = self.world.versions.get(name)
            found.sort(key=lambda c: c.distribution != present and not all(_plainly(n, c) for n in by_range.values()))
            self._matching[key] = tuple(found)
        return self._matching[key]

    def meets(self, need: Need, choice: Choice) -> bool:
        """Whether a package in this version is what is needed."""
        demand, version = need.demand, choice.distribution.version
        key = (choice.name, need.range, version)
        if key not in self._admitted:
            if need.outside is not None:
                met = not version_within(version, need.outside)
            else:
                met = (
                    demand is None
                    or self.world.is_open(choice.name, version)
                    or demand.admits(version)
                    or demand.tolerates(version)
                )
            self._admitted[key] = met
        return self._admitted[key]

    def _attempt(self, provider: _Provider, names: Iterable[str], rounds: int) -> Versions:
        resolver: Resolver[Need, Choice, str] = Resolver(provider, BaseReporter())
        try:
            result = resolver.resolve([Need(on=name) for name in names], max_rounds=rounds)
        except ResolutionImpossible as error:
            raise Impossible(tuple(dict.fromkeys(cause.requirement for cause in error.causes))) from None
        except ResolutionTooDeep:
            raise Impossible(()) from None
        return {name: choice.distribution for name, choice in result.mapping.items()}

    def _can_be(self, name: str, distribution: Distribution) -> bool:
        """Whether this Python, this driver and the command line allow it, whatever is beside it."""
        return all(clash.involved != {name} for clash in self.world.clashes({name: distribution}))

    def _shipped_pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs (who demands, of whom) that a framework pins both ends of: what the one declares about the other is
        not held against them then, see :func:`rldoctor.knowledge.requirements.shipped_together`."""
        pairs = set()
        for name in {*self.world.versions, *self.world.wanted}:
            first = next(iter(self.choices(name)), None)
            if first is not None and is_framework(first.distribution):
                pinned = [demand.on for demand in self.world.demands(first.distribution) if demand.exact]
                pairs |= {(by, on) for by in pinned for on in pinned if by != on}
        return frozenset(pairs)


class _Provider(AbstractProvider[Need, Choice, str]):
    """Tells the resolver what there is and who demands what."""

    def __init__(
        self, solver: Solver, kept: frozenset[str], counted: frozenset[str], shipped: frozenset[tuple[str, str]]
    ) -> None:
        self._solver = solver
        self._world = solver.world
        self._kept = kept
        self._counted = counted
        self._shipped = shipped

    def identify(self, requirement_or_candidate: Need | Choice) -> str:
        found = requirement_or_candidate
        return found.on if isinstance(found, Need) else found.name

    def get_preference(
        self,
        identifier: str,
        resolutions: Mapping[str, Choice],
        candidates: Mapping[str, Iterator[Choice]],
        information: Mapping[str, Iterator[RequirementInformation[Need, Choice]]],
        backtrack_causes: Sequence[RequirementInformation[Need, Choice]],
    ) -> tuple[int, str]:
        return MAIN.index(identifier) if identifier in MAIN else len(MAIN), identifier

    def find_matches(
        self,
        identifier: str,
        requirements: Mapping[str, Iterator[Need]],
        incompatibilities: Mapping[str, Iterator[Choice]],
    ) -> Iterable[Choice]:
        excluded = {id(choice) for choice in incompatibilities[identifier]}
        found = self._solver.matching(identifier, requirements[identifier])
        if identifier in self._kept:
            found = tuple(choice for choice in found if choice.distribution == self._world.versions[identifier])
        return [choice for choice in found if id(choice) not in excluded]

    def is_satisfied_by(self, requirement: Need, candidate: Choice) -> bool:
        return self._solver.meets(requirement, candidate)

    def get_dependencies(self, candidate: Choice) -> list[Need]:
        demands = [
            Need(on=demand.on, demand=demand)
            for demand in self._world.demands(candidate.distribution)
            if demand.on != "python" and self._counts(candidate, demand)
        ]
        defects = [
            Need(on=other, outside=within)
            for issue in self._world.defects
            for other, within in issue.beside.items()
            if issue.package == candidate.name and other in self._counted and len(issue.beside) == 1
            if version_within(candidate.distribution.version, issue.versions)
        ]
        return demands + defects

    def _counts(self, candidate: Choice, demand: Demand) -> bool:
        if (candidate.name, demand.on) in self._shipped and not demand.reason:
            return False
        return demand.on in self._counted or self._world.adds(demand)


def _plainly(need: Need, choice: Choice) -> bool:
    demand = need.demand
    return demand is None or demand.alternative is None or demand.admits(choice.distribution.version)
