"""What a framework's own validation refuses of a launch: which code judges it, and the settings that this code sees."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.frameworks import frameworks
from rldoctor.frameworks.layouts import classes_of
from rldoctor.frameworks.record import Framework, Validation
from rldoctor.frameworks.table import parents
from rldoctor.launch.plans import Options
from rldoctor.link.fields import typed
from rldoctor.link.locate import SearchPath
from rldoctor.link.problems import Refusal
from rldoctor.link.refused import refusal, refusal_of_call, refusal_of_object
from rldoctor.link.sources import Sources
from rldoctor.link.stated import refusal_in
from rldoctor.link.values import NOT_KNOWN, Known, Value
from rldoctor.plan.handed import NOT_ASKED, handed, is_own_default
from rldoctor.plan.model import Form, Given, RolloutPlan, Setting, Source
from rldoctor.records import dataclass
from rldoctor.tables.options.model import Option
from rldoctor.tables.options.optionset import OptionSet

_TARGET = "._target_"


def validates(record: Framework, case: Case) -> bool:
    """Whether code of the framework is known that looks at the settings of a launch like this."""
    plan = case.plan
    return plan is not None and plan.role != "server" and bool(record.arguments or _looking(record, plan))


def refused_by(record: Framework, case: Case, sources: Sources) -> dict[str, Any] | None:
    """What the framework's own code refuses of what the launch gives, as plain JSON."""
    plan = case.plan
    if plan is None or plan.role == "server":
        return None

    def is_of_given(found: Refusal) -> bool:
        return any(one.path in found.reads for one in plan.given)

    for found in _by_class(record, plan, sources):
        if found is not None and is_of_given(found):
            return found.plain()
    # Here every setting is known, so that what is left out can be what is refused: but of a configuration by itself,
    # which the command line that starts it completes.
    called = (one for one in _by_call(record, plan, case, sources) if one is not None)
    return next((found.plain() for found in called if plan.entry or _is_given(plan, found.reads)), None)


def refused_by_engine(record: Framework, case: Case, sources: Sources) -> Refusal | None:
    """What the engine's own configuration refuses of what the launch and its framework hand to it. What
    it reads are the plan's options; of a server's, which are the engine's own, also what no plan has."""
    plan = case.plan
    if plan is None:
        return None
    variables = _variables(case, plan)
    asked = {option: _handed(setting) for option, setting in handed(plan).items()}
    named = ((option, plan.settings.get(f"engine.{option}")) for option in NOT_ASKED)
    asked |= {option: NOT_KNOWN for option, one in named if one is not None and not is_own_default(one)}
    # A server takes all its options from the launch; a framework may set what no plan has.
    server = plan.role == "server" and record.title == plan.framework
    options = options_of(plan, case) if server else None
    if server:
        asked |= {
            one.key.partition(".")[0]: _of_several(one, options) if "." not in one.key else NOT_KNOWN
            for one in plan.given
        }
    complete = server and _complete(plan)
    classes = [one for one in record.validations if not one.settings]
    refusals = (refusal(sources, one.module, one.name, asked, complete, one.method, variables) for one in classes)
    for found in (*_by_call(record, plan, case, sources), *refusals) if server else refusals:
        if found is not None:
            reads = (f"engine.{name}" if f"engine.{name}" in plan.settings else name for name in found.reads)
            return replace(found, reads=tuple(reads))
    return None


def refused_by_tables(case: Case) -> list[dict[str, Any]]:
    """What the tables of messages tell that the releases of a case refuse of what its launch itself gives: the classes
    of its command, the framework's functions that look at all of it, and the classes that the engine makes of its
    options. Each in the form of what linking shows of one framework."""
    plan, packages = case.plan, case.packages
    if plan is None or packages is None:
        return []
    asked = (*_classes_asked(case, plan), *_sections_asked(case, plan), *_functions_asked(case, plan))
    given = {name for one in plan.given for name in (one.field, one.key)}
    given |= {name for name, one in plan.settings.items() if one.source is Source.GIVEN}
    found: dict[str, dict[str, Any]] = {}
    for one in (*asked, *_engine_asked(case, plan)):
        installed = find(packages, one.package)
        if installed is None or not one.values or one.package in found:
            continue
        refused = refusal_in(one.package, installed.version, one.module, one.name, one.values, one.settings)
        if refused is None:
            continue
        refused = refused.below(one.section) if one.section else refused
        if not given.isdisjoint(refused.reads):  # no default alone is refused
            found[one.package] = unlinked(one.package, installed.version, refused)
    return list(found.values())


