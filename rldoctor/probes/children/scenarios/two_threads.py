"""Two threads in ``LLM.generate()`` of one engine, as training and an asynchronous evaluation are.

Arguments: ``prompt``, ``response`` (tokens), ``turns`` (whether a lock lets only one of them in). Records: ``turns``;
``alone``, the answers to each thread's prompts when it has the engine for itself; ``calls``, a row per call of
``generate`` (:func:`batches.row`, and its ``thread``); ``stuck``, where threads stand that never return; ``reach``."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from typing import Any

from batches import Batch, row, take
from report import chain
from running_engine import RunningEngine

THREADS = ("training", "evaluation")
ROUNDS = 4
# Nothing came out of the engine for so long: whoever still waits waits for ever.
SILENCE = 20.0
PULSE = 0.1


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    began = time.monotonic()
    running.record("turns", arguments["turns"])
    batches = {
        name: Batch.of(running, arguments["prompt"], arguments["response"], salt=100 * number)
        for number, name in enumerate(THREADS)
    }
    running.record("alone", {name: batch.alone() for name, batch in batches.items()})
    lock: Any = threading.Lock() if arguments["turns"] else contextlib.nullcontext()
    pair = Pair(batches, lock)
    pair.play()
    running.record("calls", pair.calls)
    running.record("stuck", pair.stuck())
    running.record(
        "reach",
        {
            "requests": sum(call["asked"] for call in pair.calls),
            "sampled_tokens": sum(len(tokens) for call in pair.calls for tokens in call["token_ids"]),
            "threads": len(THREADS),
            "seconds": round(time.monotonic() - began, 3),
        },
    )


class Pair:
    """The two threads and their calls."""

    def __init__(self, batches: dict[str, Batch], lock: Any) -> None:
        self.batches = batches
        self.lock = lock
        self.calls: list[dict[str, Any]] = []
        self.start = threading.Barrier(len(batches))
        self.threads = [threading.Thread(target=self._work, args=(name,), name=name, daemon=True) for name in batches]
        self.heard = time.monotonic()

    def play(self) -> None:
        for thread in self.threads:
            thread.start()
        while any(t.is_alive() for t in self.threads) and time.monotonic() - self.heard < SILENCE:
            time.sleep(PULSE)

    def stuck(self) -> dict[str, list[str]]:
        """Of each thread that still runs, the innermost frames."""
        frames = sys._current_frames()
        alive = {t.name: frames.get(t.ident or 0) for t in self.threads if t.is_alive()}
        return {
            name: [f"{f.filename}:{f.lineno} in {f.name}" for f in traceback.extract_stack(frame)[-6:]]
            for name, frame in alive.items()
        }

    def _work(self, name: str) -> None:
        batch = self.batches[name]
        self.start.wait()
        for _ in range(ROUNDS):
            call = {"thread": name, **row(len(batch.prompts))}
            self.calls.append(call)
            try:
                with self.lock:
                    take(call, batch, batch.generate())
            except Exception as error:
                call.update(ended="raised", exceptions=chain(error))
            self.heard = time.monotonic()
            if call["ended"] == "raised":
                return
