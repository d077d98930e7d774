"""Ray is asked for more than its cluster has.

What it looks for
    The devices that the launch's placement groups ask for, in all and on one node, against those of the cluster or of
    the allocation that the file asks Slurm or Kubernetes for. A cluster that runs already (``--ray ADDRESS``, or
    ``RAY_ADDRESS``) is asked what each node has and what is free of it, its object store included, and the groups are
    placed there as Ray would.
    Further colocated engines of OpenRLHF and SkyRL that take more or less than the trainer's devices. In a log: a
    resource request that no node type can fulfil (the autoscaler repeats it), placement groups that stay pending,
    bundle indexes that do not exist, and the frameworks' own comparison of available and desired GPUs.

Why it hurts
    Ray does not refuse: the actor stays pending for ever, and the run stands still without an error.

How sure it is
    A cluster's size is what the machine, the number of nodes and the scheduler's lines tell, or the running cluster
    itself; one that is only named is not judged. What others hold at the moment is a warning: it may be free when the
    run starts. In a log the numbers are Ray's own. A request that is unfulfilled for a moment, while nodes join, is not
    reported where the run came to its end.

The fix and its cost
    Ask for what ``ray status`` shows, or start the missing nodes before the job.

References
    https://docs.ray.io/en/latest/ray-core/scheduling/resources.html
    https://github.com/verl-project/verl/issues/2515, https://github.com/OpenRLHF/OpenRLHF/pull/728
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    Kind,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    installed_within,
    plan_of,
)

from ...declared.allocation import EACH as ALLOCATED_EACH
from ...declared.allocation import SHAPES, more_nodes, named, nodes_there
from ...declared.devices import Visible, is_of_this_machine, machine_devices, machine_evidence, visible
from ...observed.endings import pod_never_was, unfinished
from .fixes import EACH, NODES, RANKS, STATUS, all_devices, all_offered, by_hand, groups_of, smaller

check = Check("RLD602", "ray-resources-short", __doc__, before=("RLD603",), kind=Kind.STALL)

# single_controller/ray/base.py: a pool has one group for each node, STRICT_PACK.
PACKED = ("verl", "EasyR1")
NEEDED = "ray.gpus_needed"
GROUPS = "ray.groups"
LIVE = "ray_cluster"
# train_ppo_ray.py indexes the bundles, and asserts since 0.5.9; utils.py validate_cfg, trainer.py before.
_SHARES = {
    "OpenRLHF": "https://github.com/OpenRLHF/OpenRLHF/pull/728",
    "SkyRL": "https://github.com/NovaSky-AI/SkyRL/blob/skyrl-v0.3.0/skyrl/train/utils/utils.py#L436",
}


@check.declared(needs=["plan"])
def devices_of_the_cluster(case: Case) -> Iterator[Finding | Reach]:
    """What the placement groups ask for, in all and on one node."""
    plan = plan_of(case)
    needed, each, nodes = plan.value(NEEDED), plan.value(EACH), plan.value(NODES)
    if plan.value("process.launcher") != "ray" or not (needed or each):
        raise NotApplicable("no placement groups of a known size")
    if LIVE in case.observations:
        raise NotApplicable("the running cluster was asked")
    seen = _offered(plan, _on_a_node(case, plan))
    shapes = plan.value(SHAPES) if named(case) is None and not seen.listed else None
    largest = max(shapes) if shapes else len(seen)
    together = _together(plan, each)
    if together and together > largest:
        yield _finding(plan, f"{together:g} GPUs on one node", f"a node has {largest}", seen, case)
        return
    there, _ = nodes_there(case, plan)
    if each and each > largest and named(case) is None and plan.value("scheduler.name") is None:
        # Bundles that need no common node: Ray spreads them over more nodes than the launch counts.
        raise NotChecked("how many nodes the cluster has is not known", how='"nodes" in --assume machine.json')
    if there is None and nodes in (1, None) and plan.value("ray.address") is None:
        # Engines with nodes of their own may stand on others than the trainer's.
        apart = plan.value("placement.mode") != "colocate" and plan.value("placement.engine_nodes")
        there = 1 if (nodes and not apart) or (needed and needed <= len(seen)) else None
    if there is None:
        raise NotChecked("how many nodes the cluster has is not known", how='"nodes" in --assume machine.json')
    total = sum(shapes) if shapes else there * len(seen)
    if needed and needed > total:
        yield _finding(plan, f"{needed:g} GPUs", f"the cluster has {total}", seen, case)
        return
    whole = sum(size // each for size in shapes) if shapes and each else nodes
    if plan.framework in PACKED and nodes and whole < nodes:
        has = f"{whole} of the cluster's nodes can hold {each:g}"
        yield _finding(plan, f"{each:g} GPUs on one node, {nodes} times", has, seen, case)
        return
    yield Reach(f"{needed or each} of {total} GPUs")


@check.declared(needs=["plan.placement.engines", "plan.placement.trainer_gpus"])
def engines_of_the_group(case: Case) -> Iterator[Finding | Reach]:
    """Colocated engines take the devices of the trainer's placement group, all of them and no more."""
    plan = plan_of(case)
    if plan.framework not in _SHARES or plan.value("placement.mode") != "colocate":
        raise NotApplicable("the engines have a placement group of their own")
    engines, bundles = plan.value("placement.engines"), plan.value("placement.trainer_gpus")
    size = plan.usual(RANKS, 1)
    if size is None:
        raise NotChecked("how many devices an engine takes is not known")
    taken = plan.value("placement.engine_gpus") or engines * size
    each = taken // engines
    # Before, OpenRLHF left over what the engines did not index.
    if taken == bundles or (taken < bundles and installed_within(case, "openrlhf", "<0.5.9")):
        yield Reach(f"{engines} engines of {each} in {bundles} bundles")
        return
    yield check.finding(
        f"{engines} colocated engines of {each} GPU{'s' if each > 1 else ''} need {taken} bundles, and the trainer's "
        f"placement group has {bundles}: {plan.framework} wants the same number",
        evidence=cite(plan, "placement.engines", RANKS, "placement.trainer_gpus"),
        fixes=tuple(
            Fix.safe(f"{bundles // each} engines", {"placement.engines": bundles // each})
            for _ in range(bundles % each == 0)
        ),
        url=_SHARES[plan.framework],
    )


def _together(plan: RolloutPlan, each: float | None) -> float | None:
    """The most devices that Ray must find on one node: those of a bundle, and of all bundles of a group that may not
    be split. Where the groups are not known, what the launch says of a node."""
    groups = plan.value(GROUPS)
    if groups is None:
        return each
    return max(
        (
            group["each"].get("GPU", 0) * (group["bundles"] if group["strategy"] == "STRICT_PACK" else 1)
            for group in groups
        ),
        default=None,
    )


def _offered(plan: RolloutPlan, seen: Visible) -> Visible:
    """What of a node's devices ``ray start --num-gpus`` offers; a head that offers none leaves them to its workers."""
    started = plan.value("ray.num_gpus")
    if not isinstance(started, int) or not 0 < started < len(seen) or plan.value(NODES, 1) != 1:
        return seen
    return Visible(seen.ids[:started], cite(plan, "ray.num_gpus"), listed=False)


def _on_a_node(case: Case, plan: RolloutPlan) -> Visible:
    """The devices that Ray finds on a node. Raises :class:`NotChecked` where the cluster is another machine."""
    allocated = plan.value(ALLOCATED_EACH) or max(plan.value(SHAPES) or (0,))
    # The cluster that is started on the nodes of the allocation is no other machine's, whatever its address.
    own = allocated and (plan.value("ray.started") or plan.value("scheduler.name") == "kubernetes")
    address = None if own else plan.get("ray.address")
    if address is not None and (address.unknown is not None or address.value is not None):
        if not is_of_this_machine(address.value) and case.host is not None:
            raise NotChecked("the run is submitted to another machine's cluster")
        # A cluster that runs already does not see what this file sets.
        count = machine_devices(case)
        if count is not None and not allocated:
            return Visible(tuple(map(str, range(count))), machine_evidence(case), listed=False)
    seen = visible(case, plan)
    if allocated and (seen is None or not seen.listed):
        # Ray counts the devices of the node, whatever the driver's own step was given.
        seen = Visible(tuple(map(str, range(allocated))), cite(plan, ALLOCATED_EACH, SHAPES), listed=False)
    if seen is None or not len(seen):
        raise NotChecked("the devices of the cluster are not known", how="--assume machine.json")
    return seen


def _finding(plan: RolloutPlan, asked: str, has: str, seen: Visible, case: Case) -> Finding:
    roles = groups_of(plan)
    parts = " + ".join(f"{role} {size}" for role, size in roles.items()) if "node" not in asked else ""
    there, nodes = nodes_there(case, plan)
    return check.finding(
        f"the run asks Ray for {asked}{f' ({parts})' if parts else ''}, and {has}: it stays pending, or is refused",
        evidence=(
            *cite(plan, NEEDED, EACH, NODES, *(("placement.engines", RANKS) if "engine" in roles else ())),
            *seen.evidence,
            *nodes,
        ),
        fixes=(
            *(tuple(smaller(plan, len(seen), there or 1)) or by_hand(plan, len(seen) * (there or 1))),
            *all_devices(plan, seen, machine_devices(case)),
            *all_offered(plan, machine_devices(case)),
            STATUS,
            *(more_nodes(plan, plan.value(NODES, 1)) if named(case) is None and there else ()),
        ),
        url="https://docs.ray.io/en/latest/ray-core/scheduling/resources.html",
    )


# What the autoscaler and the scheduler say of a request that fits nowhere.
check.signature(
    "No available node types can fulfill resource request",
    "The actor is not schedulable: ",
    "The task is not schedulable: ",
    details=(r"resource request (?P<wanted>\{[^}]*\})",),
    when=unfinished,
    says="no node of the Ray cluster can ever fulfil the request[[ {wanted}]]: the actor stays pending",
    fixes=(
        Fix(
            title="ask for no more than a node has: fewer GPUs per actor, fewer workers, or a smaller tensor "
            "parallel size",
            commands=("ray status",),
        ),
        Fix(
            title="where the node has GPUs that Ray does not see, start it with them",
            commands=("ray start --num-gpus=N",),
        ),
    ),
    silent=True,
    url="https://docs.ray.io/en/latest/ray-core/scheduling/resources.html",
)


def _pending(case: Case, event: LogEvent) -> bool:
    """Whether the autoscaler, which says so again and again, had not been helped when the log ended."""
    last = any(event.literal in line for line in event.run.tail[-5:])
    return unfinished(case, event) and (last or event.incident.kind == "crashed")


# The autoscaler's own words. What only names the group of a request that is served already passes by itself.
check.signature(
    "could not find a node type to satisfy the request: [",
    pattern=r"satisfy the request: \[[^\n]{0,4000}?(?P<wanted>\{'(?!bundle_group|node:)\w[^}]{1,200}\})",
    when=_pending,
    says="Ray's autoscaler knows no type of node, or may start no more, for a request of {wanted}: it stays pending "
    "until others give back what they hold",
    fixes=(STATUS, Fix(title="ask for no more than a node type has, or raise its max_workers in the cluster's file")),
    severity=Severity.WARNING,
    silent=True,
    url="https://docs.ray.io/en/latest/cluster/vms/user-guides/configuring-autoscaling.html",
)

_DEMAND = re.compile(r"\s*(?P<bundle>\{'[^}]{1,200}\}) \* (?P<count>\d{1,6}) \(\w+\): \d+\+ pending placement groups")
_USAGE = re.compile(r"\s*[\d.]+/(?P<there>[\d.]+) (?P<what>CPU|GPU|NPU|TPU)\b")


@check.logged("+ pending placement groups")
def group_above_the_cluster(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The table of ``ray status``: what a pending group asks for beside all that the cluster has."""
    demand = _DEMAND.match(event.line)
    if demand is None or not unfinished(case, event):
        return
    has = {row["what"]: float(row["there"]) for row in map(_USAGE.match, event.before) if row}
    for what, each in re.findall(r"'(CPU|GPU|NPU|TPU)': ([\d.]+)", demand["bundle"]):
        asked = float(each) * int(demand["count"])
        if what in has and asked > has[what]:
            yield check.finding(
                f"a placement group asks for {asked:g} {what}s, and the cluster has {has[what]:g}: it stays pending",
                fixes=(STATUS, Fix(title="ask for fewer, or add the nodes before the run starts")),
                url="https://docs.ray.io/en/latest/ray-core/scheduling/resources.html",
            )
            return


def _waited_in_vain(case: Case, event: LogEvent) -> bool:
    """Whether the run ended as a call of Ray had waited long enough."""
    return any(link.type.endswith("GetTimeoutError") for failure in event.run.failures for link in failure.chain)


# Ray says so of every start in which something waits for a moment.
check.signature(
    "resource request cannot be scheduled right now: ",
    details=(r"scheduled right now: (?P<wanted>\{[^}]*\})",),
    when=_waited_in_vain,
    says="Ray had no node free for the request[[ {wanted}]] until the call that waited for it timed out",
    fixes=(
        STATUS,
        Fix(title="ask for no more GPUs than others leave free, or add nodes; end actors of an earlier run"),
    ),
    url="https://docs.ray.io/en/latest/ray-core/scheduling/resources.html",
)
check.signature(
    "FailedScheduling",
    pattern=r"\d+/(?P<nodes>\d+) nodes are available: [^\n]{0,200}?Insufficient (?P<what>[\w/-]+(?:\.[\w/-]+)*)",
    when=pod_never_was("Scheduled", "Started"),
    says="no node of the {nodes} has the {what} that the pod asks for: it stays pending",
    fixes=(
        Fix(
            title="ask for what a node has, or wait until others free it",
            commands=("kubectl describe nodes | grep -A8 'Allocated resources'",),
        ),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/",
)


check.signature(
    "FailedScheduling",
    unless=("Insufficient ",),
    pattern=r"\d+/(?P<nodes>\d+) nodes are available: (?P<why>[^\n]{3,200}?)\.(?: preemption:|[ \"]|$)",
    when=pod_never_was("Scheduled", "Started"),
    says="none of the {nodes} nodes takes the pod: {why}",
    fixes=(
        Fix(
            title="correct the pod's nodeSelector, affinity and tolerations, or label the nodes as it asks",
            commands=("kubectl get nodes --show-labels",),
        ),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/",
)
check.signature(
    "FailedScheduling",
    "NotTriggerScaleUp",
    pattern=r"(?P<why>pod group is not ready, [^\n]{3,160}|pod didn't trigger scale-up[^\n]{3,160})",
    when=pod_never_was("Scheduled", "Started"),
    says="the cluster has no place for the pods and gets no further node: {why}",
    fixes=(
        Fix(
            title="ask for fewer pods or smaller ones, wait until others free nodes, or let the node group grow",
            commands=("kubectl describe nodes | grep -A8 'Allocated resources'",),
        ),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/cluster-administration/node-autoscaling/",
)
check.signature(
    "Node didn't have enough resource: ",
    pattern=r"enough resource: (?P<what>[\w./-]+), requested: (?P<wanted>\d+), used: (?P<used>\d+), "
    r"capacity: (?P<all>\d+)",
    when=unfinished,
    says="the node has {all} of {what}, {used} are taken, and the pod asks for {wanted}: it was not admitted",
    fixes=(Fix(title="ask for what the node has left", commands=("kubectl describe node NODE",)),),
    silent=True,
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/",
)
# The node's own answer, once the pod is there: a device is not healthy, or another pod has it.
check.signature(
    "Allocate failed due to requested number of devices unavailable for ",
    pattern=r"unavailable for (?P<what>[\w./-]+?)\. Requested: (?P<wanted>\d+), Available: (?P<available>\d+)",
    when=unfinished,
    says="the node has {available} {what} left, and the pod asks for {wanted}: it was not admitted",
    fixes=(
        Fix(
            title="see which device is not healthy or taken on that node",
            commands=("kubectl describe node NODE", "nvidia-smi"),
        ),
        Fix(title="or ask for what the node has"),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
)


# verl's and EasyR1's check of their resource pools.
check.signature(
    "is less than total desired GPUs",
    "Please check node available gpus",
    details=(r"available GPUs (?P<available>[\d.]+) is less than total desired GPUs (?P<desired>\d+)",),
    says="[[Ray has {available} GPUs, the resource pools ask for {desired}||a resource pool does not fit]]",
    fixes=(
        STATUS,
        Fix(title="ask for the nodes and GPUs that are there (trainer.nnodes, trainer.n_gpus_per_node)"),
    ),
    url="https://github.com/verl-project/verl/issues/2515",
)


# More engine workers than the placement group has bundles.
check.signature(
    "placement group bundle index ",
    pattern=r"bundle index (?P<index>-?\d+) is invalid. Valid placement group indexes: (?P<valid>\d+-\d+)",
    says="an engine asks for bundle {index} of a placement group that has {valid}",
    fixes=(
        Fix(
            title="keep engines times tensor parallel size within the GPUs of the group that they share "
            "(OpenRLHF: vllm_num_engines * vllm_tensor_parallel_size <= actor_num_nodes * actor_num_gpus_per_node)",
        ),
    ),
    url="https://github.com/OpenRLHF/OpenRLHF/pull/728",
)


# NeMo-RL's, vLLM's and SkyRL's own words for a group that does not come about.
check.signature(
    "GPUs available. Requested ",
    "Cannot provide a placement group requiring ",
    "Timed out waiting for placement groups to be ready",
    "Failed to create placement group with ",
    "You don't have enough GPUs available in a current node",
    "Current node has no GPU available",
    "required GPUs exceeds the total number of available GPUs in the",
    "The worker group startup timed out after ",
    details=(
        r"Requested (?P<asked>\d+) [GC]PUs, but only (?P<there>\d+) are available",
        r"requiring (?P<bundles>\d+) GPUs|placement group with (?P<bundles_2>\d+) bundles",
    ),
    says="Ray cannot place a group[[ of {bundles} bundles]][[: {asked} asked for, {there} there]]",
    fixes=(STATUS,),
)


# vLLM wants one of its workers on the node of the process that builds the engine.
check.signature(
    "Ray does not allocate any GPUs on the driver node",
    says="Ray placed no worker of the engine on the node where the engine is built",
    fixes=(
        Fix(
            title="build the engine inside the placement group of its workers, in a bundle with a GPU (the actor's "
            "placement_group_bundle_index), or on a node with GPUs",
        ),
        Fix(title="see which node has free GPUs", commands=("ray status",)),
    ),
    url="https://github.com/vllm-project/vllm/issues/12983",
)


# OpenRLHF's assertion for colocated models, since 0.5.9.
check.signature(
    "actor_num_nodes * actor_num_gpus_per_node must be equal to",
    details=(r"got (?P<one>\d+) and (?P<other>\d+)",),
    says="the colocated engines do not take the actor's GPUs[[: {other} for engines, {one} of the actor]]",
    fixes=(
        Fix(
            title="make vllm_num_engines * vllm_tensor_parallel_size equal to actor_num_nodes * "
            "actor_num_gpus_per_node",
        ),
    ),
    url="https://github.com/OpenRLHF/OpenRLHF/pull/728",
)
