"""What differs between two cases, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rldoctor import __version__
from rldoctor.errors import InputError
from rldoctor.fleet.diff import Difference
from rldoctor.printable import printable
from rldoctor.report.console import drawn

SCHEMA_VERSION = 1
# More packages that are in one case only, and matter little, are counted.
MOST_MINOR = 10


def renderer(name: str, *, to_file: bool = False) -> Callable[[Sequence[Difference], str, str], str]:
    """The renderer of a format, called with the differences and the names of the two cases. Raises
    :class:`InputError` for a name that is none."""
    if name == "json":
        return lambda found, first, second: _json(printable(tuple(found)), first, second)
    if name == "rich":
        terminal = False if to_file else None
        return lambda found, first, second: drawn(
            partial(_print, found=printable(tuple(found)), first=first, second=second), terminal
        )
    raise InputError(f"unknown format {name!r}; known are rich, json")


def _json(found: Sequence[Difference], first: str, second: str) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "rldoctor", "version": __version__},
        "first": first,
        "second": second,
        "differences": msgspec.to_builtins(tuple(found)),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode()


def _print(console: Console, found: Sequence[Difference], first: str, second: str) -> None:
    if not found:
        console.print(Text("no differences", style="green"))
    for section, rows in groupby(found, key=lambda difference: difference.section):
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in (section, first, second):
            table.add_column(column, overflow="fold")
        listed = list(rows)
        minor = [row for row in listed if row.minor]
        left_out = minor if len(minor) > MOST_MINOR else []
        for row in listed:
            if row not in left_out:
                table.add_row(row.name, _cell(row.first, row.note), _cell(row.second, row.note))
        console.print(table)
        if left_out:
            console.print(Text(f"and {len(left_out)} other packages that one has (--format json)", style="dim"))
        console.print()


def _cell(value: Any, note: str | None) -> Text:
    if value is None:
        return Text(f"not known: {note}" if note else "-", style="dim")
    return Text(str(value))
