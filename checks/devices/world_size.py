"""The ranks that a run expects and the ranks that are started differ.

What it looks for
    A launcher that is told of more nodes than there are or than the scheduler is asked for (``#SBATCH``, ``#PBS``,
    ``#BSUB``, ``sbatch``, ``srun``, a hostfile, a manifest of Kubernetes); an srun or mpirun that starts another number
    of launchers than they wait for, or one for every device where each starts processes for all of them; an mpirun for
    more ranks than its hosts have slots; a node whose rank is none of theirs; a torchrun for several nodes that the
    batch script starts on the first one alone; processes that cannot be shared out over the nodes; an accelerate that
    is told of one node's processes for all of them. In a log: a store that waits for clients which never join, ranks
    beyond the world size.

Why it hurts
    Every rank that was started waits for the others until the time limit, minutes to half an hour, and the error then
    speaks of a socket.

How sure it is
    The number of nodes is what ``--assume`` or the bundle tells, else what the file asks the scheduler for; without
    either the nodes are not judged. A range (``--nodes=2-4``), a variable, and steps in the background or on nodes that
    srun is given by name are not judged either.

The fix and its cost
    Say the same number everywhere: WORLD_SIZE is nodes times processes per node, and the launcher runs on every node.

References
    https://docs.pytorch.org/docs/stable/elastic/run.html, https://slurm.schedmd.com/srun.html
    ``torch/csrc/distributed/c10d/TCPStore.cpp`` (``Timed out after ... seconds waiting for clients``)
    https://github.com/NovaSky-AI/SkyRL/issues/1398
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)

from ..declared.allocation import more_nodes, named, nodes_there

check = Check(
    "RLD324",
    "world-size-mismatch",
    __doc__,
    before=(
        "RLD323",
        "RLD321",
    ),
)

LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "srun", "mpirun")


@check.declared(needs=["plan.process.nnodes"])
def nodes_that_exist(case: Case) -> Iterator[Finding | Reach]:
    """The launcher's nodes against those that there are."""
    plan = plan_of(case)
    if plan.value("process.launcher") not in LAUNCHERS:
        raise NotApplicable("no launcher counts nodes here")
    nodes, there, evidence = plan.value("process.nnodes"), *nodes_there(case, plan)
    if there is None:
        raise NotChecked("how many nodes there are is not known", how='"nodes" in --assume machine.json')
    if nodes <= there:
        yield Reach(f"{nodes} of {there} nodes")
        return
    asked = named(case) is None
    yield check.finding(
        f"the launcher waits for {nodes} nodes, and "
        + (
            f"{there} {'are' if there > 1 else 'is'} allocated"
            if asked
            else f"there {'are' if there > 1 else 'is'} {there}"
        ),
        evidence=(*cite(plan, "process.nnodes", "process.total"), *evidence),
        fixes=(
            Fix.unsafe(
                f"start it for {there} node{'s' if there > 1 else ''}",
                {"process.nnodes": there},
                side_effects="the batch counts with the number of processes",
            ),
            *(more_nodes(plan, nodes) if asked else ()),
        ),
    )


@check.declared(needs=["plan.process.nnodes", "plan.process.node_rank"])
def rank_of_the_node(case: Case) -> Iterator[Finding | Reach]:
    """The launcher's own place among the nodes, which counts from 0; ranks that meet at a store are given theirs."""
    plan = plan_of(case)
    if _meets(plan):
        raise NotApplicable("the rendezvous gives each node its rank")
    nodes, rank = plan.value("process.nnodes"), plan.value("process.node_rank")
    if 0 <= rank < nodes:
        yield Reach(f"node {rank} of {nodes}")
        return
    yield check.finding(
        f"this is node {rank} of {nodes}: the ranks of nodes go from 0 to {nodes - 1}, and the others wait for one "
        "that never joins",
        evidence=cite(plan, "process.node_rank", "process.nnodes"),
        fixes=(Fix(title="give each node its own rank, the first one 0"),),
    )


def _meets(plan: RolloutPlan) -> bool:
    """Whether torchrun's ranks find each other at a store, and not at an address by their numbers."""
    return bool(plan.value("process.standalone")) or plan.value("process.rdzv_backend", "static") != "static"


# One task on each node, as each of them spells it.
_ONE_A_NODE = {
    "srun": "srun --nodes={nodes} --ntasks-per-node=1",
    "mpirun": "mpirun -np {nodes} --map-by ppr:1:node",
    "mpiexec": "mpiexec -n {nodes} -ppn 1",
}


def _starter(plan: RolloutPlan) -> str:
    """What starts the tasks of the step, as it is written."""
    step = plan.get("scheduler.step")
    return step.key if step is not None and step.key in _ONE_A_NODE else "srun"


