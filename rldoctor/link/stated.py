"""What a release refuses of values, by the conditions that the table of its messages holds: for releases whose
source is not at hand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from rldoctor.expressions import expression
from rldoctor.link.expressions import Expressions, Frame
from rldoctor.link.fields import plain_value
from rldoctor.link.locate import SearchPath
from rldoctor.link.problems import Refusal
from rldoctor.link.sources import Source, Sources
from rldoctor.link.values import NOT_KNOWN, Known, Settings, Value, truth
from rldoctor.records import dataclass
from rldoctor.tables.messages import CUT, HOLE, Place, Table

# Names that mean another thing in every section: what stands above them has to be the same, too.
_COMMON = frozenset(
    {
        "name",
        "type",
        "mode",
        "backend",
        "method",
        "strategy",
        "optimizer",
        "format",
        "kind",
        "device",
        "dtype",
        "role",
        "path",
    }
)
_WORD = expression(r"\w+")
# So much alike are a word and a slip of the pen in it; sequence and seq are at 0.55.
_ALIKE = 0.5


@dataclass(frozen=True)
class Stated:
    """One refusal: the field that the condition reads, the exception's type, its text, and the condition."""

    field: str
    type: str
    message: str
    condition: str


def refused_values(package: str, version: str, function: str, values: Mapping[str, Any]) -> Iterator[Stated]:
    """What ``function`` (``vllm.sampling_params:SamplingParams._verify_args``) of a release raises for ``values`` of
    its object's fields, each by itself: a condition that reads more than one is left out. Nothing for a release that
    the table lacks, unless it lies between two that agree."""
    module, _, name = function.partition(":")
    reader = _Reader(values)
    for place in _places(package, version, module, lambda function: function == name):
        condition = joined(place.conditions)
        fields = reader.fields(condition)
        if len(fields) == 1 and reader.holds(condition):
            yield Stated(fields.pop(), place.type, reader.filled(place.template), condition)


def refusal_in(
    package: str, version: str, module: str, name: str, values: Mapping[str, Any], settings: str = ""
) -> Refusal | None:
    """What the class or function ``name`` of a release's module certainly raises for ``values`` alone, by the names of
    its fields or, where a function calls them ``settings``, by their dotted names: for a class what its methods ask
    whenever an object of it is made. The class may be one that the module passes on, and ``*`` is every function of it.
    None is given for a field that it may have from elsewhere."""
    reader = _Reader({key: one for key, one in values.items() if one is not None}, settings or "self")

    def is_asked(function: str) -> bool:
        return name in (function, "*") if settings else function.rpartition(".")[0] == name

    for place in _places(package, version, module, is_asked, below=not settings):
        if not place.steady:
            continue
        condition = joined(place.conditions)
        reads = sorted(reader.fields(condition))
        if reads and reader.holds(condition):
            said = reader.filled(place.template)
            return Refusal(place.type, said, place.module, None, place.function, condition, tuple(reads))
    return None


def joined(conditions: Sequence[str]) -> str:
    """Several conditions as one."""
    if len(conditions) == 1:
        return conditions[0]
    either = (isinstance(ast.parse(one, mode="eval").body, ast.BoolOp | ast.IfExp | ast.Lambda) for one in conditions)
    return " and ".join(f"({one})" if open_ else one for one, open_ in zip(conditions, either, strict=True))


def _read(package: str, version: str) -> tuple[Table, tuple[int, ...]] | None:
    """The table of a package with the position of a release, or of the two around it; None where either is not
    there."""
    try:
        table = Table.load(package)
    except KeyError:
        return None
    at = table.around(version)
    return (table, at) if at else None


def _places(
    package: str, version: str, module: str, wanted: Callable[[str], bool], below: bool = False
) -> Iterator[Place]:
    """The messages that the functions of a module that are ``wanted`` have in one release, and those of modules
    ``below`` it, whose conditions tell all that has to hold."""
    if (read := _read(package, version)) is None:
        return
    table, at = read
    for place in table.within(module, below, wanted):
        spans = ((table.releases.index(first), table.releases.index(last)) for first, last in place.spans)
        stated = place.conditions and not any(map(_handles, place.conditions))
        if place.whole and stated and any(first <= at[0] and at[-1] <= last for first, last in spans):
            yield place


@dataclass(frozen=True)
class Unheard:
    """A text of an option, the texts that the release compares the option with before it raises, the likest first, and
    where it does so."""

    key: str
    value: str
    known: tuple[str, ...]
    module: str
    function: str


