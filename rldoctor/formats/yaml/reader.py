"""Reads YAML with the line of every value; nothing is constructed, and what grows out of a small file is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.native import Located, Native
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved
from rldoctor.formats.yaml.scalars import Rules, construct, resolve
from rldoctor.plan.model import Form
from rldoctor.records import dataclass

MAX_VALUES = 50_000
MAX_DEPTH = 60
# The largest published trainer config has 40 KiB.
MAX_CHARACTERS = 512 * 1024
MISSING = object()


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

    def replaced(self) -> Iterator[tuple[str, int, int]]:
        """The dotted paths that stand in the file more than once, with the lines of the last and of the first."""
        yield from _replaced(self.value, "")

    def _find(self, path: str) -> Any:
        value: Any = self.value
        for part in path.split("."):
            if not isinstance(value, dict) or part not in value:
                return MISSING
            value = value[part]
        return value


def read_yaml(source: Source, rules: Rules = Rules.OMEGACONF) -> YamlFile:
    """Reads a mapping. Raises :class:`InputError` with file and line where the text is no YAML mapping, an alias
    contains itself or multiplies, or a tag would construct an object."""
    value = read_value(source, rules)
    if value is None:
        return YamlFile(source, Located({}, {}))
    if not isinstance(value, Located):
        kind = "list" if isinstance(value, list) else "scalar"
        line = _first_line(source)
        raise InputError(f"{source.file}:{line}: a YAML {kind} where settings are expected")
    return YamlFile(source, value)


def read_value(source: Source, rules: Rules = Rules.OMEGACONF) -> Any:
    """The first document, whatever it is; None where it is empty. Raises :class:`InputError` as :func:`read_yaml`."""
    documents = read_all(source, rules, most=1)
    return documents[0] if documents else None


def read_all(source: Source, rules: Rules = Rules.OMEGACONF, most: int = 100) -> list[Any]:
    """Its documents, not more than ``most``. Raises :class:`InputError` as :func:`read_yaml`."""
    import yaml

    if len(source.text) > MAX_CHARACTERS:
        raise InputError(f"{source.file}: {len(source.text) >> 10} KiB is too large for a YAML config")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(source, rules, yaml.parse(source.text, Loader=loader)).documents(most)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # What is missing at the end is missed on the line behind it.
        line = min(mark.line if mark is not None else 0, source.text.count("\n")) + source.first_line
        if "nesting depth" in str(error.problem):  # libyaml has a bound of its own
            raise InputError(f"{source.file}:{line}: nested too deeply to be read") from None
        raise InputError(f"{source.file}:{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{source.file}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise InputError(f"{source.file}: nested too deeply to be read") from None


@dataclass(frozen=True)
class _Anchor:
    """A value that has a name, and how many values it counts for wherever the name is used."""

    value: Any
    size: int


class _Builder:
    """Turns the parser's events into plain values, counting them: an alias counts for all that it repeats."""

    def __init__(self, source: Source, rules: Rules, events: Iterator[Any]) -> None:
        self.source = source
        self.rules = rules
        self.events = events
        self.values = 0
        self.anchors: dict[str, _Anchor | None] = {}

    def documents(self, most: int) -> list[Any]:
        found: list[Any] = []
        for event in self.events:
            if type(event).__name__ == "DocumentStartEvent":
                self.anchors = {}
                found.append(self._build(next(self.events), 0))
                if len(found) == most:
                    break
        return found

    def _build(self, event: Any, depth: int) -> Any:
        line, kind = self._line(event), type(event).__name__
        self._count(1, line)
        if depth > MAX_DEPTH:
            raise InputError(f"{self.source.file}:{line}: nested too deeply to be read")
        if kind == "AliasEvent":
            return self._alias(event.anchor, line)
        tag, anchor, before = event.tag, event.anchor, self.values
        if tag is not None and "python/" in tag:
            raise InputError(f"{self.source.file}:{line}: the tag {tag} would construct an object and is refused")
        if anchor is not None:
            self.anchors[anchor] = None
        value: Any
        if kind == "ScalarEvent":
            value = self._scalar(event)
        elif kind == "SequenceStartEvent":
            value = []
            while type(part := next(self.events)).__name__ != "SequenceEndEvent":
                value.append(self._build(part, depth + 1))
        else:
            value = self._mapping(depth)
        if anchor is not None:
            self.anchors[anchor] = _Anchor(value, self.values - before)
        return value

    def _alias(self, name: str, line: int) -> Any:
        if name not in self.anchors:
            raise InputError(f"{self.source.file}:{line}: not valid YAML: found undefined alias")
        anchor = self.anchors[name]
        if anchor is None:
            raise InputError(f"{self.source.file}:{line}: an alias that contains itself")
        self._count(anchor.size, line)
        return anchor.value

    def _scalar(self, event: Any) -> Any:
        tag = resolve(event, self.rules)
        if not tag.startswith("tag:yaml.org,2002:"):
            return Unresolved(event.value, f"the tag {tag} is not read")
        try:
            return construct(tag, event.value)
        except (ValueError, IndexError, OverflowError):
            return Unresolved(event.value, f"it is no {tag.rpartition(':')[2]}")

    def _mapping(self, depth: int) -> Located:
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        replaced: dict[str, int] = {}
        merged: list[Any] = []
        while type(key_event := next(self.events)).__name__ != "MappingEndEvent":
            key, line = self._key(key_event), self._line(key_event)
            value = self._build(next(self.events), depth + 1)
            if key is None:
                merged += value if isinstance(value, list) else [value]
            else:
                if key in values:
                    replaced.setdefault(key, lines[key])
                values[key], lines[key] = value, line
        for other in merged:
            if isinstance(other, Located):
                for key, value in other.items():
                    if key not in values:
                        values[key], lines[key] = value, other.lines[key]
        return Located(values, lines, replaced)

    def _key(self, event: Any) -> str | None:
        """The key as text, as it is written; None for ``<<``, which merges."""
        line = self._line(event)
        self._count(1, line)
        if type(event).__name__ == "AliasEvent":
            return str(self._alias(event.anchor, line))
        if type(event).__name__ != "ScalarEvent":
            kind = "list" if type(event).__name__ == "SequenceStartEvent" else "mapping"
            raise InputError(f"{self.source.file}:{line}: a key that is a {kind}")
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchor(event.value, 1)
        return None if resolve(event, self.rules).endswith(":merge") else str(event.value)

    def _count(self, more: int, line: int) -> None:
        self.values += more
        if self.values > MAX_VALUES:
            raise InputError(f"{self.source.file}:{line}: more than {MAX_VALUES} values, aliases that multiply")

    def _line(self, event: Any) -> int:
        return int(event.start_mark.line) + self.source.first_line


def _replaced(value: Any, inside: str) -> Iterator[tuple[str, int, int]]:
    if isinstance(value, Located):
        for key, first in value.replaced.items():
            yield f"{inside}{key}", value.lines[key], first
        for key, part in value.items():
            yield from _replaced(part, f"{inside}{key}.")
    elif isinstance(value, list):
        for part in value:
            yield from _replaced(part, inside)


def _first_line(source: Source) -> int:
    rows = source.text.splitlines()
    found = (number for number, row in enumerate(rows) if row.strip() and not row.lstrip().startswith(("#", "---")))
    return next(found, 0) + source.first_line
