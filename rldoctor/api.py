"""The public surface for plugins: everything that a check, a collector or a probe is written against."""

from __future__ import annotations

from rldoctor.case import (
    Case,
    Disk,
    Distribution,
    Gpu,
    GpuProcess,
    Gpus,
    Host,
    MigInstance,
    ModelFiles,
    Packages,
    Series,
    Unknown,
)
from rldoctor.check import Check, Detector, NotApplicable, NotChecked, Reach, Role
from rldoctor.knowledge.memory import CONTEXT as CUDA_CONTEXT
from rldoctor.knowledge.memory import GIB
from rldoctor.knowledge.memory import States as TrainingStates
from rldoctor.knowledge.memory import logits as logits_memory
from rldoctor.knowledge.memory_phases import Phase as MemoryPhase
from rldoctor.knowledge.memory_phases import fitting_share, trainer_fits
from rldoctor.knowledge.memory_phases import phases as memory_phases
from rldoctor.knowledge.memory_plan import Engine as EngineMemory
from rldoctor.knowledge.memory_plan import device_memory, engine_sleeps, share_includes_trainer, trainer_states
from rldoctor.knowledge.memory_plan import engine as engine_memory
from rldoctor.knowledge.model_config import context as model_context
from rldoctor.knowledge.model_config import feed_forward_width as model_width
from rldoctor.knowledge.model_config import heads as model_heads
from rldoctor.knowledge.model_config import rope_scaling, rope_type, text_config
from rldoctor.knowledge.vllm_engine import chunked_prefill, generation, release
from rldoctor.launch.evidence import cite, plan_of
from rldoctor.launch.plan import RolloutPlan, Setting
from rldoctor.launch.seeds import SeedTopology, completions_per_request, replicas_per_prompt, seed_topology
from rldoctor.logs.model import Frame, LogEvent, LoggedException, LogRun, Origin
from rldoctor.lookup import Absent, canonical, find, find_all, lookup
from rldoctor.model import (
    Applicability,
    CheckResult,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    Incident,
    Level,
    Outcome,
    Severity,
)
from rldoctor.probe import Job, JobResult, Probe, ProbeError, Request
from rldoctor.versions import version_within

__all__ = [
    "CUDA_CONTEXT",
    "GIB",
    "Absent",
    "Applicability",
    "Case",
    "Check",
    "CheckResult",
    "Detector",
    "Disk",
    "Distribution",
    "Edit",
    "EngineMemory",
    "Evidence",
    "Finding",
    "Fix",
    "Frame",
    "Gpu",
    "GpuProcess",
    "Gpus",
    "Grade",
    "Host",
    "Incident",
    "Job",
    "JobResult",
    "Level",
    "LogEvent",
    "LogRun",
    "LoggedException",
    "MemoryPhase",
    "MigInstance",
    "ModelFiles",
    "NotApplicable",
    "NotChecked",
    "Origin",
    "Outcome",
    "Packages",
    "Probe",
    "ProbeError",
    "Reach",
    "Request",
    "Role",
    "RolloutPlan",
    "SeedTopology",
    "Series",
    "Setting",
    "Severity",
    "TrainingStates",
    "Unknown",
    "canonical",
    "chunked_prefill",
    "cite",
    "completions_per_request",
    "device_memory",
    "engine_memory",
    "engine_sleeps",
    "find",
    "find_all",
    "fitting_share",
    "generation",
    "logits_memory",
    "lookup",
    "memory_phases",
    "model_context",
    "model_heads",
    "model_width",
    "plan_of",
    "release",
    "replicas_per_prompt",
    "rope_scaling",
    "rope_type",
    "seed_topology",
    "share_includes_trainer",
    "text_config",
    "trainer_fits",
    "trainer_states",
    "version_within",
]
