"""The commands that a Python file starts with words that it writes itself: ``subprocess``, ``os.system``, submitit, and
the functions in which frameworks wrap these."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice

from rldoctor.formats.python.holders import dotted
from rldoctor.formats.python.reader import PythonFile
from rldoctor.formats.python.scope import Scope
from rldoctor.formats.shell.reader import Piece, Word
from rldoctor.formats.values import Unresolved
from rldoctor.records import dataclass

_RUNS = frozenset({"run", "call", "check_call", "check_output", "Popen"})
_SHELLS = frozenset({"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"})
# https://github.com/facebookincubator/submitit/blob/main/submitit/helpers.py
_HELPERS = frozenset({"CommandFunction"})
_GROWS = frozenset({"append", "extend"})
# A text of options as a shell takes it apart: what is quoted, blanks, the rest; a quote may end behind an unknown part.
_SHELL_WORD = re.compile(r"'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<blank>\s+)|(?P<plain>[^\s'\"]+)|['\"]")
_MOST_DEEP = 20
# A text that holds another one several times, which holds a third one several times, takes for ever.
_MOST_PARTS = 2000


@dataclass(frozen=True)
class Started:
    """A command with its ``words``, or a shell's ``text``, and the variables that its ``env`` adds."""

    line: int
    words: tuple[Word, ...] = ()
    text: str | None = None
    variables: tuple[tuple[str, Word], ...] = ()


@dataclass(frozen=True)
class Helper:
    """A function of a framework's ``module`` that starts a script with a text of options: the keywords that take the
    text and the script, and the script where none is named."""

    module: str
    options: str
    script: str
    default: str


def started(python: PythonFile, helpers: Mapping[str, Helper]) -> Iterator[Started]:
    """What the file starts, in its order; commands of which not even the program is known are left out. ``helpers``
    are frameworks' functions by their names."""
    reader = _Reader(python)
    for node in python.nodes:
        name = dotted(node.func)
        last = name.rpartition(".")[2]
        if name in _SHELLS and node.args:
            found = reader.text(node, node.args[0])
        elif last in _HELPERS and node.args:
            found = reader.command(node, node.args[0])
        elif last in helpers and python.imports_from(helpers[last].module):
            found = reader.helped(node, helpers[last])
        elif last in _RUNS and (name.startswith("subprocess.") or last == name == "Popen"):
            first = node.args[0] if node.args else _keyword(node, "args")
            shell = _keyword(node, "shell")
            by_shell = isinstance(shell, ast.Constant) and shell.value is True
            found = None if first is None else (reader.text if by_shell else reader.command)(node, first)
        else:
            continue
        if found is not None:
            yield found


def submitted(python: PythonFile) -> dict[str, tuple[int, int]]:
    """What submitit asks the scheduler for (``nodes``, ``gpus_per_node``, ``tasks_per_node``), each with its line."""
    scope = Scope(python.tree, python.source.text, None)
    found: dict[str, tuple[int, int]] = {}
    if not python.imports_from("submitit"):
        return found
    for node in python.nodes:
        if dotted(node.func).endswith("update_parameters"):
            for keyword in node.keywords:
                value = scope.value(keyword.value)
                if keyword.arg is not None and type(value) is int:
                    found[keyword.arg.removeprefix("slurm_")] = (value, python.line(keyword.value.lineno))
    return found


