"""Edits YAML files: one value under a dotted path, at the very characters where it stands."""

from __future__ import annotations

import re
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.source import Source
from rldoctor.formats.values import scalar
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.formats.yaml.reader import MAX_CHARACTERS
from rldoctor.plan.model import Form

_WORD = re.compile(r"[\w./+-]+")
_PROPERTIES = re.compile(r"((?:[&!][^\s]*\s+)*)")


def rewrite_yaml(text: str, write: Write) -> str:
    """The file with one value set, or taken out. Raises :class:`CannotEdit`."""
    if write.form is not Form.YAML:
        return _checked(_in_command(text, write), write)
    root = compose(Source(text, write.file))
    if root is None:
        return f"{_lines(write.key.split('.'), write.value or 'null', '', _newline(text))}{text}"
    if type(root).__name__ != "MappingNode":
        raise CannotEdit(f"{write.file} is no mapping")
    node, parts = root, [*write.key.split("."), *write.path]
    while True:
        pair = _entry(node, parts)
        if pair is None:
            return text if write.remove or write.rename else _checked(_add(text, node, parts, write), write)
        (key, value), taken = pair
        parts = parts[taken:]
        if not parts and write.rename is not None:
            return _checked(_renamed(text, key, write.rename.rpartition(".")[2]), write)
        if not parts:
            return _checked(_set(text, node, key, value, write), write)
        if type(value).__name__ != "MappingNode":
            if type(value).__name__ == "ScalarNode" and scalar(value.value) is None and not write.remove:
                flow = "".join(f"{{{part}: " for part in parts) + (write.value or "null") + "}" * len(parts)
                return _checked(_replace(text, key, value, flow), write)
            raise CannotEdit(f"{key.value} at line {key.start_mark.line + 1} is no mapping")
        node = value


def _in_command(text: str, write: Write) -> str:
    """The file with the value of an option or override changed that stands in the text of a command (a manifest's
    ``entrypoint``, a job's ``run``), where there is one of that name and both values are plain words."""
    if write.form is Form.OVERRIDE:
        name = rf"[+]{{0,2}}{re.escape(write.key)}="
    else:
        name = "--" + "[-_]".join(map(re.escape, re.split("[-_]", write.key.lstrip("-")))) + r"(?:=|[ \t]+)"
    found = list(re.finditer(rf"(?<![\w.-]){name}(?P<value>\S+)", text))
    only = found[0] if len(found) == 1 and write.form is not Form.VARIABLE else None
    plain = not (write.remove or write.rename or write.path) and _WORD.fullmatch(write.value or "")
    if only is None or not plain or not _WORD.fullmatch(only["value"]):
        raise CannotEdit(f"{write.file} has {write.key} in the text of a command, which is not edited")
    return text[: only.start("value")] + str(write.value) + text[only.end("value") :]


def _entry(node: Any, parts: list[str]) -> tuple[tuple[Any, Any], int] | None:
    """The entry of a mapping that begins the path; a key may itself hold dots."""
    for taken in range(len(parts), 0, -1):
        name = ".".join(parts[:taken])
        found = [pair for pair in node.value if type(pair[0]).__name__ == "ScalarNode" and pair[0].value == name]
        if found:
            return found[-1], taken
    return None


def _set(text: str, node: Any, key: Any, value: Any, write: Write) -> str:
    if write.remove:
        if node.flow_style or type(value).__name__ != "ScalarNode":
            raise CannotEdit(f"{write.key} is not a line of its own")
        start = text.rfind("\n", 0, key.start_mark.index) + 1
        end = text.find("\n", value.end_mark.index)
        return text[:start] + text[end + 1 if end >= 0 else len(text) :]
    return _replace(text, key, value, write.value or "null")


def _renamed(text: str, key: Any, name: str) -> str:
    old = text[key.start_mark.index : key.end_mark.index]
    quote = old[:1] if old[:1] in ("'", '"') else ""
    return text[: key.start_mark.index] + quote + name + quote + text[key.end_mark.index :]


