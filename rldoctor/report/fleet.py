"""A fleet as text, which fits a screen however many nodes there are, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
from rich.console import Console
from rich.text import Text

from rldoctor import __version__
from rldoctor.errors import InputError
from rldoctor.fleet.model import Fleet, NodeClass, Skew
from rldoctor.printable import printable
from rldoctor.report.console import drawn

SCHEMA_VERSION = 1
# A screen holds forty lines: the head, so many classes, what they break, what could not be read.
_CLASSES, _BREAKS, _BESIDE = 22, 10, 2
_COUNTED = re.compile(r"(\d+) x ([^;]+)")
_NAMES, _DIFFERENCES, _LONGEST = 3, 4, 100


def renderer(name: str, *, to_file: bool = False) -> Callable[[Fleet], str]:
    """The renderer of a format. Raises :class:`InputError` for a name that is none."""
    if name == "json":
        return lambda fleet: _json(printable(fleet))
    if name == "rich":
        terminal = False if to_file else None
        return lambda fleet: drawn(partial(_print, fleet=printable(fleet)), terminal)
    raise InputError(f"unknown format {name!r}; known are rich, json")


def _json(fleet: Fleet) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "rldoctor", "version": __version__},
        **msgspec.to_builtins(fleet),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode()


def _print(console: Console, fleet: Fleet) -> None:
    for text, style in _lines(fleet):
        console.print(Text(text, style=style))


def sentence(fleet: Fleet) -> str:
    """The answer in one line."""
    unread = f"; nothing can be said of {len(fleet.unread)} more" if fleet.unread else ""
    if fleet.nodes == 1:
        return f"one node, {fleet.alike[0]}: nothing to compare it with{unread}"
    if not fleet.classes:
        return f"{fleet.nodes} nodes, all alike{unread}"
    if fleet.nodes == 2:
        return f"2 nodes, which differ{unread}"
    return f"{fleet.nodes} nodes: {len(fleet.alike)} alike, {fleet.nodes - len(fleet.alike)} differ{unread}"


def _lines(fleet: Fleet) -> Iterator[tuple[str, str]]:
    yield sentence(fleet), "bold" if fleet.classes else "green"
    shown, rest = fleet.classes[:_CLASSES], fleet.classes[_CLASSES:]
    others = fleet.alike[0] if fleet.nodes == 2 and len(fleet.alike) == 1 else "others"
    for one in shown:
        yield f"  {names(one.nodes)}: {_differences(one.differs, others)}", ""
    if rest:
        yield f"  and {sum(len(one.nodes) for one in rest)} nodes in {len(rest)} more ways (--format json)", "dim"
    yield from _breaks(fleet.classes)
    for found in fleet.judged[:_BREAKS]:
        on = "all" if len(found.nodes) == fleet.nodes else names(found.nodes)
        yield f"{found.severity} {found.code} on {on}: {_short(found.message)}", ""
    if len(fleet.judged) > _BREAKS:
        yield f"and {len(fleet.judged) - _BREAKS} more findings on nodes (--format json)", "dim"
    for kind, texts in (
        ("not looked at", [f"{one.source}: {one.reason}" for one in fleet.unread]),
        ("note", list(fleet.notes)),
    ):
        for text in texts[:_BESIDE]:
            yield f"{kind}: {_short(text)}", "yellow"
        if len(texts) > _BESIDE:
            yield f"{kind}: and {len(texts) - _BESIDE} more (--format json)", "yellow"


def names(nodes: Sequence[str]) -> str:
    """A few of the nodes by name, and how many more."""
    listed = ", ".join(nodes[:_NAMES])
    return listed + (f" and {len(nodes) - _NAMES} more" if len(nodes) > _NAMES else "")


def _differences(differs: Sequence[Skew], others: str) -> str:
    said = [f"{_said(skew, others)}{f' {skew.codes[0]}' if skew.codes else ''}" for skew in differs[:_DIFFERENCES]]
    more = [f"{len(differs) - _DIFFERENCES} more"] if len(differs) > _DIFFERENCES else []
    return "; ".join([*said, *more])


def _said(skew: Skew, others: str) -> str:
    here, there = _COUNTED.fullmatch(skew.value), _COUNTED.fullmatch(skew.others)
    if here is not None and there is not None and here[2] == there[2]:
        return f"{here[1]} of {there[1]} x {_short(here[2])}"
    name = f"GPU {skew.name}" if skew.section == "gpus" and skew.name != "gpus" else skew.name
    return f"{name} {_short(skew.value)} ({others} {_short(skew.others)})"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _breaks(classes: Sequence[NodeClass]) -> Iterator[tuple[str, str]]:
    """What the differences break, once for each reason."""
    reasons: dict[str, list[str]] = {}
    for skew in (skew for one in classes for skew in one.differs if skew.codes):
        codes = reasons.setdefault(skew.breaks, [])
        codes += [code for code in skew.codes if code not in codes]
    for number, (words, codes) in enumerate(reasons.items()):
        if number == _BREAKS - 1 and len(reasons) > _BREAKS:
            left = sorted({code for codes in list(reasons.values())[number:] for code in codes})
            yield f"and {', '.join(left)} (rldoctor explain CODE)", "dim"
            return
        yield f"{', '.join(codes)}: {words}", "dim"
