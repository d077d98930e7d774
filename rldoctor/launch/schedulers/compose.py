"""Docker Compose: the commands that the services of a file run, and the variables that these see.

https://docs.docker.com/reference/compose-file/services/"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from rldoctor.formats.native import Located
from rldoctor.formats.source import Source, line_of
from rldoctor.formats.yaml.reader import YamlFile
from rldoctor.launch.schedulers import images


def commands(tree: YamlFile) -> Iterator[tuple[Source, dict[str, str]]]:
    """What each service runs as shell text, with its own variables; the image decides for those that say nothing."""
    services = tree.get("services")
    for service in services.values() if isinstance(services, Located) else ():
        if not isinstance(service, Located) or not {"command", "entrypoint"} & service.keys():
            continue
        starts = " ".join(images.program(service.get("image")))
        text = f"{_shell(service.get('entrypoint')) or starts} {_shell(service.get('command'))}".strip()
        key = "command" if service.get("command") else "entrypoint"
        line = service.lines[key]
        if isinstance(service[key], str):
            line = line_of(service[key], tree.source, line)
        yield Source(text, tree.source.file, line), _variables(service.get("environment"))


def _shell(given: Any) -> str:
    """A command as shell text. Variables are Compose's, which fills them in; a doubled dollar stands for itself."""
    if isinstance(given, list):
        words = [str(word) for word in given]
        given = " ".join(f'"{word}"' if "$" in word and '"' not in word else shlex.quote(word) for word in words)
    return given.replace("$$", "$") if isinstance(given, str) else ""


def _variables(given: Any) -> dict[str, str]:
    rows = given.items() if isinstance(given, dict) else [str(row).partition("=")[::2] for row in given or ()]
    return {str(name): str(value) for name, value in rows if value is not None}
