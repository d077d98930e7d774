"""The canonical names of a rollout plan: one table with type, unit and meaning, the same for every framework.

``vocabulary.json`` holds it, one row per line: name, kind, unit, meaning. ``engine.*`` are exactly vLLM's names
(``EngineArgs``), for the engine that samples, whoever starts it."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import msgspec

from rldoctor.records import dataclass


@dataclass(frozen=True)
class Term:
    """One canonical name. ``kind`` is int, size (an int of at least 1), float, bool, str, list, dict or any; ``unit``
    is empty for a plain value."""

    name: str
    kind: str
    unit: str
    meaning: str


# Groups that take names beyond the table: vLLM's own option names, and environment variables (always text).
OPEN_GROUPS = {"engine": "any", "env": "str"}


@lru_cache(maxsize=1)
def terms() -> dict[str, Term]:
    """Every canonical name of the table, in its order."""
    rows = msgspec.json.decode(Path(__file__).with_name("vocabulary.json").read_bytes(), type=list[list[str]])
    return {row[0]: Term(*row) for row in rows}


def term(name: str) -> Term | None:
    """The row of a canonical name; a name of an open group that the table lacks gets an untyped one, any other None."""
    found = terms().get(name)
    group, _, rest = name.partition(".")
    if found is None and rest and group in OPEN_GROUPS:
        return Term(name, OPEN_GROUPS[group], "", "")
    return found


def plain(option: str) -> str:
    """What a person calls a setting where no framework's own name for it is at hand: vLLM's option, the variable, the
    option as it was written, or the head of the table's meaning ("longest prompt")."""
    group, _, rest = option.partition(".")
    known = terms().get(option)
    if group in ("engine", "env", "native") or known is None:
        return rest or option
    return re.split(r" ?[:;,(]", known.meaning)[0]
