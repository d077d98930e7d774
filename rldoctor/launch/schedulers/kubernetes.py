"""Kubernetes: the pods and devices that a manifest asks for, and the commands that its containers run.

Jobs of Kubernetes, Kubeflow (PyTorchJob, MPIJob, TrainJob), KubeRay (RayCluster, RayJob, RayService), JobSet, Volcano
and LeaderWorkerSet; https://www.kubeflow.org/docs/components/trainer/, https://docs.ray.io/en/latest/cluster/kubernetes/"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.native import Located
from rldoctor.formats.source import Files, Source, line_of
from rldoctor.formats.yaml.reader import read_yaml
from rldoctor.launch.schedulers import images
from rldoctor.plan.model import Setting
from rldoctor.plan.model import Source as From
from rldoctor.records import dataclass

_NAMED = tuple(re.compile(rf"(?m)^{name}:[ \t]*\S") for name in ("apiVersion", "kind"))
GPU = "nvidia.com/gpu"
MAX_DEPTH = 30
_SHELLS = re.compile(r"(?:/usr)?(?:/bin/)?(?:ba|z|da)?sh")


@dataclass(frozen=True)
class _Pods:
    """Pods that are alike: how many, their template, the setting to cite; ``leads`` are those that run a head or a
    launcher and need no device of their own."""

    count: int | None
    template: dict[str, Any]
    line: int
    key: str
    leads: bool = False
    gpus: int | None = None


@dataclass
class Job:
    """One manifest: its allocation as settings, the scripts that its pods run, and the variables that these see."""

    settings: dict[str, Setting]
    scripts: list[Source] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def is_manifest(text: str) -> bool:
    """Whether a YAML text looks like a manifest of Kubernetes."""
    return all(name.search(text, 0, 200_000) for name in _NAMED)


def is_of_chart(source: Source, files: Files) -> bool:
    """Whether a file is a Helm chart's values or one of its templates: what runs is what Helm makes of them."""
    chart, folder = files.find("Chart.yaml"), Path(source.file).resolve().parent
    return chart is not None and chart.resolve().parent == (folder.parent if folder.name == "templates" else folder)


def jobs(documents: list[Any], source: Source) -> Iterator[Job]:
    """The jobs that a file of manifests describes."""
    for document in documents:
        kind = document.get("kind") if isinstance(document, Located) else None
        spec = document.get("spec") if isinstance(document, Located) else None
        if isinstance(spec, Located) and kind in _KINDS:
            pods = [group for group in _KINDS[kind](spec) if group is not None]
            if pods:
                yield _job(str(kind), spec, pods, source)


def files(documents: list[Any], source: Source) -> dict[str, Source]:
    """The files that config maps bring, by the names under which containers find them."""
    found: dict[str, Source] = {}
    for document in documents:
        data = document.get("data") if isinstance(document, Located) and document.get("kind") == "ConfigMap" else None
        for name, text in data.items() if isinstance(data, Located) else ():
            if isinstance(text, str) and isinstance(data, Located):
                found[name] = Source(text, source.file, line_of(text, source, data.lines[name]))
    mounts = {path.rstrip("/") for path in _mounts(documents, 0)}
    return {**found, **{f"{path}/{name}": text for path in mounts for name, text in found.items()}}


def _mounts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, list | dict) and depth < MAX_DEPTH:
        path = value.get("mountPath") if isinstance(value, dict) else None
        if isinstance(path, str):
            yield path
        for part in value.values() if isinstance(value, dict) else value:
            yield from _mounts(part, depth + 1)


