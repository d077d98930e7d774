"""The incident of a stalled run: which process is not where the others are, and what it is at."""

from __future__ import annotations

from collections.abc import Sequence

from rldoctor.hang.compare import calls_in_a_ring, missing_peers, still, stopped, together
from rldoctor.hang.model import Hang
from rldoctor.hang.process_state import ProcessState, process_states, telling
from rldoctor.logs.reveals import framework_of
from rldoctor.model import Finding, Incident, Severity


def incident_of(hang: Hang, findings: Sequence[Finding]) -> Incident:
    """What happened, as far as the record tells; without a finding the run is not known to stand."""
    stalled = any(finding.severity is not Severity.NOTE for finding in findings)
    odd = _odd_one(hang) if stalled else None
    files = [frame.file for one in process_states(hang) for frame in one.frames]
    return Incident(
        kind="stalled" if stalled else "unfinished",
        first_rank=(odd.seen.rank if odd.seen.role == "rank" else odd.label) if odd is not None else None,
        stage=odd.stage if odd is not None else None,
        exception=f"{odd.label} {odd.where}" if odd is not None else None,
        frames=tuple(str(frame) for frame in odd.frames) if odd is not None else (),
        user_frame=str(odd.own) if odd is not None and odd.own is not None else None,
        framework=framework_of(files, []),
        partial="; ".join(hang.lacking) or None,
    )


def _odd_one(hang: Hang) -> ProcessState | None:
    """The first that the others wait for, else a stopped one, else the first that stands in the user's own code."""
    missing = [one for group in missing_peers(hang) for one in group.missing if not one.moving]
    # What a rank started may be stopped, too, a worker of its data loader.
    candidates = [ProcessState(seen, telling(seen.threads)) for seen in stopped(hang)] + missing
    candidates += [one for peers in together(hang) for one in _fewest(peers)]
    # A driver waits for the actors, as all that they hold up does.
    candidates += calls_in_a_ring(hang)
    candidates += [one for one in still(hang) if one.wait is None and one.own is not None] + still(hang)
    return next(iter(candidates), None)


def _fewest(peers: Sequence[ProcessState]) -> list[ProcessState]:
    """Of peers that stand in several calls those in the one with the fewest, where it is one."""
    calls: dict[str, list[ProcessState]] = {}
    for one in peers:
        calls.setdefault(one.where, []).append(one)
    first, *others = sorted(calls.values(), key=len)
    return first if others and len(first) < len(others[0]) else []
