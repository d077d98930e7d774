"""Reads YAML with the line of every value; nothing is constructed, and what grows out of a small file is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.native import Located, Native
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved, scalar
from rldoctor.plan.model import Form

MAX_VALUES = 50_000
MAX_DEPTH = 60
# The scanner takes about a second for this much; the largest published trainer config has 40 KiB.
MAX_CHARACTERS = 512 * 1024
MISSING = object()
_PLAIN_TAGS = frozenset({"map", "seq", "str", "int", "float", "bool", "null", "timestamp", "binary", "set", "omap"})


@dataclass
class YamlFile:
    """A YAML mapping: ``value`` with lines (:class:`Located`), ``line`` of a dotted path."""

    source: Source
    value: Located

    def natives(self) -> Iterator[Native]:
        """Its top-level entries as settings; a dictionary's parts come from :meth:`Native.parts`."""
        for key, value in self.value.items():
            line = self.value.lines[key]
            yield Native(key=key, spelled=key, value=value, file=self.source.file, line=line, form=Form.YAML)

    def get(self, path: str) -> Any:
        """The value at a dotted path, None where it is null or absent."""
        found = self._find(path)
        return None if found is MISSING else found

    def has(self, path: str) -> bool:
        """Whether the dotted path stands in the file."""
        return self._find(path) is not MISSING

    def line(self, path: str) -> int | None:
        """The line of a dotted path, or None where it is absent."""
        section, _, leaf = path.rpartition(".")
        holder = self._find(section) if section else self.value
        return holder.lines.get(leaf) if isinstance(holder, Located) else None

    def _find(self, path: str) -> Any:
        value: Any = self.value
        for part in path.split("."):
            if not isinstance(value, dict) or part not in value:
                return MISSING
            value = value[part]
        return value


def read_yaml(source: Source) -> YamlFile:
    """Reads a mapping. Raises :class:`InputError` with file and line where the text is no YAML mapping, an alias
    contains itself or multiplies, or a tag would construct an object."""
    node = compose(source)
    if node is None:
        return YamlFile(source, Located({}, {}))
    value = _Builder(source).build(node, 0)
    if not isinstance(value, Located):
        raise InputError(f"{source.file}:{_line(source, node)}: a YAML {_kind(node)} where settings are expected")
    return YamlFile(source, value)


def compose(source: Source) -> Any:
    """The node tree of the first document, None where it is empty. An alias means the last anchor of its name before
    it. Raises :class:`InputError` where it is no YAML."""
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


class _Builder:
    """Turns nodes into plain values, counting them: aliases share nodes in the tree and multiply only here."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.values = 0
        self.above: set[int] = set()

    def build(self, node: Any, depth: int) -> Any:
        self.values += 1
        line = _line(self.source, node)
        if self.values > MAX_VALUES:
            raise InputError(f"{self.source.file}:{line}: more than {MAX_VALUES} values, aliases that multiply")
        if depth > MAX_DEPTH:
            raise InputError(f"{self.source.file}:{line}: nested too deeply to be read")
        if id(node) in self.above:
            raise InputError(f"{self.source.file}:{line}: an alias that contains itself")
        tag = str(getattr(node, "ctag", None) or node.tag or "")
        if "python/" in tag:
            raise InputError(f"{self.source.file}:{line}: the tag {tag} would construct an object and is refused")
        kind = _kind(node)
        if kind == "scalar":
            return self._scalar(node, tag)
        self.above.add(id(node))
        value: Any
        value = [self.build(part, depth + 1) for part in node.value] if kind == "list" else self._mapping(node, depth)
        self.above.discard(id(node))
        return value

    def _scalar(self, node: Any, tag: str) -> Any:
        own = tag.rpartition(":")[2].lstrip("!")
        if own and own not in _PLAIN_TAGS:
            return Unresolved(str(node.value), f"the tag {tag} is not read")
        plain = node.style is None or node.style == ""
        return scalar(node.value) if plain or own in ("int", "float", "bool", "null") else node.value

    def _mapping(self, node: Any, depth: int) -> Located:
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merged: list[Any] = []
        for key_node, value_node in node.value:
            if _kind(key_node) != "scalar":
                line = _line(self.source, key_node)
                raise InputError(f"{self.source.file}:{line}: a key that is a {_kind(key_node)}")
            value = self.build(value_node, depth + 1)
            if key_node.value == "<<":
                merged += value if isinstance(value, list) else [value]
                continue
            values[str(key_node.value)] = value
            lines[str(key_node.value)] = _line(self.source, key_node)
        for other in merged:
            if isinstance(other, Located):
                for key, value in other.items():
                    if key not in values:
                        values[key], lines[key] = value, other.lines[key]
        return Located(values, lines)


def _kind(node: Any) -> str:
    return {"ScalarNode": "scalar", "SequenceNode": "list"}.get(type(node).__name__, "mapping")


def _line(source: Source, node: Any) -> int:
    return int(node.start_mark.line) + source.first_line