def _job(kind: str, spec: Located, pods: list[_Pods], source: Source) -> Job:
    job = Job({"scheduler.name": Setting(value="kubernetes", file=source.file, line=pods[0].line, key=kind)})
    ray = kind.startswith("Ray")
    devices = [(group, _devices(group)) for group in pods]
    counted = devices if ray else [(g, n) for g, n in devices if not g.leads]
    named = any(number is not None for _, number in devices)
    first = max(counted, key=lambda pair: pair[0].count or 0, default=devices[0])[0]
    place = Setting(file=source.file, line=first.line, key=first.key)
    if all(group.count is not None for group, _ in counted):
        shapes = [number or 0 for group, number in counted for _ in range(group.count or 0)]
        how = "the pods of the job"
        derived = replace(place, source=From.DERIVED, how=how) if len(counted) > 1 else place
        job.settings["scheduler.nodes"] = replace(derived, value=len(shapes))
        if named and len(set(shapes)) > 1:
            job.settings["scheduler.shapes"] = replace(place, value=shapes, source=From.DERIVED, how="devices of each")
        if named:
            total = replace(place, source=From.DERIVED, how="devices of all pods")
            job.settings["scheduler.gpus"] = replace(total, value=sum(shapes))
    slots, nodes = _whole(spec.get("slotsPerWorker")), job.settings.get("scheduler.nodes")
    if kind == "MPIJob" and slots is not None and nodes is not None:
        line, how = spec.lines["slotsPerWorker"], f"{slots} slots of each worker"
        job.settings["scheduler.slots"] = Setting(
            value=slots * nodes.value, source=From.DERIVED, how=how, file=source.file, line=line, key="slotsPerWorker"
        )
    each = {number for _, number in counted if number}
    if len(each) == 1:
        line = next(_line_of_devices(group) or group.line for group, number in counted if number)
        of_a_pod = Setting(value=each.pop(), file=source.file, line=line, key=GPU)
        job.settings.update({"scheduler.gpus_per_node": of_a_pod, "scheduler.visible": of_a_pod})
    job.variables.update(_variables(kind, spec, job.settings))
    job.scripts += _scripts(spec, pods, source, job.variables)
    return job


def _variables(kind: str, spec: Located, settings: dict[str, Setting]) -> dict[str, str]:
    """What the operator sets in each pod, as far as it is the same in all."""
    nodes = settings.get("scheduler.nodes")
    if kind != "PyTorchJob" or nodes is None:
        return {}
    found = {"PET_NNODES": str(nodes.value)}
    if "nprocPerNode" not in spec:
        found["WORLD_SIZE"] = str(nodes.value)
    return found


def _scripts(spec: Located, pods: list[_Pods], source: Source, variables: dict[str, str]) -> list[Source]:
    found: dict[str, Source] = {}
    entry = spec.get("entrypoint")
    environment = spec.get("runtimeEnvYAML")
    if isinstance(environment, str):
        variables.update(_runtime_environment(Source(environment, source.file)))
    if isinstance(entry, str):  # RayJob: the driver's command
        found[entry] = Source(entry, source.file, spec.lines["entrypoint"])
    for group in pods:
        for container in _containers(group.template):
            for one in container.get("env") or ():
                if isinstance(one, dict) and isinstance(one.get("value"), str):
                    variables.setdefault(str(one.get("name")), one["value"])
            script = _script(container, source)
            if script is not None:
                found.setdefault(script.text, script)
    return list(found.values())


def _runtime_environment(source: Source) -> dict[str, str]:
    """The variables of a Ray runtime environment."""
    try:
        variables = read_yaml(source).get("env_vars")
    except InputError:
        return {}
    return {name: str(value) for name, value in variables.items()} if isinstance(variables, dict) else {}


def _script(container: dict[str, Any], source: Source) -> Source | None:
    """What a container runs as shell text; None where the image decides."""
    parts = [(key, part) for key in ("command", "args") for part in container.get(key) or () if isinstance(part, str)]
    if not parts or not isinstance(container, Located):
        return None
    starts = () if container.get("command") else images.program(container.get("image"))
    words = [*starts, *(part for _, part in parts)]
    if len(words) > 2 and _SHELLS.fullmatch(words[0]) and re.fullmatch(r"-[a-z]*c", words[1]):
        key, text = parts[2]
        # A block of several lines begins below its key.
        return Source(text, source.file, line_of(text, source, container.lines[key]))
    return Source(shlex.join(words), source.file, container.lines[parts[0][0]])


def _devices(group: _Pods) -> int | None:
    """GPUs of one of these pods; None where no container names any."""
    if group.gpus is not None:
        return group.gpus
    found = [number for container in _containers(group.template) if (number := _limit(container)) is not None]
    return sum(found) if found else None


def _limit(container: dict[str, Any]) -> int | None:
    resources = container.get("resources")
    for part in ("limits", "requests"):
        amounts = resources.get(part) if isinstance(resources, dict) else None
        number = _whole(amounts.get(GPU)) if isinstance(amounts, dict) else None
        if number is not None:
            return number
    return None


def _line_of_devices(group: _Pods) -> int | None:
    for container in _containers(group.template):
        resources = container.get("resources")
        for part in ("limits", "requests"):
            amounts = resources.get(part) if isinstance(resources, dict) else None
            if isinstance(amounts, Located) and GPU in amounts:
                return amounts.lines[GPU]
    return None


def _containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    spec = template.get("spec")
    listed = spec.get("containers") if isinstance(spec, dict) else None
    return [one for one in listed or () if isinstance(one, dict)] if isinstance(listed, list) else []


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 100_000 else None


