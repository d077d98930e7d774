"""Classes of equals: every fact of every node against what most nodes say."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Any

from rldoctor import redact
from rldoctor.case import Case
from rldoctor.fleet import breaks, compared
from rldoctor.fleet.model import NodeClass, Skew
from rldoctor.records import dataclass

# Limits: what is more than most nodes have breaks nothing, and between machines of one kind they vary a little (the
# kernel counts the processes of a user by the memory). None is no limit, but for sizes that are not known.
_LIMITS = frozenset(
    {"memory_total", "memory_limit", "shm_total", "cpu_usable", "cpu_count", "open_files", "open_files_hard",
     "processes", "pids_limit", "locked_memory"}
)  # fmt: skip
_UNKNOWN_SIZES = frozenset({"memory_total", "shm_total", "cpu_usable", "cpu_count"})
_OF_MEMORY = frozenset({"memory_limit", "locked_memory"})
# Runtime libraries of which a newer release serves what was built for an older one, and the kernel.
_RUNTIMES = frozenset({"libc", "glibcxx", "kernel"})
# Kernels from here on are as good as each other; before, processes may hang (accelerate, utils/other.py,
# check_os_kernel).
_GOOD_KERNEL = (5, 5)
_BYTES = frozenset({"memory_total", "memory_limit", "shm_total", "locked_memory"})
_TOLERANCE = 0.05
# What each node, task or process has of its own: its rank (an adapter's rank is a size), the job's number, where it
# listens itself. Where all meet is no such place, and nodes of two Slurm jobs are no cluster.
_OWN_VARIABLES = re.compile(
    r"(?!\w*(?:LORA|LOW|ADAPTER)_RANK$)(?:\w+_)?RANK|TORCHELASTIC_(?!ERROR)\w*|(?!SLURM_)\w+_JOB_?ID"
    r"|(?!\w*(?:MASTER|SERVER|HEAD)_)\w+_(?:PORT|HOST|HOSTNAME)"
    r"|VLLM_(?:HOST_IP|DP_RANK\w*)|RAY_(?:NODE_\w*|RAYLET_\w*|WORKER_\w*)"
    r"|NVIDIA_VISIBLE_DEVICES|NCCL_HOSTID|PYTHONHASHSEED"
)
_OWN_SETTINGS = frozenset({"process.node_rank", "engine.data_parallel_rank", "engine.data_parallel_start_rank"})
# Rendezvous is the one place where the name of a host must be the same everywhere.
_MEETING = re.compile(r"MASTER_\w+|RAY_ADDRESS")
_RAY, _COMPILERS = "RAY_ADDRESS", "compilers"
_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):(\d+)")
# A folder that is called after a job; releases have fewer digits.
_JOB_FOLDER = re.compile(r"(?<=/)(?:job[-_.]?)?\d{4,}(?=[/:]|$)")
_UUID = re.compile(r"(?:GPU-|MIG-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# So much of a file's hash tells it from others.
_HASH = 12
# From this share of different values on, a variable is a name and no setting.
_NAMES = 0.5
# A secret that somebody has struck out is still one.
_STRUCK_OUT = re.compile(r"\*+|[xX]{3,}|<[^<>]*>")
# What a variable says that comes to the same as leaving it alone: what is taken unasked. A container gets compute and
# utility:
# https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
_AS_UNSET = {
    "NVIDIA_DRIVER_CAPABILITIES": re.compile(r".*\b(?:all|compute)\b.*"),
    "CUDA_MODULE_LOADING": re.compile("LAZY"),
    "DS_ACCELERATOR": re.compile("cuda"),
    "CC": re.compile(r"(?:/usr/bin/)?g?cc"),
    "CXX": re.compile(r"(?:/usr/bin/)?(?:g|c)\+\+"),
}
_SWITCHED_OFF = re.compile(r"(?:\w*_(?:DISABLE|SKIP|DEBUG|OFFLINE)(?:_\w+)?|PYTHONDEVMODE)=(?:0|(?i:false|off|no))")
# Ray's head often has no devices and is a smaller machine, on purpose: it is held to what all nodes must share.
_OF_WORKERS = frozenset({"gpus", "host"})
_OF_WORKERS_NODE = re.compile(r"interface .*|InfiniBand ports|GPUs in use")
# Devices and packages that differ end a run at its start, models and launches make it another one, a variable may be
# on purpose.
_WEIGHTS = {"gpus": 0, "packages": 0, "model": 1, "plan": 1, "node": 2, "host": 2, "environment": 3}
_KIND = {"environment": "not set", "packages": "not installed"}

Fact = tuple[str, str]


@dataclass
class Table:
    """The values of every fact with the nodes that have them. ``known`` are the nodes that know a section at all."""

    names: list[str] = field(default_factory=list)
    values: dict[Fact, dict[Hashable, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    known: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lacking: dict[str, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    partial: set[int] = field(default_factory=set)
    head: set[int] = field(default_factory=set)
    small: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)

    def add(self, name: str, case: Case) -> int:
        """Takes a node's facts in, and gives it a number; the case itself may go."""
        number = len(self.names)
        self.names.append(name)
        if case.packages is not None and not case.packages.complete:
            self.partial.add(number)
        if _reaches_itself(case):
            self.head.add(number)
        if _serves_ray(case) and case.gpus is not None and not case.gpus.devices and case.gpus.error is None:
            self.small.add(number)
        for section, facts, _ in compared.SECTIONS:
            if section in _OF_WORKERS and number in self.small:
                continue
            found = facts(case)
            if found is None:
                why = case.unknown.get(section)
                reason = why.reason if why is not None else case.absent.get(section, "not collected")
                self.lacking[section][reason].append(number)
                continue
            self.known[section].append(number)
            memory = case.host.memory_total if case.host is not None else None
            for fact, value in _reported(section, found, name):
                if fact in _OF_MEMORY and memory and isinstance(value, int) and value >= (1 - _TOLERANCE) * memory:
                    value = None  # as much as there is, which is no limit
                if section == "environment" and _says_nothing(fact, value, case):
                    continue
                if fact == _RAY and number in self.head:
                    continue
                if section == "node" and number in self.small and _OF_WORKERS_NODE.fullmatch(fact):
                    continue
                self.values[(section, fact)][value].append(number)
        return number

    def leave_out(self, number: int) -> None:
        """Forgets a node."""
        every = [nodes for values in self.values.values() for nodes in values.values()]
        every += [nodes for reasons in self.lacking.values() for nodes in reasons.values()]
        for nodes in (*every, *self.known.values()):
            if number in nodes:
                nodes.remove(number)
        self.gone.add(number)


