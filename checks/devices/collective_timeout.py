"""A collective did not complete: a rank did not arrive, or arrived with something else.

What it looks for
    The NCCL watchdog's report (group, operation, sequence number, rank, time limit), gloo's time-outs and closed
    connections, and collectives of which the ranks disagree about the size or the kind. In a run that still stands
    (``rldoctor hang``): ranks of which some wait in a collective and others are elsewhere, and flight recorders that
    end at different collectives. In a small job of several ranks on this host, or over all nodes where torchrun or srun
    runs rldoctor once on each: nodes that do not come, the first collective that not every rank finished, and a rank
    that takes much longer than every other for the same work.

Why it hurts
    All ranks wait for one, until a time limit ends the whole job. The rank that reports first is a rank that waited,
    not the one that is missing.

How sure it is
    A time-out is a consequence: whatever failed earlier on any rank goes before it. A size or kind that differs is the
    fault itself. Stacks show where each rank was in every sample. A run is held against its own pace, which is how
    often its log repeats itself. Within that pace, and where the missing rank moves, nothing is said; after
    ten minutes and three times the pace a rank that moves is a note, for a loop that asks in vain moves, too. Where it
    computes, or has been quiet for little longer, it is a warning; beyond that an error. Where nothing tells the pace
    there is no judgement. Certain are ranks that flight recorders show waiting for each other in a ring, and a rank
    that has no process on its host.

The fix and its cost
    Find what the missing rank did (its last line, its stack). Where it was legitimately slow (a checkpoint, an
    evaluation, a long rollout on one rank), a longer time limit. ``TORCH_NCCL_TRACE_BUFFER_SIZE`` records the last
    collectives of every rank for the next time, at no cost worth naming.

References
    https://pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications
    ``ProcessGroupNCCL.cpp`` (``Watchdog caught collective operation timeout``)
    https://github.com/OpenRLHF/OpenRLHF/issues/1126, https://github.com/verl-project/verl/issues/597
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor.api import Case, Check, Evidence, Finding, Fix, Grade, LogEvent, NotApplicable, Reach, Role, Severity
from rldoctor.api.hang import numbered, ranks_named, stalled_run

from ..observed import communication
from ..observed.waiting import (
    LONGER,
    STARTS,
    evidence,
    explained_elsewhere,
    gravity,
    in_pace,
    in_vain,
    missing_text,
    watched,
)

if TYPE_CHECKING:
    from rldoctor.api.hang import MissingPeers, ProcessState, StalledRun

check = Check("RLD321", "collective-timeout", __doc__)

_RECORD = Fix.safe(
    "record the last collectives of every rank, and judge the dumps after the next time-out",
    {"env.TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "env.TORCH_NCCL_DUMP_ON_TIMEOUT": "1"},
)
_FABRIC = Fix(
    title="test the fabric: the interface that NCCL chose, P2P and InfiniBand",
    commands=("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET torchrun ...",),
)
_ORDER = Fix(title="let every rank call the same collectives in the same order: no branch on the rank may skip one")
_PAIRS = Fix(
    title="let one rank of the ring send before it receives, or start both without waiting: "
    "torch.distributed.batch_isend_irecv"
)
_LONGER = Fix(
    title="where the missing rank was only slow (checkpoint, evaluation, long rollout): a longer time limit for the "
    "group (ddp_timeout, timeout= of init_process_group), or the slow work on all ranks",
    side_effects="a real hang is noticed later",
)


@check.observed(needs=["observations.hang"])
def rank_not_there(case: Case) -> Iterator[Finding | Reach]:
    """Ranks that stand in a collective, and those of their world that do not."""
    run = watched(case)
    for group in run.missing_peers:
        loops = group.moving and run.pace.overdue and not group.served and not run.behind
        if (group.moving and not loops) or explained_elsewhere(run, group):
            yield Reach(f"{missing_text(group)}, and moves" if group.moving else missing_text(group))
            continue
        severity = Severity.NOTE if loops else _gravity(run, group)
        if severity is None:
            yield Reach(f"{missing_text(group)}: {in_pace(run)}")
            continue
        yield check.finding(
            missing_text(group, run) + (f"; it moves, yet {in_vain(run)}" if loops else ""),
            severity=severity,
            grade=Grade.OBSERVED,
            evidence=evidence(run, (*group.missing, *group.waiting)),
            fixes=(*_elsewhere(group.missing), LONGER, _RECORD),
            url="https://pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications",
        )
    for peers in run.together:
        classes = _calls(peers)
        ring = run.ring(peers)
        text = _ring_text(ring) if ring else _together_text(classes, peers)
        severity = None if run.cycle or run.unequal else gravity(run, text, busy=False)
        if severity is None:
            yield Reach("the flight recorders say more" if run.cycle or run.unequal else in_pace(run))
            continue
        yield check.finding(
            text,
            severity=severity if ring or len(classes) > 1 else Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=evidence(run, ring or peers),
            fixes=(*_together_fixes(classes, ring), LONGER, _RECORD),
        )
    yield Reach(f"{len(run.process_states)} processes compared")


def _gravity(run: StalledRun, group: MissingPeers) -> Severity | None:
    """A rank that has no process, or has ended, will not come, however slow the run is; one that nobody looked at may
    be anywhere."""
    ages = [one.seen.age for one in group.waiting if one.seen.age is not None]
    if group.dead or (group.absent and min(ages, default=STARTS) >= STARTS):
        return Severity.ERROR
    if not group.missing and not group.absent:
        return Severity.NOTE
    return gravity(run, missing_text(group), busy=any(one.busy for one in group.missing))


def _calls(peers: Sequence[ProcessState]) -> list[list[ProcessState]]:
    """Peers by what they called: the operation, the group as their line of code names it, and where that is a plain
    name, the line that handed it over. The fewest first."""
    found: dict[tuple[str, str, str], list[ProcessState]] = {}
    for one in peers:
        if one.wait is not None:
            # The two ends of one call have two names.
            operation = re.sub(r"^(i?)(?:send|recv)\w*", "send and receive", one.wait.operation)
            helped = one.through if one.wait.group.isidentifier() else None
            found.setdefault((operation, one.wait.group, helped.code if helped else ""), []).append(one)
    return sorted(found.values(), key=len)


def _together_text(classes: list[list[ProcessState]], peers: Sequence[ProcessState]) -> str:
    if len(classes) == 1:
        said = "; ".join(f"{one.label} {one.where}" for one in peers[:6])
        group = classes[0][0].wait.group if classes[0][0].wait is not None else ""
        # One line of code may serve several groups.
        same = f"call, where {group} need not be the same group on each" if group else "collective"
        return f"every rank waits in the same {same}, and it does not go on: {said}"
    shared = len({_call(ones[0]) for ones in classes}) < len(classes)
    said = ", ".join(f"{ranks_named(ones)} in {_call(ones[0], shared)}" for ones in classes[:6])
    return f"every rank waits in a collective, and not in the same, so they call them in another order: {said}"


def _together_fixes(classes: list[list[ProcessState]], ring: Sequence[ProcessState]) -> tuple[Fix, ...]:
    if ring:
        return (_PAIRS,)
    wait = classes[0][0].wait
    if len(classes) > 1:
        return (_ORDER,)
    return (_ORDER, _FABRIC) if wait is not None and wait.group else (_FABRIC,)


def _ring_text(ring: Sequence[ProcessState]) -> str:
    said = ", ".join(
        f"{ranks_named([one])} in {_call(one)} for {ranks_named([other])}"
        for one, other in zip(ring, [*ring[1:], ring[0]], strict=True)
    )
    return f"ranks wait for each other: {said}"


def _call(one: ProcessState, helped: bool = False) -> str:
    """``all_reduce of self.dp_group at train.py:9``; with ``helped`` also who asked for it."""
    wait, place = one.wait, one.place
    assert wait is not None  # these are ranks in a collective
    group = f" of {wait.group}" if wait.group else ""
    at = f" at {Path(place.file).name}:{place.line}" if place is not None else ""
    through = one.through if helped else None
    asked = f", called at {Path(through.file).name}:{through.line}" if through is not None else ""
    return f"{wait.operation}{group}{at}{asked}"


@check.observed(needs=["observations.hang"])
def recorders_differ(case: Case) -> Iterator[Finding | Reach]:
    """The flight recorders' newest collectives."""
    run = stalled_run(case)
    records = run.record.records
    if len([record for record in records if record.last]) < 2:
        broken = next((f"{record.file}: {record.problem}" for record in records if record.problem), None)
        raise NotApplicable(broken or "no flight recorder has dumped (TORCH_FR_BUFFER_SIZE)")
    if any(one.moving for one in run.process_states) and not run.missing_peers:
        yield Reach(f"flight recorders of {len(records)} ranks, from before: the run has gone on since")
        return
    for number in run.unequal:
        ways = ", ".join(f"{what} on {_ranks(ranks)}" for what, ranks in number.ways.items())
        yield check.finding(
            f"collective number {number.number} of group {number.group} is not the same on all ranks: {ways}",
            severity=Severity.ERROR,
            grade=Grade.OBSERVED,
            fixes=(_ORDER,),
        )
    if run.cycle:
        yield _crossed(run)
        return
    for one in run.behind:
        newest, oldest = one.last[one.ahead[0]], min((one.last[rank] for rank in one.behind), key=lambda c: c.number)
        at = f" at {newest.frame}" if newest.frame is not None else ""
        text = (
            f"in group {one.group} {_ranks(one.ahead)} began {newest.operation} number {newest.number}{at}, and "
            f"{_ranks(one.behind)} did not: the last there is {oldest.operation} number {oldest.number}"
        )
        severity = gravity(run, text, busy=any(one.busy for one in run.process_states))
        if severity is None:
            yield Reach(f"{text}; {in_pace(run)}")
            continue
        yield check.finding(
            text,
            severity=severity if newest.state != "completed" else Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=tuple(
                Evidence(text=f"group {one.group}, rank {rank}: {c.operation} number {c.number} ({c.state}) {c.sizes}")
                for rank, c in list(one.last.items())[:8]
            ),
            fixes=(Fix(title=f"see what {_ranks(one.behind)} did instead: its stack, its last lines"),),
        )
    yield Reach(f"flight recorders of {len(records)} ranks compared")


