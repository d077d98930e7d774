"""Tensors of one operation are on different devices.

What it looks for
    In a launch: TRL's ``vllm_device`` on another device than the first, with a vLLM that creates some tensors on the
    first. In a real engine on a miniature model: parameters and cache blocks that are not on the device of the worker
    that computes with them, buffers on another accelerator or on ``meta`` (a tensor without data). Where a rollout or a
    run failed, the messages that torch and FSDP give for a mixed operation (``Expected all tensors to be on the same
    device``, ``Expects tensor to be on the compute device``). In a forward pass of a miniature of the trainer's model,
    on devices that are pretended: one device for each process, and the replicas of ``DataParallel`` or the split of
    ``device_map`` where the launch brings them about, and the second process of a launcher. In a function of your own
    (``--step train_step.py:step``), run as the first and the second rank of eight pretended GPUs: ``.to("cuda:0")``,
    tables that are no buffers, masks, labels and rewards of another device.

Why it hurts
    The first operation that mixes devices raises in the middle of a step, on some ranks only; a parameter left on
    ``meta`` was never loaded at all.

How sure it is
    TRL's own pins name the vLLM release from which another device works. Each tensor tells its device. Weights that
    ``cpu_offload_gb`` keeps in host memory on purpose are not counted, nor are buffers that the host reads. Pretended
    devices follow PyTorch's own rules (single numbers and indices may stay in host memory) and name module and line;
    code that only a real GPU runs (its kernels) is not seen.

The fix and its cost
    Give every process one device and let the engine place the model: no ``device_map`` beside it,
    ``CUDA_VISIBLE_DEVICES`` and ``LOCAL_RANK`` that agree, a process per GPU instead of ``DataParallel``. The first
    wrong name says which module was placed by hand or never loaded.

References
    https://github.com/huggingface/trl/pull/2766 (vLLM 0.7.1), https://github.com/huggingface/trl/pull/2860 (0.7.2)
    https://github.com/verl-project/verl/issues/181, https://github.com/verl-project/verl/issues/4657
    https://docs.pytorch.org/docs/stable/meta.html
    https://docs.vllm.ai/en/latest/configuration/engine_args.html (cpu_offload_gb)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    cite,
    find,
    plan_of,
    version_within,
)

from ..observed.imports import cut_off
from ..observed.rollout import Job, describe, failure_text, frames, one_cause, records, require, rollouts
from ..observed.simulated import WORDS, devices_of, implied, module_of, rows, what_stopped, where

check = Check("RLD301", "device-mismatch", __doc__)

MESSAGES = re.compile(
    r"Expected all tensors to be on the same device|module must have its parameters and buffers on device"
    r"|Cannot copy out of meta tensor|cannot be called on meta tensors|is on (?:cpu|meta|\w+:\d+),? but expected"
    r"|tensor\(s\) on (?:different|two) devices|Tensor on device \S+ is not on the expected device"
)
SHOWN = 5
# The first vLLM whose tensors all follow the device argument, as TRL raised its pin for it.
DEVICE_RELEASE = "0.7.1"


@check.declared(needs=["plan.placement.engine_device", "packages.vllm"])
def engine_on_another_device(case: Case) -> Iterator[Finding | Reach]:
    """TRL 0.14 and 0.15 put the engine on the device after the training ones."""
    plan = plan_of(case)
    device = plan.value("placement.engine_device")
    if plan.framework not in ("TRL", "open-r1", "axolotl") or not str(device).startswith("cuda:"):
        raise NotApplicable("the engine runs where its process does")
    vllm = find(case.packages, "vllm") if case.packages is not None else None
    old = version_within(vllm.version, f"<{DEVICE_RELEASE}") if vllm is not None else None
    if vllm is None or old is None:
        raise NotChecked("the vLLM release is not known")
    if device == "cuda:0" or not old:
        yield Reach(f"vLLM {vllm.version} on {device}")
        return
    yield check.finding(
        f"the engine is put on {device}, and vLLM {vllm.version} creates rotary tables and other tensors on cuda:0: "
        "the first forward pass mixes both",
        evidence=(*cite(plan, "placement.engine_device", "process.total"), Evidence(text=f"vllm {vllm.version}")),
        fixes=(
            Fix(
                title="vLLM 0.7.2 follows the device argument (0.7.1 for most models)",
                commands=('pip install "vllm>=0.7.2,<0.8"',),
            ),
            Fix(title="TRL 0.18 and later colocate the engine without a device", commands=('pip install "trl>=0.18"',)),
        ),
        url="https://github.com/huggingface/trl/pull/2766",
    )


@check.observed(needs=["observations.rollout"])
def placed_elsewhere(case: Case) -> Iterator[Finding | Reach]:
    """The running engine holds tensors that are not where its worker is."""
    jobs = list(rollouts(case).values())
    # An engine in processes of its own does not let its model be seen; where all are, the first says so.
    for job in [job for job in jobs if records(job).get("devices", {}).get("parameters")] or jobs[:1]:
        if explains(job):
            raise NotApplicable("the rollout failed on it")
        placed = require(job, "devices")
        if placed["expected"] is None or "parameters" not in placed:
            raise NotChecked("the engine does not let its model be seen (it runs in processes of its own)")
        offloaded = bool(records(job).get("engine", {}).get("cpu_offload_gb"))
        for kind in ("parameters", "kv_cache", "buffers"):
            wrong = _wrong(kind, placed[kind]["elsewhere"], offloaded)
            if wrong:
                yield _finding(kind, wrong, placed["expected"], job)
        tensors = sum(sum(placed[kind]["count"].values()) for kind in ("parameters", "kv_cache", "buffers"))
        yield Reach(f"{tensors} tensors of {describe(job)} are on {placed['expected']}")


@check.observed(needs=["observations.rollout"])
@one_cause
def operation_fails(case: Case) -> Iterator[Finding | Reach]:
    """The rollout failed because an operation mixed devices."""
    for job in rollouts(case).values():
        if not explains(job):
            if job.get("ended") not in ("done", "raised"):
                cut_off(job, "rollout")
            until = (
                "" if job["ended"] == "done" else f", which raised another error at stage {records(job).get('stage')}"
            )
            yield Reach(f"no operation of {describe(job)} failed on it{until}")
            continue
        line = next(line for line in failure_text(job).splitlines() if MESSAGES.search(line))
        where = frames(job)[-1:] or [{"file": job.get("log"), "line": None, "function": "an unknown place"}]
        yield check.finding(
            f"an operation of {describe(job)} mixes devices at stage {records(job).get('stage')}",
            grade=Grade.OBSERVED,
            evidence=(
                Evidence(text=line[:400], source="rollout probe"),
                *(Evidence(text=f"in {f['function']}", source=f["file"], line=f["line"]) for f in where),
            ),
            fixes=FIXES,
        )


@check.observed(needs=["observations.placement"])
def forward_pass_mixes(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's model, small, under the placements that the launch gives it, on pretended devices."""
    tried = rows(case)
    for name, cited in implied(case).items():
        row = tried.get(name)
        if row is None or row["ended"] not in ("done", "mixed"):
            raise NotChecked(f"the trainer's model {WORDS[name]} could not be tried: {what_stopped(row)}")
        if row["ended"] == "mixed":
            yield check.finding(
                f"a forward pass of {row['architecture']} {WORDS[name]} mixes {devices_of(row)} in {module_of(row)}",
                # Where accelerate splits the whole model is not where it splits a small one.
                severity=Severity.WARNING if name == "device map" else Severity.ERROR,
                grade=Grade.SIMULATED,
                evidence=(*where(row), *cited),
                fixes=(SAME_DEVICE, *FIXES[1:]) if name != "one device" else (SAME_DEVICE,),
            )
            return
        yield Reach(f"{row['operators']} operations of a small {row['architecture']} {WORDS[name]}, simulated")


