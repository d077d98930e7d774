"""Metric files and folders: state files, JSON lines, TensorBoard and W&B runs, and logs, told apart by name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rldoctor.case import Series
from rldoctor.errors import InputError
from rldoctor.frameworks.samples import Sample
from rldoctor.io import untrusted
from rldoctor.io.untrusted import read as read_bounded
from rldoctor.logs.metrics import parquet, samples, tensorboard, wandb
from rldoctor.logs.metrics.collector import Collector
from rldoctor.logs.metrics.console import record_reading
from rldoctor.logs.metrics.track import Track, merge
from rldoctor.logs.metrics.wire import DamagedError

# A state file of a hundred thousand steps has about 100 MB; it is read as a whole.
LARGEST_STATE = 256 << 20
# Longer lines of JSON lines and logs are skipped: they hold token ids, not metrics.
LONGEST_LINE = 4 << 20
MOST_FILES = 2000


def read_files(paths: Iterable[Path]) -> dict[str, Series]:
    """The metrics of files, and of the metric files in folders.

    Raises :class:`InputError` for a path that was named and cannot be read; in a folder such a file is left out."""
    found: list[dict[str, Series]] = []
    for path in paths:
        if path.is_dir():
            found += _read_folder(path)
            continue
        try:
            found.append(_read(path))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
    return merge(found)


def is_metric_file(path: Path) -> bool:
    """Whether the name is one under which metrics are kept."""
    name = path.name
    return (
        "tfevents" in name
        or name.endswith((".wandb", ".jsonl"))
        or name in ("trainer_state.json", "wandb-summary.json", "output.log")
        or (name.startswith("completions_") and name.endswith(".parquet"))
    )


def _read_folder(folder: Path) -> Iterator[dict[str, Series]]:
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        found += [
            path for name in sorted(names) if is_metric_file(path := Path(root, name)) and untrusted.is_file(path)
        ]
        if len(found) >= MOST_FILES:
            break
    # A checkpoint's state is the run's history up to there: the newest that can be read says all.
    states = [path for path in found if path.name == "trainer_state.json"]
    newest = (_read_quietly(path) for path in sorted(states, key=lambda path: path.stat().st_mtime, reverse=True))
    yield next(filter(None, newest), {})
    yield from (_read_quietly(path) for path in found[:MOST_FILES] if path.name != "trainer_state.json")


def _read_quietly(path: Path) -> dict[str, Series]:
    try:
        return _read(path)
    except (OSError, InputError):
        return {}


def _read(path: Path) -> dict[str, Series]:
    if "tfevents" in path.name:
        return tensorboard.read(path)
    if wandb.is_wandb(path):
        return wandb.read(path)
    if path.name == "wandb-summary.json":
        return wandb.read_summary(path)
    if path.suffix == ".parquet":
        return _read_completions(path)
    if path.suffix == ".json":
        return _read_state(path)
    return _read_lines(path)


def _read_state(path: Path) -> dict[str, Series]:
    try:
        state = json.loads(read_bounded(path, LARGEST_STATE))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error
    history = state.get("log_history") if isinstance(state, dict) else None
    track = Track(str(path))
    for record in history if isinstance(history, list) else []:
        if isinstance(record, dict) and (reading := record_reading(record)) is not None:
            track.add(reading)
    return track.series()


_COMPLETION_COLUMNS = frozenset({"step", "prompt", "completion"})


def _read_completions(path: Path) -> dict[str, Series]:
    """The table of one step."""
    try:
        table = parquet.columns(path, _COMPLETION_COLUMNS)
    except DamagedError as error:
        raise InputError(f"{path}: {error}") from error
    steps = [value for row in table.get("step", []) for value in row if isinstance(value, int)]
    rows = zip(
        *(["\n".join(map(str, row)) for row in table.get(name, [])] for name in ("prompt", "completion")), strict=False
    )
    track = Track(str(path))
    if steps and (reading := samples.count((Sample(*row) for row in rows), steps[0])) is not None:
        track.add(reading)
    return track.series()


def _read_lines(path: Path) -> dict[str, Series]:
    collector = Collector()
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                continue
            collector.feed(str(path), number, line.decode(errors="replace").rstrip("\n"))
    return collector.series()
