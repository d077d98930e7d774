"""Python source seen by its syntax tree: what a module binds, and where an imported name was first written down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property

from rldoctor.io import untrusted
from rldoctor.records import dataclass
from rldoctor.tables.options.outline import outline
from rldoctor.tables.sources.trees import SourceTree

_DEEPEST = 12  # imports of imports; real ones stay below five


@dataclass(frozen=True)
class External:
    """A name that the tree imports from elsewhere."""

    name: str


@dataclass
class Module:
    """One parsed file. ``bindings`` holds classes, functions and assigned expressions by name; ``kept`` the lines that
    were parsed, where function bodies were left out."""

    name: str
    path: str
    text: str
    tree: ast.Module
    package: bool
    kept: list[str] | None = None
    bindings: dict[str, ast.stmt | ast.expr] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def segment(self, node: ast.expr) -> str:
        """The source text of an expression, on one line."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        if first == last:  # columns count bytes
            return self.lines[first].encode()[node.col_offset : node.end_col_offset].decode("utf-8", "replace")
        return ast.unparse(node)

    def whole(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The function with its body, parsed by itself."""
        kept = self.kept
        if kept is None:
            return node
        start = (node.decorator_list[0] if node.decorator_list else node).lineno - 1
        end = node.end_lineno or node.lineno
        while end < len(kept) and not kept[end].strip():
            end += 1
        # Blocks around it give the slice the indentation it has in the file.
        around = [f"{' ' * column}if 1:" for column in range(0, node.col_offset, 4)]
        tree = _parsed("\n".join([*around, *self.lines[start:end]]))
        found = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)), None) if tree else None
        return ast.increment_lineno(found, start - len(around)) if found else node


@dataclass(frozen=True)
class Definition:
    """A statement or expression and the module it stands in."""

    module: Module
    node: ast.stmt | ast.expr


class Sources:
    """Parses the files of one tree once each and follows names through their imports; nothing is executed.

    ``packages`` are the top-level packages that belong to the tree; every other import is :class:`External`.
    ``unreadable`` says of each file that is no Python of this interpreter's release where it is none."""

    def __init__(self, tree: SourceTree, packages: tuple[str, ...]) -> None:
        self.tree = tree
        self.packages = packages
        self.unreadable: dict[str, str] = {}
        self._modules: dict[str, Module | None] = {}

    def at(self, path: str) -> Module | None:
        """The module in the file at ``path`` (``trl/trainer/grpo_config.py``), or None."""
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if name not in self._modules:
            self._modules[name] = self._parse(name, path)
        return self._modules[name]

    def named(self, name: str) -> Module | None:
        """The module with the dotted ``name``, or None."""
        if name not in self._modules:
            path = name.replace(".", "/")
            self._modules[name] = self._parse(name, path + ".py") or self._parse(name, path + "/__init__.py")
        return self._modules[name]

    def resolve(self, module: Module, name: str, depth: int = 0) -> Definition | External | None:
        """Where the possibly dotted ``name`` that ``module`` uses was defined."""
        head, _, rest = name.partition(".")
        if depth > _DEEPEST:
            return None
        if head in module.bindings:
            node = module.bindings[head]
            alias = dotted(node) if isinstance(node, ast.expr) else None
            if alias and alias != name:
                return self.resolve(module, f"{alias}.{rest}" if rest else alias, depth + 1)
            return self._member(Definition(module, node), rest)
        if head in module.imports:
            origin, attribute = module.imports[head]
            return self._imported(origin, [p for p in (attribute, *rest.split(".")) if p], depth)
        for star in module.stars:
            target = self.named(star)
            found = self.resolve(target, name, depth + 1) if target else None
            if isinstance(found, Definition):
                return found
        return None

    def _imported(self, origin: str, parts: list[str], depth: int) -> Definition | External | None:
        """Follows ``origin.a.b``: as many parts as name modules, then a binding in the last one."""
        if origin.split(".")[0] not in self.packages:
            return External(".".join([origin, *parts]))
        for used in range(len(parts), -1, -1):
            module = self.named(".".join([origin, *parts[:used]]))
            if module is None:
                continue
            if used == len(parts):
                return Definition(module, module.tree.body[0]) if module.tree.body else None
            return self.resolve(module, ".".join(parts[used:]), depth + 1)
        return External(".".join([origin, *parts]))

    @staticmethod
    def _member(found: Definition, rest: str) -> Definition | None:
        """A class attribute or method of what was found."""
        if not rest:
            return found
        if isinstance(found.node, ast.ClassDef) and "." not in rest:
            for statement in found.node.body:
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == rest:
                    return Definition(found.module, statement)
        return None

    def _parse(self, name: str, path: str) -> Module | None:
        text = self.tree.read(path)
        if text is None:
            return None
        kept = outline(text)
        tree = _parsed(kept)
        if tree is None:
            try:
                kept, tree = None, untrusted.python(text)
            except SyntaxError as error:
                self.unreadable[path] = f"line {error.lineno}: {error.msg}"
                return None
        module = Module(name, path, text, tree, path.endswith("__init__.py"), kept.split("\n") if kept else None)
        for statement in _top_level(tree.body):
            _bind(module, statement)
        return module


def _parsed(text: str | None) -> ast.Module | None:
    try:
        return untrusted.python(text) if text is not None else None
    except SyntaxError:
        return None


def dotted(node: ast.AST) -> str | None:
    """``a.b.c`` as text where ``node`` is a plain name or attribute, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that a module may execute on import: branches of ``if`` and ``try`` included."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _top_level(statement.body)
            yield from _top_level(statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _top_level(statement.body)
            for handler in statement.handlers:
                yield from _top_level(handler.body)
        else:
            yield statement


def _bind(module: Module, statement: ast.stmt) -> None:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        module.bindings.setdefault(statement.name, statement)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                module.bindings.setdefault(target.id, statement.value)
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        module.bindings.setdefault(statement.target.id, statement.value)
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            local = alias.asname or alias.name.split(".")[0]
            module.imports.setdefault(local, (alias.name if alias.asname else local, None))
    elif isinstance(statement, ast.ImportFrom):
        origin = _origin(module, statement)
        for alias in statement.names:
            if alias.name == "*":
                module.stars.append(origin)
            else:
                module.imports.setdefault(alias.asname or alias.name, (origin, alias.name))


def _origin(module: Module, statement: ast.ImportFrom) -> str:
    """The absolute name of the module that a ``from`` import reads."""
    if not statement.level:
        return statement.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - statement.level + (1 if module.package else 0)]
    return ".".join([*kept, *([statement.module] if statement.module else [])])
