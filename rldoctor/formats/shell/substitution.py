"""Command substitutions whose output reading can tell: paths, echoes and numbers; all others are unknown."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

    from rldoctor.formats.shell.expand import Expander

MAX_NUMBERS = 1000


def substituted(expander: Expander, node: Node) -> str | Unresolved:
    """What ``$(...)`` leaves, or why it is not known."""
    text = expander.text(node)
    unknown = Unresolved(text, "a command's output")
    if node.type != "command_substitution":
        return unknown
    statements = [child for child in node.children if child.is_named and child.type != "comment"]
    if len(statements) != 1:
        return unknown
    output = _output(expander, statements[0])
    return unknown if output is None else output.rstrip("\n")


def _output(expander: Expander, node: Node) -> str | None:
    if node.type == "redirected_statement" and node.children:
        return _output(expander, node.children[0])  # 2>/dev/null
    if node.type == "list" and len(node.children) == 3 and expander.text(node.children[1]) == "&&":
        folder, last = _words(expander, node.children[0]), _words(expander, node.children[2])
        if folder is None or last is None or folder[:1] != ["cd"] or last[:1] != ["pwd"]:
            return None
        named = [word for word in folder[1:] if word != "--"]
        return posixpath.normpath(named[0]) if len(named) == 1 and named[0] != "-" else None
    words = _words(expander, node)
    command = _COMMANDS.get(words[0]) if words else None
    return command(words[1:]) if command is not None and words is not None else None


def _words(expander: Expander, node: Node) -> list[str] | None:
    """The words of a simple command, all of them known; None for any other statement."""
    if node.type == "redirected_statement" and node.children:
        node = node.children[0]
    if node.type != "command" or node.has_error:
        return None
    found: list[str] = []
    for child in node.children:
        if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect", "variable_assignment"):
            return None
        for word in expander.words(child):
            if not isinstance(word.value, str):
                return None
            found.append(word.value)
    return found


def _echo(words: Sequence[str]) -> str | None:
    return None if any(word.startswith("-") for word in words[:1]) else " ".join(words)


def _printf(words: Sequence[str]) -> str | None:
    return words[1] if len(words) == 2 and words[0] in ("%s", "%s\\n") else None


def _pwd(words: Sequence[str]) -> str | None:
    return "." if not words or list(words) == ["-P"] else None


def _operands(words: Sequence[str]) -> Sequence[str]:
    """The words without the ``--`` that ends a command's options."""
    return words[1:] if words[:1] == ["--"] else words


def _dirname(words: Sequence[str]) -> str | None:
    words = _operands(words)
    if len(words) != 1 or words[0].startswith("-"):
        return None
    path = words[0].rstrip("/") or words[0][:1]
    head = posixpath.dirname(path)
    return (head.rstrip("/") or "/") if head else "/" if path == "/" else "."


def _basename(words: Sequence[str]) -> str | None:
    words = _operands(words)
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        return None
    name = posixpath.basename(words[0].rstrip("/")) or words[0][:1]
    suffix = words[1] if len(words) == 2 else ""
    return name.removesuffix(suffix) if name != suffix else name


def _realpath(words: Sequence[str]) -> str | None:
    named = [word for word in words if word not in ("-f", "-m", "-e", "-s", "--")]
    return posixpath.normpath(named[0]) if len(named) == 1 and not named[0].startswith("-") else None


def _seq(words: Sequence[str]) -> str | None:
    if not 1 <= len(words) <= 3 or not all(word.lstrip("-").isdigit() and len(word) < 7 for word in words):
        return None
    numbers = [int(word) for word in words]
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[-1])
    step = numbers[1] if len(numbers) == 3 else step
    if step == 0 or abs(last - first) // abs(step) > MAX_NUMBERS:
        return None
    return "\n".join(str(number) for number in range(first, last + (1 if step > 0 else -1), step))


_COMMANDS: dict[str, Callable[[Sequence[str]], str | None]] = {
    "echo": _echo,
    "printf": _printf,
    "pwd": _pwd,
    "dirname": _dirname,
    "basename": _basename,
    "realpath": _realpath,
    "readlink": lambda words: _realpath(words) if "-f" in words else None,
    "seq": _seq,
}
