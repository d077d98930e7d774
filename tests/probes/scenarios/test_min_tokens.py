"""The ``min_tokens`` scenario: what is asked of the engine, and that a V1 engine ends at its limit."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.rollout.chunked_prefill import check

from rldoctor.api import Case, NotApplicable, Outcome, RolloutPlan, Setting
from rldoctor.catalogue.scenario import Basis
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.min_tokens import min_tokens


def asked(scale: float = 1.0, **settings: Any) -> dict[str, Any]:
    named = {name.replace("__", "."): Setting(value=value) for name, value in settings.items()}
    plan = RolloutPlan(framework="vLLM", file="", entry="", settings=named) if settings else None
    runs = min_tokens.runs(Case(plan=plan), None, Basis(model_len=2048, scale=scale))  # type: ignore[arg-type]
    return dict(runs["min_tokens"].arguments)


def beyond(reported: dict[str, Any]) -> int:
    """By how many tokens the shortest answer goes beyond a context of 2048."""
    return int(reported["prompt"] + reported["least"] - 2048)


def test_without_a_launch_it_asks_for_more_than_there_is_room_for() -> None:
    assert beyond(asked()) == 8


def test_a_launch_whose_answers_fit_is_played_as_one_that_fits() -> None:
    reported = asked(sampling__min_tokens=512, lengths__prompt=1024, engine__max_model_len=2048)
    assert beyond(reported) <= 0 and reported["least"] >= 1
    reported = asked(4.0, sampling__min_tokens=2048, lengths__prompt=6144, engine__max_model_len=8192)
    assert beyond(reported) == 0


def test_a_launch_that_asks_for_too_much_is_played_as_one() -> None:
    reported = asked(4.0, sampling__min_tokens=2049, lengths__prompt=6144, engine__max_model_len=8192)
    assert beyond(reported) == 1
    assert reported["most"] >= reported["least"]


def test_a_launch_that_does_not_ask_for_it_is_not_played() -> None:
    with pytest.raises(NotApplicable, match="does not ask for min_tokens"):
        asked(engine__max_model_len=2048)


@pytest.mark.engine
def test_a_v1_engine_ends_at_its_limit(under_traffic: Case) -> None:
    reported = under_traffic.observations["min_tokens"]["min_tokens"]["records"]
    assert reported["least"] > reported["limit"] - reported["prompt_tokens"]
    for row in reported["answers"]:
        assert row["finish_reason"] == "length"
        assert row["prompt_tokens"] + len(row["token_ids"]) == min(
            reported["limit"], row["prompt_tokens"] + reported["least"]
        )
    result = judge_one(check, under_traffic)
    assert result.outcome is not Outcome.FINDINGS and "end at max_model_len" in str(result.reason)
