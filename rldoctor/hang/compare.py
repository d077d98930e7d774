"""Compares the processes of a stalled run: which ranks wait for which, and who is stopped, gone or moving."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rldoctor.hang.graph import worker_of
from rldoctor.hang.model import Collective, FlightRecord, Hang, RayActor, RayBundles, RayCluster, RayDemand, Seen
from rldoctor.hang.names import by_number
from rldoctor.hang.process_state import IDLE, STOPPED, ProcessState, process_states
from rldoctor.hang.rendezvous import world
from rldoctor.hang.waits import MEETS
from rldoctor.records import dataclass

# gcs.proto: ActorTableData.ActorState and PlacementGroupTableData.PlacementGroupState
_UNPLACED = ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING", "PENDING", "RESCHEDULING")


@dataclass(frozen=True)
class MissingPeers:
    """Peers that are not where the others are. ``waiting`` stand in a collective, ``missing`` are elsewhere, ``unseen``
    are ranks of which no process was seen: ``absent`` where their launcher told that they belong on a host that was
    looked at, else elsewhere. ``dead`` are actors of their class that Ray has seen end, ``working`` processes
    that those who are missing wait for."""

    waiting: tuple[ProcessState, ...]
    missing: tuple[ProcessState, ...]
    unseen: tuple[int, ...] = ()
    absent: bool = False
    dead: tuple[RayActor, ...] = ()
    working: tuple[ProcessState, ...] = ()

    @property
    def moving(self) -> bool:
        """Whether any of those who are missing did something else in another sample, or another process works for
        it."""
        return bool(self.working) or any(one.moving for one in self.missing)

    @property
    def served(self) -> bool:
        """Whether any of those who are missing gets what it waits for: bytes, or another process' work."""
        return bool(self.working) or any(one.transfers for one in self.missing)


@dataclass(frozen=True)
class Behind:
    """A group of which the flight recorders tell that ranks began different collectives. ``last`` maps each rank to
    the newest that it began."""

    group: str
    last: dict[str, Collective]
    ahead: tuple[str, ...]
    behind: tuple[str, ...]


@dataclass(frozen=True)
class Pending:
    """What a Ray cluster has not placed. ``never`` is what tasks or actors wait for that no node has."""

    cluster: RayCluster
    actors: tuple[RayActor, ...]
    groups: tuple[RayBundles, ...]
    never: tuple[RayDemand, ...] = ()

    @property
    def demands(self) -> list[dict[str, float]]:
        """The resources that are waited for, each on one node."""
        return [d.resources for d in self.cluster.demands] + [
            bundle for group in self.groups for bundle in group.bundles
        ]


def missing_peers(hang: Hang) -> list[MissingPeers]:
    """Every set of peers of which some wait in a collective for the whole time, and others do not."""
    found = []
    for peers in _peers(process_states(hang)):
        waiting = [one for one in peers if not one.moving and one.wait is not None and one.wait.kind in MEETS]
        waiting = waiting or _at_the_device(peers)
        missing = [one for one in peers if one not in waiting]
        unseen, absent = _unseen(peers, hang)
        dead = _dead_actors(peers, hang)
        if waiting and (missing or unseen or dead):
            working = [one for rank in missing if (one := worker_of(hang, rank, peers)) is not None]
            found.append(MissingPeers(tuple(waiting), tuple(missing), unseen, absent, dead, tuple(working)))
    return found


def _dead_actors(peers: Sequence[ProcessState], hang: Hang) -> tuple[RayActor, ...]:
    kinds = {_actor_class(one.seen) for one in peers if one.seen.role == "ray worker"}
    return tuple(
        actor for cluster in hang.ray for actor in cluster.actors if actor.state == "DEAD" and actor.kind in kinds
    )


def _actor_class(seen: Seen) -> str:
    """``Trainer`` of ``ray::Trainer.step``."""
    return re.sub(r"^ray::|[.(:].*$", "", seen.name)


