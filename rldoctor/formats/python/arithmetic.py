"""Operations on values that Python source fixes, within bounds: no text makes them slow, or their result large."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

MAX_TEXT = 100_000
# Numbers that settings reach (seeds have 64 bits); what is beyond is no setting, and must not cost time.
MAX_NUMBER = 2**64
MAX_BASE, MAX_EXPONENT = 2**20, 64

_NUMBERS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def computed(operation: ast.operator, left: Any, right: Any) -> Any:
    """Two numbers under an operation, or two texts or two lists joined. Raises :class:`ValueError` with the reason for
    anything else, and for what grows too large."""
    if isinstance(left, int | float) and isinstance(right, int | float) and type(operation) in _NUMBERS:
        power = isinstance(operation, ast.Pow)
        if max(abs(left), abs(right)) > MAX_NUMBER or (power and (abs(left) > MAX_BASE or abs(right) > MAX_EXPONENT)):
            raise ValueError("a number beyond settings")
        try:
            result = _NUMBERS[type(operation)](left, right)
        except ArithmeticError as error:
            raise ValueError(str(error)) from None
        if isinstance(result, complex):
            raise ValueError("a number beyond settings")
        return result
    joined = (isinstance(left, str) and isinstance(right, str)) or (isinstance(left, list) and isinstance(right, list))
    if joined and isinstance(operation, ast.Add):
        if len(left) + len(right) > MAX_TEXT:
            raise ValueError("too long")
        return left + right
    raise ValueError("an expression that is not constant")
