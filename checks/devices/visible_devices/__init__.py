"""The devices that processes see, the processes that are started and the engines that are asked for disagree.

What it looks for
    More processes on a node than visible devices, or than the scheduler is asked for (Slurm, Kubernetes), an engine
    with more ranks than its server sees, a CUDA_VISIBLE_DEVICES that names devices the machine lacks, ms-swift's GRPO
    with several visible devices for one process, TRL's ``vllm_device`` beyond the visible devices, colocated engines
    that do not cover the trainer's devices, Ray told not to set CUDA_VISIBLE_DEVICES under an OpenRLHF that relies on
    it. In a log: ``invalid device ordinal`` and the frameworks' own refusals.

Why it hurts
    The rank without a device raises ``CUDA error: invalid device ordinal`` after the others began to load. With more
    devices than processes ms-swift spreads the model over them (``device_map``) and refuses to sample with vLLM.

How sure it is
    The comparisons are the frameworks' own. Devices come from CUDA_VISIBLE_DEVICES or the launcher's choice, else from
    the machine at hand; where neither tells, nothing is judged.

The fix and its cost
    As many processes as devices: the batch changes with their number.

References
    ms-swift ``rlhf_args.py`` (``is_mp() and use_vllm``, from 3.6), ``deploy_args.py`` (``_check_device_count``)
    https://github.com/modelscope/ms-swift/issues/5592, https://github.com/huggingface/trl/issues/2826
    ``trl/trainer/grpo_trainer.py`` 0.14.0 line 291; ``vllm/config/parallel.py`` 0.12.0 line 566
    https://github.com/OpenRLHF/OpenRLHF/pull/800
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import prod

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    cite,
    plan_of,
    version_within,
)

from ...declared.allocation import named
from ...declared.devices import (
    ALLOCATED,
    ONE_EACH,
    TASKS_EACH,
    VISIBLE,
    Visible,
    engine_ranks,
    joined,
    machine_devices,
    machine_evidence,
    processes_fix,
    ranks_in_all,
    room_for_the_engine,
    visible,
)
from .logged import AGREE, REFUSALS, SHOW_A_DEVICE
from .swift import INFERENCE_WORKERS, UNCHECKED, spread_misfit, workers_misfit

_RELEASE = "--assume ms-swift==VERSION"

check = Check("RLD303", "visible-devices-mismatch", __doc__)

NOSET = "env.RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"


@check.declared(needs=["plan.process.nproc"])
def processes_and_devices(case: Case) -> Iterator[Finding | Reach]:
    """One process for each device, and a device for each process."""
    plan = plan_of(case)
    if plan.value("process.launcher") not in ONE_EACH:
        raise NotApplicable("no launcher starts one process for each device")
    seen = _seen(case, plan)
    processes = plan.value("process.nproc")
    if processes <= len(seen):
        yield Reach(f"{processes} processes, {len(seen)} visible devices")
        return
    yield check.finding(
        f"{processes} processes on a node that see {len(seen)} devices: rank {len(seen)} finds none "
        "(invalid device ordinal)",
        evidence=(*cite(plan, "process.nproc", "process.total"), *seen.evidence),
        fixes=(
            processes_fix(plan, len(seen)),
            Fix(title="or make as many devices visible as there are processes"),
        ),
    )


@check.declared(needs=["plan.process.nproc", "plan.scheduler.gpus_per_node", "plan.placement.trainer_gpus"])
def tasks_and_devices(case: Case) -> Iterator[Finding | Reach]:
    """The tasks that a step starts on a node, each a rank with a device of its own, against the node's devices."""
    plan = plan_of(case)
    starter, each, there = (
        plan.value(name) for name in ("process.launcher", "process.nproc", "scheduler.gpus_per_node")
    )
    if starter not in TASKS_EACH or plan.value("placement.trainer_gpus") != plan.value("process.total"):
        raise NotApplicable("no step starts one rank for each device")
    if plan.value("scheduler.step") != "whole" or plan.get(VISIBLE) is not None:
        raise NotChecked("which devices each task sees is not known")
    if each <= there:
        yield Reach(f"{each} tasks, {there} devices on a node")
        return
    yield check.finding(
        f"{starter} starts {each} ranks on a node of {there} devices: rank {there} finds none of its own "
        "(invalid device ordinal, or NCCL refuses a device that two ranks share)",
        evidence=cite(plan, "process.nproc", "scheduler.tasks_per_node", "scheduler.gpus_per_node"),
        fixes=(
            Fix(
                title=f"start {there} on each node",
                commands=_as_asked(plan, there),
                side_effects="the batch counts with the number of processes",
            ),
            Fix(title=f"or ask for {each} devices on each node"),
        ),
    )


