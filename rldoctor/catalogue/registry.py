"""Finds checks and probes through entry points; built-ins come in by the same door as third parties."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import field
from types import ModuleType

from rldoctor import frameworks
from rldoctor.catalogue import deferred, foreign
from rldoctor.catalogue.check import Check
from rldoctor.catalogue.plugins import BrokenPlugin, entries
from rldoctor.catalogue.probe import Probe
from rldoctor.catalogue.scenario import Scenario
from rldoctor.errors import InputError, meant, one_line
from rldoctor.io import streams
from rldoctor.model import Missing
from rldoctor.records import dataclass

# Either may bring checks, probes and scenarios; two names say what is in a module before it is imported.
GROUPS = ("rldoctor.checks", "rldoctor.probes")
# The package with the checks that rldoctor brings along, and the module with its probes.
BUILTIN = "rldoctor_checks"
PROBES = "rldoctor.probes.builtin"
# Packages whose import is as long as it is.
OWN = (BUILTIN, "rldoctor")
# What is taken for digits of a code.
_FOR_DIGITS = str.maketrans("oil", "011")
IMPORT_SECONDS = 20.0
# The modules of a check that is a folder, beside its __init__: detectors of what probes saw, of logs, and remedies.
PARTS = ("live", "logged", "fixes")


@dataclass
class Registry:
    """All checks by code, probes and scenarios by name, with the plugin each came from."""

    checks: dict[str, Check] = field(default_factory=dict)
    probes: dict[str, Probe | Scenario] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    broken: list[BrokenPlugin] = field(default_factory=list)

    def add(self, plugin: str, item: Check | Probe | Scenario) -> None:
        """Registers one check, probe or scenario; a code or name that is taken makes the plugin broken, the first one
        stays."""
        key = item.code if isinstance(item, Check) else item.name
        present = self.checks.get(key) or self.probes.get(key)
        # A module that imports another's check does not register it again.
        if present is item or (isinstance(item, Check) and _stands_for(present, item)):
            return
        if present is not None:
            self.broken.append(BrokenPlugin(plugin, f"{key} is already registered by {self.origin[key]}"))
            return
        self.origin[key] = plugin
        if isinstance(item, Check):
            self.checks[key] = item
        else:
            self.probes[key] = item

    @property
    def left_out(self) -> tuple[str, ...]:
        """What is said of other people's plugins that could not be used."""
        return tuple(str(one) for one in self.broken if not one.is_own)

    @property
    def lacking(self) -> tuple[Missing, ...]:
        """The parts of rldoctor itself that could not be used: no verdict is whole without them."""
        return tuple(Missing(what=f"a part of rldoctor is broken: {one.reason}") for one in self.broken if one.is_own)

    def unknown(self, code: str) -> InputError:
        """What to say of a code, or of a check's name, that no check has."""
        by_name = {check.name: check.code for check in self.checks.values()}
        by_number = {code[-3:]: check.name for code, check in self.checks.items()}
        given = code.lower()
        within = [name for name in by_name if given in name]
        begun = {name[: len(given)]: name for name in by_name}
        near = by_number.get(given[-3:].translate(_FOR_DIGITS)) or (within[0] if len(within) == 1 else None)
        near = near or meant(given, by_name) or begun.get(meant(given, begun, 0.8) or "")
        hint = f"did you mean {by_name[near]} ({near})? " if near is not None else ""
        return InputError(f"unknown code {code!r}; {hint}`rldoctor list` shows all codes")

    def select(self, select: tuple[str, ...] = ()) -> list[Check]:
        """Checks in order of their codes, all where nothing is selected. A selector is a code or a prefix of one
        (``RLD1``).

        Raises :class:`InputError` for a selector that matches nothing."""
        for selector in select:
            if not any(code.startswith(selector) for code in self.checks):
                raise self.unknown(selector)
        return [check for code, check in sorted(self.checks.items()) if not select or code.startswith(select)]


