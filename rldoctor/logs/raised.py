"""Where the sources of published releases say that a failure was raised: the place, when, and by which settings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from rldoctor.case import Case
from rldoctor.catalogue.check import Check
from rldoctor.frameworks import packages
from rldoctor.io import untrusted
from rldoctor.knowledge.message_families import family_of
from rldoctor.knowledge.packages import top_module
from rldoctor.link.remedies import Remedy, is_request, remedies
from rldoctor.link.validations import argument_classes
from rldoctor.logs.calling import call, called_by
from rldoctor.logs.code_paths import is_users, module_of, package_of
from rldoctor.logs.model import LoggedException, LogRun, Raised
from rldoctor.model import Evidence, Finding, Fix
from rldoctor.plan.evidence import cite, cite_given
from rldoctor.plan.model import RolloutPlan
from rldoctor.tables.messages import Place, Table
from rldoctor.tables.messages.match import Shown, Trace, stands, trace

_MOST_SETTINGS = 6
_MOST_OTHERS = 2
_MOST_HOMES = 3
# The line of a traceback that raised.
_ASSERTION = "AssertionError"
_RAISES = re.compile(r"raise (?:\w+\.)*(?P<type>\w+)\b")
_ASSERTS = re.compile(r"assert\b\s*(?P<test>.*)")


def raised_by(root: LoggedException, versions: Mapping[str, str], case: Case) -> Raised | None:
    """Where a failure was raised; None where no release prints it, or several places do that only the log could tell
    apart. ``versions`` are those that the log reveals."""
    held = case.packages.distributions if case.packages is not None else ()
    releases = {**{d.name: d.version for d in held}, **versions}
    found = traced(root, releases)
    if found is None:
        return None
    found = _of_launch(found, case.plan)
    raised = _reported(found, releases.get(found.place.package, ""), case)
    return replace(raised, said=raised.said + called_by(root))


def _of_launch(found: Trace, plan: RolloutPlan | None) -> Trace:
    """Of several places that print the same, those in the class that the launch's framework makes for its arguments."""
    if plan is None or len(found.homes) + len(found.elsewhere) == 1:
        return found
    made = {(module, name.lower()) for module, name in argument_classes(plan)}
    own = tuple(one for one in found.places if (one.module, one.function.partition(".")[0].lower()) in made)
    return replace(found, places=own, elsewhere=()) if own else found


def traced(root: LoggedException, releases: Mapping[str, str]) -> Trace | None:
    """The place in a table that a failure, or what it grew from, shows, else the one that its traceback shows;
    ``releases`` are those at hand by package."""
    for link in reversed(root.chain):
        inner = link.frames[-1] if link.frames else None
        if inner is not None and is_users(inner.file):
            if inner.raises or not inner.code:
                continue
            inner = None  # the log leaves out the frames of what that line called
        installed = [frame for frame in reversed(link.frames) if inner is not None or not is_users(frame.file)]
        ran = [_owner(package_of(frame.file, frame.function)) for frame in installed]
        if ran and not any(ran):
            continue  # of the packages whose code ran none has a table: in another the same words prove nothing
        where = (module_of(inner.file), inner.function, inner.code) if inner is not None else ("", "", "")
        found = trace(Shown(link.type, link.message, *where), [name for name in ran if name], releases)
        if found is not None:
            shown = _by_its_line(link)
            known = {place.module for place in (*found.places, *found.others, *found.elsewhere)}
            # The same words elsewhere are not what was raised here.
            return found if shown is None or shown.place.module in known else shown
    return next(filter(None, map(_by_its_line, reversed(root.chain))), None)


def _by_its_line(link: LoggedException) -> Trace | None:
    """The place that a traceback itself shows: the line of an installed package that raises or asserts. No release is
    known for it: the tables leave modules out, and there are packages without one."""
    inner = link.frames[-1] if link.frames else None
    if inner is None or is_users(inner.file):
        return None
    package, module, type_ = package_of(inner.file), module_of(inner.file), link.type.rpartition(".")[2]
    raises, asserts = _RAISES.match(inner.code), _ASSERTS.match(inner.code)
    if not package or not module or not (raises["type"] == type_ if raises else asserts and type_ == _ASSERTION):
        return None
    test = _condition(asserts["test"]) if asserts else ""
    place = Place(package, module, inner.function, type_, link.message, (f"not ({test})",) if test else (), ())
    return Trace((place,), (), {})


def _condition(test: str) -> str:
    """What an assertion asks, from the one line of it that a traceback shows; empty where that is a part of it."""
    try:
        asserted = untrusted.python(f"assert {test}").body[0]
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return ast.unparse(asserted.test) if isinstance(asserted, ast.Assert) else ""


def of_a_family(checks: Iterable[Check], run: LogRun) -> tuple[Check, Finding] | None:
    """The check to whose family the place belongs that raised a run's failure, and what it says."""
    found = run.raised
    if found is None or run.root is None:
        return None
    code = family_of(found.where, found.template, found.exception)
    check = next((check for check in checks if check.code == code), None)
    if check is None:
        return None
    said = (run.incident.exception or str(run.root)).splitlines()[0][:300]
    evidence = (Evidence(text=str(run.root)[:600], source=run.root.source, line=run.root.line), *found.evidence)
    library, calling = call(run.root)
    given = (Fix(title=f"look at what {calling} gives {library}"),) if calling else ()
    return check, check.finding(f"{said}: {found.said}", evidence=(*evidence, *run.new), fixes=found.fixes or given)


