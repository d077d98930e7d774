"""Edits the environment variables that a shell script sets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rldoctor.formats.shell.commands import Unwrap, command_at, commands_of
from rldoctor.formats.shell.grammar import parsed
from rldoctor.formats.shell.reader import Word
from rldoctor.formats.shell.writing import quote, value_quote
from rldoctor.formats.texts import shell_quoted
from rldoctor.formats.write import CannotEdit, Write

if TYPE_CHECKING:
    from tree_sitter import Node


def rewrite_variable(raw: bytes, write: Write, unwrap: Unwrap) -> bytes:
    """The script with one variable set, or unset. Raises :class:`CannotEdit`."""
    every = list(commands_of(raw, write.file, unwrap))
    root = parsed(raw).root_node
    nodes = [node for node in _assignments(root) if _assigned(node, raw) == write.key]
    standing = [node for node in nodes if node.start_point[0] + 1 == write.line]
    if not standing:
        command = command_at(every, write, unwrap)
        effective = command.environment.get(write.key)
        standing = [node for node in nodes if effective is not None and node.start_byte == effective.start]
    if standing:
        return _assign(raw, standing[-1], write)
    words = [
        word for c in every for word in c.words if word.line == write.line and word.prefix.startswith(f"{write.key}=")
    ]
    if words and words[-1].start >= 0:
        new = f"{write.key}=" + quote(write.value or "", words[-1], value_quote(words[-1]))
        return raw[: words[-1].start] + new.encode() + raw[words[-1].end :]
    if write.remove:
        return raw
    outer = next(c for c in every if c.start >= 0 and c.line <= write.line <= c.end_line)
    start = raw.rfind(b"\n", 0, outer.start) + 1
    indent = re.match(rb"[ \t]*", raw[start:])
    newline = "\r\n" if b"\r\n" in raw else "\n"
    line = f"{indent[0].decode() if indent else ''}export {write.key}={shell_quoted(write.value or '')}{newline}"
    return raw[:start] + line.encode() + raw[start:]


def _assignments(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "variable_assignment":
            yield node
        waiting.extend(reversed(node.children))


def _assigned(node: Node, raw: bytes) -> str:
    name = node.child_by_field_name("name")
    return raw[name.start_byte : name.end_byte].decode() if name is not None else ""


def _assign(raw: bytes, node: Node, write: Write) -> bytes:
    value = node.child_by_field_name("value")
    if write.remove:
        parent = node.parent
        if parent is not None and parent.type == "command":
            return raw[: node.start_byte] + re.sub(rb"\A(?:[ \t]|\\\r?\n)*", b"", raw[node.end_byte :])
        whole = parent if parent is not None and parent.type == "declaration_command" else node
        if whole.named_child_count > 1 and whole is not node:
            raise CannotEdit(f"line {write.line} sets several variables")
        return raw[: whole.start_byte] + f"unset {write.key}".encode() + raw[whole.end_byte :]
    old = raw[value.start_byte : value.end_byte].decode() if value is not None else ""
    style = old[:1] if old[:1] in ("'", '"') and old[-1:] == old[:1] and len(old) > 1 else ""
    text = quote(write.value or "", Word("", old, write.line), style)
    start = value.start_byte if value is not None else node.end_byte
    end = value.end_byte if value is not None else node.end_byte
    return raw[:start] + text.encode() + raw[end:]
