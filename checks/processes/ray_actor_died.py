"""A Ray actor or worker died, and this log does not say why.

What it looks for
    Ray's reports of a death: ``ActorDiedError``, ``WorkerCrashedError``, the raylet's ``A worker died or was
    killed``, a lost node. They are consequences: any cause in the log goes before them.

Why it hurts
    The driver learns only that the process is gone. What killed it (a signal, the kernel's memory killer, a crash in
    native code) stands in the worker's own log or in the kernel's.

How sure it is
    That the actor died is certain. Why is not known from these lines; the ones that Ray lists are guesses.

The fix and its cost
    Fetch the log of the worker that died and judge it together with this one.

References
    https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
    ``ray/exceptions.py`` (2.46): ``ActorDiedError``, ``WorkerCrashedError``, ``NodeDiedError``
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, Kind, LogEvent, Role

check = Check("RLD603", "ray-actor-died", __doc__, kind=Kind.DEATH)


@check.logged(
    "The actor died unexpectedly before finishing this task",
    "The actor is dead because its worker process has died",
    "A worker died or was killed while executing a task by an unexpected system error",
    "The worker died unexpectedly while executing this task",
    "The actor died because its node has died",
    "The task's local raylet died",
    "has been marked dead because the detector has missed too many heartbeats",
    role=Role.CASCADE,
)
def death_recorded(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A process that Ray watched is gone."""
    name = event.search(r"class_name: (\S+)")
    detail = event.search(r"Worker exit detail: ([^\n]{1,160}?)(?:\.\s|$)")
    pid, address = event.search(r"\bpid: (\d+)"), event.search(r"\bip: ([\d.]+)")
    where = f" (pid {pid[1]}{f' on {address[1]}' if address else ''})" if pid else ""
    log = f"/tmp/ray/session_latest/logs/worker-*-{pid[1]}.err" if pid else "/tmp/ray/session_latest/logs/worker-*.err"
    node = " on that node" if address else ""
    yield check.finding(
        f"the {f'actor {name[1]}' if name else 'worker'}{where} died"
        f"{f': {detail[1]}' if detail else ''}; the cause is not in this log",
        fixes=(
            Fix(title=f"read the dead worker's own log{node} and judge it too", commands=(f"rldoctor triage {log}",)),
            Fix(
                title=f"see whether the kernel killed it{node}",
                commands=("dmesg -T | grep -i -E 'killed process|out of memory'",),
            ),
        ),
        url="https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html",
    )


@check.logged(
    "The actor died because of an error raised in its creation task",
    "ray.exceptions.RayActorError",
    "ray.exceptions.ActorDiedError",
    "ray.exceptions.ActorUnavailableError",
    role=Role.WRAPPER,
)
def passed_on(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Ray hands an exception over to the caller; what it carries is judged by itself."""
    yield from ()
