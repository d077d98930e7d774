"""Runs a function of the user's own as one rank of several, on devices that are pretended, and records the first
operation that mixes two.

Arguments: ``file`` and ``function`` (which takes its device, or nothing), ``rank``, ``ranks`` and ``devices`` (how many
there are). Records: ``stage``, ``versions``, ``step`` (a row: ``placement``, ``ended`` (``done``, ``mixed`` or
``failed``), ``mixed`` or ``error``, ``operators``, ``seconds``)."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from pathlib import Path
from typing import Any

import placement
from report import emit, run, stage


def main(arguments: dict[str, Any]) -> None:
    stage("import")
    import torch

    emit("versions", {"torch": torch.__version__})
    import virtual_cuda
    import virtual_devices

    virtual_devices.install()
    virtual_cuda.install(arguments["devices"])
    rank = arguments["rank"]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(arguments["ranks"]))
    stage("step")
    emit("step", tried(Path(arguments["file"]), arguments["function"], rank))


def tried(file: Path, function: str, rank: int) -> dict[str, Any]:
    """What became of the function on this rank. What the module does when it is imported counts, too."""

    def step(_: placement.Modules) -> list[str]:
        call(getattr(loaded(file), function), f"cuda:{rank}")
        return [f"cuda:{rank}"]

    return placement.watched(f"rank {rank}", step)


def call(function: Any, device: str) -> Any:
    """Calls it with its device, or with nothing where it takes nothing."""
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    return function(*([device] if needed else []))


def loaded(file: Path) -> Any:
    """The file as a module; it may import what lies beside it."""
    sys.path.insert(0, str(file.parent))
    specification = importlib.util.spec_from_file_location(file.stem, file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[file.stem] = module
    specification.loader.exec_module(module)
    return module


if __name__ == "__main__":
    run(main)
