"""A rollout plan while a dialect fills it: native settings taken by rule, defaults, derivations, notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import Any

from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved, convert, whole
from rldoctor.frameworks.launch import Launch, at
from rldoctor.plan.model import Form, Given, Note, RefusedValue, Setting, Source, UnknownOption
from rldoctor.plan.vocabulary import term

# Which model is trained, a launch says; what a framework or vLLM takes where none is named is nobody's model.
NAMED = frozenset({"model.path", "model.critic_path", "engine.model"})

# Before the keys of native settings, where they stand among settings of the vocabulary.
NATIVE = "native."


class Draft:
    """Everything is looked up and set by canonical name; a name outside the vocabulary is a KeyError, a mistake in a
    dialect. ``doubts`` says of options why their defaults may not be what runs."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.settings: dict[str, Setting] = {}
        self.natives: dict[str, Native] = {}
        self.given: list[Given] = []
        self.unread: list[Given] = []
        self.beside = 0
        self.unknown: list[UnknownOption] = []
        self.undeclared: dict[str, str] = {}
        self.refused: list[RefusedValue] = []
        self.notes: list[Note] = list(launch.notes)
        self.doubts: dict[str, str] = {}
        self._imagine: Callable[[str], Any] | None = None

    def copy(self, imagine: Callable[[str], Any] | None = None) -> Draft:
        """A draft that goes on from here by itself; with ``imagine`` settings that are not known are what that says."""
        other = copy(self)
        for name, held in vars(self).items():
            if isinstance(held, dict | list):
                setattr(other, name, copy(held))
        other._imagine = imagine
        if imagine is not None:
            for option, setting in self.settings.items():
                other.put(option, setting)
            for name in self.unread_natives():
                native = self.natives[name.removeprefix(NATIVE)]
                other.natives[native.key] = replace(native, value=imagine(name))
        return other

    def unread_natives(self) -> dict[str, Setting]:
        """The native settings whose values cannot be read, by their keys behind ``native.``."""
        found = {NATIVE + key: native for key, native in self.natives.items() if isinstance(native.value, Unresolved)}
        return {name: _setting(native.value, **at(native)) for name, native in found.items()}

    def value(self, option: str, default: Any = None) -> Any:
        """The value so far; ``default`` where it is absent, null or unknown."""
        setting = self.settings.get(option)
        return default if setting is None or setting.value is None else setting.value

    def usual(self, option: str, value: Any) -> Any:
        """The value so far; ``value`` where nothing is given and all of the launch was read, None where it was not."""
        if not self.is_open(option):
            return self.value(option)
        return None if self._doubt(option, value) is not None else value

    def ranks(self, *options: str) -> int | None:
        """The product of sizes that are 1 unless the launch says otherwise; None where one of them is not known."""
        sizes = [self.usual(option, 1) for option in options]
        return None if None in sizes else math.prod(sizes)

    def is_open(self, option: str) -> bool:
        """Whether a derivation may fill ``option``: nothing is known of it, or it was given as null."""
        setting = self.settings.get(option)
        return setting is None or (setting.value is None and setting.unknown is None)

    def native(self, key: str) -> Any:
        """The value given under a native key, for what the vocabulary has no name for; None where it is not given."""
        found = self.natives.get(key)
        return None if found is None else found.value

    def count(self, key: str, usual: int | None = None) -> int | None:
        """The whole number given under a native key; ``usual`` where none is given, None where what is given is no such
        number or not known."""
        value = self.native(key)
        if value is None:
            return usual
        return int(value) if isinstance(value, int | str) and str(value).isdecimal() else None

    def take(self, native: Native, option: str, value: Any, source: Source = Source.GIVEN) -> None:
        """Sets ``option`` from a native setting; an impossible value is noted and leaves the setting unknown."""
        try:
            value = convert(value, _kind(option))
        except ValueError as error:
            self.note(f"{native.spelled or native.key}: {error}", native.file, native.line)
            value = Unresolved(native.raw or str(native.value), f"{native.spelled or native.key}: {error}")
        self.put(option, _setting(value, source=source, **at(native)))

    def take_part(self, native: Native, option: str, key: str) -> None:
        """Adds one entry, given by itself under a longer key, to a setting that is a dictionary."""
        found = self.settings.get(option)
        whole = dict(found.value) if found is not None and isinstance(found.value, dict) else {}
        name = key.rpartition(".")[2]
        self.put(option, _setting({**whole, name: convert(native.value, "any")}, source=Source.GIVEN, **at(native)))

    def put(self, option: str, setting: Setting) -> None:
        """Sets ``option`` to a setting that a reader has already made."""
        _kind(option)
        if setting.unknown is not None and self._imagine is not None:
            setting = replace(setting, value=self._imagine(option), unknown=None)
        self.settings[option] = setting

    def default(
        self, option: str, value: Any, key: str | None = None, how: str | None = None, word: str | None = None
    ) -> None:
        """Sets ``option`` to what the framework takes where nothing is given, unless something is known already;
        ``word`` is the framework's own for the value."""
        if self.settings.get(option) is None:
            why = self._doubt(option, value)
            held = convert(value, _kind(option)) if why is None else Unresolved("", why)
            self.put(option, _setting(held, source=Source.DEFAULT, key=key, how=how, raw=word))

    def _doubt(self, option: str, value: Any) -> str | None:
        """Why the default need not be what the launch runs with; None where it is."""
        if self.launch.missed is not None:
            return f"not set in what was read, but {self.launch.missed}"
        if option in NAMED and (value is not None or option != "model.critic_path"):  # without one there is no critic
            return "the launch names no model"
        return self.doubts.get(option)

    def derive(self, option: str, value: Any, how: str, *inputs: str) -> None:
        """Sets ``option`` to a computed value where it is open; ``inputs`` are the settings it came from, the one to
        cite (and to edit) first. A value of None derives nothing."""
        if value is None or not self.is_open(option):
            return
        cited = next((s for name in inputs if (s := self.settings.get(name)) is not None and s.line), None)
        place = {} if cited is None else {"file": cited.file, "line": cited.line, "key": cited.key}
        self.put(option, _setting(convert(value, _kind(option)), source=Source.DERIVED, how=how, **place))

    def override(self, option: str, value: Any, how: str, *inputs: str) -> None:
        """Like :meth:`derive`, and replaces what was given: for a framework that ignores or corrects the given
        value."""
        self.settings.pop(option, None)
        self.derive(option, value, how, *inputs)

    def note(self, text: str, file: str | None = None, line: int | None = None) -> None:
        self.notes.append(Note(text=text, file=file, line=line))

    def record(self, native: Native, option: str | None) -> Given:
        """Remembers that a native setting stands in the files, and what it was understood as."""
        value = whole(native.value)
        known = not isinstance(value, Unresolved)
        given = Given(
            key=native.key,
            value=value if known else None,
            unknown=None if known else value.why,
            file=native.file,
            line=native.line,
            form=native.form,
            option=option,
            spelled=native.operator + native.spelled if native.form is Form.OVERRIDE else "",
        )
        before = self.natives.get(native.key)
        if before is not None and not native.path and _same_place(before, native) and before.value != native.value:
            name = native.spelled or native.key
            self.note(f"{name} is given twice (line {before.line} too); the last one counts", native.file, native.line)
        self.natives[native.key] = native
        self.given.append(given)
        return given


def variables(draft: Draft, names: Iterable[Native]) -> None:
    """Environment variables of the launch as ``env.*`` settings."""
    for native in names:
        draft.put(f"env.{native.key}", _setting(native.value, source=Source.ENVIRONMENT, **at(native)))


def _setting(value: Any, **more: Any) -> Setting:
    value = whole(value)
    if isinstance(value, Unresolved):
        more["raw"] = more.get("raw") or value.raw
        return Setting(value=None, unknown=value.why, **more)
    return Setting(value=value, **more)


def _same_place(left: Native, right: Native) -> bool:
    """Whether two settings stand on one command line, where one of them overrules the other unseen."""
    return left.form is right.form and left.form in (Form.OPTION, Form.OVERRIDE) and left.group == right.group


def _kind(option: str) -> str:
    found = term(option)
    if found is None:
        raise KeyError(f"{option} is no name of the vocabulary")
    return found.kind
