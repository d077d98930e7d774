"""What a package's code compares the value of an option with, and whether it stops at any other: the chains of
comparisons that end in a raise, which are the only declaration that many options' words have."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

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

# What may stand between the name of a value and the operator behind it: ``a["b"]) ==``, ``a.get("b", "c") in``.
_UP_TO_OPERATOR = re.compile(r"(?:[\"']\s*(?:,[^)]*)?)?[\s\])\\]*(?:==|(?:not\s+)?in\b)")
_ENUMERATION = re.compile(r"^[ \t]*class\s+(\w+)\s*\([^)]*Enum\b", re.MULTILINE)

# The nodes that tell anything of a value.
_TELLING = (ast.Compare, ast.Call, ast.Subscript, ast.Assert, ast.If, ast.FunctionDef)

Subject = tuple[str, ...]
Lists = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class _Compared:
    """A value, the words that it is compared with, and whether any other is refused there."""

    subject: Subject
    words: tuple[str, ...]
    closing: bool = False


class Comparisons:
    """The comparisons of all the modules below some folders of a tree. A module is parsed when its text may ask for
    what an option is that somebody asks about: a launch gives a few options, and most modules ask for none of them."""

    def __init__(self, tree: SourceTree, folders: Iterable[str]) -> None:
        paths = [path for folder in folders for path in tree.names(folder) if path.endswith(".py")]
        self._texts = [tree.read(path) or "" for path in paths]
        self._modules: dict[int, ast.Module | None] = {}  # by the places of their texts
        self._words_of: dict[str, tuple[str, ...]] = {}  # by the names of enumerations
        self._asking_of: dict[str, list[int]] = {}
        self._seen: set[int] = set()
        self._by_name: dict[str, list[_Compared]] = defaultdict(list)
        self._wider: set[str] = set()
        self._others: set[str] = set()
        self._handed: dict[str, set[str]] = defaultdict(set)

    def named(self, option: Option) -> Option:
        """The option with the words that the code takes for it, where it refuses others and they hold its default."""
        if option.choices or (option.names and option.closed) or (option.type and "str" not in option.type):
            return option
        *sections, leaf = option.name.split(".")
        spellings = [leaf, *([f"{sections[-1]}_{leaf}"] if sections else [])]  # adv_estimator.name, adv_estimator_name
        if isinstance(option.default, str):  # reference_policy_kl_type, kl_type
            parts = leaf.split("_")
            spellings += ["_".join(parts[start:]) for start in range(1, len(parts) - 1)]
        for spelled in spellings:
            within = sections if spelled == leaf else []
            self._read_all(self._asking(spelled))
            # What the same modules tell already spares the many that merely hold the name.
            if not self._closes(spelled, within, option) or self._goes_on(spelled) or self._is_wider(spelled):
                continue
            found = [one for one in self._by_name[spelled] if self._is_of(one.subject, within)]
            words = {word for one in found for word in one.words}
            # What the other modules show may have made a parameter of it that gets other values, too.
            if self._closes(spelled, within, option) and len(words) > 1 and not self._goes_on(spelled):
                return replace(option, names=tuple(sorted(words | set(option.names or ()))), closed=True)
        return option

    def _closes(self, name: str, within: list[str], option: Option) -> bool:
        """Whether what was read refuses other words than some that may be the option's."""
        found = (one for one in self._by_name.get(name, ()) if one.closing and _holds(one.words, option))
        return any(self._is_of(one.subject, within) for one in found)

    def _is_wider(self, name: str) -> bool:
        """Whether more than whole words is asked of a value of that name anywhere. Reads all that has it until then."""
        for place in self._holding(name):
            self._read_all([place])
            if name in self._wider:
                return True
        return False

    def _goes_on(self, name: str) -> bool:
        """Whether a call hands the value on under a name that is compared with nothing here: to code of others,
        which may take further words (``lr_decay_style=config.lr_scheduler_type``)."""
        for parameter in tuple(self._handed[name]):  # what is read may hand it on, too
            for place in (*self._asking(parameter), *self._holding(parameter)):
                if parameter in self._by_name:
                    break
                self._read_all([place])
            if parameter not in self._by_name:
                return True
        return False

    def _holding(self, name: str) -> list[int]:
        """The modules whose text holds a name."""
        return [place for place, text in enumerate(self._texts) if name in text]

    def _asking(self, name: str) -> list[int]:
        """The modules whose text may ask whether a value of that name is one of some words."""
        if name not in self._asking_of:
            self._asking_of[name] = [
                place
                for place in self._holding(name)
                if _may_compare(self._texts[place], name) or name in self._made_of.get(place, "")
            ]
        return self._asking_of[name]

    @cached_property
    def _enumerations(self) -> dict[str, list[int]]:
        """The classes that are called enumerations, and the modules that have one of that name."""
        found: dict[str, list[int]] = defaultdict(list)
        for place in self._holding("Enum"):
            for name in dict.fromkeys(_ENUMERATION.findall(self._texts[place])):
                found[name].append(place)
        return found

    @cached_property
    def _made_of(self) -> dict[int, str]:
        """What members of enumerations are made of, by the modules that make any."""
        makes = re.compile(rf"\b(?:{'|'.join(self._enumerations)})\(([^,=]*)")
        calls = [f"{name}(" for name in self._enumerations]
        places = [place for place, text in enumerate(self._texts) if any(call in text for call in calls)]
        return {place: "\n".join(makes.findall(self._texts[place])) for place in places}

    def _members_of(self, name: str) -> tuple[str, ...]:
        """The words of the enumeration of that name; none where there are several."""
        if name not in self._words_of:
            modules = [self._parsed(place) for place in self._enumerations.get(name, ())]
            nodes = [node for module in modules if module is not None for node in ast.walk(module)]
            classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name]
            found = [words for node in classes if (words := _members(node))]
            self._words_of[name] = found[0] if len(found) == 1 else ()
        return self._words_of[name]

    def _parsed(self, place: int) -> ast.Module | None:
        if place not in self._modules:
            try:
                self._modules[place] = ast.parse(self._texts[place])
            except (SyntaxError, ValueError):
                self._modules[place] = None
        return self._modules[place]

    def _is_of(self, subject: Subject, sections: list[str]) -> bool:
        """Whether a value is that of an option in these sections: the part before its name is one of them, or there is
        none, and the name is no word that any section may have, nor a parameter that gets other values, too."""
        if len(subject) == 1:
            return "_" in subject[0] and subject[0] not in self._others
        before = subject[-2]
        return any(before.removesuffix(suffix) in sections for suffix in ("", *_SUFFIXES))

    def _read_all(self, places: Iterable[int]) -> None:
        for place in places:
            if place not in self._seen:
                self._seen.add(place)
                if (module := self._parsed(place)) is not None:
                    self._read(module)

    def _read(self, module: ast.Module) -> None:
        inner: set[int] = set()  # the elifs, which belong to the chain of their if
        nodes = _nodes(module)
        lists = _lists(nodes)
        conditional = _conditional(nodes)
        for node in (node for node in nodes if isinstance(node, _TELLING)):
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
            words = self._members_of((dotted(node.func) or "").rpartition(".")[2])
            if words and (subject := _subject(node.args[0])):
                yield _Compared(subject, words, True)


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


