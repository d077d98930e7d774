"""Has Ray's own class take the runtime environment of a launch. Arguments: ``environment``."""

from __future__ import annotations

import re
from typing import Any

from report import emit

# What is asked of the files of this machine.
_MACHINE = re.compile(r"is not a valid (?:path|file|URI)|No such file")


def ways(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """One: it is taken as it is."""
    import ray
    from ray.runtime_env import RuntimeEnv

    environment = arguments["environment"]
    emit("package", {"name": "ray", "version": ray.__version__})
    emit("taken", sorted(environment))
    return [("as given", lambda: dict.fromkeys(RuntimeEnv(**environment), ""))]


def of_the_machine(error: BaseException) -> bool:
    """Whether a refusal is about files that are not here."""
    return _MACHINE.search(str(error)) is not None
