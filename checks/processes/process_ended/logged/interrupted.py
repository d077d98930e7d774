"""A run that somebody asked to end: a signal to its launcher, Ctrl-C (RLD603)."""

from __future__ import annotations

from rldoctor.api import Fix, Role

from .. import check
from ..fixes import RESUME

check.signature(
    "death signal, shutting down workers",
    "multiprocessing.api.SignalException: Process ",
    "*** SIGTERM received at time=",
    details=(r"Received (?P<number>\d+) death signal", r"got signal: (?P<number>\d+)"),
    says="the run was terminated (signal {number|15}): by a scheduler, a person or a script",
    fixes=(
        Fix(
            title="see what the scheduler says of the job (time limit, preemption, memory), and whether "
            "another node failed"
        ),
        RESUME,
    ),
    role=Role.CASCADE,
    url="https://pytorch.org/docs/stable/elastic/agent.html",
)
check.signature(
    "KeyboardInterrupt",
    when=lambda case, event: event.exception is not None and event.exception.chain[0].type == "KeyboardInterrupt",
    details=(r"KeyboardInterrupt: (?P<sent>terminated)",),
    says="the run was interrupted[[ ({sent}: SIGTERM)|| (Ctrl-C, SIGINT)]]: by a person, a script or a scheduler",
    fixes=(
        Fix(
            title="if nobody meant to: see what else ran in that session, and start it so that it outlives the "
            "terminal (nohup, tmux, a batch job)"
        ),
        Fix(
            title="if it stood still before: the frames show where; next time ask the living run",
            commands=("rldoctor hang",),
        ),
        RESUME,
    ),
    role=Role.CASCADE,
    url="https://docs.python.org/3/library/exceptions.html#KeyboardInterrupt",
)
