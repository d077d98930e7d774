"""Sequences that end exactly at the engine's longest one, the trainer's model at the same lengths, and prompts that
fill the engine's context and go beyond it.

Arguments: ``tail`` (tokens generated up to the limit). Records, in order: ``limit``, ``asking`` (the request that is
being asked), ``engine_side`` (one entry per request: ``prompt_tokens``, ``max_tokens``, ``ended`` (``answered`` or
``refused``), ``token_ids``, ``finish_reason``, ``logprobs``, ``exceptions``), ``trainer_side`` (see
``trainer_passes.Passes``, or ``unavailable`` says why there is none; before the requests that may end the engine),
``reach``. An exception of a request that fits
leaves."""

from __future__ import annotations

import time
from typing import Any

from report import chain
from running_engine import RunningEngine
from trainer import TrainerError
from trainer_passes import Passes

SHORT = 24
# More than there is room for: the engine has to end the answer at the limit.
BEYOND = 8


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    began = time.monotonic()
    limit, tail = running.limit, arguments["tail"]
    running.record("limit", limit)
    engine = EngineSide(running)
    short = min(SHORT, limit - tail)
    engine.ask("short", short, tail)
    engine.ask("to the limit", limit - tail, tail + BEYOND)
    engine.ask("last token", limit - 1, 1 + BEYOND)
    running.record("reach", engine.reach(limit, began))
    train(running, engine, limit)
    # Some engines do not survive these.
    engine.ask("full prompt", limit, 1, may_be_refused=True)
    engine.ask("prompt beyond", limit + 1, 1, may_be_refused=True)
    engine.ask("short again", short, tail)
    running.record("reach", engine.reach(limit, began))


class EngineSide:
    """Asks one request after another and records what became of each."""

    def __init__(self, running: RunningEngine) -> None:
        self.running = running
        self.reported: dict[str, dict[str, Any]] = {}
        self.prompts: dict[str, list[int]] = {}

    def ask(self, name: str, length: int, most: int, may_be_refused: bool = False) -> None:
        self.running.record("asking", name)
        # Nothing of it may come out of the prefix cache: an equal prompt is asked for twice on purpose only.
        prompt = self.prompts[name] = self.running.prompt(length, salt=length)
        row: dict[str, Any] = {"prompt_tokens": length, "max_tokens": most, "ended": "answered"}
        self.reported[name] = row
        given = {"temperature": 0.0, "max_tokens": most, "logprobs": 1, "ignore_eos": True}
        try:
            answer = self.running.generate({name: (prompt, given)})
            row.update({key: answer[0][key] for key in ("token_ids", "finish_reason", "logprobs")} if answer else {})
        except Exception as error:
            row.update(ended="refused", exceptions=chain(error))
            if not may_be_refused:
                raise
        finally:
            self.running.record("engine_side", self.reported)

    def sequence(self, name: str) -> list[int]:
        """A prompt with its answer."""
        return [*self.prompts[name], *self.reported[name].get("token_ids", ())]

    def reach(self, limit: int, began: float) -> dict[str, Any]:
        return {
            "requests": len(self.reported),
            "sampled_tokens": sum(len(row.get("token_ids", ())) for row in self.reported.values()),
            "longest": limit,
            "seconds": round(time.monotonic() - began, 3),
        }


def train(running: RunningEngine, engine: EngineSide, limit: int) -> None:
    """The trainer's model at the lengths that the engine was asked for."""
    try:
        passes = Passes(running)
    except TrainerError as why:
        running.record("trainer_side", {"unavailable": str(why)})
        return
    # Of exactly that length, wherever the engine ended its answer.
    short, full = engine.sequence("short"), [*engine.sequence("to the limit"), *running.prompt(limit)][:limit]
    if passes.forward("short", short):
        passes.forward("one short of the limit", full[: limit - 1])
        passes.forward("at the limit", full)
        passes.forward("padded to the limit", full, beside=short)
        passes.generate("generate to the limit", full[: limit - 3], 3)
        passes.forward("one beyond", [*full, full[0]], beyond=True)
    if all(one["ended"] == "done" for one in passes.attempts if not one["beyond"]):
        for name in ("short", "to the limit"):
            row = engine.reported[name]
            passes.compare(name, engine.prompts[name], row.get("token_ids", ()), row.get("logprobs", []))
    running.record("trainer_side", passes.reported())
