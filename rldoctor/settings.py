"""Settings of a project: ``[tool.rldoctor]`` in pyproject.toml, or rldoctor.toml."""

from __future__ import annotations

import datetime
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.errors import InputError
from rldoctor.model import CheckResult, Outcome, Report


@dataclass(frozen=True, kw_only=True)
class Ignore:
    """A code, or all that begin so, that this project lives with. The reason is not optional; after ``until`` they are
    reported again."""

    code: str
    reason: str
    until: datetime.date | None = None

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(f"ignoring {self.code} needs a reason")

    def holds(self, today: datetime.date) -> bool:
        return self.until is None or today <= self.until


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a project sets once instead of on every command line; keys are spelled with dashes in TOML."""

    select: tuple[str, ...] = ()
    ignore: tuple[Ignore, ...] = ()
    require: tuple[str, ...] = ()
    fail_on: str | None = None
    level: str | None = None
    disable_plugins: tuple[str, ...] = ()
    file: Path | None = field(default=None, compare=False)
    """Where they stand; not a setting."""


def load(start: Path) -> Settings:
    """The settings nearest to ``start``, going up; the defaults where there are none.

    Raises :class:`InputError` for a file that cannot be read or says what this version does not know."""
    for folder in (start.resolve(), *start.resolve().parents):
        for name, table in (("rldoctor.toml", ()), ("pyproject.toml", ("tool", "rldoctor"))):
            file = folder / name
            if file.is_file():
                data = _read(file)
                for key in table:
                    data = data.get(key, {}) if isinstance(data, dict) else {}
                if data:
                    return _parse(data, file)
    return Settings()


def silence(report: Report, ignores: tuple[Ignore, ...], today: datetime.date) -> Report:
    """The report with ignored findings turned into outcomes that say so, those of a log's earlier runs too."""
    held = [ignore for ignore in ignores if ignore.holds(today)]
    ranked = report.ranked
    return replace(
        report,
        results=tuple(_silenced(result, held) if result.findings else result for result in report.results),
        ranked=ranked and tuple(f for f in ranked if not any(f.code.startswith(ignore.code) for ignore in held)),
        earlier_runs=tuple(silence(run, ignores, today) for run in report.earlier_runs),
    )


def _silenced(result: CheckResult, held: list[Ignore]) -> CheckResult:
    ignore = next((ignore for ignore in held if result.code.startswith(ignore.code)), None)
    if ignore is None:
        return result
    return replace(result, outcome=Outcome.NOT_APPLICABLE, findings=(), reason=f"ignored: {ignore.reason}")


def _read(file: Path) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file}: {error}") from error


def _parse(data: Any, file: Path) -> Settings:
    if not isinstance(data, dict):
        raise InputError(f"{file}: the settings of rldoctor are a table, not {data!r}")
    known = {name.replace("_", "-"): name for name in Settings.__dataclass_fields__ if name != "file"}
    for key in data:
        if key not in known:
            raise InputError(f"{file}: unknown setting {key!r}; known are {', '.join(sorted(known))}")
    try:
        read = msgspec.convert({known[key]: value for key, value in data.items()}, Settings)
    except msgspec.ValidationError as error:
        raise InputError(f"{file}: {error}") from error
    return replace(read, file=file)
