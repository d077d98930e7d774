"""Which processes of this user belong to one run: the tree below its launcher, the ranks that meet with it whoever
started them, and what Ray started for it."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable
from dataclasses import replace

from rldoctor import redact
from rldoctor.errors import InputError
from rldoctor.facts import proc
from rldoctor.facts.proc import Process
from rldoctor.hang.rendezvous import world
from rldoctor.hang.roles import Role, is_python, is_spawned, role_of
from rldoctor.records import dataclass

# Ray's processes, its drivers included, write below their session's folder.
_SESSION = re.compile(r"(/\S*/session_\d{4}-\d\d-\d\d_\S+?)/logs/(python-core-driver-)?")
_NAME_LENGTH = 80


@dataclass(frozen=True)
class Member:
    """A process and its part. ``meets`` names the world of a rank, the same for all of its ranks."""

    process: Process
    role: Role
    command: tuple[str, ...]
    python: bool = False
    meets: str = ""

    @property
    def line(self) -> str:
        """One line for a list of candidates."""
        shown = " ".join(redact.argv(self.command)) or self.process.name
        cut = f"{shown[:_NAME_LENGTH]}..." if len(shown) > _NAME_LENGTH else shown
        return f"{self.process.pid}  {self.role.kind}  {cut}"


@dataclass(frozen=True)
class Run:
    """All processes of one run, the one that started the others first."""

    members: tuple[Member, ...]

    @property
    def first(self) -> Member:
        return self.members[0]


def choose(pid: int | None) -> Run:
    """The run that the process belongs to, or the only one of this user.

    Raises :class:`InputError` where there is none, another user's, or more than one to choose from."""
    table = proc.table()
    if pid is not None:
        _may_be_watched(pid, table)
    mine = _own(table)
    found = runs(mine)
    if pid is not None:
        ours = next((run for run in found if pid in {m.process.pid for m in run.members}), None)
        if ours is not None:
            return ours
        if pid not in mine:
            raise InputError(f"process {pid} is rldoctor's own")
        first = _program(pid, mine)
        below = _below({first}, mine)
        return Run((mine[first], *(m for number, m in sorted(mine.items()) if number in below - {first})))
    if not found:
        raise InputError(
            "no trainer, torchrun, Ray or vLLM of this user runs here; name a process of the run: rldoctor hang PID"
        )
    if len(found) > 1:
        raise InputError(
            f"{len(found)} runs are here; name one of them: rldoctor hang PID",
            [f"{run.first.line}  ({len(run.members)} process{'es' if run.members[1:] else ''})" for run in found],
        )
    return found[0]


def runs(mine: dict[int, Member]) -> list[Run]:
    """The runs among a user's processes."""
    sessions = {pid: session for pid, m in mine.items() if (session := _session(m)) is not None}
    marked = {pid for pid, m in mine.items() if m.role.marks_run or pid in sessions}
    # An engine's client is whatever program made it.
    parents = {mine[pid].process.parent for pid in marked if mine[pid].role.kind == "engine"}
    marked |= {pid for pid in parents if pid in mine and mine[pid].python}
    groups: dict[int, set[int]] = {}
    for pid in marked:
        groups.setdefault(_top(pid, mine, marked), set()).add(pid)
    names = {pid: {session} for pid, (session, _) in sessions.items()}
    for pid in marked:
        if mine[pid].meets:
            names.setdefault(pid, set()).add(mine[pid].meets)
    found = [Run(_ordered(tops, mine, sessions)) for tops in _joined(groups, names)]
    return sorted(found, key=lambda run: run.first.process.pid)


