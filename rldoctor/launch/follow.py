"""Follows a launch file to what it starts: through the scripts, shells, recipes, manifests and Python programs that
lie on the way."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldoctor.errors import InputError
from rldoctor.formats.kinds import kind_of
from rldoctor.formats.native import Native
from rldoctor.formats.shell.machine import Machine
from rldoctor.formats.shell.reader import Command, Variable, Word, read_shell
from rldoctor.formats.shell.rest import is_rest, lost
from rldoctor.formats.source import Files, Source
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks import likely_dialects
from rldoctor.frameworks.launch import KnownOptions, Launch, VersionOf
from rldoctor.launch.launchers.program import Program
from rldoctor.launch.launchers.tables import CLUSTERS
from rldoctor.launch.launchers.unwrap import unwrap
from rldoctor.launch.schedulers import lsf, pbs, slurm
from rldoctor.launch.schedulers.allocation import settled
from rldoctor.plan.model import Form, Note, Place, Setting
from rldoctor.plan.model import Source as From
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.formats.python.reader import PythonFile
    from rldoctor.launch.schedulers import kubernetes

MAX_LAYERS = 5
# How a launcher comes about where python is named and nothing before it.
_BY_ITSELF = "started by python itself"
# The variables that a shell is given; some are known to be there and not what they are.
Environment = Mapping[str, str | Unresolved]


@dataclass
class Reader:
    """What all launches of one target share."""

    path: Path
    environment: Mapping[str, str]
    arguments: Sequence[str] | None
    version_of: VersionOf
    known: KnownOptions
    files: Files
    # What else the shell that starts it has: it fills in what the files say, and is no fact of the launch.
    caller: Mapping[str, str] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine)
    # What it may have besides, and of which nobody knows more than the name.
    given: Mapping[str, Unresolved] = field(default_factory=dict)
    shared: dict[str, Setting] = field(default_factory=dict)
    # What a heterogeneous job asks for besides, component by component.
    components: tuple[dict[str, Setting], ...] = ()
    notes: list[Note] = field(default_factory=list)
    # Where scripts leave something out because a variable, the text, is not set.
    left_out: list[Note] = field(default_factory=list)
    # Whether the file has ended the Ray of this machine by now.
    stopped: bool = False
    # Of a notebook: the first line and the number of each code cell.
    cells: tuple[tuple[int, int], ...] = ()

    @property
    def filling(self) -> dict[str, str]:
        """The variables that the files' own text may use."""
        return {**self.caller, **self.environment}

    def is_callers(self, name: str, variable: Variable) -> bool:
        """Whether a variable is only there because the caller's shell has it."""
        return not variable.line and name in self.caller and name not in self.environment

    def launch(self, **facts: Any) -> Launch:
        own = facts.pop("process", {})
        process = settled({**self._allocated(own.get("scheduler.component")), **own})
        return Launch(files=self.files, known=self.known, version_of=self.version_of, process=process, **facts)

    def _allocated(self, component: Setting | None) -> dict[str, Setting]:
        """What is asked for where a launch runs; of a component that is not known, its scheduler alone."""
        if component is None or component.value == 0:
            return self.shared
        kept = {n: s for n, s in self.shared.items() if n == "scheduler.name" or not n.startswith("scheduler.")}
        number = component.value or 0
        return {**kept, **(self.components[number - 1] if 0 < number <= len(self.components) else {})}


def launches(source: Source, reader: Reader) -> Iterator[Launch]:
    kind = kind_of(source)
    if kind == "notebook":
        yield from _notebook_target(source, reader)
    elif kind == "python":
        launch = _python_target(source, reader)
        yield launch
        yield from _started(launch.python, reader)
    elif kind in ("make", "just"):
        yield from _recipes(source, reader, kind, reader.arguments, reader.filling, 0)
    elif kind in ("yaml", "toml"):
        yield from _config_target(source, reader, kind)
    else:
        yield from _script(source, reader, {**reader.given, **reader.filling}, reader.arguments, 0)