def unlike(hang: Hang) -> list[tuple[ProcessState, ...]]:
    """Sets of peers without stacks that do nothing, and that the kernel has in different places."""
    found = []
    for peers in _peers(process_states(hang)):
        blind = not any(one.seen.samples or one.moving for one in peers)
        if blind and len({one.thread.wait for one in peers if one.thread is not None and one.thread.wait}) > 1:
            found.append(tuple(peers))
    return found


def together(hang: Hang) -> list[tuple[ProcessState, ...]]:
    """Sets of peers that all stand in collectives, nobody missing."""
    found = []
    for peers in _peers(process_states(hang)):
        meets = all(one.wait is not None and one.wait.kind in MEETS and not one.moving for one in peers)
        if meets and len(peers) > 1 and not _unseen(peers, hang)[0] and not _dead_actors(peers, hang):
            found.append(tuple(peers))
    return found


def still(hang: Hang) -> list[ProcessState]:
    """All that stand, or nothing where any process of the run moves or computes."""
    everyone = process_states(hang)
    # Other threads may compute for the one that tells; that they only wait, too, is not known.
    alive = any(one.moving or one.busy or (one.wait is None and (one.seen.cpu or 0.0) > IDLE) for one in everyone)
    helped = any((one.seen.helped or 0.0) > IDLE for one in everyone)
    return [] if alive or helped else everyone


def stopped(hang: Hang) -> list[Seen]:
    """Processes that a signal or a debugger stopped, Ray's own and helpers included."""
    return [seen for seen in hang.processes if seen.state in STOPPED]


def dead(hang: Hang) -> list[Seen]:
    """Processes of an engine that have ended and that nobody collected."""
    return [seen for seen in hang.processes if seen.state == "Z" and seen.role.startswith("engine")]


def quiet(hang: Hang) -> float | None:
    """Seconds since any process of the run wrote to its log; None where none writes to a file."""
    return min((seen.log.quiet for seen in hang.processes if seen.log is not None), default=None)


def pending(hang: Hang) -> list[Pending]:
    """The Ray clusters with actors or placement groups that are not placed, or tasks that no node can ever take: tasks
    that wait for their turn are a healthy queue."""
    found = []
    for cluster in hang.ray:
        actors = tuple(actor for actor in cluster.actors if actor.state in _UNPLACED)
        groups = tuple(group for group in cluster.bundles if group.state in _UNPLACED)
        never = tuple(demand for demand in cluster.demands if not cluster.grows and _beyond(cluster, demand))
        if actors or groups or never:
            found.append(Pending(cluster, actors, groups, never))
    return found


def calls_in_a_ring(hang: Hang) -> list[ProcessState]:
    """Actors that are in a call which waits for a call of another of them; empty where it may be otherwise. An actor
    that has no call answers at once, so of actors that are all here and of which nothing is placed later only those
    wait in vain that wait for each other. An asynchronous one waits in a stack that nobody sees."""
    if len(hang.ray) != 1 or pending(hang) or hang.ray[0].demands:
        return []
    alive = {actor.pid for actor in hang.ray[0].actors if actor.state == "ALIVE"}
    workers = [one for one in process_states(hang) if one.seen.role == "ray worker"]
    called = [one for one in workers if one.wait is None or one.wait.kind != "work"]
    hidden = any(thread.name.startswith(_ASYNC) for one in workers for thread in one.seen.threads)
    waits = all(one.wait is not None and one.wait.kind == "ray" and not one.moving for one in called)
    inside = alive == {one.seen.pid for one in workers}
    return called if len(called) > 1 and inside and waits and not hidden else []


# Of the threads in which an asynchronous actor runs its methods (`_raylet.pyx`).
_ASYNC = "AsyncIO Thread"


def _beyond(cluster: RayCluster, demand: RayDemand) -> bool:
    """Whether no node of the cluster has what is waited for, however little is used of it."""
    needs = demand.resources.items()
    return bool(cluster.nodes) and not any(all(node.get(n, 0.0) >= x for n, x in needs) for node in cluster.nodes)


