"""Opens launch files and what they name: bounded in size, text only, never followed by executing anything."""

from __future__ import annotations

import itertools
import posixpath
import stat
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from rldoctor import redact
from rldoctor.errors import InputError, meant
from rldoctor.io import untrusted
from rldoctor.records import dataclass

# A launch file is written by hand; what is larger is data or a dump that was named by mistake.
MAX_BYTES = 2 * 1024 * 1024
# A notebook keeps the outputs of its cells, pictures included.
MAX_NOTEBOOK = 32 * 1024 * 1024
# So much of a file is searched for secrets, to know them where a launch puts them under another name or cuts them.
LEARNT = 64 * 1024
# Published launch scripts name files relative to a repository's root, some folders above the script.
MAX_PARENTS = 6
# What the machine keeps there is no part of anybody's launch; a stranger's would print it.
_SYSTEM = ("/etc", "/proc", "/sys", "/dev", "/run", "/var/run", "/var/lib")


@dataclass(frozen=True)
class Source:
    """A text and where it stands: ``first_line`` counts from 1, above 1 for a here-document inside ``file``."""

    text: str
    file: str
    first_line: int = 1


def line_of(text: str, source: Source, above: int = 1) -> int:
    """The line of ``source``, from its line ``above`` on, at which ``text`` begins in it; ``above`` where it does not
    stand there as it is."""
    written = text.splitlines()
    skipped = next((number for number, row in enumerate(written) if row.strip()), None)
    starts = _starts(source.text)
    if skipped is None or above > len(starts):
        return above
    found = source.text.find(written[skipped].strip(), starts[above - 1])
    return above if found < 0 else max(bisect_right(starts, found) - skipped, 1) + source.first_line - 1


@lru_cache(maxsize=8)
def _starts(text: str) -> tuple[int, ...]:
    """Where the lines of a text begin; a script asks for each of its pipelines."""
    rows = text.splitlines(keepends=True)
    return tuple(itertools.accumulate((len(row) for row in rows[:-1]), initial=0)) if rows else ()


