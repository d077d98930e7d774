"""What msgspec knows of a format: its JSON Schema as docs/ has it (a format that changed without it fails a test), and
what is wrong with a value that does not fit, in words of the file that holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rldoctor.expressions import expression
from rldoctor.records import dataclass

# `Expected `str`, got `float` - at `$.packages[...]`.
_KIND = expression(r"Expected `(?P<wanted>[^`]*)`(?:[^,]*)?, got `(?P<got>[^`]*)`")
# `Expected `int` >= 1 - at `$.nodes`.
_RANGE = expression(r"Expected `(?:int|float)` (?P<range>[<>=]+ [\d.]+)")
_DATE = expression(r"Invalid RFC3339 encoded date\b")
_ENUM = expression(r"Invalid enum value (?P<value>'[^']*')")
_LACKS = expression(r"Object missing required field `(?P<name>[^`]*)`")
_SHAPE = expression(r"Expected `str` matching regex ")
_AT = expression(r" - at `(?:key in )?\$\.?(?P<at>[^`]*)`$")
_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "date": "a date",
    "datetime": "a date with a time",
    "time": "a time",
}


def components(kind: Any) -> dict[str, Any]:
    """The schema of what msgspec reads as ``kind``; a value of type ``object`` is any JSON, a path a text."""
    return msgspec.json.schema(kind, schema_hook=_any)


def published(title: str, found: dict[str, Any]) -> str:
    """The schema as a file."""
    dated = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"rldoctor {title}", **found}
    return msgspec.json.format(msgspec.json.encode(dated), indent=1).decode() + "\n"


def _any(kind: type) -> dict[str, Any]:
    if kind is object:
        return {"description": "Any JSON."}
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError(kind)


@dataclass(frozen=True)
class Misfit:
    """A value that does not fit: where it stands, such as ``gpus[0].count``, empty for the whole file, and what is
    wrong, as the rest of a sentence about it."""

    at: str
    wrong: str

    @classmethod
    def of(cls, error: msgspec.ValidationError) -> Misfit:
        """From what was raised; without the names of keys that a file chooses itself, which msgspec does not tell."""
        said = str(error)
        place = _AT.search(said)
        said = said[: place.start()] if place is not None else said
        return cls(place["at"].replace("[...]", "") if place is not None else "", _plainly(said))


def _plainly(said: str) -> str:
    if (kind := _KIND.match(said)) is not None:
        wanted = " or ".join(_KINDS.get(name, name) for name in kind["wanted"].split(" | ") if name != "null")
        return f"has {_KINDS.get(kind['got'], kind['got'])} where {wanted} belongs"
    if (bound := _RANGE.match(said)) is not None:
        return f"has a number out of its range, {bound['range']}"
    if _DATE.match(said):
        return "has no date such as 2030-12-31"
    if (value := _ENUM.match(said)) is not None:
        return f"has the unknown value {value['value']}"
    if _SHAPE.match(said):
        return "has text of another form"
    if (lacks := _LACKS.match(said)) is not None:
        return f"lacks {lacks['name']!r}"
    return f"cannot be read: {said}"
