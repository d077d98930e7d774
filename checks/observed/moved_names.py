"""Reads from an exception which name of an installed package was looked for in vain, and by whom."""

from __future__ import annotations

import re
import sys

from rldoctor.api import Case, LogEvent, dataclass, find
from rldoctor.api.logs import package_of
from rldoctor.api.releases import symbol_packages

from ..exceptions import Link
from .imports import CORE, ENGINE, Failure, distribution
from .logged_imports import answered_by_another, link_of, reported_link

_NAME = re.compile(
    r"cannot import name '(?P<name>[\w.]+)' from (?P<partial>partially initialized module )?'(?P<module>[\w.]+)'"
    r"(?: \(most likely due to a circular import\))?(?: \((?P<path>[^)]+)\))?"
)
_MODULE = re.compile(r"No module named '(?P<module>\w+(?:\.\w+)+)'(?:; '(?P<file>[\w.]+)' is not a package)?")
_ATTRIBUTE = re.compile(
    r"(?P<partial>partially initialized )?module '(?P<module>[\w.]+)' (?:from '[^']*' )?"
    r"has no attribute '(?P<name>\w+)'"
)
# What may be judged by its name alone, where no path tells that it is installed, beside what has a table of symbols.
_KNOWN = CORE | {"xformers", "unsloth", "unsloth-zoo", "pyarrow", "pandas", "safetensors"}


def _known(package: str) -> bool:
    return package in _KNOWN or package in symbol_packages()


@dataclass(frozen=True)
class Sought:
    """A name that is not where somebody looks for it. ``package`` is the distribution that should hold it, ``importer``
    the one whose code asks (empty for the user's own), ``file`` what Python took for the package (empty where the log
    does not tell), ``shadow`` why that is not the installed package (empty where it is)."""

    name: str
    module: str
    package: str
    importer: str
    file: str = ""
    shadow: str = ""

    @property
    def said(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


def sought(event: LogEvent, case: Case) -> Sought | None:
    """The name, or None where the line tells of no such thing or the module is the user's own."""
    link = link_of(event)
    match = _told(link.message) if link is not None else None
    if link is None or match is None or answered_by_another(event, link, match["module"]):
        return None
    return _of(match, reported_link(link.type, link.message, link.frames), case)


def lacking(failure: Failure, case: Case) -> Sought | None:
    """The name that a failed import looked for in another package than its own, which is installed and is none of the
    engine's."""
    match = _told(str(failure.root["message"])) if failure.root is not None else None
    if failure.root is None or match is None:
        return None
    name = _of(match, failure.root, case)
    if name is None or name.shadow or match.groupdict().get("partial") or not name.importer:
        return None
    there = case.packages is not None and find(case.packages, name.package) is not None
    return name if there and name.package not in ENGINE and name.importer != name.package else None


def _told(message: str) -> re.Match[str] | None:
    return _NAME.search(message) or _MODULE.search(message) or _ATTRIBUTE.search(message)


def _of(match: re.Match[str], reported: Link, case: Case) -> Sought | None:
    parts = match.groupdict()
    top = match["module"].partition(".")[0]
    packages = [f["package"] for f in reported["frames"] if f["package"] != "python"]
    # A module's own __getattr__ raises on behalf of whoever asked it.
    asked = [p for p in packages if p != top] if match.re is _ATTRIBUTE else packages
    package = distribution(top, case.packages)
    file = parts.get("path") or ""
    importer = distribution(asked[-1], case.packages) if asked and asked[-1] else ""
    shadow = _shadow(match, top, file)
    installed = file and package_of(file) == top
    if not (shadow or installed or _known(package) or top in packages):
        return None
    return Sought(parts.get("name") or "", match["module"], package, importer, file, shadow)


def _shadow(match: re.Match[str], top: str, file: str) -> str:
    """Why what Python found under the name is not the package: a script or a folder called like it."""
    known = _known(distribution(top, None)) or top in sys.stdlib_module_names
    if match.groupdict().get("file") == top and known:
        return f"a file {top}.py stands in front of the package {top}"
    if file == "unknown location" and known:
        return f"a folder called {top} (without __init__.py) stands in front of the package"
    # A tree that has the package's modules is a copy of it.
    own = match["module"] == top and file and file != "unknown location" and package_of(file) is None
    if own and known and re.search(rf"(?:^|/){top}(?:\.py|/.*)$", file):
        return f"{file} stands in front of the package {top}"
    return ""
