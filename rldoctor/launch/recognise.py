"""Finds the launches that a file holds, and the dialect that reads each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.native import Native
from rldoctor.formats.shell.reader import Command, Variable, read_shell
from rldoctor.formats.shell.rest import is_rest, lost
from rldoctor.formats.source import Files, Source
from rldoctor.formats.yaml.reader import YamlFile
from rldoctor.frameworks import all_dialects, by_name
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.launch import KnownOptions, Launch, VersionOf
from rldoctor.launch.launchers.program import Program
from rldoctor.launch.launchers.unwrap import unwrap
from rldoctor.launch.schedulers import kubernetes, slurm
from rldoctor.launch.schedulers.allocation import settled
from rldoctor.launch.server import joined
from rldoctor.plan.model import Form, Note, Place, RolloutPlan, Setting
from rldoctor.plan.model import Source as From

MAX_LAYERS = 5
_SHELL_LINE = re.compile(r"#!.*\b(ba|z|da|k)?sh\b|#SBATCH\b")
# The generic dialect's own claim; a launch that nobody else claims is kept only where it yields something.
WEAK = 1
# The claim from which a launch is plainly a framework's: its entry point, its sections, its imports.
PLAIN = 50


@dataclass
class _Reader:
    """What all launches of one target share."""

    path: Path
    environment: Mapping[str, str]
    arguments: Sequence[str] | None
    version_of: VersionOf
    known: KnownOptions
    files: Files
    shared: dict[str, Setting] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def launch(self, **facts: Any) -> Launch:
        process = settled({**self.shared, **facts.pop("process", {})})
        return Launch(files=self.files, known=self.known, version_of=self.version_of, process=process, **facts)


def read(
    path: str | Path,
    framework: str | None = None,
    version_of: Callable[[str], str | None] | Mapping[str, str] | None = None,
    known: KnownOptions | None = None,
    environment: Mapping[str, str] | None = None,
    kept: Mapping[str, str] | None = None,
    arguments: Sequence[str] | None = None,
) -> list[RolloutPlan]:
    """The plans of the launches that a file holds, in its order; empty where it starts nothing that is understood.

    ``framework`` forces a dialect. ``version_of`` gives the version of a package, ``known`` the options of an owner in
    a version, ``environment`` the variables of the shell that would start the file, ``kept`` the texts of all files
    where they come from a bundle, ``arguments`` what a script is given. Raises :class:`InputError` with one line (file,
    and line number where there is one) where the file cannot be read, or the framework is not known."""
    path = Path(path)
    forced = None
    if framework is not None:
        forced = by_name(framework)
        if forced is None:
            names = ", ".join(dialect.name for dialect in all_dialects())
            raise InputError(f"{framework}: no such framework; known are {names}")
    version = version_of.get if isinstance(version_of, Mapping) else version_of or (lambda name: None)
    reader = _Reader(
        path=path,
        environment=environment or {},
        arguments=arguments,
        version_of=version,
        known=known or (lambda owner, of: None),
        files=Files(path.parent, kept),
    )
    launches = list(_launches(reader.files.source(path), reader))
    chosen = _chosen(launches, forced)
    plans = [dialect.read(launch) for launch, dialect in chosen]
    if forced is not None and not any(given.option for plan in plans for given in plan.given):
        raise InputError(f"{path}: nothing in it is a setting of {forced.name}, as which --framework reads it")
    return joined([replace(plan, notes=(*plan.notes, *reader.notes)) for plan in plans])


def read_printed(
    commands: Sequence[Source],
    settings: Sequence[tuple[YamlFile, str]],
    version_of: VersionOf,
    known: KnownOptions,
    environment: Mapping[str, str],
) -> list[RolloutPlan]:
    """The plans of what a log shows of a launch: ``commands`` as a shell takes them, and whole ``settings`` as a
    program printed them, with the program's name where it is known. No file that they name is opened: they ran
    elsewhere."""
    files = Files(Path(), kept={})
    reader = _Reader(Path(), environment, None, version_of, known, files)
    launches = [launch for source in commands for launch in _shell(source, reader, environment, 0, "", 0)]
    launches += [
        reader.launch(file=tree.source.file, line=tree.source.first_line, entry=entry, place=None, tree=tree)
        for tree, entry in settings
    ]
    plain = [(launch, dialect) for launch, dialect in _chosen(launches, None) if dialect.claims(launch) >= PLAIN]
    return joined([dialect.read(launch) for launch, dialect in plain])


def _chosen(launches: list[Launch], forced: Dialect | None) -> list[tuple[Launch, Dialect]]:
    if forced is not None:
        claimed = [(launch, forced) for launch in launches if forced.claims(launch)]
        if not claimed:
            _refuse_anothers(launches, forced)
        return claimed or [(launch, forced) for launch in launches if _starts_python(launch)]
    found = []
    for launch in launches:
        claims = [(dialect.claims(launch), dialect) for dialect in all_dialects()]
        score, dialect = max(claims, key=lambda pair: pair[0])
        if score:
            found.append((score, launch, dialect))
    # A data preparation step beside a real launch is no launch.
    strong = [entry for entry in found if entry[0] > WEAK]
    return [(launch, dialect) for _, launch, dialect in strong or found]


def _refuse_anothers(launches: list[Launch], forced: Dialect) -> None:
    """Raises :class:`InputError` where a launch is plainly of another framework than the one that was named."""
    for launch in launches:
        score, dialect = max(((d.claims(launch), d) for d in all_dialects()), key=lambda pair: pair[0])
        if score >= PLAIN:
            what = launch.entry or "what it sets"
            raise InputError(
                f"{launch.file}:{launch.line}: {what} is {dialect.name}'s, not {forced.name}'s; leave --framework out"
            )


def _starts_python(launch: Launch) -> bool:
    return launch.tree is not None or launch.python is not None or bool(launch.words)


def _launches(source: Source, reader: _Reader) -> Iterator[Launch]:
    kind = kind_of(source)
    if kind == "notebook":
        yield from _notebook_target(source, reader)
    elif kind == "python":
        yield _python_target(source, reader)
    elif kind in ("yaml", "toml"):
        yield from _config_target(source, reader, kind)
    else:
        yield from _script(source, reader, reader.environment, reader.arguments, 0)


def kind_of(source: Source) -> str:
    """``notebook``, ``python``, ``yaml``, ``toml`` or ``shell``: by the file's name, else by how its text begins."""
    suffix = Path(source.file).suffix.lower()
    if suffix == ".ipynb":
        return "notebook"
    if suffix == ".py":
        return "python"
    if suffix in (".yaml", ".yml", ".json"):
        return "yaml"
    if suffix == ".toml":
        return "toml"
    if suffix in (".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".batch") or _SHELL_LINE.search(source.text[:2000]):
        return "shell"
    first = source.text[:200].splitlines()[:1]
    if first and first[0].startswith("#!") and "python" in first[0]:
        return "python"
    return "yaml" if re.match(r"(\s*#.*\n|\s*\n|---\s*\n)*[\w.-]+:(\s|$)", source.text) else "shell"


def _python_target(source: Source, reader: _Reader) -> Launch:
    from rldoctor.formats.python.reader import read_python

    python = read_python(source)
    variables = _given(reader.environment)
    variables.update({native.key: native for native in python.variables()})
    process = {"process.launcher": _plain(source.file, 1), **_guard(python.main_guard)}
    return reader.launch(
        file=source.file,
        line=1,
        entry=Path(source.file).name,
        place=None,
        python=python,
        variables=variables,
        process=process,
    )


def _notebook_target(source: Source, reader: _Reader) -> Iterator[Launch]:
    from rldoctor.formats.notebook.reader import read_notebook

    book = read_notebook(source)
    reader.files.written.update(book.files)
    reader.notes += book.notes
    launch = _python_target(book.python, reader)
    # A notebook's code is no module that a child process could import.
    launch.process.pop("process.main_guard", None)
    yield launch
    yield from _shell(book.shell, reader, reader.environment, -1, "", 0)


def _config_target(source: Source, reader: _Reader, kind: str) -> Iterator[Launch]:
    if kind == "toml":
        from rldoctor.formats.toml import read_toml

        tree = read_toml(source)
    else:
        from rldoctor.formats.yaml.reader import read_all, read_yaml

        if kubernetes.is_manifest(source.text):
            jobs = list(kubernetes.jobs(read_all(source), source))
            for job in jobs:
                yield from _manifest(job, reader)
            if jobs:
                return
        tree = read_yaml(source)
    script = tree.get("run")
    if isinstance(script, str) and "\n" in script:
        # A job description (SkyPilot and the like): the launch is the shell text under "run".
        inner = Source(script, source.file, (tree.line("run") or 0) + 1)
        yield from _shell(inner, reader, reader.environment, -1, "", 0)
        return
    yield reader.launch(
        file=source.file,
        line=1,
        entry="",
        place=Place(form=Form.YAML, file=source.file, line=1) if kind == "yaml" else None,
        tree=tree,
        variables=_given(reader.environment),
    )


def _manifest(job: kubernetes.Job, reader: _Reader) -> Iterator[Launch]:
    """The launches that the pods of a Kubernetes job run."""
    reader.shared = dict(job.settings)
    for script in job.scripts:
        yield from _shell(script, reader, {**job.variables, **reader.environment}, -1, "", 0)


def _script(
    source: Source, reader: _Reader, environment: Mapping[str, str], arguments: Sequence[str] | None, layer: int
) -> Iterator[Launch]:
    """The launches of a shell script, with the variables that a scheduler sets for what it asks of it."""
    reader.shared.update(slurm.directives(source))
    known = {**slurm.variables(source), **environment}
    yield from _shell(source, reader, known, 0, "", layer, arguments)


def _shell(
    source: Source,
    reader: _Reader,
    environment: Mapping[str, str],
    offset: int,
    inside: str,
    layer: int,
    arguments: Sequence[str] | None = None,
) -> Iterator[Launch]:
    script = read_shell(source, environment, offset, inside, arguments, reader.files.open)
    reader.notes += script.notes
    reader.files.written.update(script.files)
    before: Command | None = None
    launch: Launch | None = None
    for command in script.commands:
        cut = launch is not None and before is not None and is_rest(before, command)
        before = command
        if cut and launch is not None:
            launch.cut_off.append(lost(command, source.file))
            continue
        launch = None
        program = unwrap(command.words, source.file, reader.files)
        if program is None:
            continue
        if program.entry == "ray start":
            for name, value in program.process.items():
                reader.shared[name] = replace(value, file=source.file, line=command.line)
        elif program.text is not None or program.shell:
            yield from _nested(source, reader, command, program, layer)
        elif program.entry:
            launch = _command_launch(source, reader, command, program)
            yield launch


def _nested(source: Source, reader: _Reader, command: Command, program: Program, layer: int) -> Iterator[Launch]:
    """The launches of another shell: of the text that a command hands to it, or of the script that it starts."""
    if layer >= MAX_LAYERS:
        return
    known = {name: v.value for name, v in command.environment.items() if isinstance(v.value, str)}
    known.update({name: n.value for name, n in program.variables.items() if isinstance(n.value, str)})
    for launch in _inner(source, reader, command, program, known, layer):
        outer = _exported(command, source.file)
        outer.update(program.variables)
        launch.variables = {
            **launch.variables,
            **{n: v for n, v in outer.items() if n not in launch.variables or not launch.variables[n].line},
        }
        # What sbatch is told comes before the lines of the script that it starts.
        job = {n: s for n, s in program.process.items() if n.startswith("scheduler.") and "step" not in n}
        launch.process = settled({**program.process, **launch.process, **job})
        if command.background:
            launch.background = True
            launch.process["process.background"] = Setting(value=True, file=source.file, line=command.line)
        yield launch


def _inner(
    source: Source, reader: _Reader, command: Command, program: Program, known: Mapping[str, str], layer: int
) -> Iterator[Launch]:
    word = program.text
    given = [argument.value for argument in program.words]
    arguments = [text for text in given if isinstance(text, str)]
    handed = arguments if len(arguments) == len(given) and not any(w.open for w in program.words) else None
    if word is not None:
        quote = word.raw[:1] if word.raw[:1] in "'\"" else ""
        inner = Source(word.text, word.file or source.file, word.line)
        yield from _shell(
            inner, reader, known, -1 if word.file else word.content, quote, layer + 1, handed[1:] if handed else handed
        )
        return
    name, file = program.script or "", command.file or source.file
    try:
        script = reader.files.open(name) if kind_of(Source("", name)) == "shell" else None
    except InputError as error:
        reader.notes.append(Note(text=str(error), file=file, line=command.line))
        return
    if script is None:
        reader.notes.append(Note(text=f"{name}: another script, not found here", file=file, line=command.line))
    elif kind_of(script) == "shell" and Path(script.file).resolve() != Path(source.file).resolve():
        yield from _script(script, reader, known, handed, layer + 1)


def _command_launch(source: Source, reader: _Reader, command: Command, program: Program) -> Launch:
    file = command.file or source.file
    variables = _exported(command, source.file)
    variables.update(program.variables)
    process = dict(program.process)
    if program.python and "process.launcher" not in process:
        process["process.launcher"] = _plain(file, command.line)
    if command.background:
        process["process.background"] = Setting(value=True, file=file, line=command.line)
    launch = reader.launch(
        file=file,
        line=command.line,
        entry=program.entry,
        place=Place(form=Form.OPTION, file=file, line=command.line, group=program.entry),
        words=program.words,
        variables=variables,
        process=process,
        background=command.background,
        notes=[Note(text=text, file=file, line=command.line) for text in program.notes],
    )
    _follow(launch, program, command)
    return launch


def _follow(launch: Launch, program: Program, command: Command) -> None:
    """Reads the Python script that a command starts, where it is at hand."""
    from rldoctor.formats.python.reader import read_python

    if not program.python:
        return
    script = command.stdin if program.script is None and program.entry == "python" else None
    try:
        if program.script is not None and program.script.endswith(".py"):
            script = launch.files.open(program.script)
        if script is None:
            return
        launch.python = read_python(script)
    except InputError as error:
        launch.notes.append(Note(text=str(error), file=launch.file, line=launch.line, unread=True))
        return
    launch.process.update(_guard(launch.python.main_guard))
    for native in launch.python.variables():
        launch.variables.setdefault(native.key, native)


def _exported(command: Command, file: str) -> dict[str, Native]:
    return {name: _native(name, variable, file) for name, variable in command.environment.items()}


def _native(name: str, variable: Variable, file: str) -> Native:
    own = variable.words[0].file if variable.words else ""
    place = {"file": (own or file) if variable.line else "", "line": variable.line}
    raw = variable.words[0].raw if variable.words else ""
    return Native(key=name, spelled=name, value=variable.value, form=Form.VARIABLE, raw=raw, **place)  # type: ignore[arg-type]


def _given(environment: Mapping[str, str]) -> dict[str, Native]:
    return {
        name: Native(key=name, spelled=name, value=value, file="", line=0, form=Form.VARIABLE)
        for name, value in environment.items()
    }


def _plain(file: str, line: int) -> Setting:
    return Setting(value="none", source=From.DERIVED, how="started by python itself", file=file, line=line)


def _guard(found: bool) -> dict[str, Setting]:
    return {"process.main_guard": Setting(value=found, source=From.DERIVED, how="read from the script")}
