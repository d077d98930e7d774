"""The run stands still: no error, no progress.

What it looks for
    A log that ends in vLLM's repeated ``No available shared memory broadcast block found``, and a ``ray.get`` that
    ran into its time limit. Each is a consequence: any cause in the log goes before it. (A job that Slurm ended at
    its time limit is RLD603.) Traffic on a live engine of ours that stands still until its time is over. In a run that
    still stands (``rldoctor hang``): processes that are stopped, that wait for a file system, and, where nothing in the
    run moves, what each waits for.

Why it hurts
    The GPUs are held until somebody notices.

How sure it is
    That the run waited is certain, what for is not: one rank is missing in a collective, an engine process is gone, a
    reward server does not answer. The stacks say what for; a run in which anything moves is not reported.

The fix and its cost
    Collect the stacks of all ranks while the run still stands: ``rldoctor hang``.

References
    ``vllm/distributed/device_communicators/shm_broadcast.py``
    https://github.com/modelscope/ms-swift/issues/6962
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rldoctor.api import Case, Check, Evidence, Finding, Fix, Grade, Kind, NotChecked, Reach, Role, Severity
from rldoctor.api.hang import STOPPED, ranks_named, stalled_run

from ..observed import least_answers
from ..observed.rollout import describe, records, scenario_runs
from ..observed.waiting import LONGER, evidence, gravity, in_pace, watched

if TYPE_CHECKING:
    from rldoctor.api.hang import ProcessState, Seen, StalledRun

check = Check("RLD609", "run-stalled", __doc__, kind=Kind.STALL)

_LOOK = Fix(
    title="collect the stacks of every rank and worker while the run stands still",
    commands=("rldoctor hang",),
)
# vLLM repeats its warning every minute; one or two are a slow compilation.
_REPEATS = 3
_PLACES = 4


@check.observed(needs=["observations.hang"])
def stopped(case: Case) -> Iterator[Finding | Reach]:
    """Processes that the kernel does not run: stopped by a signal, held by a debugger, or in a dead file system."""
    run = stalled_run(case)
    for seen in run.stopped:
        yield check.finding(
            f"{_name(seen)} {STOPPED[seen.state]}: whoever waits for it waits for ever",
            grade=Grade.OBSERVED,
            evidence=(
                Evidence(text=f"state {seen.state} in every sample: {seen.command[:200]}", source=f"/proc/{seen.pid}"),
            ),
            fixes=(Fix(title="let it go on, or end the run", commands=(f"kill -CONT {seen.pid}",)),),
        )
    for one in run.process_states:
        if one.stage != "checkpoint" and one.thread is not None and one.thread.state == "D":
            severity = gravity(run, f"{one.label} {one.where}", busy=False)
            if severity is None:
                yield Reach(f"{one.label} sleeps in the kernel: {in_pace(run)}")
                continue
            yield check.finding(
                f"{one.label} sleeps in the kernel without end ({one.thread.wait or 'uninterruptible'}): storage or a "
                f"driver does not answer; it {one.where}",
                severity=severity,
                grade=Grade.OBSERVED,
                evidence=evidence(run, [one]),
                fixes=(Fix(title="see what the kernel reports", commands=("dmesg -T | tail -50",)), LONGER),
            )
    yield Reach(f"{len(run.record.processes)} processes looked at")


@check.observed(needs=["observations.hang"])
def kernel_tells(case: Case) -> Iterator[Finding | Reach]:
    """Where no stack can be had, the kernel still says that one rank sleeps somewhere else than the others."""
    run = stalled_run(case)
    for peers in run.unlike:
        yield check.finding(
            "the ranks do nothing, and not in the same place: " + "; ".join(f"{x.label} {x.where}" for x in peers[:8]),
            severity=Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=evidence(run, peers),
            fixes=(Fix(title=f"see what that is: {'; '.join(run.record.lacking)}"),),
        )
    yield Reach(f"{len(run.process_states)} processes compared by what the kernel tells")


@check.observed(needs=["observations.hang"])
def nothing_moves(case: Case) -> Iterator[Finding | Reach]:
    """No process of the run is anywhere else in any sample, and no more specific reason is seen."""
    run = watched(case)
    still = run.still
    if not still or run.missing_peers or run.together or run.stopped or run.dead or run.pending:
        moving = [one for one in run.process_states if one.moving or one.busy]
        yield Reach(f"{moving[0].label} goes on: {moving[0].where}" if moving else "what it waits for is known")
        return
    if all(one.wait is not None and one.wait.kind == "work" for one in still):
        yield Reach("every process waits for work, which a server does between requests")
        return
    clients = [one for one in still if one.wait is not None and one.wait.kind in ("engine", "ray", "server")]
    working = [one for one in still if one not in clients and (one.wait is None or one.wait.kind != "work")]
    ring = run.calls_in_a_ring
    text = f"nothing moved for {run.record.seconds:g} s: {_ring(ring) if ring else _chain(run, clients, working)}"
    severity = gravity(run, text, busy=any(one.busy for one in working))
    if severity is None:
        yield Reach(in_pace(run))
        return
    yield check.finding(
        text,
        severity=severity,
        grade=Grade.OBSERVED,
        evidence=evidence(run, ring or [*working, *clients] or still),
        fixes=(_CALLS,)
        if ring
        else (LONGER, Fix(title="with the folder of this run ask the maintainers of what it stands in")),
    )


def _ring(ring: list[ProcessState]) -> str:
    """Actors that wait for each other."""
    calls = "; ".join(f"{one.label} {one.where}" for one in ring[:_PLACES])
    return f"{len(ring)} Ray actors are in calls that wait for each other, and no other actor is in any: {calls}"


_CALLS = Fix(
    title="do not wait in an actor's method for a call that comes back to an actor in a call: return the reference, "
    "let the driver pass the result on, or give the actor threads for both (max_concurrency)"
)


def _chain(run: StalledRun, clients: list[ProcessState], working: list[ProcessState]) -> str:
    """Who waits for whom, as far as it shows."""
    still = run.still
    engines = [one for one in still if one.kind in ("engine", "engine worker")]
    asks = next((one for one in clients if one.wait is not None and one.wait.kind == "engine"), None)
    if asks is not None and engines and all(one.wait is not None and one.wait.kind == "work" for one in engines):
        return f"{asks.label} {asks.where}, and {engines[0].label} waits for work: a request or its answer is lost"
    places: dict[str, list[ProcessState]] = {}
    for one in [*working, *clients] or still:
        places.setdefault(one.where, []).append(one)
    reported = [
        f"{ranks_named(ones)}: {where}" + "".join(f"; {link}" for link in run.chain(ones[0]))
        for where, ones in places.items()
    ]
    return "; ".join(reported[:_PLACES]) + (
        f" and {len(reported) - _PLACES} more places" if len(reported) > _PLACES else ""
    )


def _name(seen: Seen) -> str:
    return f"rank {seen.rank} (pid {seen.pid})" if seen.role == "rank" else f"{seen.name} (pid {seen.pid})"


@check.observed(needs=["observations.rollout"])
def traffic_stands_still(case: Case) -> Iterator[Finding | Reach]:
    """Traffic on a live engine that did not end until its time was over."""
    runs = list(scenario_runs(case))
    if not runs:
        raise NotChecked("no traffic was played", "--level compare")
    for job in runs:
        if job.get("ended") == "stalled" and not job.get("explained") and not least_answers.endless(job):
            frames = [line.strip() for line in job.get("tail", ()) if line.strip().startswith("File ")]
            yield check.finding(
                f"the {records(job).get('stage')} traffic on {describe(job)} did not come to its end in "
                f"{job.get('seconds') or 0:.0f} s",
                # It stood still, or this machine is slower than anybody thought of; the stacks tell.
                severity=Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=(
                    *(Evidence(text=line[:300], source="stack when its time was over") for line in frames[:4]),
                    Evidence(text="the stacks of all threads", source=str(job.get("log"))),
                ),
                fixes=(Fix(title="another release of vLLM, or without the feature that the stacks name"),),
            )
    through = [job for job in runs if job.get("ended") == "done"]
    if not through:
        raise NotChecked("no run of traffic came to its end")
    yield Reach(f"{len(through)} of {len(runs)} runs of traffic went on to their end")


# The engine's workers wait for the scheduler, or the scheduler for a worker, until the log ends.
check.signature(
    "No available shared memory broadcast block found",
    when=lambda case, event: event.count >= _REPEATS and any(event.literal in line for line in event.run.tail[-3:]),
    says="the engine's processes were waiting for each other when the log ended ({count} warnings)",
    fixes=(_LOOK,),
    role=Role.CASCADE,
    silent=True,
)


# A remote call did not answer in time.
check.signature(
    "Get timed out: some object(s) not ready",
    "GetTimeoutError",
    says="a Ray call[[ at {place}]] did not return in time: the actor is still pending, busy or hung",
    fixes=(
        Fix(title="see which actors are pending, and what they wait for", commands=("ray status", "ray list actors")),
        _LOOK,
    ),
    role=Role.CASCADE,
)


# vLLM's executor waited in vain for a worker's answer.
check.signature(
    "TimeoutError: RPC call to ",
    pattern=r"RPC call to (?P<call>\w+) timed out",
    says=(
        "a worker of the engine did not answer {call} in time: it hangs in a collective or a kernel, compiles, or died"
    ),
    fixes=(
        _LOOK,
        Fix(
            title="where it is only slow (a first compilation), wait longer",
            commands=("export VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=1200",),
        ),
    ),
    url="https://github.com/vllm-project/vllm/issues/17965",
)
