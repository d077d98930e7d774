"""Regular expressions that are compiled when they are first used: a module that has many of them for what is rare is
imported in the time that the rare ones would take."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["expression"]

if TYPE_CHECKING:
    from re import compile as expression
else:

    class expression:  # noqa: N801 (it is called as re.compile is)
        """The expression of :func:`re.compile` with the same arguments, which are first looked at when it is used."""

        def __init__(self, pattern: str, flags: int = 0) -> None:
            self.pattern, self._flags = pattern, flags

        def __getattr__(self, name: str) -> Any:
            if name == "_compiled":
                self._compiled = re.compile(self.pattern, self._flags)
                return self._compiled
            # Kept, so that a method is found as fast as the compiled expression's own.
            found = getattr(self._compiled, name)
            setattr(self, name, found)
            return found