def _as_asked(plan: RolloutPlan, count: int) -> tuple[str, ...]:
    """How the launch itself says how many tasks start on a node; nothing where it says so in another way."""
    named = plan.get("scheduler.step_tasks_per_node")
    own = named if named is not None and named.raw else plan.get("scheduler.tasks_per_node")
    if own is not None and own.key and own.raw and "per-node" in own.raw:
        return (f"{own.key}={count}",)
    nodes, total = plan.value("scheduler.step_nodes"), plan.get("scheduler.step_tasks")
    total = total if total is not None and total.raw else plan.get("scheduler.tasks")
    if nodes and total is not None and total.raw and total.key:
        return (f"{total.key}{'=' if '--' in total.key else ' '}{nodes * count}",)
    return ()


@check.declared(needs=["plan"])
def listed_devices_exist(case: Case) -> Iterator[Finding | Reach]:
    """CUDA_VISIBLE_DEVICES against the machine: CUDA stops at the first number that does not exist, and takes none
    where one stands twice."""
    plan = plan_of(case)
    count = machine_devices(case)
    if plan.get(ALLOCATED) is not None:
        raise NotChecked("the launch runs on nodes that a scheduler chooses")
    if count is None:
        raise NotChecked("the machine's devices are not known", how="--assume machine.json")
    listed = False
    for launch in (plan, plan.server):
        seen = visible(case, launch) if launch is not None else None
        if launch is None or seen is None or not seen.listed:
            continue
        listed = True
        valid = list(takewhile(lambda text: not text.startswith("-"), seen.ids))  # CUDA stops there
        once = list(dict.fromkeys(valid))
        if len(once) < len(valid):
            twice = joined([text for text in once if valid.count(text) > 1])
            yield check.finding(
                f"CUDA_VISIBLE_DEVICES names GPU {twice} twice: CUDA then finds no device at all",
                evidence=seen.evidence,
                fixes=(Fix.unsafe("name each device once", {VISIBLE: joined(once)}),),
                url="https://github.com/pytorch/pytorch/blob/v2.9.0/torch/cuda/__init__.py",
            )
            continue
        missing = [text for text in seen.ids if text.isdecimal() and int(text) >= count]
        if not missing:
            yield Reach(f"devices {joined(seen.ids)} of {count}")
            continue
        kept = [text for text in seen.ids if text not in missing]
        needed = launch.value("process.nproc", 1) if launch is plan else engine_ranks(launch)
        enough = [str(index) for index in range(count)][:needed] if needed and needed <= count else kept
        yield check.finding(
            f"CUDA_VISIBLE_DEVICES names GPU {joined(missing)}, the node has {count}: CUDA stops reading there",
            evidence=(*seen.evidence, *machine_evidence(case)),
            fixes=(Fix.unsafe("name devices that exist", {VISIBLE: joined(enough)}),) if enough else (),
        )
    if not listed:
        raise NotApplicable("no device is named: every process sees all of them")


@check.declared(needs=["plan.process.nproc", "plan.placement.mode"])
def model_spread_over_devices(case: Case) -> Iterator[Finding | Reach]:
    """ms-swift gives each process its share of the visible devices by ``device_map``, and GRPO with vLLM takes one."""
    plan = plan_of(case)
    if plan.framework != "ms-swift" or plan.entry.startswith("megatron") or plan.role == "server":
        raise NotApplicable("a matter of ms-swift's own trainers")
    seen, processes = _seen(case, plan), plan.value("process.nproc")
    if plan.version is not None and version_within(plan.version, INFERENCE_WORKERS):
        misfit = workers_misfit(plan, seen, processes)
    elif plan.version is not None and version_within(plan.version, UNCHECKED):
        raise NotApplicable(f"ms-swift {plan.version} compares no devices")
    elif plan.version is None and plan.value("placement.mode") in ("separate", "async"):
        raise NotChecked("how many devices inference workers take is a matter of the release", how=_RELEASE)
    else:
        misfit = spread_misfit(plan, seen, processes)
    if misfit is None:
        yield Reach(f"{processes} processes, {len(seen)} visible devices")
        return
    yield check.finding(misfit.said, evidence=misfit.evidence, fixes=misfit.fixes, url=misfit.url)


# What starts its own workers, each on devices of its own: rl.py and entrypoints/rl.py; areal/utils/launcher.py.
PARTED = ("prime-rl", "AReaL")
NODES = "placement.nodes"
OF_BOTH = ("placement.trainer_gpus", "placement.engine_gpus")


