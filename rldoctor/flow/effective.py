"""What the packages' own configuration came to beats what is derived of it from tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rldoctor.case import Case
from rldoctor.plan.model import RolloutPlan, Setting, Source


def with_effective(case: Case) -> Case:
    """The case in whose plan the packages' own answer stands for what nobody asked of them: vLLM's for the defaults of
    its release on the launch's devices, Hydra's for those in the framework's files, its argument class's or
    program's for what these compute. What a launch or its framework asks for stays as it is asked."""
    plan = case.plan
    if plan is None:
        return case
    settings = {**plan.settings, **_composed(case, plan), **_of_the_engine(case, plan)}
    return case if settings == plan.settings else replace(case, plan=replace(plan, settings=settings))


def _of_the_engine(case: Case, plan: RolloutPlan) -> dict[str, Setting]:
    records = _accepted(case, "engine")
    how = _itself(records, "vLLM")
    asked = set(records.get("taken", ()))
    found = {}
    for option, value in records.get("effective", {}).items():
        name = f"engine.{option}"
        mine = plan.settings.get(name)
        if option in asked or (mine is not None and (mine.unknown is not None or mine.value == value)):
            continue
        key = mine.key if mine is not None else None
        found[name] = Setting(value=value, source=Source.DERIVED, key=key, how=how)
    return found


def _composed(case: Case, plan: RolloutPlan) -> dict[str, Setting]:
    """Defaults that the framework itself gives otherwise, of those that the plan has as its release declares them."""
    accepted = {by: records for by in ("composition", "program", "arguments") if (records := _accepted(case, by))}
    if not accepted:
        return {}
    from rldoctor.link.validations import options_of  # what follows sources is a tenth of a start

    found: dict[str, Setting] = {}
    options = options_of(plan, case)
    for by, records in accepted.items():
        effective = records.get("effective", {})
        composed = f"{plan.framework}'s own configuration, composed by Hydra"
        how = composed if by == "composition" else _itself(records)
        for name, mine in plan.settings.items():
            if mine.source is not Source.DEFAULT or mine.unknown is not None or mine.key not in effective:
                continue
            if name == f"engine.{mine.key}":
                continue  # the engine's own, which may call another thing so
            value = effective[mine.key]
            declared = options.get_option(mine.key) if options is not None and mine.key is not None else None
            if declared is not None and declared.default != mine.value:
                continue  # the plan says it in other words than the framework
            if type(value) is type(mine.value) and value != mine.value:
                found[name] = replace(mine, value=value, source=Source.DERIVED, how=how)
    return found


def _itself(records: Mapping[str, Any], name: str | None = None) -> str:
    """The package that answered, by the ``name`` that it is to have, and its release."""
    package = records.get("package") or {}
    return f"{name or package.get('name')} {package.get('version')} itself".replace("None ", "")


def _accepted(case: Case, by: str) -> Mapping[str, Any]:
    """What a validator recorded that took the launch's settings."""
    job: dict[str, Any] = case.observations.get("validators", {}).get(by, {})
    records: dict[str, Any] = job.get("records", {})
    return records if job.get("ended") == "done" and records.get("effective") else {}