def _one_a_node(plan: RolloutPlan, launcher: str, nodes: int, title: str) -> Fix:
    return Fix(title=title, commands=(f"{_ONE_A_NODE[_starter(plan)].format(nodes=nodes)} {launcher} ...",))


@check.declared(needs=["plan.scheduler.slots", "plan.scheduler.step_tasks"])
def slots_of_the_hosts(case: Case) -> Iterator[Finding | Reach]:
    """Open MPI starts no more ranks than the hosts have slots."""
    plan = plan_of(case)
    slots, tasks = plan.value("scheduler.slots"), plan.value("scheduler.step_tasks")
    if tasks <= slots:
        yield Reach(f"{tasks} ranks in {slots} slots")
        return
    yield check.finding(
        f"{_starter(plan)} is to start {tasks} ranks, and the hosts have {slots} slots: Open MPI refuses",
        evidence=cite(plan, "scheduler.step_tasks", "scheduler.slots"),
        fixes=(
            Fix(title=f"start {slots} ranks, or add hosts", commands=(f"mpirun -np {slots} ...",)),
            Fix(title="slots are the devices of a host: correct the hostfile where it has more of them"),
        ),
        url="https://docs.open-mpi.org/en/main/launching-apps/scheduling.html",
    )


@check.declared(needs=["plan.scheduler.step_tasks", "plan.process.nnodes"])
def launchers_that_srun_starts(case: Case) -> Iterator[Finding | Reach]:
    """Each task of a step is a launcher of its own, and they wait for as many as ``--nnodes`` says."""
    plan = plan_of(case)
    launcher, tasks, nodes = (plan.value(n) for n in ("process.launcher", "scheduler.step_tasks", "process.nnodes"))
    if launcher not in ("torchrun", "accelerate") or nodes < 2:
        raise NotApplicable("no launchers that wait for each other")
    if plan.value("process.background") or plan.value("scheduler.step") != "whole":
        raise NotApplicable("a step for some of the nodes: others may be started beside it")
    if tasks == nodes:
        yield Reach(f"{tasks} launchers on {nodes} nodes")
        return
    yield check.finding(
        f"{_starter(plan)} starts {tasks} {launcher}{'s' if tasks > 1 else ''}, and they wait for {nodes}: one on each "
        "node",
        evidence=cite(plan, "scheduler.step_tasks", "scheduler.step_nodes", "process.nnodes", "process.nproc"),
        fixes=(_one_a_node(plan, launcher, nodes, f"start one {launcher} on each of the {nodes} nodes"),),
        url="https://slurm.schedmd.com/srun.html#OPT_ntasks-per-node",
    )


@check.declared(needs=["plan.scheduler.step_tasks", "plan.process.nproc"])
def a_launcher_for_every_task(case: Case) -> Iterator[Finding | Reach]:
    """Each task of a step on one node is a launcher that starts processes for all of its devices."""
    plan = plan_of(case)
    launcher, tasks, each = (plan.value(n) for n in ("process.launcher", "scheduler.step_tasks", "process.nproc"))
    nodes, devices = plan.value("scheduler.step_nodes"), plan.value("scheduler.gpus_per_node")
    if launcher not in ("torchrun", "accelerate") or plan.value("process.nnodes", 1) != 1 or each < 2:
        raise NotApplicable("no launchers of several processes, each by itself")
    if plan.value("process.background") or plan.value("scheduler.step") != "whole" or not nodes or not devices:
        raise NotChecked("what a step gives to each of its tasks is not known")
    if tasks <= nodes or tasks * each <= nodes * devices:
        yield Reach(f"{tasks} launchers of {each} processes on {nodes * devices} devices")
        return
    yield check.finding(
        f"{_starter(plan)} starts {tasks} times {launcher}, each of {each} processes: {tasks * each} share the "
        f"{nodes * devices} devices{'' if _meets(plan) else ', and all but the first find its port taken'}",
        evidence=cite(plan, "scheduler.step_tasks", "scheduler.tasks_per_node", "process.nproc", "scheduler.gpus"),
        fixes=(_one_a_node(plan, launcher, nodes, f"start one {launcher} on a node, which starts the processes"),),
        url="https://slurm.schedmd.com/srun.html#OPT_ntasks-per-node",
    )


