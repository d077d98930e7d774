"""Known defects of releases as data: which versions have them, under which settings, what shows and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rldoctor import reads
from rldoctor.case import Case
from rldoctor.knowledge import table
from rldoctor.knowledge.layers import replaced
from rldoctor.knowledge.model_config import text_config
from rldoctor.knowledge.vllm_engine import generation
from rldoctor.lookup import find
from rldoctor.versions import version_within

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True, kw_only=True)
class KnownIssue:
    """One defect. ``versions`` is the affected range of ``package``, ``beside`` ranges of other packages, ``python``
    one of Python; ``when`` maps facts to what they must be. ``shown_by`` is the code whose check judges it."""

    id: str
    package: str
    versions: str
    symptom: str
    fix: str
    url: str
    verified: str
    introduced: str | None = None
    fixed: str | None = None
    frameworks: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    when: Mapping[str, Any] = field(default_factory=dict)
    shown_by: str = "RLD111"
    severity: str = "warning"
    command: str | None = None
    edits: Mapping[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=1)
def known_issues() -> tuple[KnownIssue, ...]:
    """Every row of ``known_issues.json``."""
    rows = table("known_issues")["rows"]
    return tuple(
        KnownIssue(beside=row.get("with", {}), **{key: value for key, value in row.items() if key != "with"})
        for row in rows
    )


def affects(issue: KnownIssue, case: Case) -> bool:
    """Whether a case has the defect. What is unknown counts as no: a defect needs all of its conditions."""
    if case.packages is None or (
        issue.frameworks and (case.plan is None or case.plan.framework not in issue.frameworks)
    ):
        return False
    if not issue.frameworks and replaced(case, issue.package):
        return False
    with reads.aside():  # a package that is not here has no defects here
        if not _installed(case, issue.package, issue.versions):
            return False
    if not all(_installed(case, name, versions) for name, versions in issue.beside.items()):
        return False
    if issue.python is not None and version_within(case.packages.python, issue.python) is not True:
        return False
    return all(_is(fact(name, case), wanted) for name, wanted in issue.when.items())


def fact(name: str, case: Case) -> Any:
    """A condition's subject, None where it is not known.

    A setting of the plan as it takes effect, with ``asked.`` before it as the launch gives it; ``engine.generation``,
    ``model.architectures``, ``model.experts`` or ``model.config.KEY``."""
    config = case.model.config if case.model is not None else {}
    if name == "engine.generation":
        return generation(case).value
    if name == "model.architectures":
        named = next(iter(config.get("architectures") or ()), None)
        reads.note(name, "config.json names no architecture" if case.model is not None and named is None else None)
        return named
    if name == "model.experts":
        return next((count for key in EXPERTS if (count := text_config(config).get(key))), None)
    if name.startswith("model.config."):
        return text_config(config).get(name.removeprefix("model.config."))
    if case.plan is None:
        return None
    if name.startswith("asked."):
        option = name.removeprefix("asked.")
        return next((given.value for given in reversed(case.plan.given) if given.option == option), None)
    return case.plan.value(name)


def _is(value: Any, wanted: Any) -> bool:
    """One of several, above a number, or equal."""
    if value is None:
        return False
    if isinstance(wanted, list):
        return value in wanted
    if isinstance(wanted, dict):
        return isinstance(value, int | float) and value > wanted["above"]
    return bool(value == wanted and isinstance(value, bool) == isinstance(wanted, bool))


def _installed(case: Case, name: str, versions: str) -> bool:
    found = find(case.packages, name) if case.packages is not None else None
    return found is not None and version_within(found.version, versions) is True
