"""The values in a nested configuration, by their dotted names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

PLAIN = (bool, int, float, str)
Inside = Callable[[Any], "Mapping[str, Any] | None"]


def of_a_dictionary(node: Any) -> Mapping[str, Any] | None:
    """What a dictionary holds; None of anything else."""
    return node if isinstance(node, dict) else None


def leaves(
    node: Any, inside: Inside = of_a_dictionary, kept: tuple[type, ...] = PLAIN, above: str = ""
) -> Iterator[tuple[str, Any]]:
    """Of what is ``inside`` a node, and of that in turn, what is of a type that is ``kept``."""
    held = inside(node)
    if held is None:
        if isinstance(node, kept):
            yield above, node
        return
    for name, value in held.items():
        yield from leaves(value, inside, kept, f"{above}.{name}" if above else str(name))
