"""When what a log shows may still count: predicates over how its run ended, for ``when=`` of signatures."""

from __future__ import annotations

import re
from collections.abc import Callable

from rldoctor.api import Case, LogEvent
from rldoctor.api.logs import LoggedException

# From here on a shell's exit codes tell of signals, which others sent.
_BY_SIGNAL = 128
# What srun says of a task.
_ENDS_OF_TASKS = frozenset({"exit code", "Killed", "Segmentation fault", "Aborted", "Bus error"})


def unfinished(case: Case, event: LogEvent) -> bool:
    """Whether the run did not come to its end all the same: what a cluster tries again may succeed."""
    return not event.finished


def before_its_end(case: Case, event: LogEvent) -> bool:
    """Whether the run had not come to its end, nor comes to it all the same: what is left behind it is taken down."""
    return unfinished(case, event) and not event.outlived


_OF_A_POD = re.compile(r"\bpod/([\w.-]+)", re.IGNORECASE)


def pod_never_was(*states: str) -> Callable[[Case, LogEvent], bool]:
    """Whether the run did not come to its end, and no event behind the line tells that Kubernetes had the pod in one of
    these states after all: a pod may wait for its node, or its volume, for a while."""
    reached = re.compile(rf"\bNormal\s+(?:\S+\s+)?(?:{'|'.join(states)})\b")

    def condition(case: Case, event: LogEvent) -> bool:
        pod = _OF_A_POD.search(event.line)
        later = (line for line in (*event.after, *event.run.tail) if reached.search(line))
        others = (_OF_A_POD.search(line) for line in later)
        return unfinished(case, event) and not any(
            pod is None or other is None or other[1] == pod[1] for other in others
        )

    return condition


def was_raised(case: Case, event: LogEvent) -> bool:
    """Whether it is an exception's words: who tries again or leaves a row out says the same in a line."""
    return event.exception is not None


def nothing_failed_before(case: Case, event: LogEvent) -> bool:
    """Whether the run was sound until somebody ended it: what failed by itself before may have left it waiting."""
    root = event.run.root
    left = (one for one in event.run.departed if one.source == event.source and one.line < event.number)
    if any(0 < one.code < _BY_SIGNAL for one in left):
        return False
    # An exception that says itself what ended the run is no failure before that.
    if root is None or (event.outside and root.line == event.number and root.source == event.source):
        return True
    if event.exception is root and event.literal in root.message.partition("\n")[0]:
        return True
    return "Signal" in root.type or (root.source == event.source and root.line > event.number)


def was_sound(case: Case, event: LogEvent) -> bool:
    """Whether nothing had failed, and the trainer not said its last words: what is left then is ended, too."""
    return not event.outlived and nothing_failed_before(case, event)


def cut_short(case: Case, event: LogEvent) -> bool:
    """Whether the run was sound and had not come to its end: behind that, servers and machines are taken down too."""
    return unfinished(case, event) and was_sound(case, event)


def given_back(event: LogEvent) -> bool:
    """Whether who had asked Slurm for the allocation left it himself, which then revokes it."""
    return any("Relinquishing job allocation " in line for line in event.before)


def was_at_work(case: Case, event: LogEvent) -> bool:
    """Whether the run was cut short, and had not said that it was done, be it a script's word: a signal that nobody
    explains reaches what is left of a run, too."""
    return not event.after_done and cut_short(case, event)


# What ends a process by its own doing. An abort is what its watchdogs do to it, too.
_CRASHES = re.compile(
    r"(?:Fatal Python error: )?"
    r"(?:SIG(?:SEGV|BUS|ILL|FPE)|Segmentation fault|Bus error|Illegal instruction|Floating point exception)\b"
)


def crashed_before(event: LogEvent) -> LoggedException | None:
    """The first crash in native code that the log shows above a line."""
    before = (one for one in event.run.failures if one.source == event.source and one.line < event.number)
    return next((one for one in before if _CRASHES.match(str(one))), None)


def no_task_ended_before(case: Case, event: LogEvent) -> bool:
    """Whether it is the first that is said of an end: Slurm cancels a step of which a task has failed, too, and the
    steps of servers and of Ray's nodes once the run has come to its end."""
    if event.finished or event.outlived or event.after_done:
        return False
    ended = (one for one in event.run.failures if one.source == event.source and one.line < event.number)
    return nothing_failed_before(case, event) and not any(one.type in _ENDS_OF_TASKS for one in ended)
