"""Reads makefiles: which shell lines a target runs, with make's own variables filled in; nothing runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field

from rldoctor.errors import InputError
from rldoctor.formats.source import Source
from rldoctor.records import dataclass

MAX_DEPTH = 20
MAX_TEXT = 100_000
MAX_LINES = 20_000
MAX_FILES = 20
# Variables that name variables double with each step.
MAX_REFERENCES = 200_000
_ASSIGNMENT = re.compile(r"(export\s+|override\s+)*([\w.-]+)\s*(:::?=|::?=|\?=|\+=|!=|=)\s*(.*)", re.DOTALL)
_DEFINE = re.compile(r"(?:(?:export|override)\s+)*define\s+([\w.-]+)\s*(:::?=|::?=|\?=|\+=|=)?\s*(?:#.*)?$")
_EXPORT = re.compile(r"export(?:\s+([\w\s.-]+))?$")
_INCLUDE = re.compile(r"[-s]?include\s+(.+)")
_RULE = re.compile(r"([^\s:=#][^:=#]*?)\s*::?(?!=)\s*([^=;]*?)\s*(?:;\s*(.*))?$")
_BRANCH = re.compile(r"(ifeq|ifneq|ifdef|ifndef)\b")
_REFERENCE = re.compile(r"\$(?:\$|\(([^()$]*)\)|\{([^{}$]*)\}|([@<^*?]|\w))")


@dataclass(frozen=True)
class Line:
    """One command of a recipe, with the number of its first line."""

    text: str
    line: int
    file: str


@dataclass
class Rule:
    """What a target needs first, and the commands that make it."""

    prerequisites: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


@dataclass
class Makefile:
    """``given`` are the variables of make's command line, which win. ``values`` are its own as they are written, None
    for one that a condition of make's decides; ``exports`` those that its commands get (``all_exported``: all)."""

    source: Source
    given: Mapping[str, str] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    values: dict[str, str | None] = field(default_factory=dict)
    exports: set[str] = field(default_factory=set)
    all_exported: bool = False
    files: int = 0
    references: int = 0

    def targets(self) -> list[str]:
        """The targets that a person would name, in the order of the file."""
        return [name for name in self.rules if not name.startswith(".") and "%" not in name]

    def commands(self, targets: Iterable[str], alone: bool = False) -> Iterator[Source]:
        """The shell lines that ``make TARGETS`` runs, each a shell of its own: those of the prerequisites first, unless
        a target is looked at ``alone``."""
        done: set[str] = set()
        for target in targets:
            yield from self._made(target, alone, done, 0)

    def environment(self) -> dict[str, str]:
        """The variables that the file exports to its commands, as far as they are known."""
        names = [name for name in self.values if self.all_exported or name in self.exports]
        texts = {name: self.filled(f"$({name})") for name in names}
        return {**{name: text for name, text in texts.items() if "$" not in text}, **self.given}

    def filled(self, text: str, automatic: Mapping[str, str] | None = None, within: tuple[str, ...] = ()) -> str:
        """A text with make's variables in it, the value of the last of those that it stands ``within``. What make does
        not set comes from the environment, as the shell's own variables do; what a function computes is left to the
        shell as a command's output, which nobody knows, as is a variable that holds itself."""
        known = {**(automatic or {}), **self.given}

        def value(found: re.Match[str]) -> str:
            if found[0] == "$$":
                return "$"
            name = (found[1] or found[2] or found[3] or "").strip()
            if name in known:
                return known[name]
            if name in self.values:
                own = self.values[name]
                self.references += 1
                over = len(within) > MAX_DEPTH or self.references > MAX_REFERENCES
                if own is None or name in within or over:
                    return "$(make)"
                return self.filled(own, automatic, (*within, name))
            if re.fullmatch(r"[A-Za-z_]\w*", name):
                return f"${{{name}}}"
            return "$(" + name.removeprefix("shell ") + ")"

        filled = _REFERENCE.sub(value, text)
        return filled if len(filled) <= MAX_TEXT else "$(make)"

    def _made(self, target: str, alone: bool, done: set[str], depth: int) -> Iterator[Source]:
        rule = self.rules.get(target)
        if rule is None or target in done or depth > MAX_DEPTH:
            return
        done.add(target)
        needed = [name for text in rule.prerequisites for name in self.filled(text).split()]
        for name in [] if alone else needed:
            yield from self._made(name, alone, done, depth + 1)
        automatic = {"@": target, "<": next(iter(needed), ""), "^": " ".join(needed), "MAKE": "make"}
        for line in rule.lines:
            # A variable of several lines is as many commands, each with a shell of its own.
            for text in re.split(r"(?<!\\)\n", self.filled(line.text, automatic)):
                yield Source(re.sub(r"^[\s@+-]+", "", text), line.file, line.line)


