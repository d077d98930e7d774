"""What a package's code compares the value of an option with, and whether it stops at any other: the chains of
comparisons that end in a raise, which are the only declaration that many options' words have."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rldoctor.records import dataclass
from rldoctor.tables.options.model import MISSING, Option
from rldoctor.tables.options.source import dotted
from rldoctor.tables.sources.trees import SourceTree

# Parts of an expression that name no section: ``self.config.actor.mode`` is ``actor.mode``.
_ANYBODY = frozenset({"self", "cls", "config", "cfg", "args", "conf", "params"})
_SUFFIXES = ("_config", "_cfg", "_args", "_conf")
# Methods by which a value is more than one of several words.
_WIDER = frozenset({"startswith", "endswith", "split", "rsplit", "partition", "lower", "upper", "casefold", "replace"})

# Calls by which a value is a key.
_LOOKING_UP = frozenset({"get", "pop", "getattr", "import_module"})

Subject = tuple[str, ...]
Lists = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class _Compared:
    """A value, the words that it is compared with, and whether any other is refused there."""

    subject: Subject
    words: tuple[str, ...]
    closing: bool = False


class Comparisons:
    """The comparisons of all the modules below some folders of a tree."""

    def __init__(self, tree: SourceTree, folders: Iterable[str]) -> None:
        self._by_name: dict[str, list[_Compared]] = defaultdict(list)
        self._wider: set[str] = set()
        self._others: set[str] = set()
        self._handed: dict[str, set[str]] = defaultdict(set)
        paths = [path for folder in folders for path in tree.names(folder) if path.endswith(".py")]
        modules = [module for path in paths if (module := _parsed(tree.read(path) or "")) is not None]
        enumerations: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        for node in (node for module in modules for node in ast.walk(module) if isinstance(node, ast.ClassDef)):
            if words := _members(node):
                enumerations[node.name].append(words)
        self._enumerations = {name: found[0] for name, found in enumerations.items() if len(found) == 1}
        for module in modules:
            self._read(module)

    def named(self, option: Option) -> Option:
        """The option with the words that the code takes for it, where it refuses others and they hold its default."""
        if option.choices or (option.names and option.closed) or (option.type and "str" not in option.type):
            return option
        *sections, leaf = option.name.split(".")
        spellings = [leaf, *([f"{sections[-1]}_{leaf}"] if sections else [])]  # adv_estimator.name, adv_estimator_name
        if isinstance(option.default, str):  # reference_policy_kl_type, kl_type
            spellings += [name for name in self._by_name if "_" in name and leaf.endswith(f"_{name}")]
        for spelled in spellings:
            within = sections if spelled == leaf else []
            found = [one for one in self._by_name.get(spelled, ()) if self._is_of(one.subject, within)]
            words = {word for one in found for word in one.words}
            closing = any(one.closing and _holds(one.words, option) for one in found)
            if closing and len(words) > 1 and spelled not in self._wider and not self._goes_on(spelled):
                return replace(option, names=tuple(sorted(words | set(option.names or ()))), closed=True)
        return option

    def _goes_on(self, name: str) -> bool:
        """Whether a call hands the value on under a name that is compared with nothing here: to code of others,
        which may take further words (``lr_decay_style=config.lr_scheduler_type``)."""
        return any(parameter not in self._by_name for parameter in self._handed[name])

    def _is_of(self, subject: Subject, sections: list[str]) -> bool:
        """Whether a value is that of an option in these sections: the part before its name is one of them, or there is
        none, and the name is no word that any section may have, nor a parameter that gets other values, too."""
        if len(subject) == 1:
            return "_" in subject[0] and subject[0] not in self._others
        before = subject[-2]
        return any(before.removesuffix(suffix) in sections for suffix in ("", *_SUFFIXES))

    def _read(self, module: ast.Module) -> None:
        inner: set[int] = set()  # the elifs, which belong to the chain of their if
        lists = _lists(module)
        conditional = _conditional(module)
        for node in ast.walk(module):
            asked = () if id(node) in conditional else _asked(node, lists)
            for one in (*_compared(node, lists), *asked, *self._made(node)):
                self._by_name[one.subject[-1]].append(one)
            if isinstance(node, ast.If) and id(node) not in inner:
                chain = list(_chain(node))
                inner |= {id(part) for part in chain[1:]}
                if _raises(chain[-1].orelse) and (closing := _whole(chain, lists)):
                    self._by_name[closing.subject[-1]].append(closing)
            elif isinstance(node, ast.FunctionDef) and (closing := _whole(_returning(node), lists)):
                self._by_name[closing.subject[-1]].append(closing)
            self._wider |= set(_widened(node))
            self._others |= set(_handed_others(node))
            for name, parameter in _handed_on(node):
                self._handed[name].add(parameter)

    def _made(self, node: ast.AST) -> Iterator[_Compared]:
        """What a member of an enumeration is made of, which refuses what none of its members is."""
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            words = self._enumerations.get((dotted(node.func) or "").rpartition(".")[2])
            if words and (subject := _subject(node.args[0])):
                yield _Compared(subject, words, True)


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _members(node: ast.ClassDef) -> tuple[str, ...]:
    """The words of an enumeration; none of one that makes members of other words, too."""
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "_missing_"]
    if any(isinstance(part, ast.Return) for method in methods for part in ast.walk(method)):
        return ()
    if not any((dotted(base) or "").endswith("Enum") for base in node.bases):
        return ()
    values = [one.value for one in node.body if isinstance(one, ast.Assign)]
    return tuple(one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _holds(words: Iterable[str], option: Option) -> bool:
    """Whether the words are those of the option: its default is one of them, or is none."""
    if isinstance(option.default, str):
        return option.default in words
    return option.default is None or option.default is MISSING


def _subject(node: ast.expr) -> Subject:
    """The parts of a value's name, without those that name no section: of ``a.b``, ``a["b"]`` and ``a.get("b")``."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(str(node.slice.value))
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (key := _key(node)) is not None:
            parts.append(key)
            node = node.func.value
        else:
            break
    if not isinstance(node, ast.Name):
        return ()
    named = [part for part in (node.id, *reversed(parts)) if part not in _ANYBODY]
    return tuple(named)