def behind(hang: Hang) -> list[Behind]:
    """The groups in which the recorders' newest collectives differ, among records of one time."""
    found = []
    groups: dict[str, dict[str, Collective]] = {}
    for record in hang.records:
        for name, newest in _newest(record):
            groups.setdefault(name, {})[record.rank or "?"] = newest
    for name, last in groups.items():
        furthest = max(one.number for one in last.values())
        ahead = tuple(sorted((rank for rank, one in last.items() if one.number == furthest), key=by_number))
        late = tuple(sorted((rank for rank, one in last.items() if one.number < furthest), key=by_number))
        if late:
            found.append(Behind(name, last, ahead, late))
    return found


def _newest(record: FlightRecord) -> Iterator[tuple[str, Collective]]:
    """Each group's newest collective on one rank."""
    groups: dict[str, Collective] = {}
    for one in record.last:
        if one.group not in groups or one.number > groups[one.group].number:
            groups[one.group] = one
    yield from groups.items()


def _peers(everyone: Sequence[ProcessState]) -> Iterator[list[ProcessState]]:
    """Processes that must meet: the ranks of one world, the workers of one engine, Ray actors of one class."""
    groups: dict[tuple[str, ...], list[ProcessState]] = {}
    for one in everyone:
        key = _world(one)
        if key is not None:
            groups.setdefault(key, []).append(one)
    for peers in groups.values():
        yield sorted(peers, key=lambda s: (by_number(s.seen.rank or ""), s.seen.host, s.seen.pid))


def _world(one: ProcessState) -> tuple[str, ...] | None:
    seen = one.seen
    if seen.role == "rank":
        place = world(seen.environment)
        # Those that a program started with multiprocessing have no variables of their own.
        return ("rank", *((place.by, place.name, str(place.size)) if place is not None else (str(seen.parent),)))
    if one.kind == "engine worker":
        return ("engine worker", seen.host, str(seen.parent))
    if seen.role == "ray worker":
        return ("ray worker", _actor_class(seen))
    return None


def _at_the_device(peers: Sequence[ProcessState]) -> list[ProcessState]:
    """Where most ranks wait for the device at one place, the collective before it is what they wait in."""
    at_it = [one for one in peers if not one.moving and one.wait is not None and one.wait.kind == "device"]
    places = Counter(one.place for one in at_it)
    place, count = places.most_common(1)[0] if places else (None, 0)
    if count < 2 or 2 * count <= len(peers):
        return []
    return [one for one in peers if one.place == place and not one.moving]


def _unseen(peers: Sequence[ProcessState], hang: Hang) -> tuple[tuple[int, ...], bool]:
    """Ranks of the world that no process here is, and whether they should be on a host that was looked at."""
    place = world(peers[0].seen.environment)
    if peers[0].seen.role != "rank":
        return (), False
    there = {int(one.seen.rank) for one in peers if one.seen.rank and one.seen.rank.isdecimal()}
    if place is None:
        # One program numbers the ranks that it spawns one after another.
        between = tuple(rank for rank in range(min(there, default=0), max(there, default=0)) if rank not in there)
        spawned = len({(one.seen.host, one.seen.parent) for one in peers}) == 1
        return (between, True) if spawned and between else ((), False)
    unseen = tuple(rank for rank in range(place.size) if rank not in there)
    worlds = (world(one.seen.environment) for one in peers)
    started = {rank for one in worlds if one is not None for rank in one.siblings}
    gone = tuple(rank for rank in unseen if rank in started)
    if gone:
        return gone, True
    on_each, local = Counter(one.seen.host for one in peers), place.local
    # Ranks in containers of their own meet at one host, too, and see nobody else.
    settled = local is not None and (not place.inferred or len(there) > 1)
    absent = settled and local is not None and any(on_each[host] < local for host in hang.hosts if on_each[host])
    return unseen, absent and len(there) < place.size
