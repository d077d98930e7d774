"""The expression that was None, as the interpreter's words and the line that failed tell it."""

from __future__ import annotations

import pytest

from rldoctor.logs.model import Frame, LoggedException
from rldoctor.logs.nothing import was_none


def said(message: str, code: str) -> str | None:
    return was_none(LoggedException(type="TypeError", message=message, frames=(Frame("a.py", 1, "f", code),)))


@pytest.mark.parametrize(
    ("message", "code", "expression"),
    [
        # https://github.com/gensyn-ai/rl-swarm/issues/331
        (
            "unsupported operand type(s) for //: 'NoneType' and 'int'",
            "batch_size=self.args.generation_batch_size // self.num_generations,",
            "self.args.generation_batch_size",
        ),
        ("unsupported operand type(s) for -: 'Tensor' and 'NoneType'", "advantages = returns - values", "values"),
        ("unsupported operand type(s) for +=: 'int' and 'NoneType'", "total += cfg.n", "cfg.n"),
        ("'<' not supported between instances of 'float' and 'NoneType'", "if loss < best:", "best"),
        ("'NoneType' object is not subscriptable", 'if self.out["score"] > 0:', "self.out"),
        ("'NoneType' object is not iterable", "for row in batch.get('rows'):", "batch.get('rows')"),
        ("'NoneType' object is not callable", "out = self.reward_fn(data)", "self.reward_fn"),
        ("'NoneType' object has no attribute 'forward'", "return self.model.forward(x)", "self.model"),
        ("object of type 'NoneType' has no len()", "n = len(self.rows)", "self.rows"),
    ],
)
def test_what_was_none(message: str, code: str, expression: str) -> None:
    assert said(message, code) == expression


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("unsupported operand type(s) for +: 'int' and 'NoneType'", "x = a + b + c"),  # whichever of them
        ("unsupported operand type(s) for +: 'NoneType' and 'NoneType'", "x = a + b"),
        ("unsupported operand type(s) for +: 'int' and 'str'", "x = a + b"),
        ("'NoneType' object is not subscriptable", "x = a[0] + b[1]"),
        ("'NoneType' object is not subscriptable", ""),
        ("unsupported operand type(s) for -: 'Tensor' and 'NoneType'", "advantages = ("),
    ],
)
def test_what_nobody_can_tell(message: str, code: str) -> None:
    assert said(message, code) is None