def _key(node: ast.Call) -> str | None:
    """The key of ``section.get("key")``."""
    gets = isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args
    return str(node.args[0].value) if gets and isinstance(node.args[0], ast.Constant) else None


def _lists(module: ast.Module) -> Lists:
    """The words of the literals that a module gives a name, where it gives it one alone."""
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id].add(_words(node.value, {}))
    return {name: held.pop() for name, held in found.items() if len(held) == 1}


def _words(node: ast.expr, lists: Lists) -> tuple[str, ...]:
    """The words of a literal, or of one that has a name; none where it holds anything else, which may be further
    words."""
    if isinstance(node, ast.Name | ast.Attribute):
        return lists.get((dotted(node) or "").rpartition(".")[2], ())
    parts = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
    if not all(isinstance(part, ast.Constant) and isinstance(part.value, str | None) for part in parts):
        return ()
    return tuple(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def _compared(node: ast.AST, lists: Lists) -> Iterator[_Compared]:
    """What is compared anywhere."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        subject, words = _subject(node.left), _words(node.comparators[0], lists)
        if subject and words and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            yield _Compared(subject, words)


def _conditional(module: ast.Module) -> set[int]:
    """The statements that run in some cases alone: what those ask for holds of these cases."""
    branches = (node for node in ast.walk(module) if isinstance(node, ast.If))
    below = (part for node in branches for part in (*node.body, *node.orelse))
    return {id(node) for part in below for node in ast.walk(part) if isinstance(node, ast.Assert | ast.If)}


def _asked(node: ast.AST, lists: Lists) -> Iterator[_Compared]:
    """What a statement asks for by itself: ``assert x in [...]``, and a raise where it is not."""
    if isinstance(node, ast.Assert):
        yield from (replace(one, closing=True) for one in _tested(node.test, ast.In, lists))
    elif isinstance(node, ast.If) and _raises(node.body):
        yield from (replace(one, closing=True) for one in _tested(node.test, ast.NotIn, lists))


def _tested(test: ast.expr, operator: type[ast.cmpop], lists: Lists) -> Iterator[_Compared]:
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], operator):
        yield from _compared(test, lists)


def _chain(node: ast.If) -> Iterator[ast.If]:
    yield node
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        yield node


def _returning(node: ast.FunctionDef) -> list[ast.If]:
    """The conditions at the end of a function that return one after the other, before it raises."""
    found: list[ast.If] = []
    for statement in reversed(node.body[:-1] if _raises(node.body) else []):
        if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.body[-1], ast.Return):
            break
        found.append(statement)
    return found


def _whole(chain: list[ast.If], lists: Lists) -> _Compared | None:
    """The one value that every test of a chain compares, and all the words; None where a test asks anything else."""
    tests = [part for link in chain for part in _either(link.test)]
    found = [one for test in tests for operator in (ast.Eq, ast.In) for one in _tested(test, operator, lists)]
    subjects = {one.subject for one in found}
    if len(found) < max(len(tests), 2) or len(subjects) != 1:
        return None
    return _Compared(found[0].subject, tuple(word for one in found for word in one.words), True)


def _either(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]


def _raises(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _handed_others(node: ast.AST) -> Iterator[str]:
    """The parameters to which a call hands what has another name: a comparison of those is not of the option alone."""
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        handed = _subject(keyword.value)[-1:]
        same = any(name == keyword.arg or name.endswith(f"_{keyword.arg}") for name in handed)
        if keyword.arg and not same and not isinstance(keyword.value, ast.Constant):
            yield keyword.arg


def _handed_on(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The values that a call hands on under the name of another parameter."""
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        for name in _subject(keyword.value)[-1:]:
            if keyword.arg and not (name.endswith(keyword.arg) or keyword.arg.endswith(name)):
                yield name, keyword.arg


def _widened(node: ast.AST) -> Iterator[str]:
    """The names of values that more than whole words are asked of, or that something is looked up by: a registry may
    have words that no comparison tells."""
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant) and isinstance(node.ops[0], ast.In):
        yield from _subject(node.comparators[0])[-1:]
    elif isinstance(node, ast.Subscript):
        yield from _subject(node.slice)[-1:]
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _WIDER:
            yield from _subject(node.func.value)[-1:]
        if node.args and (dotted(node.func) or "").rpartition(".")[2] in _LOOKING_UP:
            yield from (name for argument in node.args[:2] for name in _subject(argument)[-1:])
