"""dstack: the nodes and devices that a task asks for, its commands, and the variables that these see on the first node.

https://dstack.ai/docs/reference/dstack.yml/task/, https://dstack.ai/docs/concepts/tasks/#distributed-tasks"""

from __future__ import annotations

import re
from typing import Any

from rldoctor.formats.source import Source
from rldoctor.formats.yaml.reader import YamlFile
from rldoctor.plan.model import Setting

_MEMORY = re.compile(r"[\d.]*(?:GB)?\.\.[\d.]*GB|[\d.]+GB(?:\.\.)?", re.IGNORECASE)
# Of neither the number is known: a range, and a TPU's chips.
_OPEN = re.compile(r"\d*\.\.\d*|v\d\w*-\d+", re.IGNORECASE)


def script(task: YamlFile) -> Source | None:
    """What a task runs, as one script; None where the file is no task of dstack."""
    commands = task.get("commands")
    if task.get("type") != "task" or not isinstance(commands, list) or not all(isinstance(c, str) for c in commands):
        return None
    # A command of several lines begins behind its dash.
    texts = (f"\n{one.rstrip()}" if "\n" in one else one for one in commands)
    return Source("\n".join(texts) + "\n", task.source.file, (task.line("commands") or 0) + 1)


def settings(task: YamlFile) -> dict[str, Setting]:
    """The allocation that a task asks for, as far as it says."""
    file = task.source.file
    found = {"scheduler.name": Setting(value="dstack", file=file, line=task.line("type"), key="type")}
    line = task.line("nodes") or task.line("type")
    found["scheduler.nodes"] = Setting(value=_nodes(task), file=file, line=line, key="nodes")
    devices = _devices(task.get("resources.gpu"))
    if devices is not None:
        line = task.line("resources.gpu")
        found["scheduler.gpus_per_node"] = Setting(value=devices, file=file, line=line, key="gpu")
    return found


def variables(task: YamlFile) -> dict[str, str]:
    """What the task's commands see on its first node: its own ``env``, and what dstack sets."""
    own = task.get("env")
    given = [one.partition("=") for one in own if isinstance(one, str)] if isinstance(own, list) else []
    found = {name: value for name, equals, value in given if equals}
    if isinstance(own, dict):
        found.update({str(name): str(value) for name, value in own.items() if value is not None})
    nodes, devices = _nodes(task), _devices(task.get("resources.gpu"))
    found.update({"DSTACK_NODE_RANK": "0", "DSTACK_NODES_NUM": str(nodes)})
    if devices is not None:
        found.update({"DSTACK_GPUS_PER_NODE": str(devices), "DSTACK_GPUS_NUM": str(nodes * devices)})
    return found


def _nodes(task: YamlFile) -> int:
    nodes = task.get("nodes")
    return nodes if isinstance(nodes, int) and not isinstance(nodes, bool) and 0 < nodes < 100_000 else 1


def _devices(asked: Any) -> int | None:
    """GPUs of one node: of ``8``, ``H100:8``, ``A100:80GB:4`` or a mapping; None for a range (``1..8``), which it is
    in newer releases where no number is said (one or more)."""
    if isinstance(asked, dict):
        asked = asked.get("count")
    if not isinstance(asked, str | int) or isinstance(asked, bool):
        return None
    parts = [part for part in str(asked).split(":") if not _MEMORY.fullmatch(part)]
    if any(_OPEN.fullmatch(part) for part in parts):
        return None
    return next((int(part) for part in reversed(parts) if part.isdecimal() and len(part) < 6), None)
