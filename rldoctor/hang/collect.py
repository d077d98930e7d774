"""Puts the record of a stalled run together: who is there, what each does, and what Ray, torch and the GPUs tell."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from rldoctor import __version__, redact
from rldoctor.case import Case, Gpus
from rldoctor.catalogue.probe import Request
from rldoctor.facts import environment, gpus, proc
from rldoctor.facts.blocked import Kernel
from rldoctor.facts.deadline import within
from rldoctor.hang import files, flight_recorder, ray_cluster, runs, sampling, spawned, stacks
from rldoctor.hang import gpus as devices
from rldoctor.hang.model import NAME, FlightRecord, Hang, RayCluster, Seen
from rldoctor.hang.runs import Run
from rldoctor.hang.sampling import Watched
from rldoctor.printable import plain

SECONDS = 5.0
SHORTEST, LONGEST = 1.0, 3600.0
# torch looks at its pipe once a second and then writes.
_DUMP_PATIENCE = 8.0
_LONGEST_COMMAND = 2000


def collect(pid: int | None, seconds: float, trigger: bool, progress: Callable[[str], None]) -> Case:
    """Watches a run and returns the record as a case. Raises :class:`InputError` where there is no run to watch."""
    run = runs.choose(pid)
    host, taken, py_spy = socket.gethostname(), time.time(), stacks.program()
    progress(f"watching {run.first.line}: {len(run.members)} processes for {seconds:g} s")
    lacking: list[str] = []
    asked = _triggered(run) if trigger else set()
    if trigger and not asked:
        lacking.append("no rank listens for a request to dump (TORCH_NCCL_DEBUG_INFO_PIPE_FILE before the start)")
    watched, kernel = sampling.watch(run, seconds, py_spy)
    if asked:
        _wait_for_dumps(run, asked, taken)
    present = [one for one in watched if not one.ended]
    lacking += _unread(present, py_spy)
    ray = _ray(run, progress, lacking)
    reported = gpus.collect(Request())
    hang = Hang(
        seconds=round(max((one.times[-1] - one.times[0] for one in present if one.times), default=0.0), 2),
        taken=taken,
        hosts=(host,),
        processes=spawned.with_ranks([_seen(one, host, kernel) for one in present]),
        ended=tuple(one.member.process.pid for one in watched if one.ended),
        records=tuple(_records(run)),
        ray=(ray,) if ray is not None else (),
        gpus=devices.use(reported, {m.process.pid for m in run.members}, host) if isinstance(reported, Gpus) else (),
        lacking=tuple(lacking),
    )
    return Case(
        tool=f"rldoctor {__version__}",
        target=redact.text(plain(run.first.line)),
        gpus=reported if isinstance(reported, Gpus) else None,
        observations={NAME: msgspec.to_builtins(hang)},
    )


def _seen(watched: Watched, host: str, kernel: Kernel) -> Seen:
    process, role = watched.member.process, watched.member.role
    age = proc.age(process)
    sources = files.Sources(process.pid)
    threads = tuple(
        replace(thread, frames=sources.filled(thread.frames), earlier=tuple(map(sources.filled, thread.earlier)))
        for thread in watched.threads()
    )
    return Seen(
        pid=process.pid,
        parent=process.parent,
        role=role.kind,
        name=redact.text(plain(role.name))[:120],
        rank=role.rank,
        host=host,
        command=plain(" ".join(redact.argv(watched.member.command)))[:_LONGEST_COMMAND],
        state=watched.state if watched.states else process.state,
        age=age,
        cpu=watched.cpu,
        switches=watched.switch_rate,
        helped=watched.helped,
        samples=len(watched.samples),
        unread=watched.unread if not watched.samples else None,
        threads=threads,
        log=files.log_of(process.pid, age, kernel) if role.kind != "ray service" else None,
        environment=environment.select(proc.environment(process.pid)),
    )


def _unread(watched: Iterable[Watched], py_spy: str | None) -> list[str]:
    """What stands between us and the stacks, each reason once."""
    if py_spy is None:
        return [f"stacks: py-spy is not installed ({stacks.GET_IT}); what follows is from /proc alone"]
    reasons: dict[str, list[int]] = {}
    for one in watched:
        if one.unread and one.unread.startswith(("py-spy", "this process")) and not one.samples:
            reasons.setdefault(one.unread, []).append(one.member.process.pid)
    return [f"stacks of {', '.join(map(str, pids[:6]))}: {reason}" for reason, pids in reasons.items()]


def _ray(run: Run, progress: Callable[[str], None], lacking: list[str]) -> RayCluster | None:
    if any(member.role.kind == "ray service" for member in run.members):
        progress("asking Ray for its actors")
    try:
        return ray_cluster.ask(run, dict(os.environ))
    except ray_cluster.NoAnswerError as error:
        lacking.append(redact.text(plain(str(error))))
        return None


def _triggered(run: Run) -> set[int]:
    """The processes that were asked for a dump of their collectives and listen."""
    asked = set()
    for member in run.members:
        if member.role.rank is not None:
            variables = proc.environment(member.process.pid)
            if flight_recorder.trigger(variables, member.role.rank):
                asked.add(member.process.pid)
    return asked


def _wait_for_dumps(run: Run, asked: set[int], since: float) -> None:
    deadline = time.monotonic() + _DUMP_PATIENCE
    while time.monotonic() < deadline and len(_records(run, since)) < len(asked):
        time.sleep(0.25)


def _records(run: Run, since: float | None = None) -> list[FlightRecord]:
    """What ranks of the run have dumped since it began. Ray's workers do not show their rank, the files' names do."""
    ages = [age for member in run.members if (age := proc.age(member.process)) is not None]
    began = since if since is not None else time.time() - max(ages, default=0.0)
    prefixes: dict[str, None] = {}
    for member in run.members:
        variables = proc.environment(member.process.pid) if member.python else {}
        if flight_recorder.is_on(variables):
            prefixes.update(dict.fromkeys(flight_recorder.prefixes(variables)))
    return [record for prefix in prefixes for record in _dumps(prefix, began)]


def _dumps(prefix: str, since: float) -> list[FlightRecord]:
    try:
        return within(files.TIME_LIMIT, lambda: flight_recorder.dumps(prefix, since))
    except TimeoutError:
        return []