def plugins() -> set[str]:
    """The names of the installed plugins, the built-in ones among them."""
    return {entry.name for group in GROUPS for entry in entries(group)}


def load(disabled: tuple[str, ...] = (), *, defer: bool = False) -> Registry:
    """Loads every entry point of the groups except the ``disabled`` plugins. A module that fails to import is recorded
    as broken, never raised; the other modules of its plugin still count. With ``defer`` the modules of built-in checks
    and probes that have not changed since the last time are imported when they are needed
    (:mod:`rldoctor.catalogue.deferred`)."""
    registry = Registry()
    # The built-ins first, so that a third party that reuses a code is the one that is refused.
    named = [entry for group in GROUPS for entry in entries(group)]
    found = sorted(named, key=lambda e: (not e.name.startswith("builtin"), e.name, e.value))
    kept = deferred.kept(BUILTIN) if defer else deferred.Known([], [])
    held: dict[str, Sequence[Check | Probe | Scenario]] = {BUILTIN: kept.checks, PROBES: kept.probes}
    unkept = {BUILTIN, PROBES} if defer and not kept.checks else set()
    for entry in found:
        if entry.name in disabled:
            continue
        module = entry.module
        if module is None:
            registry.broken.append(BrokenPlugin(entry.name, f"its entry point names no module: {entry.value!r}"))
            continue
        known = held.get(module, ())
        for item in known:
            registry.add(entry.name, item)
        if not known:
            _load(registry, entry.name, module)
        if module in unkept:
            unkept.remove(module)
            if not unkept and not registry.broken:
                checks = (deferred.row(check, _modules(check)) for check in registry.checks.values())
                deferred.keep(BUILTIN, checks, map(deferred.probe_row, registry.probes.values()))
    registry.broken += frameworks.broken()
    return registry


def _stands_for(present: Check | Probe | Scenario | None, item: Check) -> bool:
    return isinstance(present, deferred.DeferredCheck) and present.module == item.module


def _modules(check: Check) -> list[str]:
    """The modules of a check that is loaded: its own, and its parts where it is a folder."""
    parts = (f"{check.module}.{part}" for part in PARTS)
    return [check.module, *(part for part in parts if part in sys.modules)]


def _load(registry: Registry, plugin: str, name: str) -> None:
    """Registers what one module holds and, where it is a package, everything below it. A folder with a check is one
    check: it is registered with all of its parts, or not at all."""
    module = _imported(registry, plugin, name)
    if module is None:
        return
    below = [info.name for info in pkgutil.iter_modules(getattr(module, "__path__", []), f"{name}.")]
    parts = [_imported(registry, plugin, part) for part in below if part.rpartition(".")[2] in PARTS]
    for value in list(vars(module).values()):
        if isinstance(value, Check) and value.module == name and None in parts:
            continue  # half of its detectors would pass for all of them
        if isinstance(value, Check | Probe | Scenario):
            registry.add(plugin, value)
    for part in below:
        if part.rpartition(".")[2] not in PARTS:
            _load(registry, plugin, part)


def _imported(registry: Registry, plugin: str, name: str) -> ModuleType | None:
    """The module; None, and the plugin recorded as broken, where it cannot be imported."""
    own = name.partition(".")[0] in OWN
    try:
        with streams.reserved(), contextlib.nullcontext() if own else foreign.imported(name, IMPORT_SECONDS):
            return importlib.import_module(name)
    except BaseException as error:  # a plugin may fail in any way; the run goes on without it
        if isinstance(error, KeyboardInterrupt) or _of_the_command(error):
            raise
        registry.broken.append(BrokenPlugin(plugin, f"{name}: {one_line(error)}"))
        return None


def _of_the_command(error: BaseException) -> bool:
    """Whether the whole command was told to end meanwhile."""
    theirs = isinstance(error, Exception | SystemExit | foreign.TookTooLong)
    return not theirs and type(error).__module__.partition(".")[0] == "rldoctor"
