"""Many texts by how they begin. Looking for them costs the same however many there are; among those that begin alike,
as often as they can be halved."""

from __future__ import annotations

from bisect import bisect_right, insort


class Beginnings:
    """Texts that have at least ``length`` characters, by the first ones."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._alike: dict[str, list[str]] = {}
        self._longest = 0

    def add(self, text: str) -> None:
        """Keeps a text that is not kept yet."""
        insort(self._alike.setdefault(text[: self._length], []), text)
        self._longest = max(self._longest, len(text))

    def clear(self) -> None:
        """Forgets all."""
        self._alike.clear()
        self._longest = 0

    def whole(self, text: str, start: int) -> str | None:
        """The longest of them that stands at ``start``."""
        kept = self._alike.get(text[start : start + self._length], [])
        held = text[start : start + self._longest] if kept else ""
        while at := bisect_right(kept, held):
            before = kept[at - 1]
            if held.startswith(before):
                return before
            held = held[: _shared(held, before)]
        return None

    def begun(self, text: str, start: int) -> tuple[str, int] | None:
        """The one of which most stands at ``start``, and how many characters of it."""
        kept = self._alike.get(text[start : start + self._length])
        if not kept:
            return None
        held = text[start : start + self._longest]
        at = bisect_right(kept, held)
        return max(((near, _shared(held, near)) for near in kept[max(0, at - 1) : at + 1]), key=lambda pair: pair[1])


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common before they differ."""
    same, least = 0, min(len(one), len(other)) + 1
    while least - same > 1:
        middle = (same + least) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            least = middle
    return same
