"""Settings of a project: ``[tool.rldoctor]`` in pyproject.toml, or rldoctor.toml."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from pathlib import Path, PurePath
from typing import Any

import msgspec

from rldoctor.errors import InputError, meant_or_known
from rldoctor.io import untrusted
from rldoctor.model import Finding, Ignored, Missing, Report, Severity
from rldoctor.project.aside import set_aside
from rldoctor.records import dataclass
from rldoctor.schema import Misfit

NAME = "rldoctor.toml"
_PLACES: tuple[tuple[str, tuple[str, ...]], ...] = ((NAME, ()), ("pyproject.toml", ("tool", "rldoctor")))
_MAX_BYTES = 2 << 20
# How long before its end an ignore is announced.
NOTICE = datetime.timedelta(days=14)


@dataclass(frozen=True, kw_only=True)
class Ignore:
    """A code, or all that begin so, that this project lives with. The reason is not optional; after ``until`` they are
    reported again. ``files`` are patterns of the launch files that it holds for (all where there are none), relative to
    the settings' folder."""

    code: str
    reason: str
    until: datetime.date | None = None
    files: tuple[str, ...] = ()
    place: str = ""
    """Where it stands; not a setting."""

    def holds(self, today: datetime.date) -> bool:
        return self.until is None or today <= self.until

    def covers(self, finding: Finding, launch: str | None, folder: Path) -> bool:
        """Whether a finding in the report on a launch file is one of those."""
        if not finding.code.startswith(self.code):
            return False
        if not self.files:
            return True
        if launch is None:
            return False
        path = Path(launch).absolute()
        inside = path.relative_to(folder) if path.is_relative_to(folder) else PurePath(path)
        return any(inside.match(pattern) for pattern in self.files)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a project sets once instead of on every command line; keys are spelled with dashes in TOML."""

    select: tuple[str, ...] = ()
    ignore: tuple[Ignore, ...] = ()
    require: tuple[str, ...] = ()
    fail_on: str | None = None
    severity: dict[str, Severity] = field(default_factory=dict)
    thresholds: dict[str, dict[str, float]] = field(default_factory=dict)
    """Numbers of checks by code and name (:class:`rldoctor.catalogue.threshold.Threshold`)."""
    baseline: str | None = None
    """A report whose findings are known, relative to the settings' folder."""
    level: str | None = None
    disable_plugins: tuple[str, ...] = ()
    file: Path | None = field(default=None, compare=False)
    """Where they stand; not a setting."""


_KEYS = {name.replace("_", "-"): name for name in Settings.__dataclass_fields__ if name != "file"}
_IGNORE_KEYS = {name: name for name in Ignore.__dataclass_fields__ if name != "place"}


def load(start: Path) -> Settings:
    """The settings nearest to ``start``, going up; the defaults where there are none.

    Raises :class:`InputError` for a file that cannot be read or says what this version does not know."""
    for folder in (start.resolve(), *start.resolve().parents):
        for file, text, table, data in _tables(folder):
            return _Reader(file, text, ".".join(table)).settings(data)
    return Settings()


def beside(folder: Path) -> Path | None:
    """The file in a folder that holds settings already; an empty one of our name is one, too."""
    own = folder / NAME
    return own if own.exists() else next((file for file, *_ in _tables(folder)), None)


def template() -> str:
    """A settings file in which every setting is a comment."""
    return Path(__file__).with_name("settings.toml").read_text(encoding="utf-8")


def schema() -> str:
    """The JSON Schema of rldoctor.toml and of ``[tool.rldoctor]``, as it is published, for editors."""
    from rldoctor.schema import components, published

    found = components(Settings)
    for name, keys in (("Settings", _KEYS), ("Ignore", _IGNORE_KEYS)):
        table = found["$defs"][name]
        table["properties"] = {key: table["properties"][own] for key, own in keys.items()}
        table["additionalProperties"] = False
    return published("settings", found)


def _tables(folder: Path) -> Iterator[tuple[Path, str, tuple[str, ...], Any]]:
    """The files of a folder that hold settings: their text, the table in which those stand, and them."""
    for name, table in _PLACES:
        file = folder / name
        if file.is_file():
            text = _text(file)
            # Most of these files are no settings of ours, and TOML's reader takes as long to import as all of this.
            if any(key not in text for key in table):
                continue
            from rldoctor.formats import toml_text

            data = toml_text.parse(text, file)
            for key in table:
                data = data.get(key, {}) if isinstance(data, dict) else {}
            if data:
                yield file, text, table, data


