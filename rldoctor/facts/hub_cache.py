"""The hub's cache on this machine: what a launch that names a model by its name on the hub will load.

https://huggingface.co/docs/huggingface_hub/guides/manage-cache and
https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rldoctor.io import untrusted

# A branch that names no commit is downloaded again; this one is what is asked for where nothing else is.
BRANCH = "main"
_LONGEST_COMMIT = 256
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?")


def root(environ: Mapping[str, str]) -> Path:
    """The folder of all cached models, which need not exist."""
    home = Path(environ.get("HOME") or "/")
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    given = environ.get("HF_HUB_CACHE") or Path(environ.get("HF_HOME") or cache / "huggingface", "hub")
    return Path(os.path.expanduser(given))  # noqa: PTH111 (Path's own raises for a user unknown here)


def directory(name: str, environ: Mapping[str, str]) -> Path | None:
    """The newest cached files of a model, with its ``config.json`` among them; None where there are none."""
    if not _NAME.fullmatch(name):
        return None
    model = root(environ) / f"models--{name.replace('/', '--')}"
    try:
        commit = untrusted.read(model / "refs" / BRANCH, _LONGEST_COMMIT).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    found = model / "snapshots" / commit
    return found if commit and os.path.isfile(found / "config.json") else None  # noqa: PTH113 (Path's own may raise)


def holds(path: Path) -> bool:
    """Whether a directory of a model lies in such a cache: what it lacks is downloaded when it is wanted."""
    return path.parent.name == "snapshots" and path.parent.parent.name.startswith("models--")
