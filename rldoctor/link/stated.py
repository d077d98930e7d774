"""What a class of a release refuses of single values, by the conditions that the table of its messages holds: for
releases whose source is not at hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rldoctor.link.expressions import Expressions, Frame
from rldoctor.link.locate import SearchPath
from rldoctor.link.sources import Source, Sources
from rldoctor.link.values import NOT_KNOWN, Known, Settings, Value, truth
from rldoctor.records import dataclass
from rldoctor.tables.messages import HOLE, Table


@dataclass(frozen=True)
class Stated:
    """One refusal: the field that the condition reads, the exception's type, its text, and the condition."""

    field: str
    type: str
    message: str
    condition: str


def refused_values(package: str, version: str, function: str, values: Mapping[str, Any]) -> Iterator[Stated]:
    """What ``function`` (``vllm.sampling_params:SamplingParams._verify_args``) of a release raises for ``values`` of
    its object's fields, each by itself: a condition that reads more than one is left out. Nothing for a release that
    the table lacks."""
    module, _, name = function.partition(":")
    table = Table.load(package)
    if version not in table.releases:
        return
    at = table.releases.index(version)
    reader = _Reader(values)
    for place in table.within(module):
        spans = ((table.releases.index(first), table.releases.index(last)) for first, last in place.spans)
        if place.function != name or not any(first <= at <= last for first, last in spans):
            continue
        condition = " and ".join(f"({one})" for one in place.conditions)
        fields = reader.fields(condition)
        if len(fields) == 1 and reader.holds(condition):
            yield Stated(fields.pop(), place.type, reader.filled(place.template), " and ".join(place.conditions))


class _Reader(Expressions):
    """Conditions over ``self.NAME``, of which ``values`` has what is known."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(Sources(SearchPath([])), None)
        self.attributes = {name: Known(value) for name, value in values.items()}
        nowhere = Source("", "", "", ast.Module([], []), package=False, bodies=False)
        self._frame = Frame(nowhere, "", "", {"self": Settings("")}, 0)

    def fields(self, condition: str) -> set[str]:
        """The fields of the object that a condition reads."""
        parts = ast.walk(ast.parse(condition, mode="eval"))
        return {part.attr for part in parts if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "self"}

    def holds(self, condition: str) -> bool:
        """Whether the condition is certainly true."""
        return truth(self.value(ast.parse(condition, mode="eval").body, replace(self._frame))) is True

    def filled(self, template: str) -> str:
        """The text with what its holes come to."""
        parts = template.split(HOLE)
        holes = (self.value(ast.parse(part, mode="eval").body, self._frame) for part in parts[1::2])
        said = [str(one.value) if isinstance(one, Known) else "..." for one in holes]
        return "".join(text + (said[at] if at < len(said) else "") for at, text in enumerate(parts[::2]))

    def returned(self, call: ast.Call, frame: Frame) -> Value:
        return NOT_KNOWN

    def computed(self, setting: str, frame: Frame) -> Value | None:
        return None