def _crossed(run: StalledRun) -> Finding:
    """Ranks that wait for each other in collectives that the others have not begun."""
    ring = run.cycle
    links = [f"rank {one.rank} waits in {one.collective.operation} number {one.collective.number} of group "
             f"{one.collective.group} for {_ranks(one.absent)}" for one in ring]  # fmt: skip
    return check.finding(
        f"ranks wait for each other: {', '.join(links)}; {_who(run)}",
        severity=Severity.ERROR,
        grade=Grade.OBSERVED,
        evidence=tuple(
            Evidence(text=f"rank {one.rank}: {one.collective.operation} number {one.collective.number} of group "
                     f"{one.collective.group}"
                     + (f" at {one.collective.frame}" if one.collective.frame is not None else ""))
            for one in ring
        ),
        fixes=(_ORDER,),
    )  # fmt: skip


def _who(run: StalledRun) -> str:
    """Whose order is another than whose, by the group in whose collective each waits."""
    groups = {one.collective.group for one in run.cycle}
    classes: dict[str, list[str]] = {}
    for one in run.awaited:
        if one.collective.group in groups:
            classes.setdefault(one.collective.group, []).append(one.rank)
    if len(classes) > 2:
        return "each calls these collectives in an order of its own"
    sides = " than by ".join(_ranks(ranks) for ranks in sorted(classes.values(), key=len))
    return f"the collectives are called in another order by {sides}"


