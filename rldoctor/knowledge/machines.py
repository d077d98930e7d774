"""Machines that many have, by short names such as ``8xH100-80GB``."""

from __future__ import annotations

import re
from difflib import get_close_matches

from rldoctor.knowledge import table
from rldoctor.records import dataclass

_NAMED = re.compile(r"(?:(?P<count>\d{1,4})x)?(?P<name>[A-Za-z0-9-]+)")
# The GPUs of one machine, or of a pool that is judged as one.
MOST = 1024


@dataclass(frozen=True, kw_only=True)
class Device:
    """One kind of GPU: the driver's name for it, its memory in MiB and its compute capability."""

    name: str
    memory_mib: int
    compute_capability: str


def devices() -> dict[str, Device]:
    """The kinds of GPUs by their short names."""
    return {name: Device(**row) for name, row in table("machines").items() if isinstance(row, dict)}


def named(text: str) -> tuple[int, Device] | None:
    """How many GPUs of which kind a name such as ``8xH100-80GB`` means; None where it means nothing known."""
    found = _NAMED.fullmatch(text)
    known = {name.lower(): device for name, device in devices().items()}
    device = known.get(found["name"].lower()) if found else None
    count = int(found["count"] or 1) if found else 0
    return (count, device) if device is not None and 1 <= count <= MOST else None


def nearest(text: str) -> str | None:
    """The known name that is most like the one given, with its count."""
    found = _NAMED.fullmatch(text)
    by_lower = {name.lower(): name for name in devices()}
    near = get_close_matches(found["name"].lower(), by_lower, 1, cutoff=0.5) if found else []
    count = int(found["count"] or 1) if found else 0
    return f"{min(max(count, 1), MOST)}x{by_lower[near[0]]}" if near else None
