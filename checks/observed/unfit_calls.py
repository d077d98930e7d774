"""Reads from an exception in a log what was asked of another package's class or function, and which releases of that
package accept it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rldoctor.api import Case, LogEvent, dataclass
from rldoctor.api.logs import Frame, LoggedException, package_of
from rldoctor.api.releases import (
    SymbolHistory,
    SymbolRequest,
    accepting,
    exports,
    refused_by_all,
    symbol_packages,
    taken_by_all,
)

from .imports import distribution, version_of
from .logged_imports import link_of

LITERALS = (
    "() got an unexpected keyword argument '",
    "Unexpected keyword argument '",
    " positional argument but ",
    " positional arguments but ",
    " required positional argument",
    " required keyword-only argument",
    "' object has no attribute '",
    "' has no attribute '",
)
_ARGUMENT = re.compile(r"(?P<owner>[\w.]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'")
# What a msgspec.Struct says does not name the class; the line that made it does.
_OF_A_STRUCT = re.compile(r"Unexpected keyword argument '(?P<name>\w+)'")
_MADE = re.compile(r"(?P<owner>\b[A-Z]\w*)\(")
_POSITIONS = re.compile(r"(?P<owner>[\w.]+)\(\) takes (?:from \d+ to )?\d+ positional arguments? but (?P<given>\d+) w")
_MISSING = re.compile(
    r"(?P<owner>[\w.]+)\(\) missing \d+ required (?:positional|keyword-only) arguments?: (?P<names>[^\n]+)"
)
_ATTRIBUTE = re.compile(r"(?:type object )?'(?P<owner>\w+)' (?:object )?has no attribute '(?P<name>\w+)'")
_QUOTED = re.compile(r"'(\w+)'")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
# Through whose code a lookup of an attribute goes before it fails.
_PASSING = frozenset({"python", "torch", "pydantic"})
# A decorator hands on what somebody else passes.
_HANDS_ON = re.compile(r"(?:return )?\w+\(\*args, \*\*kwargs\)$")
_ANY = re.compile(r"[(,]\s*\*\*\w+\)")
# Classes whose fields those derived from them take as well, as a rule.
_DERIVABLE = re.compile(r"\w+(?:Config|Args|Arguments)(?:\.__init__)?")


@dataclass(frozen=True)
class Unfit:
    """A call or a lookup that the ``package`` at hand refuses and other releases of it accept. ``caller`` is the
    distribution whose code asks, empty for the user's own; ``said`` what is wrong, for a sentence."""

    package: str
    caller: str
    asked: SymbolRequest
    said: str
    history: SymbolHistory

    @property
    def name(self) -> str:
        return ", ".join((*self.asked.names, self.asked.owner)[:1])


def unfit(event: LogEvent, case: Case) -> Unfit | None:
    """What was asked in vain; None where no release of one package alone explains it."""
    link = link_of(event)
    if link is None:
        return None
    asked, said = _request(link)
    if asked is None:
        return None
    frames = _askers(link, asked.owner.partition(".")[0])
    inside = [package_of(frame.file, frame.function) for frame in frames]
    callers = [package for package in inside if package not in _PASSING]
    caller = callers[-1] if callers else None
    if asked.kind == "argument" and frames and frames[-1].function == "__init__":
        # A constructor that hands on what another package, or the script, gave it.
        caller = next((one for one in reversed(callers) if one not in (caller, None)), caller)
    if caller is not None and exports(caller, asked.owner.partition(".")[0]) and caller in symbol_packages():
        return None  # it has one of that name itself
    found = next(filter(None, (list(_explained(one, caller, case)) for one in (asked, *_above(asked)))), [])
    found = found or list(_in_none(asked, caller)) or list(_in_all(asked, caller, case))
    # What one package carries a copy of, the one that it is from answers for.
    tops = {package.replace("-", "_") for package, _ in found}
    found = [(p, one) for p, one in found if not any(t in one.said for t in tops - {p.replace("-", "_")})]
    if len({package for package, _ in found}) != 1:
        return None
    package, history = found[-1]
    if any(one.specifier != history.specifier for _, one in found):
        return None
    return Unfit(package, distribution(caller, case.packages) if caller else "", asked, said, history)