def _replace(text: str, key: Any, value: Any, new: str) -> str:
    colon = text.index(":", key.end_mark.index)
    alias = re.compile(r":\s*(\*[^\s,\]}]+)").match(text, colon)
    if alias is not None:
        return text[: alias.start(1)] + new + text[alias.end(1) :]
    kind = type(value).__name__
    start, end = value.start_mark.index, value.end_mark.index
    if kind == "ScalarNode" and value.style in ("|", ">"):
        raise CannotEdit(f"line {key.start_mark.line + 1} holds a block of text")
    if kind != "ScalarNode" and not value.flow_style:
        raise CannotEdit(f"{key.value} at line {key.start_mark.line + 1} holds a block of values")
    properties = _PROPERTIES.match(text, start)
    start = properties.end() if properties is not None else start
    if end <= start:  # nothing stands there: "key:"
        return text[: colon + 1] + f" {new}" + text[colon + 1 :]
    old = text[start:end]
    if kind == "ScalarNode" and value.style in ("'", '"') and _is_plain_text(new):
        new = f"{value.style}{new}{value.style}"
    return text[:start] + new + text[start + len(old.rstrip()) :]


def _is_plain_text(new: str) -> bool:
    return isinstance(scalar(new), str) and re.fullmatch(r"[\w./@+-]+", new) is not None


def _add(text: str, node: Any, parts: list[str], write: Write) -> str:
    value = write.value or "null"
    if node.flow_style:
        close = node.end_mark.index - 1
        flow = "".join(f"{part}: " if i == len(parts) - 1 else f"{part}: {{" for i, part in enumerate(parts))
        flow += value + "}" * (len(parts) - 1)
        return text[:close] + (f", {flow}" if node.value else flow) + text[close:]
    first = node.value[0][0]
    indent = " " * first.start_mark.column
    line, rows = _last_line(node), text.splitlines()
    while line > 0 and not rows[line].strip():
        line -= 1  # a block of text takes the empty lines after it along
    at = _line_end(text, line)
    newline = _newline(text)
    before = "" if at == 0 or text[at - 1] == "\n" else newline
    return text[:at] + before + _lines(parts, value, indent, newline) + text[at:]


def _lines(parts: list[str], value: str, indent: str, newline: str) -> str:
    rows = [f"{indent}{'  ' * depth}{part}:" for depth, part in enumerate(parts)]
    return newline.join(rows) + f" {value}{newline}"


def _last_line(node: Any) -> int:
    """The line (from 0) on which a mapping's last value ends."""
    if type(node).__name__ == "ScalarNode":
        end = node.end_mark
        return int(end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line)
    if node.flow_style or not node.value:
        return int(node.end_mark.line)
    last = node.value[-1]
    return max(_last_line(part) for part in (last if isinstance(last, tuple) else (last,)))


def _line_end(text: str, line: int) -> int:
    position = 0
    for _ in range(line + 1):
        found = text.find("\n", position)
        if found < 0:
            return len(text)
        position = found + 1
    return position


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _checked(text: str, write: Write) -> str:
    try:
        compose(Source(text, write.file))
    except Exception as error:
        raise CannotEdit(f"the file would not be valid any more: {error}") from None
    return text


def compose(source: Source) -> Any:
    """The node tree of the first document with the place of every character, None where it is empty. Raises
    :class:`InputError` where it is no YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if len(source.text) > MAX_CHARACTERS:
        raise InputError(f"{source.file}: {len(source.text) >> 10} KiB is too large for a YAML config")
    reader = YAML(typ="safe", pure=True)
    reader.composer.warn_double_anchors = False  # the warning is for those who write the file
    try:
        return next(iter(reader.compose_all(source.text)), None)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = (mark.line if mark is not None else 0) + source.first_line
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{source.file}:{line}: not valid YAML: {problem}") from None
    except RecursionError:
        raise InputError(f"{source.file}: nested too deeply to be read") from None
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{source.file}: not valid YAML: {error}") from None
