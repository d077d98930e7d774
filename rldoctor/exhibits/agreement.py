"""What the engine and the trainer think of the same tokens, where a probe asked both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.case import Case
from rldoctor.exhibits.model import Agreement

# Points that are drawn; the tokens furthest apart are among them.
POINTS = 300


def of(case: Case) -> Agreement | None:
    """Every token that both were asked for; None where no probe did."""
    pairs = [pair for job in case.observations.get("agreement", {}).values() for pair in _pairs(job.get("records", {}))]
    if not pairs:
        return None
    apart = [abs(engine - trainer) for trainer, engine in pairs]
    furthest = sorted(range(len(pairs)), key=lambda place: -apart[place])[: POINTS // 3]
    stride = max(1, math.ceil(len(pairs) / (POINTS - len(furthest))))
    return Agreement(
        points=tuple(pairs[place] for place in sorted({*range(0, len(pairs), stride), *furthest})),
        tokens=len(pairs),
        mean=math.fsum(apart) / len(apart),
        largest=max(apart),
    )


def _pairs(records: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """(trainer's, engine's) of the tokens of every request, and of the whole vocabulary."""
    for row in (*records.get("plain", ()), *records.get("cached", ()), records.get("vocabulary", {})):
        for trainer, engine in zip(row.get("trainer", ()), row.get("engine", ()), strict=False):
            if all(isinstance(one, int | float) and math.isfinite(one) for one in (trainer, engine)):
                yield float(trainer), float(engine)
