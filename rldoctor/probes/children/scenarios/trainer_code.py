"""Sampled tokens, and their log-probabilities from the trainer's own code: a program of the launch's framework, in a
process of its own.

Arguments: ``trainer`` (a module of ``trainers``), ``title`` (the framework), ``limit`` (seconds for the program),
``temperature`` (at which the trainer evaluates), ``packing`` and ``fused`` (see ``asked.py``), ``prompt`` and
``response`` (tokens, the longest). Records: ``trainer`` (see ``Trainer.facts``), ``own`` (``title``, ``temperature``,
``what`` was called, of which release and how), ``rows`` (``token_ids``, and of them ``transformers`` at that
temperature and ``own``), or ``unread`` says why there are none; ``reach``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from programs import ended
from running_engine import RunningEngine
from trainer import Trainer, TrainerError

PROGRAM = Path(__file__).parents[1] / "ask_trainer.py"
REQUESTS, SHORTEST = 4, 16
RANKS = ("MASTER_", "RANK", "WORLD_", "LOCAL_")
# Of what the program wrote before it failed.
LAST = 400


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    try:
        # As the program does: in float32, on the CPU.
        trainer = Trainer(running, apart=True, dtype=torch.float32)
    except TrainerError as why:
        running.record("unread", {"rows": str(why)})
        return
    running.record("trainer", trainer.facts())
    longest = max(arguments["prompt"], SHORTEST)
    lengths = [SHORTEST + (longest - SHORTEST) * n // (REQUESTS - 1) for n in range(REQUESTS)]
    prompts = [running.prompt(length, salt=40 + n) for n, length in enumerate(lengths)]
    temperature = arguments["temperature"]
    asked = {
        # Some shorter than others, so that completions are padded, too.
        str(n): (prompt, {"temperature": temperature, "max_tokens": max(arguments["response"] - n, 1)})
        for n, prompt in enumerate(prompts)
    }
    given = {name: (prompt, {**more, "logprobs": 1, "ignore_eos": True}) for name, (prompt, more) in asked.items()}
    sampled = [row["token_ids"] for row in running.generate(given)]
    told = _own(running, arguments, [prompts, sampled])
    if "failed" in told:
        running.record("unread", {"rows": f"{arguments['title']}'s own function could not be asked: {told['failed']}"})
        return
    running.record("own", {"title": arguments["title"], "temperature": temperature, "what": told["what"]})
    rows = []
    for prompt, tokens, own in zip(prompts, sampled, told["log_probabilities"]):  # noqa: B905 - Python 3.9
        (plain,) = trainer.log_probabilities(prompt, tokens, [temperature])
        rows.append({"token_ids": tokens, "transformers": plain, "own": own})
    running.record("rows", rows)
    running.record("reach", {"requests": len(rows), "compared_tokens": sum(map(len, sampled)), "longest": max(lengths)})


def _own(running: RunningEngine, arguments: dict[str, Any], sequences: list[list[list[int]]]) -> dict[str, Any]:
    """What the program tells, or how it ``failed``."""
    folder = Path("trainer_code").resolve()
    folder.mkdir(exist_ok=True)
    asked = {
        "model": str(Path(running.made["path"]).resolve()),
        "prompts": sequences[0],
        "completions": sequences[1],
        **{name: arguments[name] for name in ("temperature", "packing", "fused")},
        "answer": str(folder / "answer.json"),
    }
    # The trainer is on the CPU: the engine has the device. The ranks that vLLM told the environment are not its own.
    hidden = {"CUDA_VISIBLE_DEVICES": "", "WANDB_DISABLED": "true", "HF_HUB_OFFLINE": "1"}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(RANKS)}
    code, said = ended(
        [sys.executable, str(PROGRAM), arguments["trainer"]],
        json.dumps(asked),
        {**kept, **hidden},
        folder,
        arguments["limit"],
    )
    answer = folder / "answer.json"
    if code is None:
        return {"failed": f"no answer within {arguments['limit']:.0f} s"}
    if code or not answer.is_file():
        last = said.strip().splitlines()[-1:] or [f"exit code {code}"]
        return {"failed": last[0][:LAST]}
    return dict(json.loads(answer.read_text()))
