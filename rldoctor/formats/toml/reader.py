"""Reads TOML configs, which some trainers use, as if they were YAML: values with their lines."""

from __future__ import annotations

import re
from typing import Any

from rldoctor.formats import toml_text
from rldoctor.formats.native import Located
from rldoctor.formats.source import Source
from rldoctor.formats.yaml.reader import YamlFile

_SECTION = re.compile(r"\s*\[\[?\s*([\w.\"' -]+?)\s*\]\]?")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


def read_toml(source: Source) -> YamlFile:
    """Reads a TOML file. Raises :class:`InputError` with one line where it is none."""
    value = toml_text.parse(source.text, source.file)
    return YamlFile(source, _located(value, "", _lines(source)))


def key_rows(source: Source) -> dict[str, int]:
    """The first line on which each dotted key has a value."""
    return _named(source)[0]


def section_rows(source: Source) -> dict[str, int]:
    """The first line of each section that has a head of its own."""
    return _named(source)[1]


def _lines(source: Source) -> dict[str, int]:
    """The lines of the keys and sections, and for each section that is nowhere named itself the first line below it."""
    keys, sections = _named(source)
    lines = {**keys, **sections}
    found: dict[str, int] = {}
    for name, line in lines.items():
        parts = name.split(".")
        for size in range(1, len(parts)):
            above = ".".join(parts[:size])
            found[above] = min(line, found.get(above, line))
    return {**found, **lines}


def _named(source: Source) -> tuple[dict[str, int], dict[str, int]]:
    keys: dict[str, int] = {}
    sections: dict[str, int] = {}
    section = ""
    for number, row in enumerate(source.text.splitlines(), source.first_line):
        match = _SECTION.match(row)
        if match is not None:
            section = _plain(match[1])
            sections.setdefault(section, number)
        elif (match := _KEY.match(row)) is not None:
            keys.setdefault(f"{section}.{_plain(match[1])}".lstrip("."), number)
    return keys, sections


def _plain(name: str) -> str:
    return re.sub(r"[\"' ]", "", name)


def _located(value: dict[str, Any], path: str, lines: dict[str, int]) -> Located:
    values: dict[str, Any] = {}
    own: dict[str, int] = {}
    for key, part in value.items():
        name = f"{path}.{key}".lstrip(".")
        own[key] = lines.get(name, 1)
        values[key] = _located(part, name, lines) if isinstance(part, dict) else part
    return Located(values, own)
