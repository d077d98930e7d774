"""Applies spelled edits to launch files: in place, keeping comments, quoting and order; or says why a file is left
alone."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import field, replace
from pathlib import Path

from rldoctor.errors import InputError
from rldoctor.formats.source import Files, Source, open_source
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.frameworks.spelled import Spelling
from rldoctor.io import atomic
from rldoctor.plan.model import Form
from rldoctor.records import dataclass

_BOM = b"\xef\xbb\xbf"


@dataclass
class Edited:
    """The outcome: old and new texts by file, and the spellings that were refused, each with its reason."""

    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    refused: list[tuple[Spelling, str]] = field(default_factory=list)

    @property
    def changed(self) -> tuple[str, ...]:
        """The files whose text differs now."""
        return tuple(name for name, text in self.after.items() if text != self.before[name])

    def diff(self) -> str:
        """A unified diff of all changes, empty where there are none."""
        parts: list[str] = []
        for name in self.changed:
            old, new = self.before[name].splitlines(keepends=True), self.after[name].splitlines(keepends=True)
            shown = name.removeprefix("./").lstrip("/")
            for row in difflib.unified_diff(old, new, f"a/{shown}", f"b/{shown}"):
                parts.append(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n")
        return "".join(parts)


def apply(spellings: Iterable[Spelling]) -> Edited:
    """Makes the changes on texts in memory; :func:`save` puts them on disk. Applying the same ones again changes
    nothing.

    Raises :class:`InputError` where a file cannot be read."""
    done = Edited()
    pushed: dict[tuple[str, int], int] = {}
    for spelling in sorted(spellings, key=_order):
        if spelling.write is None:
            done.refused.append((spelling, spelling.reason or "there is no file to edit"))
            continue
        name = spelling.write.file
        if name not in done.before:
            done.before[name] = done.after[name] = open_source(Path(name)).text
        # A variable goes in front of its command and pushes it down, for the next one too.
        place = (name, spelling.write.line)
        write = replace(spelling.write, line=spelling.write.line + pushed.get(place, 0))
        lines = done.after[name].count("\n")
        try:
            done.after[name] = rewritten(done.after[name], write)
        except CannotEdit as reason:
            done.refused.append((spelling, str(reason)))
        except InputError as error:
            done.refused.append((spelling, str(error)))
        if write.form is Form.VARIABLE:
            pushed[place] = pushed.get(place, 0) + done.after[name].count("\n") - lines
    return done


def _order(spelling: Spelling) -> tuple[str, int, bool]:
    # From the end of a file to its beginning, so that the lines of what is still to come stay true.
    write = spelling.write
    return ("", 0, False) if write is None else (write.file, -write.line, write.form is Form.VARIABLE)


def rewritten(text: str, write: Write) -> str:
    """``text`` with one change made. Raises :class:`CannotEdit` where it cannot be made safely."""
    from rldoctor.formats.kinds import kind_of

    kind = kind_of(Source(text, write.file))
    if kind == "python":
        from rldoctor.formats.python.edit import rewrite_python

        return rewrite_python(text, write)
    if kind == "notebook":
        from rldoctor.formats.notebook.edit import rewrite_notebook

        return rewrite_notebook(text, write)
    if kind == "toml":
        from rldoctor.formats.toml.edit import rewrite_toml

        return rewrite_toml(text, write)
    if kind in ("make", "just"):
        raise CannotEdit(f"{write.file} holds recipes, which are not edited")
    if kind == "yaml":
        from rldoctor.formats.yaml.edit import rewrite_yaml

        return rewrite_yaml(text, write)
    if write.form in (Form.YAML, Form.KEYWORD):
        raise CannotEdit(f"{write.key} stands in a here-document of {write.file}")
    from rldoctor.formats.shell.edit import rewrite_shell
    from rldoctor.launch.launchers.unwrap import unwrap

    # What a command names is not opened here: only its words count.
    nowhere = Files(base=Path("/nonexistent"))
    return rewrite_shell(text, write, lambda words: unwrap(words, write.file, nowhere))


def save(edited: Edited) -> tuple[str, ...]:
    """Writes the changed files, each in one step and with its permissions; returns their names.

    Raises :class:`InputError` where a file cannot be written."""
    for name in edited.changed:
        path = Path(name).resolve()
        try:
            bom = path.read_bytes()[:3] == _BOM
            atomic.write(path, (_BOM if bom else b"") + edited.after[name].encode())
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from error
    return edited.changed
