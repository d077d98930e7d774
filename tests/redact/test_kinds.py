"""Forms of tokens that are looked for only where a sign of them stands."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies

from rldoctor.redact import kinds


@pytest.mark.parametrize(("signs", "form"), kinds._RARE.values(), ids=kinds._RARE)
def test_a_sign_stands_in_every_token_of_a_rare_form(signs: str, form: str) -> None:
    # What stands before the token stands in the text as well.
    @settings(max_examples=8)
    @given(strategies.from_regex(form.replace("(?<=", "(?:"), fullmatch=True))
    def has_one(token: str) -> None:
        assert any(sign in token for sign in signs.split("|"))

    has_one()


@pytest.mark.parametrize("path", kinds._HOOKS.pattern.split("|(?<="))
def test_a_sign_stands_in_the_path_of_every_hook(path: str) -> None:
    before = re.sub(r"\\(.)", r"\1", path.removeprefix("(?<=").partition(")")[0])
    assert any(sign in before or sign in path for sign in kinds._OF_HOOKS.split("|"))


@pytest.mark.parametrize("token", ["hf_" + "aB3dE5fG7h" * 3, "ghp_" + "aB3dE5fG7h" * 3, "sk-" + "aB3dE5fG7h" * 2])
def test_a_rare_token_is_found_beside_others(token: str) -> None:
    assert [span.name for span in kinds.find(f"a common sk-{'x1' * 12} and {token}")][-1] != "last-resort"
