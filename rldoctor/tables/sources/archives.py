"""Source trees of published archives: wheels read over the network file by file, source archives whole, a cache."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from rldoctor.tables.sources.remote import RemoteFile, opened
from rldoctor.tables.sources.trees import SourceTree

_DATA_FOLDER = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")  # where a wheel may keep what goes to site-packages


class ArchiveTree:
    """Files held in an archive: ``members`` by path, ``read_member`` gives their bytes."""

    def __init__(self, members: Iterable[str], read_member: Callable[[str], bytes]) -> None:
        self.members = frozenset(members)
        self.read_member = read_member

    def read(self, path: str) -> str | None:
        return self.read_member(path).decode("utf-8", "replace") if path in self.members else None

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
    archive = zipfile.ZipFile(io.BufferedReader(RemoteFile(url), 1 << 18))
    members = {_DATA_FOLDER.sub("", name): name for name in archive.namelist()}
    return ArchiveTree(members, lambda path: archive.read(members[path]))


def sdist_tree(url: str) -> SourceTree:
    """The files of the source archive at ``url`` without its outermost folder; it is fetched whole."""
    with opened(url) as answer:
        content = io.BytesIO(answer.read())
    texts: dict[str, bytes] = {}
    with tarfile.open(fileobj=content) as archive:
        for member in archive:
            handle = archive.extractfile(member) if member.name.endswith((".py", ".yaml")) else None
            if handle is not None:
                texts[member.name.partition("/")[2]] = handle.read()
    return ArchiveTree(texts, texts.__getitem__)