@check.declared(needs=["plan.scheduler.first_node", "plan.process.nnodes"])
def launcher_on_the_first_node(case: Case) -> Iterator[Finding | Reach]:
    """Slurm runs the batch script on the first node alone, and a torchrun there waits for those of the others."""
    plan = plan_of(case)
    nodes = plan.value("process.nnodes")
    if plan.value("process.launcher") != "torchrun" or nodes < 2 or plan.value("scheduler.step"):
        raise NotApplicable("no torchrun in the batch script that waits for other nodes")
    if (plan.value("scheduler.nodes") or 0) < 2:
        raise NotChecked("how many nodes are allocated is not known")
    yield check.finding(
        f"the batch script runs on the first of {plan.value('scheduler.nodes')} nodes, and nothing starts this "
        f"torchrun on the others: it waits for {nodes} nodes",
        evidence=cite(plan, "process.nnodes", "scheduler.nodes"),
        fixes=(
            Fix(
                title="let srun start it on every node",
                commands=(f"srun --nodes={nodes} --ntasks-per-node=1 torchrun --rdzv_backend=c10d ...",),
            ),
        ),
        url="https://slurm.schedmd.com/sbatch.html",
    )


@check.declared(needs=["plan.process.total", "plan.process.nnodes", "plan.scheduler.gpus_per_node"])
def one_nodes_processes_for_all(case: Case) -> Iterator[Finding | Reach]:
    """``accelerate launch`` counts the processes of all nodes, and is told as many as one node has devices."""
    plan = plan_of(case)
    total, nodes, devices = (plan.value(n) for n in ("process.total", "process.nnodes", "scheduler.gpus_per_node"))
    if plan.value("process.launcher") != "accelerate" or nodes < 2:
        raise NotApplicable("no launcher that counts the processes of several nodes")
    # A launch that chooses devices leaves the others to something else, a rollout server for one.
    chosen = any(plan.get(name) is not None for name in ("process.devices", "env.CUDA_VISIBLE_DEVICES"))
    if total != devices or total % nodes or chosen:
        yield Reach(f"{total} processes on {nodes} nodes of {devices} devices")
        return
    yield check.finding(
        f"accelerate's --num_processes counts all nodes: {total} are {total // nodes} on each of {nodes}, and the "
        f"other devices of its {devices} stay idle",
        severity=Severity.WARNING,
        evidence=cite(plan, "process.total", "process.nnodes", "scheduler.gpus_per_node"),
        fixes=(
            Fix.unsafe(
                "start a process for every device",
                {"process.total": nodes * devices},
                side_effects="the batch counts with the number of processes",
            ),
        ),
        url="https://huggingface.co/docs/accelerate/package_reference/cli#accelerate-launch",
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


# The master's store, which counts who joined.
check.signature(
    "waiting for clients. ",
    pattern=r"waiting for clients\. (?P<joined>\d+)/(?P<size>\d+) clients joined",
    unless=("init_communicator", "StatelessProcessGroup", "init_weight_update_group"),
    says="{joined} of {size} ranks joined: the world size is larger than the number of ranks that started",
    fixes=(_SAME,),
    url="https://docs.pytorch.org/docs/stable/elastic/run.html",
)


# gloo's own test of a rank's number.
check.signature(
    "] rank < size. ",
    details=(r"rank < size\. (?P<rank>\d+) vs (?P<size>\d+)",),
    says="a rank's number is beyond the world size[[ (rank {rank} of {size})]]",
    fixes=(_SAME,),
)


# `torch.distributed.new_group` is asked for ranks that were not started.
check.signature(
    "is out of range. Valid ranks are ",
    "The new group's rank should be within the world_size set by",
    details=(r"Rank (?P<rank>\d+) is out of range\..{1,60}world_size=(?P<size>\d+)",),
    says="a process group is to hold a rank beyond the world size[[: rank {rank} of {size}]]",
    fixes=(_SAME,),
)


def _in_parallel_state(case: Case, event: LogEvent) -> bool:
    """Whether vLLM lays its groups out over the ranks of a process group."""
    error = event.exception
    return error is not None and any(frame.function == "initialize_model_parallel" for frame in error.frames[-2:])


# vLLM takes the size of the process group that is there for the number of its own ranks.
check.signature(
    "is invalid for input of size ",
    pattern=r"shape '\[(?P<shape>[-\d, ]+)\]' is invalid for input of size (?P<size>\d+)",
    exception="RuntimeError",
    when=_in_parallel_state,
    says="the engine's parallel sizes ({shape}) do not make up the {size} ranks of the process group in which it "
    "starts",
    fixes=(
        Fix(
            title="where each rank of the training is to hold an engine or a part of one: "
            "distributed_executor_backend='external_launcher', with tensor, pipeline and data parallel sizes that "
            "divide the ranks"
        ),
        Fix(title="or start the engine in a process of its own, outside torchrun (a server)"),
    ),
    url="https://docs.vllm.ai/en/latest/examples/offline_inference/torchrun_example.html",
)
