"""What `rldoctor explain` prints: the document of a check and its worked example, with what is said of each side."""

from __future__ import annotations

from rldoctor import example
from rldoctor.check import Check
from rldoctor.errors import InputError
from rldoctor.example import Block, Scene
from rldoctor.model import Report
from rldoctor.registry import Registry

INDENT = "    "


def render(check: Check, registry: Registry) -> str:
    """The document, then the example judged as it is printed. An example that cannot be read or judged is a line."""
    lines = [f"{check.code} {check.name}", "", check.doc]
    file = example.file_of(check)
    if file is None:
        return "\n".join(lines)
    try:
        told = example.read(file)
        for title, scene in (("Fires", told.fires), ("Stays quiet", told.quiet)):
            lines += ["", title, "", *_scene(scene), *_verdict(example.judge(scene, registry), check)]
    except InputError as error:
        lines += ["", f"The example cannot be judged: {error}"]
    return "\n".join(lines)


def _scene(scene: Scene) -> list[str]:
    lines: list[str] = []
    for part in scene.parts:
        if isinstance(part, Block):
            lines += [f"{INDENT}{part.name}{', changed' if part.kind == 'diff' else ''}:"]
            lines += [f"{INDENT * 2}{line}".rstrip() for line in part.text.splitlines()]
        else:
            lines += [f"{INDENT}{line}" for line in part.splitlines()]
        lines.append("")
    return lines


def _verdict(report: Report, check: Check) -> list[str]:
    lines = [f"{INDENT}-> {r.outcome.value}" for r in report.results if r.code == check.code and not r.findings]
    for finding in (finding for finding in report.findings if finding.code == check.code):
        lines.append(f"{INDENT}-> {finding.severity.value}: {finding.message}")
        for fix in finding.fixes:
            spelled = "; ".join([edit.spelled or f"{edit.option}={edit.value}" for edit in fix.edits] or fix.commands)
            lines.append(f"{INDENT * 2}fix: {fix.title}" + (f": {spelled}" if spelled else ""))
    return lines
