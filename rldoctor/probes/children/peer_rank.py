"""One rank of a tensor parallel engine whose ranks a launcher starts: boots its engine object and answers the same
requests as its peers.

Started by torchrun as ``peer_rank.py DIRECTORY``, which holds ``arguments.json`` (see ``peers``) and receives
``rankN.jsonl``. Records: ``place``, ``stage``, ``asked``, ``versions``, ``engine``, ``waiting`` (True while tokens are
made), ``completions`` (rows, see ``running_engine.rows``)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import miniature
import running_engine
from collective_rank import start
from engine import engine_options, versions
from engine_facts import Reader
from report import deadline, emit, stage


def main(arguments: dict[str, Any]) -> None:
    rank = int(os.environ["RANK"])
    emit("place", {"rank": rank, "pid": os.getpid()})
    stage("import")
    import vllm  # noqa: F401

    emit("versions", versions())
    made = miniature.make(Path(arguments["directory"]) / f"miniature{rank}")
    seed = arguments["seeds"][rank]
    given = {**arguments["engine"], **({} if seed is None else {"seed": seed})}
    options = engine_options(made, given)
    emit("asked", options)
    stage("boot")
    name_shared_memory()
    booted = running_engine.boot("llm", options, made)
    emit("engine", Reader(booted.engine).configuration())
    stage("generate")
    emit("waiting", True)
    prompt = booted.prompt(arguments["prompt_tokens"])
    length = {"max_tokens": arguments["max_tokens"], "logprobs": 1}
    with deadline(arguments["patience"]):
        group = booted.generate({"group": (prompt, {"n": arguments["samples"], "temperature": 1.0, **length})})
        emit("completions", group)
        alone = booted.generate({"greedy": (prompt, {"temperature": 0.0, **length})})
    emit("completions", group + alone)
    emit("waiting", False)
    stage("end")


def name_shared_memory() -> None:
    """On the CPU the ranks of an engine share memory that vLLM names after how they meet, which is ``env://`` wherever
    a launcher starts them: engines of two launchers would take each other's (errno 17). The launcher's port is its
    own. (vllm/v1/worker/cpu_worker.py, ``VLLM_DIST_IDENT``, 0.32)"""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.v1.worker import cpu_worker

    begin = cpu_worker.init_worker_distributed_environment

    def begin_named(*given: Any, **named: Any) -> Any:
        os.environ["VLLM_DIST_IDENT"] = os.environ["MASTER_PORT"]
        return begin(*given, **named)

    cpu_worker.init_worker_distributed_environment = begin_named


if __name__ == "__main__":
    start(main)
