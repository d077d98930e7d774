"""The environment variables of a child: the target's own, without secrets, offline and silent towards the outside."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rldoctor.redact import without_secrets

# What a probe runs must neither call home nor fetch anything.
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "WANDB_MODE": "disabled",
    # A native crash anywhere below the child leaves its Python frames in the log.
    "PYTHONFAULTHANDLER": "1",
}

# These describe rldoctor's own process, or its place among the ranks of a launcher: a child is a process of its own.
NOT_THE_CHILDS = frozenset(
    {
        "PYTHONHOME",
        "PYTHONSAFEPATH",
        "PYTHONINSPECT",
        "PYTHONSTARTUP",
        "VIRTUAL_ENV",
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "ROLE_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
    }
)


def child_environment(python: str, base: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The variables for a child of the interpreter at ``python``: those of ``base`` that it may have, and ``more``."""
    environ = {
        name: value
        for name, value in without_secrets(base).items()
        if name not in NOT_THE_CHILDS and not name.startswith("TORCHELASTIC_")
    }
    if "PYTHONPATH" in environ:
        # The child works in a directory of its own, so what was relative would point elsewhere.
        environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, environ["PYTHONPATH"].split(os.pathsep)))
    directory = str(Path(python).parent)
    environ["PATH"] = os.pathsep.join([directory, environ["PATH"]] if environ.get("PATH") else [directory])
    return {**environ, **QUIET, **more}


def with_temporary_files_in(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a child whose temporary files stand in this folder, which is there. What programs share with
    each other below the usual one stays there: Ray's sessions, whose sockets need a short path, and what torch has
    compiled."""
    usual = environ.get("TMPDIR") or tempfile.gettempdir()
    shared = {"RAY_TMPDIR": usual}
    with contextlib.suppress(KeyError, OSError):  # a user without a name
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
        compiled = Path(usual, f"torchinductor_{user}")
        shared["TORCHINDUCTOR_CACHE_DIR"] = str(compiled)
        # Precompiled headers are sought among the temporary files whatever that variable says
        # (torch/_inductor/codecache.py); made anew, they are a third of what a miniature on the CPU costs.
        if compiled.is_dir():
            (folder / compiled.name).symlink_to(compiled.absolute())
    return {**shared, **environ, "TMPDIR": str(folder)}