class _Reader:
    def __init__(self, python: PythonFile) -> None:
        self.python = python
        self.scope = Scope(python.tree, python.source.text, None)
        self.grown = self._growth()

    def text(self, node: ast.Call, first: ast.expr) -> Started | None:
        value = self.scope.value(first)
        if not isinstance(value, str):
            return None
        return Started(self.python.line(first.lineno), text=value, variables=tuple(self._variables(node)))

    def command(self, node: ast.Call, first: ast.expr) -> Started | None:
        words = tuple(self._list(first, first.lineno, 0))
        if not words or (not isinstance(words[0].value, str) and len(words) < 2):
            return None
        return Started(self.python.line(node.lineno), words, variables=tuple(self._variables(node)))

    def helped(self, node: ast.Call, helper: Helper) -> Started | None:
        options, script = _keyword(node, helper.options), _keyword(node, helper.script)
        if options is None:
            return None
        program = self._plain(helper.default, node) if script is None else self._word(script)
        words = (self._plain("python", node), program, *self._split(options))
        return Started(self.python.line(node.lineno), words)

    def _split(self, node: ast.expr) -> Iterator[Word]:
        """The words of a text of options, each with the line that it stands on."""
        pieces: list[Piece] = []
        written, place = (0, 0), (0, 0)
        parts = self._texts(node, node.lineno, 0)
        more = ((Unresolved(ast.unparse(node)[:80], "it has too many parts"), node) for _ in islice(parts, 1))
        for text, origin in chain(islice(parts, _MOST_PARTS), more):
            if written != (lines := (origin.lineno, origin.end_lineno or origin.lineno)):
                written, place = lines, (origin.lineno, 0)
            if isinstance(text, Unresolved):
                pieces.append(Piece(text, self.python.line(origin.lineno), quoted=False))
                continue
            for found in _SHELL_WORD.finditer(text):
                if found["blank"] is not None:
                    yield from _joined(pieces)
                    pieces = []
                elif found.lastgroup is not None:
                    word = found[found.lastgroup]
                    place = self._behind(word, place, written[1])
                    pieces.append(Piece(word, self.python.line(place[0])))
        yield from _joined(pieces)

    def _texts(self, node: ast.expr, before: int, depth: int) -> Iterator[tuple[str | Unresolved, ast.expr]]:
        """What a text is put together from before line ``before``, the parts that are known and those that are not."""
        named = self.scope.held.assigned.get(node.id, []) if isinstance(node, ast.Name) else []
        values = [value for value in named if isinstance(value, ast.expr)]
        if depth > _MOST_DEEP:
            yield Unresolved(ast.unparse(node)[:80], "nested too deeply"), node
        elif isinstance(node, ast.JoinedStr):
            yield "", node  # so that an empty one counts as a part, too
            for part in node.values:
                if isinstance(part, ast.FormattedValue) and part.format_spec is None:
                    part = part.value
                yield from self._texts(part, before, depth + 1)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from self._texts(node.left, before, depth + 1)
            yield from self._texts(node.right, before, depth + 1)
        elif isinstance(node, ast.Name) and len(values) == 1:
            yield from self._texts(values[0], before, depth + 1)
            for line, added, certain in self.grown.get(node.id, []):
                if line >= before:
                    break
                if certain:
                    yield from self._texts(added, line, depth + 1)
                else:
                    yield " ", added
                    yield Unresolved(ast.unparse(added)[:80], "it is added under a condition"), added
                    yield " ", added
        else:
            value = self.scope.value(node)
            yield (value if isinstance(value, Unresolved) else str(value)), node

    def _behind(self, word: str, place: tuple[int, int], last: int) -> tuple[int, int]:
        """Line and column behind the next such word of a text that may go over several lines, up to the ``last``."""
        for line in range(place[0], last + 1):
            found = self.scope.lines[line - 1].find(word, place[1] if line == place[0] else 0)
            if found >= 0:
                return line, found + len(word)
        return place

    def _variables(self, node: ast.Call) -> Iterator[tuple[str, Word]]:
        """What ``env={**os.environ, "X": "1"}`` sets."""
        given = _keyword(node, "env")
        for key, value in zip(given.keys, given.values, strict=True) if isinstance(given, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, self._word(value)

    def _list(self, node: ast.expr, before: int, depth: int) -> Iterator[Word]:
        """The elements of a list, those that were added to it before line ``before`` as well."""
        if isinstance(node, ast.List | ast.Tuple):
            for part in node.elts:
                if isinstance(part, ast.Starred):
                    yield from self._list(part.value, before, depth + 1)
                else:
                    yield self._word(part)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and depth < _MOST_DEEP:
            yield from self._list(node.left, before, depth + 1)
            yield from self._list(node.right, before, depth + 1)
        elif isinstance(node, ast.Name) and depth < _MOST_DEEP:
            yield from self._named(node, before, depth)
        elif isinstance(node, ast.Call) and dotted(node.func) == "shlex.split" and node.args:
            value = self.scope.value(node.args[0])
            words = value.split() if isinstance(value, str) and not set(value) & set("'\"\\") else None
            yield from (self._plain(word, node) for word in words) if words is not None else [self._many(node)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield self._word(node)
        else:
            yield self._many(node)

    def _named(self, node: ast.Name, before: int, depth: int) -> Iterator[Word]:
        values = [value for value in self.scope.held.assigned.get(node.id, []) if isinstance(value, ast.expr)]
        if len(values) != 1:
            yield self._many(node)
            return
        yield from self._list(values[0], before, depth + 1)
        for line, added, certain in self.grown.get(node.id, []):
            if line >= before:
                break
            yield from self._list(added, line, depth + 1) if certain else [self._many(added)]

    def _growth(self) -> dict[str, list[tuple[int, ast.expr, bool]]]:
        """What is added to each name (``x += [...]``, ``x.append(...)``), with the line, and whether it always is."""
        maybe = {
            below
            for node in ast.walk(self.python.tree)
            if isinstance(node, ast.If | ast.For | ast.While | ast.Try) and not self.python.is_guard(node)
            for below in ast.walk(node)
        }
        found: dict[str, list[tuple[int, ast.expr, bool]]] = {}
        for node in ast.walk(self.python.tree):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found.setdefault(node.target.id, []).append((node.lineno, node.value, node not in maybe))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
                holder = node.func.value
                if node.func.attr in _GROWS and isinstance(holder, ast.Name):
                    one = node.func.attr == "append"
                    added = ast.copy_location(ast.List([node.args[0]], ast.Load()), node) if one else node.args[0]
                    found.setdefault(holder.id, []).append((node.lineno, added, node not in maybe))
        return {name: sorted(rows, key=lambda row: row[0]) for name, rows in found.items()}

    def _word(self, node: ast.expr) -> Word:
        if dotted(node) == "sys.executable":
            return self._plain("python", node)
        value = self.scope.value(node)
        if isinstance(value, Unresolved):
            return self._unknown(node, value, many=False)
        return self._plain(str(value), node)

    def _plain(self, text: str, node: ast.expr) -> Word:
        line = self.python.line(node.lineno)
        return Word(text, text, line, prefix=text, pieces=(Piece(text, line),))

    def _many(self, node: ast.expr) -> Word:
        return self._unknown(node, Unresolved(ast.unparse(node)[:80], "it is put together when the script runs"), True)

    def _unknown(self, node: ast.expr, value: Unresolved, many: bool) -> Word:
        line, prefix = self.python.line(node.lineno), ""
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            prefix = str(node.values[0].value)
        raw = value.raw or ast.unparse(node)[:80]
        pieces = (*((Piece(prefix, line),) if prefix else ()), Piece(value, line, many=many))
        return Word(Unresolved(raw, value.why), raw, line, prefix=prefix, pieces=pieces, many=many)


def _joined(pieces: list[Piece]) -> Iterator[Word]:
    """The word that pieces make; none where there are none."""
    if not pieces:
        return
    texts = [piece.text for piece in pieces]
    known = [text for text in texts if isinstance(text, str)]
    raw = "".join(text.raw if isinstance(text, Unresolved) else text for text in texts)
    unknown = next((text for text in texts if isinstance(text, Unresolved)), None)
    if unknown is None:
        yield Word(raw, raw, pieces[0].line, prefix=raw, pieces=tuple(pieces))
        return
    prefix = "".join(known[: texts.index(unknown)])
    yield Word(Unresolved(raw, unknown.why), raw, pieces[0].line, prefix=prefix, pieces=tuple(pieces))


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
