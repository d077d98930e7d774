"""Which code comes first where one line or one failure shows several (the end of CODES.md), as data."""

from __future__ import annotations

import re

# Each pair: the left code before the right one, whichever stands earlier in the log. The specific before the general,
# the cause before what it causes.
BEFORE: tuple[tuple[str, str], ...] = (
    ("RLD110", "RLD101"),
    ("RLD111", "RLD101"),
    ("RLD103", "RLD101"),
    ("RLD217", "RLD201"),
    ("RLD210", "RLD201"),
    ("RLD208", "RLD305"),
    ("RLD216", "RLD305"),
    ("RLD304", "RLD301"),
    ("RLD310", "RLD311"),
    ("RLD504", "RLD404"),
    ("RLD206", "RLD321"),
    ("RLD604", "RLD603"),
    ("RLD604", "RLD606"),
    ("RLD601", "RLD603"),
    ("RLD602", "RLD603"),
    ("RLD606", "RLD603"),
    ("RLD113", "RLD114"),
    ("RLD113", "RLD320"),
    ("RLD610", "RLD114"),
    ("RLD322", "RLD320"),
    ("RLD324", "RLD323"),
    ("RLD324", "RLD321"),
    ("RLD323", "RLD321"),
    ("RLD320", "RLD321"),
    ("RLD406", "RLD323"),
    ("RLD302", "RLD320"),
    ("RLD311", "RLD501"),
    ("RLD503", "RLD501"),
)

# Codes that, found in a log without any failure, say that the run stands still.
STALLS = ("RLD602", "RLD607", "RLD609")

FALLBACKS = ("RLD902", "RLD900")
# Codes that record the death of a process, and how an end by a signal is called.
DEATHS = ("RLD603", "RLD606")
NATIVE = re.compile(r"SIG[A-Z]+$|(?:Segmentation fault|Killed|Aborted|Bus error|Illegal instruction|Fatal signal)$")
OUTSIDE = "RLD901"
