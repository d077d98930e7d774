"""Conditions with what their names stand for: the texts of an enumeration's members, the constants of a module and of a
class. Nobody then needs another module, or the rest of this one, to work them out."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from rldoctor.io import untrusted
from rldoctor.link.syntax import constants_of, defined_as, last_name, parts_of_list, texts_of
from rldoctor.records import dataclass

_CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*$")
_MEMBER = re.compile(r"\b[A-Z]\w*\.[A-Za-z_]\w*")
_DERIVED = re.compile(r"^class \w+\([^)]*Enum", re.MULTILINE)
_DEEPEST = 4  # enumerations of enumerations


@dataclass(frozen=True)
class Enumeration:
    """A class that may be one: what it is made of, its members that are texts, whether other texts do for them."""

    bases: frozenset[str]
    members: Mapping[str, str]
    lenient: bool


def declared(text: str) -> list[tuple[str, Enumeration]]:
    """The classes of a module that may be enumerations, by name. Raises ``SyntaxError``."""
    if not _DERIVED.search(text):  # most modules have none
        return []
    return [(node.name, _read(node)) for node in untrusted.python(text).body if isinstance(node, ast.ClassDef)]


def members(classes: Iterable[tuple[str, Enumeration]]) -> dict[str, ast.expr]:
    """The text of each member of the enumerations of a release, by ``Kind.MEMBER``. Where two classes have one name,
    what both say."""
    by_name: dict[str, list[Enumeration]] = {}
    for name, one in classes:
        by_name.setdefault(name, []).append(one)
    found: dict[str, ast.expr] = {}
    for name, several in by_name.items():
        if all(_is_of_texts(one, by_name, 0) for one in several):
            shared = set.intersection(*({*one.members.items()} for one in several))
            found |= {f"{name}.{member}": ast.Constant(text) for member, text in shared}
    return found


def of_module(tree: ast.Module) -> dict[str, ast.expr]:
    """The numbers, texts and lists of such that a module gives names in capitals. A switch is left as it is called."""
    return {name: value for name, value in constants_of(tree).items() if _CONSTANT.match(name) and _is_plain(value)}


def of_class(node: ast.ClassDef, module: ast.Module) -> dict[str, ast.expr]:
    """The same of a class, by all names that its methods have for them; not what the module sets anywhere else."""
    own = of_module(ast.Module(node.body, []))
    kept = {name: value for name, value in own.items() if _times_set(module)[name] == 1}
    return {f"{owner}.{name}": value for name, value in kept.items() for owner in ("self", "cls", node.name)}


@lru_cache(maxsize=1)
def _times_set(module: ast.Module) -> Counter[str]:
    """How often each name is set in a class, or as an attribute."""
    found: Counter[str] = Counter()
    for part in ast.walk(module):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            found[part.attr] += 1
        elif isinstance(part, ast.ClassDef):
            found.update(map(last_name, _targets(part)))
    return found


def spelled(node: ast.expr, known: Mapping[str, ast.expr]) -> ast.expr:
    """An expression with what the names in it stand for."""
    if not known or known.keys().isdisjoint(_names(node)):
        return node
    found: ast.expr = _Spelled(known).visit(copy.deepcopy(node))
    return found


def spelled_out(condition: str, known: Mapping[str, ast.expr]) -> str:
    """The same of a condition as text."""
    if known.keys().isdisjoint(_MEMBER.findall(condition)):
        return condition
    try:
        tree = ast.parse(condition, mode="eval")
    except SyntaxError:  # what a handler catches
        return condition
    return ast.unparse(_Spelled(known).visit(tree.body))


class _Spelled(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, ast.expr]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.known.get(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A member, or its ``value``: both are the text."""
        found = self.known.get(ast.unparse(node.value if node.attr == "value" else node))
        if found is not None:
            return found
        node.value = self.visit(node.value)
        return node


def _names(node: ast.expr) -> Iterable[str]:
    return (ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute))


def _is_plain(node: ast.expr) -> bool:
    return all(isinstance(one, ast.Constant) and type(one.value) in (int, float, str) for one in parts_of_list(node))


def _targets(node: ast.ClassDef) -> Iterable[ast.expr]:
    for one in node.body:
        if isinstance(one, ast.Assign | ast.AnnAssign):
            yield from one.targets if isinstance(one, ast.Assign) else [one.target]


def _read(node: ast.ClassDef) -> Enumeration:
    missing = defined_as(node.body, "_missing_")
    lenient = missing is not None and any(isinstance(part, ast.Return) for part in ast.walk(missing))
    return Enumeration(frozenset(map(last_name, node.bases)), texts_of(node), lenient)


def _is_of_texts(one: Enumeration, by_name: Mapping[str, list[Enumeration]], depth: int) -> bool:
    """Whether a member is equal to its text."""
    if one.lenient or depth > _DEEPEST:
        return False
    if "StrEnum" in one.bases or one.bases >= {"str", "Enum"}:
        return True
    above = [base for name in one.bases - {"str", "Enum"} for base in by_name.get(name, ())]
    return any(base is not one and _is_of_texts(base, by_name, depth + 1) for base in above)