def classes(table: Table) -> tuple[tuple[str, ...], tuple[NodeClass, ...]]:
    """The nodes that are like most, and the others by how they differ: first what no run survives, then the largest
    class."""
    found: dict[int, list[Skew]] = defaultdict(list)
    for skew, nodes in _skews(table):
        for number in nodes:
            found[number].append(skew)
    grouped: dict[tuple[Skew, ...], list[str]] = defaultdict(list)
    for number in sorted(found):
        grouped[_told(found[number])].append(table.names[number])
    alike = tuple(name for number, name in enumerate(table.names) if number not in found and number not in table.gone)
    ordered = sorted(grouped.items(), key=lambda item: (_weight(item[0]), -len(item[1]), item[1]))
    return alike, tuple(NodeClass(nodes=tuple(nodes), differs=differs) for differs, nodes in ordered)


def _weight(differs: tuple[Skew, ...]) -> int:
    """How much a class matters, less is more: what its gravest difference is about."""
    return min(_WEIGHTS[skew.section] for skew in differs)


def _skews(table: Table) -> Iterator[tuple[Skew, list[int]]]:
    """Every fact in which nodes differ from most, with these nodes; in the order in which differences are reported."""
    for section, _, order in compared.SECTIONS:
        yield from _not_known(table, section)
        names = [name for of, name in table.values if of == section]
        for name in sorted(names, key=order) if order is not None else names:
            values = {value: nodes for value, nodes in table.values[(section, name)].items() if nodes}
            there = {number for nodes in values.values() for number in nodes}
            missing = [n for n in table.known[section] if n not in there and n not in _without(table, section, name)]
            if missing:
                values[None] = sorted({*values.get(None, ()), *missing})
            values = _merged(section, name, values)
            if len(values) < 2 or (section in ("environment", "plan") and _is_a_name(values)):
                continue
            usual = _usual(section, name, values)
            codes, words = breaks.of(section, name)
            for value, nodes in values.items() if codes else ():
                if value != usual:
                    texts = {"value": _text(section, name, value), "others": _text(section, name, usual)}
                    if name == "links" and value is not None and usual is not None:
                        texts = _apart(texts)
                    yield Skew(section=section, name=name, **texts, codes=codes, breaks=words), nodes


def _told(skews: list[Skew]) -> tuple[Skew, ...]:
    """The differences of a node without those that others bring about: other devices have other links."""
    devices = any((skew.section, skew.name) == ("gpus", "devices") for skew in skews)
    return tuple(skew for skew in skews if not (devices and (skew.section, skew.name) == ("gpus", "links")))


