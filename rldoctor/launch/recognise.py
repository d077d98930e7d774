"""Finds the launches that a file holds, and the dialect that reads each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rldoctor.errors import InputError, OutOfScopeError, meant_or_known
from rldoctor.formats.shell.machine import Machine
from rldoctor.formats.source import Files, Source
from rldoctor.formats.values import Unresolved
from rldoctor.formats.yaml.reader import YamlFile
from rldoctor.frameworks import Framework, all_dialects, by_name, last_dialects, likely_dialects, trainers
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.launch import KnownOptions, Launch, VersionOf
from rldoctor.launch.follow import Reader, launches, launches_of_text
from rldoctor.launch.relations import joined, together
from rldoctor.plan.model import Note, RolloutPlan

# The generic dialect's own claim; a launch that nobody else claims is kept only where it yields something.
WEAK = 1
# The claim from which a launch is plainly a framework's: its entry point, its sections, its imports.
PLAIN = 50
# A file of more launches is a sweep that a program wrote, and each of them is judged by every check.
MOST_LAUNCHES = 200
_MOST_ASKED = 4


def read(
    path: str | Path,
    framework: str | None = None,
    version_of: Callable[[str], str | None] | Mapping[str, str] | None = None,
    known: KnownOptions | None = None,
    environment: Mapping[str, str] | None = None,
    kept: Mapping[str, str] | None = None,
    arguments: Sequence[str] | None = None,
    caller: Mapping[str, str] | None = None,
    machine: Machine | None = None,
) -> list[RolloutPlan]:
    """The plans of the launches that a file holds, in its order; empty where it starts nothing that is understood.

    ``framework`` forces a dialect. ``version_of`` gives the version of a package, ``known`` the options of an owner in
    a version, ``environment`` the variables of the shell that would start the file, ``kept`` the texts of all files
    where they come from a bundle, ``arguments`` what a script is given, ``caller`` variables that fill in what the
    files say and are none of the plan's, ``machine`` the one that scripts ask. Raises
    :class:`InputError` with one line (file, and line number where there is one) where the file cannot be read, or the
    framework is not known."""
    path = Path(path)
    forced = None
    if framework is not None:
        forced = by_name(framework)
        if forced is None:
            names = [dialect.name for dialect in all_dialects()]
            raise InputError(f"{framework}: no such framework; {meant_or_known(framework, names)}")
    version = version_of.get if isinstance(version_of, Mapping) else version_of or (lambda name: None)
    reader = Reader(
        path=path,
        environment=environment or {},
        arguments=arguments,
        version_of=version,
        known=known or (lambda owner, of: None),
        files=Files(path.parent, kept),
        caller=caller or {},
        machine=machine or Machine(),
    )
    started = list(islice(launches(reader.files.source(path), reader), MOST_LAUNCHES + 1))
    if beyond := started[MOST_LAUNCHES:]:
        text = f"more than {MOST_LAUNCHES} launches: this one and those below were not read"
        reader.notes.append(Note(text=text, file=beyond[0].file, line=beyond[0].line, unread=True))
    chosen = _chosen(started[:MOST_LAUNCHES], forced)
    plans = together([launch for launch, _ in chosen], [dialect.read(launch) for launch, dialect in chosen])
    if forced is not None and not any(given.option for plan in plans for given in plan.given):
        raise InputError(f"{path}: nothing in it is a setting of {forced.name}, as which --framework reads it")
    unread = next((note for note in reader.notes if note.unread), None)
    if not plans and unread is not None:
        raise InputError(f"{unread.file}:{unread.line}: {unread.text}")
    if not plans and (note := _decided(reader, forced)) is not None:
        how = f"{note.text}=VALUE rldoctor check {path}"
        raise InputError(
            f"{note.file}:{note.line}: {note.text} decides whether anything is started, and is not set; {how}"
        )
    if not plans and (other := _without_rollouts(started)) is not None:
        raise OutOfScopeError(other)
    if not plans and reader.notes:  # what may start the run was not followed
        note = reader.notes[0]
        raise InputError(f"{note.file}:{note.line}: {note.text}; hand over the file that starts the training")
    return joined([replace(plan, notes=(*plan.notes, *reader.notes), cells=reader.cells) for plan in plans])


def _decided(reader: Reader, forced: Dialect | None) -> Note | None:
    """Where a script asks for a variable that is not set, and starts something if it is; the text is its name."""
    for note in list({note.text: note for note in reversed(reader.left_out)}.values())[:_MOST_ASKED]:
        value = Unresolved(f"${note.text}", "not set")
        again = replace(reader, given={note.text: value}, notes=[], left_out=[], shared={})
        if _chosen(list(islice(launches(reader.files.source(reader.path), again), MOST_LAUNCHES)), forced):
            return note
    return None


def _without_rollouts(started: list[Launch]) -> str | None:
    """What a file starts of a framework that is none of its launches with rollouts, in a sentence, or None."""
    for launch in started:
        record = next((record for record in trainers() if _belongs(launch, record)), None)
        if record is not None:
            what = launch.entry if launch.tree is None else "the configuration"
            return (
                f"{launch.file}:{launch.line}: {what} is {record.title}'s, and none of its launches with a rollout "
                "engine, which are what rldoctor reads"
            )
    return None


def _belongs(launch: Launch, record: Framework) -> bool:
    """Whether a launch is a framework's, by the program or module that is started, the script's imports or its YAML."""
    if launch.tree is not None:
        return any(dialect.is_config(launch.tree) for dialect in record.dialects())
    # A fork that kept its parent's name is not told from it here.
    modules = [module for package in record.packages if not package.distribution for module in package.modules]
    if launch.python is not None:
        return any(launch.python.imports_from(module) for module in modules)
    return launch.entry.partition(" ")[0] in record.programs or launch.entry.partition(".")[0] in modules


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
    reader = Reader(Path(), environment, None, version_of, known, files)
    found = [launch for source in commands for launch in launches_of_text(source, reader, environment)]
    found += [
        reader.launch(file=tree.source.file, line=tree.source.first_line, entry=entry, place=None, tree=tree)
        for tree, entry in settings
    ]
    plain = [(launch, dialect) for launch, dialect in _chosen(found, None) if dialect.claims(launch) >= PLAIN]
    return joined([dialect.read(launch) for launch, dialect in plain])


def _chosen(started: list[Launch], forced: Dialect | None) -> list[tuple[Launch, Dialect]]:
    if forced is not None:
        claimed = [(launch, forced) for launch in started if forced.claims(launch)]
        if not claimed:
            _refuse_anothers(started, forced)
        return claimed or [(launch, forced) for launch in started if _starts_python(launch)]
    found = []
    for launch in started:
        noted = list(launch.notes)
        best = _claimed(launch)
        # What others missed when they looked whether it is theirs says nothing of the one that reads it.
        launch.notes[:] = noted
        if best is not None:
            found.append((best[0], launch, best[1]))
    # A data preparation step beside a real launch is no launch.
    strong = [entry for entry in found if entry[0] > WEAK]
    return [(launch, dialect) for _, launch, dialect in strong or found]


def _claimed(launch: Launch) -> tuple[int, Dialect] | None:
    """The dialect that is surest that a launch is its own, and how sure it is; None where no dialect claims it."""
    files = (one.source.text for one in (launch.tree, launch.python) if one is not None)
    likely = likely_dialects(launch.entry, "\n".join(word.text for word in launch.words), *files)
    for some in (likely, last_dialects()):
        claims = [(score, dialect) for dialect in some if (score := dialect.claims(launch))]
        if claims:
            return max(claims, key=lambda pair: pair[0])
    return None


def _refuse_anothers(started: list[Launch], forced: Dialect) -> None:
    """Raises :class:`InputError` where a launch is plainly of another framework than the one that was named."""
    for launch in started:
        claimed = _claimed(launch)
        if claimed is not None and claimed[0] >= PLAIN:
            what, whose = launch.entry or "what it sets", claimed[1].name
            raise InputError(
                f"{launch.file}:{launch.line}: {what} is {whose}'s, not {forced.name}'s; leave --framework out"
            )


def _starts_python(launch: Launch) -> bool:
    return launch.tree is not None or launch.python is not None or bool(launch.words)
