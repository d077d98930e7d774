"""A number with its noun."""

from __future__ import annotations


def counted(number: object, noun: str) -> str:
    """``1 node``, ``4 nodes``; a noun that ends in s takes es."""
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"
