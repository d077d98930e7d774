"""What was asked on the command line, brought together with settings and plugins, every name in it verified."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from pathlib import Path

from rldoctor.catalogue import registry
from rldoctor.catalogue.check import Check
from rldoctor.catalogue.registry import Registry
from rldoctor.errors import InputError, meant, meant_or_known, one_line
from rldoctor.flow.probe import AnyProbe, needed_probes
from rldoctor.io import untrusted
from rldoctor.model import Level
from rldoctor.project import settings
from rldoctor.project.settings import Settings
from rldoctor.records import dataclass
from rldoctor.verdict import THRESHOLDS

# A day; poll(2) counts milliseconds in 32 bits.
LONGEST = 86_400
# Characters of a source file that --step may name.
LONGEST_SOURCE = 4 << 20
LEVELS = ("auto", *(level.label for level in Level))
# How the needs of a check name a package.
PACKAGE = "packages."


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line of ``check`` and ``bundle``, as given."""

    target: Path | None = None
    framework: str | None = None
    arguments: tuple[str, ...] | None = None
    level: str | None = None
    pythons: tuple[str, ...] = ()
    model: Path | None = None
    assume: tuple[str, ...] = ()
    bundles: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    devices: str | None = None
    time_limit: float | None = None
    soak: float | None = None
    budget: float | None = None
    keep: Path | None = None
    step: str | None = None
    ray: str | None = None


@dataclass(frozen=True, kw_only=True)
class Session:
    """Options, settings and plugins brought together, with every name in them verified."""

    options: Options
    settings: Settings
    registry: Registry
    checks: list[Check]
    probes: list[AnyProbe]
    level: Level | None

    @property
    def thresholds(self) -> dict[str, float]:
        """The numbers of checks that the project sets, as ``RLD501.lost-steps``."""
        every = self.settings.thresholds.items()
        return {f"{code}.{name}": value for code, table in every for name, value in table.items()}

    @property
    def required(self) -> set[str]:
        """The codes that must be judged: those of the options and settings, and those selected by their full name."""
        selected, require = self.options.select, (*self.settings.require, *self.options.require)
        asked = {c.code for c in self.checks if c.code in selected or c.code.startswith(require)}
        return {code for code in asked if not code.startswith(self.options.ignore)}


def open_session(options: Options) -> Session:
    """Reads the settings and loads the plugins. Raises :class:`InputError` for what cannot be used."""
    try:
        project = settings.load(Path.cwd())
    except FileNotFoundError:
        raise InputError("the current folder does not exist any more") from None
    _verify_choices(project)
    level = _level(options.level or project.level or "auto")
    _verify_options(options, level)
    found = registry.load(project.disable_plugins, defer=True)
    if options.assume:
        from rldoctor.facts import assume

        needs = [need for check in found.checks.values() for d in check.detectors for need in d.needs]
        assume.verify(options.assume, {need[len(PACKAGE) :] for need in needs if need.startswith(PACKAGE)})
    checks = _selected(options, project, found)
    # What is found all the same is set aside and counted; no probe is run for that.
    aside = tuple(settings.Ignore(code=code, reason="--ignore") for code in options.ignore)
    wanted = [check for check in checks if not check.code.startswith(options.ignore)]
    return Session(
        options=options,
        settings=replace(project, ignore=(*project.ignore, *aside)),
        registry=found,
        checks=checks,
        probes=needed_probes(wanted, found.probes),
        level=level,
    )


def _selected(options: Options, project: Settings, found: Registry) -> list[Check]:
    """The checks that the options ask for, else those of the settings. Raises :class:`InputError` for unknown names."""
    _verify_settings(project, found)
    # What a project requires is judged also where its usual selection leaves it out.
    usual = (*project.select, *project.require) if project.select else ()
    selected = options.select or usual
    found.select((*options.require, *options.ignore))
    return found.select((*selected, *options.require) if selected else ())


def _verify_options(options: Options, level: Level | None) -> None:
    """Raises :class:`InputError` for values out of range, and for options that do not go together."""
    soak, limit, budget, keep = options.soak, options.time_limit, options.budget, options.keep
    if limit is not None and not 1 <= limit <= LONGEST:
        raise InputError(f"--time-limit {limit:g}: from 1 to {LONGEST} seconds are expected")
    if soak is not None and not 0 < soak <= LONGEST / 60:
        raise InputError(f"--soak {soak:g}: more than 0 and at most {LONGEST // 60} minutes are expected")
    if soak is not None and limit is not None and limit <= soak * 60:
        raise InputError(f"--time-limit {limit:g} seconds end a soak of {soak:g} minutes")
    if soak is not None and level is not None and level < Level.ROLLOUT:
        raise InputError(f"--soak needs --level rollout or compare, not {level.label}")
    if budget is not None and not 0 < budget <= LONGEST / 60:
        raise InputError(f"--budget {budget:g}: more than 0 and at most {LONGEST // 60} minutes are expected")
    if keep is not None and keep.exists() and not keep.is_dir():
        raise InputError(f"--keep {keep}: a folder is expected")
    if both := sorted({*options.require} & {*options.ignore}):
        raise InputError(f"--require and --ignore both name {', '.join(both)}")
    devices_named(options.devices)
    elsewhere = bool(options.bundles or options.assume)
    if soak is not None and elsewhere:
        raise InputError("--soak keeps traffic up on this machine; --from and --assume judge another one")
    # A project's own setting is meant for the machines where something can be run.
    if options.level is not None and level is not None and level > Level.STATIC and elsewhere:
        raise InputError(f"--level {level.label} runs probes on this machine; --from and --assume judge another one")
    if options.step is not None:
        own_step(options.step)
        if elsewhere or (level is not None and level < Level.DEVICES):
            raise InputError("--step runs a function on this machine, from --level devices on")
    if options.ray is not None:
        cluster_named(options.ray)
        if options.bundles or level is Level.STATIC:
            raise InputError("--ray asks a running cluster, from --level imports on; --from asks nobody")


