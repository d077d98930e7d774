"""Which published releases are proposed where two packages do not go together."""

from __future__ import annotations

from rldoctor.api import Case
from rldoctor.api.packages import needs_of
from rldoctor.api.releases import accepting_releases
from tests.observations import packages


def proposed(vllm: str, framework: str, version: str) -> tuple[str, ...]:
    """The releases of a framework that are said to accept this vLLM."""
    case = Case(packages=packages(None, **{"vllm": vllm, framework: version}))
    (demand,) = [d for d in needs_of(case).on("vllm") if d.by.name == framework and not d.admits(vllm)]
    return accepting_releases(case, demand, vllm)


def test_the_nearest_that_declare_to_accept_it() -> None:
    found = proposed("0.12.0", "trl", "0.19.0")
    assert found and "0.19.0" not in found


def test_a_release_that_says_nothing_of_it_promises_nothing() -> None:
    # skyrl 0.0.1 only holds the name.
    assert proposed("0.26.0", "skyrl", "0.3.0") == ()
