"""What the engine's own configuration came to beats what is derived of it from tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor.case import Case
from rldoctor.plan.model import Setting, Source


def with_effective(case: Case) -> Case:
    """The case in whose plan vLLM's own answer stands for what nobody asked of it: the defaults of its release on the
    launch's devices. What a launch or its framework asks for stays as it is asked."""
    job: dict[str, Any] = case.observations.get("validators", {}).get("engine", {})
    records = job.get("records", {})
    if case.plan is None or job.get("ended") != "done" or not records.get("effective"):
        return case
    package = records.get("package") or {}
    how = f"vLLM {package.get('version')} itself".replace("None ", "")
    asked = set(records.get("taken", ()))
    settings = dict(case.plan.settings)
    for option, value in records["effective"].items():
        name = f"engine.{option}"
        mine = settings.get(name)
        if option in asked or (mine is not None and (mine.unknown is not None or mine.value == value)):
            continue
        settings[name] = Setting(
            value=value, source=Source.DERIVED, key=mine.key if mine is not None else None, how=how
        )
    return replace(case, plan=replace(case.plan, settings=settings))
