"""Conditions with what their names stand for."""

from __future__ import annotations

import pytest

from rldoctor.refresh.message_sites import messages
from rldoctor.refresh.spelled import declared, members, spelled_out

KINDS = """
class Named(str, Enum):
    def _missing_(cls, value):
        raise ValueError("unknown")
class Interval(Named):
    NO = "no"
    STEPS = "steps"
class Lenient(str, Enum):
    A = "a"
    def _missing_(cls, value):
        return cls.A
class Plain(Enum):
    A = "a"
class Numbered(IntEnum):
    A = 1
"""


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("self.save == Interval.STEPS and self.n", "self.save == 'steps' and self.n"),
        ("save in (Interval.NO, Interval.STEPS.value)", "save in ('no', 'steps')"),
        ("save == trainer.Interval.STEPS", "save == trainer.Interval.STEPS"),
        ("save == Lenient.A or save == Plain.A or save == Numbered.A",) * 2,
        ("save == Interval.EPOCH",) * 2,
        ("except Interval.NO",) * 2,
    ],
)
def test_members_that_are_their_text_are_named_by_it(condition: str, said: str) -> None:
    assert spelled_out(condition, members(declared(KINDS))) == said


def test_where_two_classes_have_one_name_what_both_say_counts() -> None:
    other = 'class Interval(StrEnum):\n    NO = "no"\n    STEPS = "by step"\n'
    known = members([*declared(KINDS), *declared(other)])
    assert spelled_out("save in (Interval.NO, Interval.STEPS)", known) == "save in ('no', Interval.STEPS)"
    plain = members([*declared(KINDS), *declared("class Interval(Enum):\n    NO = 0\n")])
    assert spelled_out("save == Interval.NO", plain) == "save == Interval.NO"


def conditions(body: str, before: str = "") -> list[tuple[str, ...]]:
    text = f"{before}\nclass Config:\n    MOST = 8\n    def __post_init__(self):\n        {body}\n"
    return [one.conditions for one in messages(text)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("if self.a > self.MOST: raise ValueError", "self.a > 8"),
        ("if self.a > Config.MOST + LEAST: raise ValueError", "self.a > 8 + 2"),
        ("if self.a not in KINDS: raise ValueError", "self.a not in ('x', 'y')"),
        ("if HAS_TORCH: raise ValueError", "HAS_TORCH"),
        ("if self.a > CHANGED: raise ValueError", "self.a > CHANGED"),
        ("if self.a > lower: raise ValueError", "self.a > lower"),
        ("if self.a in LONG: raise ValueError", "self.a in LONG"),
        ("assert self.a < LEAST, 'too many'", "not (self.a < 2)"),
        # A traceback shows this line alone.
        ("assert self.a < LEAST", "not (self.a < LEAST)"),
    ],
)
def test_constants_are_named_by_their_value(body: str, said: str) -> None:
    before = f"""
LEAST = 2
KINDS = ("x", "y")
HAS_TORCH = False
CHANGED = 1
CHANGED = 2
lower = 3
LONG = {[f"kind number {n}" for n in range(30)]}
"""
    assert conditions(body, before) == [(said,)]


@pytest.mark.parametrize(
    "elsewhere", ["class Other(Config):\n    MOST = 9\n", "def set_up(config):\n    config.MOST = 9\n"]
)
def test_what_a_class_gives_and_another_changes_stays_a_name(elsewhere: str) -> None:
    assert conditions("if self.a > self.MOST: raise ValueError", elsewhere) == [("self.a > self.MOST",)]
