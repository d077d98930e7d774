"""The answer for a person: what does not go together, what to change, and the tables it was read from."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rldoctor.compat.answer import sentence
from rldoctor.compat.explain import reported
from rldoctor.compat.model import COMMAND_LINE, Answer, Clash, Engine, Outcome, Remedy, Trainer
from rldoctor.report.console import drawn

_Row = TypeVar("_Row", Engine, Trainer)

STYLES: dict[Outcome, str] = {
    "consistent": "bold green",
    "changes": "bold",
    "impossible": "bold red",
    "not-judged": "bold yellow",
}
MOST_ROWS = 12
MOST_REASONS = 3


def render(answer: Answer, terminal: bool | None = None) -> str:
    """The answer as text, with colours on a ``terminal`` (None: where standard output is one)."""
    return drawn(partial(_print, answer=answer), terminal)


def _print(console: Console, answer: Answer) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in answer.versions.items())
    cuda = f", driver for CUDA {answer.cuda}" if answer.cuda else ""
    console.print(Text(sentence(answer), style=STYLES[answer.outcome]))
    console.print(Text(f"{answer.target}: Python {answer.python}{cuda}{', ' if versions else ''}{versions}"))
    _print_engines(console, answer)
    for name, rows in answer.trainers.items():
        _print_trainers(console, name, rows)
    console.print(Text(f"as published on {answer.date}", style="dim"))
    console.print()
    for clash in answer.clashes:
        if clash.asks != COMMAND_LINE:  # what is wished for is no fault of what is there
            _print_clash(console, clash, "bold red")
    for line in answer.conflict[1:]:
        console.print(Text(f"no versions go together: {line}", style="bold red"))
    for place, remedy in enumerate(answer.remedies):
        _print_remedy(console, remedy, "or change" if place else "change")
    for line in answer.unknown:
        console.print(Text(f"? not judged: {line}", style="yellow"))


def _print_engines(console: Console, answer: Answer) -> None:
    going = [row for row in answer.engines if row.obstacle is None]
    # Where nothing goes together the obstacles are the news.
    shown = _shown(going or list(answer.engines)) + [
        row for row in answer.engines if row.here and row.obstacle and going
    ]
    if not shown:
        return
    table = _table(answer.engine, "torch", "transformers", "newest", "Python", "CUDA", "driver")
    if any(row.obstacle for row in shown):
        table.add_column("does not go with")
    for row in shown:
        driver = row.driver and f">={row.driver}"
        cells = (row.torch, row.transformers, row.newest_transformers, row.python, row.cuda, driver)
        more = [row.obstacle or ""] if any(other.obstacle for other in shown) else []
        table.add_row(_block(row), *(_cell(cell) for cell in cells), *more, style=_style(row))
    console.print(table)
    if len(going or answer.engines) > MOST_ROWS:
        console.print(Text("more with --format json", style="dim"))


def _print_trainers(console: Console, name: str, rows: tuple[Trainer, ...]) -> None:
    shown = _shown(list(rows))
    known = any(row.imports for row in shown)
    table = _table(name, "vLLM", "torch", "transformers", "Python", *["vLLM by its imports"] * known)
    for row in shown:
        cells = (row.vllm, row.torch, row.transformers, row.python, *[row.imports] * known)
        table.add_row(_block(row), *(_cell(cell) for cell in cells), style=_style(row))
    console.print(table)
    for row in shown:
        if row.here and row.beyond:
            said = (
                f"{name} declares vLLM{row.vllm}, and {row.beyond} lack what it imports: vLLM has it all {row.imports}"
            )
            console.print(Text(said, style="yellow"))


def _shown(rows: list[_Row]) -> list[_Row]:
    """The newest, or those around what is here."""
    here = next((place for place, row in enumerate(rows) if row.here), 0)
    last = max(MOST_ROWS, here + 3)
    return rows[last - MOST_ROWS : last]


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _block(row: Engine | Trainer) -> str:
    mark = " *" if row.here else ""
    return f"{row.first}{mark}" if row.first == row.last else f"{row.first} - {row.last}{mark}"


def _cell(text: str | None) -> str:
    return text or "-"


def _style(row: Engine | Trainer) -> str:
    return "bold" if row.here else ""


def _print_clash(console: Console, clash: Clash, style: str) -> None:
    console.print(Text(reported(clash), style=style))
    console.print(Padding(Text(clash.url or clash.source, style="dim"), (0, 0, 0, 2), expand=False))


def _print_remedy(console: Console, remedy: Remedy, verb: str) -> None:
    console.print()
    stays = f", keeping {', '.join(remedy.stays)}" if remedy.stays else ""
    count = len(remedy.changes)
    console.print(Text(f"{verb} {count} {'package' if count == 1 else 'packages'}{stays}", style="green"))
    for change in remedy.changes:
        moved = f"{change.old} -> {change.new}" if change.old else f"{change.new} (is not there)"
        console.print(Padding(Text(f"{change.package} {moved}", style="bold"), (0, 0, 0, 2), expand=False))
        for reason in change.reasons[:MOST_REASONS]:
            console.print(Padding(Text(reported(reason), style="dim"), (0, 0, 0, 4), expand=False))
        if len(change.reasons) > MOST_REASONS:
            console.print(Text(f"    and {len(change.reasons) - MOST_REASONS} more", style="dim"))
    console.print(Text(f"    {remedy.command}"), soft_wrap=True)
    if remedy.brings:
        console.print(
            Padding(Text(f"pip also installs, where missing: {', '.join(remedy.brings)}", style="dim"), (0, 0, 0, 2))
        )
    for note in remedy.notes:
        console.print(Padding(Text(f"side effects: {note}", style="dim"), (0, 0, 0, 2), expand=False))
