"""What is known about a step's rewards, and evidence that says where it stands."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable

from rldoctor.api import Case

trends = importlib.import_module("rldoctor_checks.observed.trends")

Made = Callable[..., Case]


def test_what_each_metric_tells_about_the_groups(made: Made) -> None:
    def reported(**values: list[float]) -> dict[int, bool]:
        found: dict[int, bool] = trends.signal(trends.Run.of(made(**values)))
        return found

    assert reported(frac_reward_zero_std=[1.0, 0.99]) == {1: False, 2: True}
    assert reported(frac_reward_zero_std=[0.0], reward_std=[0.0]) == {1: False}
    assert reported(advantage_max=[0.0, 1.0], advantage_min=[0.0, -1.0]) == {1: False, 2: True}
    assert reported(advantage_abs=[0.0]) == {1: False}
    assert reported(reward_max=[1.0, 1.0], reward_min=[1.0, 0.0]) == {1: False}, (
        "a range in the batch leaves groups open"
    )
    assert reported(frac_reward_zero_std=[0.0], reward_std=[math.nan]) == {}
    assert reported(reward=[1.0] * 4) == {} and reported(reward=[0.5, 0.5, 0.5, 0.5, 0.4]) == {}
    assert reported(reward=[0.0] * 5) == dict.fromkeys(range(1, 6), False), "a mean that never changes is a constant's"


def test_trailing_steps() -> None:
    assert trends.trailing({1: True, 2: False, 3: False}, False) == [2, 3]
    assert trends.trailing({1: True}, False) == []


def test_medians_leave_nan_out() -> None:
    values = {1: 1.0, 2: math.nan, 3: 3.0, 4: math.inf, 5: 5.0}
    assert trends.head(values, 2) == 2.0 and trends.tail(values, 1) == 5.0
    assert math.isnan(trends.tail({}, 3))


def test_evidence_names_place_and_native_key(logged: Callable[[str], Case]) -> None:
    evidence = trends.Run.of(logged("trl_healthy.txt")).evidence(2, "completion_length_mean", "kl", "reward")
    assert evidence.text == "step 2: completions/mean_length 30.38, reward 0.3125"
    assert (evidence.source, evidence.line) == ("trl_healthy.txt", 6)
