"""Edits shell scripts: options, overrides and variables, at the very bytes where they stand."""

from __future__ import annotations

import json
import re
from typing import Any

from rldoctor.formats.json_text import parse
from rldoctor.formats.shell.commands import Unwrap, command_at, commands_of
from rldoctor.formats.shell.grammar import parsed
from rldoctor.formats.shell.reader import Command, Word
from rldoctor.formats.shell.variable import rewrite_variable
from rldoctor.formats.shell.writing import quote, requote, value_quote
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.plan.model import Form

_REST = re.compile(rb"[\"']?\$(\{[@*]\}|[@*])[\"']?\s*\Z")


def rewrite_shell(text: str, write: Write, unwrap: Unwrap) -> str:
    """The script with one option, override or variable set; ``unwrap`` says what a command starts. Raises
    :class:`CannotEdit`."""
    raw = text.encode()
    rewrite = rewrite_variable if write.form is Form.VARIABLE else _setting
    new = rewrite(raw, write, unwrap)
    if parsed(new).root_node.has_error and not parsed(raw).root_node.has_error:
        raise CannotEdit("the script would not be valid any more")
    return new.decode()


def _setting(raw: bytes, write: Write, unwrap: Unwrap) -> bytes:
    every = list(commands_of(raw, write.file, unwrap))
    found = _standing(every, write)
    if write.rename is not None:
        return raw if found is None else _renamed(raw, found[0][found[1]], write)
    if found is None:
        command = command_at(every, write, unwrap)
        found = _in_command(command, write)
        if found is None:
            return raw if write.remove else _add(raw, command, write)
    words, index = found
    if write.form is not Form.OVERRIDE:
        return _option(raw, words, index, write)
    if write.remove:
        return _cut(raw, words, index, index)
    return _replace(raw, words[index], _override_text(words[index], write))


def _standing(commands: list[Command], write: Write) -> tuple[tuple[Word, ...], int] | None:
    """The last word on the write's line that is its option or override, with a place of its own in the file."""
    hits = [
        (command.words, index)
        for command in commands
        for index, word in enumerate(command.words)
        if word.line == write.line and word.start >= 0 and _names(word, write)
    ]
    return hits[-1] if hits else None


def _in_command(command: Command, write: Write) -> tuple[tuple[Word, ...], int] | None:
    hits = [i for i, word in enumerate(command.words) if word.start >= 0 and _names(word, write)]
    return (command.words, hits[-1]) if hits else None


def _names(word: Word, write: Write) -> bool:
    head = word.value if isinstance(word.value, str) else word.prefix
    if write.form is Form.OVERRIDE:
        return "=" in head and head.partition("=")[0].lstrip("+~") == write.key.lstrip("+~")
    return head.startswith("-") and _bare(head.partition("=")[0]) == _bare(write.key)


def _bare(name: str) -> str:
    return re.sub(r"^--?(no[-_](?=.))?", "", name).replace("-", "_")


def _option(raw: bytes, words: tuple[Word, ...], index: int, write: Write) -> bytes:
    word = words[index]
    head = word.value if isinstance(word.value, str) else word.prefix
    name, attached, _ = head.partition("=")
    last = index
    if not attached:
        while last + 1 < len(words) and not words[last + 1].text.startswith("-") and words[last + 1].start >= 0:
            last += 1
        # Further words are positionals, unless the setting itself is a list.
        many = last - index > 1 and write.value is not None and write.value.startswith("[")
        last = last if many else min(last, index + 1)
    if write.remove:
        return _cut(raw, words, index, last if write.value is not None or _takes_value(words, index) else index)
    if write.value is None:
        return _replace(raw, word, quote(write.key, word))
    value = _in_json(words, index, attached, write) if write.path else write.value
    if attached:
        body = quote(value, word, value_quote(word))
        return _replace(raw, word, f"{name}={body}" if word.raw[:1] not in "'\"" else requote(f"{name}={value}", word))
    if last == index:
        return _insert(raw, word.end, " " + quote(value, word))
    first, end = words[index + 1], words[last]
    return raw[: first.start] + quote(value, first, first.raw[:1]).encode() + raw[end.end :]


