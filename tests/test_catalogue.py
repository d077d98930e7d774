"""docs/codes.md and the checks say the same."""

from __future__ import annotations

import re
from pathlib import Path

from tests.loaded import REGISTRY

CATALOGUE = Path(__file__).parents[1] / "docs" / "codes.md"


def test_the_catalogue_lists_every_code_with_its_name() -> None:
    listed = dict(re.findall(r"^\| (RLD\d{3}) \| ([\w-]+) \| \S", CATALOGUE.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {code: check.name for code, check in REGISTRY.checks.items()}