@check.observed(needs=["observations.own_step"])
def own_step_mixes(case: Case) -> Iterator[Finding | Reach]:
    """A function of the user's own, as one rank and as another, on pretended devices."""
    for rank, job in case.observations["own_step"].items():
        row = records(job).get("step")
        if row is None or row["ended"] == "failed":
            raise NotChecked(f"the own step as {rank} could not be judged: {what_stopped(row or job)}")
        if row["ended"] == "mixed":
            fixes = (SAME_DEVICE, PER_RANK)
            yield check.finding(
                f"a step of your own as {rank} mixes {devices_of(row)} in {module_of(row)}",
                grade=Grade.SIMULATED,
                evidence=tuple(where(row)),
                fixes=fixes,
            )
            return
        yield Reach(f"{row['operators']} operations of a step of your own as {rank}, simulated")


@check.knows
def explains(job: Job) -> bool:
    """Whether a rollout failed because of this pattern."""
    return job.get("ended") == "raised" and bool(MESSAGES.search(failure_text(job)))


SAME_DEVICE = Fix(
    title="create the tensor where the others are (device=hidden_states.device), or register it as a buffer; a release "
    "of the model's code that does so",
)
PER_RANK = Fix(
    title='let every process have its own device (torch.cuda.set_device(int(os.environ["LOCAL_RANK"])), then "cuda"), '
    "and no number in the code"
)
FIXES = (
    Fix(title="let the engine place the model: one device for each process, no device_map or .to() beside it"),
    Fix(
        title="make CUDA_VISIBLE_DEVICES, LOCAL_RANK and the number of processes agree",
        commands=("torchrun --nproc_per_node=GPUS train.py",),
    ),
)


