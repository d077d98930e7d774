"""Values as texts of a format, held against the format's own reader."""

from __future__ import annotations

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from rldoctor.formats.texts import hydra_text

PARSER = OverridesParser.create()


@pytest.mark.parametrize(
    "value",
    [
        *("plain words", r"C:\here", r"it's C:\here", "a\\", "a\\'b", r"\d+", "a,b", "[1]"),
        *(True, None, 3, 0.5, [r"\d", "a'b", 1], {"type": "yarn", "factor": 4.0}),
    ],
)
@pytest.mark.parametrize("bare", [True, False])
def test_hydra_reads_what_was_meant(value: Any, bare: bool) -> None:
    assert PARSER.parse_override(f"key={hydra_text(value, bare)}").value() == value


@pytest.mark.parametrize("text", ["1", "true", "null", "1e-6"])
def test_a_text_that_looks_like_something_else_stays_one_where_it_is_quoted(text: str) -> None:
    assert PARSER.parse_override(f"key={hydra_text(text, bare=False)}").value() == text
