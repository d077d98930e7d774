"""Numbers as they are printed."""

from __future__ import annotations

import math

import pytest

from rldoctor.logs.metrics.values import flatten, is_rounded_zero, number


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("0.5", 0.5),
        ("'1.192e-07'", 1.192e-07),
        ("-.5", -0.5),
        ("np.float64(0.25)", 0.25),
        ("tensor(3., device='cuda:0')", 3.0),
        ("tensor([2.5])", 2.5),
        ("-inf", -math.inf),
        (".inf", math.inf),
        (7, 7.0),
        (10**400, math.inf),
    ],
)
def test_numbers(printed: object, value: float) -> None:
    assert number(printed) == value


@pytest.mark.parametrize("printed", ["nan", "NaN", "None", None, "tensor(nan)", ".nan"])
def test_not_a_number_is_a_value(printed: object) -> None:
    found = number(printed)
    assert found is not None and math.isnan(found)


@pytest.mark.parametrize("printed", ["", "12s", "1/100", "True", True, [1.0], "9" * 100, "nanosecond", "--1"])
def test_other_things_are_none(printed: object) -> None:
    assert number(printed) is None


def test_rounded_zeros() -> None:
    assert is_rounded_zero("0.000") and is_rounded_zero("'-0.0000'")
    assert not is_rounded_zero("0.0") and not is_rounded_zero("0") and not is_rounded_zero(0.0)


def test_flatten_is_bounded() -> None:
    deep: dict[str, object] = {"x": 1}
    for _ in range(50):
        deep = {"n": deep}
    assert flatten(deep) == {}
    assert flatten({"a": {"b": 1}, "c": 2}) == {"a/b": 1, "c": 2}
