"""Probes and scenarios: programs for the interpreter of the environment that is examined."""

from __future__ import annotations

from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario

__all__ = [
    "Basis",
    "Engine",
    "Job",
    "Probe",
    "Request",
    "Run",
    "Scenario",
]
