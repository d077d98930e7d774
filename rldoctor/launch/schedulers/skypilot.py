"""SkyPilot: the nodes and devices that a task asks for, and the variables that its commands see on the head.

https://docs.skypilot.co/en/latest/reference/yaml-spec.html, .../running-jobs/environment-variables.html"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from rldoctor.formats.yaml.reader import YamlFile
from rldoctor.plan.model import Setting

_ACCELERATOR = re.compile(r"[\w.-]+:(\d{1,6})")


def settings(task: YamlFile) -> dict[str, Setting]:
    """The allocation that a task asks for, as far as it says."""
    found: dict[str, Setting] = {}
    nodes, devices = _nodes(task), _devices(task)
    if nodes is not None:
        line = task.line("num_nodes")
        found["scheduler.nodes"] = Setting(value=nodes, file=task.source.file, line=line, key="num_nodes")
    if devices is not None:
        place = Setting(file=task.source.file, line=task.line("resources.accelerators"), key="accelerators")
        found["scheduler.gpus_per_node"] = replace(place, value=devices)
    if found:
        found["scheduler.name"] = Setting(value="skypilot", file=task.source.file, line=1, key="run")
    return found


def variables(task: YamlFile) -> dict[str, str]:
    """What the task's commands see on its first node: its own ``envs``, and what SkyPilot sets."""
    own = task.get("envs")
    found = {name: str(value) for name, value in own.items() if value is not None} if isinstance(own, dict) else {}
    found["SKYPILOT_NODE_RANK"] = "0"
    found["SKYPILOT_NUM_NODES"] = str(_nodes(task) or 1)
    if (devices := _devices(task)) is not None:
        found["SKYPILOT_NUM_GPUS_PER_NODE"] = str(devices)
    return found


def _nodes(task: YamlFile) -> int | None:
    nodes = task.get("num_nodes")
    return nodes if isinstance(nodes, int) and not isinstance(nodes, bool) and 0 < nodes < 100_000 else None


def _devices(task: YamlFile) -> int | None:
    """GPUs of one node; where several kinds are given to choose from, the number that they agree on."""
    asked = task.get("resources.accelerators")
    counts = {count for one in _listed(asked) if (count := _count(*one)) is not None}
    return counts.pop() if len(counts) == 1 else None


def _listed(asked: Any) -> list[tuple[str, Any]]:
    if isinstance(asked, dict):
        return [(str(name), 1 if count is None else count) for name, count in asked.items()]
    return [(str(one), None) for one in (asked if isinstance(asked, list) else [asked]) if isinstance(one, str)]


def _count(name: str, count: Any) -> int | None:
    if count is None:
        found = _ACCELERATOR.fullmatch(name)
        return int(found[1]) if found is not None else 1
    return count if isinstance(count, int) and not isinstance(count, bool) else None
