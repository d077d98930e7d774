"""What is on one device in each phase, against its size."""

from __future__ import annotations

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable, NotChecked
from rldoctor.exhibits.model import Memory, Part, Phase
from rldoctor.knowledge import memory_phases, memory_plan


def of(case: Case) -> Memory | None:
    """The phases of the plan, or why they are not known; None where there is no plan or it has no such phases."""
    if case.plan is None:
        return None
    try:
        device: float | None = memory_plan.device_memory(case)
    except (NotChecked, NotApplicable):
        device = None
    try:
        found = memory_phases.phases(case)
    except NotApplicable:
        return None
    except NotChecked as reason:
        return Memory(device=device, unknown=str(reason))
    return Memory(device=device, phases=tuple(map(_phase, found)))


def _phase(phase: memory_phases.Phase) -> Phase:
    certain = (Part(name=part.name, size=part.size, assumes=part.assumes) for part in phase.parts)
    likely = (Part(name=part.name, size=part.size, assumes=part.assumes, likely=True) for part in phase.likely)
    return Phase(name=phase.name, parts=(*certain, *likely))
