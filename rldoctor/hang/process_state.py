"""What each process of a stalled run is at, from its record: the thread that tells, what it waits for, the stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from rldoctor.hang.model import Hang, Seen, Thread
from rldoctor.hang.waits import MEETS, Wait, bare, wait_of
from rldoctor.logs.code_paths import is_users
from rldoctor.logs.model import Frame
from rldoctor.logs.stages import stage_of
from rldoctor.records import dataclass

# In cores: more than a process uses that only wakes up to look around. One that computes gets no more than its share
# of a crowded machine.
IDLE = 0.05
# Of one wait after the other the samples may all show the same; who only spins in one does not give the processor up.
ALTERNATES = 20.0
# A thread that waits for bytes is woken by them alone; once may be the end of what was sent before.
_BYTES, _TRANSFERS = ("pipe", "socket", "full pipe", "full socket"), 2
# So many bytes are data, and not a flag that is asked for again and again.
_MUCH = 1 << 16
# An engine asks its workers by messages, and reads and writes none while it waits, which it may do spinning: so many
# bytes are those of a hundred steps.
_STEPS = 1 << 10
# What serves a run and does not itself run it.
_SERVES = ("launcher", "helper", "ray service", "ray idle")
# By the kernel's letter for the state: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
STOPPED = {"T": "is stopped by a signal", "t": "is held by a debugger"}
# vLLM names its processes only where setproctitle is installed; their frames always tell.
_BY_FRAME = (
    ("engine", "vllm/v1/engine/core.py", "run_engine_core"),
    ("engine worker", "vllm/v1/executor/multiproc_executor.py", "worker_main"),
)


@dataclass(frozen=True)
class ProcessState:
    """One process of the run and the thread of it that tells most."""

    seen: Seen
    thread: Thread | None

    @property
    def frames(self) -> tuple[Frame, ...]:
        return self.thread.frames if self.thread is not None else ()

    @cached_property
    def wait(self) -> Wait | None:
        return wait_of(self.frames)

    @cached_property
    def moving(self) -> bool:
        """Whether it was somewhere else in another sample, computes or asks between one wait and the next, or gets
        bytes; without stacks, whether it used the processor."""
        if not self.seen.samples:
            return (self.seen.cpu or 0.0) > IDLE
        if self.transfers:
            return True
        if self.thread is not None and self.thread.main and self.wait is not None:
            if self.wait.kind == "workers" and (self.thread.moved or 0) >= _STEPS:
                return True
            alternates = (self.seen.switches or 0.0) > ALTERNATES
            if alternates and (self.cpu or 0.0) > IDLE:
                return True
        return self.thread is not None and _went_on(self.thread)

    @property
    def transfers(self) -> bool:
        """Whether it gets or gives bytes, however slowly: a download, a pipe, a slow disk. Ranks that meet exchange
        none of their data there."""
        if self.thread is None or (self.wait is not None and self.wait.kind in MEETS):
            return False
        if (self.thread.moved or 0) >= _MUCH:
            return True
        blocked = self.thread.blocked
        return blocked is not None and blocked.on in _BYTES and (self.thread.woken or 0) >= _TRANSFERS

    @property
    def cpu(self) -> float | None:
        """What the thread uses of the processor, in cores; where that is not known, the process."""
        return self.thread.cpu if self.thread is not None and self.thread.cpu is not None else self.seen.cpu

    @property
    def busy(self) -> bool:
        """Whether it computes, moving or not. A wait may spin, which is no work."""
        return self.wait is None and (self.cpu or 0.0) > IDLE

    @property
    def stopped(self) -> str:
        """What keeps the kernel from running it: a signal or a debugger; empty where nothing does."""
        return STOPPED.get(self.seen.state, "")

    @property
    def stage(self) -> str | None:
        return stage_of(self.frames)

    @property
    def own(self) -> Frame | None:
        """The innermost frame of the user's own code."""
        return next((frame for frame in reversed(self.frames) if is_users(frame.file)), None)

    @property
    def place(self) -> Frame | None:
        """The frame that says where it is: who called what it waits in, else the user's innermost, else the last."""
        caller = self.wait.caller if self.wait is not None else None
        if self.wait is not None and self.wait.kind in MEETS and caller is not None:
            return caller
        return self.own or caller or next(reversed(self.frames), None)

    @property
    def through(self) -> Frame | None:
        """The user's frame that called :attr:`place`, where that is the user's, too: one helper may serve many."""
        place = self.place
        if place is None or not is_users(place.file) or place not in self.frames:
            return None
        outer = self.frames[: self.frames.index(place)]
        return outer[-1] if outer and is_users(outer[-1].file) else None

    @property
    def kind(self) -> str:
        """Its role, corrected by what its stack shows."""
        return role_by_frames(self.seen.threads) or self.seen.role

    @property
    def label(self) -> str:
        """For people: ``rank 3 (pid 17)``."""
        what = f"rank {self.seen.rank}" if self.seen.rank is not None and self.seen.role == "rank" else self.seen.name
        return f"{what} (pid {self.seen.pid})"

    @property
    def where(self) -> str:
        """``waits in all_reduce at train.py:12 in train`` or ``is in reward_function at train.py:5``."""
        place = self.place
        if place is None:
            kernel = self.thread.wait if self.thread is not None else None
            return f"sleeps in the kernel's {kernel} (no stack)" if kernel else "shows no stack"
        at = f"at {spot(place)}"
        if self.stopped:
            return f"{self.stopped} {at}"
        doing = f"{self.wait.words} {at}" if self.wait is not None else f"is {at}"
        if self.thread is None or self.thread.main or not any(_is_over(one.frames) for one in self.seen.threads):
            return doing
        return f"has ended but for its thread {self.thread.name}, which {doing}"


