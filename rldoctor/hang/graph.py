"""Who waits for whom: from process to process by what the kernel says that a thread waits on, and from rank to rank by
the collectives that flight recorders show as begun and not finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rldoctor.hang.model import Collective, FlightRecord, Hang, Seen, Thread
from rldoctor.hang.names import by_number
from rldoctor.hang.process_state import ProcessState, spot, telling
from rldoctor.logs.code_paths import is_users
from rldoctor.records import dataclass

# Of a chain of processes no more is shown.
_LONGEST = 6
# What waits for a thread or a process that it started shows no other end; its children do.
_CHILDREN = ("processes", "data", "lock", "queue")


@dataclass(frozen=True)
class Awaited:
    """One rank in a collective that not all members of its group have begun: ``absent`` are those."""

    rank: str
    collective: Collective
    absent: tuple[str, ...]


@dataclass(frozen=True)
class Unequal:
    """One number of a group at which ranks did different things: what -> the ranks."""

    group: str
    number: int
    ways: dict[str, tuple[str, ...]]


def worker_of(hang: Hang, state: ProcessState, peers: Sequence[ProcessState]) -> ProcessState | None:
    """The process that works for one that waits, so that the wait will end: an engine, a server or an actor that is
    asked, what it started, or who holds the file lock. None where all of them stand, too."""
    if state.wait is None:
        return None
    blocked = state.thread.blocked if state.thread is not None else None
    holders = {one.pid for one in blocked.holders} if blocked is not None and blocked.on == "lock" else set()
    besides = {one.seen.pid for one in peers}
    others = [_state(seen) for seen in hang.processes if seen.pid not in besides and seen.state not in ("Z", "X")]
    if state.wait.kind in _ASKS:
        asked = [one for one in others if one.kind in _SERVE]
    else:
        here = [one for one in others if one.seen.host == state.seen.host]
        asked = [one for one in here if one.seen.parent == state.seen.pid or one.seen.pid in holders]
    return next((one for one in asked if one.moving or one.busy), None)


# Waits for an answer, and who gives one.
_ASKS = ("engine", "workers", "ray", "server")
_SERVE = ("engine", "engine worker", "server", "ray worker")


def chain(hang: Hang, state: ProcessState) -> list[str]:
    """What a process waits for beyond its own stack, link by link, as far as this machine shows it."""
    by_pid = {(seen.host, seen.pid): seen for seen in hang.processes}
    said = _beside(state)
    link, visited = state, {state.seen.pid}
    while len(said) < _LONGEST:
        blocked = link.thread.blocked if link.thread is not None else None
        if blocked is None:
            child = _child(hang, link, visited)
            if child is None:
                break
            said.append(f"it started {child.label}, which {child.where}")
            visited.add(child.seen.pid)
            link = child
            continue
        holder = min(blocked.holders, key=lambda one: one.pid in visited, default=None)
        seen = by_pid.get((link.seen.host, holder.pid)) if holder is not None else None
        then = _state(seen) if seen is not None else None
        who = then.label if then is not None else f"{holder.name} (pid {holder.pid})" if holder is not None else ""
        known = then is not None and then.place is not None
        # A record that a newer release collected may name a kind of its own.
        said.append(_ON.get(blocked.on, "it waits for {what}").format(what=blocked.what, who=who or "nobody here")
                    + (f", which {then.where}" if then is not None and known else ""))  # fmt: skip
        if then is None or then.seen.pid in visited or then.stopped:
            break
        visited.add(then.seen.pid)
        link = then
    return said


def _beside(state: ProcessState) -> list[str]:
    """Other threads of a process that sleep at a lock in the user's own code, as the one that it is judged by does:
    they may hold each other's. What sleeps for a time, or within a library, sleeps elsewhere."""
    if state.thread is None or not _at_a_lock(state.thread):
        return []
    others = [one for one in state.seen.threads if one is not state.thread and _at_a_lock(one)]
    return [f"its thread {one.name} sleeps at a lock, too, at {spot(one.frames[-1])}" for one in others[:_THREADS]]


def _at_a_lock(thread: Thread) -> bool:
    inside = thread.frames[-1] if thread.frames else None
    return inside is not None and is_users(inside.file) and not thread.earlier and _FUTEX in (thread.wait or "")


# The kernel's function in which a thread waits for a lock, and so many threads are told of.
_FUTEX, _THREADS = "futex", 3
_ON = {
    "pipe": "it reads a pipe that {who} writes to",
    "full pipe": "it writes to a full pipe, whose reader is {who}",
    "full socket": "it writes to a full socket to {what}, whose reader is {who}",
    "socket": "it reads from {what}, served by {who}",
    "lock": "it waits for the lock on {what}, held by {who}",
    "child": "it waits for {who} to end",
    "file": "it reads {what}",
}


