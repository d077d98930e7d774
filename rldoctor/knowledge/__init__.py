"""What is known about releases, as dated tables with their sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec


@cache
def table(name: str) -> Any:
    """The shipped table ``name`` (``declared`` for ``declared.json``), read once when it is first asked for."""
    return msgspec.json.decode(Path(__file__).with_name(f"{name}.json").read_bytes())
