"""How far two readings lie apart, and what rounding explains."""

from __future__ import annotations

import math
from typing import Any

import pytest
from rldoctor_checks.observed.agreement import Noise, between, difference, grade_of, lengths, masked, noise_of

from rldoctor.api import Edit, Fix, Grade, NotChecked
from tests.observations import scenario_case
from tests.plans import case as planned


def job(**more: Any) -> Any:
    return scenario_case("agreement", **more).observations["agreement"]["agreement"]


def test_the_numbers_of_a_difference() -> None:
    reported = difference([-1.0, -2.0], [-1.1, -1.8])
    assert (reported.tokens, round(reported.mean, 6), round(reported.largest, 6)) == (2, 0.15, 0.2)
    # k1 is the mean of log(sampled / other), k3 of ratio - 1 - log ratio.
    assert reported.k1 == pytest.approx((0.1 - 0.2) / 2)
    assert reported.k3 == pytest.approx(((math.exp(-0.1) - 1 + 0.1) + (math.exp(0.2) - 1 - 0.2)) / 2)
    assert (reported.lowest, reported.highest) == (pytest.approx(math.exp(-0.1)), pytest.approx(math.exp(0.2)))


def test_either_bound_may_be_broken() -> None:
    noise = Noise(mean=0.06, largest=0.25)
    assert not difference([-1.0] * 4, [-1.05] * 4).beyond(noise)
    assert difference([-1.0] * 4, [-1.07] * 4).beyond(noise)
    assert difference([-1.0] * 100, [-1.0] * 99 + [-1.3]).beyond(noise)


def test_tokens_of_the_vocabulary_without_a_number() -> None:
    assert masked(job(vocabulary={"token_ids": [9, 1, 2], "engine": [-2.0, "-inf"], "trainer": [-2.0, -3.0]})) == [2]
    # Whose the numbers are is not known where there are fewer.
    with pytest.raises(NotChecked, match="of 2 tokens of a prompt 1 came"):
        masked(job(vocabulary={"token_ids": [9, 1, 2], "engine": [-2.0], "trainer": [-2.0, -3.0]}))


def test_what_is_no_number_is_not_compared() -> None:
    for values in (["nan"], [None], []):
        with pytest.raises(NotChecked):
            difference(values, [-1.0])
    with pytest.raises(NotChecked, match="same tokens"):
        between([{"engine": [-1.0], "trainer": [-1.0, -2.0]}], "engine", "trainer")


def test_noise_follows_precision_and_model() -> None:
    figures = [noise_of(job(engine={"dtype": dtype})).mean for dtype in ("bfloat16", "float16", "float32")]
    assert figures == sorted(figures, reverse=True)
    assert noise_of(job(miniature={"weights": "own"})).largest > noise_of(job()).largest
    assert noise_of(job()).over(0.5).mean == 2 * noise_of(job()).mean
    with pytest.raises(NotChecked, match="fp4"):
        noise_of(job(engine={"dtype": "fp4"}))
    with pytest.raises(NotChecked, match="CPU_MLA does not agree with itself"):
        noise_of(job(engine={"dtype": "float32", "attention_backend": "CPU_MLA"}))


def test_reproduced_is_what_ran_with_a_setting_that_the_fix_changes() -> None:
    case = planned(engine__kv_cache_dtype="fp8")
    eager = Fix(title="eager", edits=(Edit(option="engine.enforce_eager", value=True),))
    cache = Fix(title="cache", edits=(Edit(option="engine.kv_cache_dtype", value="auto"),))
    assert grade_of(case, (eager,)) is Grade.OBSERVED
    assert grade_of(case, (eager, cache)) is Grade.REPRODUCED


def test_the_lengths_that_were_run_stand_beside_the_planned_ones() -> None:
    case = planned(lengths__prompt=1024, lengths__response=7168)
    assert lengths(case, job()) == "sequences up to 48 tokens, the run plans 8192"
    assert lengths(planned(), job()) == "sequences up to 48 tokens"
