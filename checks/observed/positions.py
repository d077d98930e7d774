"""Where a failure is one of positions and the rotary tables that they are looked up in."""

from __future__ import annotations

import re

from rldoctor.api.logs import LoggedException

# Not the `rope` of `property`.
ROTARY_CODE = re.compile(r"(?i:rotary|rotate_half)|(?<![A-Za-z])m?rope(?![a-z])|(?:Rope|RoPE|ROPE)(?![a-z])")
# `cos[position_ids]`, `sin_cached.index_select(0, positions)`: the lookup itself, in whatever function.
_LOOKUP = re.compile(r"\b(?:cos|sin)\w*(?:\[(?!:)|\.index_select\()")
# The call that fails and what called it.
_INNERMOST = 4


def indexes_positions(error: LoggedException | None) -> bool:
    """Whether code of rotary positions, or a lookup in their tables, is where an exception was raised."""
    frames = error.frames[-_INNERMOST:] if error is not None else ()
    said = [f"{frame.file} {frame.function} {frame.code}" for frame in frames]
    return any(ROTARY_CODE.search(text) or _LOOKUP.search(text) for text in said)
