"""What the folder that Ray packs for a job comes to, by Ray's own rules of what it leaves out.

Ray stores the files in an archive without compressing them, so their sizes are its size. Arguments: ``folder`` and
``excludes``. Records: ``version``, ``folder``, ``limit`` (bytes that Ray takes), ``files``, ``bytes``, ``largest``
(what stands in the folder itself, with its bytes)."""

from __future__ import annotations

import inspect
import logging
import os
from pathlib import Path
from typing import Any

from report import emit, run

SHOWN = 5


def main(arguments: dict[str, Any]) -> None:
    import ray
    from ray._private.runtime_env import packaging

    folder = Path(arguments["folder"]).absolute()
    emit("version", ray.__version__)
    emit("folder", str(folder))
    emit("limit", packaging.GCS_STORAGE_MAX_SIZE)
    sizes: dict[str, list[int]] = {}

    def met(path: Path) -> None:
        if path.is_file():
            sizes.setdefault(path.relative_to(folder).parts[0], []).append(path.stat().st_size)

    excluded = [packaging._get_excludes(folder, [*_usual(), *arguments["excludes"]])]
    packaging._dir_travel(folder, excluded, met, **_asked(packaging._dir_travel))
    emit("files", sum(map(len, sizes.values())))
    emit("bytes", sum(map(sum, sizes.values())))
    largest = sorted(((sum(parts), name) for name, parts in sizes.items()), reverse=True)[:SHOWN]
    emit("largest", [{"name": name, "bytes": size} for size, name in largest])


def _usual() -> list[str]:
    """What this release leaves out unasked."""
    from ray._private import ray_constants

    usual = getattr(ray_constants, "get_runtime_env_default_excludes", list)
    return list(usual())


def _asked(travel: Any) -> dict[str, Any]:
    """Whether .gitignore counts, where this release lets one say so; and nobody to tell of each file."""
    quiet = logging.getLogger("rldoctor")
    quiet.disabled = True
    given = {"logger": quiet, "include_gitignore": os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "0") != "1"}
    return {name: value for name, value in given.items() if name in inspect.signature(travel).parameters}


if __name__ == "__main__":
    run(main)
