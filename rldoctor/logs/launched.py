"""The launch behind a log: the plan that its commands, its printed configuration and vLLM's own lines tell of."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rldoctor.case import Case
from rldoctor.errors import InputError
from rldoctor.formats.printed import read_printed
from rldoctor.formats.source import Source as Text
from rldoctor.formats.values import convert
from rldoctor.formats.yaml.reader import YamlFile, read_yaml
from rldoctor.logs.printed import Kind, Printed
from rldoctor.logs.runs import Slice
from rldoctor.logs.world import world
from rldoctor.plan.model import RolloutPlan, Setting, Source
from rldoctor.plan.vocabulary import term

# What vLLM's engine line calls otherwise than its options.
_ENGINE = {"max_seq_len": "max_model_len", "chunked_prefill_enabled": "enable_chunked_prefill"}
_SPOKEN = "the engine's own line says so"
_COMMANDS = (Kind.COMMAND, Kind.OVERRIDES)
# A program of a command that is known by its overrides alone.
_UNNAMED = "python main.py"
_ASSIGNED = re.compile(r"(\w+)=(.*)")
_MAPPING = re.compile(r"\w+:(?: [^\n]+)?\n")


def launched(pieces: Sequence[Slice], case: Case, framework: str | None) -> RolloutPlan | None:
    """The plan of the launch that a run's logs show, in the words of its framework; None where they show none.

    Every setting has the line of the log that tells it. ``framework`` is the one whose code was seen to run."""
    reported = [(piece.record.name, text) for piece in pieces for text in piece.record.printed if text.number in piece]
    variables = dict(_variables(reported))
    whole = _whole(reported, case, variables)
    engine = _engine(reported)
    if whole is None:
        return _engine_alone(engine, variables, framework)
    said = {**engine, **world(pieces)}
    shown = {name: setting for name, setting in said.items() if _is_open(whole, name)}
    return replace(whole, settings={**whole.settings, **variables, **shown})


def is_whole(plan: RolloutPlan) -> bool:
    """Whether a plan was read from a command or a configuration, and not from the engine's words alone."""
    return bool(plan.given)


def _is_open(plan: RolloutPlan, name: str) -> bool:
    setting = plan.settings.get(name)
    return setting is None or setting.value is None or setting.source is Source.DEFAULT


def _variables(reported: Sequence[tuple[str, Printed]]) -> Iterator[tuple[str, Setting]]:
    """What the shell exported before it started the run."""
    for file, text in reported:
        found = _ASSIGNED.match(text.text) if text.kind is Kind.VARIABLE else None
        if found is None:
            continue
        try:
            value = "".join(shlex.split(found[2]))
        except ValueError:
            continue
        yield (
            f"env.{found[1]}",
            Setting(value=value, source=Source.ENVIRONMENT, file=file, line=text.number, key=found[1]),
        )


def _whole(reported: Sequence[tuple[str, Printed]], case: Case, variables: Mapping[str, Setting]) -> RolloutPlan | None:
    """What commands and configurations say of the trainer's launch; the configuration is what it came to, the command
    what was asked for."""
    environment = {name.removeprefix("env."): str(setting.value) for name, setting in variables.items()}
    # Of several processes' configurations the first is the launcher's; of several commands all may belong together.
    commands = [Text(_command(text), file, text.number) for file, text in reported if text.kind in _COMMANDS]
    trees = [(tree, entry) for source, entry in _configurations(reported) if (tree := _tree(source)) is not None]
    asked = _read(list(dict.fromkeys(commands)), [], case, environment)
    resolved = _read([], trees[:1], case, environment)
    if resolved is None:
        return asked
    # What was printed is what the framework accepted, whatever the tables say.
    resolved = replace(resolved, unknown=(), refused=())
    if asked is None or asked.dialect != resolved.dialect:
        return resolved
    given = {name: s for name, s in asked.settings.items() if s.source in (Source.GIVEN, Source.ENVIRONMENT)}
    return replace(resolved, settings={**asked.settings, **resolved.settings, **given}, entry=asked.entry)


def _read(
    commands: Sequence[Text], trees: Sequence[tuple[YamlFile, str]], case: Case, environment: Mapping[str, str]
) -> RolloutPlan | None:
    if not commands and not trees:
        return None
    from rldoctor.launch.plans import Options
    from rldoctor.launch.recognise import read_printed as plans

    options = Options(case)
    try:
        found = plans(commands, trees, options.version, options.known, environment)
    except InputError:  # what was printed is no command that a shell could read
        return None
    trainers = [plan for plan in found if plan.role != "server"]
    return trainers[-1] if trainers else next(iter(found), None)


def _command(text: Printed) -> str:
    """A printed command as a shell reads it. Hydra prints a list of texts, and launchers join words without quotes."""
    if text.kind is Kind.OVERRIDES:
        listed = read_printed(Text(f"x={text.text}", "")).get("x")
        words = [word for word in listed if isinstance(word, str)] if isinstance(listed, list) else []
        return f"{_UNNAMED} {shlex.join(words)}"
    if text.form.literal.startswith("+ "):
        return text.text
    try:
        shlex.split(text.text)
    except ValueError:
        return shlex.join(text.text.split())
    return text.text


def _configurations(reported: Sequence[tuple[str, Printed]]) -> Iterator[tuple[Text, str]]:
    for file, text in reported:
        if text.kind is Kind.SETTINGS and text.form.has in text.text:
            yield Text(text.text, file, text.number), text.form.entry


def _tree(source: Text) -> YamlFile | None:
    """A configuration as a program printed it: in YAML, or in Python's or JSON's brackets."""
    if not _MAPPING.match(source.text):
        return YamlFile(source, read_printed(source))
    try:
        return read_yaml(source)
    except InputError:  # cut off within a value
        return None


def _engine(reported: Sequence[tuple[str, Printed]]) -> dict[str, Setting]:
    """What vLLM said of its engine, as far as all engines of the run agree."""
    found: dict[str, Setting] = {}
    disputed: set[str] = set()
    for file, text in reported:
        if text.kind not in (Kind.ENGINE, Kind.ARGUMENTS):
            continue
        source = Text(text.text, file, text.number)
        for key, value in read_printed(source).items():
            name = f"engine.{_ENGINE.get(key, key)}"
            kind = term(name)
            if kind is None or not isinstance(value, str | int | float):
                continue
            try:
                value = convert(value, kind.kind)
            except ValueError:
                continue
            if name in found and found[name].value != value:
                disputed.add(name)
            found.setdefault(
                name, Setting(value=value, source=Source.DERIVED, file=file, line=text.number, how=_SPOKEN)
            )
    return {name: setting for name, setting in found.items() if name not in disputed}


def _engine_alone(
    engine: Mapping[str, Setting], variables: Mapping[str, Setting], framework: str | None
) -> RolloutPlan | None:
    from rldoctor.frameworks import by_name

    dialect = by_name(framework or "vllm")
    if not engine or dialect is None:
        return None
    return RolloutPlan(
        framework=dialect.name, dialect=dialect.name, file="", entry="", settings={**variables, **engine}
    )
