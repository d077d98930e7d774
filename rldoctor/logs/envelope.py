"""What a layer told of a line, written before it: ``RS time US level US process RS``. ASCII has these control
characters for it, and no log uses them."""

from __future__ import annotations

OPEN = "\x1e"
OPEN_BYTES = OPEN.encode()
_BETWEEN = "\x1f"


def written(time: str = "", level: str = "", process: str = "") -> str:
    """The header of a line; empty where nothing is known."""
    return f"{OPEN}{time}{_BETWEEN}{level}{_BETWEEN}{process}{OPEN}" if time or level or process else ""


def split(line: bytes) -> tuple[bytes, bytes]:
    """The headers of a line, and what stands behind them."""
    at = 0
    while line.startswith(OPEN_BYTES, at) and (end := line.find(OPEN_BYTES, at + 1, at + 400)) > 0:
        at = end + 1
    return line[:at], line[at:]


def read(text: str) -> tuple[str, str, str, str]:
    """Time, level and process of a line's headers, the outermost first where several tell, and the line itself."""
    reported = ["", "", ""]
    while text.startswith(OPEN) and (end := text.find(OPEN, 1, 400)) > 0:
        parts = (*text[1:end].split(_BETWEEN), "", "", "")
        reported = [old or new for old, new in zip(reported, parts, strict=False)]
        text = text[end + 1 :]
    return reported[0], reported[1], reported[2], text
