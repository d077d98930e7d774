"""Makes the table of what a model's ``config.json`` means by leaving a key out: the defaults of transformers'
configuration classes, by ``model_type`` and release, read as source and never imported. Of every minor release the
newest is read."""

from __future__ import annotations

import ast
import datetime
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from rldoctor.records import dataclass
from rldoctor.refresh.releases import Publications, minor, news
from rldoctor.tables.model_defaults import KEYS, SECTIONS, Table
from rldoctor.tables.sources.trees import SourceTree

SINCE = {"transformers": "4.45.0"}
COVERED = tuple(SINCE)

Defaults = dict[str, int | bool | str]


@dataclass
class _Class:
    """One configuration class as its file has it. ``settled`` are the keys that its constructor makes something else
    of: their defaults say nothing."""

    bases: tuple[str, ...]
    model_type: str | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Reads the releases that the table lacks and writes it. Returns what changed, a line each.

    Raises ``OSError`` where the index does not answer."""
    table = Table.load(package) if package in Table.packages() else Table(package, {"releases": [], "models": {}})
    chosen = published.releases(package, SINCE[package], minor, beside=False)
    parsed: dict[bytes, dict[str, _Class]] = {}
    rows: list[tuple[str, dict[str, Defaults]]] = []
    fresh = []
    for release in chosen:
        if release.version in table.releases:
            rows.append((release.version, table.at(release.version)))
            continue
        found = defaults_of(release.open(), package, parsed)
        say(f"{package} {release.version}: {len(found)} language models")
        rows.append((release.version, found))
        fresh.append(release.version)
    content = encoded(rows, datetime.date.today().isoformat())
    Table.write(package, content)
    return news(fresh)


def defaults_of(
    tree: SourceTree, package: str = "transformers", parsed: dict[bytes, dict[str, _Class]] | None = None
) -> dict[str, Defaults]:
    """For each ``model_type`` of a release the defaults of its language model, and under the name of a section the
    ``model_type`` of what stands there. ``parsed`` keeps files that the next release has unchanged."""
    parsed = {} if parsed is None else parsed
    classes: dict[str, _Class] = {}
    for path in tree.names(f"{package}/models"):
        if "/configuration_" not in path or not path.endswith(".py"):
            continue
        text = tree.read(path) or ""
        digest = hashlib.sha256(text.encode()).digest()
        if digest not in parsed:
            parsed[digest] = dict(_classes(text))
        classes |= parsed[digest]
    found: dict[str, Defaults] = {}
    for name, one in classes.items():
        if one.model_type is None:
            continue
        values = _inherited(classes, name)
        sections = {s: kind for s, of in one.sections.items() if (kind := _kind(classes, of)) is not None}
        if "vocab_size" in values or sections:
            found[one.model_type] = {**dict(sorted(values.items())), **sections}
    return dict(sorted(found.items()))


def encoded(rows: list[tuple[str, dict[str, Defaults]]], day: str) -> dict[str, object]:
    """The table's content: per model and key the values with the position of the release from which each holds; null
    where there is none."""
    models: dict[str, dict[str, list[list[object]]]] = {}
    for position, (_, found) in enumerate(rows):
        for model, values in found.items():
            held = models.setdefault(model, {})
            for key in (*held, *(k for k in values if k not in held)):
                value, spans = values.get(key), held.setdefault(key, [])
                # The types too: True is no 1.
                if not spans or (spans[-1][1], type(spans[-1][1])) != (value, type(value)):
                    spans.append([position, value])
    return {"date": day, "releases": [version for version, _ in rows], "models": models}


def _classes(text: str) -> Iterator[tuple[str, _Class]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, _class(node)


def _class(node: ast.ClassDef) -> _Class:
    one = _Class(bases=tuple(base.id for base in node.bases if isinstance(base, ast.Name)))
    for statement in node.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if not isinstance(target, ast.Name) or statement.value is None:
                continue
            if target.id == "model_type" and isinstance(statement.value, ast.Constant):
                one.model_type = str(statement.value.value) or None
            elif target.id == "sub_configs" and isinstance(statement.value, ast.Dict):
                one.sections |= _sections(statement.value)
            elif target.id == "attribute_map" and isinstance(statement.value, ast.Dict):
                # Another name for a setting: what its own class or a base says of it does not count.
                one.settled |= {str(key.value) for key in statement.value.keys if isinstance(key, ast.Constant)}
            elif target.id in KEYS:
                one.defaults[target.id] = _constant(statement.value)
        elif isinstance(statement, ast.FunctionDef) and statement.name in ("__init__", "__post_init__"):
            one.defaults |= _arguments(statement)
            one.settled |= {key for key in KEYS if _made_otherwise(statement, key)}
    return one


def _sections(table: ast.Dict) -> dict[str, str]:
    pairs = zip(table.keys, table.values, strict=True)
    return {
        key.value: value.id
        for key, value in pairs
        if isinstance(key, ast.Constant) and key.value in SECTIONS and isinstance(value, ast.Name)
    }


def _arguments(function: ast.FunctionDef) -> dict[str, Any]:
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(plain[len(plain) - len(given.defaults) :], given.defaults, strict=True),
        *((a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None),
    ]
    return {a.arg: _constant(d) for a, d in pairs if a.arg in KEYS}


def _constant(node: ast.expr) -> Any:
    """A number as it stands, or as a product (``4096 * 32``); None where it is anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _constant(node.left), _constant(node.right)
        return left * right if isinstance(left, int) and isinstance(right, int) else None
    return node.value if isinstance(node, ast.Constant) else None


def _made_otherwise(function: ast.FunctionDef, key: str) -> bool:
    """Whether a constructor makes something else of an argument than itself, or a choice where it is none."""
    asked = {
        id(inner)
        for node in ast.walk(function)
        if isinstance(node, ast.If) and _names(node.test, key)
        for inner in ast.walk(node)
    }
    return any(
        id(node) not in asked and not _keeps(node.value, key)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(_is(target, key) for target in node.targets)
    )


def _keeps(value: ast.expr, key: str) -> bool:
    """The value itself, ``value or other``, ``value if value is not None else other``, ``value if ... else None``."""
    if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
        return _is(value.values[0], key)
    if isinstance(value, ast.IfExp):
        unset = isinstance(value.orelse, ast.Constant) and value.orelse.value is None
        return (_is(value.body, key) and (unset or _names(value.test, key))) or (
            _is(value.orelse, key) and _names(value.test, key)
        )
    return _is(value, key)


def _is(node: ast.expr, key: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == key and isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node, ast.Name) and node.id == key


def _names(test: ast.expr, key: str) -> bool:
    return any(isinstance(node, ast.expr) and _is(node, key) for node in ast.walk(test))


def _inherited(classes: dict[str, _Class], name: str, seen: frozenset[str] = frozenset()) -> Defaults:
    one = classes.get(name)
    if one is None or name in seen:
        return {}
    values: dict[str, Any] = {}
    for base in reversed(one.bases):
        values |= _inherited(classes, base, seen | {name})
    values |= one.defaults
    return {key: value for key, value in values.items() if key not in one.settled and isinstance(value, bool | int)}


def _kind(classes: dict[str, _Class], name: str) -> str | None:
    one = classes.get(name)
    return one.model_type if one is not None else None
