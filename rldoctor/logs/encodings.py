"""Which encoding a log is written in, and whether it is text at all."""

from __future__ import annotations

import codecs
import re

# What is no log, by its first bytes: https://en.wikipedia.org/wiki/List_of_file_signatures
MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "a program or library"),
    (b"PK\x03\x04", "a zip archive (a torch checkpoint?)"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"SQLite format 3\x00", "a database"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF", "an HDF5 file"),
    (b"%PDF", "a PDF"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x03", "a pickle"),
    (b"\x80\x04\x95", "a pickle"),
    (b"\x80\x05\x95", "a pickle"),
)
TAR_MAGIC = b"ustar"

_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

# Control characters that text has no use for; NUL (holes of rotated files), tab, newlines, form feed, backspace
# (progress bars), bell and escape (colours) do occur in logs.
_CONTROL = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]")

# More than this share of control characters means that the bytes are no text. Sampled completions of an untrained model
# have a few.
_CONTROL_LIMIT = 0.05
_NUL_LIMIT = 0.25
_SAMPLED = 1 << 16
# A file that was cut while its writer kept the old position begins with a hole.
_HOLE = re.compile(rb"\x00{64,}")


def detect(sample: bytes) -> str | None:
    """The codec that turns the file into text, or None where the bytes can be searched as they are (UTF-8, ASCII and
    every single-byte encoding)."""
    for mark, name in _BOMS:
        if sample.startswith(mark):
            return name
    return _unmarked(sample)


def _unmarked(sample: bytes) -> str | None:
    """UTF-16 and UTF-32 without a mark: the zero bytes of what is ASCII in them have fixed places."""
    usable = min(len(sample), _SAMPLED) & ~3
    if usable < 16 or not sample.count(0, 0, usable) or sample.startswith(b"\x00" * 4):
        return None
    zeros = [sample[i:usable:4].count(0) * 4 / usable for i in range(4)]
    if min(zeros[1:]) > 0.5 > zeros[0] or min(zeros[:3]) > 0.5 > zeros[3]:
        return "utf-32-le" if zeros[0] < zeros[3] else "utf-32-be"
    even, odd = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    # Box drawing (U+25xx) has zeros in the other place too, and UTF-8 has none at all.
    if max(even, odd) > 0.25 and max(even, odd) - min(even, odd) > 0.15:
        return "utf-16-le" if even < odd else "utf-16-be"
    return None


def why_not_text(sample: bytes) -> str | None:
    """What the file is instead of text, or None for text. ``sample`` is what the decoder made of its beginning."""
    for magic, what in MAGIC:
        if sample.startswith(magic):
            return what
    if sample[257:262] == TAR_MAGIC:
        return "a tar archive: unpack it first"
    solid = _HOLE.sub(b"", sample)
    if len(_CONTROL.findall(solid)) > _CONTROL_LIMIT * len(solid) or solid.count(0) > _NUL_LIMIT * len(solid):
        return "binary data"
    return None


def text_of(raw: bytes) -> str:
    """One line as text: UTF-8, else Latin-1 where its bytes are no UTF-8. NUL bytes are left out."""
    if b"\x00" in raw:
        raw = raw.replace(b"\x00", b"")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _mixed(raw)


def _mixed(raw: bytes) -> str:
    """Latin-1 for a line with a few foreign bytes, UTF-8 with replacements where most of it is UTF-8."""
    replaced = raw.decode("utf-8", "replace")
    multibyte = sum(1 for c in replaced if ord(c) > 0x7F and c != "�")
    return replaced if multibyte > replaced.count("�") else raw.decode("latin-1")
