"""What a framework looks for in another package and does not find there, read from the sources of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rldoctor.api import Case, Check, Evidence, Finding, NotApplicable, NotChecked, Reach, Severity, find
from rldoctor.api.packages import needs_of

from .version_fixes import declared_fixes, releases_with

_ASKS = {
    "name": "imports {name} from {owner}; {of} does not define it",
    "module": "imports {name}; {of} has no such module",
    "attribute": "uses {owner}.{name}; {of} does not define it",
    "argument": "passes {name} to {owner}; that of {of} does not take it",
    "positions": "calls {owner} with {name} arguments by position; that of {of} takes fewer",
    "override-argument": "puts a method in the place of {owner} that takes no {name}, which {of} passes to it",
    "override-positions": "puts a method in the place of {owner} that takes fewer arguments by position than the "
    "{name} that {of} passes to it",
    "override-missing-argument": "puts a method in the place of {owner} that requires {name}, which {of} does not pass",
    "always": "imports {name}, which is not installed: what {owner} of {of} returns is a tuple, which is always true",
    "refused": "refuses {of}: {name}",
    "missing-argument": "calls {owner} without {name}; that of {of} requires it",
}
_SHOWN = 6  # problems cited as evidence
_UNREAD = 3  # modules named that could not be read


def judge_links(case: Case, check: Check, belongs: Callable[[str], bool]) -> Iterator[Finding | Reach]:
    """Judges what linking found missing in the packages (by module name) that ``belongs`` gives to a check.

    What is missing while modules are imported keeps the launch from starting. What only functions ask for may never be
    asked, and is told beside a pass."""
    assert case.links is not None
    found = False
    read = []
    for framework in case.links["frameworks"]:
        problems = [p for p in framework["problems"] if belongs(p["of"]) and not _known(case, p)]
        for of in dict.fromkeys(p["of"] for p in problems):
            at_start = [p for p in problems if p["of"] == of and p["when"] == "import"]
            if at_start:
                found = True
                yield _finding(case, check, framework, of, at_start)
        later = [p for p in problems if p["when"] != "import"]
        if framework["entries"]:
            read.append(_reach(case, framework, later))
    if found:
        return
    if not read and case.links.get("unread"):
        raise NotChecked(f"the launch's own modules cannot be followed{_unread(case)}")
    if not read:
        raise NotApplicable("no module is known that every launch of this framework imports")
    yield from (Reach(text) for text in read)


def _finding(case: Case, check: Check, framework: dict[str, Any], of: str, problems: list[dict[str, Any]]) -> Finding:
    first, *others = problems
    more = f" ({len(others)} more like it)" if others else ""
    name = first["name"] if first["kind"] == "module" else f"{first['owner']}.{first['name']}"
    releases = releases_with(of, name) if first["kind"] not in ("refused", "always") else ""
    return check.finding(
        f"{first['file']}:{first['line']} {_asks(case, first)}{releases}{more}",
        severity=Severity.ERROR,
        evidence=tuple(Evidence(text=_asks(case, p), source=p["file"], line=p["line"]) for p in problems[:_SHOWN]),
        fixes=declared_fixes(case, check, of),
    )


def _asks(case: Case, problem: dict[str, Any]) -> str:
    return _ASKS[problem["kind"]].format(name=problem["name"], owner=problem["owner"], of=_named(case, problem["of"]))


def _reach(case: Case, framework: dict[str, Any], later: list[dict[str, Any]]) -> str:
    text = f"{framework['modules']} modules of {framework['name']} {framework['version']} find what they import"
    text += _unread(case)
    if not later:
        return text
    first = later[0]
    reported = f"{first['file']}:{first['line']} {_asks(case, first)}"
    return f"{text}; {len(later)} names only on ways that need not be taken are missing, such as {reported}"


def _unread(case: Case) -> str:
    """Which modules were asked for and not read, and why, for a pass."""
    assert case.links is not None
    said = list(dict.fromkeys(case.links.get("unread", {}).values()))
    more = f" and {len(said) - _UNREAD} more" if len(said) > _UNREAD else ""
    return f"; not read: {', '.join(said[:_UNREAD])}{more}" if said else ""


def _named(case: Case, module: str) -> str:
    installed = find(case.packages, module.replace("_", "-")) if case.packages is not None else None
    return f"{module} {installed.version}" if installed is not None else module


def _known(case: Case, problem: dict[str, Any]) -> bool:
    """Whether a known break, which is told with its source, says the same."""
    on = problem["of"].replace("_", "-")
    installed = find(case.packages, on) if case.packages is not None else None
    if installed is None:
        return False
    known = (
        d for d in needs_of(case).on(on) if d.reason is not None and not d.used and not d.admits(installed.version)
    )
    return any(problem["name"].rpartition(".")[2] in (demand.reason or "") for demand in known)
