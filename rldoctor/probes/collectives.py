"""The ``collectives`` probe: all-reduce, all-gather and broadcast between ranks on this host, or on all nodes on
which a launcher runs this same command, through the real torchrun and with the launch's own communication settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.model import Level
from rldoctor.probes.feasible import free_gpus, planned_ranks, require_import
from rldoctor.probes.nodes import nodes_at_once

# What NCCL needs to connect the eight GPUs of a node, several times over; a healthy collective takes milliseconds.
COLLECTIVE_SECONDS = 20.0
SECONDS = 240.0
MOST_RANKS = 8
CPU_RANKS = 2
# Between the first and the last node's coming: facts are collected on each before, from drives that they share.
PATIENCE = 60.0
# Variables of a launch that decide how its ranks reach each other.
COMMUNICATION = ("NCCL_", "GLOO_", "TP_SOCKET_", "TORCH_NCCL_", "TORCH_GLOO_", "UCX_", "FI_")


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    require_import(case, "torch")
    plan = case.plan
    ranks = planned_ranks(plan) if plan is not None else None
    nodes = nodes_at_once(case.environment or {})
    if nodes is not None and nodes.local:
        raise NotApplicable("the first process of this node starts its ranks")
    asked = nodes is not None or (request.level or Level.STATIC) >= Level.DEVICES
    if ranks == 1 and not asked:
        raise NotApplicable("the launch starts one rank")
    gpus = free_gpus(case, request)[: min(ranks if ranks and ranks > 1 else MOST_RANKS, MOST_RANKS)]
    environ = {} if plan is None else _settings(case)
    arguments: dict[str, Any] = {
        "seconds": COLLECTIVE_SECONDS,
        "time_limit": request.time_limit or SECONDS,
        "ranks": CPU_RANKS,
        "devices": [],
        "backends": ["gloo"],
        "nodes": {**asdict(nodes), "patience": PATIENCE} if nodes is not None else None,
    }
    if len(gpus) > (1 if nodes is None else 0):
        # The same GPU may be asked for twice: two ranks then share it.
        shown = list(dict.fromkeys(gpu.index for gpu in gpus))
        environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=",".join(map(str, shown)))
        devices = [shown.index(gpu.index) for gpu in gpus]
        # Engines and DeepSpeed have gloo groups beside those of NCCL.
        arguments.update(ranks=len(gpus), devices=devices, backends=["nccl", "gloo"])
    elif (ranks or 1) > 1 or asked:
        environ["CUDA_VISIBLE_DEVICES"] = ""
    else:
        raise NotApplicable("there are no two free GPUs here, and no launch of several ranks")
    return {"ranks": Job(arguments=arguments, environ=environ, time_limit=SECONDS)}


def _settings(case: Case) -> dict[str, str]:
    """The communication settings of the launch itself; those of the shell are in the child's environment anyway."""
    settings = case.plan.settings if case.plan is not None else {}
    named = {name[4:]: setting.value for name, setting in settings.items() if name.startswith("env.")}
    return {n: v for n, v in named.items() if n.startswith(COMMUNICATION) and isinstance(v, str)}


collectives = Probe(
    name="collectives",
    level=Level.DEVICES,
    child=Path(__file__).parent / "children" / "collectives.py",
    jobs=_jobs,
    needs=("packages.torch",),
    reads=("gpus", "plan", "environment"),
    seconds=5.0,
)
