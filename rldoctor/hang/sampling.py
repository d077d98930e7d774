"""Watches the processes of a run for some seconds: several stacks of each, and what they did with the processor."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

from rldoctor.facts import proc
from rldoctor.facts.blocked import Blocked, Kernel
from rldoctor.facts.proc import Task
from rldoctor.hang import stacks
from rldoctor.hang.model import Thread
from rldoctor.hang.runs import Member, Run
from rldoctor.hang.stacks import Stack, UnreadableError
from rldoctor.hang.waits import wait_of
from rldoctor.logs.model import Frame
from rldoctor.records import dataclass

SAMPLES = 5
# py-spy takes a hundredth of a second of one processor, more where it first reads a large process's symbols.
PARALLEL = 4
# What Ray runs for itself says nothing about a run, and there may be hundreds of idle workers.
_NOT_READ = ("ray service", "ray idle")


@dataclass
class Watched:
    """What was seen of one process. ``unread`` says why there is no stack."""

    member: Member
    samples: list[tuple[Stack, ...]] = field(default_factory=list)
    tasks: list[dict[int, Task]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    switches: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    blocked: dict[int, Blocked] = field(default_factory=dict)
    unread: str | None = None
    ended: bool = False

    @property
    def cpu(self) -> float | None:
        """Processor use in cores."""
        if len(self.ticks) < 2 or self.times[-1] <= self.times[0]:
            return None
        return round((self.ticks[-1] - self.ticks[0]) / proc.TICKS / (self.times[-1] - self.times[0]), 3)

    @property
    def helped(self) -> float | None:
        """Processor use, in cores, of what it started and what is no part of the run."""
        if len(self.below) < 2 or self.times[-1] <= self.times[0]:
            return None
        spent = max(self.below[-1] - self.below[0], 0)  # one that ends unseen takes its time with it
        return round(spent / proc.TICKS / (self.times[-1] - self.times[0]), 3)

    @property
    def switch_rate(self) -> float | None:
        """How often in a second the main thread gave up the processor."""
        if len(self.switches) < 2 or self.times[-1] <= self.times[0]:
            return None
        return round((self.switches[-1] - self.switches[0]) / (self.times[-1] - self.times[0]), 1)

    @property
    def state(self) -> str:
        """The last state, or ``S`` where it changed: only what stays counts."""
        return self.states[-1] if len(set(self.states)) == 1 else "S"

    def threads(self) -> tuple[Thread, ...]:
        """The threads that run Python; without stacks the main thread as the kernel sees it."""
        if not self.samples:
            number = self.member.process.pid
            return (self._thread(Stack(number, "", True, ()), []),)
        earlier = [{stack.thread or stack.name: stack.frames for stack in sample} for sample in self.samples[:-1]]
        return tuple(
            self._thread(stack, [one.get(stack.thread or stack.name, ()) for one in earlier])
            for stack in self.samples[-1]
        )

    def _thread(self, stack: Stack, earlier: list[tuple[Frame, ...]]) -> Thread:
        seen = [tasks[stack.thread] for tasks in self.tasks if stack.thread in tasks]
        last = seen[-1] if seen else None
        long = self.times[-1] - self.times[0] if self.times else 0.0
        cpu = round((seen[-1].ticks - seen[0].ticks) / proc.TICKS / long, 3) if len(seen) > 1 and long > 0 else None
        blocked = self.blocked.get(stack.thread) if stack.thread is not None else None
        return Thread(
            id=stack.thread,
            name=stack.name or (last.name if last else ""),
            main=stack.main,
            frames=stack.frames,
            earlier=tuple(frames for frames in dict.fromkeys(earlier) if frames != stack.frames),
            cpu=cpu,
            state=last.state if last and len({task.state for task in seen}) == 1 else "S" if last else None,
            wait=last.wait if last else None,
            blocked=blocked,
            woken=_woken(blocked, _grown([task.switches for task in seen]), long),
            moved=_grown([task.moved for task in seen]),
            places=stack.places,
        )


def _grown(counts: Sequence[int | None]) -> int | None:
    """By how much a counter grew from the first look to the last."""
    known = [count for count in counts if count is not None]
    return known[-1] - known[0] if len(known) > 1 else None


def _woken(blocked: Blocked | None, switched: int | None, seconds: float) -> int | None:
    """How often what a thread waits for woke it, without the ends of its own time limit."""
    if blocked is None or switched is None:
        return None
    if blocked.limit is None:
        return switched
    return max(switched - math.ceil(seconds / blocked.limit), 0) if blocked.limit else 0


def watch(run: Run, seconds: float, py_spy: str | None) -> tuple[list[Watched], Kernel]:
    """All members of the run, each looked at :data:`SAMPLES` times within ``seconds``, and the kernel's tables after
    the last time."""
    watched = [Watched(member) for member in run.members]
    for one in watched:
        if not one.member.process.is_there:
            one.unread = "it has ended and nobody has collected it (a zombie)"
        elif one.member.role.kind in _NOT_READ or not one.member.python:
            one.unread = "no Python of the run"
        elif py_spy is None:
            one.unread = f"py-spy is not installed ({stacks.GET_IT})"
    started = time.monotonic()
    pool = ThreadPoolExecutor(PARALLEL)
    try:
        for number in range(SAMPLES):
            time.sleep(max(0.0, started + seconds * number / (SAMPLES - 1) - time.monotonic()))
            _look(watched, py_spy, pool)
        kernel = Kernel(proc.table())
        _ask(kernel, watched)
    finally:
        # After Ctrl-C nothing new is begun; a py-spy that runs ends within its own time limit.
        pool.shutdown(wait=True, cancel_futures=True)
    return watched, kernel


def _look(watched: Sequence[Watched], py_spy: str | None, pool: ThreadPoolExecutor) -> None:
    """One sample of every process that is still the one it was."""
    parents = {pid: process.parent for pid, process in proc.table().items()}
    parts = {one.member.process.pid for one in watched if one.member.role.marks_run}
    for one in watched:
        now = proc.read(one.member.process.pid)
        if now is None or now.started != one.member.process.started:
            one.ended = True
            continue
        one.states.append(now.state)
        spent, switched = proc.ticks(now.pid), proc.switches(now.pid)
        if spent is not None and switched is not None:
            one.times.append(time.monotonic())
            one.ticks.append(spent)
            one.switches.append(switched)
            one.below.append(proc.ticks_below(now.pid, parents, parts))
            one.tasks.append(proc.tasks(now.pid) if one.unread is None or one.samples == [] else {})
    if py_spy is None:
        return
    due = [one for one in watched if not one.ended and (one.unread is None)]
    for one, read in zip(due, pool.map(lambda w: _stacks(py_spy, w), due), strict=True):
        if isinstance(read, UnreadableError):
            one.unread = str(read)
        else:
            one.samples.append(read)


def _ask(kernel: Kernel, watched: Sequence[Watched]) -> None:
    """What the threads that run Python wait on, after the last sample."""
    here = {one.member.process.pid for one in watched}
    for one in watched:
        pid = one.member.process.pid
        if one.ended or not one.member.python:
            continue
        for stack in one.samples[-1] if one.samples else (Stack(pid, "", True, ()),):
            if stack.thread is None:
                continue
            wait = wait_of(stack.frames)
            polls = wait is not None and wait.kind == "file lock"
            blocked = kernel.polled_lock(pid, here) if polls else kernel.blocked(pid, stack.thread)
            if blocked is not None:
                one.blocked[stack.thread] = blocked


def _stacks(py_spy: str, watched: Watched) -> tuple[Stack, ...] | UnreadableError:
    try:
        return stacks.read(py_spy, watched.member.process.pid)
    except UnreadableError as error:
        return error