def refused_in_checkout(case: Case) -> dict[str, Any] | None:
    """What the framework refuses of the launch by its own source, where the launch file lies in a checkout of it and
    nothing of it is installed; in the form of what linking shows of one framework. None where it certainly refuses
    nothing, or lies elsewhere."""
    plan = case.plan
    if plan is None or not plan.file:
        return None
    owner = plan.group.partition(":")[0]
    record = next((one for one in frameworks() if one.title == plan.framework and validates(one, case)), None)
    checkout = Options(case, Path(plan.file).absolute().parent).checkout(owner) if record is not None else None
    if record is None or checkout is None:
        return None
    found = refused_by(record, case, Sources(SearchPath(checkout.modules(owner))))
    installed = find(case.packages, owner) if case.packages is not None else None
    version = installed.version if installed is not None else ""
    return None if found is None else {**unlinked(owner, version, None), "refusal": found}


def unlinked(package: str, version: str, refusal: Refusal | None) -> dict[str, Any]:
    """A package of which nothing was linked, and what it refuses, as linking shows a framework."""
    shown = {"name": package, "version": version, "entries": [], "modules": 0, "problems": []}
    return {**shown, "validated": True, "refusal": refusal.plain() if refusal is not None else None}


@dataclass(frozen=True)
class _Asked:
    """A class or function of a package, what it calls the settings, these as far as they are known, and the section
    of the launch's that they are."""

    package: str
    module: str
    name: str
    settings: str
    values: Mapping[str, Any]
    section: str = ""


def _classes_asked(case: Case, plan: RolloutPlan) -> Iterator[_Asked]:
    """The classes whose fields are the options of the launch's command."""
    options = options_of(plan, case)
    if options is None:
        return
    values = _known(plan, options)
    owner, _, group = plan.group.partition(":")
    for package, module, name in classes_of(owner, group):
        yield _Asked(package, module, name, "", values)


def _sections_asked(case: Case, plan: RolloutPlan) -> Iterator[_Asked]:
    """The classes that the sections of a composed configuration name in ``_target_``."""
    options = options_of(plan, case)
    targets = {} if options is None else {name: one.default for name, one in options.items() if name.endswith(_TARGET)}
    known = _known(plan, options) if options is not None and targets else {}
    for name, target in targets.items():
        section = name.removesuffix(_TARGET)
        values = {key[len(section) + 1 :]: one for key, one in known.items() if key.startswith(f"{section}.")}
        if values and isinstance(target, str):
            module, _, made = target.rpartition(".")
            yield _Asked(plan.group.partition(":")[0], module, made, "", values, section)


def _functions_asked(case: Case, plan: RolloutPlan) -> Iterator[_Asked]:
    for record in frameworks():
        if record.title != plan.framework or plan.role == "server":
            continue
        asked = [one for one in _looking(record, plan) if not one.of_object and not one.method]
        options = options_of(plan, case) if asked else None
        if options is None:
            continue
        given, whole = _typed_by(options, plan.given), _known(plan, options)
        come_to = [one for one in asked if _is_come_to(one, whole)]
        for package, one in itertools.product(record.packages, come_to):
            seen = whole if one.settings and not one.before else given
            values = {name: value for name, value in seen.items() if not _may_be_another(one, name, value, given)}
            yield _Asked(package.name, _module(one, plan), one.name, one.settings, values)


def _engine_asked(case: Case, plan: RolloutPlan) -> Iterator[_Asked]:
    given = {n: _handed(one) for n, one in handed(plan, frozenset()).items() if one.source is Source.GIVEN}
    values = {name: value for name, value in given.items() if value is not NOT_KNOWN}
    left = {**_left_off(case, plan, given), **values}
    for record in frameworks() if values else ():
        for one in record.validations:
            for module, _, name in (made.partition(":") for made in one.makes):
                yield _Asked(record.packages[0].name, module, name, "", left, "engine")


def _left_off(case: Case, plan: RolloutPlan, given: Container[str]) -> dict[str, bool]:
    """The switches that a server's launch could turn on, and does not."""
    options = options_of(plan, case) if plan.role == "server" and _complete(plan) else None
    switches = options.items() if options is not None and options.gap is None else ()
    return {name: False for name, one in switches if one.default is False and name not in given}


def _known(plan: RolloutPlan, options: OptionSet) -> dict[str, Any]:
    """The settings of a configuration with the defaults of its release, as far as they are known; what is given alone
    where there may be more of it than was read."""
    if options.gap is not None or not _complete(plan):
        return _typed_by(options, plan.given)
    return {name: value for name, value in composed(plan, options).items() if value is not NOT_KNOWN}


def _typed_by(options: OptionSet, given: Iterable[Given]) -> dict[str, Any]:
    """What is given last for each option, as its type reads it; nothing for what may be read in two ways."""
    found: dict[str, Any] = {}
    for one in given:
        option = options.get_option(one.key)
        if option is None:
            continue
        twofold = isinstance(one.value, str) and "str" in option.type and "bool" in option.type
        found[option.name] = _as_typed(one, option) if not twofold else NOT_KNOWN
    return {name: value for name, value in found.items() if value is not NOT_KNOWN}


