"""The ranks that a run expects and the ranks that are started differ.

What it looks for
    A launcher that is told of more nodes than there are, processes that cannot be shared out over the nodes. In a log:
    a store that waits for clients which never join, ranks beyond the world size.

Why it hurts
    Every rank that was started waits for the others until the time limit, minutes to half an hour, and the error then
    speaks of a socket.

How sure it is
    The number of nodes is what ``--assume`` or the bundle tells; without it the nodes are not judged.

The fix and its cost
    Say the same number everywhere: WORLD_SIZE is nodes times processes per node, and the launcher runs on every node.

References
    https://docs.pytorch.org/docs/stable/elastic/run.html
    ``torch/csrc/distributed/c10d/TCPStore.cpp`` (``Timed out after ... seconds waiting for clients``)
    https://github.com/NovaSky-AI/SkyRL/issues/1398
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, Fix, LogEvent, NotApplicable, NotChecked, Reach, cite, plan_of

check = Check(
    "RLD324",
    "world-size-mismatch",
    __doc__,
    before=(
        "RLD323",
        "RLD321",
    ),
)

LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "srun")


@check.declared(needs=["plan.process.nnodes"])
def nodes_that_exist(case: Case) -> Iterator[Finding | Reach]:
    """The launcher's nodes against those that there are."""
    plan = plan_of(case)
    if plan.value("process.launcher") not in LAUNCHERS:
        raise NotApplicable("no launcher counts nodes here")
    nodes, there = plan.value("process.nnodes"), case.nodes
    if there is None:
        raise NotChecked("how many nodes there are is not known", how='"nodes" in --assume machine.json')
    if nodes <= there:
        yield Reach(f"{nodes} of {there} nodes")
        return
    yield check.finding(
        f"the launcher waits for {nodes} nodes, and there {'are' if there > 1 else 'is'} {there}",
        evidence=(*cite(plan, "process.nnodes", "process.total"), Evidence(text=f"{there} node(s)", source="nodes")),
        fixes=(
            Fix.unsafe(
                f"start it for {there} node{'s' if there > 1 else ''}",
                {"process.nnodes": there},
                side_effects="the batch counts with the number of processes",
            ),
        ),
    )


@check.declared(needs=["plan.process.total", "plan.process.nnodes"])
def shared_out_over_nodes(case: Case) -> Iterator[Finding | Reach]:
    """accelerate starts ``num_processes // num_machines`` on each node and expects ``num_processes``."""
    plan = plan_of(case)
    total, nodes = plan.value("process.total"), plan.value("process.nnodes")
    if plan.value("process.launcher") != "accelerate" or nodes < 2:
        raise NotApplicable("the processes are counted by node")
    if total % nodes == 0:
        yield Reach(f"{total} processes on {nodes} nodes")
        return
    yield check.finding(
        f"{total} processes cannot be shared out over {nodes} machines: accelerate starts {total // nodes} on each",
        evidence=cite(plan, "process.total", "process.nnodes"),
        fixes=(Fix.unsafe(f"{total // nodes} processes on each machine", {"process.total": total // nodes * nodes}),),
    )


_SAME = Fix(
    title="make WORLD_SIZE the number of ranks that are started (nodes x processes per node), and start the launcher "
    "on every node with the same numbers",
    commands=("torchrun --nnodes=NODES --nproc_per_node=GPUS ...",),
)


@check.logged(
    "waiting for clients. ", unless=("init_communicator", "StatelessProcessGroup", "init_weight_update_group")
)
def clients_missing(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The master's store, which counts who joined."""
    numbers = event.search(r"waiting for clients\. (\d+)/(\d+) clients joined")
    if numbers is None:
        return
    yield check.finding(
        f"{numbers[1]} of {numbers[2]} ranks joined: the world size is larger than the number of ranks that started",
        fixes=(_SAME,),
        url="https://docs.pytorch.org/docs/stable/elastic/run.html",
    )


@check.logged("] rank < size. ")
def rank_beyond_the_world(case: Case, event: LogEvent) -> Iterator[Finding]:
    """gloo's own test of a rank's number."""
    numbers = event.search(r"rank < size\. (\d+) vs (\d+)")
    which = f" (rank {numbers[1]} of {numbers[2]})" if numbers else ""
    yield check.finding(f"a rank's number is beyond the world size{which}", fixes=(_SAME,))


@check.logged("is out of range. Valid ranks are ", "The new group's rank should be within the world_size set by")
def group_beyond_the_world(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``torch.distributed.new_group`` is asked for ranks that were not started."""
    numbers = event.search(r"Rank (\d+) is out of range\..{1,60}world_size=(\d+)")
    which = f": rank {numbers[1]} of {numbers[2]}" if numbers else ""
    yield check.finding(f"a process group is to hold a rank beyond the world size{which}", fixes=(_SAME,))