def _state(seen: Seen) -> ProcessState:
    return ProcessState(seen, telling(seen.threads))


def _child(hang: Hang, state: ProcessState, visited: set[int]) -> ProcessState | None:
    """Of what a process started, the one that does not only wait for work."""
    if state.wait is None or state.wait.kind not in _CHILDREN:
        return None
    below = [s for s in hang.processes if (s.host, s.parent) == (state.seen.host, state.seen.pid)]
    found = [one for one in map(_state, below) if one.frames and one.seen.pid not in visited]
    return next((one for one in found if one.wait is None or one.wait.kind not in ("work", *_CHILDREN)), None)


def point_to_point(peers: Sequence[ProcessState]) -> list[ProcessState]:
    """Ranks that wait for each other in a ring, each to send to or receive from the next; empty where none do. Two of
    which one sends what the other receives do not wait in vain."""
    calls: dict[int, tuple[str, int, ProcessState]] = {}
    for one in peers:
        places = one.thread.places if one.thread is not None else {}
        # An actor's rank is known by its variables alone.
        number = one.seen.rank or ""
        rank = int(number) if number.isdecimal() else places.get("rank")
        if rank is not None and "peer" in places and one.wait is not None:
            if rank in calls:
                return []
            calls[rank] = (one.wait.operation.lstrip("i")[:4], places["peer"], one)
    for start in sorted(calls):
        path: list[int] = []
        at = start
        while at in calls and at not in path:
            path.append(at)
            operation, peer, _ = calls[at]
            answer = calls.get(peer)
            if answer is not None and answer[1] == at and answer[0] != operation:
                break
            at = peer
        else:
            if at == start and len(path) > 1:
                return [calls[rank][2] for rank in path]
    return []


def awaited(records: Sequence[FlightRecord]) -> list[Awaited]:
    """The edges between ranks: who has begun a collective that members of its group have not, of those that dumped."""
    newest = {
        (record.rank, one.group): max(c.number for c in record.last if c.group == one.group)
        for record in records
        for one in record.last
    }
    dumped = {record.rank for record in records if record.last}
    found = []
    for record in records:
        for one in _unfinished(record):
            # The records of gloo name no members: those who have used the group before are.
            used = [rank for rank, group in newest if group == one.group and rank is not None]
            members = [str(rank) for rank in record.groups.get(one.group, ())] or used
            late = [m for m in members if m in dumped and newest.get((m, one.group), -1) < one.number]
            if record.rank is not None and late:
                found.append(Awaited(record.rank, one, tuple(sorted(late, key=by_number))))
    return found


def _unfinished(record: FlightRecord) -> Iterator[Collective]:
    """The first collective of each group that the rank has begun and not finished."""
    first: dict[str, Collective] = {}
    for one in record.last:
        if one.state != "completed" and (one.group not in first or one.number < first[one.group].number):
            first[one.group] = one
    yield from first.values()


def cycle(edges_of: Sequence[Awaited]) -> list[Awaited]:
    """Ranks that wait for each other in a ring, each in a collective that the next has not begun; empty where none
    do."""
    edges: dict[str, list[tuple[str, Awaited]]] = {}
    for one in edges_of:
        edges.setdefault(one.rank, []).extend((late, one) for late in one.absent)
    for start in sorted(edges, key=by_number):
        path = _ring(start, edges)
        if path:
            return path
    return []


def _ring(start: str, edges: dict[str, list[tuple[str, Awaited]]]) -> list[Awaited]:
    """The shortest way from a rank back to itself."""
    ways: list[tuple[str, list[Awaited]]] = [(start, [])]
    seen = set[str]()
    while ways:
        at, path = ways.pop(0)
        for late, edge in edges.get(at, ()):
            if late == start:
                return [*path, edge]
            if late not in seen:
                seen.add(late)
                ways.append((late, [*path, edge]))
    return []


def unequal(records: Sequence[FlightRecord]) -> list[Unequal]:
    """Numbers at which members of a group called different collectives, or one whose sizes must agree with others."""
    calls: dict[tuple[str, tuple[int, ...], int], dict[str, list[str]]] = {}
    for record in records:
        for one in record.last:
            key = (one.group, record.groups.get(one.group, ()), one.number)
            sizes = f" of {one.sizes}" if one.operation in _EVEN and one.sizes else ""
            calls.setdefault(key, {}).setdefault(f"{one.operation}{sizes}", []).append(record.rank or "?")
    return [
        Unequal(group, number, {what: tuple(sorted(ranks, key=by_number)) for what, ranks in ways.items()})
        for (group, _, number), ways in sorted(calls.items())
        if len(ways) > 1
    ]


# Collectives to which every rank brings the same size.
_EVEN = ("all_reduce", "allreduce", "broadcast", "reduce")
