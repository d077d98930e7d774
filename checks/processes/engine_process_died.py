"""A process of the rollout engine is gone.

What it looks for
    vLLM's records of a death: ``Worker proc ... died unexpectedly`` (with an exit code in newer releases), ``Engine
    core proc ... died unexpectedly``. Any cause in the log goes before it. ``EngineDeadError`` and ``Engine core
    initialization failed`` only pass a failure on. In a running asynchronous engine a process of it that a signal ended
    while it answered many callers. In a run that still stands (``rldoctor hang``) a process of the
    engine that has ended, and that its parent did not collect.

Why it hurts
    The client sees a dead engine and none of the reasons. A worker that dies of a signal (illegal instruction,
    segmentation fault, the kernel's memory killer) writes no traceback.

How sure it is
    That the process died is certain, and a negative exit code names the signal. Why it got the signal is not in the
    log.

The fix and its cost
    By signal: -9 is nearly always the memory killer, -4 a build that is not for this processor, -11 a fault in native
    code, of which ``PYTHONFAULTHANDLER=1`` shows the Python frames.

References
    ``vllm/v1/executor/multiproc_executor.py`` (0.8.5 to 0.32), ``vllm/v1/engine/core_client.py``
    https://github.com/modelscope/ms-swift/issues/7933
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    Kind,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Role,
)
from rldoctor.api.hang import stalled_run

from ..exceptions import root_of
from ..observed.rollout import Job, describe, records, runs

check = Check("RLD606", "engine-process-died", __doc__, before=("RLD603",), kind=Kind.DEATH)

_BY_SIGNAL = {
    signal.SIGKILL: Fix(
        title="see whether the kernel's memory killer did it, and give the engine less or the host more memory",
        commands=("dmesg -T | grep -i 'killed process'",),
    ),
    signal.SIGILL: Fix(
        title="install a vLLM build for this processor, where the wheel uses instructions that it lacks",
        commands=("grep -m1 flags /proc/cpuinfo",),
    ),
}
_FRAMES = Fix.safe("run again with the Python frames of a native crash in the log", {"env.PYTHONFAULTHANDLER": "1"})


@check.observed(needs=["observations.hang"])
def dead_and_waited_for(case: Case) -> Iterator[Finding | Reach]:
    """A killed engine may raise nothing anywhere: its client waits for an answer that does not come."""
    run = stalled_run(case)
    for seen in run.dead:
        asks = next((one for one in run.process_states if one.wait is not None and one.wait.kind == "engine"), None)
        waits = f"; {asks.label} still {asks.where}" if asks is not None else ""
        yield check.finding(
            f"{seen.name} (pid {seen.pid}) has ended and its parent {seen.parent} has not noticed{waits}",
            grade=Grade.OBSERVED,
            evidence=(Evidence(text=f"state Z in every sample, parent {seen.parent}", source=f"/proc/{seen.pid}"),),
            fixes=(_BY_SIGNAL[signal.SIGKILL], _FRAMES),
        )
    engines = sum(one.kind.startswith("engine") for one in run.process_states)
    if not engines and not run.dead:
        raise NotApplicable("no process of an engine is among those of the run")
    yield Reach(f"{engines} processes of an engine are there")


@check.observed(needs=["observations.requests"])
def died_while_answering(case: Case) -> Iterator[Finding | Reach]:
    """A process of an engine that many callers used was ended from outside."""
    for job in runs(case, "requests"):
        processes = records(job).get("processes")
        if processes is None:
            raise NotChecked(f"the scenario {job.get('ended')} before it looked at the engine's processes")
        seen = [Evidence(text=text, source="requests scenario") for text in (*_reported(job), *_memory(job))]
        for process in _fallen(job):
            died_of = _signal(process["exit_code"])
            known = _BY_SIGNAL.get(died_of) if died_of else None
            yield check.finding(
                f"{process['name']}, a process of {describe(job)}, was ended by "
                f"{died_of.name if died_of else 'itself'} (exit code {process['exit_code']}) while it answered",
                grade=Grade.OBSERVED,
                evidence=(*seen, Evidence(text="its whole output", source=str(job.get("log")))),
                fixes=(known, _FRAMES) if known else (_FRAMES,),
            )
        yield Reach(f"{len(processes)} processes of {describe(job)} lived through many callers")


@check.knows
def explains(job: Job) -> bool:
    """Whether a run failed because a process of its engine was ended from outside."""
    return bool(_fallen(job))


def _fallen(job: Job) -> list[Mapping[str, Any]]:
    # One that ended by itself wrote why into its log, and its callers are told; where they were not, this is all.
    ended = [one for one in records(job).get("processes") or () if one["exit_code"] is not None]
    return [one for one in ended if one["exit_code"] < 0 or job.get("ended") == "done"]


def _reported(job: Job) -> list[str]:
    """What those who waited received."""
    reported: Counter[str] = Counter()
    for call in records(job).get("calls", ()):
        if call["ended"] == "raised":
            reported[str((root_of(call.get("exceptions", ())) or {}).get("type"))] += 1
        elif call["ended"] == "waiting":
            reported["nothing, and waited on"] += 1
    return [f"{count} callers got {what}" for what, count in reported.most_common()]


def _memory(job: Job) -> list[str]:
    killed = records(job).get("out_of_memory_kills")
    return ["the kernel killed a process for want of memory meanwhile"] if killed else []


def _signal(exit_code: int) -> signal.Signals | None:
    return next((s for s in signal.Signals if s.value == -exit_code), None)


@check.logged(
    "died unexpectedly, shutting down",
    "died unexpectedly (exit code",
    "Engine core proc ",
    "MQLLMEngine is already dead",
    "Got fatal signal from worker processes",
    role=Role.CASCADE,
)
def death_recorded(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The executor or the client noticed that a child is gone. Behind the trainer's last words it was taken down."""
    if event.outlived:
        return
    who = event.search(
        r"(Worker proc \S+|Engine core proc \S+|WorkerProc rank=\d+) died unexpectedly|(MQLLMEngine) is already dead|"
        r"Got fatal signal from (worker process)es"
    )
    if who is None:
        return
    code = event.search(r"exit code: (-?\d+)")
    number = int(code[1]) if code else 0
    died_of = _signal(number)
    how = f" of {died_of.name} (exit code {number})" if died_of else f" with exit code {number}" if code else ""
    known = _BY_SIGNAL.get(died_of) if died_of else None
    yield check.finding(
        f"the engine's {who[1] or who[2] or who[3]} died{how}; it wrote no reason into this log",
        fixes=(known, _FRAMES) if known else (_FRAMES,),
    )


