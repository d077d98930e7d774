"""What passes the door: a text, lines, the words of a command, variables, or a whole tree of values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from rldoctor.expressions import expression
from rldoctor.printable import plain
from rldoctor.redact import columns, handed, kinds, logins, memory, named, urls, usages
from rldoctor.redact.marks import mark
from rldoctor.redact.names import is_one_of_somebody, is_secret_option, is_secret_variable, looks_made, owned
from rldoctor.redact.readings import Reading, readings
from rldoctor.redact.spans import LAST_RESORT, Span, cut

T = TypeVar("T")

# A word without blanks, quotes and joints has no place for a name beside a value, and reads as it stands: only its own
# form may give it away.
_BARE_WORD = expression(r"\w[\w.-]*")
_ASSIGNMENT = expression(r"([-+]{0,2}[A-Za-z_][\w.-]{0,127})=(?!=)")
_OPTION = expression(r"--?[A-Za-z][\w.-]{0,127}(?:=|$)")
_PARTS = expression(r"[:/]")
_COOKIES = expression(r"(?:^|;[ \t]{0,4})[\w.-]{1,64}=\"?([^\s;,=\"]{8,4096})")
_OF_A_HEADER = expression(r"(?i:response|\w{0,16}(?:signature|token|key|mac))=\"?([^\s\",;]{8,4096})")
_KEY_LINE = expression(r"[A-Za-z0-9+/]{32,}={0,2}")
# The next word of a command is a header, or a name and a password.
_HEADER_OPTIONS = frozenset(("-H", "--header"))
_LOGIN_OPTIONS = frozenset(("-u", "--user", "--proxy-user"))
# What was learnt from, by its hash.
_learnt: set[int] = set()
# A plan and a report say the same short texts for hundreds of settings; longer ones seldom come twice.
_OFTEN_MET = 200


def text(value: str) -> str:
    """The text without secrets."""
    found = [*_shown(value), *memory.find(value)]
    return cut(value, map(_discreet, found)) if found else value


def _discreet(span: Span) -> Span:
    """The stretch under a name that is none itself: the letters of a secret may spell one."""
    tells = looks_made(span.name) and any(memory.find(span.name))
    return Span(span.start, span.end, "secret") if tells else span


def _shown(value: str) -> list[Span]:
    """Where a text shows by itself that there is a secret, in one of its readings; they are kept in mind."""
    searched = _searched_before(value) if len(value) <= _OFTEN_MET else _searched(value)
    return [
        span for reading, spans in searched for found in _learned(reading.text, spans) for span in reading.back(found)
    ]


def _searched(value: str) -> tuple[tuple[Reading, tuple[Span, ...]], ...]:
    """The readings of a text in which a secret shows, and where it stands there; the text alone decides that."""
    if _BARE_WORD.fullmatch(value):
        spans = tuple(kinds.find(value))
        return ((Reading(value), spans),) if spans else ()
    finds = (kinds.find, named.find, columns.find, usages.find, logins.find, urls.find, handed.find)
    found = ((reading, tuple(span for find in finds for span in find(reading.text))) for reading in readings(value))
    return tuple((reading, spans) for reading, spans in found if spans)


_searched_before = lru_cache(maxsize=4096)(_searched)


def lines(values: Iterable[str]) -> list[str]:
    """Lines without secrets, as many as before; a key that goes over several is found."""
    kept = [line.replace("\n", " ") for line in values]
    return text("\n".join(kept)).split("\n") if kept else []


def argv(command: Sequence[str]) -> list[str]:
    """The words of a command without secrets; what belongs to an option is known before the words are joined."""
    shown: list[str] = []
    before = ""
    for word in command:
        shown.append(_word(before, word))
        before = word
    return shown


def _word(before: str, word: str) -> str:
    if before.startswith("-") and "=" not in before and not word.startswith("--") and is_secret_option(before, word):
        return _removed(before, word)
    if before in _LOGIN_OPTIONS and ":" in word:
        return _removed("password", word)
    if before in _HEADER_OPTIONS:
        name, colon, value = word.partition(":")
        return f"{name}{colon} {text(f'{name}:{value}').partition(':')[2].strip()}" if colon else text(word)
    assignment = _ASSIGNMENT.match(word)
    if assignment:
        name, value = assignment[1], word[assignment.end() :]
        if is_secret_option(name, value):
            return f"{assignment[0]}{_removed(name, value)}"
    return text(word)


def variable(name: str, value: str) -> str:
    """The value of an environment variable: that a secret was set is kept, the secret is not."""
    if is_secret_variable(name, value):
        return _removed(name, value)
    if name.lower().endswith("_proxy"):  # user:password@host is accepted without a scheme too
        value = cut(value, _learned(value, urls.find_bare(value)))
    return text(plain(value))


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that a child process may have."""
    return {name: value for name, value in variables.items() if not is_secret_variable(name, value)}


