"""Judges an environment's versions and finds what would make them consistent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rldoctor.case import Case, Distribution
from rldoctor.compat import named
from rldoctor.compat.candidates import candidates
from rldoctor.compat.combinations import engines, trainers
from rldoctor.compat.explain import conflict
from rldoctor.compat.model import Answer, Outcome, Remedy, Versions
from rldoctor.compat.remedies import remedies
from rldoctor.compat.resolver import Impossible
from rldoctor.compat.world import World
from rldoctor.errors import InputError
from rldoctor.knowledge.packages import FRAMEWORKS
from rldoctor.knowledge.releases import published_name
from rldoctor.knowledge.requirements import identity, unreleased
from rldoctor.tables import declarations


def judge(case: Case, names: Sequence[str] = ()) -> Answer:
    """What goes together in a case, with the packages that are named. Raises :class:`InputError` where there is
    nothing to judge."""
    if case.packages is None:
        unknown = case.unknown.get("packages")
        raise InputError(f"the packages are not known: {unknown.reason if unknown else 'they were not collected'}")
    wanted = named.parse(names)
    world = World(case, {})
    world = World(case, named.with_engine(wanted, (*world.versions, *world.opaque)))
    named.verify(world)
    at_hand = {*world.versions, *world.wanted, *world.opaque}
    if not at_hand & {*FRAMEWORKS, "vllm"}:
        where = case.packages.executable or case.packages.prefix or "this environment"
        raise InputError(
            f"no RL framework and no vLLM in {where}: give --python of the environment to judge, or name packages"
            " (rldoctor compat vllm==0.8.5 transformers)"
        )
    clashes = tuple(dict.fromkeys(world.clashes(world.versions)))
    found: tuple[Remedy, ...] = ()
    contradictions: tuple[str, ...] = ()
    decided = world.decided(world.versions)
    # What an engine or a framework asks for is the question: without that, nothing else answers it.
    silent = world.undeclared.keys() & {*FRAMEWORKS, "vllm"}
    outcome: Outcome = "consistent" if decided and not silent else "not-judged"
    if clashes:
        outcome = "changes"
        try:
            found = remedies(world)
        except Impossible as error:
            outcome, contradictions = "impossible", conflict(world, error.needs)
    after = _after(world, found)
    engine = _engine_name(world)
    return Answer(
        target=case.target or case.packages.prefix or "assumed environment",
        date=declarations.date(),
        python=case.packages.python,
        cuda=world.served_cuda,
        versions={d.name: d.version for d in world.versions.values()},
        outcome=outcome,
        engine=engine,
        engines=engines(world, engine, after),
        trainers={name: trainers(world, name, after) for name in FRAMEWORKS if name in at_hand},
        clashes=clashes,
        remedies=found,
        conflict=contradictions,
        unknown=tuple(_unknown(world)),
    )


def _after(world: World, found: tuple[Remedy, ...]) -> Versions:
    """The versions that are there, and where nothing is there yet those that will be, or were named."""
    named_exactly = {name: options[0] for name in world.wanted if len(options := candidates(world, name)) == 1}
    added = [Distribution(name=c.package, version=c.new) for remedy in found[:1] for c in remedy.changes]
    return {**named_exactly, **{identity(d): d for d in added}, **world.versions}


def _engine_name(world: World) -> str:
    """The name under which the vLLM at hand is published."""
    if "vllm" in world.wanted:
        return world.wanted["vllm"].name
    return published_name(world.versions["vllm"]) if "vllm" in world.versions else "vllm"


def _unknown(world: World) -> Iterator[str]:
    """What could not be judged, and why."""
    for name, reason in world.opaque.items():
        if name in {*FRAMEWORKS, "vllm", "torch", "transformers"}:
            yield f"the version of {name} is not known: {reason}"
    for distribution in world.versions.values():
        why = unreleased(distribution.version)
        if why:
            yield f"whether {distribution.name} is what others ask for: {why}"
    yield from world.undeclared.values()


def sentence(answer: Answer) -> str:
    """The outcome in one line."""
    if answer.outcome == "impossible":
        return f"no versions go together: {answer.conflict[0]}"
    if answer.outcome == "not-judged":
        return (
            f"nothing could be judged: {'; '.join(answer.unknown) or 'no two packages here say anything of each other'}"
        )
    if answer.outcome == "consistent":
        aside = f"; not judged: {'; '.join(answer.unknown)}" if answer.unknown else ""
        return f"these versions go together: nothing to change{aside}"
    count = len(answer.remedies[0].changes)
    return f"{count} {'change makes' if count == 1 else 'changes make'} it consistent, and none can be left out"
