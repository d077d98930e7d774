"""What is recorded of a run that stands: processes with their threads and stacks, collectives, Ray, GPUs."""

from __future__ import annotations

from dataclasses import field

import msgspec

from rldoctor.case import Case
from rldoctor.facts.blocked import Blocked
from rldoctor.logs.model import Frame
from rldoctor.records import dataclass

# Under this name of ``Case.observations`` the record is kept.
NAME = "hang"


@dataclass(frozen=True, kw_only=True)
class Thread:
    """One thread that runs Python. ``frames`` are those of the last sample, innermost last, ``earlier`` what other
    samples showed instead, each once. ``cpu`` is its use in cores over the time watched, ``state`` the kernel's letter
    (``S`` sleeps, ``R`` runs, ``D`` waits for a device, ``T`` is stopped), ``wait`` the kernel function that it sleeps
    in, ``blocked`` what it waits on there, ``woken`` how often that woke it over the time watched, ``moved`` the bytes
    that it read and wrote meanwhile (sockets left out), ``places`` the ranks that its variables name (see
    ``hang.stacks``)."""

    id: int | None
    name: str
    main: bool = False
    frames: tuple[Frame, ...] = ()
    earlier: tuple[tuple[Frame, ...], ...] = ()
    cpu: float | None = None
    state: str | None = None
    wait: str | None = None
    blocked: Blocked | None = None
    woken: int | None = None
    moved: int | None = None
    places: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LogTail:
    """The file that a process writes its output to: its last lines, how many seconds ago it was last written, and for
    how many it may be quiet by its own pace (see ``hang.pace``)."""

    file: str
    quiet: float
    lines: tuple[str, ...] = ()
    limit: float | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One process of the run.

    ``role`` is one of ``rank``, ``launcher``, ``trainer``, ``engine``, ``engine worker``, ``server``, ``ray driver``,
    ``ray worker``, ``ray idle``, ``ray service``, ``helper`` and ``other``; ``name`` is for people. ``samples`` counts
    the stacks that were read, ``unread`` says why none was. Over the time watched: ``cpu`` is in cores, ``helped`` the
    same of what it started (compilers, tools), ``switches`` how often in a second its main thread gave up the
    processor. ``age`` in seconds. ``environment`` holds the variables that decide how it runs, redacted."""

    pid: int
    parent: int
    role: str
    name: str
    rank: str | None = None
    host: str = ""
    command: str = ""
    state: str = ""
    age: float | None = None
    cpu: float | None = None
    switches: float | None = None
    helped: float | None = None
    samples: int = 0
    unread: str | None = None
    threads: tuple[Thread, ...] = ()
    log: LogTail | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One collective of a flight recorder: ``number`` counts within its group, ``state`` is ``scheduled``, ``started``
    or ``completed``, ``created`` in seconds since 1970."""

    group: str
    number: int
    operation: str
    state: str
    sizes: str = ""
    created: float | None = None
    frame: Frame | None = None


@dataclass(frozen=True, kw_only=True)
class FlightRecord:
    """What one rank's flight recorder had dumped. ``groups`` maps a group's name to the members' ranks, ``last`` holds
    each group's newest collectives. ``problem`` says why the file tells nothing."""

    file: str
    written: float
    rank: str | None = None
    version: str | None = None
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    last: tuple[Collective, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class RayActor:
    """One actor; ``state`` is Ray's (``ALIVE``, ``PENDING_CREATION``, ``DEPENDENCIES_UNREADY``, ``DEAD``, ...).
    ``job`` started it, ``holds`` are the resources that it keeps, ``namespace`` is where its name is known."""

    kind: str
    state: str
    name: str = ""
    pid: int | None = None
    node: str = ""
    death: str = ""
    job: str = ""
    holds: dict[str, float] = field(default_factory=dict)
    namespace: str = ""


@dataclass(frozen=True, kw_only=True)
class RayBundles:
    """One placement group and the resources that each of its bundles asks for; ``job`` made it, ``namespace`` is where
    its name is known."""

    name: str
    state: str
    strategy: str = ""
    bundles: tuple[dict[str, float], ...] = ()
    job: str = ""
    namespace: str = ""


@dataclass(frozen=True, kw_only=True)
class RayDemand:
    """Resources that ``count`` tasks or actors wait for."""

    resources: dict[str, float]
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """Ray as its global control store tells it. ``version`` is of the Ray that asked, ``ray`` and ``python`` are what
    the head was started with. ``nodes`` holds the resources of each living node that takes work, ``addresses`` where
    it is, ``free`` what is free of it (empty where the release does not tell), ``jobs`` are those whose driver lives;
    ``grows`` says that an autoscaler may start more nodes."""

    address: str
    version: str = ""
    actors: tuple[RayActor, ...] = ()
    bundles: tuple[RayBundles, ...] = ()
    demands: tuple[RayDemand, ...] = ()
    total: dict[str, float] = field(default_factory=dict)
    available: dict[str, float] = field(default_factory=dict)
    nodes: tuple[dict[str, float], ...] = ()
    dead_nodes: int = 0
    free: tuple[dict[str, float], ...] = ()
    addresses: tuple[str, ...] = ()
    ray: str = ""
    python: str = ""
    jobs: tuple[str, ...] = ()
    grows: bool = False


@dataclass(frozen=True, kw_only=True)
class GpuUse:
    """One device while it was watched: ``busy`` in percent of the time, ``power`` and its ``limit`` in watts, memory
    in bytes, and the processes of this run on it."""

    index: int
    name: str
    host: str = ""
    busy: int | None = None
    power: float | None = None
    limit: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Hang:
    """A run, watched for ``seconds``. ``ended`` are processes that went away meanwhile; ``lacking`` says what could not
    be collected and how to get it."""

    seconds: float
    taken: float
    processes: tuple[Seen, ...]
    hosts: tuple[str, ...] = ()
    ended: tuple[int, ...] = ()
    records: tuple[FlightRecord, ...] = ()
    ray: tuple[RayCluster, ...] = ()
    gpus: tuple[GpuUse, ...] = ()
    lacking: tuple[str, ...] = ()


def hang_of(case: Case) -> Hang:
    """The record in a case that has one. Raises :class:`msgspec.ValidationError` where it is damaged."""
    return msgspec.convert(case.observations[NAME], Hang)
