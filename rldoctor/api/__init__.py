"""What every plugin needs. Functions of the domain stand in the modules beside this one, each named after its topic."""

from __future__ import annotations

from rldoctor.case import Case, Unknown
from rldoctor.case.lookup import find, installed_within
from rldoctor.catalogue.check import Check, Kind, NotApplicable, NotChecked, Reach, Role
from rldoctor.catalogue.threshold import Threshold
from rldoctor.counted import counted
from rldoctor.logs.model import LogEvent, LogRun
from rldoctor.model import Applicability, Edit, Evidence, Finding, Fix, Grade, Level, Outcome, Severity
from rldoctor.plan.evidence import cite, plan_of
from rldoctor.plan.model import RolloutPlan, Setting, Source
from rldoctor.records import dataclass
from rldoctor.versions import version_within

__all__ = [
    "Applicability",
    "Case",
    "Check",
    "Edit",
    "Evidence",
    "Finding",
    "Fix",
    "Grade",
    "Kind",
    "Level",
    "LogEvent",
    "LogRun",
    "NotApplicable",
    "NotChecked",
    "Outcome",
    "Reach",
    "Role",
    "RolloutPlan",
    "Setting",
    "Severity",
    "Source",
    "Threshold",
    "Unknown",
    "cite",
    "counted",
    "dataclass",
    "find",
    "installed_within",
    "plan_of",
    "version_within",
]
