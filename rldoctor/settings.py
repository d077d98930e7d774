"""Settings of a project: ``[tool.rldoctor]`` in pyproject.toml, or rldoctor.toml."""

from __future__ import annotations

import datetime
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.errors import InputError
from rldoctor.model import CheckResult, Outcome


@dataclass(frozen=True, kw_only=True)
class Ignore:
    """A code that this project lives with. The reason is not optional; after ``until`` the code is reported again."""

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


def silence(results: tuple[CheckResult, ...], ignores: tuple[Ignore, ...], today: datetime.date) -> list[CheckResult]:
    """The results with ignored findings turned into outcomes that say so."""
    held = {ignore.code: ignore for ignore in ignores if ignore.holds(today)}
    return [
        replace(r, outcome=Outcome.NOT_APPLICABLE, findings=(), reason=f"ignored: {held[r.code].reason}")
        if r.code in held and r.findings
        else r
        for r in results
    ]


def _read(file: Path) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file}: {error}") from error


def _parse(data: dict[str, Any], file: Path) -> Settings:
    known = {field.replace("_", "-"): field for field in Settings.__dataclass_fields__}
    for key in data:
        if key not in known:
            raise InputError(f"{file}: unknown setting {key!r}; known are {', '.join(sorted(known))}")
    try:
        return msgspec.convert({known[key]: value for key, value in data.items()}, Settings)
    except msgspec.ValidationError as error:
        raise InputError(f"{file}: {error}") from error
