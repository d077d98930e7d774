"""A class of ours is the dataclass that the standard library would make of it."""

from __future__ import annotations

import dataclasses
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import msgspec
import pytest

from rldoctor.records import dataclass


def made_by(decorate: Any) -> tuple[Any, Any, Any]:
    """The same three classes by one decorator or the other."""

    @decorate(frozen=True)
    class Setting:
        """One option."""

        name: str
        value: Any = None
        places: tuple[str, ...] = ()
        seen: list[str] = field(default_factory=list, compare=False, repr=False)

        def __post_init__(self) -> None:
            self.seen.append(self.name)

    @decorate(frozen=True, kw_only=True)
    class Sourced(Setting):
        """One with its source."""

        file: str
        line: int = field(default=0, hash=False)

    @decorate
    class Count:
        """What goes on counting."""

        number: int = 0

    return Setting, Sourced, Count


OURS, THEIRS = made_by(dataclass), made_by(dataclasses.dataclass)


def both(make: Any) -> tuple[Any, Any]:
    """What the same statement comes to with our classes and with those of the standard library."""
    return make(*OURS), make(*THEIRS)


@pytest.mark.parametrize(
    "make",
    [
        lambda setting, sourced, count: repr(setting("tp", 2)).rpartition(".")[2],
        lambda setting, sourced, count: repr(sourced("tp", file="train.sh", line=3)).rpartition(".")[2],
        lambda setting, sourced, count: dataclasses.asdict(sourced("tp", 2, ("a",), file="train.sh")),
        lambda setting, sourced, count: [f.name for f in dataclasses.fields(sourced)],
        lambda setting, sourced, count: setting("tp").seen,
        lambda setting, sourced, count: setting("tp") == setting("tp", seen=["other"]),
        lambda setting, sourced, count: setting("tp") == setting("pp"),
        lambda setting, sourced, count: setting("tp") == sourced("tp", file="train.sh"),
        lambda setting, sourced, count: setting("tp") == "tp",
        lambda setting, sourced, count: len({setting("tp"), setting("tp"), setting("pp")}),
        lambda setting, sourced, count: hash(sourced("tp", file="f", line=1)) == hash(sourced("tp", file="f", line=2)),
        lambda setting, sourced, count: replace(setting("tp", 2), value=4).value,
        lambda setting, sourced, count: count(2) == count(2),
        lambda setting, sourced, count: count.__hash__,
        lambda setting, sourced, count: (count().number, setting.value, setting.__match_args__),
        lambda setting, sourced, count: msgspec.convert({"name": "tp", "value": [1]}, setting).value,
        lambda setting, sourced, count: msgspec.json.encode(sourced("tp", file="train.sh")),
    ],
)
def test_it_is_as_in_the_standard_library(make: Any) -> None:
    ours, theirs = both(make)
    assert ours == theirs


@pytest.mark.parametrize(
    "make",
    [
        lambda setting, sourced, count: setting(),
        lambda setting, sourced, count: setting("tp", 1, (), [], 5),
        lambda setting, sourced, count: setting("tp", unknown=1),
        lambda setting, sourced, count: sourced("tp", None, (), [], "train.sh"),
        lambda setting, sourced, count: sourced("tp"),
        lambda setting, sourced, count: hash(count()),
    ],
)
def test_what_it_refuses(make: Any) -> None:
    for classes in (OURS, THEIRS):
        with pytest.raises(TypeError):
            make(*classes)


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_frozen_does_not_change(which: int) -> None:
    one = OURS[which]("tp", **({"file": "train.sh"} if which else {}))
    with pytest.raises(FrozenInstanceError):
        one.value = 4
    with pytest.raises(FrozenInstanceError):
        del one.value
    changing = OURS[2]()
    changing.number += 1
    assert changing.number == 1


def test_a_plugin_may_derive_from_it_as_from_any() -> None:
    setting = OURS[0]

    @dataclasses.dataclass(frozen=True)
    class Theirs(setting):  # type: ignore[misc, valid-type]
        """A plugin's own."""

        more: int = 0

    assert Theirs("tp", more=3).more == 3
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(type("Changing", (setting,), {}))