def open_source(path: Path) -> Source:
    """The text of ``path``. Raises :class:`InputError` with one line where it is no readable, reasonably small text."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: a folder, not a launch file")
        if path.is_symlink() and not path.exists():
            raise InputError(f"{path}: a link to {path.readlink()}, which is not there")
        if not path.exists():
            near = meant(path.name, [one.name for one in path.parent.iterdir()]) if path.parent.is_dir() else None
            raise InputError(f"{path}: no such file" + (f"; did you mean {path.with_name(near)}?" if near else ""))
        if not path.is_file():
            raise InputError(f"{path}: not a regular file")
        most = MAX_NOTEBOOK if path.suffix == ".ipynb" else MAX_BYTES
        size = path.stat().st_size
        if size > most:
            raise InputError(
                f"{path}: {size / 2**20:.0f} MiB is too large for a launch file (at most {most >> 20} MiB)"
            )
        raw = untrusted.read(path, most)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    text = decode(raw, str(path))
    redact.learn(raw[:LEARNT])
    return Source(text, str(path))


def decode(raw: bytes, name: str) -> str:
    """UTF-8 text of a file. Raises :class:`InputError` naming the line of the first byte that is none."""
    if b"\0" in raw:
        raise InputError(f"{name}:{raw.count(10, 0, raw.index(0)) + 1}: a binary file, not a launch file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(10, 0, error.start) + 1
        raise InputError(f"{name}:{line}: not UTF-8 text (byte {raw[error.start]:#04x})") from error


def is_private(path: Path, base: Path) -> bool:
    """Whether a file is nobody's to name in a launch that lies in ``base``, through whatever links it is reached: the
    machine's own, a repository's credentials, and what is hidden outside of the launch's repository (``~/.ssh``,
    ``~/.aws``; the settings in caches apart)."""
    real, home = path.resolve(), base.resolve()
    # Some keep their whole home in a repository.
    above = (one for one in (home, *home.parents) if one != Path.home())
    own = next((one for one in above if (one / ".git").exists()), home)
    if real.is_relative_to(own):
        return ".git" in real.relative_to(own).parts
    if any(real.is_relative_to(one) and not home.is_relative_to(one) for one in _SYSTEM):
        return True
    hidden = [part for part in real.parts if part.startswith(".") and part not in home.parts]
    return bool(hidden) and not (hidden == [".cache"] and real.suffix in (".yaml", ".yml", ".json", ".toml"))


def is_below(name: str) -> bool:
    """Whether a name is a path with folders, all of them below the one in which it is looked for."""
    path = Path(name)
    return len(path.parts) > 1 and not path.is_absolute() and ".." not in path.parts


@dataclass
class Files:
    """Finds and opens what a launch file names. ``written`` holds files that the launch script itself writes from
    here-documents; ``opened`` what was read, in order; ``missing`` what was not found; ``below`` the names of what
    was read by a path with folders (:func:`is_below`). ``kept`` are the texts that a bundle brought along, by their
    paths: then they are all the files there are."""

    base: Path
    kept: Mapping[str, str] | None = None
    written: dict[str, Source] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)

    def open(self, name: str) -> Source | None:
        """The named file, looked for beside the launch file and in the folders above; None where there is none.

        Raises :class:`InputError` where it exists and is not readable text."""
        if (written := self.written.get(name) or self.written.get(posixpath.normpath(name))) is not None:
            return written
        path = self.find(name)
        if path is None:
            if name not in self.missing:
                self.missing.append(name)
            return None
        if str(path) not in self.opened:
            self.opened.append(str(path))
        if is_below(name):
            self.below.append(name)
        return self.source(path)

    def source(self, path: Path) -> Source:
        """The text of a file by its path. Raises :class:`InputError` where it is not there or no readable text."""
        if self.kept is None:
            return open_source(path)
        found = self._kept(path, self.kept)
        if found is None:
            raise InputError(f"{path}: not among the files that the bundle brought along")
        return Source(self.kept[str(found)], str(found))

    def find(self, name: str) -> Path | None:
        """Where the named file stands, or None; what is private (:func:`is_private`) is not there for a launch."""
        if not name or "\0" in name or len(name) > 1000:
            return None
        if self.kept is not None:
            return self._kept(Path(name), self.kept)
        try:
            path = self._on_disk(Path(name))
            return None if path is None or is_private(path, self.base) else path
        except (OSError, ValueError, RuntimeError):
            return None

    def _on_disk(self, wanted: Path) -> Path | None:
        if wanted.is_absolute():
            return wanted if wanted.is_file() else self._cloned(wanted)
        return next((path for one in (self.base, *self.above()) if (path := one / wanted).is_file()), None)

    def _cloned(self, wanted: Path) -> Path | None:
        """A file of the clone that the launch file lies in, by its path in another clone (``/data/NAME/...``), or in a
        container that calls the clone otherwise (``/workspace/scripts/train.sh``): then a folder has to fit as well."""
        above = self.above()
        for folder in above:
            if folder.name in wanted.parts:
                path = folder.joinpath(*wanted.parts[wanted.parts.index(folder.name) + 1 :])
                if path.is_file():
                    return path
        for start in range(2, len(wanted.parts) - 1):
            for folder in above:
                path = folder.joinpath(*wanted.parts[start:])
                if path.is_file():
                    return path
        return None

    def has_folder(self, name: str) -> bool:
        """Whether the named folder is at hand, looked for as files are."""
        if not name or "\0" in name or len(name) > 1000:
            return False
        if self.kept is not None:
            return any(f"/{Path(name)}/" in f"/{path}" for path in self.kept)
        try:
            above = [] if Path(name).is_absolute() else self.above()
            return any((folder / name).is_dir() for folder in (self.base, *above))
        except OSError:
            return False

    def near(self, name: str) -> list[str]:
        """The names of the files in the folder in which the named one would stand, where that folder is at hand."""
        if self.kept is not None or Path(name).is_absolute():
            return []
        try:
            folders = ((folder / name).parent for folder in (self.base, *self.above()))
            return [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()]
        except (OSError, ValueError):
            return []

    def above(self) -> list[Path]:
        """The folders above the launch file, up to the first in which anybody may put files."""
        found: list[Path] = []
        for folder in list(self.base.resolve().parents)[:MAX_PARENTS]:
            if not folder.is_dir() or folder.stat().st_mode & stat.S_IWOTH:
                break
            found.append(folder)
        return found

    def _kept(self, wanted: Path, kept: Mapping[str, str]) -> Path | None:
        """Where a bundle's file was found: beside the launch file, else by the end of its path, since the folders above
        are called otherwise there."""
        for path in (self.base / wanted, wanted):
            if str(path) in kept:
                return path
        least = 2 if wanted.is_absolute() else len(wanted.parts)
        shared = {path: _shared_end(wanted, Path(path)) for path in kept}
        best = max(shared, key=lambda path: shared[path], default=None)
        return Path(best) if best is not None and shared[best] >= least else None


def _shared_end(one: Path, other: Path) -> int:
    """How many last parts two paths have in common."""
    pairs = zip(reversed(one.parts), reversed(other.parts), strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(one.parts), len(other.parts)))
