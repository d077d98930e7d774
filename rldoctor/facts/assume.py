"""``--assume``: judges for versions or a machine that are not the ones collected."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from rldoctor import redact
from rldoctor.case import Case, Distribution, Gpu, Gpus, Packages, Unknown
from rldoctor.case.lookup import PROVIDERS, canonical
from rldoctor.errors import InputError, meant_or_known
from rldoctor.expressions import expression
from rldoctor.frameworks import packages
from rldoctor.io import untrusted
from rldoctor.knowledge.packages import is_examinable, is_known, meant_by
from rldoctor.schema import Misfit
from rldoctor.versions import parsed

ASSUMED = "judged for an assumed machine"

GIB = 1024**3
_MAX_BYTES = 1024 * 1024
_NAME = expression(r"[A-Z0-9](?:[A-Z0-9._-]*[A-Z0-9])?", re.IGNORECASE)  # PEP 508
# A version that is given with other signs than the two.
_PINNED = expression(r"(?P<package>[A-Za-z][\w.-]*?)(?:\s*[=~<>]=?\s*|[@:\s]\s*)(?P<version>\d[\w.+-]*)")
# Names by which other vendors' devices go; all else is taken for NVIDIA's.
_VENDORS = {"amd": r"\bAMD\b|\bInstinct\b|\bMI\d{3}", "ascend": r"\bAscend|\b910[A-Z]?\d?\b"}
# Distributions of which an environment has one or the other: builds of one package, a fork and its parent.
_SAME_INSTALL = {
    **PROVIDERS,
    **{
        name: (fork.distribution, fork.name)
        for fork in packages()
        if fork.distribution
        for name in (fork.distribution, fork.name)
    },
}


class AssumedGpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``count`` devices of one kind."""

    name: Annotated[str, Meta(min_length=1)]
    memory_gib: Annotated[float, Meta(gt=0, le=100_000)]
    compute_capability: Annotated[str, Meta(pattern=r"^\d+\.\d$")] | None = None
    count: Annotated[int, Meta(ge=1, le=1024)] = 1


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a machine.json may hold. What it does not name stays as collected, except the host."""

    python: str | None = None
    packages: dict[str, str] | None = None
    env: dict[str, str] | None = None
    gpus: list[AssumedGpu] | None = None
    nodes: Annotated[int, Meta(ge=1)] | None = None


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """All ``--assume`` of a command line: one machine at most, and versions over what it names."""

    machine: Machine | None = None
    versions: dict[str, str] = {}


def parse(items: Iterable[str]) -> Assumptions:
    """Reads ``PKG==VERSION``, machine files and names of machines (``8xH100-80GB``).

    Raises :class:`InputError` with one line for what is none of them."""
    machine: Machine | None = None
    versions: dict[str, str] = {}
    for item in items:
        if not item.endswith(".json") and "==" in item:
            name, _, version = item.partition("==")
            for known, release in _versions({name.strip(): version.strip()}, f"--assume {item}").items():
                if versions.setdefault(known, release) != release:
                    raise InputError(f"--assume {item}: {known}=={versions[known]} is assumed already")
        else:
            second = _named_machine(item) or read_machine(Path(item))
            if machine is not None:
                raise InputError(f"--assume {item}: a second machine; only one can be assumed")
            machine = second
    return Assumptions(machine=machine, versions=versions)


def verify(items: Iterable[str], read: Iterable[str] = ()) -> None:
    """Raises :class:`InputError` for a package that is given as ``PKG==VERSION`` and that nothing reads (``read`` are
    those that plugins' checks do), and for one of a machine that is most likely a misspelled name: an environment may
    hold any others."""
    given = tuple(items)
    assumed = parse(given)
    also = {canonical(name) for name in read}
    for name, version in assumed.versions.items():
        if not is_known(name) and name not in also and name != "python":
            meant = meant_by(name)
            hint = f"; did you mean {meant}?" if meant else ""
            raise InputError(f"--assume {name}=={version}: no check reads a package {name}{hint}")
    named = (assumed.machine and assumed.machine.packages) or {}
    for name in named:
        meant = None if is_known(name) or name in also else meant_by(name)
        if meant is not None and meant not in named:
            file = next(item for item in given if item.endswith(".json") or "==" not in item)
            raise InputError(f"--assume {file}: no check reads a package {name}; did you mean {meant}?")


def apply(case: Case, items: Iterable[str]) -> Case:
    """The case as if ``items`` were so. What was observed by running something no longer holds, nor why something was
    not observed."""
    assumed = parse(items)
    if assumed.machine is not None:
        case = _on_machine(case, assumed.machine)
    if assumed.versions:
        case = _with_versions(case, assumed.versions)
    if assumed.machine is None and not assumed.versions:
        return case
    observed = {f"observations.{name}" for name in case.observations}
    observed.update(fact for fact in case.unknown if fact.startswith("observations."))
    gone = dict.fromkeys(sorted(observed), Unknown(reason=ASSUMED))
    return replace(case, observations={}, unknown={**case.unknown, **gone})


def read_machine(file: Path) -> Machine:
    """Reads and validates a machine.json. Raises :class:`InputError` that says what is wrong and where."""
    where = f"--assume {file}"
    try:
        if not file.is_file():
            hint = "" if file.suffix == ".json" else _hint(str(file))
            raise InputError(f"{where}: {'is not a file' if file.exists() else 'no such file'}{hint}")
        data = untrusted.read(file, _MAX_BYTES).removeprefix(codecs.BOM_UTF8)
        machine = msgspec.json.decode(data, type=Machine)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {_plainly(error)}") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{where}{_broken_at(data)}: not valid JSON: {error}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: {getattr(error, 'strerror', None) or error}") from error
    if machine.python is not None:
        _check_version(machine.python, "python", where)
    if machine.packages is not None:
        machine = msgspec.structs.replace(machine, packages=_versions(machine.packages, where))
    return machine


def _broken_at(data: bytes) -> str:
    """The line from which on a text is no JSON, behind a colon; msgspec counts bytes."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return f":{error.lineno}"
    except (ValueError, RecursionError):
        pass
    return ""


_FIELD = expression(r"unknown field `(?P<name>[^`]*)`(?: - at `\$\.?(?P<at>[^`]*)`)?")
_EXAMPLES = {
    "packages": '"packages": {"vllm": "0.11.0"}',
    "env": '"env": {"RAY_ADDRESS": "auto"}',
    "gpus": '"gpus": [{"name": "NVIDIA H100", "memory_gib": 80, "compute_capability": "9.0", "count": 8}]',
    "nodes": '"nodes": 1',
    "python": '"python": "3.12"',
}


def _plainly(error: msgspec.ValidationError) -> str:
    """What msgspec says of a machine, in words of the file, with the nearest name or an example."""
    if (unknown := _FIELD.search(str(error))) is not None:
        known = (AssumedGpu if unknown["at"] else Machine).__struct_fields__
        hint = meant_or_known(unknown["name"], known, alike=0.5)
        return f"unknown key {unknown['name']!r}{' of a GPU' if unknown['at'] else ''}; {hint}"
    misfit = Misfit.of(error)
    example = _EXAMPLES.get(re.split(r"[.\[]", misfit.at)[0])
    return f"{misfit.at or 'the file'} {misfit.wrong}{f', such as {example}' if example else ''}"


def _named_machine(name: str) -> Machine | None:
    """The GPUs of a machine that is known by name; a file of that name comes first."""
    from rldoctor.knowledge.machines import named

    found = None if Path(name).exists() else named(name)
    if found is None:
        return None
    count, device = found
    gib = device.memory_mib / 1024
    capability = device.compute_capability
    return Machine(gpus=[AssumedGpu(name=device.name, memory_gib=gib, compute_capability=capability, count=count)])


def _hint(name: str) -> str:
    from rldoctor.knowledge.machines import nearest

    if (pinned := _PINNED.fullmatch(name)) is not None and is_known(canonical(pinned["package"])):
        return f"; did you mean {pinned['package']}=={pinned['version']}?"
    near = nearest(name)
    return f"; did you mean {near}?" if near else "; a version is given as PACKAGE==VERSION, a machine as 8xH100-80GB"


def _versions(given: dict[str, str], where: str) -> dict[str, str]:
    """The same with canonical names, when all names and versions are such."""
    for name, version in given.items():
        if not _NAME.fullmatch(name):
            raise InputError(f"{where}: {name!r} is not a package name")
        _check_version(version, name, where)
    return {canonical(name): version for name, version in given.items()}


def _check_version(version: str, name: str, where: str) -> None:
    if parsed(version) is None:
        raise InputError(f"{where}: {version[:64]!r} is not a version of {name}, such as 0.8.5")


def _on_machine(case: Case, machine: Machine) -> Case:
    """The case on another machine: what that names, and nothing of this host."""
    unknown = {**case.unknown, "host": Unknown(reason=ASSUMED)}
    case = replace(case, host=None, node=None, absent={**case.absent, "node": ASSUMED})
    if machine.python is not None or machine.packages is not None:
        packages = _packages(case.packages, machine)
        case = replace(case, packages=packages)
        unknown.pop("packages", None)
        if packages is None:
            unknown["packages"] = Unknown(reason="the assumed machine names no python", how='"python" in machine.json')
    if machine.env is not None:
        environment = {name: redact.variable(name, value) for name, value in sorted(machine.env.items())}
        case = replace(case, environment=environment)
        unknown.pop("environment", None)
    if machine.gpus is not None:
        case = replace(case, gpus=_gpus(machine.gpus))
        for name in ("driver", "cuda"):
            unknown[f"gpus.{name}"] = Unknown(reason=f"the assumed machine does not name its {name}")
        unknown.pop("gpus", None)
    if machine.nodes is not None:
        case = replace(case, nodes=machine.nodes)
    named = {"packages": machine.packages, "environment": machine.env, "gpus": machine.gpus, "nodes": machine.nodes}
    return replace(
        case, unknown=unknown, assumed=tuple(name for name, reported in named.items() if reported is not None)
    )


def _packages(collected: Packages | None, machine: Machine) -> Packages | None:
    python = machine.python or (collected and collected.python)
    if not python:
        return None
    if machine.packages is None:
        kept = collected or Packages(python=python, complete=False)
        return replace(kept, python=python, executable=None, prefix=None, include=None)
    named = (Distribution(name=name, version=version) for name, version in machine.packages.items())
    foreign = machine.python is None and collected is not None and not collected.named
    return Packages(python=python, distributions=tuple(named), complete=False, foreign=foreign)


def _gpus(assumed: list[AssumedGpu]) -> Gpus:
    devices = [gpu for gpu in assumed for _ in range(gpu.count)]
    vendors = {next((v for v, names in _VENDORS.items() if re.search(names, gpu.name)), "nvidia") for gpu in assumed}
    if len(vendors) > 1:
        raise InputError(f"--assume: devices of {' and '.join(sorted(vendors))} on one machine")
    return Gpus(
        vendor=vendors.pop() if vendors else "none",
        devices=tuple(
            Gpu(
                index=index,
                name=gpu.name,
                memory_total=round(gpu.memory_gib * GIB),
                compute_capability=gpu.compute_capability,
            )
            for index, gpu in enumerate(devices)
        ),
    )


def _with_versions(case: Case, versions: dict[str, str]) -> Case:
    """Other versions of some packages. What the collected ones declare does not hold for them and is left out.

    Where no packages were collected, no check reads them or the case says why: nothing changes."""
    if case.packages is None:
        return case
    python = versions.get("python")
    # An interpreter without anything to examine is no more than the one that rldoctor runs in: what else the run has
    # is not known.
    doctors = case.packages.executable is not None and not case.packages.named and not is_examinable(case.packages)
    distributions = [] if doctors else list(case.packages.distributions)
    for name, version in versions.items():
        if name == "python":
            continue
        replaced = _SAME_INSTALL.get(name, (name,))
        place = next((i for i, d in enumerate(distributions) if d.name in replaced), len(distributions))
        distributions = [d for d in distributions if d.name not in replaced]
        distributions.insert(place, Distribution(name=name, version=version))
    broken = {name: reason for name, reason in case.packages.broken.items() if name not in versions}
    whole = case.packages.complete and not doctors
    packages = replace(case.packages, distributions=tuple(distributions), broken=broken, complete=whole)
    if python is not None:
        return replace(case, packages=replace(packages, python=python, executable=None, prefix=None, foreign=False))
    return replace(case, packages=replace(packages, foreign=packages.foreign or doctors))
