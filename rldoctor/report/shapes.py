"""Exhibits as shapes: places and widths in percent of the picture's width, texts beside them."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.exhibits.model import Agreement, Curve, Exhibits, Length, Memory, Phase, Ranks
from rldoctor.records import dataclass

GIB = 1 << 30
# How many colours the style sheet has for seeds and for parts of memory.
COLOURS = 8
# Height of a curve's picture, in its own units; its width is 100.
HEIGHT = 40.0


@dataclass(frozen=True)
class Bar:
    """A piece of a row: where it begins and how wide it is, in percent; ``colour`` names a class of the style sheet."""

    x: float
    width: float
    colour: str
    text: str


@dataclass(frozen=True)
class Row:
    """A row of bars with its name and value; ``marks`` are lines across it, in percent."""

    name: str
    value: str
    note: str
    bars: tuple[Bar, ...] = ()
    marks: tuple[float, ...] = ()
    known: bool = True
    over: bool = False


@dataclass(frozen=True)
class Cell:
    """One rank of a grid."""

    text: str
    note: str
    colour: str


@dataclass(frozen=True)
class Plot:
    """A curve: its lines (breaks where there is no number), its marked steps, and the ends of its axes."""

    name: str
    key: str
    lines: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    gaps: tuple[float, ...]
    marked: tuple[float, ...]
    low: str
    high: str
    first: int
    last: int
    said: str


@dataclass(frozen=True)
class Scatter:
    """Points in percent of a square, from its lower left; ``low`` and ``high`` are the ends of both axes."""

    points: tuple[tuple[float, float], ...]
    low: str
    high: str
    said: str


@dataclass(frozen=True)
class Drawing:
    """All shapes of one case."""

    exhibits: Exhibits
    lengths: tuple[Row, ...]
    memory: tuple[Row, ...]
    ranks: tuple[tuple[Cell, ...], ...]
    plots: tuple[Plot, ...]
    scatter: Scatter | None


def drawing(exhibits: Exhibits) -> Drawing:
    """The shapes of one case's exhibits."""
    return Drawing(
        exhibits=exhibits,
        lengths=tuple(_lengths(exhibits.lengths)),
        memory=tuple(_memory(exhibits.memory)) if exhibits.memory is not None else (),
        ranks=tuple(_grid(exhibits.ranks)) if exhibits.ranks is not None else (),
        plots=tuple(plot for curve in exhibits.metrics if (plot := _plot(curve)) is not None),
        scatter=_scatter(exhibits.agreement) if exhibits.agreement is not None else None,
    )


def compared(found: Agreement) -> str:
    """How far the two lie apart, in one line."""
    apart = f"{found.mean:.2g} nats apart on average, {found.largest:.2g} at most"
    return f"{found.tokens:,} tokens: log-probabilities {apart}"


def _scatter(found: Agreement) -> Scatter:
    values = [value for point in found.points for value in point]
    low, high = min(values), max(values)

    def place(value: float) -> float:
        return round(2 + 96 * (value - low) / (high - low), 2) if high > low else 50.0

    return Scatter(
        points=tuple((place(trainer), place(engine)) for trainer, engine in found.points),
        low=f"{low:.3g}",
        high=f"{high:.3g}",
        said=compared(found),
    )


def _lengths(found: tuple[Length, ...]) -> Iterator[Row]:
    longest = max((length.tokens or sum(size for _, size in length.parts) for length in found), default=0)
    asked = found[0].tokens if found else None
    for length in found:
        beside = ", ".join(part for part in (length.note, length.source) if part)
        parts = length.parts or ((("", length.tokens),) if length.tokens else ())
        yield Row(
            name=length.name,
            value=f"{length.tokens:,} tokens" if length.tokens else "not known",
            note=beside,
            bars=tuple(_bars([(name, size) for name, size in parts], longest, "length")),
            marks=(_percent(asked, longest),) if asked else (),
            known=length.tokens is not None,
            over=bool(asked and length.tokens and length.tokens < asked),
        )


