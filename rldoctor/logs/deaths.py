"""Ends without a Python exception: signals, aborts, exit codes, refused command lines, watchdogs; one table."""

from __future__ import annotations

import re
import signal

from rldoctor.expressions import expression
from rldoctor.logs.model import LoggedException, Origin
from rldoctor.logs.prefixes import Line
from rldoctor.records import dataclass

EXIT_CODE = "exit code"
"""The type of what a launcher says of a child that ended with one."""
SHELL = r"(?:.{0,200}: line \d+:\s+\d+ )?"


@dataclass(frozen=True)
class Death:
    """One way a process says that it ended. ``literal`` is what the pass looks for, ``pattern`` what the line must be
    from its beginning; its groups ``rank``, ``code`` and ``pid`` are taken where they exist, and ``by_signal`` is the
    exit code of a child that a signal ended. ``launcher`` lines are
    what a parent says about its child: they prove that the run failed and never are the first cause. ``behind`` lines
    follow an exception too; they are an end of their own only where the log shows none before them, and what a process
    says itself so only where no end at all stands before it. ``any_child`` lines may be about whichever child: behind a
    trainer's last words about another one."""

    literal: str
    pattern: re.Pattern[str]
    type: str
    launcher: bool = False
    behind: bool = False
    any_child: bool = False


def _death(
    literal: str, pattern: str, name: str, launcher: bool = False, behind: bool = False, any_child: bool = False
) -> Death:
    return Death(literal, expression(pattern), name, launcher, behind, any_child)


