"""What Python computes from values in a file, within bounds."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldoctor.formats.python.arithmetic import MAX_NUMBER, computed

SIGNS = {"+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod()}
NUMBERS = st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9)


@given(st.sampled_from(sorted(SIGNS)), NUMBERS, NUMBERS)
def test_numbers_are_computed_as_python_computes_them(sign: str, left: float, right: float) -> None:
    try:
        expected = eval(f"({left!r}) {sign} ({right!r})")
    except ZeroDivisionError:
        with pytest.raises(ValueError, match=r"zero|division|modulo"):
            computed(SIGNS[sign], left, right)
    else:
        assert computed(SIGNS[sign], left, right) == expected


def test_powers_texts_and_lists() -> None:
    assert computed(ast.Pow(), 1024, 3) == 1024**3 and computed(ast.Pow(), 2, -1) == 0.5
    assert computed(ast.Add(), "a", "b") == "ab" and computed(ast.Add(), [1], [2]) == [1, 2]


@pytest.mark.parametrize(
    ("operation", "left", "right"),
    [
        (ast.Pow(), 10, 400),
        (ast.Pow(), 2**30, 2),
        (ast.Pow(), -1, 0.5),
        (ast.Pow(), 0, -1),
        (ast.Mult(), MAX_NUMBER + 1, 1),
        (ast.Mult(), "a", 10**9),
        (ast.Mult(), [0], 10**9),
        (ast.Add(), "a" * 60_000, "b" * 60_000),
        (ast.Add(), "a", 1),
        (ast.BitOr(), 1, 2),
    ],
)
def test_what_grows_or_is_no_setting_is_refused(operation: ast.operator, left: Any, right: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        computed(operation, left, right)
