"""Texts from outside do nothing but stand there."""

from __future__ import annotations

import pytest

from rldoctor.model import Evidence
from rldoctor.printable import printable, storable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [red]text[/red]\n\tdéjà ✓", "plain [red]text[/red]\n\tdéjà ✓"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("50%\r100%", "50%\\x0d100%"),
        ("run-\udce9.sh", "run-\\udce9.sh"),
        ("safe\u202egnp.hs", "safe\\u202egnp.hs"),
        ("pay\u200bpal \ufeffx\u2060y\u00adz", "pay\\u200bpal \\ufeffx\\u2060y\\xadz"),
        ("\u2066right\u2069 \u061c \u2028line", "\\u2066right\\u2069 \\u061c \\u2028line"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("no\ufffe \uffff characters", "no\\ufffe \\uffff characters"),
        ("naïve 中文 עברית عربى ✓ 👍", "naïve 中文 עברית عربى ✓ 👍"),
    ],
)
def test_what_a_terminal_would_obey_comes_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_only_what_json_cannot_hold_is_changed_in_a_store() -> None:
    assert storable({"a\udce9": ["\x1b[0m", ("\ud800", 1, None)]}) == {"a\\udce9": ["\x1b[0m", ("\\ud800", 1, None)]}


def test_dataclasses_keep_their_types() -> None:
    clean, odd = Evidence(text="a", line=7), Evidence(text="\x1b", line=7)
    assert printable(clean) is clean
    assert printable((odd,)) == (Evidence(text="\\x1b", line=7),)