def _says_nothing(name: str, value: Hashable, case: Case) -> bool:
    """Whether a variable's value is what holds without it: nothing is said or switched off, all devices are visible in
    their order, the one Ray of this node is named."""
    if value == "" and not name.endswith("_VISIBLE_DEVICES"):
        return True
    if _SWITCHED_OFF.fullmatch(f"{name}={value}"):
        return True
    every = ",".join(str(number) for number in range(len(case.gpus.devices))) if case.gpus is not None else None
    if name.endswith("_VISIBLE_DEVICES") and every and str(value).replace(" ", "") == every:
        return True
    served = {one.address for one in case.node.ray} if case.node is not None else set()
    if name == _RAY and len(served) == 1 and value in ("auto", *served):
        return True
    return name in _AS_UNSET and _AS_UNSET[name].fullmatch(str(value)) is not None


def _without(table: Table, section: str, name: str) -> set[int]:
    """The nodes of which nobody expects a fact."""
    if section == "node" and _OF_WORKERS_NODE.fullmatch(name):
        return table.small
    return table.partial if section == "packages" else table.head if name == _RAY else set()


def _not_known(table: Table, section: str) -> Iterator[tuple[Skew, list[int]]]:
    """A section that most nodes know and some do not, or that is there on some only."""
    for reason, nodes in table.lacking[section].items():
        if nodes and len(table.known[section]) >= len(nodes):
            codes, words = breaks.of(section, section)
            value = f"not known: {reason}"
            yield Skew(section=section, name=section, value=value, others="known", codes=codes, breaks=words), nodes


def _is_a_name(values: Mapping[Hashable, list[int]]) -> bool:
    nodes = sum(map(len, values.values()))
    return len(values) > 2 and len(values) >= _NAMES * nodes


def _usual(section: str, name: str, values: Mapping[Hashable, list[int]]) -> Hashable:
    """What most nodes have. Of sizes and releases, which vary from node to node, it is the one in the middle; of values
    that equally many nodes have it is the one with which less is amiss, so that the node to be mended is named."""
    if (order := _order(section, name)) is not None:
        every = sorted((order(value), -min(nodes), value) for value, nodes in values.items() for _ in nodes)
        return every[len(every) // 2][2]
    return max(values, key=lambda value: (len(values[value]), -_amiss(section, name, value), -min(values[value])))


def _order(section: str, name: str) -> Callable[[Hashable], float | tuple[int, ...]] | None:
    """By what the values of a fact go from less to more, where more breaks nothing; None for other facts."""
    if name in _LIMITS:
        return partial(_size, name)
    return _release if section == "host" and name in _RUNTIMES else None


def _amiss(section: str, name: str, value: Hashable) -> float:
    """How much a value says by itself that something is wrong with a node: a fault, or what is not there."""
    if section not in ("gpus", "node"):
        return 0
    if name in ("error", compared.CLOCK, compared.FAULTS):
        return value is not None
    if name == compared.IN_USE:
        return int(str(value or 0))
    if value in (None, compared.FULL, "no") or "down" in str(value):
        return math.inf
    return -sum(map(int, re.findall(r"(\d{1,18}) x ", str(value))))


def _merged(section: str, name: str, values: dict[Hashable, list[int]]) -> dict[Hashable, list[int]]:
    """Values that come to the same are counted as what most nodes have, and addresses where every node has a Ray of
    its own are only counted."""
    if len(values) < 2:
        return values
    usual = _usual(section, name, values)
    merged: dict[Hashable, list[int]] = defaultdict(list)
    if name == "Ray instances" and _is_a_name(values):
        for value, nodes in values.items():
            merged[len(str(value).split(", ")) if value else None] += nodes
        return dict(merged)
    for value, nodes in values.items():
        merged[usual if _is_enough(section, name, value, usual) else value] += nodes
    return dict(merged)


def _is_enough(section: str, name: str, value: Hashable, usual: Hashable) -> bool:
    """Whether a value breaks nothing where most nodes have the usual one: a limit that is not lower, a compiler or an
    interface more, what is not known or not there to be full."""
    if name == _COMPILERS:
        return set(str(usual or "").split(", ")) <= set(str(value or "").split(", "))
    if name in _LIMITS:
        return _size(name, value) >= (1 - _TOLERANCE) * _size(name, usual)
    if section == "node" and name.startswith("interface "):
        return usual is None or _is_no_worse(str(value or "down"), str(usual))
    if section == "host" and name in _RUNTIMES:
        least = _release(usual)
        return _release(value) >= (min(least, _GOOD_KERNEL) if name == "kernel" else least)
    if section == "gpus" and name in ("driver", "cuda", compared.ECC):
        return value is None
    if section == "gpus" and name in (compared.POWER, compared.LANES):
        return None in (value, usual) or _size(name, value) >= _size(name, usual)
    if section == "node" and name.startswith("disk of "):
        return value != compared.FULL and usual != compared.FULL
    return section == "node" and name == compared.CLOCK_KEPT and value is None


def _is_no_worse(interface: str, usual: str) -> bool:
    """Whether an interface is as good as the usual one: a speed that it does not tell is no other, and what is more
    (speed, size of packets) is no less."""
    (state, *speeds), (least, *expected) = interface.split(", "), usual.split(", ")
    known = {_unit(one): one for one in expected}
    return state == least and (
        state == "down" or all(_release(one) >= _release(known.get(_unit(one), "")) for one in speeds)
    )


def _unit(speed: str) -> str:
    return re.sub(r"\d+", "", speed)


def _release(value: Hashable) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d{1,18}", str(value or ""))))


def _size(name: str, value: Hashable) -> float:
    if isinstance(value, int | float):
        return value
    return 0.0 if name in _UNKNOWN_SIZES else math.inf


def _reported(section: str, facts: Mapping[str, Any], host: str) -> Iterator[tuple[str, Hashable]]:
    """A section's facts without what each node has of its own."""
    compilers = []
    for name, value in facts.items():
        if _own(section, name):
            continue
        if section == "packages" and compared.package_order(name)[0] == 3:
            continue
        if section == "host" and name.startswith("compilers."):
            compilers.append(name.partition(".")[2])
        elif isinstance(value, str) and section == "environment" and _is_secret(name, value):
            yield name, redact.mark(name)
        elif isinstance(value, str) and section in ("environment", "plan") and not _MEETING.fullmatch(name):
            yield name, _JOB_FOLDER.sub("(id)", _UUID.sub("(id)", _without_host(value, host)))
        else:
            yield name, value if isinstance(value, Hashable) else str(value)
    if section == "host":
        yield _COMPILERS, ", ".join(sorted(compilers)) or None


def _without_host(value: str, host: str) -> str:
    """The value with a mark for the node's own name, where it is a word of its own. Secrets go before: none is found
    that has a mark inside."""
    if not host or host not in value:
        return value
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(host)}(?![A-Za-z0-9])", "(host)", redact.text(value))


