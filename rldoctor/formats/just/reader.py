"""Reads justfiles: which shell lines a recipe runs, with its parameters and variables filled in; nothing runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from textwrap import dedent

from rldoctor.formats.source import Source
from rldoctor.records import dataclass

MAX_DEPTH = 20
MAX_LINES = 20_000
_ASSIGNMENT = re.compile(r"(export\s+)?([A-Za-z_][\w-]*)\s*:=\s*(.*)")
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|\S+)"
_RECIPE = re.compile(rf"@?([A-Za-z_][\w-]*)((?:\s+[*+]?\$?[A-Za-z_][\w-]*(?:={_VALUE})?)*)\s*:(?!=)(.*)")
_PARAMETER = re.compile(rf"([*+]?)(\$?)([A-Za-z_][\w-]*)(?:=({_VALUE}))?")
_DEPENDENCY = re.compile(r"\(\s*([\w-]+)((?:\s+(?:'[^']*'|\"[^\"]*\"|[\w-]+))*)\s*\)|([\w-]+)")
_VARIABLE = re.compile(r"env(?:_var)?(?:_or_default)?\(\s*['\"](\w+)['\"]\s*(?:,\s*['\"]([^'\"]*)['\"]\s*)?\)")
_FILLED = re.compile(r"\{\{(.*?)\}\}")


@dataclass
class Recipe:
    """A recipe: its parameters as they are written, what runs before it, and its lines from ``first`` on."""

    parameters: list[re.Match[str]]
    before: list[tuple[str, list[str]]]
    first: int
    lines: list[str] = field(default_factory=list)


@dataclass
class Justfile:
    """``values`` are its variables as they are written."""

    source: Source
    recipes: dict[str, Recipe] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    exports: set[str] = field(default_factory=set)

    def commands(self, words: Sequence[str], alone: bool = False) -> Iterator[Source]:
        """The shell texts that ``just WORDS`` runs: variables, then recipes, each with its arguments."""
        given: dict[str, str] = {}
        rest = list(words)
        while rest and re.match(r"[A-Za-z_][\w-]*=", rest[0]):
            name, _, given[name] = rest.pop(0).partition("=")
        rest = rest or list(self.recipes)[:1]
        while rest and (recipe := self.recipes.get(rest[0])) is not None:
            rest.pop(0)
            many = any(parameter[1] for parameter in recipe.parameters)
            taken = len(rest) if many else len(recipe.parameters)
            yield from self._run(recipe, rest[:taken], given, alone, 0)
            rest = rest[taken:]

    def environment(self) -> dict[str, str]:
        """The variables that the file exports, as far as they are known."""
        texts = {name: self._value(self.values[name], {}, 0) for name in self.exports}
        return {name: text for name, text in texts.items() if "$" not in text}

    def _run(
        self, recipe: Recipe, arguments: list[str], given: dict[str, str], alone: bool, depth: int
    ) -> Iterator[Source]:
        if depth > MAX_DEPTH:
            return
        for name, handed in [] if alone else recipe.before:
            needed = self.recipes.get(name)
            if needed is not None:
                texts = [self._value(text, given, 0) for text in handed]
                yield from self._run(needed, texts, given, alone, depth + 1)
        known = {**given, **_bound(recipe.parameters, arguments)}
        texts = dedent("\n".join(recipe.lines)).split("\n")
        filled = [_FILLED.sub(lambda found: self._value(found[1].strip(), known, 0), text) for text in texts]
        if texts[:1] and texts[0].startswith("#!"):
            if re.search(r"\b(ba|z|da)?sh\b", texts[0]):
                yield Source("\n".join(filled), self.source.file, recipe.first)
            return
        first = 0
        for index, text in enumerate(filled):
            if not text.endswith("\\"):
                body = re.sub(r"^[@-]+", "", "\n".join(filled[first : index + 1]))
                if body.strip():
                    yield Source(body, self.source.file, recipe.first + first)
                first = index + 1

    def _value(self, text: str, known: dict[str, str], depth: int) -> str:
        """What an expression stands for; what only running tells is left to the shell as an output nobody knows."""
        if text[:1] in ("'", '"') and text[-1:] == text[:1] and text.count(text[:1]) == 2:
            return text[1:-1]
        if text in known:
            return known[text]
        if text in self.values and depth < MAX_DEPTH:
            return self._value(self.values[text], known, depth + 1)
        found = _VARIABLE.fullmatch(text)
        if found is not None:
            return f"${{{found[1]}:-{found[2]}}}" if found[2] is not None else f"${{{found[1]}}}"
        return "$(just)"


def read_just(source: Source) -> Justfile:
    """Reads a justfile."""
    found = Justfile(source)
    recipe: Recipe | None = None
    for number, row in enumerate(source.text.splitlines()[:MAX_LINES], source.first_line):
        if row[:1] in (" ", "\t") or not row.strip():
            if recipe is not None:
                recipe.lines.append(row)
            continue
        recipe = None
        if (assigned := _ASSIGNMENT.match(row)) is not None:
            found.values[assigned[2]] = assigned[3].split(" #")[0].strip()
            found.exports |= {assigned[2]} if assigned[1] else set()
        elif (named := _RECIPE.match(row)) is not None:
            recipe = Recipe(list(_PARAMETER.finditer(named[2])), _dependencies(named[3]), number + 1)
            found.recipes[named[1]] = recipe
    return found


def _dependencies(text: str) -> list[tuple[str, list[str]]]:
    before = text.split("#")[0].split("&&")[0]
    found = _DEPENDENCY.finditer(before)
    return [(part[1] or part[3], re.findall(r"'[^']*'|\"[^\"]*\"|[\w-]+", part[2] or "")) for part in found]


def _bound(parameters: list[re.Match[str]], arguments: list[str]) -> dict[str, str]:
    """The parameters of a recipe by name; one without value is nobody's to know."""
    known: dict[str, str] = {}
    for index, parameter in enumerate(parameters):
        default = parameter[4]
        if parameter[1]:
            known[parameter[3]] = " ".join(arguments[index:])
        elif index < len(arguments):
            known[parameter[3]] = arguments[index]
        else:
            known[parameter[3]] = "$(just)" if default is None else default.strip("'\"")
    return known
