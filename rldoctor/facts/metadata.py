"""Reads what one installed distribution says of itself on disk: ``*.dist-info``, ``*.egg-info``, ``*.egg``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rldoctor.io import untrusted
from rldoctor.records import dataclass

SUFFIXES = (".dist-info", ".egg-info")
# Of published packages the largest METADATA, with its description, has some 300 KiB; nightly builds of torch record
# 20,000 files in 3 MiB.
_LARGEST_METADATA = 16 << 20
_LARGEST_HEADERS = 1 << 20
_LARGEST_RECORD = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Headers:
    """The header lines that matter here; ``damage`` is why there are none."""

    name: str | None = None
    version: str | None = None
    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    damage: str | None = None


def split_name(entry: str) -> tuple[str, str]:
    """Name and version as the entry's own name gives them: ``torch-2.13.0+cpu.dist-info``. Either may be empty."""
    stem, _, suffix = entry.rpartition(".")
    if suffix == "dist-info":
        # Tools escape hyphens in both halves, but not all did in names.
        name, _, version = stem.rpartition("-") if "-" in stem else (stem, "", "")
        return name, version
    name, *rest = stem.split("-")  # name[-version[-py3.11[-platform]]]
    return name, rest[0] if rest and not rest[0].startswith("py") else ""


def read_headers(path: Path) -> Headers:
    """The headers of the distribution whose metadata directory (or egg-info file) is ``path``. Raises nothing."""
    for file in (path / "METADATA", path / "PKG-INFO", path / "EGG-INFO" / "PKG-INFO", path):
        try:
            text = _header_text(file)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        except OSError as error:
            return Headers(damage=f"{file} cannot be read: {error.strerror}")
        return _parse(text, file)
    return Headers(damage=f"{path} holds no METADATA")


def _header_text(file: Path) -> str:
    """Everything up to the first empty line; the description below it may be long."""
    text = untrusted.read(file, _LARGEST_METADATA).replace(b"\r\n", b"\n")
    end = text.find(b"\n\n")
    return text[: end if end >= 0 else _LARGEST_HEADERS].decode("utf-8", "replace")


def _parse(text: str, file: Path) -> Headers:
    requires: list[str] = []
    single: dict[str, str] = {}
    for line in text.replace("\r\n", "\n").split("\n"):
        key, colon, value = line.partition(":")
        if not colon or line.startswith((" ", "\t")):  # the rest of a folded line
            continue
        if key.lower() == "requires-dist":
            requires.append(value.strip())
        else:
            single.setdefault(key.lower(), value.strip())
    if not single.get("name"):
        return Headers(damage=f"{file} is empty" if not text.strip() else f"{file} holds no name")
    if not requires:
        requires = _requires_txt(file.with_name("requires.txt"))
    return Headers(
        name=single["name"],
        version=single.get("version"),
        requires=tuple(requires),
        requires_python=single.get("requires-python"),
    )


def _requires_txt(file: Path) -> list[str]:
    """The requirements of an egg-info of older setuptools, which keeps them in a file of its own with a section per
    extra and marker, as ``Requires-Dist`` lines."""
    try:
        lines = untrusted.text(file, _LARGEST_HEADERS).splitlines()
    except OSError:
        return []
    requires: list[str] = []
    condition = ""
    for line in filter(None, map(str.strip, lines)):
        if line.startswith("[") and line.endswith("]"):
            extra, _, marker = line[1:-1].partition(":")
            parts = [f"({marker})"] if marker else []
            condition = " and ".join([*parts, f'extra == "{extra}"'] if extra else parts)
        else:
            requires.append(f"{line} ; {condition}" if condition else line)
    return requires


def editable_tree(path: Path) -> str | None:
    """The source tree of an editable install (PEP 610 and 660), or None."""
    try:
        origin = json.loads(untrusted.read(path / "direct_url.json", _LARGEST_HEADERS))
        if not origin["dir_info"].get("editable"):
            return None
        url = urlsplit(origin["url"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return unquote(url.path) or None if url.scheme == "file" else None


def fit(path: Path) -> tuple[float, bool, float]:
    """How well a metadata directory describes the modules beside it, to be compared with another of the same name: the
    share of its recorded Python files whose size on disk is the recorded one, whether it says anything, its age."""
    import csv

    try:
        written = path.stat().st_mtime
        record = io.StringIO(untrusted.text(path / "RECORD", _LARGEST_RECORD), newline="")
        rows = [(row[0], row[2]) for row in csv.reader(record) if len(row) == 3 and row[0].endswith(".py")]
    except (OSError, csv.Error):
        return (0.0, False, 0.0)
    share = sum(_size(path.parent / name) == size for name, size in rows) / max(1, len(rows))
    return (share, _size(path / "METADATA") not in ("", "0"), written)


def _size(file: Path) -> str:
    try:
        return str(file.stat().st_size)
    except OSError:
        return ""
