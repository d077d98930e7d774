"""To which pattern a failure belongs that no signature knows, by the place in a package's source that raises it.

``message_families.json`` holds rows of expressions, in any case: ``says`` must all be found in the message's template
(``{}`` for its holes), ``where`` in ``package: module.function``, ``exception`` in the exception's type."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from rldoctor.knowledge import table


class Family(msgspec.Struct, frozen=True):
    """Places whose failures are of one pattern. What is empty holds everywhere."""

    code: str
    says: tuple[str, ...] = ()
    where: str = ""
    exception: str = ""

    @property
    def asks(self) -> int:
        """How much is asked of a place: where several claim it, most decides."""
        return len(self.says) + bool(self.where)

    def has(self, where: str, template: str, exception: str) -> bool:
        """Whether a place is one of the family's."""
        asked = [(said, template) for said in self.says] + [(self.where, where), (self.exception, exception)]
        return all(re.search(pattern, text, re.IGNORECASE) for pattern, text in asked)


def family_of(where: str, template: str, exception: str) -> str | None:
    """The code whose family a place belongs to; None where it is nobody's, or several ask for equally much."""
    claims = [family for family in _families() if family.has(where, template, exception)]
    most = max((family.asks for family in claims), default=0)
    codes = {family.code for family in claims if family.asks == most}
    return codes.pop() if len(codes) == 1 else None


@lru_cache(maxsize=1)
def _families() -> tuple[Family, ...]:
    return tuple(msgspec.convert(row, Family) for row in table("message_families"))