def _verify_choices(project: Settings) -> None:
    """Raises :class:`InputError`, with file and line, for a setting that is none of those that there are."""
    for key, chosen, known in (("fail-on", project.fail_on, THRESHOLDS), ("level", project.level, LEVELS)):
        if chosen is not None and chosen not in known:
            hint = meant_or_known(chosen, tuple(known))
            raise InputError(f"{settings.place(project, key)}: unknown {key} {chosen!r}; {hint}")
    # A plugin that others of the project have need not be here; a name that is nearly one that is here is misspelt.
    plugins = registry.plugins() if project.disable_plugins else set()
    for name in set(project.disable_plugins) - plugins:
        near = meant(name, plugins - set(project.disable_plugins))
        if near is not None:
            place = settings.place(project, "disable-plugins")
            raise InputError(f"{place}: no plugin is named {name!r}; did you mean {near!r}?")


def without_effect(project: Settings) -> tuple[str, ...]:
    """What is said of plugins that the project switches off and that are not here."""
    absent = [name for name in project.disable_plugins if name not in registry.plugins()]
    return tuple(f"{settings.place(project, 'disable-plugins')}: no plugin {name!r} is installed" for name in absent)


def _verify_settings(project: Settings, found: Registry) -> None:
    """Raises :class:`InputError`, with file and line, for a name that no check has, or a number that is none to compare
    with."""
    named = [("select", code) for code in project.select] + [("require", code) for code in project.require]
    named += [("severity", code) for code in project.severity] + [("ignore", ignore.code) for ignore in project.ignore]
    for path in (*named, *(("thresholds", code) for code in project.thresholds)):
        # A number belongs to one check, all else to a code or to all that begin so.
        if path[0] == "thresholds" and path[1] not in found.checks:
            raise InputError(f"{settings.place(project, *path)}: {found.unknown(path[1])}")
        try:
            found.select(path[1:])
        except InputError as error:
            raise InputError(f"{settings.place(project, *path)}: {error}") from None
    for code, table in project.thresholds.items():
        check = found.checks[code]
        for name, value in table.items():
            number = check.thresholds.get(name)
            place = f"{settings.place(project, 'thresholds', code, name)}: [thresholds.{code}]"
            if number is None:
                hint = meant_or_known(name, [*check.thresholds]) if check.thresholds else f"{code} has none"
                raise InputError(f"{place}: unknown threshold {name!r}; {hint}")
            if not (math.isfinite(value) and 0 <= value <= number.most):
                wanted = "from 0 on" if math.isinf(number.most) else f"from 0 to {number.most:g}"
                raise InputError(f"{place}: {name} = {value:g}: a number {wanted} is expected")


def cluster_named(address: str) -> str:
    """The address of ``--ray``. Raises :class:`InputError` for what is none."""
    if address != "auto" and not re.fullmatch(r"(?:\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}", address):
        raise InputError(f"--ray {address!r}: auto, or HOST:PORT of the cluster's head is expected, such as head:6379")
    return address


def devices_named(text: str | None) -> tuple[int, ...] | None:
    """The numbers of ``--devices``. Raises :class:`InputError` for what is no list of them."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]+", part) for part in parts):
        raise InputError(f"--devices {text!r}: GPU numbers separated by commas are expected, such as 0,1")
    return tuple(dict.fromkeys(map(int, parts)))


def _level(name: str) -> Level | None:
    if name == "auto":
        return None
    try:
        return Level[name.upper()]
    except KeyError:
        raise InputError(f"unknown level {name!r}; known are {', '.join(LEVELS)}") from None


def own_step(named: str) -> tuple[Path, str]:
    """File and function of ``--step``. Raises :class:`InputError` where the file has no such function; nothing of it is
    run for that."""
    name, _, function = named.rpartition(":")
    file = Path(name).absolute()
    try:
        tree = untrusted.python(untrusted.text(file, LONGEST_SOURCE))
    except OSError as error:
        raise InputError(f"--step {named}: FILE:FUNCTION is expected, and {file}: {error.strerror}") from None
    except SyntaxError as error:
        raise InputError(f"--step {named}: FILE:FUNCTION is expected, and {one_line(error)}") from None
    if not any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body):
        raise InputError(f"--step {named}: {file.name} has no function {function} at its top level")
    return file, function
