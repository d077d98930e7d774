"""OmegaConf's interpolations (``${a.b}``, ``${oc.env:HOME,none}``), by its grammar (omegaconf/grammar of 2.3): resolved
in the values of one configuration, with the resolvers that it has itself and those that a framework adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from rldoctor.expressions import expression
from rldoctor.formats.hydra.grammar import IN_KEY, IN_TEXT, Token, joined, token
from rldoctor.formats.native import Located, Native
from rldoctor.formats.values import Unresolved
from rldoctor.records import dataclass

MAX_DEPTH = 30
MAX_TEXT = 100_000
MAX_STEPS = 20_000
_SHOWN = 200
_BLANKS = expression(r"[ \t]*")
_DOTS = expression(r"\.*")
_NAME = expression(r"[^\\${}()\[\]:. \t'\"]+")
_CLOSE = expression(r"[ \t]*\}")
_RESOLVER = expression(r"[A-Za-z_][A-Za-z0-9_-]*")
_BRACKET = expression(r"[ \t]*\]")
_COLON = expression(r"[ \t]*:[ \t]*")
_SEPARATOR = expression(r"[ \t]*,[ \t]*")
# Between quotes and outside of all: backslashes count before what they take the meaning of, elsewhere they are text.
_TEXT = {
    quote: expression(rf"(?P<plain>[^\\${quote}]+)|(?P<escapes>\\+)|(?P<dollar>\$)" + (f"|{quote}" if quote else ""))
    for quote in ("", "'", '"')
}

Lookup = Callable[[str], Any]
Resolvers = Mapping[str, Callable[[Any, Any], Any]]
MISSING = object()
# Why a value is not known that refers to a key which nothing gives.
ABSENT = "is not set in this launch"


def interpolated(
    natives: Iterable[Native], fallback: Lookup, environment: Mapping[str, Any], resolvers: Resolvers
) -> list[Native]:
    """The natives with ``${...}`` filled in from each other, the last of a key winning, then from ``fallback`` (which
    gives None for what it does not know). ``resolvers`` are those of the framework, of two numbers each."""
    listed = list(natives)
    flat = dict(pair for native in listed for pair in _flat(native.key, native.value))
    if not any(isinstance(value, str) and "${" in value for value in flat.values()):
        return listed

    def lookup(key: str) -> Any:
        if key in flat:
            return flat[key]
        found = fallback(key)
        return MISSING if found is None else found

    filling = Filling(lookup, environment, resolvers)
    return [replace(native, value=filling.fill(native.value, native.key)) for native in listed]


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield key, value
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _flat(f"{key}.{name}", part)


def fill(value: Any, key: str, lookup: Lookup, environment: Mapping[str, Any], resolvers: Resolvers) -> Any:
    """``value`` with its interpolations resolved; one that cannot be is an :class:`Unresolved`."""
    return Filling(lookup, environment, resolvers).fill(value, key)


class _NotKnownError(Exception):
    """An interpolation that cannot be resolved, with the reason."""


@dataclass(frozen=True)
class _Section:
    """A mapping or a list of the configuration, as it stands under its path: in a text it is written so."""

    path: str
    value: Any


@dataclass
class Filling:
    """Resolves interpolations of one configuration: each value that others refer to once, and no more than
    :data:`MAX_STEPS` in all."""

    lookup: Lookup
    environment: Mapping[str, Any]
    resolvers: Resolvers
    steps: int = 0
    _known: dict[str, Any] = field(default_factory=dict)

    def fill(self, value: Any, key: str, depth: int = 0) -> Any:
        """``value`` of ``key`` with its interpolations resolved; one that cannot be is an :class:`Unresolved`."""
        if isinstance(value, dict):
            filled = {name: self.fill(part, f"{key}.{name}", depth) for name, part in value.items()}
            return Located(filled, value.lines) if isinstance(value, Located) else filled
        if isinstance(value, list):
            return [self.fill(part, f"{key}.{number}", depth) for number, part in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return self.whole(_Reader(value, self, key, depth).text(), depth)
        except _NotKnownError as error:
            return Unresolved(value[:_SHOWN], str(error))
        except RecursionError:
            return Unresolved(value[:_SHOWN], "an interpolation that is nested too deeply")

    def whole(self, value: Any, depth: int) -> Any:
        """A value that stands alone: what a section holds is resolved where it stands."""
        return self.fill(value.value, value.path, depth + 1) if isinstance(value, _Section) else value

    def count(self, depth: int) -> None:
        """One interpolation more. Raises where these are too many, or one within another too often."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise _NotKnownError(f"more than {MAX_STEPS} interpolations")
        if depth > MAX_DEPTH:
            raise _NotKnownError("it refers to itself")

    def node(self, path: str, key: str, depth: int) -> Any:
        """What stands at a path as it is written, as seen from ``key``; :data:`MISSING` where nothing does."""
        level = len(path) - len(path.lstrip("."))
        above = key.split(".")
        if level > len(above):
            raise _NotKnownError(f"{path} is above the whole configuration")
        named = [part for part in path.lstrip(".").replace("[", ".").replace("]", "").split(".") if part]
        parts = [*(above[:-level] if level else ()), *named]
        for end in range(len(parts), 0, -1):
            found = self.lookup(".".join(parts[:end]))
            if found is not MISSING:
                return self._below(found, parts[:end], parts[end:], depth)
        return MISSING

    def _below(self, value: Any, at: list[str], rest: list[str], depth: int) -> Any:
        """What stands further down in a value that was found."""
        found = self._resolved(value, ".".join(at), depth)
        if not rest or isinstance(found, Unresolved):
            return found
        inside = found.value if isinstance(found, _Section) else None
        where = found.path.split(".") if isinstance(found, _Section) else at
        if isinstance(inside, dict) and rest[0] in inside:
            return self._below(inside[rest[0]], [*where, rest[0]], rest[1:], depth)
        if isinstance(inside, list) and rest[0].isdecimal() and int(rest[0]) < len(inside):
            return self._below(inside[int(rest[0])], [*where, rest[0]], rest[1:], depth)
        return MISSING

    def _resolved(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, dict | list):
            return _Section(path, value)
        if not isinstance(value, str) or "${" not in value:
            return value
        if path not in self._known:
            self._known[path] = _Reader(value, self, path, depth + 1).text()
        return self._known[path]

    def resolver(self, name: str, given: list[Any], key: str, depth: int) -> Any:
        """What a resolver makes of its arguments."""
        if name == "oc.env" and given:
            found = self.environment.get(str(given[0]), MISSING)
            if found is MISSING and len(given) < 2:
                raise _NotKnownError(f"{given[0]} is not set in this file")
            found = given[1] if found is MISSING else found
            # A variable is text, and so is what stands in its place.
            return found if found is None or isinstance(found, Unresolved) else _written(found)
        if name in ("oc.select", "oc.deprecated") and given and isinstance(given[0], str):
            found = self.node(given[0], key, depth)
            if name == "oc.select" and (found is MISSING or found == "???"):
                return given[1] if len(given) > 1 else None
            return self.there(found, given[0])
        if name == "oc.decode" and len(given) == 1 and isinstance(given[0], str | None):
            return _Reader(given[0], self, key, depth + 1).decoded() if given[0] is not None else None
        if name in ("oc.dict.keys", "oc.dict.values") and len(given) == 1 and isinstance(given[0], str):
            held = self.there(self.node(given[0], key, depth), given[0])
            if isinstance(held, _Section) and isinstance(held.value, dict):
                # The values refer to where they stand.
                referring = [f"${{{held.path}.{one}}}" for one in held.value]
                return list(held.value) if name == "oc.dict.keys" else _Section(held.path, referring)
        compute = self.resolvers.get(name)
        if compute is not None and len(given) == 2 and all(isinstance(part, int | float) for part in given):
            try:
                return compute(given[0], given[1])
            except (ArithmeticError, ValueError) as error:
                raise _NotKnownError(f"{name}: {error}") from None
        raise _NotKnownError(f"{name} is computed by the framework's own code")

    def there(self, found: Any, path: str) -> Any:
        """A value that has to be there. Raises where nothing is, or what is mandatory was not given."""
        if isinstance(found, Unresolved):
            raise _NotKnownError(found.why)
        if found is MISSING or found == "???":
            raise _NotKnownError(f"{path} {ABSENT}")
        return found


