"""What something that is known holds for: releases of a package, of others beside it, a framework, and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rldoctor import reads
from rldoctor.case import Case
from rldoctor.case.lookup import installed_within
from rldoctor.knowledge.layers import elsewhere, replaced
from rldoctor.knowledge.model_config import text_config
from rldoctor.knowledge.vllm_engine import generation
from rldoctor.records import dataclass
from rldoctor.versions import version_within

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True)
class Scope:
    """``versions`` is a range of releases of ``package``, ``beside`` are ranges of other packages, ``python`` is one of
    Python. ``frameworks`` are those whose launches it is about, all where there is none. ``when`` maps facts
    (:func:`fact`) to what they must be: a value, a list of several, ``{"above": 1}``, ``{"not": value}``."""

    frameworks: tuple[str, ...]
    package: str
    versions: str
    beside: Mapping[str, str] = field(default_factory=dict, kw_only=True, hash=False)
    python: str | None = field(default=None, kw_only=True)
    when: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)

    def covers(self, case: Case) -> bool:
        """Whether it holds for a case. What is unknown counts as no: all of it has to be so."""
        return self.concerns(case) and all(_is(fact(name, case), wanted) for name, wanted in self.when.items())

    def concerns(self, case: Case) -> bool:
        """Whether a case has the releases and the framework, whatever its settings."""
        if self.frameworks and (case.plan is None or case.plan.framework not in self.frameworks):
            return False
        if not self.frameworks and (replaced(case, self.package) or (self.when and elsewhere(case, self.package))):
            return False
        ranges = {self.package: self.versions, **self.beside}
        if not all(installed_within(case, name, versions) for name, versions in ranges.items()):
            return False
        python = case.packages.release() if case.packages is not None and self.python is not None else None
        return self.python is None or version_within(python, self.python) is True


def fact(name: str, case: Case) -> Any:
    """A condition's subject, None where it is not known.

    A setting of the plan as it takes effect, with ``asked.`` before it as the launch gives it, with ``said.`` true
    where the launch or a variable sets it at all; ``engine.generation``, ``model.architectures``, ``model.experts`` or
    ``model.config.KEY``. Of several names with ``|`` between them, the first that is known."""
    if "|" in name:
        return next((value for one in name.split("|") if (value := fact(one, case)) is not None), None)
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
    if name.startswith("said."):
        setting = case.plan.get(name.removeprefix("said."))
        said = setting is not None and setting.source in ("given", "environment") and setting.value is not None
        return said or None
    return case.plan.value(name)


def _is(value: Any, wanted: Any) -> bool:
    """One of several, above a number, not a value, or equal."""
    if value is None:
        return False
    if isinstance(wanted, list):
        return value in wanted
    if isinstance(wanted, dict) and "not" in wanted:
        return bool(value != wanted["not"])
    if isinstance(wanted, dict):
        return isinstance(value, int | float) and value > wanted["above"]
    return bool(value == wanted and isinstance(value, bool) == isinstance(wanted, bool))
