"""What a fix opens: the launch with it made, for the packages that it installs, judged again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from rldoctor.edits import edit, fixes
from rldoctor.flow import run, session
from rldoctor.knowledge.releases import acceptable
from rldoctor.model import Finding, Fix, Level, Severity
from rldoctor.project.settings import Settings
from tests.loaded import REGISTRY

CHECKS = REGISTRY.select()
MACHINE = "machine.json"
# ``python -m pip install 'vllm>=0.11,<0.12'``; what has options, or names no release, is not followed.
_INSTALLS = re.compile(r"(?:\S+ -m )?pip install (?P<quote>['\"]?)(?P<wanted>[A-Za-z][\w.-]*[=<>!~][^'\"]*)(?P=quote)")
# What pip installs with it.
_REPLACES = re.compile(r"replaces (\S+) \S+ by ([\d.]+\d)")
# What a fix says that it leaves to do: packages that must move too, options that another release lacks.
_ANNOUNCED = re.compile(r"move with it|no longer has|has to accept|go with that release|rldoctor compat")


@dataclass(frozen=True)
class Opened:
    """A fix of a finding, and the findings that were not there before it."""

    code: str
    fix: str
    found: tuple[str, ...]


def opened(folder: Path, launch: str) -> Iterator[Opened]:
    """Every fix of a launch in a folder, for the machine.json beside it, after which something new is found. The files
    are put back each time."""
    before = _examined(folder, launch)
    known = {_what(finding) for one in before for finding in one.report.findings}
    codes = {code for code, _ in known}
    for one in before:
        for finding in one.report.findings:
            for fix in finding.fixes:
                if (made := _made(one, fix, folder)) is None:
                    continue
                try:
                    after = [f for other in _examined(folder, launch) for f in other.report.findings]
                finally:
                    for path, text in made.items():
                        path.write_text(text, encoding="utf-8")
                new = {(f.code, f.message) for f in after if f.severity is not Severity.NOTE and f.code not in codes}
                # The fix must cure what it is for, unless others of its code are left.
                alike = sum(f.code == finding.code for o in before for f in o.report.findings)
                if sum(f.code == finding.code for f in after) >= alike:
                    new |= {(f.code, f"still: {f.message}") for f in after if f.code == finding.code}
                if new:
                    yield Opened(finding.code, _told(fix), tuple(sorted(f"{code}: {said}" for code, said in new)))


def _examined(folder: Path, launch: str) -> list[run.Examined]:
    options = session.Options(level="static", target=folder / launch, assume=(str(folder / MACHINE),))
    asked = session.Session(
        options=options, settings=Settings(), registry=REGISTRY, checks=CHECKS, probes=[], level=Level.STATIC
    )
    return run.examine(asked, lambda text: None)


def _what(finding: Finding) -> tuple[str, str]:
    return finding.code, finding.message


def _made(one: run.Examined, fix: Fix, folder: Path) -> dict[Path, str] | None:
    """The old texts of the files that the fix has changed; None where it changes none that is here, or says itself
    what it leaves to do."""
    if fix.side_effects and _ANNOUNCED.search(fix.side_effects):
        return None
    old: dict[Path, str] = {}
    if fix.edits:
        if one.case.plan is None or not all(e.file for e in fix.edits):
            return None
        edited = edit.apply(fixes._spelling(e, one.case.plan) for e in fix.edits)
        if edited.refused or not edited.changed:
            return None
        old |= {Path(name): text for name, text in edited.before.items()}
        edit.save(edited)
    if installed := _installed(one, fix):
        file = folder / MACHINE
        old[file] = file.read_text(encoding="utf-8")
        machine = json.loads(old[file])
        machine["packages"] = {**machine["packages"], **installed}
        file.write_text(json.dumps(machine), encoding="utf-8")
    return old or None


def _installed(one: run.Examined, fix: Fix) -> Mapping[str, str]:
    """The newest release that each install command of the fix allows."""
    found = {}
    for command in fix.commands:
        if (install := _INSTALLS.fullmatch(command)) is not None:
            wanted = Requirement(install["wanted"])
            known = acceptable(one.case, wanted.name, ())
            fitting = [version for version in known if wanted.specifier.contains(version)]
            if fitting:
                found[wanted.name] = fitting[-1]
    moved = _REPLACES.findall(fix.side_effects or "") if found else []
    return {**found, **dict(moved)}


def _told(fix: Fix) -> str:
    edits = [e.spelled or f"{e.option}={e.value}" for e in fix.edits]
    return f"{fix.title} [{'; '.join([*edits, *fix.commands])}]"
