"""The plans of a launch file as one environment would run it: its versions, its variables, its frameworks' options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor import redact
from rldoctor.case import Case, Distribution, ModelFiles
from rldoctor.case.lookup import canonical, find
from rldoctor.facts import hub_cache
from rldoctor.formats.shell.machine import Device, Machine
from rldoctor.formats.source import Files, open_source
from rldoctor.io import untrusted
from rldoctor.knowledge.published_models import published
from rldoctor.plan.model import RolloutPlan, Setting
from rldoctor.plan.model import Source as From

if TYPE_CHECKING:
    from rldoctor.frameworks.installed import InstalledOptions
    from rldoctor.tables.options import OptionSet


def plans(
    target: Path,
    case: Case,
    framework: str | None = None,
    kept: Mapping[str, str] | None = None,
    arguments: Sequence[str] | None = None,
    caller: Mapping[str, str] | None = None,
) -> list[RolloutPlan]:
    """Reads a launch file, from ``kept`` texts where a bundle brought them along; ``arguments`` are given to a script,
    ``caller`` are the variables of the shell that would start it. Its secrets stay in the file.

    Raises :class:`rldoctor.errors.InputError` where it cannot be read, or the framework is none that is known."""
    from rldoctor.launch.recognise import read
    from rldoctor.launch.secrets import without_secrets

    environment = Options(case, None if kept else target.parent)
    found = read(
        target,
        framework=framework,
        version_of=environment.version,
        known=environment.known,
        environment=_variables(case.environment or {}),
        kept=kept,
        arguments=arguments,
        caller=caller,
        machine=_machine(case),
    )
    return [without_secrets(plan) for plan in found]


# Modules that work on another maker's devices alone.
_ELSEWHERE = {"torch_npu": "ascend"}


def _machine(case: Case) -> Machine:
    """What a launch script may ask of the case's machine: its NVIDIA devices, and which modules its Python finds."""
    gpus, packages = case.gpus, case.packages

    def has_module(name: str) -> bool | None:
        maker = _ELSEWHERE.get(name)
        if maker is not None and gpus is not None and gpus.devices:
            return gpus.vendor == maker
        found = packages is not None and find(packages, canonical(name)) is not None
        absent = maker is not None and packages is not None and packages.complete
        return True if found else False if absent else None

    devices = gpus.devices if gpus is not None and gpus.vendor == "nvidia" else ()
    seen = [Device(gpu.name, gpu.memory_total >> 20, gpu.compute_capability) for gpu in devices]
    return Machine(seen, has_module, case.nodes)


def sources(target: Path, found: Iterable[RolloutPlan]) -> dict[str, str]:
    """The texts that plans were read from, by their paths: what it takes to read them again elsewhere."""
    files = dict.fromkeys((str(target), *(file for plan in found for file in plan.files)))
    return {file: open_source(Path(file)).text for file in files}


def model_directory(plan: RolloutPlan, environ: Mapping[str, str] | None) -> Path | None:
    """The plan's model where it is a local directory; relative paths count from the launch file, then from here. With
    an environment, also where the hub's cache holds it under the name that the plan gives."""
    for option in ("model.path", "engine.model"):
        named = plan.value(option)
        if isinstance(named, str):
            # Path's own raises for a user unknown here.
            for path in (Path(plan.file).parent / named, Path(os.path.expanduser(named))):  # noqa: PTH111
                if untrusted.is_file(path / "config.json"):
                    return path
            if environ is not None and (cached := hub_cache.directory(named, _with_variables(plan, environ))):
                return cached
    return None


def published_model(plan: RolloutPlan) -> ModelFiles | None:
    """The plan's model as its authors published it, where the plan gives its name on the hub and that is known."""
    named = (plan.value(option) for option in ("model.path", "engine.model"))
    return next((known for name in named if isinstance(name, str) and (known := published(name)) is not None), None)


def missing_model(plan: RolloutPlan, here: bool) -> Setting | None:
    """``model.beside`` where the plan names a directory for its model that does not exist and another model lies beside
    it under nearly its name. With ``here``, for a launch of this very machine, absolute paths count too, and those of
    which only the parent exists. None otherwise: the path may be one of another machine, or of a later time."""
    for option in ("model.path", "engine.model"):
        setting = plan.settings.get(option)
        named = setting.value if setting is not None else None
        if setting is None or not isinstance(named, str) or not named.startswith(("./", "../", "/", "~")):
            continue
        relative = named.startswith(".")
        if not relative and not here:
            continue
        # Path's own raises for a user unknown here.
        places = [Path(plan.file).parent / named, Path(os.path.expanduser(named))]  # noqa: PTH111
        if any(map(os.path.exists, places)):
            return None
        near = [name for place in places for name in _models_like(place)]
        if near or (not relative and os.path.isdir(places[-1].parent)):  # noqa: PTH112 (Path's own may raise)
            return replace(setting, value=list(dict.fromkeys(near)), source=From.DERIVED, how="what lies beside it")
    return None