def launches_of_text(source: Source, reader: Reader, environment: Mapping[str, str]) -> Iterator[Launch]:
    """The launches of a shell text that stands where a file would."""
    return _shell(source, reader, environment, 0, "", 0)


def _python_target(source: Source, reader: Reader) -> Launch:
    from rldoctor.formats.python.reader import read_python

    python = read_python(source)
    variables = _given(reader.environment)
    variables.update({native.key: native for native in python.variables()})
    process = {"process.launcher": _plain(source.file, 1), **_guard(python.main_guard)}
    if reader.machine.has_one_device:  # however it is started
        one = Setting(value=1, source=From.DERIVED, how="the machine has one device", file=source.file, line=1)
        process["process.total"] = one
    return reader.launch(
        file=source.file,
        line=1,
        entry=Path(source.file).name,
        place=None,
        python=python,
        variables=variables,
        process=process,
    )


def _notebook_target(source: Source, reader: Reader) -> Iterator[Launch]:
    from rldoctor.formats.notebook.reader import read_notebook

    book = read_notebook(source)
    reader.files.written.update(book.files)
    reader.notes += book.notes
    reader.cells = tuple((line, number) for number, line in book.cells.items())
    launch = _python_target(book.python, reader)
    # A notebook's code is no module that a child process could import.
    launch.process.pop("process.main_guard", None)
    if "notebook_launcher" not in book.python.text:
        one = Setting(value=1, source=From.DERIVED, how="a notebook is one process", file=source.file, line=1)
        launch.process["process.total"] = one
    yield launch
    yield from _started(launch.python, reader)
    yield from _shell(book.shell, reader, reader.filling, -1, "", 0)


def _config_target(source: Source, reader: Reader, kind: str) -> Iterator[Launch]:
    from rldoctor.launch.schedulers import compose, dstack, kubernetes, skypilot

    if kind == "toml":
        from rldoctor.formats.toml.reader import read_toml

        tree = read_toml(source)
    else:
        from rldoctor.formats.yaml.reader import read_yaml

        if kubernetes.is_of_chart(source, reader.files):
            raise InputError(f"{source.file}: part of a Helm chart; hand over what `helm template` prints of it")
        if kubernetes.is_manifest(source.text):
            jobs = _jobs(source, reader)
            for job in jobs:
                yield from _manifest(job, reader)
            if jobs:
                return
        tree = read_yaml(source)
    services = list(compose.commands(tree)) if kind != "toml" else []
    for inner, variables in services:
        yield from _shell(inner, reader, {**variables, **reader.filling}, -1, "", 0)
    if services:
        return
    task = dstack.script(tree) if kind != "toml" else None
    if task is not None:
        reader.shared.update(dstack.settings(tree))
        yield from _shell(task, reader, {**dstack.variables(tree), **reader.filling}, -1, "", 0)
        return
    script = tree.get("run")
    if isinstance(script, str) and "\n" in script:
        # A job description (SkyPilot and the like): the launch is the shell text under "run".
        reader.shared.update(skypilot.settings(tree))
        inner = Source(script, source.file, (tree.line("run") or 0) + 1)
        yield from _shell(inner, reader, {**skypilot.variables(tree), **reader.filling}, -1, "", 0)
        return
    yield reader.launch(
        file=source.file,
        line=1,
        entry="",
        place=Place(form=Form.YAML, file=source.file, line=1),
        tree=tree,
        variables=_given(reader.environment),
    )


def _script(
    source: Source, reader: Reader, environment: Environment, arguments: Sequence[str | Word] | None, layer: int
) -> Iterator[Launch]:
    """The launches of a shell script, with the variables that a scheduler sets for what it asks of it."""
    for scheduler in (slurm, pbs, lsf):
        reader.shared.update(scheduler.directives(source))
    reader.components = slurm.other_components(source)
    known = {**slurm.variables(source), **environment}
    yield from _shell(source, reader, known, 0, "", layer, arguments)


