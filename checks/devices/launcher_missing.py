"""Several GPUs are visible and no launcher starts a process for each of them.

What it looks for
    A trainer built on transformers' ``Trainer`` (TRL, open-r1, axolotl) that plain ``python`` starts while it sees more
    than one device; several of them as tasks of srun or mpirun, which nothing tells their rank. In a log: a process
    group that is initialised without the variables that a launcher sets, a model in DataParallel, and TRL's refusal of
    it.

Why it hurts
    ``Trainer`` finds ``n_gpu`` devices in one process and wraps the model in ``DataParallel``, and it multiplies the
    batch by them. Groups of completions are then split at the wrong places (16 rows where 8 belong together), the
    engine's copy of the weights is read from the wrong replica, and one device holds everything. Nothing is raised.
    So do TRL before 0.26, every TRL before 1.15 that is handed a loaded model, and open-r1. From TRL 0.26 on a model
    that is given by name, and in axolotl every model, is loaded with ``device_map="auto"``: its layers are spread over
    the devices, which work one after the other. From 1.15 on TRL refuses to start where ``DataParallel`` would wrap the
    model. With DeepSpeed, or where the script asks for a process group, the run stops instead: ``RANK expected, but not
    set``.

How sure it is
    The launch itself shows that one process is started, CUDA_VISIBLE_DEVICES (or the machine) that it sees several
    devices. An error where release and script decide that the model is wrapped or refused; a warning where it is spread
    over the devices, where the script loads the model itself (it may name a ``device_map``), or where the release is
    not known. A script that is judged by itself, without the command that starts it, is not.

The fix and its cost
    ``accelerate launch`` or ``torchrun`` with one process for each device (from TRL 0.27 on: 0.26 loads a named model
    with ``device_map="auto"`` there too, unless DeepSpeed is used, and accelerate refuses it); or one visible device.
    The number of processes multiplies the batch as well, now as documented.

References
    https://github.com/huggingface/trl/issues/3181
    ``transformers/trainer.py`` (``_wrap_model``: ``if self.args.n_gpu > 1: model = nn.DataParallel(model)``)
    ``trl/trainer/utils.py`` 0.26.0 (``create_model_from_path``), ``trl/trainer/grpo_trainer.py`` 0.27.0 (``MULTI_GPU``)
    and 1.15.0 (``does not support nn.DataParallel``); ``axolotl/utils/config/__init__.py`` (``choose_device``)
    https://huggingface.co/docs/trl/distributing_training
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

from ..declared.devices import VISIBLE, visible
from ..declared.lone_process import Fate, fates, loads_itself, refused_by_accelerate

check = Check("RLD304", "launcher-missing", __doc__, before=("RLD301",))

TRAINERS = ("TRL", "open-r1", "axolotl")
LOCAL_RANK = "env.LOCAL_RANK"
_OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE")


@check.declared(needs=["plan.process.launcher", "plan.process.total"])
def several_devices_for_one_process(case: Case) -> Iterator[Finding | Reach]:
    """One process of plain python that sees several devices."""
    plan = plan_of(case)
    if plan.framework not in TRAINERS or plan.role == "server":
        raise NotApplicable("not a trainer that places its model on devices itself")
    launcher, processes = plan.value("process.launcher"), plan.value("process.total")
    if launcher != "none" or processes != 1:
        yield Reach(f"{processes} process{'es' if processes != 1 else ''} started by {launcher}")
        return
    seen = visible(case, plan)
    if seen is None:
        raise NotChecked("the devices that the process sees are not known", how="--assume machine.json")
    if len(seen) < 2:
        yield Reach(f"one process, {len(seen)} visible device")
        return
    if plan.value("model.spread") is True:
        yield Reach(f"one process, over whose {len(seen)} devices the script lays the model")
        return
    stops = plan.value("trainer.deepspeed") is not None
    left = () if stops else fates(case, plan)
    move = ('pip install "trl>=0.27"',) if refused_by_accelerate(case, plan) else ()
    said = left[0].value if left else "DeepSpeed finds no ranks to work with"
    if len(left) > 1:
        said = f"the release decides whether {', '.join(fate.value for fate in left[:-1])}, or {left[-1].value}"
    yield check.finding(
        f"plain python starts one process, which sees {len(seen)} devices: {said}",
        severity=Severity.WARNING if Fate.SPREAD in left or loads_itself(plan) else Severity.ERROR,
        evidence=(*seen.evidence, *cite(plan, "process.launcher", "batch.per_device", "trainer.deepspeed")),
        fixes=(
            Fix(
                title="start one process for each device" + (", with a newer TRL" if move else ""),
                commands=(*move, f"accelerate launch --num_processes {len(seen)} {_program(plan)} ..."),
                side_effects="the batch counts with the number of processes",
            ),
            Fix.unsafe("or show the process one device", {VISIBLE: seen.ids[0]}),
        ),
        url="https://github.com/huggingface/trl/issues/3181",
    )


@check.declared(needs=["plan.process.launcher", "plan.process.total"])
def tasks_that_know_no_rank(case: Case) -> Iterator[Finding | Reach]:
    """Tasks of srun or mpirun get its own variables, and accelerate asks for LOCAL_RANK alone where there are GPUs
    (``accelerate/state.py``, PartialState)."""
    plan = plan_of(case)
    if plan.framework not in TRAINERS or plan.role == "server":
        raise NotApplicable("not a trainer that learns its rank from accelerate")
    launcher, tasks = plan.value("process.launcher"), plan.value("process.total")
    if launcher not in ("srun", "mpirun") or tasks < 2:
        raise NotApplicable("no scheduler's tasks are the ranks")
    if plan.get(LOCAL_RANK) is not None:
        yield Reach(f"{tasks} tasks, which are given LOCAL_RANK")
        return
    if plan.value("trainer.deepspeed") is not None or not plan.entry.endswith(".py"):
        raise NotChecked("what gives the tasks their rank is not in the launch")
    given = {"srun": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"), "mpirun": _OPEN_MPI}[launcher]
    names = zip(("RANK", LOCAL_RANK.removeprefix("env."), "WORLD_SIZE"), given, strict=True)
    yield check.finding(
        f"{launcher} starts {tasks} times plain python, and nothing gives them LOCAL_RANK: each trains by itself",
        severity=Severity.WARNING,
        evidence=cite(plan, "process.launcher", "process.total", "process.nproc"),
        fixes=(
            Fix(
                title=f"hand the ranks on: {' '.join(f'{name}=${source}' for name, source in names)}, with MASTER_ADDR "
                f"and MASTER_PORT{' (the names are those of Open MPI)' if launcher == 'mpirun' else ''}",
                commands=(f"{launcher} bash -c '... LOCAL_RANK=${given[1]} python {plan.entry}'",),
            ),
            Fix(title="or start one torchrun or accelerate launch on each node, which start the ranks"),
        ),
        url="https://huggingface.co/docs/accelerate/basic_tutorials/launch",
    )


def _program(plan: RolloutPlan) -> str:
    """What a launcher is given to start: a script, or a module behind -m."""
    module = "." in plan.entry and "/" not in plan.entry and not plan.entry.endswith(".py")
    return f"-m {plan.entry}" if module else plan.entry


# torch's ``_env_rendezvous_handler`` names the first variable that it misses; RANK is the first it asks for.
_LAUNCHER = Fix(
    title="start the script with a launcher, which sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
    commands=("torchrun --nproc_per_node=<number of GPUs> ...", "accelerate launch ..."),
)
check.signature(
    "using env:// rendezvous: environment variable ",
    pattern=r"environment variable (?P<name>\w+) expected, but not set",
    says="init_process_group was called in a process that no launcher started: {name} is not set",
    fixes=(_LAUNCHER,),
    url="https://docs.pytorch.org/docs/stable/elastic/run.html",
)
check.signature(
    *(f"KeyError: '{name}'" for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")),
    pattern=r"KeyError: '(?P<name>\w+)'",
    exception="KeyError",
    says="the script asks its environment for {name}, and no launcher started it, which would set it",
    fixes=(_LAUNCHER,),
    url="https://docs.pytorch.org/docs/stable/elastic/run.html",
)
check.signature(
    "Default process group has not been initialized, please make sure to call init_process_group",
    says="init_process_group was called in a process that no launcher started",
    fixes=(_LAUNCHER,),
    url="https://docs.pytorch.org/docs/stable/elastic/run.html",
)


_ONE_EACH = (
    Fix(
        title="start one process per GPU",
        commands=("accelerate launch train.py", "torchrun --nproc-per-node gpu train.py"),
    ),
    Fix.unsafe("or show the process one GPU", {VISIBLE: "0"}),
)


# TRL 1.15 and later look at `n_gpu` once `Trainer` has started.
check.signature(
    "does not support `nn.DataParallel`, which `Trainer` uses",
    says="TRL refuses to start: several GPUs are visible to one process without a launcher",
    fixes=_ONE_EACH,
)


def _in_data_parallel(case: Case, event: LogEvent) -> bool:
    """Whether torch's DataParallel, which copies the model to every visible GPU, says so or is among the frames."""
    frames = (frame for link in (event.exception.chain if event.exception else ()) for frame in link.frames)
    said = event.search(r"Caught \w+ in replica \d+ on device \d+") is not None
    return said or any("parallel/data_parallel" in frame.file for frame in frames)


check.signature(
    " in replica ",
    "module must have its parameters and buffers on device ",
    when=_in_data_parallel,
    says="the trainer wrapped the model in DataParallel: several GPUs are visible to one process without a launcher",
    fixes=_ONE_EACH,
    url="https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",
)