def _models_like(place: Path) -> list[str]:
    """The models beside a path, whose names are all but its own. Where only numbers differ it is another size, version
    or step, which the launch may be about to make."""
    try:
        beside = [entry.name for entry in place.parent.iterdir() if untrusted.is_file(entry / "config.json")]
    except OSError:
        return []
    others = [name for name in beside if _letters(name) != _letters(place.name)]
    found = get_close_matches(place.name, others, cutoff=SAME_NAME)
    return [str(place.parent / name) for name in found]


def _letters(name: str) -> str:
    return re.sub(r"[\W\d_]", "", name)


def _with_variables(plan: RolloutPlan, environ: Mapping[str, str]) -> dict[str, str]:
    """An environment with what the launch itself sets."""
    given = {name.removeprefix("env."): plan.value(name) for name in plan.settings if name.startswith("env.")}
    return {**environ, **{name: value for name, value in given.items() if isinstance(value, str)}}


# So alike are a name and a slip of it: Qwen2.5-7B-Instrct and Qwen2.5-7B-Instruct (0.97), modle and model (0.8).
SAME_NAME = 0.8


class Options:
    """The options that the frameworks of an environment know. ``around`` is the folder of the launch file: a checkout
    of a framework in which it lies is what ``python -m`` finds first, and often a fork."""

    def __init__(self, case: Case, around: Path | None = None) -> None:
        self.packages = case.packages
        self.folders = [] if around is None else [around, *Files(around).above()]

    def version(self, name: str) -> str | None:
        """The version of a package, or None where it is not there or not known."""
        found = self._distribution(name)
        return found.version if found else None

    def known(self, owner: str, group: str | None) -> OptionSet | None:
        """What ``owner`` declares under ``group`` in the version at hand, or None where nothing is known of it.

        An editable install and a release that the dated table lacks are read from their own source; for the others the
        table says the same and is faster."""
        from rldoctor.frameworks.option_table import OptionTable

        found = self._distribution(owner)
        try:
            table = OptionTable.load(owner)
        except KeyError:
            return None
        others = {d.name: d.version for d in self.packages.distributions} if self.packages else {}
        declared = table.at(found.version, group, others) if found else None
        if (found is None or not found.location) and (checkout := self.checkout(owner)) is not None:
            return _whole(_stood_in(checkout.at(owner, group, others), checkout.unreadable(owner), declared), declared)
        if found is not None and found.location and (found.editable or found.version not in table.versions):
            here = _installed(found.editable or found.location)
            installed = here.at(owner, group, others)
            if installed is not None:
                return _stood_in(installed, here.unreadable(owner), declared)
        return declared

    def checkout(self, owner: str) -> InstalledOptions | None:
        """The framework's own source, where the launch file lies in it, or beside a copy of it that is installed from
        a folder of its name (``pip install -e ./verl``)."""
        from rldoctor.frameworks.layouts import layout_of

        copies = layout_of(owner).packages
        places = (str(place) for folder in self.folders for place in (folder, *(folder / name for name in copies)))
        return next((here for place in places if (here := _installed(place)).has(owner)), None)

    def _distribution(self, name: str) -> Distribution | None:
        return find(self.packages, canonical(name)) if self.packages is not None else None


def _stood_in(found: OptionSet | None, unreadable: str, table: OptionSet | None) -> OptionSet | None:
    """The options of a source, or its release's own where it cannot be read and that one was."""
    return table.instead_of(unreadable) if unreadable and table is not None and table.outside is None else found


def _whole(found: OptionSet | None, table: OptionSet | None) -> OptionSet | None:
    """The options of a fork, or None where most are missing: it keeps them in another way than the layout knows."""
    return None if found is None or (table is not None and 2 * len(found) < len(table)) else found


@cache
def _installed(directory: str) -> InstalledOptions:
    from rldoctor.frameworks.installed import InstalledOptions

    return InstalledOptions(Path(directory))


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide a launch; where a file would set them again, the file's value counts."""
    return {name: value for name, value in environment.items() if not redact.is_mark(value)}
