"""A run that somebody asked to end: a signal to its launcher, Ctrl-C (RLD603)."""

from __future__ import annotations

from rldoctor.api import Fix, Role

from ....observed.endings import cut_short, no_task_ended_before, was_at_work
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
# torch/distributed/elastic/agent/server/api.py: the agent of a node whose workers were done before the others'.
check.signature(
    "Got termination signal: ",
    pattern=r"Got termination signal: (?P<number>\d+)",
    when=was_at_work,
    says="the run was terminated (signal {number}): by a scheduler, a person or a script",
    fixes=(Fix(title="see what the scheduler says of the job, and whether another node failed"), RESUME),
    role=Role.CASCADE,
    silent=True,
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
# A script ends its servers once the trainer is done, and the shell says so in the same words.
# A shell and srun on a child that a signal ended, and coreutils' timeout on the signal that it sends.
check.signature(
    "Terminated",
    "Hangup",
    "timeout: sending signal ",
    pattern=r"(?m)^(?:.{0,200}: line \d+:\s+\d+ )?(?P<signal>Terminated|Hangup)(?:$|\s{2,})"
    r"|^srun: error: (?P<node>\S+): tasks? \S+: (?P<signal_2>Terminated|Hangup)"
    r"|^timeout: sending signal (?P<signal_3>\w+) to command",
    when=lambda case, event: was_at_work(case, event) and no_task_ended_before(case, event),
    says="a signal ended the run[[ on {node}]] ({signal}): a scheduler, a person, a script or a closed session sent it",
    fixes=(
        Fix(title="where a terminal closed, start it so that it outlives it (nohup, tmux, a batch job)"),
        Fix(title="see what the scheduler says of the job (time limit, preemption, memory)"),
        RESUME,
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://man7.org/linux/man-pages/man7/signal.7.html",
)
# OpenSSH's client, in what a terminal recorded.
check.signature(
    "client_loop: send disconnect: ",
    pattern=r"^client_loop: send disconnect: (?P<why>\w[\w ]{2,60})",
    when=was_at_work,
    says="the ssh session broke off ({why}), and with it whatever was not started to outlive it",
    fixes=(
        Fix(title="see on that machine whether the run goes on, and what it writes"),
        Fix(title="start it so that it outlives the session (nohup, tmux, a batch job)"),
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://man.openbsd.org/ssh",
)
check.signature(
    "appears to have died. It will restart automatically",
    when=cut_short,
    says="the notebook's kernel died: the machine's memory, or a crash in native code; why is in the server's own log",
    fixes=(
        Fix(
            title="see whether the kernel of the system killed it",
            commands=("dmesg -T | grep -i -E 'killed process|out of memory'",),
        ),
        Fix(title="run the same as a script: then the signal and the last lines are seen"),
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://jupyter-notebook.readthedocs.io/en/stable/troubleshooting.html",
)