@check.declared(needs=["plan", *(f"plan.{option}" for option in OF_BOTH)])
def devices_of_both(case: Case) -> Iterator[Finding | Reach]:
    """Trainer and engines with devices of their own, against those that the configuration or the machine has."""
    plan = plan_of(case)
    if plan.framework not in PARTED or plan.value("placement.mode") == "colocate":
        raise NotApplicable("trainer and engines share their devices, or another starts them")
    trainer, engines = (plan.value(option) for option in OF_BOTH)
    asked, count = plan.value(NODES) or 1, machine_devices(case)
    nodes = min(asked, named(case) or asked)
    if plan.get(ALLOCATED) is not None or count is None:
        raise NotChecked("the devices of the machine are not known", how="--assume machine.json")
    there = nodes * count
    if trainer + engines <= there:
        yield Reach(f"{trainer} devices for the trainer and {engines} for engines, of {there}")
        return
    left = there - trainer
    size = left - left % (plan.value("engine.tensor_parallel_size") or 1)
    yield check.finding(
        f"the trainer takes {trainer} devices and the engines {engines}, and "
        + (f"{nodes} nodes have" if nodes > 1 else "the machine has")
        + f" {there}: {plan.framework} refuses to start",
        evidence=(*cite(plan, *OF_BOTH, NODES), *machine_evidence(case)),
        fixes=(
            *(
                [Fix.unsafe(f"leave {size} devices to the engines", {"placement.engine_gpus": size})]
                if size > 0
                else _shares(plan, there, nodes)
            ),
            Fix(title="or give the run more devices"),
        ),
    )


