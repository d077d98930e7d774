"""Shell parameters: ``$X`` and ``${X...}`` with defaults, trimming, replacement, substrings, lengths and array
elements."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rldoctor.formats.shell.reader import Variable, Word
from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

    from rldoctor.formats.shell.expand import Expander

Value = str | Unresolved
# Trimming tries every length: no path or option is longer.
MAX_TRIMMED = 4000
_DEFAULTS = frozenset({":-", "-", ":=", "=", ":+", "+", ":?", "?"})
# What a run takes from outside has a name, so that the reader knows why it is not known.
_SPECIAL = {
    "#": "the number of arguments given at the start",
    "@": "arguments given at the start",
    "*": "arguments given at the start",
    "0": "the script's own path",
    "?": "an exit code",
    "$": "a process id",
    "!": "a process id",
}


def parameter(expander: Expander, node: Node) -> Variable | Value:
    """What a simple or braced expansion stands for: the variable itself, a computed text, or why it is not known."""
    if node.type == "simple_expansion":
        return _named(expander, node, expander.text(node)[1:])
    if node.has_error:
        return _misparsed(expander, node)
    names = [child for child in node.children if child.type in ("variable_name", "special_variable_name", "subscript")]
    marks = [expander.text(child) for child in node.children[1:-1] if not child.is_named]
    if not names:
        return Unresolved(expander.text(node), "an expansion that is not read")
    subject = names[0]
    first = node.children[1]
    if not first.is_named and expander.text(first) in ("!", "#"):
        return _marked(expander, node, subject, expander.text(first))
    found = _subject(expander, node, subject)
    after = [child for child in node.children[:-1] if child.start_byte >= subject.end_byte]
    mark = expander.text(after[0]) if after else ""
    if not after:
        return found
    if mark in _DEFAULTS:
        return _default(expander, node, subject, found, mark, after[1:])
    value = found.value if isinstance(found, Variable) else found
    if isinstance(value, Unresolved) or not marks:
        return Unresolved(expander.text(node), value.why if isinstance(value, Unresolved) else "not constant")
    return _changed(expander, node, value, mark, after[1:])


def _misparsed(expander: Expander, node: Node) -> Variable | Value:
    """``${X:-DEFAULT}`` whose default this grammar stumbles over: a bracket, or arithmetic that begins with one."""
    text = expander.text(node)
    found = re.fullmatch(r"\$\{([A-Za-z_]\w*):?-(.*)\}", text, re.DOTALL)
    if found is None:
        return Unresolved(text, "an expansion that is not read")
    variable = expander.lookup(found[1])
    if variable is not None and variable.value != "":
        return variable
    default = found[2]
    if default.startswith("$(((") and default.endswith("))"):
        return expander.apart(f"$(( {default[3:-2]} ))", expander.line(node))
    if re.search(r"[$`\\]", default):
        return Unresolved(text, "an expansion that is not read")
    return default.replace('"', "").replace("'", "")


def _named(expander: Expander, node: Node, name: str) -> Variable | Value:
    if name == "PWD" and name not in expander.variables:
        return "."
    found = expander.lookup(name)
    if found is not None:
        return found
    if name.isdigit() and name != "0":
        return Unresolved(expander.text(node), f"argument {name} given at the start")
    return Unresolved(expander.text(node), _SPECIAL.get(name, f"{name} is not set in this file"))


def _subject(expander: Expander, node: Node, subject: Node) -> Variable | Value:
    if subject.type != "subscript":
        return _named(expander, node, expander.text(subject))
    name, index = expander.text(subject.children[0]), expander.text(subject)[:-1].partition("[")[2]
    variable = expander.variables.get(name)
    if variable is None:
        return Unresolved(expander.text(node), f"{name} is not set in this file")
    if index in ("@", "*"):
        return variable
    if not variable.array or not re.fullmatch(r"-?\d+", index):
        return Unresolved(expander.text(node), f"element {index} of {name}")
    try:
        return Variable((variable.words[int(index)],), variable.line)
    except IndexError:
        return ""


def _default(
    expander: Expander, node: Node, subject: Node, found: Variable | Value, mark: str, rest: list[Node]
) -> Variable | Value:
    name = expander.text(subject)
    # Unknown because the script never sets it: then the default holds. Unknown for another reason: then it may not.
    unset = isinstance(found, Unresolved) and (expander.lookup(name) is None) and name not in _SPECIAL
    if isinstance(found, Variable) and name.isdigit() and not found.words:
        unset = True
    value = found.value if isinstance(found, Variable) else found
    empty = unset or (mark.startswith(":") and value == "")
    if mark.endswith("?"):
        return found if not empty else Unresolved(expander.text(node), f"{name} must be set at the start")
    if mark.endswith("+"):
        if isinstance(value, Unresolved) and not unset:
            return Unresolved(expander.text(node), value.why)
        return "" if empty else _text(expander, rest)
    if not empty:
        return found
    default = _text(expander, rest)
    if mark.endswith("="):
        line = expander.line(node)
        expander.variables[name] = Variable((Word(default, expander.text(node), line),), line)
    return default


def _text(expander: Expander, nodes: list[Node]) -> Value:
    pieces = [piece for node in nodes for piece in expander.pieces(node)]
    if not nodes:
        return ""
    raw = expander.raw[nodes[0].start_byte : nodes[-1].end_byte].decode()
    return expander.join(pieces, raw, expander.line(nodes[0]), -1, -1).value


def _marked(expander: Expander, node: Node, subject: Node, mark: str) -> Variable | Value:
    found = _subject(expander, node, subject)
    if isinstance(found, str | Unresolved):
        return found if isinstance(found, Unresolved) else str(len(found))
    if mark == "#":
        if subject.type == "subscript" and expander.text(subject).endswith(("[@]", "[*]")):
            return str(len(found.words))
        return (
            Unresolved(expander.text(node), found.value.why)
            if isinstance(found.value, Unresolved)
            else str(len(found.value))
        )
    if isinstance(found.value, Unresolved) or subject.type == "subscript":
        return Unresolved(expander.text(node), "a name that is not constant")
    return _named(expander, node, found.value)


def _changed(expander: Expander, node: Node, value: str, mark: str, rest: list[Node]) -> Value:
    parts = [expander.text(child) for child in rest]
    whole = Unresolved(expander.text(node), "an expansion that is not read")
    if any("$" in part or "\\" in part for part in parts):
        return whole
    if mark in (",,", "^^"):
        return value.lower() if mark == ",," else value.upper()
    if mark in ("%", "%%", "#", "##"):
        return _trimmed(value, mark, "".join(parts))
    if mark in ("/", "//"):
        old, _, new = "".join(parts).partition("/")
        if not old or re.search(r"[*?\[]", old):
            return whole
        return value.replace(old, new) if mark == "//" else value.replace(old, new, 1)
    if mark == ":":
        numbers = [part.strip() for part in "".join(parts).split(":")]
        if all(re.fullmatch(r"-?\d+", number) for number in numbers) and len(numbers) <= 2:
            start = int(numbers[0])
            size = int(numbers[1]) if len(numbers) == 2 else len(value)
            return value[start:][:size]
    return whole


def _trimmed(value: str, mark: str, pattern: str) -> str:
    if len(value) > MAX_TRIMMED:
        return value
    sizes = range(len(value) + 1) if len(mark) == 1 else range(len(value), -1, -1)
    for size in sizes:
        part = value[len(value) - size :] if mark[0] == "%" else value[:size]
        if fnmatchcase(part, pattern):
            return value[: len(value) - size] if mark[0] == "%" else value[size:]
    return value
