"""Packages and what they declare of each other: requirements, identities, frameworks."""

from __future__ import annotations

from rldoctor.case.lookup import Absent, canonical, find_all, lookup
from rldoctor.knowledge.packages import FRAMEWORKS, packages_of, programs
from rldoctor.knowledge.requirements import Demand, is_framework, matters, needs_of, required, unreleased
from rldoctor.knowledge.requirements import hypothetical as published_demands
from rldoctor.knowledge.requirements import identity as package_identity

__all__ = [
    "FRAMEWORKS",
    "Absent",
    "Demand",
    "canonical",
    "find_all",
    "is_framework",
    "lookup",
    "matters",
    "needs_of",
    "package_identity",
    "packages_of",
    "programs",
    "published_demands",
    "required",
    "unreleased",
]
