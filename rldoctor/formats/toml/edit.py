"""Edits TOML files: one value of one line, or a new line in its section. What is parsed afterwards has to be what was
there with that one change."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats import toml_text
from rldoctor.formats.source import Source
from rldoctor.formats.toml.reader import key_rows, section_rows
from rldoctor.formats.values import scalar
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.plan.model import Form

_ROW = re.compile(r"(?P<key>\s*[\w.\"'-]+)(?P<equals>\s*=\s*)(?P<value>.*?)(?P<end>\s*)$")


def rewrite_toml(text: str, write: Write) -> str:
    """The file with one value set, renamed or taken out. Raises :class:`CannotEdit`."""
    if write.form is not Form.YAML:
        raise CannotEdit(f"{write.file} holds settings, and {write.key} is none")
    source = Source(text, write.file)
    keys = key_rows(source)
    whole = ".".join((write.key, *write.path))
    # A file that is read below a section of the whole has the key without that section.
    name = next((key for key, line in keys.items() if line == write.line and _ends_with(whole, key)), whole)
    path = name.split(".")
    wanted = copy.deepcopy(_parsed(text, write))
    rows = text.splitlines(keepends=True)
    if name in keys:
        at = keys[name] - 1
        _change(wanted, path, write)
        rows[at : at + 1] = _rewritten(rows[at], write)
    elif _goes(write) or write.rename is not None:
        return text
    else:
        _change(wanted, path, write)
        _add(rows, path, write, section_rows(source), "\r\n" if "\r\n" in text else "\n")
    new = "".join(rows)
    try:
        same = toml_text.parse(new, write.file) == wanted
    except InputError:
        same = False
    if not same:
        raise CannotEdit(f"{name} does not stand on a line of its own in {write.file}")
    return new


def literal(text: str | None) -> str:
    """A bare text as TOML writes it: what is no number, truth value or list is a string."""
    value = text if text is None else scalar(text)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) or (text or "")[:1] in ("[", "{", '"'):
        return str(text)
    return json.dumps(text or "")


def _goes(write: Write) -> bool:
    """Whether the option is to be left out; TOML has no null."""
    return write.remove or write.value in (None, "null")


def _ends_with(whole: str, key: str) -> bool:
    return whole == key or whole.endswith(f".{key}")


def _parsed(text: str, write: Write) -> dict[str, Any]:
    try:
        return toml_text.parse(text, write.file)
    except InputError as error:
        raise CannotEdit(str(error)) from None


def _change(table: dict[str, Any], path: list[str], write: Write) -> None:
    """The same change on what was parsed."""
    for part in path[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise CannotEdit(f"{part} in {write.file} is no table of its own")
        table = inner
    if write.rename is not None:
        table[write.rename.rpartition(".")[2]] = table.pop(path[-1], None)
    elif _goes(write):
        table.pop(path[-1], None)
    else:
        table[path[-1]] = toml_text.parse(f"x = {literal(write.value)}", write.file)["x"]


def _rewritten(row: str, write: Write) -> list[str]:
    if write.rename is None and _goes(write):
        return []
    found = _ROW.match(row)
    if found is None:
        raise CannotEdit(f"{write.key} does not stand on a line of its own in {write.file}")
    key, value = found["key"], found["value"]
    if write.rename is not None:
        above, _, _ = key.rpartition(".")
        indent = key[: len(key) - len(key.lstrip())]
        new = write.rename.rpartition(".")[2]
        return [f"{above}.{new}" if above else f"{indent}{new}", found["equals"], value, found["end"]]
    return [key, found["equals"], literal(write.value), _comment(value), found["end"]]


def _comment(value: str) -> str:
    """The comment behind a value, with the space in front of it."""
    position = 0
    for found in toml_text.TEXTS.finditer(value):
        if found[0].startswith("#"):
            start = found.start()
            position = len(value[:start].rstrip())
            return value[position:]
    return ""


def _add(rows: list[str], path: list[str], write: Write, sections: dict[str, int], newline: str) -> None:
    """A new line at the end of the deepest section that is there, or in a section of its own."""
    *above, last = path
    if rows and not rows[-1].endswith("\n"):
        rows[-1] += newline
    starts = sorted(sections.values())
    start = sections.get(".".join(above), 0)
    if start or not above:
        end = next((line for line in starts if line > start), len(rows) + 1) - 1
        while end > start and not rows[end - 1].strip():
            end -= 1
        rows.insert(end, f"{last} = {literal(write.value)}{newline}")
    else:
        rows.append(f"{newline}[{'.'.join(above)}]{newline}{last} = {literal(write.value)}{newline}")
