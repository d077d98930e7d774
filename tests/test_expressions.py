"""What is compiled late is what would have been compiled at once."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import pytest

import rldoctor
from rldoctor.expressions import expression


def test_it_finds_what_the_compiled_one_finds() -> None:
    late, early = expression(r"(?P<name>\w+)=", re.IGNORECASE), re.compile(r"(?P<name>\w+)=", re.IGNORECASE)
    assert late.findall("a=1 B=2") == early.findall("a=1 B=2") == ["a", "B"]
    assert late.sub("x", "a=1") == "x1" and late.pattern == early.pattern
    assert late.groupindex == early.groupindex and late.flags == early.flags


def test_what_is_no_expression_is_refused_when_it_is_used() -> None:
    broken = expression("(")
    with pytest.raises(re.error):
        broken.search("")


def test_every_expression_of_ours_is_one() -> None:
    late: Any = expression
    modules = (info.name for info in pkgutil.walk_packages(rldoctor.__path__, "rldoctor.") if not info.ispkg)
    for module in modules:
        if ".children" in module or module.endswith("__main__"):
            continue
        values = vars(importlib.import_module(module)).values()
        several = (value if isinstance(value, tuple) else (value,) for value in values)
        assert all(re.compile(one.pattern) for group in several for one in group if type(one) is late), module
