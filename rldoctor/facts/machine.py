"""The machine at hand, as ``--assume`` takes it: what a launch is judged for where the machine itself is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TypeVar

import msgspec

from rldoctor import redact
from rldoctor.case import Case, Gpu, Gpus, Packages
from rldoctor.facts.assume import GIB, AssumedGpu, Machine
from rldoctor.versions import parsed

T = TypeVar("T")
# So many names of what differs fit into a line.
_NAMED = 8
UNKNOWN = "not known"


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


def shared(nodes: Mapping[str, Machine]) -> tuple[Machine, list[str]]:
    """What all nodes of a cluster have in common, with their number, and a line for each thing that is left out of it
    because they differ."""
    machines = list(nodes.values())
    said: list[str] = []

    def common(what: str, of: Callable[[Machine], T | None]) -> T | None:
        kinds = Counter(_shown(of(machine)) for machine in machines)
        if len(kinds) > 1:
            said.append(f"left out: {what}: {_kinds(kinds)}")
        elif UNKNOWN in kinds:
            said.append(f"left out: {what}: {UNKNOWN} on any node")
        return of(machines[0]) if len(kinds) == 1 else None

    def of_all(name: str, of: Callable[[Machine], dict[str, str] | None]) -> dict[str, str] | None:
        known = [given for machine in machines if (given := of(machine)) is not None]
        if len(known) < len(machines):
            return common(name, of)
        same = dict(set.intersection(*(set(given.items()) for given in known)))
        apart = sorted({key for given in known for key in given} - same.keys())
        if apart:
            more = f" and {len(apart) - _NAMED} more" if len(apart) > _NAMED else ""
            said.append(f"left out: {name} that differ between nodes: {', '.join(apart[:_NAMED])}{more}")
        return dict(sorted(same.items()))

    machine = Machine(
        python=common("Python", lambda one: one.python),
        packages=of_all("packages", lambda one: one.packages),
        env=of_all("variables", lambda one: one.env),
        gpus=common("GPUs", lambda one: one.gpus),
        nodes=len(nodes),
    )
    return machine, said


def dump(machine: Machine) -> str:
    """The machine as indented JSON, with what it names alone."""
    named = {name: value for name, value in msgspec.to_builtins(machine).items() if value is not None}
    return msgspec.json.format(msgspec.json.encode(named), indent=1).decode()


def schema() -> str:
    """The JSON Schema of machine.json, as it is published."""
    from rldoctor.schema import components, published

    return published("machine", components(Machine))


def _shown(value: object) -> str:
    """One value of a node, as a line of what differs has it."""
    if isinstance(value, list):
        return " + ".join(_kind(gpu) for gpu in value) or "none"
    if isinstance(value, dict):
        return "known"
    return UNKNOWN if value is None else str(value)


def _kind(gpu: AssumedGpu) -> str:
    capability = f", compute capability {gpu.compute_capability}" if gpu.compute_capability else ""
    return f"{gpu.count} x {gpu.name} ({gpu.memory_gib:g} GiB{capability})"


def _kinds(kinds: Counter[str]) -> str:
    return ", ".join(f"{kind} on {count} node{'s' * (count != 1)}" for kind, count in kinds.most_common())


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
        if parsed(distribution.version) is not None:  # setuptools' legacy versions compare with no specifier
            found.setdefault(distribution.name, distribution.version)
    return dict(sorted(found.items()))
