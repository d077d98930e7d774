"""Slips of the pen: a word that is nearly another one."""

from __future__ import annotations

from collections.abc import Sequence


def slip(word: str, names: Sequence[str]) -> str | None:
    """The one of ``names`` that ``word`` is a slip of: a letter left out, put in or doubled, or two that changed
    places."""
    if word in names:
        return None

    def shorter(text: str) -> set[str]:
        return {text[:i] + text[i + 1 :] for i in range(len(text))}

    def swapped(text: str) -> set[str]:
        return {text[:i] + text[i + 1] + text[i] + text[i + 2 :] for i in range(len(text) - 1)}

    found = [name for name in names if word in shorter(name) | swapped(name) or name in shorter(word)]
    return found[0] if found and len(word) > 2 else None