def environ(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables by name, each as :func:`variable` shows it."""
    return {name: variable(name, value) for name, value in variables.items()}


def learn(data: bytes) -> None:
    """Keeps in mind what a few lines show to be secret, for the texts that leave; a file may be read often."""
    if hash(data) in _learnt:
        return
    _learnt.add(hash(data))
    _shown(data.decode("utf-8", "replace"))


def begin(variables: Mapping[str, str], command: Sequence[str] = ()) -> None:
    """Forgets what was known, and learns the secrets of this process's own environment and command line: an error may
    quote a value without the name before it."""
    memory.forget_all()
    _learnt.clear()
    for name, value in variables.items():
        if is_secret_variable(name, value):
            memory.remember(name, value)
    argv(command)


def tree(value: T) -> T:
    """The same value with every text in it redacted: dictionaries (their keys are names), lists, tuples, and data
    classes, whose type stays."""
    known = memory.count()
    clean: T = _tree(value)
    if memory.count() != known:  # what one place told may stand without its name in a place before it
        clean = _tree(clean)
    return clean


def _tree(value: Any) -> Any:
    if isinstance(value, str):
        return text(value) if type(value) is str else value
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple):
        return _sequence(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for field in dataclasses.fields(value):
            if not field.init:
                continue
            present = getattr(value, field.name)
            clean = _tree(present)
            if clean is not present:
                changed[field.name] = clean
        return dataclasses.replace(value, **changed) if changed else value
    return value


def _mapping(value: Mapping[Any, Any], owner: str = "") -> Mapping[Any, Any]:
    clean: dict[Any, Any] = {}
    changed = False
    entry = value.get("name")
    for key, item in value.items():
        kept = text(key) if isinstance(key, str) and type(key) is str else key
        # A mark tells the name, which may hold a secret itself: the name of a file does.
        name = kept if isinstance(kept, str) else ""
        if key == "value" and isinstance(entry, str):  # a manifest's {"name": "HF_TOKEN", "value": ...}
            name = text(entry)
        if is_one_of_somebody(name):
            name = owned(name, (owner,))
        shown = _under(name, item)
        changed = changed or shown is not item or kept != key
        clean[kept] = shown
    return clean if changed else value


def _under(name: str, value: Any) -> Any:
    if isinstance(value, str) and type(value) is str:
        return _removed(name, value) if name and is_secret_option(name, value) else text(value)
    if isinstance(value, list | tuple) and any(
        isinstance(item, str) and is_secret_option(name, item) for item in value
    ):
        shown = [_under(name, item) for item in value]
        if any(new is not old for new, old in zip(shown, value, strict=True)):
            return _like(value, shown)
    return _mapping(value, name) if isinstance(value, Mapping) else _tree(value)


def _sequence(value: list[Any] | tuple[Any, ...]) -> Any:
    is_command = any(isinstance(item, str) and _OPTION.match(item) for item in value)
    if is_command and all(isinstance(item, str) for item in value):
        shown: list[Any] = argv(value)
    elif len(value) > 1 and all(type(item) is str and "\n" not in item for item in value):
        shown = lines(value)  # of a log, perhaps: what one begins may end in another
    else:
        shown = [_tree(item) for item in value]
    if all(new is old or (isinstance(new, str) and new == old) for new, old in zip(shown, value, strict=True)):
        return value
    return _like(value, shown)


def _like(value: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    if isinstance(value, list):
        return items
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _removed(name: str, value: str) -> str:
    memory.remember(name, value)
    return mark(name)


def _learned(value: str, found: Iterable[Span]) -> list[Span]:
    """The stretches, what they hold kept in mind."""
    spans = list(found)
    for span in spans:
        if span.name == LAST_RESORT:  # it gives itself away wherever it stands, and may have a name there
            continue
        held = value[span.start : span.end]
        memory.remember(span.name, held)
        if span.name == "webhook":  # a part of its path may stand alone
            for part in _PARTS.split(held):
                memory.remember(span.name, part)
        if span.name == "private-key":  # a line of it may stand alone
            for word in _KEY_LINE.findall(held):
                memory.remember(span.name, word)
        if "cookie" in span.name.lower():  # one of them may stand alone
            for cookie in _COOKIES.findall(held):
                memory.remember(span.name, cookie)
        if "authorization" in span.name.lower():  # what it has beside the names of who asks
            for proof in _OF_A_HEADER.findall(held):
                memory.remember(span.name, proof)
        if span.name == "credentials":
            _, colon, password = held.partition(":")
            if colon:
                memory.remember("password", password)
    return spans
