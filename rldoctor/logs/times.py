"""The times that log lines carry, as numbers that can be compared."""

from __future__ import annotations

import re

# ISO dates of every kind, vLLM's `11-20 20:43:43` and glog's `1120 20:49:56.03`; the year is read over, for most lack
# it.
_TIME = re.compile(
    r"(?:(?:\d{4}[-/])?(?P<month>\d\d)[-/]?(?P<day>\d\d)[T "
    r"_])?(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
)
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)


def seconds(text: str) -> float | None:
    """Seconds since the year began (since midnight where there is no date), or None where ``text`` is no time."""
    match = _TIME.match(text.strip())
    if match is None:
        return None
    clock = int(match["h"]) * 3600 + int(match["m"]) * 60 + int(match["s"])
    fraction = float(f"0.{match['fraction']}") if match["fraction"] else 0.0
    if match["month"] is None:
        return clock + fraction
    month, day = int(match["month"]), int(match["day"])
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    return (_DAYS_BEFORE[month - 1] + day - 1) * 86400.0 + clock + fraction
