"""What a case holds as pictures of characters, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rldoctor.exhibits.model import Exhibits
from rldoctor.report import shapes
from rldoctor.report.lanes import Timeline
from rldoctor.report.shapes import Cell, Row

# Parts differ in form as well, for whoever sees no colours.
_FILLS = "█▓▒░"
_COLOURS = ("blue", "yellow", "green", "magenta", "red", "cyan", "bright_yellow", "white")
_BARS = "▁▂▃▄▅▆▇█"
_NAME, _MOST = 28, 60
_REPLICAS = 8
_STEPS = 40


def print_pictures(console: Console, exhibits: Exhibits) -> None:
    """Lengths as rulers, memory as bars, replicas as a grid, metrics as trends; nothing of what is not there."""
    drawing = shapes.drawing(exhibits)
    if drawing.lengths:
        _heading(console, "lengths", "the line is what the launch asks for, prompt and response")
        _rows(console, drawing.lengths)
    if drawing.memory:
        _heading(console, "memory of one device", "lower bounds; the line is the device's end")
        _rows(console, drawing.memory)
    if drawing.ranks and exhibits.ranks is not None:
        _heading(console, "replicas, ranks and seeds", exhibits.ranks.formula)
        _grid(console, drawing.ranks, exhibits.ranks.left_out)
    if exhibits.agreement is not None:
        _heading(console, "engine against trainer", shapes.compared(exhibits.agreement))
    if exhibits.metrics:
        _heading(console, "the run", "")
        width = max(12, min(_STEPS, console.width - _NAME - 40))
        for curve in exhibits.metrics:
            values = [math.nan if value is None else value for value in curve.values]
            finite = [value for value in values if math.isfinite(value)]
            ends = " to ".join(dict.fromkeys(f"{end(finite):.4g}" for end in (min, max))) if finite else "no number"
            shown = trend(_thinned(values, width))
            line = Text.assemble(f"  {curve.name:<{_NAME}} ", (f"{shown:<{width}}", "blue"), f"  {ends}")
            console.print(line.append(f", steps {curve.steps[0]} to {curve.steps[-1]}", style="dim"), soft_wrap=True)


def print_lanes(console: Console, timeline: Timeline) -> None:
    """Who failed when: a line for each process, or for all whose failures say the same."""
    _heading(console, "process by process", "to scale" if timeline.timed else "in the order of the log")
    width = max(16, min(_MOST, console.width - _NAME - 20))
    for lane in timeline.lanes:
        cells = [("─", "blue")] * (_column(lane.first[-1], width) + 1)
        cells += [(" ", "")] * (width - len(cells))
        for places, mark in ((lane.later, ("○", "dim")), (lane.first, ("●", "red" if lane.cause else "yellow"))):
            for place in places:
                cells[_column(place, width)] = mark
        name = lane.name if len(lane.name) <= _NAME else f"{lane.name[: _NAME - 3]}..."
        console.print(Text.assemble(f"  {name:<{_NAME}} ", *cells, f"  {lane.value}"), soft_wrap=True)
        for said in (lane.said, *(f"then {text}" for text in lane.then)):
            _below(console, Text(said, style="dim"), 4)
    if timeline.left_out:
        console.print(Text(f"  and {timeline.left_out} more kinds of failure", style="dim"))
    if timeline.unharmed:
        console.print(Text(f"  no failure is told of {timeline.unharmed}", style="dim"))


def _column(percent: float, width: int) -> int:
    return min(width - 1, round(percent * width / 100))


def trend(values: Sequence[float]) -> str:
    """The values as a line of bars; what is no number is a question mark."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "?" * len(values)
    low, high = min(finite), max(finite)

    def bar(value: float) -> str:
        if not math.isfinite(value):
            return "?"
        # An overflow of their difference leaves the ratio alone.
        share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.0
        return _BARS[min(len(_BARS) - 1, int(share * len(_BARS)))]

    return "".join(map(bar, values))


def _thinned(values: list[float], most: int) -> list[float]:
    stride = max(1, math.ceil(len(values) / most))
    return values[::-stride][::-1]


def _heading(console: Console, title: str, beside: str) -> None:
    console.print(Text.assemble((title, "bold"), (f"  {beside}" if beside else "", "dim")), soft_wrap=True)


def _below(console: Console, text: Text, indent: int = _NAME + 3) -> None:
    """Text below a picture, whose further lines keep its indent."""
    console.print(Padding(text, (0, 0, 0, indent), expand=False))


def _rows(console: Console, rows: Sequence[Row]) -> None:
    longest = max(len(row.value) for row in rows)
    width = max(12, min(_MOST, console.width - _NAME - 30, console.width - _NAME - 5 - longest))
    for row in rows:
        colour = "red" if row.over else "" if row.known else "magenta"
        line = Text.assemble(f"  {row.name[:_NAME]:<{_NAME}} ", _bar(row, width), "  ", (row.value, colour))
        fits = line.cell_len + 2 + len(row.note) <= console.width
        console.print(line.append(f"  {row.note}" if row.note and fits else "", style="dim"), soft_wrap=True)
        if not fits:
            _below(console, Text(row.note, style="dim"))
        if len(row.bars) > 1:
            legend = Text()
            for number, bar in enumerate(row.bars):
                fill, style = _look(number, bar.colour)
                legend.append(fill, style).append(f" {bar.text}  ", "dim")
            _below(console, legend)


def _bar(row: Row, width: int) -> Text:
    """One character is one part in ``width`` of the picture; what is there at all has one at least."""
    cells = [(" ", "")] * width if row.known else [("·", "magenta")] * width
    for number, bar in enumerate(row.bars):
        first = min(width - 1, round(bar.x * width / 100))
        last = max(first + 1, min(width, round((bar.x + bar.width) * width / 100)))
        cells[first:last] = [_look(number, bar.colour)] * (last - first)
    for mark in row.marks:
        cells[_column(mark, width)] = ("│", "bold")
    return Text.assemble(*cells)


def _look(number: int, colour: str) -> tuple[str, str]:
    digits = next((int(word[1:]) for word in colour.split() if word[1:].isdecimal()), number)
    return _FILLS[number % len(_FILLS)], _COLOURS[digits % len(_COLOURS)]


def _grid(console: Console, replicas: Sequence[Sequence[Cell]], left_out: int) -> None:
    for number, cells in enumerate(replicas[:_REPLICAS]):
        line = Text(f"  replica {number}:")
        for cell in cells:
            _, style = _look(number, cell.colour) if cell.colour != "random" else ("", "dim")
            line.append(" ").append(f"[{cell.text}]", style)
        console.print(line.append(f"  {cells[0].note}" if cells else "", style="dim"), soft_wrap=True)
    more = left_out + max(0, len(replicas) - _REPLICAS)
    if more:
        console.print(Text(f"  and {more} more replicas", style="dim"))