def _renamed(raw: bytes, word: Word, write: Write) -> bytes:
    if write.rename is not None and write.key in write.rename and write.rename.encode() in raw[word.start : word.end]:
        return raw  # done before: ++a.b still holds a.b
    at = raw.find(write.key.encode(), word.start, word.end)
    if at < 0 or write.rename is None:
        raise CannotEdit(f"{write.key} does not stand in line {write.line} letter by letter")
    return raw[:at] + write.rename.encode() + raw[at + len(write.key.encode()) :]


def _takes_value(words: tuple[Word, ...], index: int) -> bool:
    return index + 1 < len(words) and words[index + 1].text.lower() in ("true", "false", "1", "0")


def _in_json(words: tuple[Word, ...], index: int, attached: str, write: Write) -> str:
    """The option's JSON value with one entry changed."""
    word = words[index] if attached else words[index + 1] if index + 1 < len(words) else None
    if word is None or not isinstance(word.value, str):
        raise CannotEdit(f"the value of {write.key} is not a text that can be read")
    try:
        whole = parse(word.value.partition("=")[2] if attached else word.value)
        if not isinstance(whole, dict):
            raise ValueError("not a dictionary")
    except ValueError as error:
        raise CannotEdit(f"the value of {write.key}: {error}") from None
    holder: Any = whole
    for part in write.path[:-1]:
        holder = holder.setdefault(part, {})
        if not isinstance(holder, dict):
            raise CannotEdit(f"{part} in {write.key} is no dictionary")
    if write.remove or write.value is None:
        holder.pop(write.path[-1], None)
    else:
        holder[write.path[-1]] = json.loads(write.value)
    return json.dumps(whole)


def _override_text(word: Word, write: Write) -> str:
    head = word.value if isinstance(word.value, str) else word.prefix
    name, value = head.partition("=")[0], write.value or ""
    if word.raw[:1] in ("'", '"') and word.raw[-1:] == word.raw[:1]:
        return requote(f"{name}={value}", word)
    return f"{name}=" + quote(value, word, value_quote(word))


def _replace(raw: bytes, word: Word, text: str) -> bytes:
    return raw[: word.start] + text.encode() + raw[word.end :]


def _insert(raw: bytes, at: int, text: str) -> bytes:
    return raw[:at] + text.encode() + raw[at:]


def _cut(raw: bytes, words: tuple[Word, ...], first: int, last: int) -> bytes:
    """Without the words, and without the white space and line continuation before them."""
    start, end = words[first].start, words[last].end
    before = raw[:start]
    return before[: len(before) - len(_blank_before(before))] + raw[end:]


def _blank_before(before: bytes) -> bytes:
    found = re.search(rb"(?:[ \t]|\\\r?\n)+\Z", before)
    return found[0] if found else b""


def _add(raw: bytes, command: Command, write: Write) -> bytes:
    last = command.words[-1]
    word = Word("", "", command.line, inside=last.inside if last.start >= command.start else "")
    if write.form is Form.OVERRIDE:
        text = f"{write.append}{write.key}=" + quote(write.value or "", word)
    elif write.path:
        value: Any = json.loads(write.value or "null")
        for part in reversed(write.path):
            value = {part: value}
        text = f"{write.key} {quote(json.dumps(value), word)}"
    else:
        text = write.key if write.value is None else f"{write.key} {quote(write.value, word)}"
    body = raw[command.start : command.end]
    at = command.end
    rest = _REST.search(body)
    if rest is not None:
        at = command.start + rest.start()
    between = _continuation(body[: at - command.start] if rest is None else body[: rest.start()])
    if rest is not None:
        return _insert(raw, at, f"{text}{between}")
    return _insert(raw, at, f"{between}{text}")


def _continuation(body: bytes) -> str:
    """What separates this command's options: the last line continuation with its indentation, else a space."""
    found = re.findall(rb"([ \t]*\\\r?\n[ \t]*)", body)
    return found[-1].decode() if found else " "