def _as_typed(one: Given, option: Option | None) -> Any:
    """What is given, as the option's type reads it; several words where it has numbers by default are numbers."""
    if one.unknown is not None:
        return NOT_KNOWN
    value = typed(one.value, option.type if option is not None else "str")
    if not isinstance(value, Known):
        return NOT_KNOWN
    usual = option.default if option is not None else None
    numbers = isinstance(usual, list) and bool(usual) and all(isinstance(part, int | float) for part in usual)
    if not numbers or not isinstance(value.value, tuple):
        return value.value
    try:
        return [float(part) for part in value.value]
    except ValueError:
        return NOT_KNOWN


def _variables(case: Case, plan: RolloutPlan) -> Mapping[str, Value] | None:
    """The environment that a launch has: what it sets beside what was set before; None where nobody looked for that."""
    if case.environment is None:
        return None
    own = {name.removeprefix("env."): one for name, one in plan.settings.items() if name.startswith("env.")}
    given = {name: Known(str(one.value)) if one.unknown is None else NOT_KNOWN for name, one in own.items()}
    return {**{name: Known(text) for name, text in case.environment.items()}, **given}


def _of_several(one: Given, options: OptionSet | None) -> Any:
    """A value as a parser hands it on: a single word for an option that takes several is a list of one."""
    option = options.get_option(one.key) if options is not None else None
    several = option is not None and option.type.removesuffix("?") == "list"
    return [one.value] if several and one.unknown is None and isinstance(one.value, str) else _value(one)


def _handed(setting: Setting) -> Any:
    return setting.value if setting.unknown is None else NOT_KNOWN


def given_settings(plan: RolloutPlan | None) -> dict[str, Any]:
    """The launch's settings by their native keys; ``NOT_KNOWN`` where the file does not tell."""
    return {one.key: _value(one) for one in (plan.given if plan is not None else ())}


def _value(one: Given) -> Any:
    return one.value if one.unknown is None else NOT_KNOWN


def _complete(plan: RolloutPlan) -> bool:
    return not any(note.unread for note in plan.notes)


def _looking(record: Framework, plan: RolloutPlan) -> list[Validation]:
    """The framework's validations that see a launch like this; its main command's options may go without a group."""
    return [
        one
        for one in record.validations
        if (not one.group or plan.group in (one.group, one.group.partition(":")[0]))
        and not any(fnmatchcase(plan.entry, pattern) for pattern in one.never_by)
        and any(fnmatchcase(plan.entry, pattern) for pattern in one.by)
    ]


def _module(one: Validation, plan: RolloutPlan) -> str:
    """The module of a validation: it may be what the launch starts."""
    entry = plan.entry.removeprefix("./").removesuffix(".py").replace("/", ".")
    return one.module.format(entry=entry) if "{entry}" in one.module else one.module


def _is_come_to(one: Validation, settings: Mapping[str, Any]) -> bool:
    """Whether the framework comes to it, as far as settings decide that."""
    return all(name in settings and settings[name] == value for name, value in one.needs.items())


def argument_classes(plan: RolloutPlan) -> Iterator[tuple[str, str]]:
    """The classes, by module and name in any case, of which the launch's framework makes one for its arguments."""
    for record in frameworks():
        if record.title == plan.framework and plan.role != "server":
            yield from _argument_classes(record, plan)


def is_of_another_algorithm(plan: RolloutPlan) -> Callable[[str], bool]:
    """Whether a module of the launch's framework is what trains with another algorithm than the launch's."""
    own = _algorithm(plan)
    forms = [
        re.compile(re.escape(named).replace(r"\{algorithm\}", r"(\w+?)"))
        for record in frameworks()
        if record.title == plan.framework
        for named in itertools.chain(record.arguments, *record.imports.values())
        if "{algorithm}" in named
    ]
    return lambda module: any((found := form.fullmatch(module)) and found[1] != own for form in forms)


def _argument_classes(record: Framework, plan: RolloutPlan) -> Iterator[tuple[str, str]]:
    algorithm = _algorithm(plan)
    for module in record.arguments:
        yield module.format(algorithm=algorithm), f"{algorithm.replace('_', '')}Config"
    yield from ((one.module, one.name) for one in _looking(record, plan) if one.name and not one.settings)


def _algorithm(plan: RolloutPlan) -> str:
    return str(plan.value("trainer.algorithm", "grpo"))