def _shares(plan: RolloutPlan, there: int, nodes: int) -> Iterator[Fix]:
    """The devices of one machine in the launch's own proportion: whole engines, and whole groups of the trainer's ranks
    that share a model."""
    trainer, engines = (plan.value(option) for option in OF_BOTH)
    group = prod(plan.value(f"parallel.{name}") or 1 for name in ("tensor", "pipeline", "context"))
    size = (plan.value("engine.tensor_parallel_size") or 1) * (plan.value("engine.pipeline_parallel_size") or 1)
    first = max(group, there * trainer // (trainer + engines) // group * group)
    rest = (there - first) // size * size
    if nodes == 1 and rest > 0:
        yield Fix.unsafe(
            f"share them: {first} for the trainer and {rest} for the engines",
            dict(zip(OF_BOTH, (first, rest), strict=True)),
        )


@check.declared(needs=["plan.placement.engine_device"])
def engine_device_exists(case: Case) -> Iterator[Finding | Reach]:
    """``vllm_device`` of TRL 0.14 and 0.15: the device after the training ones, unless another is named."""
    plan = plan_of(case)
    device = plan.value("placement.engine_device")
    index = device[5:] if isinstance(device, str) and device.startswith("cuda:") else ""
    if plan.framework == "ms-swift" or not index.isdecimal():
        raise NotApplicable("the engine is given no device of its own")
    seen = _seen(case, plan)
    if int(index) < len(seen):
        yield Reach(f"{device} of {len(seen)} visible devices")
        return
    processes = plan.value("process.nproc", 1)
    yield check.finding(
        f"the engine is to run on {device}, and {len(seen)} device{'s are' if len(seen) > 1 else ' is'} visible",
        evidence=(*cite(plan, "placement.engine_device", "process.nproc", "process.total"), *seen.evidence),
        fixes=tuple(room_for_the_engine(plan, len(seen), processes)),
        url="https://github.com/huggingface/trl/issues/2826",
    )


def _over_the_nodes(launch: RolloutPlan) -> Finding | Reach:
    """An engine over several nodes, against all devices that the scheduler is asked for."""
    ranks, there = ranks_in_all(launch), launch.value("scheduler.gpus")
    if ranks is None or there is None:
        raise NotChecked("the engine may take devices of other nodes")
    if ranks <= there:
        return Reach(f"{ranks} engine ranks, {there} devices on all nodes")
    sizes = [f"engine.{name}_parallel_size" for name in ("tensor", "pipeline", "data")]
    return check.finding(
        f"the engine asks for {ranks} devices over its nodes, and the scheduler for {there}: it waits for the others",
        evidence=cite(launch, *sizes, "scheduler.gpus", "scheduler.nodes", "scheduler.gpus_per_node"),
        fixes=(Fix(title=f"tensor times pipeline times data parallel size at most {there}, or more nodes"),),
    )


@check.declared(needs=["plan"])
def engine_ranks_and_devices(case: Case) -> Iterator[Finding | Reach]:
    """A rollout server, or an engine of its own, with more ranks than it sees devices."""
    plan = plan_of(case)
    launch = plan.server or (plan if plan.role == "server" or plan.dialect == "vLLM" else None)
    if launch is None:
        raise NotApplicable("no engine is started by itself")
    ranks = engine_ranks(launch)
    if ranks is None:
        yield _over_the_nodes(launch)
        return
    seen = _seen(case, launch)
    if ranks <= len(seen):
        yield Reach(f"{ranks} engine ranks, {len(seen)} visible devices")
        return
    size = launch.value("engine.tensor_parallel_size", 1)
    others = ranks // size
    fitting = [n for n in range(1, size) if size % n == 0 and n * others <= len(seen)]
    yield check.finding(
        f"the engine asks for {ranks} devices and sees {len(seen)}",
        evidence=(
            *cite(launch, *(f"engine.{name}_parallel_size" for name in ("tensor", "pipeline", "data"))),
            *seen.evidence,
        ),
        fixes=tuple(
            Fix.unsafe(
                f"let {n} rank{'s' if n > 1 else ''} share one engine",
                {"engine.tensor_parallel_size": n},
                side_effects="each device holds more of the model",
            )
            for n in fitting[-1:]
        ),
    )


@check.declared(needs=["plan.placement.engines", "plan.placement.trainer_gpus"])
def colocated_engines_cover_the_trainer(case: Case) -> Iterator[Finding | Reach]:
    """OpenRLHF and SkyRL assert that colocated engines take exactly the policy's devices."""
    plan = plan_of(case)
    if plan.framework not in ("OpenRLHF", "SkyRL") or plan.value("placement.mode") != "colocate":
        raise NotApplicable("the engines have devices of their own, or are made to fit")
    size, engines, trainer = engine_ranks(plan), plan.value("placement.engines"), plan.value("placement.trainer_gpus")
    if plan.framework == "OpenRLHF":
        size = plan.usual("engine.tensor_parallel_size", 1)
    if size is None:
        raise NotChecked("how many devices an engine takes is not known")
    if engines * size == trainer:
        yield Reach(f"{engines} engines of {size} on {trainer} devices")
        return
    if plan.framework == "OpenRLHF" and engines * size > trainer:
        raise NotApplicable("more engine ranks than bundles: RLD602")
    yield check.finding(
        f"{engines} colocated engine{'s' if engines > 1 else ''} of {size} device{'s' if size > 1 else ''} take "
        f"{engines * size}, the policy has {trainer}: {plan.framework} asserts that they are equal",
        evidence=cite(plan, "placement.engines", "engine.tensor_parallel_size", "placement.trainer_gpus"),
        fixes=(
            Fix.safe(
                f"{trainer // size} engines of {size} device{'s' if size > 1 else ''}",
                {"placement.engines": trainer // size},
            ),
        )
        if trainer % size == 0
        else (),
    )


@check.declared(needs=[f"plan.{NOSET}", "plan.placement.engines"])
def ray_sets_no_devices(case: Case) -> Iterator[Finding | Reach]:
    """OpenRLHF before 0.6.0.post1 left it to Ray to show each engine its device."""
    plan = plan_of(case)
    several = plan.value("placement.engines") > 1 and plan.usual("engine.tensor_parallel_size", 1) == 1
    if plan.framework != "OpenRLHF" or plan.version is None or not several:
        raise NotApplicable("a matter of OpenRLHF's engines of one device")
    if not version_within(plan.version, "<0.6.0.post1"):
        yield Reach(f"OpenRLHF {plan.version} sets the devices itself")
        return
    yield check.finding(
        f"Ray is configured not to set CUDA_VISIBLE_DEVICES, on which OpenRLHF {plan.version} relies: all engines "
        "take GPU 0",
        evidence=cite(plan, NOSET, "placement.engines", "engine.tensor_parallel_size"),
        fixes=(
            Fix.safe("let Ray set the devices", {NOSET: None}),
            Fix(
                title="OpenRLHF 0.6.0.post1 sets them for its engines",
                commands=('pip install "openrlhf>=0.6.0.post1"',),
            ),
        ),
        url="https://github.com/OpenRLHF/OpenRLHF/pull/800",
    )


def _seen(case: Case, plan: RolloutPlan) -> Visible:
    seen = visible(case, plan)
    if seen is None or not len(seen):
        raise NotChecked("the devices that the processes see are not known", how="--assume machine.json")
    return seen


# A framework compared the numbers itself.
for _literal, (_pattern, _says, _fixes) in REFUSALS.items():
    check.signature(_literal, pattern=f"(?m){_pattern}", says=_says, fixes=_fixes)


# A rank took a device number that its process does not have.
check.signature(
    "CUDA error: invalid device ordinal",
    "device >= 0 && device < num_gpus INTERNAL ASSERT FAILED",
    "AssertionError: Invalid device id",
    "DP adjusted local rank ",
    says="a process uses a device number beyond the devices that it sees",
    fixes=(AGREE,),
)


# A driver answers, and CUDA_VISIBLE_DEVICES (Ray sets it for actors without num_gpus) leaves none.
check.signature(
    "RuntimeError: No CUDA GPUs are available",
    says=("this process sees no GPU: CUDA_VISIBLE_DEVICES is empty or names none, as in a Ray actor without num_gpus"),
    fixes=SHOW_A_DEVICE,
    url="https://github.com/vllm-project/vllm/issues/14413",
)