def _group(
    holder: Any, count: str, default: int | None = 1, leads: bool = False, times: int | None = 1
) -> _Pods | None:
    """The pods of a part of a manifest with its own ``template`` and, under ``count``, their number."""
    if not isinstance(holder, Located) or not isinstance(holder.get("template"), dict):
        return None
    number = _whole(holder.get(count)) if count in holder else default
    total = number * times if number is not None and times is not None else None
    line = holder.lines.get(count) or holder.lines["template"]
    return _Pods(total, holder["template"], line, count, leads)


def _replicas(spec: Located) -> Iterator[_Pods | None]:
    for section in ("pytorchReplicaSpecs", "mpiReplicaSpecs"):
        roles = spec.get(section)
        for role, holder in roles.items() if isinstance(roles, Located) else ():
            yield _group(holder, "replicas", leads=role == "Launcher")


def _ray(spec: Located) -> Iterator[_Pods | None]:
    cluster = spec.get("rayClusterSpec") or spec.get("rayClusterConfig") or spec
    if not isinstance(cluster, Located):
        return
    grows = bool(cluster.get("enableInTreeAutoscaling"))
    workers = cluster.get("workerGroupSpecs")
    for holder in [cluster.get("headGroupSpec"), *(workers if isinstance(workers, list) else ())]:
        hosts = _whole(holder.get("numOfHosts", 1)) if isinstance(holder, dict) else 1
        group = _group(holder, "maxReplicas" if grows else "replicas", default=None if grows else 1, times=hosts)
        if group is None:
            continue
        if holder is cluster.get("headGroupSpec"):
            group = _Pods(1, group.template, group.line, "headGroupSpec", leads=True)
        start = holder.get("rayStartParams")
        reported = _whole(start.get("num-gpus")) if isinstance(start, dict) else None
        yield _Pods(group.count, group.template, group.line, group.key, group.leads, reported)


def _job_pods(spec: Located) -> Iterator[_Pods | None]:
    """``batch/v1`` counts in parallelism, Volcano in tasks."""
    tasks = spec.get("tasks")
    if isinstance(tasks, list):
        for task in tasks:
            yield _group(task, "replicas")
    else:
        yield _group(spec, "parallelism")


def _jobset(spec: Located) -> Iterator[_Pods | None]:
    listed = spec.get("replicatedJobs")
    for holder in listed if isinstance(listed, list) else ():
        template = holder.get("template") if isinstance(holder, dict) else None
        inner = template.get("spec") if isinstance(template, dict) else None
        yield _group(inner, "parallelism", times=_whole(holder.get("replicas", 1)))


def _leader_worker(spec: Located) -> Iterator[_Pods | None]:
    holder = spec.get("leaderWorkerTemplate")
    if not isinstance(holder, Located) or not isinstance(holder.get("workerTemplate"), dict):
        return
    size, leader = _whole(holder.get("size", 1)), holder.get("leaderTemplate")
    line = holder.lines.get("size") or holder.lines["workerTemplate"]
    if isinstance(leader, dict):  # one of them
        size = size - 1 if size else size
        yield _Pods(1, leader, holder.lines["leaderTemplate"], "leaderTemplate")
    yield _Pods(size, holder["workerTemplate"], line, "size")


def _train_job(spec: Located) -> Iterator[_Pods | None]:
    trainer = spec.get("trainer")
    if isinstance(trainer, Located):
        line = trainer.lines.get("numNodes") or spec.lines["trainer"]
        resources = trainer.get("resourcesPerNode")
        container = Located({**trainer, "resources": resources}, {**trainer.lines, "resources": line})
        yield _Pods(_whole(trainer.get("numNodes", 1)), {"spec": {"containers": [container]}}, line, "numNodes")


def _served(spec: Located) -> Iterator[_Pods | None]:
    yield _group(spec, "replicas")


def _pod(spec: Located) -> Iterator[_Pods | None]:
    yield _Pods(1, {"spec": spec}, spec.lines.get("containers", 1), "Pod")


_KINDS = {
    "PyTorchJob": _replicas,
    "MPIJob": _replicas,
    "RayCluster": _ray,
    "RayJob": _ray,
    "RayService": _ray,
    "Job": _job_pods,
    "JobSet": _jobset,
    "LeaderWorkerSet": _leader_worker,
    "TrainJob": _train_job,
    "Pod": _pod,
    "Deployment": _served,
    "StatefulSet": _served,
}
