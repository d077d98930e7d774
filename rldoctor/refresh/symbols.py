"""Makes the tables of symbols: which module of which release defines which names, with which parameters.

Of every minor release the newest is read. Files are parsed without the bodies of their functions; a file that did not
change between two releases is parsed once."""

from __future__ import annotations

import ast
import datetime
import hashlib
import lzma
import re
from collections.abc import Callable, Iterator

import msgspec

from rldoctor.frameworks import frameworks
from rldoctor.refresh.modules import OLDEST, module_name, modules, order
from rldoctor.refresh.releases import Publications, minor
from rldoctor.tables.options.outline import outline
from rldoctor.tables.symbols import DATA, Table

SINCE = {
    **OLDEST,
    **{package.name: package.since for one in frameworks() for package in one.packages if package.symbols},
}
COVERED = tuple(SINCE)

# One module for each architecture: that it is there, and its classes, is what matters.
_MODELS = re.compile(r"^(?:vllm/model_executor/models|transformers/models)/")

Symbols = dict[str, str]


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Reads the releases that the table lacks and writes it. Returns what changed, a line each.

    Raises ``OSError`` where the index does not answer."""
    table = Table.load(package) if package in Table.packages() else Table({"releases": [], "modules": {}})
    chosen = published.releases(package, SINCE[package], minor, beside=False)
    read = [(v, table.at(v)) for v in table.releases]
    known = {version for version, _ in read}
    kept: dict[bytes, Symbols] = {}
    fresh = []
    for release in chosen:
        if release.version in known:
            continue
        tree = release.open()
        found: dict[str, Symbols] = {}
        for path, text in modules(tree, package):
            digest = hashlib.sha256(f"{path}\0{text}".encode()).digest()
            if digest not in kept:
                kept[digest] = dict(symbols(text, classes_only=bool(_MODELS.match(path))))
            found[module_name(path)] = kept[digest]
        say(f"{package} {release.version}: {len(found)} modules")
        fresh.append((release.version, found))
    # A newer patch of a minor release takes the place of the one that was read before.
    newest = {release.version for release in chosen}
    rows = sorted((row for row in (*read, *fresh) if row[0] in newest), key=lambda row: order(row[0]))
    content = encoded(rows, datetime.date.today().isoformat())
    DATA.mkdir(exist_ok=True)
    (DATA / f"{package}.json.xz").write_bytes(
        lzma.compress(msgspec.json.encode(content), preset=9 | lzma.PRESET_EXTREME)
    )
    return [f"{len(fresh)} new releases, {fresh[0][0]} to {fresh[-1][0]}"] if fresh else []


def symbols(text: str, *, classes_only: bool = False) -> Iterator[tuple[str, str]]:
    """The names that a module binds, and members of its classes as ``Class.member``, each with its parameters as
    ``a,b=,*,c=,**`` (empty where it takes none or is not called)."""
    short = outline(text)
    try:
        tree = ast.parse(short if short is not None else text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in _executed(tree.body):
        if isinstance(node, ast.ClassDef):
            yield node.name, ""
            if not classes_only:
                yield from ((f"{node.name}.{name}", said) for name, said in _members(node))
        elif classes_only:
            continue
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, _parameters(node)
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, "") for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, "") for target in targets if isinstance(target, ast.Name))


def encoded(rows: list[tuple[str, dict[str, Symbols]]], day: str) -> dict[str, object]:
    """The table's content: per module and name the spans of releases, by position, in which it stood with the same
    parameters."""
    modules: dict[str, dict[str, list[list[object]]]] = {}
    for position, (_, found) in enumerate(rows):
        for module, names in found.items():
            held = modules.setdefault(module, {})
            for name, said in {"": "", **names}.items():
                spans = held.setdefault(name, [])
                if spans and spans[-1][1] == position - 1 and spans[-1][2:] == ([said] if said else []):
                    spans[-1][1] = position
                else:
                    spans.append([position, position, *([said] if said else [])])
    return {"date": day, "releases": [version for version, _ in rows], "modules": modules}


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if not statement.name.startswith("_") or statement.name == "__init__":
                yield statement.name, _parameters(statement)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, ""
        elif isinstance(statement, ast.Assign):
            yield from ((target.id, "") for target in statement.targets if isinstance(target, ast.Name))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    first = len(plain) - len(given.defaults)
    parts = [a.arg + ("=" if i >= first else "") for i, a in enumerate(plain) if a.arg not in ("self", "cls")]
    parts += ["*"] if given.vararg or given.kwonlyargs else []
    parts += [a.arg + ("=" if d is not None else "") for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return ",".join([*parts, *(["**"] if given.kwarg else [])])


def _executed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _executed(node.body)
            yield from _executed(getattr(node, "orelse", []))
            for handler in getattr(node, "handlers", []):
                yield from _executed(handler.body)
