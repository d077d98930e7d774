"""Interpolations against OmegaConf itself: generated texts come to the same value, or are unknown."""

from __future__ import annotations

import operator
import random
import warnings
from typing import Any

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rldoctor.formats.hydra.interpolation import MISSING, fill
from rldoctor.formats.values import Unresolved

TEXTS = 300
HELD: dict[str, Any] = {
    "i": 1, "f": 0.5, "b": True, "n": None, "t": "12", "w": "a b", "e": "", "m": "???", "esc": r"\${i}",
    "l": [1, "x", [3, 4], {"q": 5}], "z": "${i}", "y": "p${n}", "lz": ["${i}", "${t}"], "j": "[1,2]",
    "d": {"x": 1, "k": "i", "deep": {"y": 2, "r": "${..x}", "rr": "${...i}"}},
}  # fmt: skip
VARIABLES = {"NUMBER": "8", "EMPTY": "", "LIST": "[1,2]", "WORD": "abc", "BLANKS": " 7 ", "REFERS": "${i}"}
PATHS = (
    *("i", "f", "b", "n", "t", "w", "e", "l", "d", "z", "y", "lz", "j", "m", "esc", "d.x", "d.k", "d.deep", "i.x"),
    *("d.deep.y", "d.deep.r", "d.deep.rr", "l[0]", "l.0", "l[2][1]", "l.2.1", "l[3].q", "l[9]", "l[-1]", "lz[0]"),
    *("d[x]", "d['x']", 'd["deep"].y', "d[deep][y]", "d[deep].y", "[i]", "nope", "d.nope", ".i", "..i"),
)
ARGUMENTS = (
    *("1", "0.5", "-3", "1e3", "1_0", "0x10", "inf", "true", "TRUE", "null", "None", "", "abc", "a b", "a/b", "a.b"),
    *("x:y", "~", "'x y'", '"q"', "'5'", "'a,b'", r"'it\'s'", r"\,", r"a\ b", "[1,2]", "[]", "{a: 1}", "{a:1,b:[2]}"),
    *("${i}", "${d.x}", "'${i}'", "[${i},2]", "{a: ${i}}", "x${i}", r"'\${i}'"),
)
BETWEEN = ("a", " ", "-", "\\", "\\\\", "x_", ".", "e3", "$", "{", "}", "'", '"', "0", ":")
RESOLVERS_OF_OMEGACONF = ("oc.env", "oc.select", "oc.decode", "oc.deprecated", "oc.dict.keys", "oc.dict.values")


class Texts:
    """Makes texts with interpolations from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def text(self) -> str:
        if self.dice.random() < 0.5:
            return self.interpolation()
        return "".join(self._piece() for _ in range(self.dice.randint(1, 4)))

    def _piece(self) -> str:
        kind = self.dice.choice(("interpolation", "interpolation", "between", "escaped"))
        if kind == "between":
            return self.dice.choice(BETWEEN)
        return "\\" * (kind == "escaped") + self.interpolation()

    def interpolation(self, depth: int = 0) -> str:
        if self.dice.random() < 0.45:
            path = self.interpolation(depth + 1) if self.dice.random() < 0.06 else self.dice.choice(PATHS)
            return f"${{ {path} }}" if self.dice.random() < 0.1 else f"${{{path}}}"
        name = self.dice.choice(RESOLVERS_OF_OMEGACONF)
        given = {
            "oc.env": self.dice.choice((*VARIABLES, "NONE", "NONE", "'NUMBER'")),
            "oc.decode": f"${{oc.env:{self.dice.choice((*VARIABLES,))}}}",
        }.get(name, self.dice.choice(PATHS))
        if self.dice.random() < {"oc.env": 0.6, "oc.select": 0.6}.get(name, 0):
            given += self.dice.choice((",", ", ", " , ")) + self._argument(depth)
        return f"${{{name}:{self.dice.choice(('', ' '))}{given}}}"

    def _argument(self, depth: int) -> str:
        nested = self.dice.random() < 0.25 and depth < 2
        return self.interpolation(depth + 1) if nested else self.dice.choice(ARGUMENTS)


def by_omegaconf(text: str) -> tuple[Any] | None:
    """What OmegaConf makes of a text beside :data:`HELD`; None where it refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = OmegaConf.create({**HELD, "made": text}).made
            return (OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found,)
    except (OmegaConfBaseException, ValueError, TypeError, AttributeError):
        return None


