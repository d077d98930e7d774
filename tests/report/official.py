"""The schema that SARIF reports are held against: OASIS's own, unchanged (``sarif/NOTICE.md``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SCHEMA = Path(__file__).with_name("sarif") / "sarif-schema-2.1.0.json"


@cache
def sarif() -> Any:
    """Its validator."""
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
