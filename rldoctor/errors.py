"""The one error that ends a command with a clear line and exit code 2, and how any other becomes one line."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class InputError(Exception):
    """What the user gave cannot be used; the message is one line that says what and where, also where a name in it has
    several. ``choices`` are what the user can take instead, a line each behind it."""

    def __init__(self, message: object, choices: Iterable[object] = ()) -> None:
        super().__init__("\n  ".join(" ".join(str(part).splitlines()) for part in (message, *choices)))


class OutOfScopeError(InputError):
    """What the user gave was understood, and is nothing that rldoctor judges."""


def one_line(error: BaseException) -> str:
    """``Type: message`` of any exception, also of one that cannot say what it is; of a long message the first line."""
    try:
        said = str(error).strip()
    except Exception:  # a third party's exception may break in its own __str__
        said = "(an exception that cannot be printed)"
    name = type(error).__name__
    return f"{name}: {said.splitlines()[0]}" if said else name


def meant(given: str, known: Collection[str], alike: float = 0.6) -> str | None:
    """The name among those known that is nearest to what was given; None where none is near. ``alike``, from 0 to 1, is
    the share of the letters that has to fit."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(given, known, 1, alike)), None)


def meant_or_known(given: str, known: Collection[str], alike: float = 0.6) -> str:
    """A clause that names the nearest of the names that are known, or all of them."""
    near = meant(given, known, alike)
    return f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
