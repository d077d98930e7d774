"""One module per framework, each with a ``DIALECT``; a new file here is a new dialect. ``_name_table.py`` holds a long
table."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from rldoctor.launch.dialect import Boolean, Derivation, Dialect
from rldoctor.launch.draft import Draft
from rldoctor.launch.rule import Rule, chosen, inverted


@lru_cache(maxsize=1)
def all_dialects() -> tuple[Dialect, ...]:
    """Every dialect, in the order of its module's name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return tuple(importlib.import_module(f"{__name__}.{name}").DIALECT for name in names)


def by_name(name: str) -> Dialect | None:
    """The dialect of a framework, however its name is written (``ms-swift``, ``ms_swift``, ``MS-Swift``)."""
    wanted = _plain(name)
    return next((d for d in all_dialects() if wanted in (_plain(d.name), _plain(d.owner))), None)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "").replace(".", "")


__all__ = ["Boolean", "Derivation", "Dialect", "Draft", "Rule", "all_dialects", "by_name", "chosen", "inverted"]