_SLOW = Fix(
    title="see what else runs on its device or its cores, and whether it is throttled",
    commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,CLOCK", "top"),
)


@check.observed(needs=["observations.collectives"])
def not_finished_here(case: Case) -> Iterator[Finding | Reach]:
    """A small job of several ranks on this host, or over all nodes that run this command at once."""
    met = communication.meeting(case)
    if met is not None and (absent := _not_come(met)):
        yield absent
        return
    found = communication.runs(case)
    first = found[0]
    if first.done:
        late = first.late()
        if late is not None:
            rounds = "every round" if late.rounds == late.of else f"{late.rounds} of {late.of} rounds"
            yield check.finding(
                f"rank {late.rank} of {len(first.ranks)} {first.where}{first.at(late.rank)} takes at least "
                f"{late.times:.1f} times as long as the others for the same work, in {rounds}: they wait for it "
                f"{late.waited:.2f} s in each collective",
                severity=Severity.WARNING,
                grade=Grade.REPRODUCED,
                evidence=communication.arrivals(first),
                fixes=(_SLOW,),
            )
            return
        yield Reach(first.describe())
        return
    call = first.waiting
    if call is None or first.shared() or communication.cured_without(found):
        raise NotApplicable("no collective was left unfinished, or for a reason of its own: RLD302, RLD320, RLD322")
    missing = first.absent_from(call)
    yield check.finding(
        f"{call['name']} ({call['backend']}) between {len(first.ranks)} ranks {first.where} did not complete: "
        + (
            f"{_ranks([str(rank) for rank in missing])}{first.at(*missing)} did not arrive"
            if missing
            else "all ranks called it and do not get through to each other"
        ),
        grade=Grade.REPRODUCED,
        evidence=(*communication.evidence(first.unfinished(call)), *communication.warnings(first.ranks)),
        fixes=(_RECORD,) if missing else (_FABRIC, _RECORD),
    )


