"""Hydra and OmegaConf: overrides with their value grammar, interpolation, and the composition of config files at
hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from rldoctor.formats.hydra.grammar import parse_value
from rldoctor.formats.native import Located, Native
from rldoctor.formats.values import SECRET, Unresolved, scalar
from rldoctor.plan.model import Form
from rldoctor.records import dataclass
from rldoctor.redact.marks import has_mark

if TYPE_CHECKING:
    from rldoctor.formats.shell.reader import Word

_HEAD = re.compile(r"(\+\+|\+|~)?([A-Za-z_$][\w./@$-]*)(=|$)")
_INTERPOLATION = re.compile(r"\$\{([^${}]*)\}")
MAX_DEPTH = 30
MAX_TEXT = 100_000
MAX_STEPS = 20_000
_SHOWN = 200


def override(word: Word, file: str, group: str = "") -> Native | None:
    """One override (``a.b=c``, ``+a=c``, ``++a=c``, ``~a``), or None where the word is none."""
    known = word.value if isinstance(word.value, str) else word.prefix
    head = _HEAD.match(known)
    if head is None or (not head[3] and head[1] != "~"):
        return None
    value: Any = None
    if isinstance(word.value, Unresolved):
        value = Unresolved(word.raw.partition("=")[2], word.value.why)
    elif head[3]:
        value = parse(known[head.end() :])
    _, is_at, package = head[2].partition("@")
    return Native(
        key=head[2].replace("/", "."),
        value=value if head[1] != "~" else None,
        file=word.file or file,
        line=word.line,
        form=Form.OVERRIDE,
        spelled=head[2],
        raw=word.raw,
        operator=head[1] or "",
        group=group,
        package=package if is_at else None,
    )


def parse(text: str) -> Any:
    """The value of an override's text as Hydra reads it; what Hydra refuses is unknown, with the reason, and so is what
    a secret stands in."""
    if has_mark(text):
        return Unresolved(text, SECRET)
    try:
        return parse_value(text)
    except (ValueError, RecursionError) as error:
        return Unresolved(text, f"Hydra refuses it: {error}")


Lookup = Callable[[str], Any]
Resolvers = Mapping[str, Callable[[Any, Any], Any]]
MISSING = object()


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


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


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
            return [self.fill(part, key, depth) for part in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        if depth > MAX_DEPTH:
            return Unresolved(value[:_SHOWN], "it refers to itself")
        text: str = value
        for _ in range(MAX_DEPTH):
            found = _INTERPOLATION.search(text)
            if found is None:
                return text
            self.steps += 1
            if self.steps > MAX_STEPS:
                return Unresolved(value[:_SHOWN], f"more than {MAX_STEPS} interpolations")
            part = self._resolve(found[1], key, depth)
            if isinstance(part, Unresolved):
                return Unresolved(value[:_SHOWN], part.why)
            if found[0] == text:
                return part
            # What stands beside something else is text: None, True and 12 are written as Python writes them.
            text = f"{text[: found.start()]}{part}{text[found.end() :]}"
            if len(text) > MAX_TEXT:
                return Unresolved(value[:_SHOWN], "an interpolation that grows beyond reason")
        return Unresolved(value[:_SHOWN], "an interpolation that is nested too deeply")

    def _of(self, path: str, value: Any, depth: int) -> Any:
        if path in self._known:
            return self._known[path]
        filled = self.fill(value, path, depth + 1)
        if not isinstance(filled, Unresolved):
            self._known[path] = filled
        return filled

    def _resolve(self, inner: str, key: str, depth: int) -> Any:
        name, colon, rest = inner.partition(":")
        if not colon:
            path = inner.strip()
            if path.startswith("."):
                level = len(path) - len(path.lstrip("."))
                path = ".".join([*key.split(".")[:-level], path.lstrip(".")])
            found = self.lookup(path)
            if found is MISSING:
                return Unresolved(f"${{{inner}}}", f"{path} is not set in this launch")
            return self._of(path, found, depth)
        parts = [scalar(part.strip()) for part in rest.split(",")]
        if name == "oc.env":
            found = self.environment.get(str(parts[0]), MISSING)
            if found is MISSING:
                unset = Unresolved(f"${{{inner}}}", f"{parts[0]} is not set in this file")
                found = parts[1] if len(parts) > 1 else unset
            # A variable is text, and so is what stands in its place.
            return found if found is None or isinstance(found, Unresolved) else _unquoted(str(found))
        if name == "oc.select":
            found = self.lookup(str(parts[0]))
            if found is MISSING:
                return self.fill(parts[1] if len(parts) > 1 else None, str(parts[0]), depth + 1)
            return self._of(str(parts[0]), found, depth)
        compute = self.resolvers.get(name)
        if compute is not None and len(parts) == 2 and all(isinstance(part, int | float) for part in parts):
            try:
                return compute(parts[0], parts[1])
            except (ArithmeticError, ValueError) as error:
                return Unresolved(f"${{{inner}}}", f"{name}: {error}")
        return Unresolved(f"${{{inner}}}", f"{name} is computed by the framework's own code")
