"""The public surface for plugins: everything that a check, a collector or a probe is written against."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from rldoctor.check import Check, Detector, Kind, NotApplicable, NotChecked, Reach, Role
from rldoctor.hang import stalled_run
from rldoctor.hang.names import numbered, ranks_named
from rldoctor.knowledge.cuda import architectures_of, driver_for, nccl_of, runs_on, toolkit_knows, toolkit_of
from rldoctor.knowledge.known_issues import KnownIssue, affects, known_issues
from rldoctor.knowledge.layers import mended, replaced
from rldoctor.knowledge.memory import GIB
from rldoctor.knowledge.memory_phases import Phase as MemoryPhase
from rldoctor.knowledge.memory_phases import fitting_share, trainer_fits
from rldoctor.knowledge.memory_phases import phases as memory_phases
from rldoctor.knowledge.memory_plan import Engine as EngineMemory
from rldoctor.knowledge.memory_plan import device_memory
from rldoctor.knowledge.memory_plan import engine as engine_memory
from rldoctor.knowledge.model_config import context as model_context
from rldoctor.knowledge.model_config import feed_forward_width as model_width
from rldoctor.knowledge.model_config import heads as model_heads
from rldoctor.knowledge.model_config import rope_scaling, rope_type, text_config
from rldoctor.knowledge.packages import FRAMEWORKS
from rldoctor.knowledge.releases import acceptable as acceptable_releases
from rldoctor.knowledge.releases import accepting as accepting_releases
from rldoctor.knowledge.releases import as_specifier as release_specifier
from rldoctor.knowledge.releases import combined as combined_specifier
from rldoctor.knowledge.releases import published_name, python_admitted
from rldoctor.knowledge.requirements import Demand, is_framework, matters, needs_of, unreleased
from rldoctor.knowledge.requirements import hypothetical as published_demands
from rldoctor.knowledge.requirements import identity as package_identity
from rldoctor.knowledge.rope import contradiction as rope_contradiction
from rldoctor.knowledge.rope import effective as rope_config
from rldoctor.knowledge.rope import missing as rope_missing
from rldoctor.knowledge.rope import original_length_filled_in
from rldoctor.knowledge.rope import scaling as rope_settings
from rldoctor.knowledge.sharing import evaluates_on_it, one_engine_in_the_trainer, samples_in_a_thread
from rldoctor.knowledge.vllm_engine import ATTENTION_OF_V0, chunked_prefill, generation, release
from rldoctor.logs.code_paths import package_of
from rldoctor.logs.model import Frame, LogEvent, LoggedException, LogRun, Origin
from rldoctor.lookup import Absent, canonical, find, find_all, installed_within, lookup
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
from rldoctor.plan.evidence import cite, plan_of
from rldoctor.plan.model import RolloutPlan, Setting, Source, UnknownOption
from rldoctor.plan.seeds import (
    SeedTopology,
    completions_per_request,
    replicas_per_prompt,
    requests_alike,
    seed_topology,
)
from rldoctor.probe import Job, Probe, Request
from rldoctor.scenario import Basis, Engine, Run, Scenario
from rldoctor.tables.registries import architecture_since, model_type_since
from rldoctor.tables.symbols.history import argument_history
from rldoctor.tables.symbols.history import history_of as symbol_history
from rldoctor.versions import version_within

if TYPE_CHECKING:  # types alone: no start-up pays for what one command needs
    from rldoctor.hang.compare import Behind as Behind
    from rldoctor.hang.compare import MissingPeers as MissingPeers
    from rldoctor.hang.model import RayActor as RayActor
    from rldoctor.hang.model import RayBundles as RayBundles
    from rldoctor.hang.model import RayCluster as RayCluster
    from rldoctor.hang.model import Seen as Seen
    from rldoctor.hang.process_state import ProcessState as ProcessState
    from rldoctor.hang.view import StalledRun as StalledRun

__all__ = [
    "ATTENTION_OF_V0",
    "FRAMEWORKS",
    "GIB",
    "Absent",
    "Applicability",
    "Basis",
    "Case",
    "Check",
    "CheckResult",
    "Demand",
    "Detector",
    "Disk",
    "Distribution",
    "Edit",
    "Engine",
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
    "Kind",
    "KnownIssue",
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
    "Reach",
    "Request",
    "Role",
    "RolloutPlan",
    "Run",
    "Scenario",
    "SeedTopology",
    "Series",
    "Setting",
    "Severity",
    "Source",
    "Unknown",
    "UnknownOption",
    "acceptable_releases",
    "accepting_releases",
    "affects",
    "architecture_since",
    "architectures_of",
    "argument_history",
    "canonical",
    "chunked_prefill",
    "cite",
    "combined_specifier",
    "completions_per_request",
    "device_memory",
    "driver_for",
    "engine_memory",
    "evaluates_on_it",
    "find",
    "find_all",
    "fitting_share",
    "generation",
    "installed_within",
    "is_framework",
    "known_issues",
    "lookup",
    "matters",
    "memory_phases",
    "mended",
    "model_context",
    "model_heads",
    "model_type_since",
    "model_width",
    "nccl_of",
    "needs_of",
    "numbered",
    "one_engine_in_the_trainer",
    "original_length_filled_in",
    "package_identity",
    "package_of",
    "plan_of",
    "published_demands",
    "published_name",
    "python_admitted",
    "ranks_named",
    "release",
    "release_specifier",
    "replaced",
    "replicas_per_prompt",
    "requests_alike",
    "rope_config",
    "rope_contradiction",
    "rope_missing",
    "rope_scaling",
    "rope_settings",
    "rope_type",
    "runs_on",
    "samples_in_a_thread",
    "seed_topology",
    "stalled_run",
    "symbol_history",
    "text_config",
    "toolkit_knows",
    "toolkit_of",
    "trainer_fits",
    "unreleased",
    "version_within",
]
