"""A line of ``Requires-Dist``: the bounds that it sets, and where it holds.

Nearly every line is a name, bounds and comparisons of texts. Those are read here, for less than the import of
:mod:`packaging.requirements` takes, which reads the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from rldoctor.case.lookup import canonical
from rldoctor.expressions import expression
from rldoctor.records import dataclass

_BOUND = r"(?:(?:==|!=)[ ]?\d+(?:\.\d+)*(?:\.\*|\.post\d+)?|(?:[<>]=?)[ ]?\d+(?:\.\d+)*(?:\.post\d+)?)"
_PLAIN = expression(
    rf"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?(?:\[[\w, -]*\])?[ ]?(?P<bounds>(?:{_BOUND}(?:,[ ]?{_BOUND})*)?)"
    r"[ ]?(?:;[ ]?(?P<marker>[^()]+))?"
)
# Compared as texts, whatever they are compared with.
_TERM = expression(
    r"(?P<name>extra|os_name|sys_platform|platform_system|platform_machine|implementation_name)"
    r"[ ]?==[ ]?(?P<quote>[\"'])(?P<text>[^\"']*)(?P=quote)"
)
Environment = Mapping[str, str]


@dataclass(frozen=True)
class Requirement:
    """The bounds, in the order of :class:`packaging.specifiers.SpecifierSet`, the URL in their place, and whether the
    line holds where markers have these values, ``extra`` among them."""

    bounds: str
    url: str | None
    holds: Callable[[Environment], bool]


@lru_cache(maxsize=4096)
def requirement(line: str) -> Requirement | None:
    """What a line says; None for one that says nothing that can be read."""
    plain = _PLAIN.fullmatch(line)
    either = _comparisons(plain["marker"]) if plain is not None else None
    if plain is None or either is None:
        return _by_packaging(line)

    def holds(environment: Environment) -> bool:
        return any(all(_value(name, environment[name]) == text for name, text in every) for every in either)

    return Requirement(",".join(sorted(set(plain["bounds"].replace(" ", "").split(",")))), None, holds)


def _comparisons(marker: str | None) -> list[list[tuple[str, str]]] | None:
    """Comparisons of which one row has to hold whole; None for a marker of another kind."""
    rows: list[list[tuple[str, str]]] = []
    for part in [] if marker is None else marker.strip().split(" or "):
        terms = [_TERM.fullmatch(term.strip()) for term in part.split(" and ")]
        rows.append([(term["name"], _value(term["name"], term["text"])) for term in terms if term is not None])
        if None in terms:
            return None
    return rows or [[]]


def _value(name: str, text: str) -> str:
    return canonical(text) if name == "extra" else text


def _by_packaging(line: str) -> Requirement | None:
    from packaging.requirements import InvalidRequirement
    from packaging.requirements import Requirement as Read

    try:
        read = Read(line)
    except InvalidRequirement:
        return None
    marker = read.marker
    return Requirement(str(read.specifier), read.url, lambda given: marker is None or marker.evaluate(dict(given)))
