"""Where logins show, whatever the text around them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest

from rldoctor.redact import logins

parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
SIGNED = (*logins._CERTAIN, *logins._IN_WORDS, *logins._LIKELY)
MOST_LETTERS = 4
State = tuple[bool, str]


@pytest.mark.parametrize(("signs", "pattern"), SIGNED, ids=[one.pattern[:40] for _, one in SIGNED])
def test_what_an_expression_matches_has_one_of_its_signs(signs: frozenset[str], pattern: re.Pattern[str]) -> None:
    """The expression is not even asked where none of them stands."""
    assert all(sign == sign.casefold() for sign in signs)
    ways = followed(parser.parse(pattern.pattern), {("" in signs, "")}, tuple(signs))
    assert all(found for found, _ in ways), [letters for found, letters in ways if not found]


def followed(parts: Iterable[tuple[Any, Any]], states: set[State], signs: tuple[str, ...]) -> set[State]:
    """All ways through an expression: whether a sign has come, and the letters that stand for certain at the end."""
    for kind, given in parts:
        name = str(kind)
        if name == "LITERAL":
            states = stepped(states, chr(given), signs)
        elif name == "SUBPATTERN":
            states = followed(given[3], states, signs)
        elif name == "BRANCH":
            states = set().union(*(followed(way, states, signs) for way in given[1]))
        elif name == "MAX_REPEAT" or name == "MIN_REPEAT":
            least, most, repeated = given
            once = followed(repeated, states, signs)
            again = once if most == 1 else apart(once)
            states = again if least else states | again
        elif name == "IN" and len(given) <= MOST_LETTERS and all(str(one) == "LITERAL" for one, _ in given):
            states = set().union(*(stepped(states, chr(letter), signs) for _, letter in given))
        elif name not in ("AT", "ASSERT", "ASSERT_NOT"):
            states = apart(states)
    return states


def stepped(states: set[State], letter: str, signs: tuple[str, ...]) -> set[State]:
    grown = ((found, letters + letter.casefold()) for found, letters in states)
    return {(True, "") if found or letters.endswith(signs) else (False, letters[-20:]) for found, letters in grown}


def apart(states: set[State]) -> set[State]:
    return {(found, "") for found, _ in states}


@pytest.mark.parametrize(
    "text",
    [
        "curl -u bot:hunter2hunter2 https://x",
        "logging in as bot / hunter2 was rejected",
        "Wi-Fi: guest / hunter2hunter2",
        "Log in as bot/hunter2 failed",
        "the Zugang: lab / Xk29vLq77Zp3",
    ],
)
def test_a_login(text: str) -> None:
    assert [*logins.find(text)]


@pytest.mark.parametrize("text", ["vllm-version-incompatible", "rollout: 8 prompts / 64 samples", "--python PATH"])
def test_none(text: str) -> None:
    assert not [*logins.find(text)]
