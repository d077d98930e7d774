"""The document of a check and its worked example, with what is said of each side: as Markdown, which a terminal shows
rendered and the documentation has as a page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import partial

from rich.console import Console
from rich.markdown import Markdown

from rldoctor.catalogue import example
from rldoctor.catalogue.check import Check
from rldoctor.catalogue.example import Block, Scene
from rldoctor.catalogue.registry import Registry
from rldoctor.errors import InputError
from rldoctor.model import Report
from rldoctor.printable import printable
from rldoctor.report import words
from rldoctor.report.console import drawn
from rldoctor.report.markdown import escaped, fenced

# A part of a document: a line that is not indented, and what is indented below it.
_PART = re.compile(r"^(?P<title>\S[^\n]*)\n(?P<body>[ \t]+\S[^\n]*\n(?:[ \t]+\S[^\n]*\n|\n)*)", re.MULTILINE)
_CODE = re.compile(r"(``.+?``|`[^`\n]+`)", re.DOTALL)
_URL = re.compile(r"https?://[^\s<>]*[^\s<>.,;:)\]]")
_WIDEST = 100


def render(check: Check, registry: Registry) -> str:
    """The explanation, rendered where standard output is a terminal, else as Markdown."""
    text = printable(markdown(check, registry))
    return drawn(partial(_print, text=text)) if Console().is_terminal else text


def markdown(check: Check, registry: Registry) -> str:
    """The document, then the example judged as it is printed. An example that cannot be read or judged is a line."""
    lines = [f"# {check.code} {check.name}", "", *_document(check.doc), *_thresholds(check)]
    file = example.file_of(check)
    if file is None:
        return "\n".join(lines).rstrip() + "\n"
    try:
        reported = example.read(file)
        for title, scene in (("Fires", reported.fires), ("Stays quiet", reported.quiet)):
            lines += [f"## {title}", "", *_scene(scene), *_verdict(example.judge(scene, registry), check), ""]
    except InputError as error:
        lines += [f"The example cannot be judged: {escaped(str(error))}"]
    return "\n".join(lines).rstrip() + "\n"


def _print(console: Console, text: str) -> None:
    # Lines of prose are hard to read where they are much longer; code is cut nowhere.
    console.print(Markdown(text), width=min(console.width, _WIDEST))


def _document(doc: str) -> Iterator[str]:
    """A docstring with indented parts as headings and prose."""
    end = 0
    for part in _PART.finditer(doc + "\n"):
        if before := doc[end : part.start()].strip():
            yield from (_prose(before), "")
        yield from (f"## {part['title']}", "", _prose(textwrap.dedent(part["body"])).strip(), "")
        end = part.end()
    yield from (_prose(doc[end:]).strip(), "") if doc[end:].strip() else ()


def _thresholds(check: Check) -> Iterator[str]:
    if not check.thresholds:
        return
    yield from ("## Thresholds", "", f"A project sets them in its settings, below `[thresholds.{check.code}]`:", "")
    for one in check.thresholds.values():
        yield f"- `{one.name}` (usually {one.usual:g}): {_plain(one.says)}"
    yield ""


def _prose(text: str) -> str:
    """Text in which code is marked already, with its addresses as links and nothing else acted on."""
    parts = _CODE.split(text)
    return "".join(part if place % 2 else _linked(part) for place, part in enumerate(parts))


def _linked(text: str) -> str:
    shown, end = [], 0
    for url in _URL.finditer(text):
        shown += [_plain(text[end : url.start()]), f"<{url[0]}>"]
        end = url.end()
    return "".join([*shown, _plain(text[end:])])


def _plain(text: str) -> str:
    return re.sub(r"[*\[\]]|(?<!\w)_|_(?!\w)", lambda found: f"\\{found[0]}", text.replace("<", "&lt;"))


def _scene(scene: Scene) -> Iterator[str]:
    for part in scene.parts:
        if isinstance(part, Block):
            yield from (f"`{part.name}`{', changed' if part.kind == 'diff' else ''}:", "")
            fence, text, end = fenced(part.text.rstrip("\n"))
            yield from (f"{fence}{part.kind}", text, end, "")
        else:
            yield from (part.strip(), "")


def _verdict(report: Report, check: Check) -> Iterator[str]:
    for result in report.results:
        if result.code == check.code and not result.findings:
            yield f"**{result.outcome.value}**"
    for finding in (finding for finding in report.findings if finding.code == check.code):
        yield f"**{finding.severity.value}**: {escaped(finding.message)}"
        if finding.fixes:
            yield ""
        for fix in finding.fixes:
            spelled = "; ".join([words.spelled(edit) for edit in fix.edits] or fix.commands)
            code = " ".join(spelled.split()).replace("`", "'")
            yield f"- fix: {escaped(fix.title)}" + (f": `{code}`" if code else "")