def _memory(memory: Memory) -> Iterator[Row]:
    totals = [sum(part.size for part in phase.parts) for phase in memory.phases]
    whole = max([*totals, memory.device or 0.0, 1.0])
    for phase, total in zip(memory.phases, totals, strict=True):
        certain = sum(part.size for part in phase.parts if not part.likely)
        value = f"{certain / GIB:.1f} GiB" + (f", likely {total / GIB:.1f}" if total > certain else "")
        yield Row(
            name=phase.name,
            value=value + (f" of {memory.device / GIB:.1f}" if memory.device else " of an unknown device"),
            note="",
            bars=_stacked(phase, whole),
            marks=(_percent(memory.device, whole),) if memory.device else (),
            over=memory.device is not None and certain > memory.device,
        )


def _stacked(phase: Phase, whole: float) -> tuple[Bar, ...]:
    at, bars = 0.0, []
    for number, part in enumerate(phase.parts):
        width = _percent(part.size, whole)
        text = f"{part.name}: {part.size / GIB:.1f} GiB" + (f" ({part.assumes})" if part.assumes else "")
        colour = f"c{number % COLOURS}" + (" likely" if part.likely else "")
        bars.append(Bar(at, width, colour, text))
        at += width
    return tuple(bars)


def _bars(parts: list[tuple[str, int]], whole: float, colour: str) -> Iterator[Bar]:
    at = 0.0
    for number, (name, size) in enumerate(parts):
        width = _percent(size, whole)
        yield Bar(at, width, f"{colour} c{number}", f"{name} {size:,}".strip())
        at += width


def _percent(size: float | None, whole: float) -> float:
    return round(100 * (size or 0) / whole, 3) if whole else 0.0


def _grid(ranks: Ranks) -> Iterator[tuple[Cell, ...]]:
    seeds = list(dict.fromkeys(rank.seed for replica in ranks.replicas for rank in replica if rank.seed is not None))
    colours = {seed: f"c{number % COLOURS}" for number, seed in enumerate(seeds)}
    for replica in ranks.replicas:
        yield tuple(
            Cell(
                text="random" if rank.seed is None else str(rank.seed),
                note=f"rank {rank.rank}, node {rank.node}",
                colour=colours[rank.seed] if rank.seed is not None else "random",
            )
            for rank in replica
        )


def _plot(curve: Curve) -> Plot | None:
    numbers = [value for value in curve.values if value is not None]
    first, last = curve.steps[0], curve.steps[-1]
    if not numbers and not curve.steps:
        return None
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 0.0)

    def x(step: int) -> float:
        return round(100 * (step - first) / (last - first), 2) if last > first else 50.0

    def y(value: float) -> float:
        # An overflow of their difference leaves the ratio alone.
        share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
        return round(HEIGHT - 2 - share * (HEIGHT - 4), 2)

    runs: list[list[tuple[float, float]]] = [[]]
    for step, value in zip(curve.steps, curve.values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((x(step), y(value)))
    gaps = [step for step, value in zip(curve.steps, curve.values, strict=True) if value is None]
    said = f"{curve.name}, steps {first} to {last}, from {low:.4g} to {high:.4g}" if numbers else curve.name
    return Plot(
        name=curve.name,
        key=curve.key,
        lines=tuple(" ".join(f"{a},{b}" for a, b in run) for run in runs if len(run) > 1),
        dots=tuple(run[0] for run in runs if len(run) == 1),
        gaps=tuple(dict.fromkeys(x(step) for step in gaps)),
        marked=tuple(x(step) for step in curve.marked if first <= step <= last),
        low=f"{low:.4g}" if numbers else "no number",
        high=f"{high:.4g}" if numbers else "",
        first=first,
        last=last,
        said=said + (f"; no number at {len(gaps)} steps" if gaps else ""),
    )