def place(project: Settings, *path: str) -> str:
    """File and line of a key of a project's settings, or of a text in a list, the innermost last."""
    assert project.file is not None
    table = next(table for name, table in _PLACES if name == project.file.name)
    return _Reader(project.file, _text(project.file), ".".join(table)).place(*path)


def weighed(report: Report, settings: Settings) -> Report:
    """The report with the severities that the project gives to codes; the longest prefix of a code decides."""
    if not settings.severity:
        return report

    def anew(finding: Finding) -> Finding:
        fitting = [code for code in settings.severity if finding.code.startswith(code)]
        return replace(finding, severity=settings.severity[max(fitting, key=len)]) if fitting else finding

    return replace(
        report,
        results=tuple(replace(result, findings=tuple(map(anew, result.findings))) for result in report.results),
        ranked=report.ranked and tuple(map(anew, report.ranked)),
        earlier_runs=tuple(weighed(run, settings) for run in report.earlier_runs),
    )


def silence(report: Report, settings: Settings, today: datetime.date) -> Report:
    """The report with ignored findings apart, those of a log's earlier runs too. An ignore that ends soon is announced;
    one that ended is missing from the verdict until somebody renews it or takes it out."""
    held = [ignore for ignore in settings.ignore if ignore.holds(today)]
    launch = report.place.source if report.place is not None else None
    folder = settings.file.parent if settings.file is not None else Path.cwd()

    def ignored(finding: Finding) -> Ignored | None:
        found = next((one for one in held if one.covers(finding, launch, folder)), None)
        until = found.until.isoformat() if found is not None and found.until is not None else None
        return None if found is None else Ignored(finding=finding, reason=found.reason, until=until)

    ended = (ignore for ignore in settings.ignore if not ignore.holds(today))
    expired = (
        Missing(what=f"{one.place}: the ignore of {one.code} ended on {one.until}", how="renew it or take it out")
        for one in ended
    )
    soon = (
        f"{one.place}: the ignore of {one.code} ends on {one.until}"
        for one in held
        if one.until is not None and one.until - today <= NOTICE
    )
    return replace(
        set_aside(report, ignored),
        notes=(*report.notes, *soon),
        missing=(*report.missing, *expired),
        earlier_runs=tuple(silence(run, settings, today) for run in report.earlier_runs),
    )


def _text(file: Path) -> str:
    try:
        return untrusted.read(file, _MAX_BYTES).decode("utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 text (byte {error.start})") from error