def flat(path: str, value: Any) -> dict[str, Any]:
    below = value.items() if isinstance(value, dict) else ()
    return {path: value} | {name: one for key, part in below for name, one in flat(f"{path}.{key}", part).items()}


FLAT = {name: one for key, part in HELD.items() for name, one in flat(key, part).items()}


def by_us(text: str) -> Any:
    return fill(text, "made", lambda name: FLAT.get(name, MISSING), VARIABLES, {})


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NONE", raising=False)


def test_generated_texts_come_to_what_omegaconf_makes_of_them() -> None:
    texts = Texts(11)
    read = 0
    for text in filter(lambda text: "${" in text, (texts.text() for _ in range(TEXTS))):
        expected, found = by_omegaconf(text), by_us(text)
        if expected is None:
            assert isinstance(found, Unresolved), text
        elif not isinstance(found, Unresolved):
            assert repr(found) == repr(expected[0]), text
            read += 1
        else:  # a deprecated name of what is mandatory is itself no refusal of OmegaConf's
            assert "oc.deprecated" in text and "???" in str(expected[0]), text
    assert read > TEXTS / 2


@pytest.mark.parametrize(
    "text",
    [
        *("${d}", "${y}", "${${d.k}}", "${ i }", "${i}.${i}", "${z}${z}", "${n}${n}", "x_${l}", "-${i}", "${i}e3"),
        *("${oc.env:NUMBER}0", "${oc.env:NUMBER,9}", "${oc.env:EMPTY}", "${oc.env:NONE,5}", "${oc.env:NONE,null}"),
        *("${oc.env:NONE,true}", "${oc.env:NONE,${i}}", "${oc.select:q,7}", "${oc.select:q}", "${oc.select:d.q,${i}}"),
        *("${oc.decode:${oc.env:LIST}}", "${oc.decode:null}", "${oc.decode:'{a: 1}'}", "${oc.deprecated:d.x}"),
        *(r"\${i}", r"\\${i}", r"\\\${i}", r"a\b${i}", r"'\${i}'", "$${i}", "${i}$", "$5 ${i}", "${esc}", "${l.0}"),
    ],
)
def test_what_is_often_written_comes_to_what_omegaconf_makes_of_it(text: str) -> None:
    expected = by_omegaconf(text)
    assert expected is not None and repr(by_us(text)) == repr(expected[0])


RESOLVERS = {"mul": operator.mul}
TREE = {"a": 8, "b": "${a}", "c": "${mul:${a}, ${b}}", "loop": "${loop}", "s.x": 1, "s.y": "${.x}"}


def of_the_tree(name: str) -> object:
    return TREE.get(name, MISSING)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${a}", 8),
        ("${c}", 64),
        ("n-${b}", "n-8"),
        ("${oc.env:PORT,80}", "80"),
        ("${oc.env:HOST}", "here"),
        ("${oc.select:nothing,512}", 512),
        ("${oc.select:a,512}", 8),
        ("[${a}]", "[8]"),
    ],
)
def test_interpolation(text: str, value: object) -> None:
    assert fill(text, "k", of_the_tree, {"HOST": "here"}, RESOLVERS) == value


def test_a_relative_interpolation_looks_beside_its_own_key() -> None:
    assert fill("${.x}", "s.y", of_the_tree, {}, {}) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${nobody}", "nobody is not set in this launch"),
        ("${loop}", "it refers to itself"),
        ("${now:%Y}", "now is computed by the framework's own code"),
        ("${oc.env:NOBODY}", "NOBODY is not set in this file"),
    ],
)
def test_what_cannot_be_filled_in_is_unknown(text: str, why: str) -> None:
    found = fill(text, "k", of_the_tree, {}, RESOLVERS)
    assert isinstance(found, Unresolved)
    assert found.why == why
