"""Bounds that a class gives its numbers, as pydantic writes them: ``size: int = Field(default=1, ge=1)``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator

from rldoctor.link.syntax import last_name
from rldoctor.records import dataclass

_SIGNS: dict[str, tuple[str, str, Callable[[float, float], bool]]] = {
    "gt": (">", "greater than", operator.gt),
    "ge": (">=", "greater than or equal to", operator.ge),
    "lt": ("<", "less than", operator.lt),
    "le": ("<=", "less than or equal to", operator.le),
}


@dataclass(frozen=True)
class Bound:
    """One bound of a field: ``ge`` of ``limit``."""

    field: str
    kind: str
    limit: float
    line: int

    @property
    def sign(self) -> str:
        return _SIGNS[self.kind][0]

    @property
    def words(self) -> str:
        """The bound as pydantic says it."""
        return f"{_SIGNS[self.kind][1]} {self.limit}"

    def holds(self, value: float) -> bool:
        """Whether a number is within the bound."""
        return _SIGNS[self.kind][2](value, self.limit)


def bounds(node: ast.ClassDef) -> Iterator[Bound]:
    """The bounds of a class's own fields, in their order."""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            for call in _fields(statement):
                for keyword in call.keywords:
                    limit = _number(keyword.value)
                    if keyword.arg in _SIGNS and limit is not None:
                        yield Bound(statement.target.id, keyword.arg, limit, statement.lineno)


def _fields(statement: ast.AnnAssign) -> Iterator[ast.Call]:
    """``Field(...)`` as the default, or beside the type: ``Annotated[int, Field(...)]``."""
    annotation = statement.annotation
    beside = (
        annotation.slice
        if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Annotated"
        else None
    )
    for one in (statement.value, *(beside.elts[1:] if isinstance(beside, ast.Tuple) else ())):
        if isinstance(one, ast.Call) and last_name(one.func) == "Field":
            yield one


def _number(node: ast.expr) -> float | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) in (int, float) else None