def _shell(
    source: Source,
    reader: Reader,
    environment: Environment,
    offset: int,
    inside: str,
    layer: int,
    arguments: Sequence[str | Word] | None = None,
) -> Iterator[Launch]:
    script = read_shell(source, environment, offset, inside, arguments, reader.files.open, reader.machine)
    reader.notes += script.notes
    reader.left_out += script.left_out
    reader.files.written.update(script.files)
    yield from _commands(source, script.commands, reader, layer)


# A second head of a file (``ray start --head ... || ray start --head --port ...``) makes open which one is joined.
_RAY_PORTS = ("ray.head_port", "ray.joined_port")
# Options with which every program only tells how it is used.
_HELP = ("--help", "-h")
# What they are given is text, even where it looks like the options of a launch.
_PRINTERS = ("echo", "printf")


def _commands(source: Source, commands: Iterable[Command], reader: Reader, layer: int) -> Iterator[Launch]:
    before: Command | None = None
    launch: Launch | None = None
    running: list[Launch] = []
    for command in commands:
        if command.words[0].value == "wait":
            running = []
        cut = launch is not None and before is not None and is_rest(before, command)
        before = command
        if cut and launch is not None:
            launch.cut_off.append(lost(command, source.file))
            launch.dropped += [word.text.partition("=")[0] for word in command.words]
            continue
        launch = None
        if command.words[0].value in _PRINTERS:
            continue
        program = unwrap(command.words, source.file, reader.files)
        if program is None:
            continue
        if program.entry == "ray stop":
            reader.stopped = reader.stopped or not program.where
        elif program.entry == "ray start":
            for name, value in program.process.items():
                if name.startswith("scheduler."):
                    continue  # the step that starts Ray is not the one that starts the run
                earlier = reader.shared.get(name)
                if name == "ray.ports":
                    here = not program.where and not program.own_ports
                    found = {"line": command.line, "here": here, "stopped": here and reader.stopped}
                    started = [{**found, **node} for node in value.value]
                    value = replace(value, value=[*(earlier.value if earlier else ()), *started])
                if name in _RAY_PORTS and earlier is not None and earlier.value != value.value:
                    value = replace(value, value=None, unknown="the file starts Ray at several ports")
                reader.shared[name] = replace(value, file=source.file, line=command.line)
        elif program.entry in ("make", "just"):
            yield from _recipes_of(program, reader, command, layer)
        elif program.entry in CLUSTERS:
            yield from _applied(program, reader, command)
        elif program.entry and any(word.value in _HELP for word in program.words):
            text = f"{program.entry} prints its help and starts nothing"
            reader.notes.append(Note(text=text, file=command.file or source.file, line=command.line))
        elif program.text is not None or program.shell or (program.reads and command.stdin is not None):
            inner = list(_nested(source, reader, command, program, layer))
            for one in inner:
                one.where, one.own_ports = program.where + one.where, program.own_ports or one.own_ports
                one.beside += running
            running += inner if command.background else []
            yield from inner
        elif program.entry:
            launch = _command_launch(source, reader, command, program)
            launch.beside += running
            running += [launch] if command.background else []
            yield launch
            yield from _started(launch.python, reader, layer, launch.variables)


