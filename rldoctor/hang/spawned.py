"""Ranks that a program started with Python's multiprocessing: no variable tells them, their stacks do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rldoctor.hang.model import Seen, Thread
from rldoctor.hang.process_state import role_by_frames, telling
from rldoctor.hang.waits import MEETS, wait_of
from rldoctor.logs.model import Frame

# Between the start of a process and the function that it was started for.
_STARTS = re.compile(r"/multiprocessing/\w+\.py$|torch/multiprocessing/\w+\.py$|^<string>$")


def with_ranks(everyone: Sequence[Seen]) -> tuple[Seen, ...]:
    """The processes, those as ranks that one program started for one function in which any of them meets the
    others."""
    ranks = {seen.pid: seen for peers in _peers(everyone) for seen in peers}
    return tuple(ranks.get(seen.pid, seen) for seen in everyone)


def _peers(everyone: Sequence[Seen]) -> Iterator[list[Seen]]:
    found: dict[tuple[int, str, str], list[Seen]] = {}
    for seen in everyone:
        entry = next((one for thread in seen.threads if thread.main and (one := _entry(thread)) is not None), None)
        if entry is not None and seen.role in ("helper", "other") and role_by_frames(seen.threads) is None:
            found.setdefault((seen.parent, entry.file, entry.function), []).append(seen)
    for (_, _, function), ones in found.items():
        if len(ones) > 1 and any(_meets(seen) for seen in ones):
            yield list(_numbered(ones, function))


def _entry(thread: Thread) -> Frame | None:
    """The function that a process was started for; None where multiprocessing did not start it."""
    beneath = [at for at, frame in enumerate(thread.frames) if _STARTS.search(frame.file)]
    first = next((at for at in range(len(thread.frames)) if beneath and at > beneath[0] and at not in beneath), None)
    return thread.frames[first] if first is not None else None


def _meets(seen: Seen) -> bool:
    thread = telling(seen.threads)
    wait = wait_of(thread.frames) if thread is not None else None
    return wait is not None and wait.kind in MEETS


def _numbered(ones: Sequence[Seen], function: str) -> Iterator[Seen]:
    """With the ranks that their variables tell, where no two of them tell the same."""
    numbers = [next((t.places["rank"] for t in seen.threads if t.main and "rank" in t.places), None) for seen in ones]
    distinct = len({n for n in numbers if n is not None}) == len(ones)
    for seen, number in zip(ones, numbers, strict=True):
        yield replace(seen, role="rank", name=function, rank=str(number) if distinct else None)
