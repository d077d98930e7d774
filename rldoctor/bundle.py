"""Writes a case as JSON and reads it back: the bundle that replays on any machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from rldoctor import redact
from rldoctor.case import SCHEMA_VERSION, Case, Node
from rldoctor.catalogue.probe import JobResult
from rldoctor.errors import InputError
from rldoctor.io import opened, untrusted
from rldoctor.printable import storable

# The record of a stalled run, which is no probe's; its own reader validates it.
HANG = "hang"
# A bundle is facts, not logs; what is larger was not written by `rldoctor bundle`.
MAX_BYTES = 64 * 1024 * 1024


# JSON has no numbers for these, and metrics are full of them when training diverges.
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def dump(case: Case) -> str:
    """The case as indented JSON, secrets removed."""
    data: Any = redact.tree(storable(msgspec.to_builtins(case)))
    for values in _metric_values(data):
        values[:] = [value if math.isfinite(value) else str(value) for value in values]
    return msgspec.json.format(msgspec.json.encode(data), indent=1).decode()


def schema() -> str:
    """The JSON Schema of a bundle, as it is published."""
    from rldoctor.schema import components, published

    found = components(Case)
    values = found["$defs"]["Series"]["properties"]["values"]
    values["items"] = {"anyOf": [values["items"], {"enum": list(_NOT_FINITE)}]}
    return published("bundle", found)


def place(named: str, case: Case) -> Path:
    """Where a case is written: in a folder (``DIR/``) under the name of its node, so that every node may be given the
    same folder; a namesake's bundle stays. Raises :class:`InputError` where the folder cannot be made."""
    output = Path(named)
    if not (output.is_dir() or named.endswith("/")):
        return output
    name = case.node.host if case.node is not None else "node"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}") from error
    usual = output / f"{name}.json"
    return (
        output / f"{name}-{case.node.boot}.json" if case.node is not None and _has_namesake(case.node, usual) else usual
    )


def _has_namesake(node: Node, file: Path) -> bool:
    """Whether a file holds the bundle of another machine that is called the same."""
    try:
        with opened.aside():
            there = load(file).node
    except InputError:
        return False
    return there is not None and there.is_beside(node)


def load(path: Path) -> Case:
    """Reads a bundle. Raises :class:`InputError` with one line where it cannot be one."""
    return parse(read(path), str(path))


def read(path: Path) -> bytes:
    """The bytes of a file that can be a bundle. Raises :class:`InputError` with one line where it cannot."""
    try:
        return untrusted.read(path, MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def parse(raw: bytes, source: str) -> Case:
    """Decodes and validates a bundle's bytes; ``source`` names it in errors. Others may have made it: secrets go."""
    try:
        return redact.tree(decoded(raw, source))
    except RecursionError as error:
        raise InputError(f"{source}: damaged bundle: {error}") from error


def decoded(raw: bytes, source: str) -> Case:
    """The same with whatever secrets stand in it, for those who print little of it: what is printed passes the door."""
    try:
        data: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{source}: not a bundle, not valid JSON: {error}") from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        hint = "; --assume reads what describes a machine" if isinstance(data, dict) and "packages" in data else ""
        raise InputError(f"{source}: not a bundle, no schema_version{hint}")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{source}: bundle schema {version} is newer than {SCHEMA_VERSION}, the newest this rldoctor reads"
        )
    for values in _metric_values(data):
        values[:] = [_NOT_FINITE.get(value, value) if isinstance(value, str) else value for value in values]
    try:
        case = msgspec.convert(data, Case)
        jobs = {name: _jobs(reported) for name, reported in case.observations.items() if name != HANG}
        return replace(case, observations={**case.observations, **jobs})
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{source}: damaged bundle: {error}") from error


def _jobs(jobs: Any) -> dict[str, Any]:
    """What a probe's jobs left behind. Raises :class:`msgspec.ValidationError` where it is nothing of the kind."""
    reported: dict[str, dict[str, Any]] = msgspec.convert(jobs, dict[str, dict[str, Any]])
    for job in reported.values():
        log = msgspec.convert(job, JobResult).log
        if log is not None:  # what lies at this path here is another file
            job["log"] = f"{log} (where the bundle was made)"
    return reported


def _metric_values(data: dict[str, Any]) -> Iterator[list[Any]]:
    """The values of every metric in a bundle's data, as lists that can be changed in place."""
    metrics = data.get("metrics")
    for series in metrics.values() if isinstance(metrics, dict) else ():
        if isinstance(series, dict) and isinstance(series.get("values"), list | tuple):
            series["values"] = list(series["values"])
            yield series["values"]
