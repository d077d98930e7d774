"""Forms of tokens that are looked for only where a sign of them stands."""

from __future__ import annotations

import pytest

from rldoctor.redact import kinds
from tests.redact.signs import ways_without

RARE = {**kinds._RARE, "webhook": (kinds._OF_HOOKS, kinds._HOOKS.pattern)}


@pytest.mark.parametrize(("signs", "form"), RARE.values(), ids=RARE)
def test_a_sign_stands_in_every_token_of_a_rare_form(signs: str, form: str) -> None:
    assert ways_without(form, lambda letters: letters.endswith(tuple(signs.split("|")))) == []


@pytest.mark.parametrize("token", ["hf_" + "aB3dE5fG7h" * 3, "ghp_" + "aB3dE5fG7h" * 3, "sk-" + "aB3dE5fG7h" * 2])
def test_a_rare_token_is_found_beside_others(token: str) -> None:
    assert [span.name for span in kinds.find(f"a common sk-{'x1' * 12} and {token}")][-1] != "last-resort"
