"""Reads the exceptions and crashes that a probe recorded: where a failure began, and in which frames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Link = Mapping[str, Any]

_FATAL_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+) in (\S+)')
_SITE = re.compile(r"/(?:site|dist)-packages/([^/]+)")


def root_of(links: Iterable[Link]) -> Link | None:
    """Where a chain of exceptions, outermost first, began: the last one that others were raised from. What was only
    being handled when another came was a first attempt, and the other is the answer."""
    found: Link | None = None
    for link in links:
        if found is not None and link.get("link") != "cause":
            break
        found = link
    return found


def places(frames: Iterable[Link]) -> list[str]:
    """Frames of an exception as ``file:line in function``."""
    return [f"{frame['file']}:{frame['line']} in {frame['function']}" for frame in frames]


def fatal_frames(tail: Sequence[str]) -> list[dict[str, str | None]]:
    """The Python frames that faulthandler wrote when a process crashed or ran out of time, innermost first, from the
    last lines of a log: of the thread that crashed, else of the main one, which it writes last. Each has a ``text``
    and the ``package`` it is installed in."""
    heads = [i for i, line in enumerate(tail) if "hread 0x" in line and "most recent call first" in line]
    starts = [i for i in heads if "Current thread" in tail[i]] or heads
    frames: list[dict[str, str | None]] = []
    for line in tail[starts[-1] + 1 :] if starts else ():
        match = _FATAL_FRAME.match(line)
        if match is None:
            break
        if not match[1].startswith("<frozen"):
            site = _SITE.search(match[1])
            frames.append({"text": f"{match[1]}:{match[2]} in {match[3]}", "package": site[1] if site else None})
    return frames
