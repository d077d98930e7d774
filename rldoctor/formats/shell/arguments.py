"""Reads a command's words as options, positionals and overrides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from rldoctor.formats.native import Native
from rldoctor.formats.shell.reader import Word
from rldoctor.formats.values import Unresolved
from rldoctor.plan.model import Form
from rldoctor.records import dataclass

# A name holds no space, as in argparse: a text that begins like an option is a value all the same.
_OPTION = re.compile(r"--?[A-Za-z][^ =]*(=|\Z)")


@dataclass
class Arguments:
    """The arguments of one command. ``natives`` holds options and overrides in their order."""

    natives: list[Native] = field(default_factory=list)
    positionals: list[Word] = field(default_factory=list)

    def find(self, key: str) -> Native | None:
        """The last option (or override) of that key, or None."""
        return self._last.get(key)

    @cached_property
    def _last(self) -> dict[str, Native]:
        return {native.key: native for native in self.natives}

    @cached_property
    def chooses_groups(self) -> bool:
        """Whether a Hydra override puts another group into the configuration, or at another place."""
        return any("@" in native.key or "/" in native.key for native in self.natives)

    def value(self, key: str) -> Any:
        """Its value, or None where it is not given."""
        found = self.find(key)
        return None if found is None else found.value


def arguments(
    words: Sequence[Word],
    file: str,
    *,
    overrides: bool = False,
    flags: frozenset[str] = frozenset(),
    group: str = "",
) -> Arguments:
    """Reads ``--a b``, ``--a=b``, flags, lists (``--a b c``), repeated options and, with ``overrides``, ``a.b=c``.

    An option in ``flags`` takes no value unless it is attached or reads as true or false. A list of values becomes a
    list. The value of an option without one is True."""
    done = Arguments()
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        head = word.value if isinstance(word.value, str) else word.prefix
        if head == "--":
            continue
        if _OPTION.match(head):
            name, sep, attached = head.partition("=")
            if isinstance(word.value, Unresolved) and not sep:
                continue  # the name itself is not known
            key = _key(name)
            values: list[Word] = []
            if not sep:
                values, index = _values(words, index, key, overrides, flags)
            done.natives.append(_option(word, name, key, attached if sep else None, values, file, group))
        elif overrides and (override := _override(word, file, group)) is not None:
            done.natives.append(override)
        else:
            done.positionals.append(word)
    return done


def _values(
    words: Sequence[Word], index: int, key: str, overrides: bool, flags: frozenset[str]
) -> tuple[list[Word], int]:
    values: list[Word] = []
    while index < len(words):
        word = words[index]
        text = word.value if isinstance(word.value, str) else word.prefix
        if _OPTION.match(text) or text == "--" or (overrides and values):
            break
        if overrides and _is_override(text):
            break
        if key in flags and text.lower() not in ("true", "false"):
            break
        if word.many or (values and word.veiled):
            break
        values.append(word)
        index += 1
    return values, index


def _option(word: Word, name: str, key: str, attached: str | None, values: list[Word], file: str, group: str) -> Native:
    value: Any
    raw = word.raw
    if attached is not None:
        value = attached
        if isinstance(word.value, Unresolved):
            value = Unresolved(word.raw.partition("=")[2], word.value.why)
    elif not values:
        value = True
    elif len(values) == 1:
        value, raw = values[0].value, f"{word.raw} {values[0].raw}"
    else:
        value, raw = [part.value for part in values], " ".join([word.raw, *(part.raw for part in values)])
    if attached is None and not values and re.match(r"--no[-_]", name):
        # One half of a pair: --no-enable-x says that enable_x is false. A lone --no-... of its own is spelled the same
        # way.
        key, value = _key("--" + name[5:]), False
    return Native(
        key=key,
        value=value,
        file=word.file or file,
        line=word.line,
        form=Form.OPTION,
        spelled=name,
        raw=raw,
        group=group,
    )


def _override(word: Word, file: str, group: str) -> Native | None:
    from rldoctor.formats.hydra.overrides import override

    return override(word, file, group)


def _is_override(text: str) -> bool:
    return (
        re.match(r"(\+\+?|~)?[A-Za-z_][\w./@-]*=", text) is not None
        or re.match(r"~[A-Za-z_][\w./@-]*$", text) is not None
    )


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_")
