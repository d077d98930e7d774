"""A stalled run as checks see it: the record, and what comparing its processes shows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from rldoctor.hang import compare, graph
from rldoctor.hang import pace as paces
from rldoctor.hang.compare import Behind, MissingPeers, Pending
from rldoctor.hang.graph import Awaited, Unequal
from rldoctor.hang.model import Hang, Seen
from rldoctor.hang.pace import Pace
from rldoctor.hang.process_state import ProcessState, process_states
from rldoctor.records import dataclass


@dataclass(frozen=True)
class StalledRun:
    """``record`` is what was collected; everything else follows from it."""

    record: Hang

    @cached_property
    def process_states(self) -> list[ProcessState]:
        """What each process that does the run's work is at."""
        return process_states(self.record)

    @cached_property
    def missing_peers(self) -> list[MissingPeers]:
        """Sets of peers of which some wait in a collective, and others are elsewhere."""
        return compare.missing_peers(self.record)

    @cached_property
    def together(self) -> list[tuple[ProcessState, ...]]:
        """Sets of peers that all stand in collectives, nobody missing."""
        return compare.together(self.record)

    @cached_property
    def unlike(self) -> list[tuple[ProcessState, ...]]:
        """Sets of idle peers without stacks that the kernel has in different places."""
        return compare.unlike(self.record)

    @cached_property
    def still(self) -> list[ProcessState]:
        """All processes where none moves or computes, else nothing."""
        return compare.still(self.record)

    @cached_property
    def stopped(self) -> list[Seen]:
        """Processes that a signal or a debugger stopped."""
        return compare.stopped(self.record)

    @cached_property
    def dead(self) -> list[Seen]:
        """Processes of an engine that have ended and that nobody collected."""
        return compare.dead(self.record)

    @cached_property
    def pending(self) -> list[Pending]:
        """Ray clusters in which something waits to be placed."""
        return compare.pending(self.record)

    @cached_property
    def calls_in_a_ring(self) -> list[ProcessState]:
        """Ray actors in calls that wait for each other."""
        return compare.calls_in_a_ring(self.record)

    @cached_property
    def behind(self) -> list[Behind]:
        """Groups in which the flight recorders show ranks at different collectives."""
        return compare.behind(self.record)

    @cached_property
    def awaited(self) -> list[Awaited]:
        """Which rank waits for which, as their flight recorders have it."""
        return graph.awaited(self.record.records)

    @cached_property
    def cycle(self) -> list[Awaited]:
        """Ranks that wait for each other in a ring, as their flight recorders have it."""
        return graph.cycle(self.awaited)

    def ring(self, peers: Sequence[ProcessState]) -> list[ProcessState]:
        """Of ranks that all stand in collectives those that send or receive in a ring, where they do."""
        return graph.point_to_point(peers)

    @cached_property
    def unequal(self) -> list[Unequal]:
        """Collectives that are not the same on all ranks of a group."""
        return graph.unequal(self.record.records)

    def chain(self, state: ProcessState) -> list[str]:
        """What a process waits for beyond its own stack, link by link."""
        return graph.chain(self.record, state)

    @cached_property
    def pace(self) -> Pace:
        """How long the run may be quiet by its own pace, and how long it has been."""
        return paces.pace(self.record)

    @property
    def undecided(self) -> bool:
        """Whether something stands that may be a slow step, and nothing tells how long the steps take."""
        if self.pace.known:
            return False
        works = [one for one in self.still if one.wait is None or one.wait.kind != "work"]
        return bool(works or self.together) or any(group.missing and not group.moving for group in self.missing_peers)

    @cached_property
    def last_output(self) -> float | None:
        """Seconds since any process of the run wrote to its log; None where none writes to a file."""
        return compare.quiet(self.record)