def _may_compare(text: str, name: str) -> bool:
    """Whether an operator stands behind a name anywhere in a text; behind one of one word that has a section before it,
    as :meth:`Comparisons._is_of` asks for."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if _UP_TO_OPERATOR.match(text, end) and ("_" in name or text[at - 1 : at] in {".", "'", '"'}):
            return True
        at = text.find(name, end)
    return False


def _nodes(module: ast.Module) -> list[ast.AST]:
    """All that :func:`ast.walk` gives, outer nodes first, in a third of its time."""
    found: list[ast.AST] = [module]
    for node in found:
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [one for one in value if isinstance(one, ast.AST)]
    return found


def _lists(nodes: Iterable[ast.AST]) -> Lists:
    """The words of the literals that a module gives a name, where it gives it one alone."""
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for node in nodes:
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


def _conditional(nodes: Iterable[ast.AST]) -> set[int]:
    """The statements that run in some cases alone: what those ask for holds of these cases."""
    found: set[int] = set()
    for node in nodes:  # outer ones first: what is below one that was found was found with it
        if isinstance(node, ast.If) and id(node) not in found:
            below: list[ast.AST] = [*node.body, *node.orelse]
            for part in below:
                below += [one for one in ast.iter_child_nodes(part) if not isinstance(one, ast.expr)]
            found |= {id(part) for part in below if isinstance(part, ast.Assert | ast.If)}
    return found


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