@dataclass
class _Reader:
    """Reads one text from its beginning to its end, and resolves what it comes across, as seen from ``key``."""

    source: str
    filling: Filling
    key: str
    depth: int
    at: int = 0

    def text(self, quote: str = "") -> Any:
        """What stands up to the end, or to the quote that ends it: an interpolation alone is its value, anything else
        is text."""
        pieces: list[Any] = []
        size = 0
        while self.at < len(self.source):
            found = _TEXT[quote].match(self.source, self.at)
            assert found is not None
            if found.lastgroup is None:
                break
            if self.source.startswith("${", self.at):
                pieces.append(self.interpolation())
            else:
                self.at = found.end()
                pieces.append(self._escaped(found[0], quote) if found["escapes"] else found[0])
            size += len(_written(pieces[-1]))
            if size > MAX_TEXT:
                raise _NotKnownError("an interpolation that grows beyond reason")
        if quote and self.source[self.at : self.at + 1] != quote:
            raise self._refused()
        self.at += len(quote)
        return pieces[0] if len(pieces) == 1 and not quote else "".join(map(_written, pieces))

    def _escaped(self, slashes: str, quote: str) -> str:
        """Backslashes and, where their number is odd, what they take the meaning of."""
        half, odd = divmod(len(slashes), 2)
        for meaning in ("${", quote):
            if meaning and self.source.startswith(meaning, self.at):
                self.at += len(meaning) * odd
                return "\\" * half + meaning * odd
        return slashes

    def interpolation(self) -> Any:
        """The value of the interpolation that begins here."""
        self.filling.count(self.depth)
        self._take(_BLANKS, 2)
        path = self._take(_DOTS)
        named = not path
        while True:
            bracket = self._is("[")
            part = self._name()
            if bracket and not self._is("]"):
                raise self._refused()
            named = named and not bracket and _RESOLVER.fullmatch(part) is not None
            path += f"[{part}]" if bracket else part
            if self._is("."):
                path += "."
            elif not self.source.startswith("[", self.at):
                break
        if named and self._is(":"):
            self._take(_BLANKS)
            return self.filling.resolver(path, self._sequence(_CLOSE), self.key, self.depth)
        if not self._closed(_CLOSE):
            raise self._refused()
        return self.filling.there(self.filling.node(path, self.key, self.depth), path)

    def _name(self) -> str:
        if not self.source.startswith("${", self.at):
            return self._take(_NAME) or self._missing()
        found = self.interpolation()
        if not isinstance(found, str):
            raise _NotKnownError(f"{_written(found)} is no name of a setting")
        return found

    def _missing(self) -> str:
        raise self._refused()

    def _sequence(self, close: Any) -> list[Any]:
        """The elements up to what closes them; one that is left out beside a comma is an empty text."""
        found: list[Any] = []
        if self._closed(close):
            return found
        while True:
            comma = _SEPARATOR.match(self.source, self.at) is not None
            found.append("" if comma or close.match(self.source, self.at) else self._plain(self.element()))
            if self._closed(close):
                return found
            if not self._take(_SEPARATOR):
                raise self._refused()

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Unresolved):
            raise _NotKnownError(value.why)
        return value

    def decoded(self) -> Any:
        """The one element that the whole text is."""
        found = self.element()
        if self.at < len(self.source):
            raise self._refused()
        return found

    def element(self) -> Any:
        """An element: a quoted or plain value, a list, a mapping."""
        self.filling.count(self.depth)
        self.depth += 1
        opening = self.source[self.at : self.at + 1]
        if opening in ("'", '"') and opening:
            self.at += 1
            found = self.text(opening)
        elif opening == "[":
            self._take(_BLANKS, 1)
            found = [self.filling.whole(one, self.depth) for one in self._sequence(_BRACKET)]
        elif opening == "{":
            self._take(_BLANKS, 1)
            found = self._mapping()
        else:
            found = self._primitive(IN_TEXT)
        self.depth -= 1
        return found

    def _mapping(self) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while not self._closed(_CLOSE):
            if found and not self._take(_SEPARATOR):
                raise self._refused()
            name = self._primitive(IN_KEY)
            if not self._take(_COLON):
                raise self._refused()
            found[name] = self.filling.whole(self._plain(self.element()), self.depth)
        return found

    def _primitive(self, allowed: frozenset[str]) -> Any:
        """Tokens that together are one plain value."""
        parts: list[Token] = []
        while self.at < len(self.source):
            if self.source.startswith("${", self.at) and "interpolation" in allowed:
                parts.append(("interpolation", self.interpolation()))
                continue
            kind, size = token(self.source, self.at)
            if kind not in allowed:
                break
            parts.append((kind, self.source[self.at : self.at + size]))
            self.at += size
        if not parts:
            raise self._refused()
        return joined([(kind, _written(part) if len(parts) > 1 else part) for kind, part in parts])

    def _take(self, pattern: Any, after: int = 0) -> str:
        """What a pattern matches here, past some characters; an empty text where it matches nothing."""
        self.at += after
        found = pattern.match(self.source, self.at)
        self.at = found.end() if found is not None else self.at
        return found[0] if found is not None else ""

    def _is(self, character: str) -> bool:
        """Whether this stands here, which is passed over then."""
        here = self.source.startswith(character, self.at)
        self.at += len(character) * here
        return here

    def _closed(self, close: Any) -> bool:
        return bool(self._take(close))

    def _refused(self) -> _NotKnownError:
        return _NotKnownError(f"OmegaConf refuses it at {self.source[self.at : self.at + 20]!r}")


def _written(value: Any) -> str:
    """A value within a text: None, True and 12 are written as Python writes them."""
    return str(value.value if isinstance(value, _Section) else value)
