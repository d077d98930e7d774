"""A collective did not complete: a rank did not arrive, or arrived with something else.

What it looks for
    The NCCL watchdog's report (group, operation, sequence number, rank, time limit), gloo's time-outs and closed
    connections, and collectives of which the ranks disagree about the size or the kind.

Why it hurts
    All ranks wait for one, until a time limit ends the whole job. The rank that reports first is a rank that waited,
    not the one that is missing.

How sure it is
    A time-out is a consequence: whatever failed earlier on any rank goes before it. A size or kind that differs is the
    fault itself.

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

from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Check, Edit, Finding, Fix, LogEvent, Role

check = Check("RLD321", "collective-timeout", __doc__)

_RECORD = Fix(
    title="record the last collectives of every rank, and judge the dumps after the next time-out",
    applicability=Applicability.SAFE,
    edits=(
        Edit(option="env.TORCH_NCCL_TRACE_BUFFER_SIZE", value="2000"),
        Edit(option="env.TORCH_NCCL_DUMP_ON_TIMEOUT", value="1"),
    ),
)
_LONGER = Fix(
    title="where the missing rank was only slow (checkpoint, evaluation, long rollout): a longer time limit for "
    "the group "
    "(ddp_timeout, timeout= of init_process_group), or the slow work on all ranks",
    side_effects="a real hang is noticed later",
)


@check.logged("Watchdog caught collective operation timeout", role=Role.CASCADE)
def watchdog(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)``."""
    work = event.search(r"SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?.{0,60}?Timeout\(ms\)=(\d+)")
    group = event.search(r"PG(?: ID (\d+))? ?GUID (\S+?)[\s(]|\[PG (\d+)")
    done = event.search(r"last completed NCCL work: (-?\d+)")
    if work is None:
        return
    named = f" of group {group[2] or group[3]}" if group else ""
    ranks = f" on rank{'s' if len(event.ranks) > 1 else ''} {', '.join(event.ranks[:8])}" if event.ranks else ""
    first = done is not None and done[1] in ("-1", "0") and int(work[1]) <= 1
    yield check.finding(
        f"{work[2]} number {work[1]}{named} did not complete within {int(work[4]) // 1000} s{ranks}"
        + (": it was the first collective, so the ranks cannot reach each other at all" if first else
           ": a rank that reported nothing did not arrive"),
        fixes=(
            *(
                (Fix(title="test the fabric: the interface that NCCL chose, P2P and InfiniBand",
                     commands=("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET torchrun ...",)),)
                if first
                else (_LONGER,)
            ),
            _RECORD,
        ),
        url="https://pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications",
    )  # fmt: skip


@check.logged("Received data size doesn't match expected size", "Detected mismatch between collectives on ranks")
def ranks_disagree(case: Case, event: LogEvent) -> Iterator[Finding]:
    """gloo compares sizes on arrival; TORCH_DISTRIBUTED_DEBUG=DETAIL compares the calls."""
    sizes = event.search(r"op\.preamble\.length <= op\.nbytes\. (\d+) vs (\d+)")
    yield check.finding(
        "the ranks called a collective with different "
        + (f"sizes ({sizes[1]} and {sizes[2]} bytes)" if sizes else "operations or sizes"),
        fixes=(
            Fix(title="give every rank the same shapes: drop or pad the last uneven batch, or gather with padding"),
            Fix(
                title="let torch name the call and the ranks",
                applicability=Applicability.SAFE,
                edits=(Edit(option="env.TORCH_DISTRIBUTED_DEBUG", value="DETAIL"),),
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


@check.logged(
    "Connection closed by peer [",
    "Connection reset by peer. This is typically caused by a remote worker",
    "This is typically caused by a remote worker hanging or bugs in the application",
    "NCCL communicator was aborted on rank",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting",
    "Some NCCL operations have failed or timed out.",
    "taking the entire process down",
    "Failed to recv, got 0 bytes",
    "heartbeat monitor timed out",
    "Watchdog thread terminated with exception",
    'Failed to check the "should dump" flag on TCPStore',
    role=Role.CASCADE,
)
def peer_is_gone(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The other side of a connection ended first."""
    yield check.finding(
        "a rank lost the connection to another one that had ended before",
        fixes=(Fix(title="judge the logs of all ranks together: the one that ended first holds the cause",
                   commands=("torchrun --log-dir LOGS --tee 3 ...", "rldoctor triage LOGS")),),
    )  # fmt: skip
