"""Slips of the pen: a word that is nearly another one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from rldoctor.plan.model import UnknownOption

_SHORT = 4  # what is shorter is an abbreviation, which a letter makes another one
_LONG = 6
_SIGNS = re.compile(r"[-_]")


# Two keys of which one was meant to be the other.
_MISSPELLED = 0.9


def misspelled(one: UnknownOption, further: Sequence[str] = ()) -> bool:
    """Whether a key was meant to be one that some release has, and not one of the launch's own: a release before or
    after has it, or it is all but its nearest names or one of the ``further`` ones."""
    if one.since or one.until:
        return True
    return bool(get_close_matches(one.key, [*one.nearest, *further], 1, _MISSPELLED))


def slip(word: str, names: Sequence[str]) -> str | None:
    """The one of ``names`` that ``word`` is a slip of: a letter left out, put in or doubled, two that changed places,
    or other signs between its parts. With a digit, a letter in front, an s or another letter behind a short name
    (``dapo2``, ``main_gppo``, ``rewards``, ``grpox``), a word is rather another name."""
    if word in names or len(word) < _SHORT - 1:
        return None
    slips = (_joined, _swapped, _left_out, _put_in)
    return next((name for name in names if any(is_slip(word, name) for is_slip in slips)), None)


def _joined(word: str, name: str) -> bool:
    return _SIGNS.sub("", word) == _SIGNS.sub("", name)


def _swapped(word: str, name: str) -> bool:
    other = [i for i, (one, two) in enumerate(zip(word, name, strict=False)) if one != two]
    first = other[0] if other else 0
    return len(word) == len(name) and len(other) == 2 and word[first : first + 2] == name[first : first + 2][::-1]


def _left_out(word: str, name: str) -> bool:
    at = _more(name, word)
    return at is not None and (len(word) >= _SHORT or _doubles(name, at))


def _put_in(word: str, name: str) -> bool:
    at = _more(word, name)
    if at is None or len(name) < _SHORT:
        return at is not None and _doubles(word, at)
    within = word[at - 1 : at].isalpha() and word[at + 1 : at + 2].isalpha()
    behind = at == len(name) and name.isalpha() and len(name) >= _LONG and word[at] != "s"
    return within or behind or _doubles(word, at)


def _more(long: str, short: str) -> int | None:
    """Where ``long`` has the one letter that it has more than ``short``."""
    at = next((i for i, (one, two) in enumerate(zip(long, short, strict=False)) if one != two), len(short))
    return at if long[:at] + long[at + 1 :] == short and not long[at : at + 1].isdigit() else None


def _doubles(text: str, at: int) -> bool:
    return text[at] in (text[at - 1 : at], text[at + 1 : at + 2])
