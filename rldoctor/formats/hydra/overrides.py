"""Hydra and OmegaConf: overrides with their value grammar, interpolation, and the composition of config files at
hand."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rldoctor.formats.hydra.grammar import parse_value
from rldoctor.formats.native import Located, Native
from rldoctor.formats.values import Unresolved, scalar
from rldoctor.plan.model import Form

if TYPE_CHECKING:
    from rldoctor.formats.shell.reader import Word

_HEAD = re.compile(r"(\+\+|\+|~)?([A-Za-z_$][\w./@$-]*)(=|$)")
_INTERPOLATION = re.compile(r"\$\{([^${}]*)\}")
# The resolvers that NeMo-RL registers (nemo_rl/utils/config.py, register_omegaconf_resolvers).
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "div": operator.truediv,
    "max": max,
}
MAX_DEPTH = 30
MAX_TEXT = 100_000


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
    """The value of an override's text as Hydra reads it; what Hydra refuses is unknown, with the reason."""
    try:
        return parse_value(text)
    except (ValueError, RecursionError) as error:
        return Unresolved(text, f"Hydra refuses it: {error}")


Lookup = Callable[[str], Any]
MISSING = object()


def interpolated(natives: Iterable[Native], fallback: Lookup, environment: Mapping[str, Any]) -> list[Native]:
    """The natives with ``${...}`` filled in from each other, the last of a key winning, then from ``fallback`` (which
    gives None for what it does not know)."""
    listed = list(natives)
    flat = dict(pair for native in listed for pair in _flat(native.key, native.value))
    if not any(isinstance(value, str) and "${" in value for value in flat.values()):
        return listed

    def lookup(key: str) -> Any:
        if key in flat:
            return flat[key]
        found = fallback(key)
        return MISSING if found is None else found

    return [replace(native, value=fill(native.value, native.key, lookup, environment)) for native in listed]


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield key, value
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _flat(f"{key}.{name}", part)


def fill(value: Any, key: str, lookup: Lookup, environment: Mapping[str, Any], depth: int = 0) -> Any:
    """``value`` with its interpolations resolved; one that cannot be is an :class:`Unresolved`."""
    if isinstance(value, dict):
        filled = {name: fill(part, f"{key}.{name}", lookup, environment, depth) for name, part in value.items()}
        return Located(filled, value.lines) if isinstance(value, Located) else filled
    if isinstance(value, list):
        return [fill(part, key, lookup, environment, depth) for part in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    if depth > MAX_DEPTH:
        return Unresolved(value, "it refers to itself")
    text: str = value
    for _ in range(MAX_DEPTH):
        found = _INTERPOLATION.search(text)
        if found is None:
            return scalar(text) if value.startswith("${") and value.endswith("}") else text
        part = _resolve(found[1], key, lookup, environment, depth)
        if isinstance(part, Unresolved):
            return Unresolved(value, part.why)
        if found[0] == text:
            return part
        text = text[: found.start()] + ("null" if part is None else str(part)) + text[found.end() :]
        if len(text) > MAX_TEXT:
            return Unresolved(value[:80], "an interpolation that grows beyond reason")
    return Unresolved(value, "an interpolation that is nested too deeply")


def _resolve(inner: str, key: str, lookup: Lookup, environment: Mapping[str, Any], depth: int) -> Any:
    name, colon, rest = inner.partition(":")
    if not colon:
        path = inner.strip()
        if path.startswith("."):
            level = len(path) - len(path.lstrip("."))
            path = ".".join([*key.split(".")[:-level], path.lstrip(".")])
        found = lookup(path)
        if found is MISSING:
            return Unresolved(f"${{{inner}}}", f"{path} is not set in this launch")
        return fill(found, path, lookup, environment, depth + 1)
    parts = [scalar(part.strip()) for part in rest.split(",")]
    if name == "oc.env":
        found = environment.get(str(parts[0]), MISSING)
        if found is MISSING:
            found = parts[1] if len(parts) > 1 else Unresolved(f"${{{inner}}}", f"{parts[0]} is not set in this file")
        return scalar(found) if isinstance(found, str) else found
    if name == "oc.select":
        found = lookup(str(parts[0]))
        found = (parts[1] if len(parts) > 1 else None) if found is MISSING else found
        return fill(found, str(parts[0]), lookup, environment, depth + 1)
    compute = _ARITHMETIC.get(name)
    if compute is not None and len(parts) == 2 and all(isinstance(part, int | float) for part in parts):
        try:
            return compute(parts[0], parts[1])
        except (ArithmeticError, ValueError) as error:
            return Unresolved(f"${{{inner}}}", f"{name}: {error}")
    return Unresolved(f"${{{inner}}}", f"{name} is computed by the framework's own code")
