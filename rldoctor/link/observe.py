"""Links what is installed for a launch, as one fact of the case (``links``).

``{"frameworks": [{"name", "version", "entries", "modules", "problems", "validated", "refusal"}], "unread": {module:
why}}``; the problems are those of :class:`rldoctor.link.problems.Problem`, ``validated`` says whether code is known
that validates such a launch, the refusal is what that makes of its settings (:class:`rldoctor.link.problems.Refusal`),
or None. The engine is among the frameworks where the launch hands it settings or starts a server. What was found is
kept in the user's cache folder until a file or folder that was read changes, or rldoctor itself does."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rldoctor import own_sources
from rldoctor.case import Case, Packages, Unknown
from rldoctor.case.lookup import Absent, find
from rldoctor.frameworks import frameworks
from rldoctor.frameworks.record import Framework
from rldoctor.io import atomic
from rldoctor.plan.handed import handed
from rldoctor.plan.model import RolloutPlan

_KEPT = 64  # results in the cache folder


def observe(case: Case) -> dict[str, Any] | Absent | Unknown:
    """What the linker finds for the case's launch, or for every framework that is installed where there is none."""
    if case.packages is None:
        return Unknown(reason="the packages were not read")
    wanted = [(record, name) for record, name in _installed(case.packages) if _asked(case.plan, record)]
    configured = case.plan is not None and (case.plan.role == "server" or bool(handed(case.plan)))
    engines = list(_engines(case.packages)) if configured else []
    if not wanted and not engines:
        return Absent("no RL framework of this launch is installed here")
    # What follows sources is a tenth of a start, and for nothing where there is nothing to link or it was done before.
    import hashlib

    from rldoctor.link.validations import given_settings

    entries = [_entries(record, case.plan) for record, _ in wanted]
    roots = _roots(case.packages)
    versions = _versions(case.packages)
    key = json.dumps(
        [
            *(own_sources.state(own_sources.HOME), sys.version_info[:2], roots, versions),
            *(entries, [name for _, name in engines], sorted(map(repr, given_settings(case.plan).items()))),
            sorted((case.environment or {}).items()),
        ]
    )
    kept = _Kept(hashlib.sha256(key.encode()).hexdigest())
    found = kept.read()
    if found is not None:
        return found
    from rldoctor.link.framework import engine, link
    from rldoctor.link.locate import SearchPath
    from rldoctor.link.sources import Sources

    collecting = gc.isenabled()
    gc.disable()  # a syntax tree is many small objects without circles: looking for these takes a third of the time
    try:
        search = SearchPath([Path(root) for root in roots], _archived(case.packages))
        sources = Sources(search)
        judged = [engine(*one, case, sources, versions) for one in engines]
        linked = [link(*one, modules, case, sources, versions) for one, modules in zip(wanted, entries, strict=True)]
    finally:
        if collecting:
            gc.enable()
    result = {"frameworks": [*linked, *judged], "unread": dict(sorted(sources.unreadable.items()))}
    kept.write(result, {**sources.stamps, **search.stamps()})
    return result


def _entries(record: Framework, plan: RolloutPlan | None) -> list[str]:
    """The modules that the launch imports, older names too."""
    if plan is None:
        return [module.format(algorithm="grpo") for module in record.imports.get("always", ())]
    if plan.role == "server":
        return list(record.imports.get("server", ()))
    kinds = ["always"] + (["asynchronous"] if plan.value("rollout.async_engine") is True else [])
    algorithm = str(plan.value("trainer.algorithm", "grpo"))
    return [module.format(algorithm=algorithm) for kind in kinds for module in record.imports.get(kind, ())]


def _installed(packages: Packages) -> Iterator[tuple[Framework, str]]:
    """The frameworks here whose entry modules are known, each with the distribution that holds it."""
    for record in frameworks():
        distribution = _distribution(record, packages)
        if record.imports and distribution is not None:
            yield record, distribution


def _engines(packages: Packages) -> Iterator[tuple[Framework, str]]:
    """The engines here whose configuration is known to be a class of theirs."""
    for record in frameworks():
        distribution = _distribution(record, packages)
        if record.validations and not record.trains and distribution is not None:
            yield record, distribution


def _distribution(record: Framework, packages: Packages) -> str | None:
    return next((package.name for package in record.packages if find(packages, package.name) is not None), None)


def _asked(plan: RolloutPlan | None, record: Framework) -> bool:
    return plan is None or plan.framework in (record.title, record.name)


def _roots(packages: Packages) -> list[str]:
    """The folders that modules are imported from, in the order of the distributions found there."""
    from rldoctor.tables.sources.trees import import_roots

    locations = dict.fromkeys(d.location for d in packages.distributions if d.location)
    roots = [str(root) for location in locations for root in (Path(location), *import_roots(Path(location)))]
    return [root for root in dict.fromkeys(roots) if Path(root).is_dir()]


def _archived(packages: Packages) -> frozenset[str]:
    """The top-level modules of distributions that lie in an archive, from which Python imports as from a folder."""
    names = (d.name for d in packages.distributions if d.location and Path(d.location).is_file())
    return frozenset(module for name in names for module in _modules_of(name))


def _modules_of(distribution: str) -> tuple[str, ...]:
    """What the modules of a distribution may be called: as its framework's record says, and as it is called itself."""
    owned = (p.modules[0] for record in frameworks() for p in record.packages if p.modules and p.name == distribution)
    engine = ("vllm",) if distribution.startswith("vllm-") else ()
    return (*owned, *engine, distribution.replace("-", "_"))


def _versions(packages: Packages) -> dict[str, str]:
    """The version of each top-level module, and of each distribution under its own name."""
    found: dict[str, str] = {}
    for distribution in packages.distributions:
        for module in _modules_of(distribution.name):
            found.setdefault(module, distribution.version)
    return found


class _Kept:
    """One result in the cache folder. A cache that cannot be read or written costs time and nothing else."""

    def __init__(self, key: str) -> None:
        home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        self.file = Path(home) / "rldoctor" / "links" / f"{key}.json"

    def read(self) -> dict[str, Any] | None:
        """The result, if nothing that it came from has changed since."""
        try:
            content = msgspec.json.decode(self.file.read_bytes())
            stamps: dict[str, list[int]] = content["stamps"]
            result: dict[str, Any] = content["result"]
            for path, (changed, size) in stamps.items():
                status = os.stat(path)  # noqa: PTH116 (hundreds of files)
                if status.st_mtime_ns != changed or (size >= 0 and status.st_size != size):
                    return None
        except (OSError, ValueError, KeyError, TypeError, msgspec.DecodeError):
            return None
        return result

    def write(self, result: dict[str, Any], stamps: dict[str, tuple[int, int]]) -> None:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            _forget_oldest(self.file.parent.iterdir())
            atomic.write(self.file, msgspec.json.encode({"result": result, "stamps": stamps}))
        except OSError:
            return


def _forget_oldest(files: Iterable[Path]) -> None:
    found = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
    for file in found[_KEPT:]:
        file.unlink(missing_ok=True)