def unheard_texts(
    package: str, version: str, given: Mapping[str, str], aside: Callable[[str], bool] = lambda module: False
) -> Iterator[Unheard]:
    """The options (by their native keys) whose text is none of those that the release compares it with before it
    raises, and like one of them: any other may belong to another part of the package. What modules refuse that are
    ``aside`` of the launch does not count. Nothing for a release that the table lacks, and for an option that it
    compares with nothing."""
    if (read := _read(package, version)) is None:
        return
    table, at = read
    asked: dict[str, list[tuple[tuple[str, ...], str, str]]] = {key: [] for key in given}
    heard: set[str] = set()
    for module, function, conditions in table.conditions(at):
        for key, text in given.items():
            named = [one for one in conditions if key.rpartition(".")[2] in one]
            if key not in heard and any(_names(one, key, text) for one in named):
                heard.add(key)
            # Where more has to hold, other texts may be taken before.
            whole = named and named[-1] == conditions[-1] and conditions[0] != CUT and not _handles(named[-1])
            if whole and not aside(module):
                subject, texts = _compared_with(named[-1])
                if subject and _is(subject, key):
                    asked[key].append((texts, module, function))
    for key, places in asked.items():
        value = given[key]
        likeness = {text: SequenceMatcher(None, text, value).ratio() for texts, _, _ in places for text in texts}
        if key in heard or max(likeness.values(), default=0) < _ALIKE:
            continue
        # Of several that judge options of one name it is the one that has what was meant; of those the package's own
        # before what lies deeper, such as its experiments.
        texts, module, function = max(
            places, key=lambda place: (max(likeness[text] for text in place[0]), -place[1].count("."))
        )
        yield Unheard(key, value, tuple(sorted(texts, key=lambda text: -likeness[text])), module, function)


def _handles(condition: str) -> bool:
    """Whether it is none over values: what a handler catches (``except KeyError``)."""
    return condition.partition(" ")[0] in ("except", "except*")


def _compared_with(condition: str) -> tuple[str, tuple[str, ...]]:
    """The value that is none of some texts where the condition holds, and these; empty for any other condition."""
    node = ast.parse(condition, mode="eval").body
    refused: type[ast.cmpop] = ast.NotIn
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node, refused = node.operand, ast.In
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], refused):
        return "", ()
    listed = node.comparators[0]
    parts = listed.elts if isinstance(listed, ast.Tuple | ast.List | ast.Set) else []
    texts = tuple(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return (ast.unparse(node.left), texts) if texts and len(texts) == len(parts) else ("", ())


def _names(condition: str, key: str, text: str) -> bool:
    """Whether a condition compares the option with this very text, on whichever way to a refusal it stands."""
    if text not in condition or key.rpartition(".")[2] not in condition or condition == CUT or _handles(condition):
        return False
    for node in ast.walk(ast.parse(condition, mode="eval")):
        if isinstance(node, ast.Compare) and _is(ast.unparse(node.left), key):
            said = (part for listed in node.comparators for part in ast.walk(listed))
            if any(isinstance(part, ast.Constant) and part.value == text for part in said):
                return True
    return False


def _is(subject: str, key: str) -> bool:
    """Whether an expression of the source (``self.config.kl_ctrl.type``) is the option."""
    said, named = subject.split("."), key.split(".")
    needed = 2 if named[-1] in _COMMON else 1
    return all(part.isidentifier() for part in said) and said[-needed:] == named[-needed:]


class _Reader(Expressions):
    """Conditions over what a source calls ``settings`` (``self``, ``config``, ``self.config``), of which ``values`` has
    what is known by dotted name."""

    def __init__(self, values: Mapping[str, Any], settings: str = "self") -> None:
        super().__init__(Sources(SearchPath([])), None)
        self.attributes = {name: plain_value(value) for name, value in values.items()}
        self._last_names = {name.rpartition(".")[2] for name in values}
        self._settings = settings
        owner, _, attribute = settings.rpartition(".")
        if owner:
            self.attributes[attribute] = Settings("")
        nowhere = Source("", "", "", ast.Module([], []), package=False, bodies=False)
        self._frame = Frame(nowhere, "", "", {owner or settings: Settings(""), "__name__": Known("__main__")}, 0)

    def fields(self, condition: str) -> set[str]:
        """The settings that a condition reads, of those that are known."""
        if self._last_names.isdisjoint(_WORD.findall(condition)):  # most conditions are of others
            return set()
        parts = ast.walk(ast.parse(condition, mode="eval"))
        names = {self._setting(part, self._frame) for part in parts if isinstance(part, ast.expr)}
        return {name for name in names if name in self.attributes and name is not None}

    def holds(self, condition: str) -> bool:
        """Whether the condition is certainly true."""
        return truth(self.value(ast.parse(condition, mode="eval").body, self._frame)) is True

    def filled(self, template: str) -> str:
        """The text with what its holes come to."""
        parts = template.split(HOLE)
        holes = (
            self.value(ast.parse(part, mode="eval").body, self._frame) if part else NOT_KNOWN for part in parts[1::2]
        )
        said = [str(one.value) if isinstance(one, Known) else "…" for one in holes]
        return "".join(text + (said[at] if at < len(said) else "") for at, text in enumerate(parts[::2]))

    def returned(self, call: ast.Call, frame: Frame) -> Value:
        return NOT_KNOWN

    def computed(self, setting: str, frame: Frame) -> Value | None:
        return None