def _reported(found: Trace, release: str, case: Case) -> Raised:
    place = found.place
    # Where several functions print it, nothing tells whose condition held.
    settings = tuple(_settings(found, case)) if len(found.homes) == 1 else ()
    where = _where(place)
    packages: dict[str, list[Place]] = {place.package: list(found.homes)}
    for one in found.elsewhere:
        packages.setdefault(one.package, []).append(one)
    first, *further = map(_by, packages.values())
    more = [f"by {len(further) - _MOST_OTHERS} packages more"] if len(further) > _MOST_OTHERS else []
    return Raised(
        said="; or ".join([f"raised {first}", *further[:_MOST_OTHERS], *more]),
        where=f"{place.package}: {where}",
        template="{}".join(place.literals),
        exception=place.type,
        evidence=(*_evidence(found, release), *settings),
        fixes=_fixes(found, settings, case),
    )


def _by(homes: list[Place]) -> str:
    """Which release of a package raises it and where, for all the functions of it that do."""
    place = homes[0]
    if len(homes) == 1:
        by = f"by {f'{place.package} {_releases(place)}'.rstrip()} in {_where(place)}"
        return f"{by}, {_when(place)}" if place.conditions else by
    named = ", ".join(map(_where, homes[:_MOST_HOMES]))
    return f"by {place.package} in one of {len(homes)} places: {named}{', …' if len(homes) > _MOST_HOMES else ''}"


def _where(place: Place) -> str:
    return f"{place.module}.{place.function}".removesuffix(".")


def _evidence(found: Trace, release: str) -> Iterator[Evidence]:
    """The values in the message, and where other releases have it."""
    place = found.place
    source = f"the source of {place.package}"
    values = ", ".join(f"{name} = {value}" for name, value in found.values.items() if value)
    if values:
        yield Evidence(text=values, source="the message")
    if release and place.spans and not any(stands(one, release) for one in found.places):
        here = f"{place.package} {release}, which runs here, is not among the releases that have it"
        yield Evidence(text=here, source=source)
    others = (
        f"{_releases(other)} raise it in {other.module}.{other.function}, {_when(other)}".removesuffix(", ")
        for other in found.others
    )
    yield from (Evidence(text=text, source=source) for text in list(dict.fromkeys(others))[:_MOST_OTHERS])


def _fixes(found: Trace, settings: tuple[Evidence, ...], case: Case) -> tuple[Fix, ...]:
    """What the condition asks to be changed, else what it reads of the launch."""
    place = found.place
    said = "".join(place.literals)
    ways, *others = (remedies(p.package, p.function, p.conditions, said, found.values) for p in found.homes)
    if any(other != ways for other in others):
        ways = ()  # nothing tells whose condition held
    if not ways and settings:
        lines = ", ".join(f"{e.source}:{e.line} {e.text}" for e in settings)
        return (Fix(title=f"change what {place.function.rpartition('.')[2]} looks at: {lines}"),)
    return tuple(
        _of_remedy(way, f"or {way.text}" if position else way.text, place, case) for position, way in enumerate(ways)
    )


def _of_remedy(way: Remedy, title: str, place: Place, case: Case) -> Fix:
    """A remedy as an edit where its setting has a canonical name: the engine's own, or one that the launch gives. One
    that several settings give, ``bf16`` and ``fp16``, would edit another than the remedy names."""
    given = case.plan.given if case.plan is not None else ()
    option = next((one.option for one in given if one.field == way.name and one.option is not None), None)
    if len({one.field for one in given if one.option == option}) > 1:
        option = None
    if option is None and place.package == "vllm" and not is_request(place.function):
        option = f"engine.{way.name}"
    return Fix.unsafe(title, {option: way.value}) if option is not None and way.value is not None else Fix(title=title)


def _settings(found: Trace, case: Case) -> Iterator[Evidence]:
    """The lines of the launch that give what the condition and the message read."""
    plan = case.plan
    if plan is None:
        return
    read = {name for text in (*found.place.conditions, *found.values) for name in _names(text)}
    given = {}
    for option, setting in plan.settings.items():
        if setting.file is not None and setting.line is not None and read & {_last(option), _last(setting.key or "")}:
            given[setting.file, setting.line, setting.key or option] = cite(plan, option)
    for item in (*plan.unread, *plan.given):
        if item.field in read:
            given.setdefault((item.file, item.line, item.key), (cite_given(item),))
    yield from list(chain.from_iterable(given.values()))[:_MOST_SETTINGS]


def _releases(place: Place) -> str:
    """``0.8.3 to 0.9.2 and 0.11.0`` of the releases that were read."""
    return " and ".join(first if first == last else f"{first} to {last}" for first, last in place.spans)


def _when(place: Place) -> str:
    """The conditions of a place as one clause; what was caught before comes first."""
    caught = [c.removeprefix("except").strip() for c in place.conditions if c.startswith("except")]
    tests = [c for c in place.conditions if not c.startswith("except")]
    parts = [f"after {caught[-1] or 'an error'}"] if caught else []
    parts += [f"when `{' and '.join(tests)}`"] if tests else []
    return " ".join(parts)


def _names(text: str) -> set[str]:
    """The last names of all that an expression reads: ``self.config.max_model_len`` reads ``max_model_len``."""
    try:
        tree = ast.parse(text.removeprefix("except "), mode="eval")
    except (SyntaxError, ValueError):
        return set()
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _last(key: str) -> str:
    return key.rpartition(".")[2].lstrip("-").replace("-", "_")


@lru_cache(maxsize=1)
def _owners() -> dict[str, str]:
    """The package with a table, by its top-level module."""
    covered = Table.packages()
    named = {module: package.name for package in packages() for module in package.modules}
    return {top_module(name): name for name in covered} | {m: name for m, name in named.items() if name in covered}


def _owner(module: str | None) -> str | None:
    return _owners().get(module) if module is not None else None
