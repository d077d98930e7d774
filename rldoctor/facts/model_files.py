"""A local model directory: its configuration files and the list of what lies there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rldoctor.case import ModelFiles, Unknown
from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.facts import hub_cache
from rldoctor.io import untrusted
from rldoctor.printable import plain

# The largest config.json in the wild is some 100 KB; tokenizer configurations that list every added token reach MBs.
MAX_BYTES = 32 * 1024 * 1024


def collect(request: Request) -> ModelFiles | Unknown:
    """The model of ``--model``, or of a TARGET that is a model directory.

    Raises :class:`InputError` where the directory or its ``config.json`` cannot be used."""
    if request.model is not None:
        return read(request.model)
    if request.target is not None and (request.target / "config.json").is_file():
        return read(request.target)
    return Unknown(reason="no local model was named", how="--model DIRECTORY")


def read(directory: Path) -> ModelFiles:
    """The files of one model. Its weights are listed, not read."""
    if not directory.is_dir():
        what = "is a file, not a directory" if directory.exists() else "no such directory"
        raise InputError(f"{directory}: {what}; a model is given as a local directory with a config.json")
    try:
        config = _read_json(directory / "config.json")
    except (OSError, ValueError) as error:
        raise InputError(f"{directory / 'config.json'}: {_why(error)}") from None
    files, broken = _listing(directory)
    optional: dict[str, dict[str, Any] | None] = {}
    for name in ("tokenizer_config.json", "generation_config.json"):
        try:
            optional[name] = _read_json(directory / name) if name in files else None
        except (OSError, ValueError) as error:
            optional[name] = None
            broken[name] = _why(error)
    return ModelFiles(
        path=str(directory),
        config=config,
        tokenizer_config=optional["tokenizer_config.json"],
        generation_config=optional["generation_config.json"],
        files=files,
        broken=broken,
        cached=hub_cache.holds(directory),
    )


def _read_json(file: Path) -> dict[str, Any]:
    """A JSON object; raises OSError or ValueError. NaN and Infinity pass: released configurations hold them."""
    try:
        read = json.loads(untrusted.read(file, MAX_BYTES).decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("is not text in UTF-8") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(read, dict):
        raise ValueError("does not hold a JSON object")
    return read


def _listing(directory: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Name -> size of the files of a directory, and of the unreadable ones the reason."""
    files: dict[str, int] = {}
    broken: dict[str, str] = {}
    for entry in sorted(directory.iterdir()):
        name = plain(entry.name)
        try:
            if entry.is_dir():
                continue
            files[name] = entry.stat().st_size
        except OSError as error:
            broken[name] = "is a link to a file that does not exist" if entry.is_symlink() else _why(error)
    return files, broken


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"is not valid JSON: {error}"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