def _not_come(met: communication.Row) -> Finding | None:
    """Nodes that the launcher counts, and that did not come to where all meet; the first, where this one did not get
    to it."""
    hosts: dict[str, str] = met.get("hosts", {})
    where = f"{met['address']}:{met['port']} within {met['seconds']:.0f} s"
    if hosts and len(hosts) < met["count"]:
        absent = [number for number in range(met["count"]) if str(number) not in hosts]
        text = f"of {met['count']} nodes {numbered(absent, 'node')} did not come to {where}"
    elif not hosts:
        text = f"node {met['number']} of {met['count']} does not get through to node 0 at {where}: {met['problem']}"
    else:
        return None
    return check.finding(
        text,
        grade=Grade.REPRODUCED,
        evidence=tuple(
            Evidence(text=f"node {number} came: {name}", source=communication.PROBE)
            for number, name in list(hosts.items())[:8]
        ),
        fixes=(_REACH,),
    )


_REACH = Fix(
    title="see that the command started there, that its name for node 0 leads to an address that all reach, and that "
    "no firewall closes the ports between the nodes",
    commands=("getent hosts NODE0", "nc -vz NODE0 PORT"),
)


def _ranks(names: Sequence[str]) -> str:
    numbers = [int(name) for name in names if name.isdecimal()]
    return numbered(numbers) if len(numbers) == len(names) else ", ".join(names)


def _elsewhere(missing: Sequence[ProcessState]) -> Iterator[Fix]:
    """What the code that a rank stands in needs, where it is the user's own."""
    own = next((one.own for one in missing if one.own is not None and one.wait is None), None)
    if own is not None:
        yield Fix(
            title=f"give {own.function} at {own.file}:{own.line} a time limit, and let every rank run it, or hand its "
            f"result to the others: a collective needs all ranks"
        )


@check.logged("Watchdog caught collective operation timeout", role=Role.CASCADE)
def watchdog(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)``."""
    work = event.search(r"SeqNum=(\d+), OpType=(\w+)(?:[\s\S]{0,80}?Timeout\(ms\)=(\d+))?")
    group = event.search(r"PG(?: ID (\d+))? ?GUID (\S+?)[\s(]|\[PG (\d+)")
    done = event.search(r"last completed NCCL work: (-?\d+)")
    if work is None:
        return
    named = f" of group {group[2] or group[3]}" if group else ""
    ranks = f" on {_ranks(event.ranks)}" if event.ranks else ""
    limit = f"within {int(work[3]) // 1000} s" if work[3] else "in time"
    first = done is not None and done[1] in ("-1", "0") and int(work[1]) <= 1
    yield check.finding(
        f"{work[2]} number {work[1]}{named} did not complete {limit}{ranks}"
        + (": it was the first collective, so the ranks cannot reach each other at all" if first else
           ": a rank that reported nothing did not arrive"),
        fixes=(
            *(
                (_FABRIC,)
                if first
                else (_LONGER,)
            ),
            _RECORD,
        ),
        url="https://pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications",
    )  # fmt: skip


# The monitor's word for word since torch 2.2; the time limit is TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.
check.signature(
    "'s watchdog got stuck for ",
    pattern=r"watchdog got stuck for (?P<seconds>\d+) seconds without making progress",
    says="the NCCL watchdog[[ of {ranks}]] made no progress for {seconds} s, and torch ended the process: a CUDA or "
    "NCCL call hangs, mostly because another rank did not arrive or ended first",
    fixes=(
        Fix(
            title="judge the logs of all ranks together: the one that is missing here, or ended first, holds the cause",
            commands=("torchrun --log-dir LOGS --tee 3 ...", "rldoctor triage LOGS"),
        ),
        _RECORD,
        Fix.unsafe(
            "where the call was only slow (a long load, a long compilation): a longer time limit for the monitor",
            {"env.TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "1800"},
            side_effects="a real hang is noticed later",
        ),
    ),
    role=Role.CASCADE,
    url="https://pytorch.org/docs/stable/torch_nccl_environment_variables.html",
)


# gloo compares sizes on arrival; TORCH_DISTRIBUTED_DEBUG=DETAIL compares the calls.
check.signature(
    "Received data size doesn't match expected size",
    "Detected mismatch between collectives on ranks",
    silent=True,
    details=(r"op\.preamble\.length <= op\.nbytes\. (?P<one>\d+) vs (?P<other>\d+)",),
    says="the ranks called a collective with different [[sizes ({one} and {other} bytes)||operations or sizes]]",
    fixes=(
        Fix(title="give every rank the same shapes: drop or pad the last uneven batch, or gather with padding"),
        Fix.safe(
            "let torch name the call and the ranks",
            {"env.TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
            side_effects="slower collectives",
        ),
    ),
    url="https://pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications",
)


@check.logged("for recv operation to complete", "for send operation to complete", role=Role.CASCADE)
def gloo_timed_out(case: Case, event: LogEvent) -> Iterator[Finding]:
    """gloo's ``Timed out waiting 15000ms for recv operation to complete``."""
    limit = event.search(r"Timed out waiting (\d+)ms")
    frame = event.exception.user_frame if event.exception else None
    where = f" at {frame.file}:{frame.line} ({frame.code})" if frame else ""
    yield check.finding(
        f"a collective{where} waited {int(limit[1]) // 1000 if limit else '?'} s for a rank that did not arrive",
        fixes=(_LONGER, Fix(title="see what the other ranks did meanwhile: their last lines, or rldoctor hang")),
    )


