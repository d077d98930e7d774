"""Observations as the probes of the level ``devices`` leave them, for the tests of their checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor.api import Case, RolloutPlan
from rldoctor.api.facts import Gpus

NAMES = ("all_reduce", "all_gather", "broadcast")


def call(name: str, state: str = "done", backend: str = "nccl", **more: Any) -> dict[str, Any]:
    reported = {"seconds": 0.001, "wrong": 0, "numbers": 4096} if state == "done" else {}
    return {"backend": backend, "name": name, "state": state, **reported, **more}


def rank(number: int, ended: str = "done", **more: Any) -> dict[str, Any]:
    """A rank on a GPU of its own that finished everything, but for what is given."""
    healthy = {
        "place": {"rank": number, "local_rank": number, "world": 2, "pid": 100 + number},
        "stage": "end",
        "device": {"device": f"cuda:{number}", "uuid": f"GPU-{number}", "name": "H100"},
        "collectives": [call(name) for name in NAMES],
        "exit_code": None if ended == "done" else 1,
        "tail": [],
    }
    return {"rank": number, "ended": ended, **healthy, **more}


def error(message: str, kind: str = "RuntimeError") -> list[dict[str, Any]]:
    return [{"type": kind, "message": message, "frames": [], "link": None}]


def run(*ranks: dict[str, Any], without: tuple[str, ...] = (), ended: str | None = None, **more: Any) -> dict[str, Any]:
    well = all(one["ended"] == "done" for one in ranks)
    end = ended or ("done" if well else "failed")
    return {"without": list(without), "ended": end, "seconds": 3.0, "ranks": list(ranks), "launcher": [], **more}


def case(*runs: dict[str, Any], settings: dict[str, str] | None = None, plan: RolloutPlan | None = None) -> Case:
    """A case in which the collectives probe made these runs."""
    records = {"settings": settings or {}, "runs": list(runs)}
    job = {"ended": "done", "records": records, "log": "/tmp/log.txt", "tail": []}
    return Case(plan=plan, gpus=Gpus(vendor="none"), observations={"collectives": {"ranks": job}})


def placements(base: Case, **rows: dict[str, Any]) -> Case:
    """A case in which the placement probe saw these; ``data_parallel`` stands for the placement ``data parallel``."""
    reported = [
        {"placement": name.replace("_", " "), "architecture": "Qwen2ForCausalLM", "operators": 231, **row}
        for name, row in rows.items()
    ]
    job = {"ended": "done", "records": {"stage": "device map", "placements": reported}, "tail": []}
    return replace(base, observations={"placement": {"forward": job}})


def mixed(*devices: str, package: str = "transformers") -> dict[str, Any]:
    frames = [
        {"file": "/venv/transformers/models/m/modeling_m.py", "line": 77, "function": "forward", "package": package},
        {"file": "/venv/torch/nn/functional.py", "line": 2542, "function": "embedding", "package": "torch"},
    ]
    operands = [[device, [2, 16]] for device in devices]
    module = {"name": "model.layers.1.mlp", "class": "Qwen2MLP"}
    return {"ended": "mixed", "mixed": {"operator": "aten.mul.Tensor", "operands": operands, "module": module,
                                        "frames": frames}}  # fmt: skip
