"""What scenarios ask of an engine: the launch's own parameters, and one answer that is longer than the others."""

from __future__ import annotations

from typing import Any

import pytest

from rldoctor.api import Case
from rldoctor.api.probes import Basis, Request
from rldoctor.probes.scenarios.agreement import agreement
from rldoctor.probes.scenarios.mixed import mixed
from tests.plans import case as planned


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        ({"temperature": 0.6, "top_p": 0.95, "top_k": -1}, {"temperature": 0.6, "top_p": 0.95}),
        ({"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.05}, {"repetition_penalty": 1.05}),
        ({"temperature": 1, "top_k": 0}, {}),
        ({"temperature": 0.0, "top_p": 0.9}, {}),
    ],
)
def test_a_launchs_own_parameters(settings: dict[str, Any], own: dict[str, float]) -> None:
    plan = planned(**{f"sampling__{name}": value for name, value in settings.items()}).plan
    (run,) = mixed.runs(Case(plan=plan), Request(), Basis()).values()
    assert run.arguments["own"] == own


def test_without_a_launch_there_are_none() -> None:
    (run,) = mixed.runs(Case(), Request(), Basis()).values()
    assert run.arguments["own"] == {}


@pytest.mark.parametrize(
    ("basis", "response", "long"),
    [
        ({}, 16, 128),
        ({"response": 24}, 16, 24),
        # The shortest prompt and one token more that is asked of the whole fit beside it.
        ({"model_len": 64, "prompt": 32, "response": 64}, 16, 47),
    ],
)
def test_one_answer_is_longer_than_the_others(basis: dict[str, Any], response: int, long: int) -> None:
    (run,) = agreement.runs(Case(), Request(), Basis(**{"response": 512, **basis})).values()
    assert (run.arguments["response"], run.arguments["long"]) == (response, long)
