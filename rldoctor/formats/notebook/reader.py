"""Reads a notebook's code cells in their order: Python as Python, ``!``, ``%env`` and ``%%bash`` as shell. Both texts
keep the line numbers of the file, so that what they name can be found there."""

from __future__ import annotations

import json
import re
from dataclasses import field
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.source import Source
from rldoctor.io import untrusted
from rldoctor.plan.model import Note
from rldoctor.records import dataclass

MAX_CELLS = 2000
_SHELLS = re.compile(r"%%(?:bash|sh|script\s+(?:ba)?sh)\b")
_WRITES = re.compile(r"%%writefile\s+(?:-a\s+)?(\S+)")
# Cell magics whose cell is Python all the same.
_PYTHON = re.compile(r"%%(?:capture|time|timeit|prun|python3?)\b")
_SETS = re.compile(r"%(?:set_)?env\s+(\w+)\s*=?\s*(.*)")
# IPython fills in Python's variables, which the shell does not know.
_FILLED = re.compile(r"(?<!\$)\{(\w+)\}")


@dataclass
class Notebook:
    """``python`` and ``shell`` are what its cells run, ``files`` what they write; ``cells`` gives the first line of
    each code cell by its number (from 1, of all cells)."""

    python: Source
    shell: Source
    files: dict[str, Source] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    cells: dict[int, int] = field(default_factory=dict)


def read_notebook(source: Source) -> Notebook:
    """Reads a notebook. Raises :class:`InputError` with one line where it is none."""
    try:
        whole = json.loads(source.text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source.file}: not a notebook: {error}") from None
    listed = whole.get("cells") if isinstance(whole, dict) else None
    if not isinstance(listed, list):
        raise InputError(f"{source.file}: not a notebook that can be read: it has no list of cells")
    if len(listed) > MAX_CELLS:
        raise InputError(f"{source.file}: not a notebook that can be read: it has more than {MAX_CELLS:,} cells")
    cells = [
        (number, _lines(cell.get("source")))
        for number, cell in enumerate(listed, 1)
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
    ]
    places = _places(source.text, [line for _, lines in cells for line in lines])
    size = max([0, *places])
    python, shell = [""] * size, [""] * size
    book = Notebook(source, source)
    at = 0
    for number, lines in cells:
        where, at = places[at : at + len(lines)], at + len(lines)
        if lines:
            book.cells[number] = where[0]
            _cell(book, number, [line.rstrip("\n") for line in lines], where, python, shell)
    book.python = Source("\n".join(python), source.file)
    book.shell = Source("\n".join(shell), source.file)
    return book


def _lines(text: Any) -> list[str]:
    parts = text if isinstance(text, list) else [text]
    return [line for part in parts if isinstance(part, str) for line in part.splitlines(keepends=True)]


def _places(text: str, lines: list[str]) -> list[int]:
    """The line of the file on which each source line stands; where the file is not written line by line, their
    numbers among all of them."""
    rows = text.splitlines()
    found: list[int] = []
    row = 0
    for line in lines:
        spelled = {json.dumps(line), json.dumps(line, ensure_ascii=False)}
        while row < len(rows) and rows[row].strip().removesuffix(",") not in spelled:
            row += 1
        if row == len(rows):
            return list(range(1, len(lines) + 1))
        row += 1
        found.append(row)
    return found


def _cell(book: Notebook, number: int, lines: list[str], where: list[int], python: list[str], shell: list[str]) -> None:
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%") and not _PYTHON.match(first):
        body = [(place, line) for place, line in zip(where, lines, strict=True) if line.strip() != first]
        if _SHELLS.match(first):
            for place, line in body:
                shell[place - 1] = line
        elif (written := _WRITES.match(first)) is not None and body:
            book.files[written[1]] = Source("\n".join(line for _, line in body), book.python.file, body[0][0])
        return
    kept: list[str] = []
    goes_on = False
    for place, line in zip(where, lines, strict=True):
        command = line.strip()
        if goes_on or command[:1] in ("!", "%") or re.match(r"[\w., ]+=\s*!", command):
            if goes_on or command.startswith("!"):
                shell[place - 1] = _FILLED.sub(r"${\1}", command.removeprefix("!"))
            elif (setting := _SETS.match(command)) is not None:
                shell[place - 1] = f"export {setting[1]}={_quoted(setting[2])}"
            kept.append(line[: len(line) - len(line.lstrip())] + "pass" if not goes_on else "")
            goes_on = command.endswith("\\")
        else:
            kept.append(line)
    if _is_python("\n".join(kept)):
        for place, line in zip(where, kept, strict=True):
            python[place - 1] = line
    else:
        text = f"cell {number} is no Python that can be read"
        book.notes.append(Note(text=text, file=book.python.file, line=where[0]))


def _quoted(text: str) -> str:
    return "'" + text.strip().strip("\"'").replace("'", "'\\''") + "'"


def _is_python(text: str) -> bool:
    try:
        untrusted.python(text)
    except SyntaxError:
        return False
    return True
