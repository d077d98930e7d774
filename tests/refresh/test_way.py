"""What comes before a message: whether its conditions tell all that has to hold, and of what its object was given."""

from __future__ import annotations

import textwrap

import pytest

from rldoctor.refresh.message_sites import messages
from rldoctor.tables.messages import CHANGED, CUT, MARKS, UNCALLED


def mark(body: str, *, further: str = "") -> str:
    """What stands before the conditions of the only message of a class whose ``__post_init__`` has this body."""
    method = "    def __post_init__(self):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    text = f"class Arguments(Base):\n{method}\n{textwrap.indent(textwrap.dedent(further), '    ')}"
    (only,) = (one for one in messages(text) if one.conditions)
    return only.conditions[0] if only.conditions[0] in MARKS else ""


ASKED = "if self.a and self.b:\n    raise ValueError('both')\n"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "self.c = 1\n",
        "if self.c:\n    self.d = self.a\n",
        "if self.a is None:\n    self.a = True\n",
        "if self.c and self.a is None:\n    self.a = True\n",
        "self.a = not self.b if self.a is None else self.a\n",
        "self.a = Kind(self.a)\n",
        "with opened():\n    self.c = 1\n",
        "if self.c:\n    raise\n",
        "for name in ('c', 'd'):\n    setattr(self, name, None)\n",
        "for name in self.LISTED:\n    setattr(self, name, None)\n",
        "self.prepare()\n",
    ],
)
def test_what_changes_nothing_that_the_condition_reads(before: str) -> None:
    further = "LISTED = ['c', 'd']\ndef prepare(self):\n    self.c = 2\n"
    assert mark(before + ASKED, further=further) == ""


@pytest.mark.parametrize(
    "before",
    [
        "self.a = 1\n",
        "if self.c:\n    self.b = False\n",
        "self.a = self.a or 1\n",
        "self.a = other(self.b)\n",
        "if self.c is None:\n    self.a = 1\n",
        "for name in self.LISTED:\n    setattr(self, name, None)\n",
        "setattr(self, name(), None)\n",
        "self.prepare()\n",
        "if self.prepare():\n    pass\n",
    ],
)
def test_a_field_that_may_have_another_value_by_then(before: str) -> None:
    further = "LISTED = ['a']\ndef prepare(self):\n    self.inner()\ndef inner(self):\n    self.a = 2\n"
    assert mark(before + ASKED, further=further) == CHANGED


@pytest.mark.parametrize(
    "body",
    [
        f"if self.c:\n    return\n{ASKED}",
        f"for one in self.c:\n    if one:\n        return\n{ASKED}",
        f"for one in self.c:\n{textwrap.indent(ASKED, '    ')}",
        f"try:\n{textwrap.indent(ASKED, '    ')}except ValueError:\n    pass\n",
        f"with suppress(ValueError):\n{textwrap.indent(ASKED, '    ')}",
        f"def inner():\n{textwrap.indent(ASKED, '    ')}",
        "if self.a:\n    if self.b:\n        if self.c:\n            assert self.d\n",
        f"if self.{'a' * 250}:\n    assert self.b\n",
    ],
)
def test_a_place_that_more_than_its_conditions_decides(body: str) -> None:
    assert mark(body) == CUT


def test_the_other_branch_is_not_behind_a_return() -> None:
    assert mark("if self.c:\n    return\nelif self.a:\n    raise ValueError('a')\n") == ""


def test_a_method_counts_where_it_runs_for_every_object() -> None:
    check = f"def check(self):\n{textwrap.indent(ASKED, '    ')}"
    assert mark("self.check()\n", further=check) == ""
    assert mark("self.a = 1\nself.check()\n", further=check) == CHANGED
    assert mark("if self.c:\n    self.check()\n", further=check) == UNCALLED
    assert mark("if self.c:\n    return\nself.check()\n", further=check) == UNCALLED
    assert mark("pass\n", further=check) == UNCALLED
    assert mark("pass\n", further=f"@model_validator(mode='after')\n{check}") == ""


def test_a_method_that_may_never_run_is_read_to_the_place_all_the_same() -> None:
    check = f"def check(self):\n    if self.c:\n        return\n{textwrap.indent(ASKED, '    ')}"
    assert mark("pass\n", further=check) == CUT
    assert mark("pass\n", further=check.replace("return", "self.a = 1")) == UNCALLED


def test_a_function_of_a_module_is_asked_by_its_name() -> None:
    (one,) = messages("def validate(config):\n    assert config.a\n")
    assert one.conditions == ("not (config.a)",)
    (one,) = messages("def validate(config):\n    config.a = 1\n    assert config.a\n")
    assert one.conditions == (CHANGED, "not (config.a)")
