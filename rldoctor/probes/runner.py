"""Runs a probe's child under the target's interpreter: bounded in time, output and memory, with nothing left
running."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rldoctor import redact
from rldoctor.catalogue.probe import Job, JobResult, ProbeError, Request
from rldoctor.errors import InputError
from rldoctor.facts import proc
from rldoctor.facts.environment import of
from rldoctor.facts.interpreter import resolve
from rldoctor.probes.capture import Log, Results
from rldoctor.probes.environment import child_environment, with_temporary_files_in
from rldoctor.probes.kept import new_folder
from rldoctor.records import dataclass

SUPERVISOR = Path(__file__).with_name("supervisor.py")
# By how many times its length a time limit of our own is put off at most: threads that spin keep each other waiting.
MOST_PROLONGED = 3.0
# The supervisor needs its grace and patience (see there) after it asked a child to end; beyond that it is stuck itself.
END_PATIENCE = 12.0
# Where vLLM's processes meet (vllm/envs.py); by itself it leaves its sockets in the folder for temporary files.
SOCKET_FOLDER = "VLLM_RPC_BASE_PATH"
# What unix(7) allows a socket's path, without the slash and the UUID that vLLM adds.
SOCKET_FOLDER_LENGTH = 107 - 37
# What a killed child's compilers and libraries leave among the temporary files goes with its folder.
TEMPORARY = "tmp"
# Where the child of a plugin finds its side of the protocol (children/report.py).
PROTOCOL = "RLDOCTOR_CHILDREN"
CHILDREN = Path(__file__).parent / "children"
_CHUNK = 1 << 18


def run_job(child: Path, job: Job, name: str, request: Request) -> JobResult:
    """Runs one child program to its end, or to the end of its time. Whatever becomes of it, or of rldoctor (Ctrl-C,
    SIGTERM, even SIGKILL), no process of it stays; what it had delivered does, and its log until this process ends
    (``kept.keep_logs`` keeps it longer)."""
    started = time.monotonic()
    try:
        return _run(child, job, request, new_folder(name), started)
    except (OSError, InputError) as error:  # no room, no processes, no interpreter: trouble is a result, too
        what = ProbeError(type=type(error).__name__, message=str(error))
        return JobResult(ended="not-started", error=what, seconds=round(time.monotonic() - started, 3))


def _run(program: Path, job: Job, request: Request, directory: Path, started: float) -> JobResult:
    python, work = interpreter(request), directory / "work"
    work.mkdir()
    limit = request.time_limit or job.time_limit
    cut = request.left < limit
    limit = max(min(limit, request.left), 0.0)
    arguments = work / "arguments.json"
    arguments.write_text(json.dumps({"arguments": job.arguments, "time_limit": limit}))
    environ = child_environment(python, of(request), job.environ)
    environ[PROTOCOL] = str(CHILDREN)
    if len(os.fsencode(work)) <= SOCKET_FOLDER_LENGTH:
        environ.setdefault(SOCKET_FOLDER, str(work))
    if len(os.fsencode(work / TEMPORARY)) <= SOCKET_FOLDER_LENGTH:
        (work / TEMPORARY).mkdir()
        environ = with_temporary_files_in(work / TEMPORARY, environ)
    log, results = Log(directory / "log.txt"), Results()
    try:
        with _Supervised([python, "-u", str(program)], arguments, work, environ) as child:
            more = min(MOST_PROLONGED * limit, request.left - limit) if request.time_limit is None else 0.0
            timed_out = not child.listen(log, results, started + limit, more)
            status = child.end()
    finally:
        log.close()
        results.close()
    result = _result(log, results, status, timed_out, time.monotonic() - started)
    # What the budget ended says nothing of what ran.
    return replace(result, ended="not-run") if cut and timed_out and result.ended == "timed-out" else result


def interpreter(request: Request) -> str:
    """The target's interpreter. Its links are kept: a virtual environment is known by the link's own place."""
    return sys.executable if request.python is None else str(resolve(request.python))


def _result(log: Log, results: Results, status: dict[str, Any], timed_out: bool, seconds: float) -> JobResult:
    records = results.records
    if results.garbage:
        records = {**records, "garbage": results.garbage}
    if status.get("out_of_memory_kills"):
        records = {**records, "out_of_memory_kills": status["out_of_memory_kills"]}
    code = status.get("exit_code")
    ended, error = "died", None
    if "not_started" in status:
        kind, _, message = str(status["not_started"]).partition(": ")
        ended, error = "not-started", ProbeError(type=kind, message=message)
    elif results.end is not None and results.end["end"] == "done":
        ended = "done"
    elif results.end is not None:
        ended, error = "raised", _error(results.end.get("error"))
    elif timed_out:
        ended = "timed-out"
    return JobResult(
        ended=ended,
        records=records,
        seconds=round(seconds, 3),
        exit_code=code,
        signal=_signal_name(code) if ended == "died" else None,
        error=error,
        log=str(log.path),
        tail=tuple(redact.lines(log.tail())),
    )


def _error(reported: object) -> ProbeError:
    reported = reported if isinstance(reported, dict) else {}
    frames = reported.get("frames")
    return ProbeError(
        type=str(reported.get("type", "unknown")),
        message=redact.text(str(reported.get("message", ""))),
        frames=tuple(map(str, frames)) if isinstance(frames, list) else (),
    )


def _signal_name(exit_code: int | None) -> str | None:
    if exit_code is None or exit_code >= 0:
        return None
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


@dataclass
class _Supervised:
    """A child and its supervisor as a context: whoever leaves it has ended them both."""

    command: list[str]
    arguments: Path
    work: Path
    environ: dict[str, str]

    def __enter__(self) -> _Supervised:
        lifeline_read, self._lifeline = os.pipe()
        self._status, status_write = os.pipe()
        self._results, results_write = os.pipe()
        child_side = (lifeline_read, status_write, results_write)
        # -I and -S: nothing in the target's environment reaches the supervisor, and it starts in 20 ms.
        supervisor = [
            sys.executable,
            "-I",
            "-S",
            str(SUPERVISOR),
            *map(str, child_side),
            str(self.work),
            str(os.getpid()),
        ]
        # A child has two arguments of its own (see children/report.py).
        child = [*self.command, str(results_write), str(self.arguments)]
        try:
            self._process = subprocess.Popen(
                supervisor + child,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=child_side,
                start_new_session=True,
                cwd=self.work,
                env=self.environ,
            )
        finally:
            for descriptor in child_side:
                os.close(descriptor)
        self._said = bytearray()
        return self

    def listen(self, log: Log, results: Results, deadline: float, more: float = 0.0) -> bool:
        """Takes in all that comes until every process of the child has ended (True), or until the deadline; that is
        put off by what they wait for a processor that others keep busy, by so many seconds at most."""
        sinks: dict[int, Callable[[bytes], object]] = {
            self._output: log.add,
            self._results: results.add,
            self._status: self._said.extend,
        }
        with selectors.DefaultSelector() as selector:
            for descriptor in sinks:
                selector.register(descriptor, selectors.EVENT_READ)
            in_time, waited = True, 0.0
            while selector.get_map():
                left = deadline + min(waited, more) - time.monotonic()
                if left <= 0 and in_time and waited < more:
                    # What a process has waited is forgotten when it ends.
                    waited = max(waited, proc.waited(self._process.pid))
                    left = deadline + min(waited, more) - time.monotonic()
                if left <= 0:
                    if not in_time:  # the supervisor does not answer either
                        return False
                    in_time = False
                    self._cut_lifeline()
                    deadline, more, left = time.monotonic() + END_PATIENCE, 0.0, END_PATIENCE
                for key, _ in selector.select(left):
                    data = os.read(key.fd, _CHUNK)
                    sinks[key.fd](data) if data else selector.unregister(key.fd)
        return in_time

    def end(self) -> dict[str, Any]:
        """Ends what still runs and returns the supervisor's report."""
        self._cut_lifeline()
        try:
            self._process.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        try:
            said: dict[str, Any] = json.loads(self._said)
        except ValueError:
            return {}  # the supervisor itself was killed; what its child had delivered still counts
        return said

    def __exit__(self, *_: object) -> None:
        self.end()
        assert self._process.stdout is not None
        self._process.stdout.close()
        for descriptor in (self._status, self._results):
            os.close(descriptor)

    @property
    def _output(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _cut_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