def _by_class(record: Framework, plan: RolloutPlan, sources: Sources) -> Iterator[Refusal | None]:
    """By argument classes, whose defaults stand in their source."""
    stated = {one.path: _value(one) for one in plan.given}
    given = {name: {} if value == {} else _referred(name, stated) for name, value in stated.items()}
    worded = frozenset(one.path for one in plan.given if one.form in (Form.OPTION, Form.VARIABLE))
    algorithm = _algorithm(plan)
    for arguments in _argument_classes(record, plan):
        # A configuration by itself is completed by the command line that starts it.
        typed_ = any(one.typed for one in record.validations)
        yield refusal(sources, *arguments, given, _complete(plan), "", None, worded, bool(plan.entry), typed_)
        for one in record.validations:
            if one.of_object:
                trainer = one.name.format(algorithm=algorithm.replace("_", ""))
                asking = (one.module.format(algorithm=algorithm), trainer, one.settings)
                yield refusal_of_object(sources, arguments, given, _complete(plan), *asking)


def _by_call(record: Framework, plan: RolloutPlan, case: Case, sources: Sources) -> Iterator[Refusal | None]:
    """By functions that look at the whole configuration, and by the classes that its sections name in ``_target_``."""
    asked = [one for one in _looking(record, plan) if one.settings and not one.of_object]
    options = options_of(plan, case) if asked else None
    if options is None or options.gap is not None or not _complete(plan):
        return
    settings = composed(plan, options)
    touched = {above for one in plan.given for above in parents(one.key)}
    for key, target in settings.items():
        section, _, last = key.rpartition(".")
        if last == "_target_" and isinstance(target, str) and section in touched:
            module, _, name = target.rpartition(".")
            below = {k[len(section) + 1 :]: v for k, v in settings.items() if k.startswith(f"{section}.")}
            found = refusal(sources, module, name, below, complete=False)
            if found is not None and _is_given(plan, found.below(section).reads):
                yield found.below(section)
    given = {option.name for one in plan.given if (option := options.get_option(one.key)) is not None}
    variables = _variables(case, plan)
    for one in (one for one in asked if _is_come_to(one, settings)):
        command = {one.command: plan.group.rpartition(":")[2]} if one.command else {}
        seen = {n: NOT_KNOWN if _may_be_another(one, n, value, given) else value for n, value in settings.items()}
        module = _module(one, plan)
        yield refusal_of_call(sources, module, one.name, one.settings, {**seen, **command}, variables)


def _is_given(plan: RolloutPlan, reads: Iterable[str]) -> bool:
    """Whether the launch gives one of the settings: not every section's class is made. What it leaves empty is given by
    whoever wrote the configuration that it builds on; of a file that nothing starts, by the command line to come."""
    read = frozenset(reads)
    of_these = [one for one in plan.given if one.key in read]
    empty = [one for one in of_these if one.value is None and one.unknown is None]
    return len(of_these) > len(empty) and (bool(plan.entry) or not empty)


def _may_be_another(one: Validation, name: str, value: Any, given: Container[str]) -> bool:
    """Whether a setting may have another value by the time that the framework's code looks at it."""
    return name in one.apart or (one.fills_in and value is None and name not in given)


def options_of(plan: RolloutPlan, case: Case) -> OptionSet | None:
    """The options of the command that the launch calls."""
    owner, _, group = plan.group.partition(":")
    return Options(case).known(owner, group or None) if plan.group else None


def composed(plan: RolloutPlan, options: OptionSet) -> dict[str, Any]:
    """Every setting by its dotted name: what the launch gives, as its type reads it, else the default. What refers to
    another setting has its value."""
    found: dict[str, Any] = {}
    for name, option in options.items():
        if not option.added and option.alias is None:
            found[name] = option.default
    for one in plan.given:
        known = options.get_option(one.key)
        parsed = known is None and one.form is Form.OPTION and isinstance(one.value, str)  # it may become a number
        found[known.name if known is not None else one.key] = NOT_KNOWN if parsed else _as_typed(one, known)
    return {name: _referred(name, found) for name in found}


# ``${data.seed}``, ``${.name}`` beside it, ``${..name}`` above it, each as OmegaConf selects it with a default, too.
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?(?P<dots>\.*)(?P<name>\w[\w.]*)(?:,\s*(?P<default>\w+))?\}")


def _referred(name: str, found: Mapping[str, Any], depth: int = 0) -> Any:
    """The value of a setting, or that of the one which it refers to as a whole; what is computed is not known."""
    value = found[name]
    if isinstance(value, str) and "${" in value:
        reference = _REFERENCE.fullmatch(value)
        if reference is None or depth > 8:
            return NOT_KNOWN
        dots, wanted, default = reference["dots"], reference["name"], reference["default"]
        above = name.split(".")[: -len(dots)] if dots else []
        wanted = ".".join((*above, wanted))
        if wanted in found:
            return _referred(wanted, found, depth + 1)
        return None if default == "null" else NOT_KNOWN
    return value if value is None or isinstance(value, str | int | float | bool | list) else NOT_KNOWN
