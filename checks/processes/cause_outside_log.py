"""This log holds only what passes a failure on; the cause is in another file.

What it looks for
    A failed run of which every exception is a wrapper or a consequence: ``ChildFailedError``, ``EngineDeadError``,
    ``RayTaskError`` without its inner traceback, exit codes, closed connections. Among them a process whose end its
    launcher recorded (torchrun, ``torch.multiprocessing``, DeepSpeed, Slurm) and that wrote nothing itself: the others'
    time-outs and lost connections are consequences of it.

Why it hurts
    Searching the web for these messages finds everybody's failures and nobody's cause.

How sure it is
    No first cause is in the files that were given. Which file holds it follows from who failed. A negative exit code
    names the signal; why it was sent is not in the log.

The fix and its cost
    Fetch the named log and judge both together. By exit code: -9 is nearly always the kernel's memory killer, -7 a full
    /dev/shm, -11 a fault in native code, whose Python frames ``PYTHONFAULTHANDLER=1`` shows, another one the process's
    own exit.

References
    https://pytorch.org/docs/stable/elastic/errors.html
    https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, Fix, Kind, LogEvent, LogRun, Severity
from rldoctor.api.logs import FailedFirst

from ..observed.endings import nothing_failed_before
from ..observed.states import one_of_several

check = Check("RLD901", "cause-outside-log", __doc__, kind=Kind.ELSEWHERE)

_RANKS = Fix(
    title="torchrun writes each rank's output to files with --log-dir LOGS --redirects 3 (or --tee 3), then the folder",
    commands=("rldoctor triage LOGS",),
)
_ITS_OUTPUT = Fix(title="look for the output of the process that failed first, and judge it together with this log")
# What a wrapper's type or message contains, and where the one it speaks of writes.
_WHERE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "DataLoader worker",
        "the worker's own traceback stands above or was lost: load without workers once (dataloader_num_workers 0), "
        "so that the trainer raises it",
        (),
    ),
    (
        "HYDRA_FULL_ERROR",
        "run again with the whole traceback, of which Hydra shows its last frame alone, or nothing",
        ("export HYDRA_FULL_ERROR=1",),
    ),
    ("ChildFailedError", _RANKS.title, _RANKS.commands),
    (
        "JobException",
        "AReaL keeps what each of its jobs prints: FILEROOT/logs/USER/EXPERIMENT/TRIAL/JOB.log (llm_server, trainer)",
        ("rldoctor triage FILEROOT/logs/USER/EXPERIMENT/TRIAL",),
    ),
    (
        " failed with exit code ",
        "the launcher keeps what each of its programs prints in a file of its own: OUTPUT_DIR/logs",
        ("rldoctor triage OUTPUT_DIR/logs",),
    ),
    ("exit code", "the failed rank's own output: torchrun --log-dir LOGS --tee 3", ("rldoctor triage LOGS",)),
    (
        "ngine",
        "the engine's processes write to the standard error of whoever started them; a server's log is its own file",
        ("rldoctor triage server.log trainer.log",),
    ),
    (
        "ray",
        "Ray keeps the output of every worker on its node below /tmp/ray/session_latest/logs (worker-*.err, "
        "raylet.out)",
        ("rldoctor triage /tmp/ray/session_latest/logs",),
    ),
)


@check.concluded
def only_wrappers(case: Case, run: LogRun) -> Iterator[Finding]:
    """Something failed, and nothing in the log is its cause."""
    if run.root is not None or not run.failures:
        return
    if run.departed:
        yield _without_a_word(run)
        return
    last = run.failures[0]
    text = f"{last.type} {last.message}"
    where = [(title, commands) for key, title, commands in _WHERE if key.lower() in text.lower()]
    fixes = [Fix(title=title, commands=commands) for title, commands in where] or [_ITS_OUTPUT]
    first = next(iter(run.failed_first), None)
    worker = last.chain[0].origin
    evidence = [Evidence(text=str(last)[:500], source=last.source, line=last.line)]
    blamed = ""
    if first is not None:
        blamed = f"; {_called(first)} failed first"
        evidence.append(Evidence(text=blamed[2:], source=first.source, line=first.line))
        fixes[0] = _of_rank(first)
    if "ray" in text.lower() and worker.pid is not None:
        fixes.insert(0, _of_worker(worker.pid, worker.node))
    yield check.finding(
        f"only consequences are in this log ({str(last).splitlines()[0][:200]}){blamed}: the cause is elsewhere",
        evidence=tuple(evidence),
        fixes=tuple(fixes),
    )


def _called(first: FailedFirst) -> str:
    rank = f"rank {first.rank}" if first.rank is not None else "a rank"
    return f"{rank} on {first.host}" if first.host not in (None, "localhost") else rank


def _of_rank(first: FailedFirst) -> Fix:
    """Which file the rank that failed first has left, or will leave the next time."""
    if first.error_file is not None:
        folder = first.error_file.rpartition("/")[0]
        return Fix(
            title=f"read {first.error_file} of {_called(first)}; stderr.log stands beside it where torchrun was given "
            "--redirects or --tee",
            commands=(f"rldoctor triage {folder}",),
        )
    file = f"LOGS/*/attempt_0/{first.local_rank or first.rank or '*'}/stderr.log"
    return Fix(
        title=f"what {_called(first)} printed is in {file} where torchrun keeps it: --log-dir LOGS --redirects 3 (or "
        "--tee 3)",
        commands=(f"rldoctor triage {file}",),
    )


def _of_worker(pid: str, address: str | None) -> Fix:
    node = f" on {address}" if address else " on its node"
    file = f"/tmp/ray/session_latest/logs/worker-*-{pid}.err"
    return Fix(title=f"read what the worker wrote{node}: {file}", commands=(f"rldoctor triage {file}",))


_KILLED = Fix(
    title="see whether the kernel's memory killer did it, and give the run less to hold or the host more memory",
    commands=("dmesg -T | grep -i -E 'killed process|out of memory'",),
)
_FRAMES = Fix.safe("run again with the Python frames of a native crash in the log", {"env.PYTHONFAULTHANDLER": "1"})
_MAPPED = Fix(
    title="see whether a file system that is mapped into memory is full, most often /dev/shm (docker run --shm-size), "
    "or a disk with caches and offloaded parameters",
    commands=("df -h /dev/shm /tmp",),
)
_OWN_EXIT = Fix(title="look for what ends the process itself: sys.exit, os._exit, a library that calls exit()")
_DIVIDED = Fix(
    title="on an NVIDIA H20 it is cuBLAS before 12.4.5, which divides by zero",
    commands=("pip list | grep -i cublas", "pip install nvidia-cublas-cu12==12.4.5.8"),
)
_BY_SIGNAL: dict[int, Fix] = {signal.SIGKILL: _KILLED, signal.SIGBUS: _MAPPED, signal.SIGFPE: _DIVIDED}
_EXCEPTION = 1  # Python's exit code after an exception that nobody caught


def _without_a_word(run: LogRun) -> Finding:
    """A process that ended first and left no reason."""
    first = run.departed[0]
    number = first.code - 128 if first.code > 128 else -first.code  # a shell and a container add 128
    named = next((s.name for s in signal.Signals if s.value == number), None)
    reported = next((one for one in run.failed_first if one.rank == first.rank), None)
    who = _called(reported) if reported is not None else f"rank {first.rank}" if first.rank is not None else "a process"
    how = f"was ended by {named} (exit code {first.code})" if named else f"ended with exit code {first.code}"
    hint = _BY_SIGNAL.get(number, _FRAMES) if named else _OWN_EXIT
    hints = () if first.code == _EXCEPTION else (hint,)
    by_torchrun = any("ChildFailedError" in f.type or "local_rank: " in f.message for f in run.failures)
    output = _of_rank(reported) if reported is not None else _RANKS if by_torchrun else _ITS_OUTPUT
    said = next((one.message for one in run.failures if one.line == first.line and one.message), None)
    others = any(one.line != first.line for one in run.failures)
    return check.finding(
        f"{who} {how} and wrote no reason into this log"
        f"{'; what the other processes say are consequences' if others else ''}",
        evidence=(Evidence(text=said or f"{who}: exit code {first.code}", source=first.source, line=first.line),),
        fixes=(*hints, output),
    )


# A parent tells that its child failed.
check.passes_on(
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
    "subprocess.CalledProcessError: Command ",
    "torch.multiprocessing.spawn.ProcessExitedException",
    "concurrent.futures.process.BrokenProcessPool",
    "concurrent.futures._base.CancelledError",
    "asyncio.exceptions.CancelledError",
    "returned non-zero exit status",
    " exited with non-zero status",
    " exited with non-zero code",
)


# Ray Train's and Ray Tune's word for a run of which a worker, or a trial, failed.
check.passes_on("TrainingFailedError: ", "TuneError: ('Trials did not complete'")
# What an exception was cannot be read where its class is no exception that pickle can make again.
check.passes_on("Failed to unpickle serialized exception")
# areal/infra/launcher, realhf/system/controller.py: a job of the run has ended, or no longer answers.
check.passes_on("JobException: Job ", "RuntimeError: Fail to interrupt workers, timeout=")
# A request was answered with a failure, or a worker's process ended: the server's and the worker's own output says why.
check.passes_on("500, Internal Server Error", "WorkerFailedError: Worker '", " retries each. Payload: ")


# Of the datasets library; which row or file is at fault stands in the exception before it.
check.passes_on("DatasetGenerationError: An error occurred while generating the dataset")
# A loader's worker ended; its own traceback says why.
check.passes_on("exited unexpectedly with exit code ", "DataLoader worker (pid(s) ")
# A server of the run answers that it failed; why is in its own output.
check.passes_on("500 Server Error: Internal Server Error for url: http://")
# A job's row in the account that Slurm keeps, where the log holds nothing else of an end.
check.signature(
    "FAILED",
    pattern=r"^(?:\s*\d[\w.+-]{0,40}[\s|][^\n]{0,200})?\bFAILED[\s|]+(?P<code>[1-9]\d{0,2}):\d{1,3}[\s|]*(?:\n|$)",
    when=lambda case, event: (
        event.exception is None
        and event.run.root is None
        and not (event.finished or event.outlived or one_of_several(event))
    ),
    says="Slurm says that the job failed with exit code {code}, and this log does not say why",
    fixes=(
        Fix(
            title="judge what the job itself wrote: the files of --output and --error",
            commands=("scontrol show job JOB | grep -E 'StdOut|StdErr'", "rldoctor triage slurm-JOB.out"),
        ),
    ),
    silent=True,
    url="https://slurm.schedmd.com/sacct.html",
)
# vllm/model_executor/models/registry.py looks at a model's class in a process of its own.
check.signature(
    "are not supported for now. Supported architectures",
    pattern=r"architectures \['?(?P<name>\w+)'?\] are not supported for now. Supported architectures[^\n]*'(?P=name)'",
    says="vLLM has {name}, and the process in which it looks at that class failed",
    fixes=(
        Fix(
            title="judge what that process wrote, above: Error in inspecting model architecture; or start it alone",
            commands=("python -m vllm.model_executor.models.registry",),
        ),
    ),
    url="https://github.com/vllm-project/vllm/issues/9515",
)


# What a client raises of an answer without a body that tells more.
check.signature(
    "status 500",
    "status 502",
    "status code 500",
    "status code 502",
    pattern=r"(?:with|returned|got|received)[\w ]{0,20}\bstatus(?: code)?:? (?P<code>50[02])\b",
    when=lambda case, event: event.fatal and event.exception is not None,
    says="a server answered {code}: why it could not stands in its own log",
    fixes=(Fix(title="judge the server's log together with this one", commands=("rldoctor triage SERVER.log",)),),
    url="https://github.com/rllm-org/rllm/issues/217",
)


# Uvicorn's record of requests whose handling raised, under vLLM, SGLang and reward servers: the rest may be answered.
_MANY = 10
_PROBED = re.compile(r'"GET /(?:health|ping|ready|live|metrics)')


def _could_not_answer(case: Case, event: LogEvent) -> bool:
    """Whether a server of a sound run failed many requests: one that starts, or is taken down, answers so, too."""
    sound = not event.outlived and nothing_failed_before(case, event)
    return sound and event.count >= _MANY and _PROBED.search(event.line) is None


check.signature(
    '" 500 Internal Server Error',
    pattern=r'"(?:POST|GET) (?P<route>/[\w/.-]{0,80}) HTTP/[\d.]+" 500',
    when=_could_not_answer,
    says="a server answered {count} requests ({route}) with 500: what asked has no answer to them",
    fixes=(
        Fix(title="read the traceback that the server writes beside each, and judge its own log (rldoctor triage LOG)"),
        Fix(title="and see that the trainer leaves such samples out, or tries them again, and counts neither as wrong"),
    ),
    severity=Severity.WARNING,
    silent=True,
    url="https://docs.sglang.ai",
)