def spot(frame: Frame) -> str:
    """``reward.py:5 in score``."""
    return f"{Path(frame.file).name}:{frame.line} in {bare(frame)}"


def process_states(hang: Hang) -> list[ProcessState]:
    """The processes that do the run's work."""
    found = [ProcessState(seen, telling(seen.threads)) for seen in hang.processes if seen.state not in ("Z", "X")]
    return [s for s in found if s.kind not in _SERVES]


def telling(threads: Sequence[Thread]) -> Thread | None:
    """Of a process's threads the one that says what it is at: one inside a collective, then one in the user's code,
    then the main thread, which in a Ray worker or a server only waits for work."""
    return max(threads, key=_weight, default=None)


def role_by_frames(threads: Sequence[Thread]) -> str | None:
    """``engine`` or ``engine worker`` where a stack shows it."""
    for thread in threads:
        for frame in thread.frames:
            for role, file, function in _BY_FRAME:
                if frame.file.endswith(file) and bare(frame) == function:
                    return role
    return None


def _is_over(frames: Sequence[Frame]) -> bool:
    """Whether the interpreter is at its end, and only waits there for the other threads."""
    return bool(frames) and bare(frames[-1]) == "_shutdown" and frames[-1].file.endswith("/threading.py")


def _weight(thread: Thread) -> int:
    if _is_over(thread.frames):
        return 0
    wait = wait_of(thread.frames)
    if wait is not None and wait.kind in MEETS:
        return 8 + thread.main
    idle = wait is not None and wait.kind in ("work", "queue", "lock")
    own = any(is_users(frame.file) for frame in thread.frames)
    # Between two pieces of work it waits for the next.
    rests = wait is not None and wait.kind == "work" and not _went_on(thread)
    return 4 * (own and not idle) + 2 * (thread.main and not rests) + own


def _went_on(thread: Thread) -> bool:
    """Whether another sample shows it somewhere else."""
    return any(_at(frames) != _at(thread.frames) for frames in thread.earlier)


def _at(frames: tuple[Frame, ...]) -> object:
    """What two samples are compared by: inside a wait, who waits for what; a poll's own lines do not count."""
    wait = wait_of(frames)
    return (wait.kind, wait.operation, wait.caller) if wait is not None else frames
