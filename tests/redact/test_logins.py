"""Where logins show, whatever the text around them."""

from __future__ import annotations

import re

import pytest

from rldoctor.redact import logins
from tests.redact.signs import ways_without

SIGNED = (*logins._CERTAIN, *logins._IN_WORDS, *logins._LIKELY)


@pytest.mark.parametrize(("signs", "pattern"), SIGNED, ids=[one.pattern[:40] for _, one in SIGNED])
def test_what_an_expression_matches_has_one_of_its_signs(signs: frozenset[str], pattern: re.Pattern[str]) -> None:
    """The expression is not even asked where none of them stands."""
    other_letters = logins._OTHER_LETTERS in signs

    def is_sign(letters: str) -> bool:
        return letters.casefold().endswith(tuple(signs)) or (other_letters and not letters.isascii())

    assert all(sign == sign.casefold() for sign in signs)
    assert ways_without(pattern.pattern, is_sign) == []


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