check.signature(
    "Timed out waiting for engine",
    "Timed out waiting for engines to",
    pattern=r"Timed out waiting for engines? (?:to|core)",
    says="the engine's processes did not report within the time that their client waits for them to start",
    fixes=(
        Fix(title="see in the engine's own output what it was doing (loading, compiling, waiting for other nodes)"),
        Fix(title="or give it more time (vLLM 0.11 and later)", commands=("export VLLM_ENGINE_READY_TIMEOUT_S=1800",)),
    ),
    role=Role.CASCADE,
)


# The client learns that the engine failed; the reason was written by the engine.
check.passes_on(
    "EngineCore encountered an issue. See stack trace",
    "Engine core initialization failed.",
    "WorkerProc initialization failed",
    "please check the stack trace above for the root cause",
    "stack trace above for the root cause",
    "AsyncEngineDeadError",
    "MQEngineDeadError",
    "EngineDeadError",
    "Background loop has errored already",
    "Engine process failed to start",
    "RuntimeError: cancelled",
    "Call to collective_rpc method failed",
    "Method execution failed: ",
)


# ``Failed core proc(s): {'EngineCore_DP0': -9}``: the exit code is all that is left of the process.
check.signature(
    "Failed core proc(s): {",
    pattern=r"'(?P<process>\w+)': -(?:9\b|(?P<signal>\d+))",
    says="the engine's process {process} was ended by signal "
    "[[{signal}||9 (SIGKILL: most likely the kernel, for want of host memory)]] as it started",
    role=Role.CASCADE,
    fixes=(
        Fix(
            title="see whether the kernel killed it, and what it wrote last",
            commands=("dmesg -T | grep -i -E 'killed process|out of memory|segfault'",),
        ),
    ),
)


check.signature(
    "Received sigquit from a child process",
    says="a process of the SGLang engine ended, and its server with it",
    fixes=(_FRAMES,),
    role=Role.CASCADE,
)
