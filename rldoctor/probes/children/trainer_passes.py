"""Passes of the trainer's model at lengths that are asked for, and the module in which one fails.

They are made on the CPU: a position beyond a table is an exception there, and on a GPU the end of everything that this
process has on it. A model that the engine runs with its own weights may not fit into memory twice; a miniature of its
config then stands in for it, whose lengths are the same and whose numbers are not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import miniature
import torch
from placement import Modules, load
from report import chain
from running_engine import RunningEngine
from trainer import Trainer, TrainerError

# The arguments by which releases of transformers spare the logits of all but the last positions, newest first.
NARROW = ("logits_to_keep", "num_logits_to_keep")


class Passes:
    """``attempts`` has one entry per pass: ``name``, ``length``, ``ended`` (``done`` or ``failed``), ``beyond``
    (whether it goes beyond the engine's limit), and where it failed ``exceptions`` and ``module`` (name and class of
    the innermost module that was running). ``compared`` holds, by request, the log-probabilities of the same tokens
    from ``engine`` and ``trainer``.

    Raises :class:`trainer.TrainerError`."""

    def __init__(self, running: RunningEngine) -> None:
        self.trainer = Trainer(running, apart=True) if running.made["weights"] == "written" else None
        self.model = self.trainer.model if self.trainer else _stand_in(running.made)
        self.attempts: list[dict[str, Any]] = []
        self.compared: dict[str, dict[str, list[Any]]] = {}

    def reported(self) -> dict[str, Any]:
        return {
            "architecture": type(self.model).__name__,
            "dtype": str(self.model.dtype).replace("torch.", ""),
            "same_weights": self.trainer is not None,
            "attempts": self.attempts,
            "compared": self.compared,
        }

    def forward(self, name: str, ids: Sequence[int], beside: Sequence[int] = (), beyond: bool = False) -> bool:
        """One pass without a cache; ``beside`` is a shorter sequence that is padded on the left to join it. Returns
        whether it came to its end."""
        known = inspect.signature(self.model.forward).parameters
        narrow: dict[str, Any] = {key: 1 for key in NARROW if key in known}
        batch = self._batch(ids, beside)
        return self._tried(name, len(ids), beyond, lambda: self.model(**batch, **narrow, use_cache=False))

    def generate(self, name: str, ids: Sequence[int], count: int) -> bool:
        """Decodes with the model's own cache, up to ``count`` tokens."""
        batch = self._batch(ids, ())
        given = {"max_new_tokens": count, "do_sample": False, "pad_token_id": 0}
        return self._tried(name, len(ids) + count, False, lambda: self.model.generate(**batch, **given))

    def compare(self, name: str, prompt: Sequence[int], answer: Sequence[int], engine: list[Any]) -> None:
        """The log-probabilities of an answer's tokens on the engine's device, where both run the same weights. No pass
        follows."""
        if self.trainer is not None and answer:
            self.trainer.join()
            reported = self.trainer.log_probabilities(prompt, answer)[0]
            self.compared[name] = {"engine": engine, "trainer": reported}

    def _batch(self, ids: Sequence[int], beside: Sequence[int]) -> dict[str, Any]:
        padding = len(ids) - len(beside)
        rows = [list(ids)] + ([[0] * padding + list(beside)] if beside else [])
        given = torch.tensor(rows)
        mask = torch.ones_like(given)
        if beside:
            mask[1, :padding] = 0
        return {"input_ids": given, "attention_mask": mask}

    def _tried(self, name: str, length: int, beyond: bool, run: Callable[[], Any]) -> bool:
        row: dict[str, Any] = {"name": name, "length": length, "ended": "done", "beyond": beyond}
        self.attempts.append(row)
        modules = Modules()
        modules.of(self.model)
        try:
            with torch.no_grad(), modules:
                run()
        except Exception as error:
            row.update(ended="failed", exceptions=chain(error), module=modules.current())
        return bool(row["ended"] == "done")


def _stand_in(made: dict[str, Any]) -> Any:
    if made["weights"] == "dummy":
        raise TrainerError(str(made["note"]))
    shrunk = miniature.make(Path("trainer"), made["config"], made["path"])
    if shrunk["weights"] == "dummy":
        raise TrainerError(str(shrunk["note"]))
    return load(shrunk["path"])