_ALL_RANKS = Fix(
    title="judge the logs of all ranks together: the one that ended first holds the cause",
    commands=("torchrun --log-dir LOGS --tee 3 ...", "rldoctor triage LOGS"),
)


# What is left of a collective that failed or timed out: the watchdog ends the process.
check.signature(
    "NCCL communicator was aborted on rank",
    "Some NCCL operations have failed or timed out.",
    "taking the entire process down",
    "heartbeat monitor timed out",
    "Heartbeat monitor timed out",
    "Watchdog thread terminated with exception",
    " detected by watchdog at work",
    "Timeout at NCCL work: ",
    says="torch ended a process because a collective had failed or timed out, here or on another rank",
    fixes=(_ALL_RANKS, _RECORD),
    role=Role.CASCADE,
)


# The other side of a connection ended first: a recorded death says more.
check.signature(
    "Connection closed by peer [",
    "Connection reset by peer. This is typically caused by a remote worker",
    "This is typically caused by a remote worker hanging or bugs in the application",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting",
    "remote process exited or there was a network error",
    "Failed to recv, got 0 bytes",
    'Failed to check the "should dump" flag on TCPStore',
    says="a rank lost the connection to another one that had ended before",
    fixes=(_ALL_RANKS,),
    role=Role.WRAPPER,
)


# DeepEP's kernels and host code on experts whose ranks did not answer.
check.signature(
    "DeepEP error: CPU recv timeout",
    "DeepEP error: timeout",
    "DeepEP timeout check failed",
    "DeepEP timeout for ",
    "DeepEP dispatch ",
    "DeepEP combine ",
    pattern=r"DeepEP (?:(?:error: )?(?:CPU recv )?timeout|(?P<phase>dispatch|combine)\b[^\n,]{0,60}? timeout(?:,| \())",
    says="an exchange between experts (DeepEP[[, {phase}]]) timed out: a rank did not arrive",
    fixes=(
        _ALL_RANKS,
        Fix(
            title="give every rank of the expert group the same number of steps: an idle rank runs an empty batch, and "
            "compilation or warm-up on one rank is over before the others wait"
        ),
    ),
    role=Role.CASCADE,
    silent=True,
    url="https://github.com/deepseek-ai/DeepEP",
)


check.signature(
    "EI0002: ",
    "EE1002: ",
    "The wait execution of the Notify register times out",
    "Notify wait timeout",
    says="a collective of the Ascend devices (HCCL) timed out: a rank did not arrive",
    fixes=(
        Fix(
            title="judge the logs of all ranks together: the one that ended or hangs first holds the cause",
            commands=("rldoctor triage LOGS",),
        ),
        Fix(title="or give slow steps more time", commands=("export HCCL_EXEC_TIMEOUT=3600",)),
    ),
    role=Role.CASCADE,
    url="https://www.hiascend.com/document/detail/en/canncommercial/800/apiref/envvar/envref_07_0078.html",
)