def _wrong(kind: str, elsewhere: Mapping[str, str], offloaded: bool) -> dict[str, str]:
    """Those tensors whose place is no purpose: host memory is one for offloaded weights and for buffers."""
    host_is_fine = kind == "buffers" or (kind == "parameters" and offloaded)
    return {name: device for name, device in elsewhere.items() if not (host_is_fine and device == "cpu")}


def _finding(kind: str, wrong: Mapping[str, str], expected: str, job: Job) -> Finding:
    what: Any = {"kv_cache": "blocks of the KV cache"}.get(kind, kind)
    evidence = [
        Evidence(text=f"{name} is on {device}, the worker on {expected}", source="rollout probe")
        for name, device in list(wrong.items())[:SHOWN]
    ]
    return check.finding(
        f"{len(wrong)} {what} of {describe(job)} are not on {expected}: {', '.join(sorted(set(wrong.values())))}",
        severity=Severity.ERROR,
        grade=Grade.OBSERVED,
        evidence=tuple(evidence),
        fixes=FIXES,
    )


_LOAD = Fix(
    title="load the weights before they are used: from_pretrained without a meta device, or to_empty() and "
    "load_state_dict()"
)
_OFFLOADED = Fix.unsafe(
    "keep the parameters on the device while they are read (the framework forgets to load offloaded FSDP weights back)",
    {"trainer.offload_params": False},
    side_effects="more device memory",
)


# FSDP reads a flat parameter that offloading left in host memory.
check.signature(
    "Expects tensor to be on the compute device ",
    "Expected `FlatParameter` to be on the compute device",
    details=(r"on the compute device (?P<wanted>\S+?),? (?:was on|but got) (?P<actual>\w+)",),
    says=(
        "FSDP parameters are not on their device when they are needed[[ ({actual} instead of {wanted})]]: they "
        "were offloaded and not loaded back"
    ),
    fixes=(
        _OFFLOADED,
        Fix(title="or a release of the framework that loads them first", commands=("pip install --upgrade verl",)),
    ),
    url="https://github.com/verl-project/verl/issues/4657",
)


# A tensor on `meta` has a shape and no numbers.
check.signature(
    "cannot be called on meta tensors",
    "Cannot copy out of meta tensor",
    "Tensor on device meta is not on the expected device",
    says="a tensor on the meta device has no data: its weights were never loaded",
    fixes=(_LOAD,),
)


_ENGINES_DEVICE = Fix(
    title="vLLM 0.7.2 and later keep every tensor on the engine's device",
    commands=('pip install "vllm>=0.7.2"',),
    valid_for="trl>=0.14,<0.16",
)


def _remedies(case: Case, event: LogEvent, words: Mapping[str, str]) -> tuple[Fix, ...]:
    """Between two cards of one process it may be the engine's own doing."""
    devices = {words[name] for name in ("one", "other") if name in words}
    return (*FIXES, _ENGINES_DEVICE) if len(devices) == 2 and "cpu" not in devices else FIXES


# torch refuses an operation whose tensors are on two devices.
check.signature(
    "Expected all tensors to be on the same device",
    "Expected tensors to be on the same device",
    "module must have its parameters and buffers on device",
    "is not on the expected device cuda",
    "be on the same device, but got ",
    "tensor(s) on different devices",
    details=(
        r"(?:found at least two devices|but got \w+ is on)\W+(?P<one>\w+(?::\d+)?)"
        r"(?: and |, different from other tensors on )(?P<other>\w+(?::\d+)?)",
    ),
    says="one operation mixes devices[[: {one} and {other}]]",
    fixes=_remedies,
    url="https://github.com/huggingface/trl/issues/2851",
)
