"""Which devices the processes of a launch see, use and share: the ground of the checks of placement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rldoctor.api import Applicability, Case, Edit, Evidence, Fix, RolloutPlan, cite, dataclass

VISIBLE = "env.CUDA_VISIBLE_DEVICES"
# Other vendors' devices: a launch that names them says nothing of CUDA's.
_OTHERS = ("env.ASCEND_RT_VISIBLE_DEVICES", "env.HIP_VISIBLE_DEVICES", "env.ROCR_VISIBLE_DEVICES")
CHOSEN = "process.devices"
# Devices that the scheduler gives to a task: the file that asks for them need not be read on such a node.
ALLOCATED = "scheduler.visible"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_of_this_machine(address: object) -> bool:
    """Whether the address of a Ray is this machine's: ``auto``, ``local``, or one whose host is, such as
    ``127.0.0.1:6379``, ``ray://localhost:10001`` or ``http://[::1]:8265``."""
    place = str(address).rpartition("://")[2].partition("/")[0]
    host = place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]
    return host in (*LOOPBACK, "auto", "local") or place in LOOPBACK


# Data parallel engines of vLLM of which this launch is one, or which take other nodes too.
_ELSEWHERE = ("data_parallel_address", "data_parallel_size_local", "data_parallel_rank")
# Launchers that start one process for each device.
ONE_EACH = ("torchrun", "accelerate", "deepspeed")
# Those that start one for each task: how many that are, the scheduler is told.
TASKS_EACH = ("srun", "mpirun", "mpiexec")


@dataclass(frozen=True)
class Visible:
    """The devices that a launch's processes see, in CUDA's order (numbers or UUIDs as text), and how that is known."""

    ids: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    listed: bool
    """They stand in the launch; else they are all that the machine has."""

    def __len__(self) -> int:
        return len(self.ids)


def machine_devices(case: Case) -> int | None:
    """How many CUDA devices one node has, or None where that is not known (no GPU here, another vendor, MIG slices)."""
    gpus = case.gpus
    if gpus is None or gpus.vendor != "nvidia" or not gpus.devices or any(gpu.mig for gpu in gpus.devices):
        return None
    return len(gpus.devices)


def machine_evidence(case: Case) -> tuple[Evidence, ...]:
    """What the machine has, as evidence."""
    count, gpus = machine_devices(case), case.gpus
    if count is None or gpus is None:
        return ()
    text, line = f"{count} x {gpus.devices[0].name} on the node", case.fact_lines.get("gpus.devices")
    return (Evidence(text=text, source=line.source if line else "gpus", line=line.line if line else None),)


def visible(case: Case, plan: RolloutPlan) -> Visible | None:
    """What the processes of ``plan`` see: what the launcher chose, else CUDA_VISIBLE_DEVICES, else what the scheduler
    is asked for, else every device of the machine. None where that cannot be read or is not known, and where the launch
    names devices of another vendor."""
    for option in (CHOSEN, VISIBLE):
        setting = plan.get(option)
        if setting is None or (setting.value is None and setting.unknown is None):
            continue
        if not isinstance(setting.value, str):
            return None
        ids = _listed(setting.value)
        if ids is not None:
            return Visible(ids, cite(plan, option), listed=True)
    if any(plan.get(option) is not None for option in _OTHERS):
        return None
    allocated = plan.get(ALLOCATED)
    if allocated is not None:
        if allocated.value is None:
            return None
        return Visible(tuple(map(str, range(allocated.value))), cite(plan, ALLOCATED), listed=False)
    count = machine_devices(case)
    if count is None:
        return None
    return Visible(tuple(str(index) for index in range(count)), machine_evidence(case), listed=False)


def engine_ranks(plan: RolloutPlan) -> int | None:
    """Devices that one launch of a rollout server takes on its node; None where another node may take part."""
    if (
        plan.value("engine.distributed_executor_backend") == "ray"
        or plan.value("engine.data_parallel_backend") == "ray"
    ):
        return None
    if any(plan.value(f"engine.{name}") is not None for name in _ELSEWHERE):
        return None
    return ranks_in_all(plan)


def ranks_in_all(plan: RolloutPlan) -> int | None:
    """Ranks of an engine over all of its nodes."""
    ranks = 1
    for name in ("tensor", "pipeline", "data"):
        setting = plan.get(f"engine.{name}_parallel_size")
        if setting is not None and setting.unknown is not None:
            return None
        ranks *= plan.value(f"engine.{name}_parallel_size", 1)
    return ranks


def on_one_node(plan: RolloutPlan) -> bool:
    """Whether the launch is known to run on one node."""
    nodes = plan.get("process.nnodes")
    if plan.value("process.launcher") in ("srun", "mpirun") or (nodes is not None and nodes.unknown is not None):
        return False
    return bool(plan.value("process.nnodes", 1) == 1)


def processes_fix(plan: RolloutPlan, count: int) -> Fix:
    """So many processes on each node, in the launcher's own words; safe where the batch still holds whole groups."""
    nodes = plan.value("process.nnodes", 1)
    total, each = plan.get("process.total"), plan.get("process.nproc")
    by_total = total is not None and total.form is not None and (each is None or each.form is None)
    edit = Edit(option="process.total", value=count * nodes) if by_total else Edit(option="process.nproc", value=count)
    return Fix(
        title=f"start {count} process{'es' if count > 1 else ''} on each node",
        applicability=Applicability.SAFE if _groups_divide(plan, count * nodes) else Applicability.UNSAFE,
        edits=(edit,),
        side_effects="the batch counts with the number of processes",
    )


def a_process_each(plan: RolloutPlan, seen: Visible) -> Iterator[Fix]:
    """Ways to have one visible device for each process."""
    yield processes_fix(plan, len(seen))
    yield Fix.unsafe("or show the trainer one device", {VISIBLE: seen.ids[0]}, side_effects="one process trains")


def room_for_the_engine(plan: RolloutPlan, count: int, processes: int) -> Iterator[Fix]:
    """Ways to leave a device for an engine that is given one of its own."""
    if count > 1:
        yield processes_fix(plan, count - 1)
    elif processes == 1:
        yield Fix.unsafe(
            "put the engine on the only device, beside the trainer",
            {"placement.engine_device": "cuda:0", "engine.gpu_memory_utilization": 0.3},
            side_effects="trainer and engine share the device's memory",
        )
        yield Fix(title="TRL 0.18 and later have a colocated mode", commands=('pip install "trl>=0.18"',))


def _groups_divide(plan: RolloutPlan, processes: int) -> bool:
    each, n = plan.value("batch.per_device"), plan.value("batch.generations")
    steps = plan.value("batch.steps_per_generation") or plan.value("batch.accumulation") or 1
    return not each or not n or (each * processes * steps) % n == 0


def joined(ids: Sequence[str]) -> str:
    """The devices as CUDA_VISIBLE_DEVICES takes them."""
    return ",".join(ids)


def _listed(text: str) -> tuple[str, ...] | None:
    """The ids of a list such as ``0,1``, ``all`` or ``localhost:0,1@...``; None for all of them."""
    text = text.strip()
    if text == "all":
        return None
    return tuple(_until_invalid(text.partition(":")[2] if text.startswith("localhost:") else text))


def _until_invalid(text: str) -> Iterator[str]:
    """CUDA stops reading at the first entry that is no device."""
    for part in text.split(","):
        if not part.strip() or part.strip().startswith("-"):
            return
        yield part.strip()