def _reaches_itself(case: Case) -> bool:
    """Whether a node is the head that its own variable names, as KubeRay sets it there: the others name the head's
    service, which is the same cluster."""
    at = _LOOPBACK.fullmatch((case.environment or {}).get(_RAY, ""))
    return at is not None and case.host is not None and int(at[1]) in case.host.listening_ports


def _is_secret(name: str, value: str) -> bool:
    return redact.is_secret_variable(name, _STRUCK_OUT.sub("struck out", value) if value else value)


def _serves_ray(case: Case) -> bool:
    """Whether a Ray that this node is part of has its head here: it listens at the cluster's address."""
    ports = case.host.listening_ports if case.host is not None else ()
    served = [one.address or "" for one in case.node.ray] if case.node is not None else []
    return any(port.isdecimal() and int(port) in ports for port in (at.rpartition(":")[2] for at in served))


def _own(section: str, name: str) -> bool:
    variable = name.removeprefix("env.") if section == "plan" else name if section == "environment" else None
    if section == "plan" and name in _OWN_SETTINGS:
        return True
    return variable is not None and _OWN_VARIABLES.fullmatch(variable) is not None


def _apart(lists: dict[str, str]) -> dict[str, str]:
    """Of two lists with commas what only one of them has."""
    items = {name: text.split(", ") for name, text in lists.items()}
    common = set.intersection(*map(set, items.values()))
    return {name: ", ".join(one for one in listed if one not in common) or "none" for name, listed in items.items()}


def _text(section: str, name: str, value: Hashable) -> str:
    if value is None:
        limit = "not known" if name in _UNKNOWN_SIZES else "unlimited" if name in _LIMITS else "none"
        return _KIND.get(section, limit)
    if name in _BYTES and isinstance(value, int):
        return f"{value / (1 << 30):.0f} GiB" if value >= 10 << 30 else f"{value / (1 << 20):.0f} MiB"
    if name.startswith("content of "):
        return str(value)[:_HASH]
    # Whoever made the bundle may have left a secret in it.
    return redact.variable(name.removeprefix("env."), str(value)) if section in ("environment", "plan") else str(value)
