"""The run stands still: no error, no progress.

What it looks for
    A log that ends in vLLM's repeated ``No available shared memory broadcast block found``, a ``ray.get`` that ran
    into its time limit, and a job that Slurm ended at its time limit. Each is a consequence: any cause in the log
    goes before it.

Why it hurts
    The GPUs are held until somebody notices.

How sure it is
    That the run waited is certain, what for is not: one rank is missing in a collective, an engine process is gone, a
    reward server does not answer.

The fix and its cost
    Collect the stacks of all ranks while the run still stands: ``rldoctor hang``.

References
    ``vllm/distributed/device_communicators/shm_broadcast.py``
    https://github.com/modelscope/ms-swift/issues/6962
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, LogEvent, Role

check = Check("RLD609", "run-stalled", __doc__)

_LOOK = Fix(
    title="collect the stacks of every rank and worker while the run stands still",
    commands=("rldoctor hang",),
)
# vLLM repeats its warning every minute; one or two are a slow compilation.
_REPEATS = 3


@check.logged("No available shared memory broadcast block found", role=Role.CASCADE, silent=True)
def engine_waits(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The engine's workers wait for the scheduler, or the scheduler for a worker, until the log ends."""
    if event.count >= _REPEATS and any(event.literal in line for line in event.run.tail[-3:]):
        yield check.finding(
            f"the engine's processes were waiting for each other when the log ended ({event.count} warnings)",
            fixes=(_LOOK,),
        )


@check.logged("Get timed out: some object(s) not ready", "GetTimeoutError", role=Role.CASCADE)
def ray_get_timed_out(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A remote call did not answer in time."""
    frame = event.exception.user_frame if event.exception else None
    where = f" at {frame.file}:{frame.line}" if frame else ""
    yield check.finding(
        f"a Ray call{where} did not return in time: the actor is still pending, busy or hung",
        fixes=(
            Fix(
                title="see which actors are pending, and what they wait for", commands=("ray status", "ray list actors")
            ),
            _LOOK,
        ),
    )


@check.logged("DUE TO TIME LIMIT", role=Role.CASCADE)
def time_limit(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Slurm ended the job at its time limit."""
    yield check.finding(
        "the job ran into Slurm's time limit",
        fixes=(
            Fix(title="where it was still making progress, ask for more time", commands=("sbatch --time=...",)),
            _LOOK,
        ),
    )
