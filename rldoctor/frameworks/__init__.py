"""One folder per framework; its ``dialect`` (and ``serve``, for a launch that only serves) holds a ``DIALECT``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from rldoctor.frameworks.dialect import Boolean, Derivation, Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.rule import Rule, chosen, inverted


@lru_cache(maxsize=1)
def all_dialects() -> tuple[Dialect, ...]:
    """Every dialect, in the order of its folder's name."""
    folders = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.ispkg)
    packages = [importlib.import_module(f"{__name__}.{folder}") for folder in folders]
    held = [(p.__name__, m.name) for p in packages for m in pkgutil.iter_modules(p.__path__)]
    return tuple(
        importlib.import_module(f"{folder}.{name}").DIALECT for folder, name in held if name in ("dialect", "serve")
    )


def by_name(name: str) -> Dialect | None:
    """The dialect of a framework, however its name is written (``ms-swift``, ``ms_swift``, ``MS-Swift``)."""
    wanted = _plain(name)
    return next((d for d in all_dialects() if wanted in (_plain(d.name), _plain(d.owner))), None)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "").replace(".", "")


__all__ = ["Boolean", "Derivation", "Dialect", "Draft", "Rule", "all_dialects", "by_name", "chosen", "inverted"]
