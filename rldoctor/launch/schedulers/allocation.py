"""What an allocation comes to: nodes, devices and tasks from each other, and what the processes of a step see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rldoctor.plan.model import Setting, Source


def settled(process: Mapping[str, Setting]) -> dict[str, Setting]:
    """A launch's settings with what its allocation implies; what was implied before is reckoned anew."""
    name = process.get("scheduler.name")
    if name is not None and name.value == "kubernetes":  # its manifest says it all
        return dict(process)
    found = _Reckoning(process)
    if not found.asked:
        return dict(process)
    nodes, tasks, each = (found.value(name) for name in ("nodes", "tasks", "tasks_per_node"))
    if tasks and each:
        found.derive("nodes", -(-tasks // each), f"{tasks} tasks, {each} on each node", "tasks_per_node", "tasks")
    nodes = found.value("nodes")
    if nodes and each:
        found.derive("tasks", nodes * each, f"{each} tasks on each of {nodes} nodes", "tasks_per_node")
    _devices(found)
    if process.get("scheduler.step") is not None:
        _step(found)
        _as_launcher(found)
    elif found.value("gpus_per_node") is not None:
        count = found.value("gpus_per_node")
        found.derive("visible", count, f"{count} on each node", "gpus_per_node")
    return found.settings


def _as_launcher(found: _Reckoning) -> None:
    """srun and mpirun start the program itself: their tasks are the processes of the run."""
    launcher = found.settings.get("process.launcher")
    if launcher is None or launcher.value not in ("srun", "mpirun"):
        return
    nodes, tasks = found.value("step_nodes"), found.value("step_tasks")
    if nodes and tasks and tasks % nodes == 0:
        how = f"{tasks} tasks on {nodes} nodes"
        found.derive("step_tasks_per_node", tasks // nodes, how, "step_tasks", "tasks_per_node")
    options = {"process.nnodes": "step_nodes", "process.nproc": "step_tasks_per_node"}
    if nodes is None and launcher.value == "mpirun":
        options = {"process.total": "step_tasks"}
    for option, name in options.items():
        given = found.settings.get(f"scheduler.{name}")
        if given is not None:
            found.settings.setdefault(option, given)


def _devices(found: _Reckoning) -> None:
    nodes, each, total = (found.value(name) for name in ("nodes", "tasks_per_node", "gpus"))
    of_a_task = found.value("gpus_per_task")
    if of_a_task and each:
        how = f"{of_a_task} for each of {each} tasks on a node"
        found.derive("gpus_per_node", of_a_task * each, how, "gpus_per_task")
    elif of_a_task and nodes == 1 and (tasks := found.value("tasks")):
        found.derive("gpus_per_node", of_a_task * tasks, f"{of_a_task} for each of {tasks} tasks", "gpus_per_task")
    elif total and nodes == 1:
        found.derive("gpus_per_node", total, "all of them on one node", "gpus")
    on_a_node = found.value("gpus_per_node")
    if on_a_node and nodes:
        found.derive("gpus", on_a_node * nodes, f"{on_a_node} on each of {nodes} nodes", "gpus_per_node", "nodes")
    elif of_a_task and (tasks := found.value("tasks")):
        found.derive("gpus", of_a_task * tasks, f"{of_a_task} for each of {tasks} tasks", "gpus_per_task")


def _step(found: _Reckoning) -> None:
    """What srun starts: without numbers of its own the tasks of the job, or one on each node."""
    given, each, tasks = (found.value(name) for name in ("step_nodes", "step_tasks_per_node", "step_tasks"))
    of_a_task = found.value("step_gpus_per_task") or found.value("gpus_per_task")
    nodes = given or found.value("nodes")
    if tasks and not given and nodes:
        nodes = min(tasks, nodes)
    if nodes:
        found.derive("step_nodes", nodes, "the nodes of the job", "nodes")
    if each and nodes:
        found.derive("step_tasks", each * nodes, f"{each} on each of {nodes} nodes", "step_tasks_per_node")
    elif not given and found.value("tasks"):
        found.derive("step_tasks", found.value("tasks"), "the tasks of the job", "tasks", "tasks_per_node")
    elif nodes and not of_a_task and not found.knows("tasks", "tasks_per_node"):
        found.derive("step_tasks", nodes, "one on each node", "step_nodes")
    if of_a_task:
        found.derive("visible", of_a_task, f"{of_a_task} for each task", "step_gpus_per_task", "gpus_per_task")
    elif (count := found.value("step_gpus_per_node") or found.value("gpus_per_node")) is not None:
        found.derive("visible", count, f"{count} on each node", "step_gpus_per_node", "gpus_per_node")


def _implied(name: str, setting: Setting) -> bool:
    group, _, rest = name.partition(".")
    return group == "scheduler" and setting.source is Source.DERIVED and rest != "first_node"


class _Reckoning:
    """The ``scheduler.*`` settings of a launch while they are completed."""

    def __init__(self, process: Mapping[str, Setting]) -> None:
        self.settings = {name: setting for name, setting in process.items() if not _implied(name, setting)}
        self.asked = any(name.startswith("scheduler.") for name in self.settings)

    def value(self, name: str) -> Any:
        setting = self.settings.get(f"scheduler.{name}")
        return None if setting is None else setting.value

    def knows(self, *names: str) -> bool:
        """Whether anything was asked for under one of the names, readable or not."""
        return any(f"scheduler.{name}" in self.settings for name in names)

    def derive(self, name: str, value: int, how: str, *inputs: str) -> None:
        if self.knows(name):
            return
        cited = next((s for part in inputs if (s := self.settings.get(f"scheduler.{part}")) is not None), Setting())
        self.settings[f"scheduler.{name}"] = replace(cited, value=value, source=Source.DERIVED, how=how, raw=None)
