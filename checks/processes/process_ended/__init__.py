"""A process or the whole job died or was ended from outside, and this log does not say why.

What it looks for
    Ray's reports of a death: ``ActorDiedError``, ``WorkerCrashedError``, the raylet's ``A worker died or was
    killed``, a lost node. They are consequences: any cause in the log goes before them. And what ended, or never
    started, the processes from outside, in the words of Slurm, Kubernetes, LSF, PBS, HTCondor, Flux and clouds
    (preemption, time limit, node failure, eviction, a refused job, an image that cannot be pulled), an interruption
    (Ctrl-C, SIGTERM), Ray's head that is gone, a runtime environment that Ray cannot build.

Why it hurts
    The driver learns only that the process is gone. What killed it (a signal, the kernel's memory killer, a crash in
    native code) stands in the worker's own log or in the kernel's.

How sure it is
    That the actor died is certain. Why is not known from these lines; the ones that Ray lists are guesses. A
    scheduler says why it ended a job, and then nothing in the run is at fault.

The fix and its cost
    Fetch the log of the worker that died and judge it together with this one. What a scheduler ended is submitted
    again and resumes from its last checkpoint.

References
    https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
    ``ray/exceptions.py`` (2.46): ``ActorDiedError``, ``WorkerCrashedError``, ``NodeDiedError``,
    ``RuntimeEnvSetupError``
    https://slurm.schedmd.com/preempt.html
    https://kubernetes.io/docs/concepts/scheduling-eviction/
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, Fix, Kind, LogEvent, Role

from ...observed.endings import crashed_before

check = Check("RLD603", "process-ended", __doc__, formerly=("ray-actor-died",), before=("RLD323",), kind=Kind.DEATH)


@check.logged(
    "The actor died unexpectedly before finishing this task",
    "The actor is dead because its worker process has died",
    "A worker died or was killed while executing a task by an unexpected system error",
    "The worker died unexpectedly while executing this task",
    "The actor died because its node has died",
    "The actor is dead because its node has died",
    role=Role.CASCADE,
    # Whoever says why the node went is nearer to the cause.
    general=True,
)
def death_recorded(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A process that Ray watched is gone."""
    name = event.search(r"class_name: (\S+)")
    detail = event.search(r"Worker exit detail: ([^\n]{1,160}?)(?:\.\s|$)")
    lost = event.search(r"the actor's node was ((?:terminated (?:un)?expectedly|preempted): [^\n]{1,160})")
    pid = event.search(r"\b(?:Worker PID|pid): (\d+)")
    address = event.search(r"\b(?:Worker IP address|ip): ([\d.]*\d)")
    where = f" (pid {pid[1]}{f' on {address[1]}' if address else ''})" if pid else ""
    log = f"/tmp/ray/session_latest/logs/worker-*-{pid[1]}.err" if pid else "/tmp/ray/session_latest/logs/worker-*.err"
    node = " on that node" if address else ""
    with_node = event.search(r"The actor (?:died|is dead) because its node has died")
    how = " with its node" if with_node else ""
    said = lost or detail
    signal = event.search(r"The process receives? a (SIG[A-Z]{3,6})\b")
    own = event.evidence()
    crash = crashed_before(event)
    if crash is None:
        why = f"{f': {said[1]}' if said else ''}{f' ({signal[1]})' if signal else ''}; the cause is not in this log"
    elif pid is None or crash.origin.pid in (None, pid[1]):
        why = f" of a crash in native code ({crash.type})"
    else:
        why = f" after {crash.origin.label} had crashed in native code ({crash.type})"
    # Ray names every identifier of the worker before it says how that ended.
    end = event.search(r"Worker exit type: [^\n]{1,400}")
    seen = () if crash is None else (Evidence(text=str(crash)[:500], source=crash.source, line=crash.line),)
    rest = (event.evidence(end[0].strip()),) if end is not None and end[0].strip() not in own.text else ()
    yield check.finding(
        f"the {f'actor {name[1]}' if name else 'worker'}{where} died{how}{why}",
        evidence=(own, *seen, *rest),
        fixes=(
            Fix(title=f"read the dead worker's own log{node} and judge it too", commands=(f"rldoctor triage {log}",)),
            Fix(
                title=f"see whether the kernel killed it{node}",
                commands=("dmesg -T | grep -i -E 'killed process|out of memory'",),
            ),
        ),
        url="https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html",
    )
