"""The run that a W&B folder holds: the file with its history, and what it printed."""

from __future__ import annotations

from pathlib import Path

from rldoctor.errors import InputError
from rldoctor.logs.metrics.wandb import is_wandb
from rldoctor.records import dataclass

_LATEST = "latest-run"
_PRINTED = Path("files", "output.log")


@dataclass(frozen=True)
class Tracked:
    """One run: ``history`` is its ``run-ID.wandb``; ``log`` is what it printed, which may not be there yet."""

    history: Path
    log: Path


def run_of(folder: Path) -> Tracked:
    """The run of a folder: of one run, of all runs of a project (``wandb``), or of the project, the latest one.

    Raises :class:`InputError` where there is none."""
    for place in (folder, folder / _LATEST, folder / "wandb" / _LATEST):
        try:
            files = sorted(place.resolve().glob("run-*.wandb"), key=lambda file: file.stat().st_mtime)
            if files and is_wandb(files[-1]):
                return Tracked(files[-1], files[-1].parent / _PRINTED)
        except OSError as error:
            raise InputError(f"{place}: {error.strerror or error}") from None
    raise InputError(f"{folder}: no run of W&B (run-*.wandb) is in it, in {_LATEST} or in wandb/{_LATEST}; name a log")
