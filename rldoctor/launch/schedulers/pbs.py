"""PBS: the chunks or nodes that ``#PBS -l`` lines ask for, in canonical names.

https://help.altair.com/2024.1.0/PBS%20Professional/PBSUserGuide2024.1.pdf (4.2), http://docs.adaptivecomputing.com/torque
(``nodes=2:ppn=8:gpus=4``)"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rldoctor.formats.source import Source
from rldoctor.launch.schedulers import batch
from rldoctor.plan.model import Setting

# What a chunk has, by the names of both dialects.
_DEVICES, _TASKS = ("ngpus", "gpus"), ("mpiprocs", "ppn")
# Chunks of fewer devices may share a node.
_WHOLE = 4


def directives(source: Source) -> dict[str, Setting]:
    """What a batch script asks for; chunks that may share a node are only counted together."""
    found: dict[str, Setting] = {}
    asked = list(_resources(source))
    apart = any(name == "place" and "scatter" in value for _, name, value in asked)
    for line, name, value in asked:
        if name not in ("select", "nodes"):
            continue
        chunks = [chunk for part in value.split("+") for chunk in _chunks(part)]
        devices = [_amount(chunk, _DEVICES) for chunk in chunks]
        place = Setting(file=source.file, line=line, key="#PBS -l", raw=f"{name}={value}")
        alone = name == "nodes" or apart or len(chunks) == 1 or all((count or 0) >= _WHOLE for count in devices)
        if alone:
            found["scheduler.nodes"] = replace(place, value=len(chunks))
            found.update(_of_each("gpus_per_node", devices, place))
            found.update(_of_each("tasks_per_node", [_amount(chunk, _TASKS) for chunk in chunks], place))
            if None not in devices and len(set(devices)) > 1:
                found["scheduler.shapes"] = replace(place, value=devices)
        elif None not in devices:
            found["scheduler.gpus"] = replace(place, value=sum(filter(None, devices)))
    if asked:
        found.update(batch.of_scheduler("pbs", source, asked[0][0]))
    return found


def _resources(source: Source) -> Iterator[tuple[int, str, str]]:
    """``select``, ``place``, ``nodes``, ``walltime`` and their like, with their line."""
    for line, words in batch.directives(source, "#PBS"):
        text = " ".join(words)
        match = re.match(r"-l\s*(\S+)", text)
        for part in match[1].split(",") if match is not None else ():
            name, sign, value = part.partition("=")
            if sign:
                yield line, name, value


def _chunks(part: str) -> list[dict[str, str]]:
    """``2:ncpus=64:ngpus=4`` as two chunks; a host by name is one."""
    first, *rest = part.split(":")
    count = int(first) if re.fullmatch(r"\d{1,5}", first) else 1
    named = (one.partition("=") for one in (first, *rest))
    return [{name: value for name, _, value in named}] * count


def _amount(chunk: dict[str, str], names: tuple[str, ...]) -> int | None:
    given = next((chunk[name] for name in names if name in chunk), None)
    return int(given) if given is not None and given.isdecimal() else None


def _of_each(name: str, amounts: list[int | None], place: Setting) -> dict[str, Setting]:
    """What all chunks have alike."""
    value = amounts[0] if len(set(amounts)) == 1 else None
    return {} if not value else {f"scheduler.{name}": replace(place, value=value)}