def _started(
    python: PythonFile | None, reader: Reader, layer: int = 0, variables: Mapping[str, Native] | None = None
) -> Iterator[Launch]:
    """The launches that a Python program starts with words of its own; ``variables`` are those that it is given."""
    from rldoctor.formats.python.started import started, submitted

    if python is None or layer >= MAX_LAYERS:
        return
    source = python.source
    asked = {
        name: Setting(value=value, file=source.file, line=line, key=key)
        for key, (value, line) in submitted(python).items()
        if (name := _SUBMITTED.get(key)) is not None
    }
    given = {**_given(reader.environment), **(variables or {})}
    given.update({native.key: native for native in python.variables()})
    helpers = {name: helper for one in likely_dialects(source.text) for name, helper in one.helpers.items()}
    for call in started(python, helpers):
        inner = {name: _variable_of(source, name, word) for name, word in call.variables}
        own = {n: native.value for n, native in (given | inner).items() if isinstance(native.value, str)}
        known = {**reader.caller, **own}
        if call.text is not None:
            found = _shell(Source(call.text, source.file, call.line), reader, known, -1, '"', layer + 1)
        else:
            environment = {name: _as_variable(native) for name, native in (given | inner).items()}
            command = Command(call.words, environment, call.line, call.line)
            found = _commands(source, [command], reader, layer + 1)
        for launch in found:
            launch.process = settled({**asked, **launch.process})
            yield launch


# https://github.com/facebookincubator/submitit: what it asks the scheduler for
_SUBMITTED = {
    "nodes": "scheduler.nodes",
    "gpus_per_node": "scheduler.gpus_per_node",
    "tasks_per_node": "scheduler.tasks_per_node",
    "ntasks_per_node": "scheduler.tasks_per_node",
}


def _jobs(source: Source, reader: Reader) -> list[kubernetes.Job]:
    from rldoctor.formats.yaml.reader import read_all
    from rldoctor.launch.schedulers import kubernetes

    documents = read_all(source)
    reader.files.written.update(kubernetes.files(documents, source))
    return list(kubernetes.jobs(documents, source))


_APPLYING = ("apply", "create", "replace")
_MANIFESTS = ("-f", "--filename")


def _applied(program: Program, reader: Reader, command: Command) -> Iterator[Launch]:
    """The launches of the manifests that ``kubectl apply`` is given."""
    from rldoctor.launch.schedulers import kubernetes

    words = [word.text for word in program.words]
    # Options may stand before the verb, each with its value behind it.
    behind_options = {at + 1 for at, word in enumerate(words) if word.startswith("-") and "=" not in word}
    spoken = (w for at, w in enumerate(words) if w in _APPLYING or (w[:1] != "-" and at not in behind_options))
    if next(spoken, None) not in _APPLYING:
        return
    given = [after for word, after in pairwise(words) if word in _MANIFESTS]
    given += [word.partition("=")[2] for word in words if word.startswith(tuple(f"{name}=" for name in _MANIFESTS))]
    for name in (name for names in given for name in names.split(",")):
        source = command.stdin if name == "-" else _opened(reader.files, command, name)
        if source is None:
            text = f"{name}: a manifest, not found here"
            reader.notes.append(Note(text=text, file=command.file or str(reader.path), line=command.line))
        elif kubernetes.is_manifest(source.text):
            shared = reader.shared
            try:
                jobs = _jobs(source, reader)
            except InputError as error:  # a template that something fills in before, most likely
                jobs = []
                reader.notes.append(Note(text=str(error), file=command.file or str(reader.path), line=command.line))
            for job in jobs:
                yield from _manifest(job, reader)
            reader.shared = shared


def _manifest(job: kubernetes.Job, reader: Reader) -> Iterator[Launch]:
    """The launches that the pods of a Kubernetes job run."""
    reader.shared = dict(job.settings)
    for script in job.scripts:
        yield from _shell(script, reader, {**job.variables, **reader.environment}, -1, "", 0)