class _Reader:
    """Validates the tables of one file, naming the line of what is wrong."""

    def __init__(self, file: Path, text: str, table: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.table = table
        self._header_lines: dict[str, list[int]] = {}

    def settings(self, data: Any) -> Settings:
        if not isinstance(data, dict):
            raise InputError(f"{self.file}: the settings of rldoctor are a table, not {data!r}")
        if not self.table and isinstance(data.get("tool"), dict) and "rldoctor" in data["tool"]:
            line = self.line_of("tool", "rldoctor")
            raise InputError(f"{self.file}:{line}: [tool.rldoctor] is for pyproject.toml; here its keys stand alone")
        self._only(data, _KEYS, self._lines_of(self.table) if self.table else range(len(self.lines)))
        reported = {_KEYS[key]: value for key, value in data.items()}
        ignores = reported.get("ignore")
        if isinstance(ignores, list):
            reported["ignore"] = list(self._ignores(ignores))
        try:
            found = replace(msgspec.convert(reported, Settings), file=self.file)
        except msgspec.ValidationError as error:
            raise self._misfit(reported, error) from error
        self._usable(found, ignores or [])
        return found

    def _misfit(self, reported: dict[str, Any], error: msgspec.ValidationError) -> InputError:
        """What to say of the innermost value that does not fit; msgspec does not name the keys of a table."""
        path, error = _innermost(reported, error)
        wrong = Misfit.of(error)
        if wrong.at.startswith("ignore["):
            number, _, name = wrong.at.removeprefix("ignore[").partition("]")
            place = self._place_of_ignore(int(number), *re.findall(r"^\.([a-z]+)", name))
            return InputError(f"{place}: {f'ignore{name}'} {wrong.wrong}")
        path = (next(key for key, name in _KEYS.items() if name == path[0]), *path[1:])
        hint = "; each is a table [[ignore]]" if path == ("ignore",) else ""
        if path[0] == "severity" and len(path) > 1:
            hint = f"; known are {', '.join(one.value for one in Severity)}"
        return InputError(f"{self.place(*path)}: {'.'.join(path)} {wrong.wrong}{hint}")

    def _usable(self, found: Settings, ignores: list[dict[str, Any]]) -> None:
        """Raises :class:`InputError` for what has the right type and means nothing, or all; ``ignores`` are the tables
        as they stand."""
        for name in ("select", "require"):
            if "" in getattr(found, name):
                raise InputError(f"{self.place(name)}: {name} has an empty code")
        numbers: dict[tuple[str, frozenset[str]], int] = {}
        for number, ignore in enumerate(found.ignore):
            if not ignore.code:
                raise InputError(f"{self._place_of_ignore(number, 'code')}: the ignore has an empty code")
            if not ignore.reason.strip():
                place = self._place_of_ignore(number, "reason")
                raise InputError(f"{place}: ignoring {ignore.code} needs a reason")
            if "" in ignore.files or ("files" in ignores[number] and not ignore.files):
                place = self._place_of_ignore(number, "files")
                raise InputError(f"{place}: files of an ignore are patterns such as runs/*.sh; leave it out for all")
            first = numbers.setdefault((ignore.code, frozenset(ignore.files)), number)
            if first != number:
                before = found.ignore[first].place
                raise InputError(f"{ignore.place}: {ignore.code} is ignored already at {before}; take one of them out")

    def place(self, *path: str) -> str:
        """File and line of a key, the innermost last."""
        return f"{self.file}:{self.line_of(*path)}"

    def line_of(self, *path: str) -> int:
        """The line of a key, from 1, below the innermost of its tables that has a header."""
        own = self.table.split(".") if self.table else []
        for depth in range(len(path) - 1, -1, -1):
            table = ".".join((*own, *path[:depth]))
            if not table or self._headers(table):
                lines = self._lines_of(table) if table else range(len(self.lines))
                return self._line(path[-1], lines) + 1
        return self._line(path[-1], range(len(self.lines))) + 1

    def _place_of_ignore(self, number: int, key: str | None = None) -> str:
        lines = self._lines_of(f"{self.table}.ignore" if self.table else "ignore", number)
        return f"{self.file}:{(lines.start if key is None else self._line(key, lines)) + 1}"

    def _line(self, key: str, lines: range) -> int:
        """The line, by index, on which a key or a text stands that is no comment; the first where none does."""
        named = re.compile(rf"[^#]*(?<![\w-]){re.escape(key)}(?![\w-])")
        return next((n for n in lines if named.match(self.lines[n])), lines.start)

    def _ignores(self, tables: list[Any]) -> Iterator[Any]:
        name = f"{self.table}.ignore" if self.table else "ignore"
        for number, table in enumerate(tables):
            lines = self._lines_of(name, number)
            if isinstance(table, dict):
                self._only(table, _IGNORE_KEYS, lines)
                table = {**table, "place": f"{self.file}:{lines.start + 1}"}
            yield table

    def _only(self, data: dict[str, Any], known: Iterable[str], lines: range) -> None:
        """Raises :class:`InputError` for a key that is none of those that are known."""
        for key in data:
            if key not in known:
                hint = meant_or_known(key, sorted(known))
                raise InputError(f"{self.file}:{self._line(key, lines) + 1}: unknown setting {key!r}; {hint}")

    def _lines_of(self, table: str, number: int = 0) -> range:
        """The lines of a table, by index: from its header to the next one; the whole file where it has no header (the
        keys are dotted, or the table is inline)."""
        headers = self._headers(table)
        if number >= len(headers):
            return range(len(self.lines))
        start = headers[number]
        for end in range(start + 1, len(self.lines)):
            if re.match(r"\s*\[+[^\[\],]+\]+\s*(#.*)?$", self.lines[end]):
                return range(start, end)
        return range(start, len(self.lines))

    def _headers(self, table: str) -> list[int]:
        if table not in self._header_lines:  # each of a thousand ignores asks for them
            named = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in table.split("."))
            header = re.compile(rf"\s*\[+\s*{named}\s*\]+")
            self._header_lines[table] = [n for n, line in enumerate(self.lines) if header.match(line)]
        return self._header_lines[table]


def _innermost(
    reported: dict[str, Any], error: msgspec.ValidationError, path: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], msgspec.ValidationError]:
    """The keys that lead to the first value that does not fit, and what msgspec says of it alone."""
    table: Any = reported
    for key in path:
        table = table[key]
    deeper = 1 + str(error).count("[...]") > len(path)
    for key, value in table.items() if deeper and isinstance(table, dict) else ():
        alone = value
        for name in reversed((*path, key)):
            alone = {name: alone}
        try:
            msgspec.convert(alone, Settings)
        except msgspec.ValidationError as inner:
            return _innermost(reported, inner, (*path, key))
    return path, error
