"""The case: every fact about one environment, launch and run, as one JSON document (the bundle)."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from rldoctor import reads
from rldoctor.model import Evidence
from rldoctor.plan.model import RolloutPlan
from rldoctor.records import dataclass
from rldoctor.redact.marks import has_mark

SCHEMA_VERSION = 1
OF_ANOTHER_PYTHON = "which Python the run starts with is not known: its packages were assumed"


class _Facts:
    """A part of the case that notes what is read of it. ``_unknown_when_none`` are its fields of which None says that
    nobody knows, in plain words."""

    _section: ClassVar[str]
    _unknown_when_none: ClassVar[dict[str, str]] = {}

    def _lacks(self, name: str) -> str | None:
        """What there is to say of a field that is None."""
        words = self._unknown_when_none.get(name)
        return words and f"{words} is not known"

    if not TYPE_CHECKING:  # type checkers know the fields better

        def __getattribute__(self, name: str) -> Any:
            value = object.__getattribute__(self, name)
            if name[0] != "_":
                reads.note(f"{self._section}.{name}", self._lacks(name) if value is None else None)
            return value


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """A fact that was not obtained: why, and what would obtain it."""

    reason: str
    how: str | None = None


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """One installed distribution as its metadata declares it. ``name`` is canonical (PEP 503), ``requires`` holds the
    raw ``Requires-Dist`` lines (empty where this distribution's metadata was not read), ``location`` the directory it
    is imported from, ``editable`` the source tree of an editable install, ``damage`` what is wrong in its metadata."""

    name: str
    version: str
    location: str = ""
    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    editable: str | None = None
    damage: str | None = None


@dataclass(frozen=True, kw_only=True)
class Packages:
    """What an interpreter would import, in ``sys.path`` order: of two entries with one name the first wins.

    ``complete`` is false for an assumed environment: a distribution it does not name is unknown, not absent. ``broken``
    holds names that are installed in a version that is not known, with the reason. ``include`` is the directory
    with ``Python.h``, None where the headers are not installed. ``named`` says that the user named this interpreter as
    the one that the run starts with. ``foreign`` says that the packages were assumed and the interpreter was not: the
    run's own may be another release."""

    python: str
    distributions: tuple[Distribution, ...] = ()
    executable: str | None = None
    prefix: str | None = None
    complete: bool = True
    broken: dict[str, str] = field(default_factory=dict)
    include: str | None = None
    named: bool = False
    foreign: bool = False

    def release(self) -> str | None:
        """The release of the run's Python; None where it is not known."""
        reads.note("packages.python", OF_ANOTHER_PYTHON if self.foreign else None)
        return None if self.foreign else self.python


@dataclass(frozen=True, kw_only=True)
class GpuProcess:
    """A process that holds memory on a device; ``memory`` in bytes, None where the driver does not tell."""

    pid: int
    name: str | None = None
    memory: int | None = None


@dataclass(frozen=True, kw_only=True)
class MigInstance:
    """A slice of a device in MIG mode, which is what a process sees of it. Memory in bytes."""

    uuid: str | None
    memory_total: int | None = None


@dataclass(frozen=True, kw_only=True)
class Gpu(_Facts):
    """One device, numbered by NVML (by PCI address), which is CUDA's order only with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
    Memory in bytes, the host's where the two are one; ``compute_capability`` like ``8.0``; ``power_limit`` in watts,
    ``pcie_lanes`` those in use, ``ecc`` whether errors of memory are corrected, ``remapping`` what is amiss with the
    rows that replace faulty ones (``pending``, ``failed``): each None where the driver does not tell."""

    _section = "gpus.devices"
    _unknown_when_none: ClassVar = {
        "memory_used": "how much of the device is in use",
        "compute_capability": "the compute capability",
    }

    index: int
    name: str
    memory_total: int
    memory_used: int | None = None
    compute_capability: str | None = None
    uuid: str | None = None
    mig: bool = False
    instances: tuple[MigInstance, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    power_limit: int | None = None
    pcie_lanes: int | None = None
    ecc: bool | None = None
    remapping: str | None = None


@dataclass(frozen=True, kw_only=True)
class Gpus(_Facts):
    """The accelerators of a host. ``vendor`` is ``nvidia``, ``amd``, ``ascend`` or ``none``; only nvidia's devices are
    read. ``cuda`` is the newest CUDA that the driver serves; ``links`` maps ``"0-1"`` to how two devices reach each
    other (``nvlink``, ``pix``, ``pxb``, ``phb``, ``node``, ``sys``); ``error`` is why NVIDIA hardware is unusable."""

    _section = "gpus"
    _unknown_when_none: ClassVar = {"driver": "the driver's version", "cuda": "the newest CUDA that the driver serves"}

    vendor: str
    devices: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    links: dict[str, str] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Disk:
    """Space of the file system behind a path, in bytes; ``role`` says what a run keeps there."""

    role: str
    path: str
    total: int
    free: int


@dataclass(frozen=True, kw_only=True)
class Host(_Facts):
    """The machine and its limits. Sizes in bytes; a limit of None means unlimited or not known.

    ``cpu_usable`` counts what affinity and cgroup leave, ``memory_limit`` and ``pids_limit`` are the cgroup's
    (``processes`` the user's). ``disks`` lacks a path whose file system did not answer. ``glibcxx`` is the newest
    symbol version of the system's libstdc++, like ``3.4.30``. ``libraries`` maps each CUDA, cuDNN, NCCL or C++ runtime
    library that ``LD_LIBRARY_PATH`` or ``LD_PRELOAD`` puts in front, in search order, to the file behind it."""

    _section = "host"
    _unknown_when_none: ClassVar = {
        "libc": "the C library",
        "glibcxx": "the newest symbol version of libstdc++",
        "shm_total": "the size of /dev/shm",
        "shm_free": "what is free in /dev/shm",
    }

    system: str
    machine: str
    kernel: str
    libc: str | None
    cpu_model: str | None
    cpu_count: int
    cpu_usable: float
    load: float
    memory_total: int
    memory_available: int
    memory_limit: int | None
    shm_total: int | None
    shm_free: int | None
    open_files: int | None
    open_files_hard: int | None
    processes: int | None
    locked_memory: int | None
    disks: tuple[Disk, ...] = ()
    listening_ports: tuple[int, ...] = ()
    container: str | None = None
    compilers: dict[str, str] = field(default_factory=dict)
    pids_limit: int | None = None
    glibcxx: str | None = None
    libraries: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface of hardware; ``speed`` in Mbit/s, ``mtu`` the largest packet in bytes, None where it does
    not tell."""

    name: str
    state: str
    speed: int | None = None
    mtu: int | None = None


@dataclass(frozen=True, kw_only=True)
class InfinibandPort:
    """A port of an InfiniBand or RoCE adapter, ``mlx5_0:1``; ``rate`` in the driver's words."""

    name: str
    state: str
    rate: str | None = None


@dataclass(frozen=True, kw_only=True)
class RayInstance:
    """A raylet on a node: the cluster that it belongs to, by the address of its head and the name of its session."""

    pid: int
    address: str | None = None
    session: str | None = None

    @property
    def port(self) -> int | None:
        """Where the head of its cluster listens."""
        port = (self.address or "").rpartition(":")[2]
        return int(port) if port.isdecimal() else None


@dataclass(frozen=True, kw_only=True)
class Node:
    """The machine as one of many. ``time`` and ``started`` (when it was booted) are seconds since 1970; ``boot`` names
    the boot; ``xids`` are faults of GPUs in the kernel's log, None where that may not be read. ``clock_kept`` says
    whether anything keeps the clock right, ``clock_offset`` by how many seconds at least it is ahead of the clock of
    who asked (negative: behind), each None where not known. ``hashes`` are those of the model's files. ``ray_last`` is
    the address of the cluster that ``ray start`` came to last here, which Ray joins where it is told none."""

    host: str
    time: float
    boot: str | None = None
    started: float | None = None
    interfaces: tuple[Interface, ...] = ()
    infiniband: tuple[InfinibandPort, ...] = ()
    ray: tuple[RayInstance, ...] = ()
    ray_last: str | None = None
    xids: tuple[str, ...] | None = None
    clock_kept: bool | None = None
    clock_offset: float | None = None
    hashes: dict[str, str] = field(default_factory=dict)

    def is_beside(self, other: Node) -> bool:
        """Whether the two are two machines, whatever their names: each runs since before the other was looked at."""
        if None in (self.boot, other.boot, self.started, other.started) or self.boot == other.boot:
            return False
        return max(self.started or 0, other.started or 0) < min(self.time, other.time)


@dataclass(frozen=True, kw_only=True)
class ModelFiles(_Facts):
    """A local model directory: its ``config.json`` and what stands beside it. ``files`` maps names to sizes in bytes,
    ``broken`` the names of those that cannot be read to the reason. ``cached`` says that the hub has it, and that a
    cache holds what is here of it, which may be nothing: what is not there is downloaded when it is wanted."""

    _section = "model"

    path: str
    config: dict[str, Any]
    tokenizer_config: dict[str, Any] | None = None
    generation_config: dict[str, Any] | None = None
    files: dict[str, int] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    cached: bool = False

    def _lacks(self, name: str) -> str | None:
        reason = self.broken.get(f"{name}.json")
        return reason and f"{name}.json cannot be read: {reason}"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One metric over a run: ``values[i]`` was logged at ``steps[i]``; NaN and infinities are kept as such.

    ``source`` is the file, ``lines`` the line of each value where the file has lines, ``key`` the framework's own
    name."""

    key: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    source: str | None = None
    lines: tuple[int, ...] = ()


SECTIONS = {
    "packages": "the packages",
    "host": "the host",
    "gpus": "the GPUs",
    "environment": "the environment variables",
    "model": "the model's files",
    "plan": "the launch",
    "nodes": "the number of nodes",
    "metrics": "the metrics",
    "links": "what the packages lack of each other",
}
"""The parts of a case by the names of its fields, and in plain words."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """All facts. ``links`` is what the packages lack of each other (:mod:`rldoctor.link.observe`). What is missing is
    explained under its dotted name: in ``unknown`` where it was not obtained, in ``absent`` (with the reason) where it
    does not exist or make sense here; under that name ``fact_lines`` has the line of a log that tells it. ``sources``
    are the texts of the launch, the first of them its own, ``arguments`` what its script is given; ``thresholds`` are
    what the project sets, as ``RLD501.lost-steps``."""

    schema_version: int = SCHEMA_VERSION
    tool: str = ""
    target: str | None = None
    role: str | None = None
    packages: Packages | None = None
    host: Host | None = None
    gpus: Gpus | None = None
    node: Node | None = None
    environment: dict[str, str] | None = None
    model: ModelFiles | None = None
    plan: RolloutPlan | None = None
    nodes: int | None = None
    metrics: dict[str, Series] | None = None
    links: dict[str, Any] | None = None
    observations: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, Unknown] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    fact_lines: dict[str, Evidence] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
    thresholds: dict[str, float] = field(default_factory=dict)

    def variable(self, name: str) -> str | None:
        """An environment variable as the launch sets it, else as the shell has it; None where it is not set, and where
        it was a secret, which is not known here."""
        setting = self.plan.get(f"env.{name}") if self.plan is not None else None
        if setting is not None:
            return None if setting.value is None else str(setting.value)
        value = (self.environment or {}).get(name)
        removed = value is not None and has_mark(value)
        reads.note(f"environment.{name}", f"{name} was removed as a secret" if removed else None)
        return None if removed else value

    if not TYPE_CHECKING:

        def __getattribute__(self, name: str) -> Any:
            value = object.__getattribute__(self, name)
            if name in SECTIONS:
                why = self.unknown.get(name) if value is None else None
                reads.note(name, why and f"{SECTIONS[name]}: {why.reason}")
            return value