def read_make(
    source: Source, given: Mapping[str, str] | None = None, files: Callable[[str], Source | None] | None = None
) -> Makefile:
    """Reads a makefile called with the variables ``given``, and those that it includes where ``files`` opens them."""
    found = Makefile(source, given or {})
    _read(found, source, files)
    return found


def _read(make: Makefile, source: Source, files: Callable[[str], Source | None] | None) -> None:
    make.files += 1
    rules: list[Rule] = []
    branches = 0
    begun: re.Match[str] | None = None
    body: list[str] = []
    for number, text in _logical(source):
        if begun is not None:
            if text.strip() != "endef":
                body.append(text)
                continue
            _give(make, begun[1], begun[2] or "=", _one_line("\n".join(body)), branches > 0)
            begun, body = None, []
        elif text.startswith("\t"):
            for rule in rules:
                rule.lines.append(Line(text[1:], number, source.file))
            continue
        bare = text.strip()
        if (begun := _DEFINE.match(bare)) is not None:
            continue
        if _BRANCH.match(bare):
            branches += 1
        elif bare == "endif":
            branches -= 1
        elif not bare or bare.startswith(("#", "else", "endef")):
            continue
        elif (exported := _EXPORT.match(bare)) is not None:
            make.exports.update((exported[1] or "").split())
            make.all_exported = make.all_exported or exported[1] is None
        elif (assigned := _ASSIGNMENT.match(bare)) is not None:
            _assign(make, assigned, branches > 0)
        elif (included := _INCLUDE.match(bare)) is not None:
            _include(make, included[1].split(), files)
        elif (named := _RULE.match(bare)) is not None:
            rules = [make.rules.setdefault(name, Rule()) for name in named[1].split()]
            for rule in rules:
                rule.prerequisites += [named[2]] if named[2] else []
                rule.lines += [Line(named[3], number, source.file)] if named[3] else []


def _assign(make: Makefile, found: re.Match[str], maybe: bool) -> None:
    if (found[1] or "").startswith("export"):
        make.exports.add(found[2])
    _give(make, found[2], found[3], re.sub(r"\s+#.*", "", _one_line(found[4])), maybe)


def _one_line(text: str) -> str:
    """A value whose lines a backslash continues, as make keeps it."""
    return re.sub(r"\s*\\\n\s*", " ", text)


def _give(make: Makefile, name: str, sign: str, text: str, maybe: bool) -> None:
    if maybe or sign == "!=":
        make.values[name] = None
    elif sign == "?=":
        # The caller's variable wins.
        make.values.setdefault(name, f"$${{{name}:-{text}}}" if text else f"$${{{name}}}")
    elif sign == "+=" and make.values.get(name) is not None:
        make.values[name] = f"{make.values[name]} {text}"
    elif sign in (":=", "::=", ":::="):
        # Carried out at once: what is not a variable by now comes from the environment, or from nowhere.
        make.values[name] = make.filled(text).replace("$", "$$")
    else:
        make.values[name] = text


def _include(make: Makefile, names: list[str], files: Callable[[str], Source | None] | None) -> None:
    for name in names:
        try:
            source = files(name) if files is not None and make.files < MAX_FILES else None
        except InputError:
            source = None
        if source is not None:
            _read(make, source, files)


def _logical(source: Source) -> Iterator[tuple[int, str]]:
    """The lines of the text, those that a backslash continues as one, with the number of the first."""
    kept: list[str] = []
    first = source.first_line
    for number, row in enumerate(source.text.splitlines()[:MAX_LINES], source.first_line):
        first = first if kept else number
        # In a recipe the tab of a continued line is make's, not the shell's.
        kept.append(row[1:] if kept and row.startswith("\t") else row)
        if not row.endswith("\\"):
            yield first, "\n".join(kept)
            kept = []
    if kept:
        yield first, "\n".join(kept)