def _askers(link: LoggedException, owner: str) -> Sequence[Frame]:
    """The frames without those that hand on what others pass: decorators, and what the package of the class itself
    makes of a dict (``config_cls(**kwargs)``)."""
    frames = [frame for frame in link.frames if not _HANDS_ON.match(frame.code.strip())]
    own = package_of(frames[-1].file, frames[-1].function) if frames else None
    if own is not None and exports(own, owner):
        outside = [f for f in frames if package_of(f.file, f.function) != own]
        handed = _ANY.search(frames[-1].code) is not None
        frames = outside if handed and outside else frames
    return frames or link.frames


def _above(asked: SymbolRequest) -> Iterator[SymbolRequest]:
    """The same asked of the classes that a class of settings may be derived from, by its name: ``AxolotlGRPOConfig``
    from ``GRPOConfig``. Nothing where a package has one of that name itself and its arguments."""
    if asked.kind == "argument" and _DERIVABLE.fullmatch(asked.owner):
        name, _, method = asked.owner.partition(".")
        words = _WORDS.findall(name)
        for start in range(1, len(words) - 1):
            yield replace(asked, owner="".join(words[start:]) + (f".{method}" if method else ""))


def _explained(asked: SymbolRequest, caller: str | None, case: Case) -> Iterator[tuple[str, SymbolHistory]]:
    for package in symbol_packages():
        if package != caller and _telling(package, asked, caller):
            for history in accepting(package, asked, version_of(package, case)):
                yield package, history


def _telling(package: str, asked: SymbolRequest, caller: str | None) -> bool:
    """Whether the name tells that the package's own is meant: what a script calls by a plain name that the package does
    not give out may be the script's own."""
    first = asked.owner.partition(".")[0]
    return caller is not None or len(_WORDS.findall(first)) > 1 or exports(package, first, outside=True)


def _in_none(asked: SymbolRequest, caller: str | None) -> Iterator[tuple[str, SymbolHistory]]:
    """The packages of which no release takes what another package passes. What a script passes may be misspelt; a class
    that takes its fields alone tells that it was a field once only where the script is of another time."""
    packaged = caller not in (None, "", "__main__")
    for package in symbol_packages() if packaged or asked.by_fields else ():
        outside = packaged or exports(package, asked.owner, outside=True)
        history = refused_by_all(package, asked) if package != caller and outside else None
        if history is not None:
            yield package, history


def _in_all(asked: SymbolRequest, caller: str | None, case: Case) -> Iterator[tuple[str, SymbolHistory]]:
    """The packages of which every release that was read takes what is asked: the one at hand is older."""
    for package in symbol_packages():
        if package != caller and not version_of(package, case) and _telling(package, asked, caller):
            for one in (asked, *_above(asked)):
                history = taken_by_all(package, one)
                if history is not None and exports(package, one.owner.partition(".")[0], outside=caller is None):
                    yield package, history
                    break


def _request(link: LoggedException) -> tuple[SymbolRequest | None, str]:
    """What a message says was asked, and how to say it."""
    code = link.frames[-1].code if link.frames else ""
    if (match := _ARGUMENT.search(link.message)) is not None:
        owner, name = match["owner"], match["name"]
        if owner == "__init__" and (classes := _MADE.findall(code)):
            owner = f"{classes[-1]}.__init__"  # Python 3.9 and older do not name the class
        return SymbolRequest("argument", owner, (name,)), f"{owner} takes no {name}, which {{}} passes"
    if (match := _OF_A_STRUCT.match(link.message)) is not None and (made := _MADE.search(code)):
        owner, name = made["owner"], match["name"]
        return SymbolRequest("argument", owner, (name,), by_fields=True), f"{owner} takes no {name}, which {{}} passes"
    if (match := _POSITIONS.search(link.message)) is not None:
        owner, method = match["owner"], "." in match["owner"]
        most = int(match["given"]) - method  # the object itself is counted
        return SymbolRequest("positions", owner, (), most), f"{owner} takes fewer arguments than the {most} {{}} passes"
    if (match := _MISSING.search(link.message)) is not None:
        owner, names = match["owner"], tuple(_QUOTED.findall(match["names"]))
        given = " and ".join(names)
        return SymbolRequest("missing", owner, names), f"{owner} asks for {given}, which {{}} does not pass"
    if (match := _ATTRIBUTE.search(link.message)) is not None and link.type == "AttributeError":
        owner, name = match["owner"], match["name"]
        return SymbolRequest("attribute", owner, (name,)), f"{owner} has no {name}, which {{}} uses"
    return None, ""
