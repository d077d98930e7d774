"""Where log bytes come from: files, folders of per-rank files, standard input; decompressed, decoded, in bounded
blocks."""

from __future__ import annotations

import bz2
import codecs
import gzip
import importlib
import io
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO

from rldoctor.errors import InputError
from rldoctor.logs import encodings, rows
from rldoctor.logs.arrays import unrolled
from rldoctor.logs.folders import ERROR_FILE, elastic_traceback, log_files
from rldoctor.logs.layers import Strip, learned
from rldoctor.logs.model import Origin
from rldoctor.logs.nested import unfolded
from rldoctor.logs.ordering import oldest_first
from rldoctor.logs.paths import origin_of
from rldoctor.records import dataclass

# Bytes of one block. A line that is longer is handed on in pieces that overlap, so that no literal is cut in two.
BLOCK = 1 << 20
OVERLAP = 512

_SAMPLE = 1 << 16

# Bytes of a file, compressed or not, that are read in more than a moment.
_LONG = 32 << 20

_ZSTD_MODULES = ("compression.zstd", "backports.zstd", "zstandard")


@dataclass(frozen=True)
class Block:
    """A piece of a log that ends at a line end. ``offset`` counts bytes of decoded text; ``joined`` says that it
    continues the line that the block before it broke off in."""

    data: bytes
    offset: int
    joined: bool = False


@dataclass
class Source:
    """One stream of log text. ``origin`` is what its path says about the process, ``partial`` why it is incomplete
    (known once it was read), ``size`` the bytes of text it gave."""

    name: str
    path: Path | None = None
    origin: Origin = field(default_factory=Origin)
    partial: str | None = None
    size: int = 0

    def blocks(self) -> Iterator[Block]:
        """The text in blocks of about a mebibyte. Raises :class:`InputError` where there is no text to read."""
        with self._open() as raw:
            before = _size(raw)
            yield from self._decoded(raw)
            if before is not None and _size(raw) != before:
                self.partial = self.partial or "the file changed while it was read"

    def again(self) -> Source | None:
        """The same stream from its beginning, or None for what can be read only once."""
        return Source(self.name, self.path, self.origin) if self.path is not None and self.path.is_file() else None

    def takes_long(self) -> bool:
        """Whether somebody who waits for it wants to know: of a large file, or of a stream that may never end."""
        if self.path is None or self.path.is_fifo():
            return True
        return self.path.is_file() and self.path.stat().st_size > _LONG

    def _open(self) -> IO[bytes]:
        if self.path is None:
            if sys.stdin.isatty():
                raise InputError("standard input is a terminal: pipe a log into it, or name a file")
            return sys.stdin.buffer
        try:
            mode = self.path.stat().st_mode
            if not stat.S_ISREG(mode) and not (
                stat.S_ISFIFO(mode) and str(self.path).startswith(("/dev/fd/", "/proc/"))
            ):
                raise InputError(f"{self.name} is neither a file nor a folder")
            return self.path.open("rb")
        except OSError as error:
            raise InputError(f"cannot read {self.name}: {error.strerror or error}") from None

    def _decoded(self, raw: IO[bytes]) -> Iterator[Block]:
        try:
            stream = decompressed(raw, self.name)
        except OSError as error:
            raise InputError(f"cannot read {self.name}: {error.strerror or error}") from None
        read = self._guarded(stream)
        sample = read(_SAMPLE)
        if self.path is not None and self.path.name == ERROR_FILE:
            sample = elastic_traceback(sample)
        codec = encodings.detect(sample)
        decode = decoder(codec)
        text = decode(sample)
        if (why := encodings.why_not_text(text)) is not None:
            raise InputError(f"{self.name} is no log: {why}")
        text, more = unfolded(text, lambda: decode(read(BLOCK)) if not self.partial else b"")
        text, more = unrolled(text, more)
        text, more = oldest_first(*rows.unrolled(text, more))
        blocks = _line_blocks(text, more, self)
        strips = learned(text[:_SAMPLE])
        yield from _stripped(blocks, strips) if strips else blocks
        if not self.size:
            raise InputError(
                f"{self.name} is empty" if not self.partial else f"cannot read {self.name}: {self.partial}"
            )

    def _guarded(self, stream: IO[bytes]) -> Callable[[int], bytes]:
        """Reads until the data is used up or spoilt; what was read before a fault stays good."""

        def read(size: int) -> bytes:
            try:
                data = stream.read(size)
                if len(data) == size == BLOCK and data[:1] == b"\0" and not data.strip(b"\0"):
                    _skip_a_hole(stream)
                return data
            except EOFError:
                self.partial = "the compressed file is truncated"
            except (OSError, zlib.error, lzma.LZMAError, ValueError) as error:
                self.partial = f"reading broke off: {error}"
            return b""

        return read


