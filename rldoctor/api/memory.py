"""The memory of a device, phase by phase, in bytes."""

from __future__ import annotations

from rldoctor.knowledge.memory import GIB
from rldoctor.knowledge.memory_phases import Phase as MemoryPhase
from rldoctor.knowledge.memory_phases import fitting_share, trainer_fits
from rldoctor.knowledge.memory_phases import phases as memory_phases
from rldoctor.knowledge.memory_plan import Engine as EngineMemory
from rldoctor.knowledge.memory_plan import defaulted as size_defaults
from rldoctor.knowledge.memory_plan import device_memory
from rldoctor.knowledge.memory_plan import engine as engine_memory

__all__ = [
    "GIB",
    "EngineMemory",
    "MemoryPhase",
    "device_memory",
    "engine_memory",
    "fitting_share",
    "memory_phases",
    "size_defaults",
    "trainer_fits",
]