def _own(table: dict[int, Process]) -> dict[int, Member]:
    """This user's processes, without rldoctor and what it started."""
    user = os.geteuid()
    own = {pid: p for pid, p in table.items() if p.user == user}
    left_out = {os.getpid()} | proc.below({os.getpid()}, {pid: p.parent for pid, p in own.items()})
    # The kernel's own threads have no program.
    looked = {pid: (proc.command(pid), proc.executable(pid)) for pid in own if pid not in left_out}
    variables = {pid: proc.environment(pid) for pid, (line, program) in looked.items() if is_python(program, line)}
    members: dict[int, Member] = {}
    for pid, (command, program) in looked.items():
        if not command and own[pid].is_there:
            continue
        parent = variables.get(own[pid].parent, {})
        # Of a zombie only the short name is left.
        role = role_of(command or [own[pid].name], program, variables.get(pid, {}), parent)
        place = world(variables.get(pid, {})) if role.kind == "rank" else None
        meets = place.name if place is not None and place.size > 1 else ""
        members[pid] = Member(own[pid], role, tuple(command), is_python(program, command), meets)
    return members


def _may_be_watched(pid: int, table: dict[int, Process]) -> None:
    if pid not in table:
        raise InputError(f"there is no process {pid}")
    owner = table[pid].user
    if owner != os.geteuid():
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = str(owner)
        raise InputError(f"process {pid} belongs to {name}; rldoctor looks at the processes of its own user only")


def _session(member: Member) -> tuple[str, bool] | None:
    """The Ray session that a process writes to, and whether it does so as a driver."""
    if not member.role.kind.startswith("ray") and not member.python:
        return None
    found = [match for target in proc.open_files(member.process.pid).values() if (match := _SESSION.match(target))]
    return (found[0][1], any(match[2] for match in found)) if found else None


def _top(pid: int, mine: dict[int, Member], marked: set[int]) -> int:
    """The highest process above ``pid`` that shows the run, too."""
    top, at, seen = pid, mine[pid].process.parent, {pid}
    while at in mine and at not in seen:
        seen.add(at)
        top = at if at in marked else top
        at = mine[at].process.parent
    return top


def _joined(groups: dict[int, set[int]], shared: dict[int, set[str]]) -> list[set[int]]:
    """The tops of each run: trees that share a Ray session, or whose ranks meet, are one."""
    joined: list[tuple[set[int], set[str]]] = []
    for top, members in groups.items():
        tops, names = {top}, {name for pid in members for name in shared.get(pid, ())}
        for other in [one for one in joined if one[1] & names]:
            joined.remove(other)
            tops, names = tops | other[0], names | other[1]
        joined.append((tops, names))
    return [tops for tops, _ in joined]


def _ordered(tops: set[int], mine: dict[int, Member], sessions: dict[int, tuple[str, bool]]) -> tuple[Member, ...]:
    below = _below(tops, mine)
    drivers = {pid for pid in below if sessions.get(pid, ("", False))[1]}
    members = [_as_driver(mine[pid]) if pid in drivers else mine[pid] for pid in sorted(below)]
    # The program comes before what serves it: a driver, then launchers and trainers, Ray's own services last.
    return tuple(sorted(members, key=lambda m: (_rank_of_role(m, tops), m.process.pid)))


def _as_driver(member: Member) -> Member:
    if member.role.kind not in ("other", "trainer", "helper"):
        return member
    return replace(member, role=Role("ray driver", member.role.name))


def _rank_of_role(member: Member, tops: set[int]) -> tuple[bool, bool]:
    return (member.role.kind == "ray service", member.process.pid not in tops and member.role.kind != "ray driver")


def _program(pid: int, mine: dict[int, Member]) -> int:
    """The program that started a process with multiprocessing, else the process itself."""
    above = mine.get(mine[pid].process.parent)
    while above is not None and above.python and is_spawned(mine[pid].command, above.command):
        pid, above = above.process.pid, mine.get(above.process.parent)
    return pid


def _below(tops: Iterable[int], mine: dict[int, Member]) -> set[int]:
    return set(tops) | proc.below(set(tops), {pid: m.process.parent for pid, m in mine.items()})
