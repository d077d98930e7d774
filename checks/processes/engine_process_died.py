"""A process of the rollout engine is gone.

What it looks for
    vLLM's records of a death: ``Worker proc ... died unexpectedly`` (with an exit code in newer releases), ``Engine
    core proc ... died unexpectedly``. Any cause in the log goes before it. ``EngineDeadError`` and ``Engine core
    initialization failed`` only pass a failure on.

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
from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Check, Edit, Finding, Fix, LogEvent, Role

check = Check("RLD606", "engine-process-died", __doc__)

_BY_SIGNAL = {
    signal.SIGKILL: Fix(
        title="see whether the kernel's memory killer did it, and give the engine less or the host more memory",
        commands=("dmesg -T | grep -i 'killed process'",),
    ),
    signal.SIGILL: Fix(
        title="install a vLLM build for this processor: the wheel uses instructions that it lacks",
        commands=("grep -m1 flags /proc/cpuinfo",),
    ),
}
_FRAMES = Fix(
    title="run again with the Python frames of a native crash in the log",
    applicability=Applicability.SAFE,
    edits=(Edit(option="env.PYTHONFAULTHANDLER", value="1"),),
)


@check.logged(
    "died unexpectedly, shutting down",
    "died unexpectedly (exit code",
    "Engine core proc ",
    "MQLLMEngine is already dead",
    role=Role.CASCADE,
)
def death_recorded(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The executor or the client noticed that a child is gone."""
    who = event.search(
        r"(Worker proc \S+|Engine core proc \S+|WorkerProc rank=\d+) died unexpectedly|(MQLLMEngine) is already dead"
    )
    if who is None:
        return
    code = event.search(r"exit code: (-?\d+)")
    number = -int(code[1]) if code else 0
    died_of = next((s for s in signal.Signals if s.value == number), None)
    how = f" of {died_of.name} (exit code {-number})" if died_of else f" with exit code {code[1]}" if code else ""
    known = _BY_SIGNAL.get(died_of) if died_of else None
    yield check.finding(
        f"the engine's {who[1] or who[2]} died{how}; it wrote no reason into this log",
        fixes=(known, _FRAMES) if known else (_FRAMES,),
    )


@check.logged(
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
    role=Role.WRAPPER,
)
def passed_on(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The client is told that the engine failed; the reason was written by the engine."""
    yield from ()
