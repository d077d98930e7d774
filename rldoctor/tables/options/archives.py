"""Source trees for the generator: wheels read over the network file by file, unpacked archives, clones, a cache."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

from rldoctor.tables.options.trees import SourceTree

_TIMEOUT = 120  # seconds for one request
_BLOCK = 1 << 18  # bytes; one range request
_GIT_TIMEOUT = 60  # seconds
_ATTEMPTS = 4  # at one request; name servers and proxies have their moments
_DATA_FOLDER = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")  # where a wheel may keep what goes to site-packages


class RangedFile(io.RawIOBase):
    """A remote file read by range requests, so that three files of a 400 MB wheel cost a megabyte."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.position = 0
        self.blocks: dict[int, bytes] = {}
        with _answer(urllib.request.Request(url, method="HEAD")) as answer:
            self.size = int(answer.headers["Content-Length"])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        self.position = base + offset
        return self.position

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.position + size, self.size)
        parts = []
        while self.position < end:
            number, offset = divmod(self.position, _BLOCK)
            part = self._block(number)[offset : offset + end - self.position]
            parts.append(part)
            self.position += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number not in self.blocks:
            last = min((number + 1) * _BLOCK, self.size) - 1
            request = urllib.request.Request(self.url, headers={"Range": f"bytes={number * _BLOCK}-{last}"})
            with _answer(request) as answer:
                if answer.status != 206:
                    raise OSError(f"{self.url}: the server does not answer range requests")
                self.blocks[number] = answer.read()
        return self.blocks[number]


class ArchiveTree:
    """Files held in an archive: ``members`` by path, ``read_member`` gives their bytes."""

    def __init__(self, members: Iterable[str], read_member: Callable[[str], bytes]) -> None:
        self.members = frozenset(members)
        self.read_member = read_member

    def read(self, path: str) -> str | None:
        return self.read_member(path).decode("utf-8", "replace") if path in self.members else None

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(name for name in self.members if name.startswith(f"{folder}/")))


class CloneTree:
    """One commit of a git clone, bare or not."""

    def __init__(self, clone: Path, reference: str) -> None:
        self.clone = clone
        self.reference = reference
        listed = git(clone, "ls-tree", "-r", "--name-only", "-z", reference)
        self.members = frozenset((listed or "").split("\0"))

    def read(self, path: str) -> str | None:
        return git(self.clone, "show", f"{self.reference}:{path}") if path in self.members else None

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(name for name in self.members if name.startswith(f"{folder}/")))


class CachedTree:
    """Keeps on disk what was read from a slow tree, absences too."""

    def __init__(self, folder: Path, make: Callable[[], SourceTree]) -> None:
        self.folder = folder
        self.make = make
        self._tree: SourceTree | None = None

    def read(self, path: str) -> str | None:
        file = self.folder / "text" / path.replace("/", "%")
        absent = self.folder / "absent" / path.replace("/", "%")
        if file.exists():
            return file.read_text("utf-8")
        if absent.exists():
            return None
        text = self._slow().read(path)
        target = absent if text is None else file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text or "", "utf-8")
        return text

    def names(self, folder: str) -> tuple[str, ...]:
        file = self.folder / "names" / folder.replace("/", "%")
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(self._slow().names(folder)), "utf-8")
        return tuple(file.read_text("utf-8").splitlines())

    def _slow(self) -> SourceTree:
        if self._tree is None:
            self._tree = self.make()
        return self._tree


def wheel_tree(url: str) -> SourceTree:
    """The files of the wheel at ``url``; only what is read is fetched."""
    archive = zipfile.ZipFile(RangedFile(url))
    members = {_DATA_FOLDER.sub("", name): name for name in archive.namelist()}
    return ArchiveTree(members, lambda path: archive.read(members[path]))


def sdist_tree(url: str) -> SourceTree:
    """The files of the source archive at ``url`` without its outermost folder; it is fetched whole."""
    with _answer(urllib.request.Request(url)) as answer:
        content = io.BytesIO(answer.read())
    texts: dict[str, bytes] = {}
    with tarfile.open(fileobj=content) as archive:
        for member in archive:
            handle = archive.extractfile(member) if member.name.endswith((".py", ".yaml")) else None
            if handle is not None:
                texts[member.name.partition("/")[2]] = handle.read()
    return ArchiveTree(texts, texts.__getitem__)


def git(clone: Path, *arguments: str) -> str | None:
    """What a git command prints in ``clone``, or None where it fails."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(
        ["git", "-C", str(clone), *arguments], capture_output=True, timeout=_GIT_TIMEOUT, env=environment, check=False
    )
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _answer(request: urllib.request.Request) -> Any:
    """The open answer to ``request``; raises ``OSError`` after the last attempt."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return urllib.request.urlopen(request, timeout=_TIMEOUT)
        except OSError:
            time.sleep(2**attempt)
    return urllib.request.urlopen(request, timeout=_TIMEOUT)


class _Links(HTMLParser):
    """The links of a simple-index page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href") and "data-yanked" not in values:
            self.found.append(str(values["href"]))


def index_files(index: str, project: str) -> dict[str, str]:
    """File name -> URL of every file that the simple index offers for ``project``, yanked ones left out."""
    page = f"{index.rstrip('/')}/{project}/"
    request = urllib.request.Request(page, headers={"Accept": "text/html"})
    with _answer(request) as answer:
        parser = _Links()
        parser.feed(answer.read().decode("utf-8", "replace"))
    urls = [urldefrag(urljoin(page, link)).url for link in parser.found]
    return {url.rpartition("/")[2]: url for url in urls}
