"""The one error that ends a command with a clear line and exit code 2, and how any other becomes one line."""

from __future__ import annotations

from collections.abc import Iterable


class InputError(Exception):
    """What the user gave cannot be used; the message is one line that says what and where, also where a name in it has
    several. ``choices`` are what the user can take instead, a line each behind it."""

    def __init__(self, message: object, choices: Iterable[object] = ()) -> None:
        super().__init__("\n  ".join(" ".join(str(part).splitlines()) for part in (message, *choices)))


def one_line(error: BaseException) -> str:
    """``Type: message`` of any exception, also of one that cannot say what it is; of a long message the first line."""
    try:
        said = str(error).strip()
    except Exception:  # a third party's exception may break in its own __str__
        said = "(an exception that cannot be printed)"
    name = type(error).__name__
    return f"{name}: {said.splitlines()[0]}" if said else name
