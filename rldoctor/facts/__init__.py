"""Collects the facts of one environment and its host; nothing here imports the patient or judges."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from rldoctor import __version__
from rldoctor.case import Case, Unknown
from rldoctor.case.lookup import Absent
from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError, one_line

# Section of the case -> the module whose ``collect(request)`` supplies it. Imported only when the section is asked for:
# start-up counts, and a static check that reads versions needs no NVML.
SECTIONS = {
    "packages": "rldoctor.facts.packages",
    "host": "rldoctor.facts.host",
    "gpus": "rldoctor.facts.gpus",
    "node": "rldoctor.facts.node",
    "environment": "rldoctor.facts.environment",
    "model": "rldoctor.facts.model_files",
}


def collect(sections: set[str], request: Request) -> Case:
    """The case with each of ``sections`` that has a collector. A section that was not obtained is explained.

    Raises :class:`InputError` where what the user named (an interpreter, a model) cannot be used."""
    found: dict[str, Any] = {}
    unknown: dict[str, Unknown] = {}
    absent: dict[str, str] = {}
    for section in sorted(sections & SECTIONS.keys()):
        value = _collect_one(section, request)
        if isinstance(value, Unknown):
            unknown[section] = value
        elif isinstance(value, Absent):
            absent[section] = value.reason
        else:
            found[section] = value
    case = Case(tool=f"rldoctor {__version__}", target=str(request.target) if request.target else None)
    return replace(case, **found, unknown=unknown, absent=absent)


def _collect_one(section: str, request: Request) -> object:
    try:
        return import_module(SECTIONS[section]).collect(request)
    except InputError:
        raise
    except Exception as error:  # one source that fails in a way nobody foresaw must not cost the others
        return Unknown(reason=f"{section} could not be collected: {one_line(error)}")