# Of several tasks none is said to have been the first.
_SRUN = r"srun: error: (?P<node>\S+): task(?: (?P<rank>\d{1,6})|s \S+): "
# What a shell and srun call the signals that end a process.
SIGNALS = {
    "Killed": signal.SIGKILL,
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL,
    "Floating point exception": signal.SIGFPE,
}
# A program's child that a signal ended, which is no tool, test or reward's of which a run has many, nor one that
# somebody does without.
_NOT_A_TOOLS = (
    r"(?!.{0,160}(?<![^\s'\"(\[=:])(?![^\s'\"]{0,200}/)[^\s'\"]{0,60}?\b(?:retr(?:y|ies|ied|ying)|respawn\w*|restart(?:s|ed|ing)"
    r"|fall(?:s|ing)? back|fallback|continu\w+|ignor\w+|recompil\w+|upload\w*|prob(?:e|es|ing)|pytest|https?|request"
    r"|sandbox\w*|tools?|tool_\w+|rewards?|ver(?:if|dict)\w*|grad(?:er|ing)|judge\w*|env\w*|tests?|snippet|command|episodes?"
    r"|rollouts?|samples?(?:_\w+)?|instance_id|scored?|swe(?:[-_]?bench)?|answer"
    r"|code (?:execution|run\w*)|python code)\b)"
    r"(?!.{0,160}['\"](?:stdout|stderr|passed)['\"]:)"
)
_ENDED = r"(?:exit(?:s|ed|ing)?|terminated|ended|finished|failed|died|returned|killed|aborted)"
# Exit codes that tell of a signal.
_CODES = {str(code): name for name, number in SIGNALS.items() for code in (128 + number, -number)}
_CODE = rf"(?P<by_signal>{'|'.join(_CODES)})\b"
_NON_ZERO = r"(?:with )?(?:an? )?(?:non-?zero )?(?:exit |return |status )*"
_CHILD = _NOT_A_TOOLS + rf".{{0,160}}\b{_ENDED} {_NON_ZERO}code {_CODE}"
_BY_SIGNAL = _NOT_A_TOOLS + rf"(?:.{{0,160}}\b(?i:{_ENDED})\b.{{0,40}}\b)?(?i:signal)\W{{1,2}}"
# A field of a record of a container, a task or a job.
_FIELDS = ("exit_code", "exitCode", "ExitCode", "exit_status", "exitStatus", "Exit Code", "EXIT CODE")
_FIELD = _NOT_A_TOOLS + rf".{{0,400}}?\b(?:{'|'.join(_FIELDS)})['\"]?[:=\s]{{1,30}}{_CODE}"
# The wording is that of glibc and bash (signals), torch/distributed/elastic, DeepSpeed's launcher, Slurm, argparse,
# CPython, Open MPI.
DEATHS: tuple[Death, ...] = (
    # Nothing ends itself so: the shell says it of its child, which had no time to say why.
    _death("Killed", SHELL + r"Killed(?:$|\s{2,}|\s*\(core)", "Killed", launcher=True),
    _death("Segmentation fault", SHELL + r"Segmentation fault(?:$|\s*\(core dumped\)|\s{2,})", "Segmentation fault",
           launcher=True),
    _death("Aborted", SHELL + r"Aborted(?:$|\s*\(core dumped\))", "Aborted", launcher=True),
    _death("Bus error", SHELL + r"Bus error(?:$|\s*\(core dumped\)|\s{2,})", "Bus error", launcher=True),
    _death("Illegal instruction", SHELL + r"Illegal instruction(?:$|\s*\(core dumped\)|\s{2,})", "Illegal instruction",
           launcher=True),
    _death("Floating point exception", SHELL + r"Floating point exception(?:$|\s*\(core)", "Floating point exception",
           launcher=True),
    _death("Segfault encountered", r"!+ Segfault encountered !+", "Segmentation fault"),
    # Ray's handler says it once as it is and once as a line of the log.
    _death(
        "*** SIG",
        r"(?:\[[^\]]{5,80}\] )?(?:\([\w.]{1,40}\) )?(?:logging\.cc:\d{1,6}: )?\*\*\* SIG(?P<signal>[A-Z]{3,5}) ",
        "Fatal signal",
    ),
    _death("*** Process received signal", r".{0,80}\*\*\* Process received signal \*\*\*", "Fatal signal"),
    # UCX's handler, under MPI and NCCL's plug-ins.
    *(
        _death(f"Caught signal {int(number)} (", r"(?:\[[^\]]{3,120}\] )?Caught signal \d+ \(", number.name)
        for number in SIGNALS.values()
    ),
    _death(
        "Watchdog caught collective operation timeout",
        r".{0,160}?(?:[Rr]ank (?P<rank>\d{1,6}))?\]? ?Watchdog caught collective operation timeout",
        "NCCL watchdog timeout",
    ),
    # What it says further of the same, where the beginning is cut off.
    *(
        _death(
            literal,
            rf".{{0,160}}?(?:[Rr]ank (?P<rank>\d{{1,6}}))?\]? {{1,2}}{said}",
            "NCCL watchdog timeout",
            behind=True,
        )
        for literal, said in (
            (" detected by watchdog at work", r"(?:Exception \([^)]{1,80}\)|failure) detected by watchdog at work"),
            ("Timeout at NCCL work: ", r"Timeout at NCCL work: \d"),
        )
    ),
    # Ray's C++ log (and glog) as a process ends itself.
    _death(
        "Check failed: ",
        r"(?:\[[^\]]{5,80}\] )?(?:\([\w.]{1,40}\) )?[\w./\\:-]{1,200}\.(?:cc|h):\d{1,6}:? .{0,200}?Check failed: ",
        "Fatal check",
    ),
    _death(
        "Unhandled exception: ",
        r"(?:\[[^\]]{5,80}\] )?(?:\([\w.]{1,40}\) )?logging\.cc:\d{1,6}:? Unhandled exception: ",
        "Unhandled C++ exception",
    ),
    # What is left of an ActorDiedError that is cut at its head.
    _death(
        "The actor is dead because its ",
        r"The actor is dead because its (?:worker process|owner|node) ",
        "Actor died",
        True,
        behind=True,
    ),
    # The monitor of torch's process groups, as it ends a process whose watchdog makes no progress.
    _death(
        "'s watchdog got stuck for ",
        r".{0,120}?(?:[Rr]ank (?P<rank>\d{1,6}))?\]? ?ProcessGroupNCCL's watchdog got stuck for ",
        "NCCL watchdog stuck",
    ),
    _death(": error: ", r"(?!(?:collect2|ld|gcc|g\+\+|cc1plus|clang|nvcc|ninja|make|pip|fatal)\b)"
           r"(?!(?:srun|s(?:alloc|batch|acct|control|queue|cancel)|slurm\w+)\b)[\w./-]{1,200}"
           r"(?: [\w<>\[\].-]{1,40}){0,5}: error: ",
           "Command line refused"),
    _death("can't open file '", r"\S{1,200}: can't open file '", "Script not found"),
    # Hydra prints it behind whatever exception, of which it shows no traceback.
    _death("HYDRA_FULL_ERROR=1", r"Set the environment variable HYDRA_FULL_ERROR=1", "Hydra's hint", True, behind=True),
    _death(
        "failed (exitcode: ",
        r"(?:.{0,80}: |\s*ERROR\s+)?failed \(exitcode: (?P<code>-?\d{1,9})\) local_rank: (?P<rank>\d{1,6}) "
        r"\(pid: (?P<pid>\d{1,9})\)",
        EXIT_CODE,
        launcher=True,
    ),
    # A launcher of several programs names the one that ended first.
    _death(
        " failed with exit code ",
        r"(?:Trainer|Orchestrator|Inference\w*) failed with exit code (?P<code>[1-9]\d{0,4})$",
        EXIT_CODE,
        launcher=True,
    ),
    _death("Root Cause (first observed failure)", r"Root Cause \(first observed failure\)", "ChildFailedError", True,
           behind=True),
    _death("traceback : Signal ", r"\s*traceback\s+: Signal \d+ \(SIG(?P<signal>[A-Z]{3,8})\) received by PID "
           r"(?P<pid>\d{1,9})", "Signal", True, behind=True),
    _death("exits with return code = ", r".{0,2000}exits with return code = (?P<code>-?[1-9]\d{0,8})",
           EXIT_CODE, True),
    _death("Exited with exit code ", _SRUN + r"Exited with exit code (?P<code>[1-9]\d{0,8})", EXIT_CODE, True),
    _death(": Killed", _SRUN + r"Killed", "Killed", True),
    *(_death(f": {name}", _SRUN + name, name, True) for name in SIGNALS if name != "Killed"),
    _death("MPI_ABORT was invoked on rank ", r"MPI_ABORT was invoked on rank (?P<rank>\d{1,6}) in communicator",
           "MPI_ABORT", behind=True),
    # Flux counts tasks by how they ended, and names none.
    *(_death(f"flux-job: task(s) {name}", rf"flux-job: task\(s\) {name}", name, True) for name in SIGNALS),
    _death("flux-job: task(s) exited with exit code ", r"flux-job: task\(s\) exited with exit code "
           r"(?P<code>[1-9]\d{0,3})$", EXIT_CODE, True),
    _death(": Out Of Memory", _SRUN + r"Out Of Memory", "Killed",
           True),
    # Open MPI's mpirun, Grid Engine's mail, and services that tell the exit code alone: Ray's jobs, SageMaker, Vertex
    # AI, Azure ML, SkyPilot.
    *(_death(f" ({name}", r"(?:mpi|prte?|orte)(?:run|exec) noticed that process rank (?P<rank>\d{1,6}) with PID \d+ on "
             rf"node (?P<node>\S+) exited on signal \d+ \({name}", name, True) for name in SIGNALS),
    # MPICH's mpiexec, PRRTE's summary, and what `kubectl describe` says of a container.
    *(_death(f"KILLED BY SIGNAL: {int(number)}", rf"=?\s*KILLED BY SIGNAL: {int(number)} \(", name, True)
      for name, number in SIGNALS.items()),
    _death("Exit code:  ", r"\s+Exit code: {2,}(?P<code>[1-9]\d{0,8})$", EXIT_CODE, True),
    _death("Exit Code:  ", r"\s+Exit Code: {2,}(?P<code>[1-9]\d{0,8})$", EXIT_CODE, True),
    # Nomad's table of a task's events, and Determined of the container of a trial.
    _death("Exit Message: ", r".{0,120}\bExit Code: (?P<code>[1-9]\d{0,8}), Exit Message: ", EXIT_CODE, True),
    _death("failed with non-zero exit code: ", r"(?:.{0,200}: )?(?:resources|container) failed with non-zero exit "
           r"code: (?P<code>[1-9]\d{0,8})(?: \(|$)", EXIT_CODE, True),
    _death("died through signal KILL", r"job \S+ died through signal KILL", "Killed", True),
    # slurmctld's and HTCondor's log of a job, systemd's of a unit, and PBS, which adds 256 to a signal.
    *(_death(f"WTERMSIG {int(number)}", r".{0,80}\bJobId=\S{1,40} WTERMSIG \d+$", name, True)
      for name, number in SIGNALS.items()),
    *(_death(f"Abnormal termination (signal {int(number)})", r"\s*\(0\) Abnormal termination \(signal ", name, True)
      for name, number in SIGNALS.items()),
    *(_death(f"code=killed, status={int(number)}/", r".{0,120}\bMain process exited, code=killed, status=", name, True)
      for name, number in SIGNALS.items()),
    *(_death(f"Exit_status{gap}={gap}{256 + int(number)}", r"\s*Exit_status ?= ?\d+$", name, True)
      for name, number in SIGNALS.items() for gap in ("", " ")),
    # Whoever tells it of whichever child.
    *(_death(f"code {code}", _CHILD, name, True, any_child=True) for code, name in _CODES.items()),
    *(_death(f"{word} {int(number)}", _BY_SIGNAL + rf"{int(number)}\b(?!\.\d)", name, True, any_child=True)
      for name, number in SIGNALS.items() for word in ("signal", "SIGNAL", "signal:")),
    *(_death(field, _FIELD, EXIT_CODE, True, any_child=True) for field in _FIELDS),
    _death("entrypoint command failed with exit code ",
           r".{0,80}Job entrypoint command failed with exit code (?P<code>-?[1-9]\d{0,8})", EXIT_CODE, True),
    _death("exited with exit code ", r"(?:.{0,80}(?:: | {2}))?Job exited with exit code "
           r"(?P<code>[1-9]\d{0,8})\b", EXIT_CODE, True, any_child=True),
    _death("script returned exit code ", r"script returned exit code (?P<code>[1-9]\d{0,2})$", EXIT_CODE, True),
    _death("ExitCode ", r"ExitCode (?P<code>-?[1-9]\d{0,8})$", EXIT_CODE, True),
    _death(" with a non-zero status of ", r".{0,80}The replica (?P<node>[\w-]+) (?:ran out-of-memory and )?exited "
           r"with a non-zero status of (?P<code>[1-9]\d{0,8})", EXIT_CODE, True),
    _death("exit_codes: ", r"\s*exit_codes: (?P<code>-?[1-9]\d{0,8})", EXIT_CODE, True),
    _death("failed with return code list: ",
           r".{0,80}failed with return code list: \[(?:0, ){0,9999}(?P<code>-?[1-9]\d{0,8})", EXIT_CODE, True),
    # torchrun's agent, vLLM's front end, kubectl and shells on what they had started.
    _death(" death signal, shutting down workers", r"Received \d{1,2} death signal, shutting down workers", "Signal",
           True),
    _death("EngineCore encountered a fatal error", r"EngineCore encountered a fatal error", "Engine failed", True),
    _death("Worker proc ", r"Worker proc \S{1,80} died unexpectedly", "Engine failed", True),
    # What the engine writes before it raises what stopped it.
    _death("Dumping input data", r"Dumping input data(?: for V1 LLM engine|$)", "Engine failed", True),
    _death("terminated with exit code ", r"(?:command|Process \S{1,40}|\[[\w.-]{1,80}\]) terminated with exit "
           r"code \(?(?P<code>-?[1-9]\d{0,8})", EXIT_CODE, True),
    _death("exit status ", r"(?:.{0,80}: )?exit status (?P<code>[1-9]\d{0,8})$", EXIT_CODE, True),
    _death("DUE TO TIME LIMIT", r"(?:slurmstepd: error: )?\*\*\* (?:JOB|STEP) \S+ .{0,80}DUE TO TIME "
    r"LIMIT", "Time limit", True),
)  # fmt: skip

FATAL_PYTHON = "Fatal Python error: "
TERMINATE = "terminate called "
THROWN = "what():  "
"""What is left of :data:`TERMINATE` where its own line was cut off."""
ELASTIC_SUMMARY = "Root Cause (first observed failure)"

ELASTIC_FIELD = expression(r"\s*(?P<field>time|host|rank|exitcode|error_file|traceback)\s*: (?P<value>.{0,400})$")


def died(
    death: Death, match: re.Match[str], line: Line, source: str, number: int, near: float | None
) -> tuple[LoggedException, int | None]:
    """The end that a line tells of, and its exit code. ``near`` is the last time given before it."""
    parts = {key: value for key, value in match.groupdict().items() if value}
    origin = line.origin
    if parts.get("rank") or parts.get("node"):
        node = parts.get("node") or origin.node
        origin = Origin(parts.get("rank") or origin.rank, origin.actor, parts.get("pid"), node)
    ended = LoggedException(
        type=f"SIG{parts['signal']}" if "signal" in parts else _CODES.get(parts.get("by_signal", ""), death.type),
        message=line.text.strip()[:2000],
        origin=origin,
        source=source,
        line=number,
        time=line.time if line.stamp else near,
    )
    return ended, int(parts["code"]) if "code" in parts else None