def _recipes_of(program: Program, reader: Reader, command: Command, layer: int) -> Iterator[Launch]:
    """The launches of what ``make`` or ``just`` is asked for."""
    if layer >= MAX_LAYERS:
        return
    words = [word.text for word in program.words]
    folder, file, rest = "", "", []
    while words:
        word = words.pop(0)
        if word in ("-C", "--directory", "-d", "--working-directory") and words:
            folder = f"{words.pop(0)}/"
        elif word in ("-f", "--file", "--makefile", "--justfile") and words:
            file = words.pop(0)
        elif not word.startswith("-"):
            rest.append(word)
    names = (file,) if file else _RECIPES[program.entry]
    known = {name: v.value for name, v in command.environment.items() if isinstance(v.value, str)}
    for name in names:
        try:
            source = reader.files.open(folder + name)
        except InputError as error:
            reader.notes.append(Note(text=str(error), file=command.file or reader.path.name, line=command.line))
            return
        if source is not None:
            yield from _recipes(source, reader, program.entry, rest, known, layer + 1)
            return
    text = f"{program.entry} {' '.join(rest)}: its file was not found here"
    reader.notes.append(Note(text=text, file=command.file or str(reader.path), line=command.line))


_RECIPES = {"make": ("GNUmakefile", "makefile", "Makefile"), "just": ("justfile", "Justfile", ".justfile")}


def _recipes(
    source: Source,
    reader: Reader,
    kind: str,
    words: Sequence[str] | None,
    environment: Mapping[str, str],
    layer: int,
) -> Iterator[Launch]:
    """The launches of a makefile or justfile: of the targets that are named, or of each that it has."""
    if kind == "make":
        from rldoctor.formats.make.reader import read_make

        given = dict(word.split("=", 1) for word in words or () if "=" in word)
        make = read_make(source, given, reader.files.open)
        named = [word for word in words or () if "=" not in word]
        if words is not None:
            named = named or make.targets()[:1]
        known = {**environment, **make.environment()}
        texts = list(make.commands(named or make.targets(), alone=words is None))
    else:
        from rldoctor.formats.just.reader import read_just

        just = read_just(source)
        known = {**environment, **just.environment()}
        asked = [list(words)] if words is not None else [[name] for name in just.recipes]
        texts = [text for each in asked for text in just.commands(each, alone=words is None)]
    for text in texts:
        yield from _shell(text, reader, known, -1, "", layer + 1)


def _nested(source: Source, reader: Reader, command: Command, program: Program, layer: int) -> Iterator[Launch]:
    """The launches of another shell: of the text that a command hands to it, or of the script that it starts."""
    if layer >= MAX_LAYERS:
        return
    # One whose value is not known is there all the same: the inner script's default for it does not hold.
    known = {name: variable.value for name, variable in command.environment.items()}
    known.update({n: v.value for n, v in program.variables.items() if isinstance(v.value, str | Unresolved)})
    for launch in _inner(source, reader, command, program, known, layer):
        outer = _exported(command, source.file, reader)
        outer.update(program.variables)
        launch.variables = {
            **launch.variables,
            **{n: v for n, v in outer.items() if n not in launch.variables or not launch.variables[n].line},
        }
        # What sbatch is told comes before the lines of the script that it starts.
        job = {n: s for n, s in program.process.items() if n.startswith("scheduler.") and "step" not in n}
        # Plain python in a shell that a launcher starts is started by the launcher.
        own = {n: s for n, s in launch.process.items() if n not in program.process or s.how != _BY_ITSELF}
        launch.process = settled({**program.process, **own, **job})
        if launch.conditional and (step := program.process.get("scheduler.step")) is not None:
            # Each task asks for itself: the one with SLURM_LOCALID 0 starts it, the others wait.
            launch.process["scheduler.step"] = replace(step, value="part", how="behind a condition")
        launch.conditional = launch.conditional or command.conditional
        if command.background:
            launch.background = True
            launch.process["process.background"] = Setting(value=True, file=source.file, line=command.line)
        yield launch


