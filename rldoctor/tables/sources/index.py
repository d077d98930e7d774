"""Reads from a package index which releases there are, and their metadata: a few kilobytes of each wheel.

Part of the refresh; nothing here runs during a diagnosis."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections import defaultdict
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin

from rldoctor.records import dataclass
from rldoctor.tables.sources.remote import RemoteFile, opened

_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_METADATA_BLOCK = 1 << 16  # bytes; a wheel's directory and its METADATA are small


@dataclass(frozen=True)
class Archive:
    """One file of a release: a wheel or a source distribution."""

    filename: str
    url: str
    yanked: bool = False
    has_metadata_file: bool = False  # PEP 658: the index serves the wheel's METADATA as a file of its own


def default_index() -> str:
    """The index that this environment's pip uses, so that mirrors and proxies are respected.

    Raises :class:`OSError` where there is no pip to ask."""
    for setting in (":env:.index-url", "install.index-url", "global.index-url"):
        asked = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", setting], capture_output=True, text=True, timeout=60
        )
        if asked.returncode == 0 and asked.stdout.strip():
            return asked.stdout.strip()
    try:
        from pip._internal.models.index import PyPI  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise OSError("which index to ask is not known: this environment has no pip; name one with --index") from None
    return str(PyPI.simple_url)


def archives(index: str, name: str) -> dict[str, list[Archive]]:
    """Every file that the index offers for ``name``, by version as it is spelled there."""
    base = f"{index.rstrip('/')}/{name}/"
    with opened(base, {"Accept": _ACCEPT}) as answer:
        body = answer.read()
        is_json = "json" in answer.headers.get("Content-Type", "")
    by_version: dict[str, list[Archive]] = defaultdict(list)
    for archive in _from_json(body, base) if is_json else _from_html(body, base):
        version = _version_of(archive.filename, name)
        if version:
            by_version[version].append(archive)
    return dict(by_version)


def metadata(archive: Archive) -> str:
    """The METADATA of a wheel (read by ranges) or the PKG-INFO of a source distribution.

    Raises :class:`LookupError` for an archive that holds neither."""
    if archive.filename.endswith(".whl"):
        if archive.has_metadata_file:
            with opened(f"{archive.url}.metadata") as answer:
                return str(answer.read().decode("utf-8", "replace"))
        with zipfile.ZipFile(io.BufferedReader(RemoteFile(archive.url, _METADATA_BLOCK), _METADATA_BLOCK)) as wheel:
            for member in wheel.namelist():
                if member.endswith(".dist-info/METADATA"):
                    return wheel.read(member).decode("utf-8", "replace")
        raise LookupError(f"no METADATA in {archive.filename}")
    return _from_sdist(archive)


def _from_json(body: bytes, base: str) -> list[Archive]:
    return [
        Archive(f["filename"], urljoin(base, f["url"]), bool(f.get("yanked")), bool(f.get("core-metadata")))
        for f in json.loads(body).get("files", [])
    ]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def _from_html(body: bytes, base: str) -> list[Archive]:
    links = _Links()
    links.feed(body.decode("utf-8", "replace"))
    found = []
    for attributes in links.found:
        url = urljoin(base, attributes.get("href") or "").partition("#")[0]
        named = unquote(url.rsplit("/", 1)[-1])
        found.append(Archive(named, url, "data-yanked" in attributes, "data-core-metadata" in attributes))
    return found


def _version_of(filename: str, name: str) -> str | None:
    stem = re.sub(r"\.(whl|tar\.gz|zip)$", "", filename)
    if stem == filename:
        return None
    if filename.endswith(".whl"):
        return stem.split("-")[1]
    # A source distribution's name may hold hyphens; the version never does.
    return stem.rpartition("-")[2] if stem.rpartition("-")[0] else None


def _from_sdist(archive: Archive) -> str:
    requires = ""
    info = ""
    with opened(archive.url) as answer, tarfile.open(fileobj=answer, mode="r|gz") as packed:
        for member in packed:
            if member.name.endswith("/PKG-INFO") and not info:
                info = _member_text(packed, member)
                if "\nRequires-Dist:" in info:
                    return info
            elif member.name.endswith(".egg-info/requires.txt"):
                requires = _requires_as_metadata(_member_text(packed, member))
    if not info:
        raise LookupError(f"no PKG-INFO in {archive.filename}")
    # Older setuptools wrote no Requires-Dist into PKG-INFO; requires.txt has the same lines by section.
    head, _, rest = info.partition("\n")
    return f"{head}\n{requires}{rest}"


def _member_text(packed: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    opened = packed.extractfile(member)
    return opened.read().decode("utf-8", "replace") if opened else ""


def _requires_as_metadata(text: str) -> str:
    lines, extra, marker = [], "", ""
    for line in filter(None, map(str.strip, text.splitlines())):
        section = re.fullmatch(r"\[([^:\]]*):?(.*)\]", line)
        if section:
            extra, marker = section.groups()
            continue
        conditions = [f"({marker})"] if marker else []
        conditions += [f'extra == "{extra}"'] if extra else []
        lines.append(f"Requires-Dist: {line}" + (f"; {' and '.join(conditions)}" if conditions else ""))
    return "".join(f"{line}\n" for line in lines)
