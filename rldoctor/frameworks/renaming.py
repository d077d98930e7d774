"""Spells the renaming of a native option that does not exist: the same value under the name that was meant.

The edit is ``Edit(option="native.rollout.gpu_mem", value="rollout.gpu_memory_utilization")``."""

from __future__ import annotations

from rldoctor.formats.texts import shell_quoted, shell_word, shown
from rldoctor.formats.write import Write
from rldoctor.frameworks.spelled import Spelling
from rldoctor.plan.model import Form, RolloutPlan, UnknownOption


def rename(old: str, new: str, plan: RolloutPlan) -> Spelling:
    """The unknown option ``old`` (as it is spelled) under its real name ``new`` (as the option table names it)."""
    every = (*plan.unknown, *(plan.server.unknown if plan.server is not None else ()))
    unknown = next((option for option in every if option.key == old), None)
    if unknown is None:
        return Spelling(text=f"{new} instead of {old}", reason=f"{plan.file} has no {old}")
    name = _spelled(unknown, new)
    text = _text(unknown, name, plan)
    if unknown.form in (Form.YAML, Form.KEYWORD) and old.rpartition(".")[0] != new.rpartition(".")[0]:
        return Spelling(text=text, file=unknown.file, line=unknown.line, reason=f"{new} stands in another section")
    write = Write(form=unknown.form, file=unknown.file, line=unknown.line, key=old, rename=name)
    return Spelling(text=text, file=unknown.file, line=unknown.line, write=write)


def _spelled(unknown: UnknownOption, new: str) -> str:
    if unknown.form is not Form.OPTION:
        return new
    dashes = "-" in unknown.key.lstrip("-") and not unknown.exact
    return "--" + (new.replace("_", "-") if dashes else new)


def _text(unknown: UnknownOption, name: str, plan: RolloutPlan) -> str:
    given = next(
        (g for g in reversed(plan.given) if (g.file, g.line, g.form) == _place(unknown) and _is(g.key, unknown)), None
    )
    if given is None or given.unknown is not None:
        return name
    value = shown(given.value) if not isinstance(given.value, list | dict) else str(given.value)
    if unknown.form is Form.OPTION:
        return name if given.value is True else f"{name} {shell_quoted(value)}"
    if unknown.form is Form.YAML and unknown.file.endswith(".toml"):
        from rldoctor.formats.toml.edit import literal

        return f"{name} = {literal(value)}"
    if unknown.form is Form.YAML:
        return f"{name}: {value}"
    return shell_word(f"{name}={value}") if unknown.form is Form.OVERRIDE else f"{name}={given.value!r}"


def _place(unknown: UnknownOption) -> tuple[str, int, Form]:
    return unknown.file, unknown.line, unknown.form


def _is(key: str, unknown: UnknownOption) -> bool:
    return key.endswith(unknown.key.lstrip("-").replace("-", "_") if unknown.form is Form.OPTION else unknown.key)
