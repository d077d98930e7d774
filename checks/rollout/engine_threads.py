"""Two threads of one process that stand inside one engine: the live side of RLD210."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rldoctor.api import Case, Finding, Fix, Grade, Reach, stalled_run

from ..processes.standing import place_evidence
from .engine_shared import check

if TYPE_CHECKING:
    from rldoctor.api import Frame


@check.observed(needs=["observations.hang"])
def two_threads_inside(case: Case) -> Iterator[Finding | Reach]:
    """Threads of one process that all call an engine, none of which moves."""
    looked = 0
    for one in stalled_run(case).standings:
        inside = [
            (thread, next(frame for frame in thread.frames if _drives(frame)))
            for thread in one.seen.threads
            if not thread.earlier and any(map(_drives, thread.frames))
        ]
        looked += bool(inside)
        if len(inside) < 2:
            continue
        names = ", ".join(thread.name or str(thread.id) for thread, _ in inside[:6])
        yield check.finding(
            f"{len(inside)} threads of {one.label} are inside the engine at once, and none of them goes on: {names}",
            grade=Grade.OBSERVED,
            evidence=tuple(
                place_evidence(f"thread {thread.name} in {frame.function}", frame) for thread, frame in inside
            ),
            fixes=(Fix(title=f"one caller at a time: a lock around every call of the engine in the threads {names}"),),
            url="https://github.com/modelscope/ms-swift/issues/4194",
        )
    yield Reach(f"{looked} processes with a thread inside an engine")


def _drives(frame: Frame) -> bool:
    """Whether a frame is a caller's way into a synchronous engine."""
    name = frame.function.rpartition(".")[2]
    return frame.file.endswith("vllm/entrypoints/llm.py") and name in ("generate", "chat", "_run_engine")
