"""Reads what the sleep scenario told before the engine slept and after it woke up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .agreement import Noise, difference

Told = Mapping[str, Any]


def changes(before: Told, after: Told, noise: Noise) -> Iterator[tuple[str, str]]:
    """What is not as it was, and the numbers that show it; the gravest first."""
    values = [*after["scores"], *after["seen"]["logprobs"]]
    lost = [value for value in values if not _is_number(value)]
    if lost and all(map(_is_number, before["scores"])):
        yield "its log-probabilities are no numbers", f"{len(lost)} of {len(values)}, such as {lost[0]}"
        return
    fixed = difference(before["scores"], after["scores"])
    if fixed.beyond(noise):
        yield "what it computes differs", f"fixed tokens: {fixed}"
    seen = _parting(before["seen"], after["seen"], noise)
    if seen is not None:
        yield "what it continues from cached prompts differs", f"a prompt seen before: {seen}"


def _parting(before: Told, after: Told, noise: Noise) -> str | None:
    """How a greedy continuation differs from the one before beyond rounding, or None. What follows another token is
    another text."""
    pairs = list(zip(before["token_ids"], after["token_ids"], strict=False))
    place = next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))
    apart = difference(before["logprobs"][:place], after["logprobs"][:place]) if place else None
    if apart is not None and apart.beyond(noise):
        return str(apart)
    if place == len(pairs):
        return None
    one, other = pairs[place]
    tops = {int(token): float(value) for token, value in before["tops"][place]}
    held, now = tops.get(other, min(tops.values())), after["logprobs"][place]
    gap = before["logprobs"][place] - held
    # The reading of each of the two tokens is off by no more than the noise.
    if gap <= 2 * noise.largest and abs(now - held) <= noise.largest:
        return None
    return f"token {other} ({now:.3g}) in place of {one} after {place} equal ones, held for {held:.3g} before"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
