"""What launches come to, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rldoctor import __version__
from rldoctor.errors import InputError
from rldoctor.exhibits.sheet import Rank, Row, Sheet, source_of
from rldoctor.plan.seeds import SHOWN
from rldoctor.printable import printable
from rldoctor.report.console import drawn

SCHEMA_VERSION = 1
_GIB = 1 << 30


def renderer(name: str, *, to_file: bool = False) -> Callable[[Sequence[Sheet]], str]:
    """The renderer of a format. Raises :class:`InputError` for a name that is none."""
    if name == "json":
        return lambda sheets: _json(printable(tuple(sheets)))
    if name == "rich":
        terminal = False if to_file else None
        return lambda sheets: drawn(partial(_print, sheets=printable(tuple(sheets))), terminal)
    raise InputError(f"unknown format {name!r}; known are rich, json")


def _json(sheets: Sequence[Sheet]) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "rldoctor", "version": __version__},
        "launches": msgspec.to_builtins(tuple(sheets)),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode()


def _print(console: Console, sheets: Sequence[Sheet]) -> None:
    for sheet in sheets:
        release = f" {sheet.version}" if sheet.version else ", release not known"
        console.print(Text(f"{sheet.framework}{release}: {sheet.file}:{sheet.line}", style="bold"))
        console.print()
        for part, rows in sheet.rows.items():
            if rows:
                _table(console, part, rows)
            if part == "seeds":
                _ranks(console, sheet)
            elif part == "memory":
                _memory(console, sheet)


def _table(console: Console, part: str, rows: Sequence[Row]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in (part, "value", "from"):
        table.add_column(column, overflow="fold")
    for row in rows:
        known = row.source != "unknown"
        unit = row.unit.removesuffix("s") if row.value == 1 else row.unit
        value = Text(f"{_said(row.value)} {unit}".strip()) if known else Text("?", style="yellow")
        table.add_row(row.name, value, Text(source_of(row), style="dim" if known else "yellow"))
    console.print(table)
    console.print()


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _ranks(console: Console, sheet: Sheet) -> None:
    if sheet.ranks_unknown is not None:
        console.print(Text(f"ranks and their seeds: not known: {sheet.ranks_unknown}", style="yellow"))
        console.print()
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("rank", "node", "device", "replica", "peer", "seed"):
        table.add_column(column, justify="right")
    half = SHOWN // 2
    rows = sheet.ranks
    left_out = len(rows) - SHOWN
    for number, rank in enumerate(rows):
        if left_out > 0 and number == half:
            table.add_row("...", "", "", "", "", f"{left_out} more")
        if left_out <= 0 or number < half or number >= len(rows) - half:
            table.add_row(*_cells(rank))
    console.print(table)
    together = "not known" if sheet.together is None else str(sheet.together)
    console.print(Text(f"seeds: {sheet.seeds}; replicas that share the completions of one prompt: {together}"))
    console.print()


def _cells(rank: Rank) -> tuple[str, ...]:
    device = "?" if rank.device is None else str(rank.device)
    seed = "random" if rank.seed is None else str(rank.seed)
    return (str(rank.rank), str(rank.node), device, str(rank.replica), str(rank.peer), seed)


def _memory(console: Console, sheet: Sheet) -> None:
    for phase in sheet.memory:
        parts = ", ".join(f"{name} {size / _GIB:.1f}" for name, size in phase.parts.items())
        at_least, device = phase.expected / _GIB, phase.device / _GIB
        console.print(Text(f"{phase.name}: at least {at_least:.1f} of {device:.1f} GiB on one device ({parts})"))
    if sheet.memory_unknown is not None:
        console.print(Text(f"memory of a device: not known: {sheet.memory_unknown}", style="yellow"))
    console.print()
