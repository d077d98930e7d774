"""This log holds only what passes a failure on; the cause is in another file.

What it looks for
    A failed run of which every exception is a wrapper or a consequence: ``ChildFailedError``, ``EngineDeadError``,
    ``RayTaskError`` without its inner traceback, exit codes, closed connections.

Why it hurts
    Searching the web for these messages finds everybody's failures and nobody's cause.

How sure it is
    No first cause is in the files that were given. Which file holds it follows from who failed.

The fix and its cost
    Fetch the named log and judge both together.

References
    https://pytorch.org/docs/stable/elastic/errors.html
    https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, Fix, LogEvent, LogRun, Role

check = Check("RLD901", "cause-outside-log", __doc__)

# What a wrapper's type or message contains, and where the one it speaks of writes.
_WHERE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "ChildFailedError",
        "torchrun keeps each rank's output where it is told to: --log-dir LOGS --redirects 3 (or --tee 3), then "
        "the folder",
        ("rldoctor triage LOGS",),
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
    last = run.failures[0]
    text = f"{last.type} {last.message}"
    where = [(title, commands) for key, title, commands in _WHERE if key.lower() in text.lower()]
    fixes = [Fix(title=title, commands=commands) for title, commands in where] or [
        Fix(title="look for the output of the process that failed first, and judge it together with this log")
    ]
    yield check.finding(
        f"only consequences are in this log ({str(last).splitlines()[0][:200]}): the cause is elsewhere",
        evidence=(Evidence(text=str(last)[:500], source=last.source, line=last.line),),
        fixes=tuple(fixes),
    )


@check.logged(
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
    "subprocess.CalledProcessError: Command ",
    "torch.multiprocessing.spawn.ProcessExitedException",
    "concurrent.futures.process.BrokenProcessPool",
    "concurrent.futures._base.CancelledError",
    "asyncio.exceptions.CancelledError",
    "returned non-zero exit status",
    role=Role.WRAPPER,
)
def passed_on(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A parent tells that its child failed."""
    yield from ()
