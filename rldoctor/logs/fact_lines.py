"""The line of each fact that a log tells of its run: packages, devices, processes, and the node on which it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rldoctor.case import Gpus
from rldoctor.logs.devices import device_lines
from rldoctor.logs.model import LogRun
from rldoctor.logs.reveals import versions_in_frames
from rldoctor.logs.runs import Slice
from rldoctor.logs.world import world
from rldoctor.model import Evidence

_COUNTED = {"process.nnodes": "nodes", "process.nproc": "processes on a node", "process.total": "processes"}


def fact_lines(pieces: Sequence[Slice], run: LogRun, gpus: Gpus | None) -> dict[str, Evidence]:
    """By a fact's dotted name (``packages.vllm``, ``gpus.driver``, ``process.total``, ``node``) the line that tells it,
    the first of several. ``gpus`` are what the log tells of them, None where they are known from elsewhere."""
    found = dict(_packages(pieces, run))
    found |= dict(device_lines(pieces, gpus)) if gpus is not None else {}
    for option, setting in world(pieces).items():
        if setting.file is not None and setting.line is not None:
            text = f"{setting.value} {_COUNTED[option]}"
            found[option] = Evidence(text=text, source=setting.file, line=setting.line)
    failed = next((f for f in run.failures if f.origin.node), None)
    if failed is not None:
        found["node"] = Evidence(text=f"node {failed.origin.node}", source=failed.source, line=failed.line)
    return found


def _packages(pieces: Sequence[Slice], run: LogRun) -> Iterator[tuple[str, Evidence]]:
    """Of a package of which lines tell several releases the one that the run goes by."""
    lines = [
        (what, version, piece.record.name, number)
        for piece in pieces
        for number, what, version in piece.record.versions
        if number in piece
    ]
    lines += [
        (what, version, link.source, link.line)
        for failure in run.failures
        for link in failure.chain
        for what, version in versions_in_frames(link.frames).items()
    ]
    for what, version, file, line in reversed(lines):
        if run.versions.get(what) == version and line:
            yield f"packages.{what}", Evidence(text=f"{what} {version}", source=file, line=line)
