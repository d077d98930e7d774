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
    ModelFiles,
    Packages,
    Unknown,
)
from rldoctor.check import Check, Detector, NotApplicable, NotChecked, Reach
from rldoctor.lookup import Absent, canonical, find, find_all, lookup
from rldoctor.model import (
    Applicability,
    CheckResult,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    Level,
    Outcome,
    Severity,
)
from rldoctor.probe import Job, JobResult, Probe, ProbeError, Request

__all__ = [
    "Absent",
    "Applicability",
    "Case",
    "Check",
    "CheckResult",
    "Detector",
    "Disk",
    "Distribution",
    "Edit",
    "Evidence",
    "Finding",
    "Fix",
    "Gpu",
    "GpuProcess",
    "Gpus",
    "Grade",
    "Host",
    "Job",
    "JobResult",
    "Level",
    "ModelFiles",
    "NotApplicable",
    "NotChecked",
    "Outcome",
    "Packages",
    "Probe",
    "ProbeError",
    "Reach",
    "Request",
    "Severity",
    "Unknown",
    "canonical",
    "find",
    "find_all",
    "lookup",
]