def _inner(
    source: Source, reader: Reader, command: Command, program: Program, known: Environment, layer: int
) -> Iterator[Launch]:
    word = program.text
    handed = program.words
    if word is not None:
        quote = word.raw[:1] if word.raw[:1] in "'\"" else ""
        inner = Source(_as_text(word), word.file or source.file, word.line)
        yield from _shell(inner, reader, known, -1 if word.file else word.content, quote, layer + 1, handed[1:])
        return
    if program.reads:
        if command.stdin is not None:
            yield from _shell(command.stdin, reader, known, -1, '"', layer + 1, handed)
        return
    name, file = program.script or "", command.file or source.file
    try:
        script = _opened(reader.files, command, name) if kind_of(Source("", name)) == "shell" else None
    except InputError as error:
        reader.notes.append(Note(text=str(error), file=file, line=command.line))
        return
    if script is None:
        reader.notes.append(Note(text=f"{name}: another script, not found here", file=file, line=command.line))
    elif kind_of(Source(script.text, name)) == "shell" and not _same_text(script, source):
        yield from _script(script, reader, known, handed, layer + 1)


def _opened(files: Files, command: Command, name: str) -> Source | None:
    """A file that a command names, from the folder in which it runs."""
    inside = posixpath.join(command.folder, name)
    return files.open(inside) or (files.open(name) if inside != name else None)


def _as_text(word: Word) -> str:
    """A word as a shell reads it; what is not known in it stays as it is written, for that shell to expand."""
    if isinstance(word.value, str):
        return word.value
    parts = (piece.text.raw if isinstance(piece.text, Unresolved) else piece.text for piece in word.pieces)
    return "".join(parts) if word.pieces else word.raw


def _same_text(one: Source, other: Source) -> bool:
    """Whether a script starts itself; a manifest's scripts stand in one file."""
    return one.first_line == other.first_line and Path(one.file).resolve() == Path(other.file).resolve()


def _command_launch(source: Source, reader: Reader, command: Command, program: Program) -> Launch:
    file = command.file or source.file
    variables = _exported(command, source.file, reader)
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
        conditional=command.conditional,
        where=program.where,
        own_ports=program.own_ports,
        notes=[Note(text=text, file=file, line=command.line) for text in program.notes],
        refused=program.refused,
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
            script = _opened(launch.files, command, program.script)
        elif program.script is None and program.entry.isidentifier() and program.entry != "python":
            script = _opened(launch.files, command, f"{program.entry}.py")  # -m train
        if script is None:
            return
        launch.python = read_python(script)
    except InputError as error:
        launch.notes.append(Note(text=str(error), file=launch.file, line=launch.line, unread=True))
        return
    launch.process.update(_guard(launch.python.main_guard))
    for native in launch.python.variables():
        launch.variables.setdefault(native.key, native)


def _exported(command: Command, file: str, reader: Reader) -> dict[str, Native]:
    return {
        name: _native(name, variable, file)
        for name, variable in command.environment.items()
        if not reader.is_callers(name, variable)
    }


def _native(name: str, variable: Variable, file: str) -> Native:
    own = variable.words[0].file if variable.words else ""
    return Native(
        key=name,
        spelled=name,
        value=variable.value,
        form=Form.VARIABLE,
        raw=variable.words[0].raw if variable.words else "",
        file=(own or file) if variable.line else "",
        line=variable.line,
    )


def _variable_of(source: Source, name: str, word: Word) -> Native:
    return Native(
        key=name, spelled=name, value=word.value, file=source.file, line=word.line, form=Form.VARIABLE, raw=word.raw
    )


def _as_variable(native: Native) -> Variable:
    raw = native.value.raw if isinstance(native.value, Unresolved) else str(native.value)
    return Variable((Word(native.value, raw, native.line, file=native.file),), native.line, exported=True)


def _given(environment: Mapping[str, str]) -> dict[str, Native]:
    return {
        name: Native(key=name, spelled=name, value=value, file="", line=0, form=Form.VARIABLE)
        for name, value in environment.items()
    }


def _plain(file: str, line: int) -> Setting:
    return Setting(value="none", source=From.DERIVED, how=_BY_ITSELF, file=file, line=line)


def _guard(found: bool) -> dict[str, Setting]:
    return {"process.main_guard": Setting(value=found, source=From.DERIVED, how="read from the script")}
