"""Edits notebooks: Python in their cells, on the lines of the file where it stands. Outputs and the rest stay as they
are."""

from __future__ import annotations

import difflib
import json

from rldoctor.formats.notebook.reader import read_notebook
from rldoctor.formats.python.edit import rewrite_python
from rldoctor.formats.source import Source
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.plan.model import Form


def rewrite_notebook(text: str, write: Write) -> str:
    """The notebook with one value set in its Python. Raises :class:`CannotEdit`."""
    book = read_notebook(Source(text, write.file))
    if write.form is Form.VARIABLE and f"export {write.key}=" in book.shell.text:
        raise CannotEdit(f"{write.key} is set by %env in {write.file}, which is left to you")
    if write.form not in (Form.KEYWORD, Form.VARIABLE):
        raise CannotEdit(f"{write.key} stands in a command of {write.file}, which is left to you")
    before, rows = book.python.text.splitlines(), text.splitlines(keepends=True)
    # What begins with ! or % is "pass" there.
    code = [place for place, line in enumerate(before) if line.strip() not in ("", "pass")]
    if not all(place < len(rows) and _is_source(rows[place], before[place]) for place in code):
        raise CannotEdit(f"{write.file} does not have a line of its own for each line of its cells")
    after = rewrite_python(book.python.text, write).splitlines()
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for kind, first, end, start, stop in reversed(changes):
        if kind == "equal":
            continue
        new = after[start:stop]
        if kind == "insert":  # a new line joins the one before it, or opens a cell
            above = first > 0 and _is_source(rows[first - 1], before[first - 1])
            first, end = (first - 1, end) if above else (first, end + 1)
            new = [before[first], *new] if above else [*new, *before[first:end]]
        rows[first:end] = _spelled(rows[first:end], before[first:end], new, write)
    return "".join(rows)


def _is_source(row: str, line: str) -> bool:
    try:
        return str(json.loads(row.strip().removesuffix(","))).rstrip("\r\n") == line
    except ValueError:
        return False


def _spelled(rows: list[str], before: list[str], after: list[str], write: Write) -> list[str]:
    """The lines of the file for source lines, written as those were that they replace."""
    if not rows or not after or not all(map(_is_source, rows, before)):
        raise CannotEdit(f"{write.key} would change what is no Python in {write.file}")
    quoted = [row.strip().removesuffix(",") for row in rows]
    said = [json.loads(one) for one in quoted]
    plain = any(json.dumps(one) != text for one, text in zip(said, quoted, strict=True))
    lead = rows[0][: len(rows[0]) - len(rows[0].lstrip())]
    tail = rows[-1][len(rows[-1].rstrip()) :]
    last_ends, last_more = said[-1].endswith("\n"), rows[-1].rstrip().endswith(",")
    new = []
    for number, line in enumerate(after, 1):
        last = number == len(after)
        body = json.dumps(line + ("\n" if not last or last_ends else ""), ensure_ascii=not plain)
        new.append(f"{lead}{body}{',' if not last or last_more else ''}{tail}")
    return new
