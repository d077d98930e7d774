"""The worked example of a check: what fires, and how little has to change for it to stay quiet.

An example is a Markdown file with the headings ``## Fires`` and ``## Stays quiet``. Fenced blocks named after a file
(```` ```bash train.sh ````) are the files of a case; under the second heading a ```` ```diff train.sh ```` changes the
one above, and files that it does not name stay as they are."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from rldoctor.catalogue.check import Check
from rldoctor.catalogue.registry import Registry
from rldoctor.errors import InputError
from rldoctor.model import Finding, Level, Report
from rldoctor.records import dataclass

HEADINGS = ("## Fires", "## Stays quiet")
# What the files of a case are by their names; any other name is the launch file's, *.log the log's.
MACHINE, BUNDLE, MODEL = "machine.json", "case.json", "model"

_BLOCK = re.compile(r"^```(?P<kind>\w*) +(?P<name>[\w./-]+)\n(?P<text>.*?)^```$\n?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: a file, or with the kind ``diff`` the change of one."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True)
class Scene:
    """One side of an example: ``parts`` are its paragraphs and blocks as written, ``files`` the texts of its files."""

    parts: tuple[str | Block, ...]
    files: Mapping[str, str]


@dataclass(frozen=True)
class Example:
    """What fires, and what is nearly the same and stays quiet."""

    fires: Scene
    quiet: Scene


def file_of(check: Check) -> Path | None:
    """Where a check's example stands: where the check says, or ``example.md`` in the check's folder, or for a check of
    one file the Markdown file of the same name beside it. None where there is none."""
    if check.example is not None:
        return check.example
    source = getattr(sys.modules.get(check.module), "__file__", None)
    if source is None:
        return None
    module = Path(source)
    file = module.with_name("example.md") if module.name == "__init__.py" else module.with_suffix(".md")
    return file if file.is_file() else None


def read(file: Path) -> Example:
    """Reads an example. Raises :class:`InputError` that says what is wrong with it."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: {error}") from error
    found = re.split(rf"^({'|'.join(HEADINGS)})\n", text, flags=re.MULTILINE)
    if tuple(found[1::2]) != HEADINGS:
        raise InputError(f"{file}: the headings {' and '.join(map(repr, HEADINGS))} are expected, once each")
    fires = _scene(found[2], {}, file)
    return Example(fires, _scene(found[4], fires.files, file))


def judge(scene: Scene, registry: Registry) -> Report:
    """What ``rldoctor check``, or for a log ``rldoctor triage``, says of the scene on a machine of which nothing is
    known but what its files tell. Files go by the names that the example gives them."""
    with tempfile.TemporaryDirectory() as folder:
        report = msgspec.json.encode(_judge_in(Path(folder), scene, registry))
    return msgspec.json.decode(report.replace(f"{folder}/".encode(), b""), type=Report)


def findings(scene: Scene, check: Check, registry: Registry) -> tuple[Finding, ...]:
    """The findings of one check in the scene."""
    return tuple(found for found in judge(scene, registry).findings if found.code == check.code)


def _judge_in(folder: Path, scene: Scene, registry: Registry) -> Report:
    from rldoctor import bundle
    from rldoctor.case import Case
    from rldoctor.flow import examination, run, session
    from rldoctor.project.settings import Settings

    for name, text in {BUNDLE: bundle.dump(Case()), **scene.files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    logs = [str(folder / name) for name in scene.files if name.endswith(".log")]
    launches = [folder / name for name in scene.files if is_launch(name)]
    opened = session.Session(
        options=session.Options(
            target=launches[0] if launches else None,
            model=folder / MODEL if (folder / MODEL).is_dir() else None,
            assume=(str(folder / MACHINE),) if MACHINE in scene.files else (),
            bundles=(folder / BUNDLE,),
        ),
        settings=Settings(),
        registry=registry,
        checks=registry.select(),
        probes=[],
        level=Level.STATIC,
    )
    if logs:
        return run.triage(opened, logs, False, lambda text: None)
    return examination.join([one.report for one in run.examine(opened, lambda text: None)])


def is_launch(name: str) -> bool:
    """Whether a file of an example is the launch, and not the machine, a model's or a log."""
    return name not in (MACHINE, BUNDLE) and not name.endswith(".log") and not name.startswith(f"{MODEL}/")


def _scene(text: str, before: Mapping[str, str], file: Path) -> Scene:
    parts = tuple(_parts(text))
    files = dict(before)
    for part in parts:
        if isinstance(part, Block):
            files[part.name] = _changed(files, part, file) if part.kind == "diff" else part.text
        elif "```" in part:
            raise InputError(f"{file}: a block that names no file, or has no end; ```bash train.sh is one that does")
    if not files:
        raise InputError(f"{file}: no block names a file, such as ```bash train.sh")
    return Scene(parts, files)


def _parts(text: str) -> Iterator[str | Block]:
    end = 0
    for match in _BLOCK.finditer(text):
        yield from _paragraphs(text[end : match.start()])
        yield Block(match["kind"], match["name"], match["text"])
        end = match.end()
    yield from _paragraphs(text[end:])


def _paragraphs(text: str) -> Iterator[str]:
    yield from (part.strip() for part in text.split("\n\n") if part.strip())


def _changed(files: Mapping[str, str], block: Block, file: Path) -> str:
    """The file with the lines after ``-`` replaced by those after ``+``; lines after a space stand around them."""
    lines = block.text.splitlines(keepends=True)
    old = "".join(line[1:] or line for line in lines if line[0] != "+")
    new = "".join(line[1:] or line for line in lines if line[0] != "-")
    text = files.get(block.name, "")
    if not old or text.count(old) != 1:
        raise InputError(f"{file}: what the diff of {block.name} takes away stands there {text.count(old)} times")
    return text.replace(old, new)
