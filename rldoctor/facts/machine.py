"""The machine at hand, as ``--assume`` takes it: what a launch is judged for where the machine itself is not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import msgspec
from packaging.version import InvalidVersion, Version

from rldoctor import redact
from rldoctor.case import Case, Gpu, Gpus, Packages
from rldoctor.facts.assume import GIB, AssumedGpu, Machine


def of_case(case: Case) -> Machine:
    """What the case knows of its machine; what it does not know, or what nobody else may read, is left out."""
    environment = case.environment
    return Machine(
        python=case.packages.python if case.packages is not None else None,
        packages=_versions(case.packages) if case.packages is not None else None,
        env={n: v for n, v in environment.items() if not redact.is_mark(v)} if environment is not None else None,
        gpus=list(_gpus(case.gpus)) if case.gpus is not None and _described(case.gpus) else None,
        nodes=case.nodes,
    )


def left_out(case: Case) -> Iterator[str]:
    """What a machine.json of this case does not say, and why."""
    if case.gpus is None:
        why = case.unknown.get("gpus")
        yield f"left out: GPUs{f': {why.reason}' if why else ''}"
    elif not _described(case.gpus):
        yield f"left out: GPUs: {case.gpus.error or f'devices of {case.gpus.vendor} are not read'}"
    for name, reason in case.packages.broken.items() if case.packages is not None else ():
        yield f"left out: {name}: {reason}"
    if case.nodes is None:
        yield 'left out: how many nodes the run has; add "nodes"'


def dump(machine: Machine) -> str:
    """The machine as indented JSON, with what it names alone."""
    named = {name: value for name, value in msgspec.to_builtins(machine).items() if value is not None}
    return msgspec.json.format(msgspec.json.encode(named), indent=1).decode()


def schema() -> str:
    """The JSON Schema of machine.json, as it is published."""
    from rldoctor.schema import components, published

    return published("machine", components(Machine))


def _described(gpus: Gpus) -> bool:
    """Whether the devices are known: an error, or a vendor whose devices are not read, is not a machine without any."""
    return gpus.error is None and (bool(gpus.devices) or gpus.vendor == "none")


def _gpus(gpus: Gpus) -> Iterator[AssumedGpu]:
    """Devices that are alike and follow each other, as one."""

    def kind(gpu: Gpu) -> tuple[str, int, str | None]:
        return gpu.name, gpu.memory_total, gpu.compute_capability

    for (name, memory, capability), same in groupby(gpus.devices, key=kind):
        gib = round(memory / GIB, 2)
        yield AssumedGpu(name=name, memory_gib=gib, compute_capability=capability, count=len(list(same)))


def _versions(packages: Packages) -> dict[str, str]:
    """The version that an import would take of each distribution."""
    found: dict[str, str] = {}
    for distribution in packages.distributions:
        try:
            Version(distribution.version)
        except InvalidVersion:  # setuptools' legacy versions, which no specifier compares with
            continue
        found.setdefault(distribution.name, distribution.version)
    return dict(sorted(found.items()))