def _skip_a_hole(stream: IO[bytes]) -> None:
    """Goes on where a file has data again: one that was emptied under its writer begins with a hole as long as what it
    held before. Nothing is skipped where there is none, or no file."""
    try:
        descriptor = stream.fileno()
        at, stood = stream.tell(), os.lseek(descriptor, 0, os.SEEK_CUR)
        if not isinstance(stream, io.BufferedReader) or not stream.seekable():
            return
    except OSError:
        return
    try:
        following = os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError:  # none behind it
        following = os.fstat(descriptor).st_size
    os.lseek(descriptor, stood, os.SEEK_SET)
    stream.seek(following)


class TextSource(Source):
    """A log that is in memory already."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(name)
        self._data = data

    def again(self) -> Source:
        return self

    def _open(self) -> IO[bytes]:
        return io.BytesIO(self._data)


def _stripped(blocks: Iterable[Block], strips: Sequence[Strip]) -> Iterator[Block]:
    """The blocks without their layers. A piece of a line that is longer than a block stays as it is."""
    offset = 0
    for block in blocks:
        data = block.data
        for strip in () if block.joined else strips:
            data = strip(data)
        yield Block(data, offset, block.joined)
        offset += len(data)


def _line_blocks(first: bytes, read: Callable[[], bytes], source: Source) -> Iterator[Block]:
    """Cuts text behind its last line end; a carriage return ends a line too (progress bars write nothing else)."""
    held, offset, joined = first, 0, False
    blank = True
    while True:
        cut = max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1)) + 1
        if cut:
            yield Block(held[:cut], offset, joined)
            blank = blank and not held[:cut].strip(b"\x00 \t\r\n")
            held, offset, joined = held[cut:], offset + cut, False
        elif len(held) > BLOCK:
            yield Block(held, offset, joined)
            blank = False
            held, offset, joined = held[-OVERLAP:], offset + len(held) - OVERLAP, True
        more = read()
        if not more:
            break
        held += more
    if held:
        yield Block(held, offset, joined)
        blank = blank and not held.strip(b"\x00 \t\r\n")
    source.size = 0 if blank else offset + len(held)


def decoder(codec: str | None) -> Callable[[bytes], bytes]:
    """Turns the bytes of a file into UTF-8, piece by piece in their order; an empty piece ends them."""
    if codec is None:
        return lambda data: data
    decoder = codecs.getincrementaldecoder(codec)(errors="replace")

    def decode(data: bytes) -> bytes:
        # An empty text would look like the end of the file.
        return decoder.decode(data, final=not data).encode("utf-8", "replace") or (b"\x00" if data else b"")

    return decode


def decompressed(raw: IO[bytes], name: str) -> IO[bytes]:
    """The stream behind gzip, bzip2, xz or zstd, recognised by its first bytes, or the stream itself."""
    stream = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]
    head = stream.peek(6)[:6]
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=stream)  # type: ignore[return-value]
    if head.startswith(b"BZh"):
        return bz2.BZ2File(stream)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(stream)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd(stream, name)
    return stream


def _zstd(stream: IO[bytes], name: str) -> IO[bytes]:
    for module in _ZSTD_MODULES:
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        opened: IO[bytes] = found.open(stream, "rb")
        return opened
    raise InputError(f"{name} is compressed with zstd, which this Python cannot read: run `zstd -d {name}` first")


def _size(raw: IO[bytes]) -> int | None:
    try:
        info = os.fstat(raw.fileno())
    except (OSError, ValueError):
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None


def sources_of(paths: Iterable[str], may_be_empty: bool = False) -> tuple[list[Source], list[str]]:
    """The streams that the arguments name, folders opened up, and notes on what was left out.

    Raises :class:`InputError` for a path that does not exist and, unless it ``may_be_empty``, for a folder without
    logs."""
    found: list[Source] = []
    notes: list[str] = []
    for name in dict.fromkeys(paths):
        if name == "-":
            found.append(Source("standard input"))
            continue
        path = Path(name)
        if not path.exists():
            address = re.match(r"[A-Za-z][\w+.-]*://", name)
            how = "is an address: download the log, or pipe it: curl -sL URL | rldoctor triage -"
            raise InputError(f"{name} {how if address else 'does not exist'}")
        if not path.is_dir():
            found.append(Source(name, path, origin_of(path.name)))
            continue
        files, left_out = log_files(path)
        notes += left_out
        if not files and not may_be_empty:
            raise InputError(f"{name} holds no log files" + (f" ({left_out[0]})" if left_out else ""))
        found += [Source(str(file), file, origin_of(str(file.relative_to(path)))) for file in files]
    return found, notes
