"""How secrets are written where people and programs write them; each ``{@}`` is a hole for one."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable
from pathlib import Path

SIGN = "Canary"
SIGN_IN_HEXADECIMAL = SIGN.encode().hex()
_drawn = random.Random(7)
_BASE64 = string.ascii_letters + string.digits + "+/"

# One notation to a line; \n, \t, \e, \0 and \\ are a line's end, a tab, an escape, a NUL and a backslash.
_NOTATIONS = Path(__file__).with_name("notations.txt").read_text("utf-8")
_CHARACTERS = {"n": "\n", "t": "\t", "e": "\x1b", "0": "\0"}

NOTATIONS = tuple(
    re.sub(r"\\(.)", lambda found: _CHARACTERS.get(found[1], found[1]), line)
    for line in _NOTATIONS.strip("\n").split("\n")
)


def _each_line(before: str, behind: str = "") -> Callable[[str], str]:
    return lambda text: "\n".join(f"{before}{line}{behind}" for line in text.split("\n"))


def _broken(width: int) -> Callable[[str], str]:
    """As a terminal of this width breaks lines, wherever in a word."""

    def way(text: str) -> str:
        lines = text.split("\n")
        return "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width))

    return way


def _framed(text: str) -> str:
    return "\n".join(f"│ {line:96} │" for line in _broken(96)(text).split("\n"))


# What programs make of a text before anybody sees it.
WAYS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in one line": lambda text: text.replace("\n", " "),
    "by a rank": _each_line("[rank3]: "),
    "by an actor": _each_line("(WorkerDict pid=7, ip=10.0.0.1) "),
    "by a logger": _each_line("2026-11-20 20:43:43,123 INFO x.py:12 - "),
    "in JSON": lambda text: json.dumps({"log": text}),
    "in JSON in JSON": lambda text: json.dumps({"log": json.dumps({"message": text})}),
    "in a list of Python's": lambda text: repr([text]),
    "in a message": lambda text: f"ValueError: cannot go on: {text.replace(chr(10), ' ')} (see x)",
    "named by an error": lambda text: f"rldoctor: {text.replace(chr(10), ' ')}: no such file; a version is X==Y",
    "quoted": _each_line("> "),
    "in a difference": _each_line("+"),
    "in a table": _each_line("│ ", " │"),
    "further right": _each_line("      "),
    "by the system": _each_line("Nov 27 05:00:01 node7 train[4123]: "),
    "by a container": _each_line("2026-11-27T05:35:37.123456789Z stderr F "),
    "in a frame": _framed,
    "in a terminal": _broken(80),
    "from an old Mac": lambda text: text.replace("\n", "\r"),
    "from Windows": lambda text: text.replace("\n", "\r\n"),
}


def canary() -> str:
    """A secret of its own that no form gives away."""
    tail = "".join(_drawn.choices("abcdefghjkmnpqrstuvwxyz", k=9))
    return (
        f"{SIGN}{_drawn.randint(10, 99)}{tail[:4]}{_drawn.randint(10, 99)}{tail[4:].upper()}{_drawn.randint(10, 99)}q"
    )


def _drawn_from(letters: str, number: int) -> str:
    return "".join(_drawn.choices(letters, k=number))


# As many issuers draw their keys.
SHAPES: dict[str, Callable[[], str]] = {
    "letters and digits": canary,
    "hexadecimal": lambda: (
        f"{_drawn_from('0123456789abcdef', 14)}{SIGN_IN_HEXADECIMAL}{_drawn_from('0123456789abcdef', 14)}"
    ),
    "UUID": lambda: (
        f"{_drawn_from('0123456789abcdef', 8)}-{_drawn.randint(1000, 9999)}-4a1b-8c2d-{SIGN_IN_HEXADECIMAL}"
    ),
    "base64": lambda: f"{_drawn_from(_BASE64, 20)}{SIGN}{_drawn_from(_BASE64, 37)}=",
}


def planted(notation: str, shape: str = "letters and digits") -> str:
    """The notation with a canary in each of its holes."""
    first, *rest = notation.split("{@}")
    return first + "".join(SHAPES[shape]() + piece for piece in rest)
