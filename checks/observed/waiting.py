"""What the checks say in common of a run that stands: how grave it is, who waits for whom, and what shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rldoctor.api import Case, Evidence, Finding, Fix, NotChecked, Reach, Severity
from rldoctor.api.hang import numbered, ranks_named, stalled_run

if TYPE_CHECKING:
    from rldoctor.api.hang import MissingPeers, ProcessState, StalledRun
    from rldoctor.api.logs import Frame

_SHOWN = 6
# A run that has just started may not have all its ranks yet (seconds).
STARTS = 30.0

# What helps where a look of some seconds cannot tell.
LATER = "look again later, with its output in a file (... | tee run.log), which tells the pace"

LONGER = Fix(
    title="make sure that it stands: watch it for longer than its slowest step",
    commands=("rldoctor hang --seconds 60",),
)


def watched(case: Case) -> StalledRun:
    """The run, with at least one stack in its record. Raises :class:`NotChecked` where there is none."""
    run = stalled_run(case)
    processes = run.record.processes
    if not any(seen.samples for seen in processes):
        raise NotChecked("no stack of the run could be read", how="; ".join(run.record.lacking) or None)
    return run


def gravity(run: StalledRun, text: str, *, busy: bool) -> Severity | None:
    """How grave it is that nothing comes where ``text`` says who waits, by the run's own pace: None while its steps may
    take that long, an error where no slow step explains it. Raises :class:`NotChecked` where nothing tells how long
    they take."""
    pace = run.pace
    if not pace.known:
        raise NotChecked(f"{text}; nothing tells how long a step of this run takes, so this may be a slow one", LATER)
    if not pace.stands:
        return None
    return Severity.WARNING if busy or not pace.long_since else Severity.ERROR


def missing_peers(
    run: StalledRun, concerns: Callable[[MissingPeers], bool], finding: Callable[[MissingPeers, Severity], Finding]
) -> Iterator[Finding | Reach]:
    """A ``finding`` for each group that ``concerns`` a check and stands longer than its run's pace explains."""
    for group in run.missing_peers:
        if group.moving or not concerns(group):
            continue
        severity = gravity(run, missing_text(group), busy=any(one.busy for one in group.missing))
        yield Reach(f"{missing_text(group)}: {in_pace(run)}") if severity is None else finding(group, severity)
    yield Reach(f"{len(run.process_states)} processes looked at")


def in_pace(run: StalledRun) -> str:
    """Why a run that waits is not said to stand."""
    return (
        f"its log has been quiet for {run.pace.quiet:.0f} s, and by its own pace it may be for {run.pace.limit:.0f} s"
    )


def in_vain(run: StalledRun) -> str:
    """Why a run that moves may still be one that never comes to an end."""
    return f"{in_pace(run)}: a loop that asks or looks again and again, or a very long evaluation"


def explained_elsewhere(run: StalledRun, group: MissingPeers) -> bool:
    """Whether another code says why the missing ranks do not come: stopped, saving, or at the weight sync."""
    held = {seen.pid for seen in run.stopped}
    return saves(group) or syncs(group) or any(one.seen.pid in held for one in group.missing)


def saves(group: MissingPeers) -> bool:
    """Whether the ranks that are waited for save or load a checkpoint."""
    return bool(group.missing) and all(one.stage == "checkpoint" for one in group.missing)


def syncs(group: MissingPeers) -> bool:
    """Whether the collective that is waited in belongs to a weight sync."""
    return all(one.stage == "weight sync" for one in group.waiting)


def missing_text(group: MissingPeers, run: StalledRun | None = None) -> str:
    """``ranks 0-6 wait in all_reduce at train.py:12 in train; rank 7 is not there: it is at reward.py:5 in score``, and
    what these wait for, link by link, where the run is given."""
    reported = []
    for one in group.missing[:_SHOWN]:
        cpu = f" ({one.cpu:.0%} of a core)" if one.busy and one.cpu is not None else ""
        then = "".join(f"; {link}" for link in run.chain(one)) if run is not None else ""
        reported.append(f"{ranks_named([one])} is not there: it {one.where}{cpu}{then}")
    if len(group.missing) > _SHOWN:
        reported.append(f"and {len(group.missing) - _SHOWN} more")
    if group.unseen:
        several = len(group.unseen) > 1
        if group.absent:
            said = f"{'have' if several else 'has'} no process here that this user may see"
        else:
            said = f"{'were' if several else 'was'} not looked at: on another host, or another user's"
        reported.append(f"{numbered(group.unseen)} {said}")
    for actor in group.dead[:_SHOWN]:
        reported.append(f"actor {actor.name or actor.kind} (pid {actor.pid}) has ended")
    return f"{waiting_text(group)}; {'; '.join(reported)}"


def waiting_text(group: MissingPeers) -> str:
    """``ranks 0-6 wait in all_reduce at train.py:12 in train``, by where most of them are."""
    first = group.waiting[0]
    same = [one for one in group.waiting if one.where == first.where]
    rest = len(group.waiting) - len(same)
    verb = first.where.replace("waits", "wait", 1) if len(same) > 1 else first.where
    return f"{ranks_named(same)} {verb}{f' ({rest} others in other collectives)' if rest else ''}"


def place_evidence(text: str, place: Frame | None) -> Evidence:
    """What is said of a process or thread, with the line of code that it is at."""
    if place is None:
        return Evidence(text=text)
    return Evidence(text=f"{text}: {place.code}" if place.code else text, source=place.file, line=place.line)


def evidence(run: StalledRun, ones: Iterable[ProcessState]) -> tuple[Evidence, ...]:
    """A line for each process, with the line of code it is at, and how long nothing has been written."""
    found = [place_evidence(f"{one.label} {one.where}", one.place) for one in list(ones)[:_SHOWN]]
    if run.last_output is not None:
        found.append(Evidence(text=f"the run's log was last written {run.last_output:.0f} s before", source="log"))
    return tuple(found)
