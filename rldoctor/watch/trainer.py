"""A callback for transformers' trainers, TRL's among them: says, or stops, a run whose first steps show it to be sick.

Runs in the training environment itself, beside the trainer::

    from rldoctor.watch.trainer import RLDoctorCallback

    trainer = GRPOTrainer(..., callbacks=[RLDoctorCallback(stop=True)])
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rldoctor.model import Finding
from rldoctor.watch.guard import PATIENCE, Guard, logger
from rldoctor.watch.measured import CODES


class RLDoctorCallback:
    """Judges what the trainer logs, as ``rldoctor triage`` does afterwards.

    With ``stop`` the run ends once an error has lasted for ``patience`` records. ``tell`` is called with every finding.
    A TRL trainer that is handed over (``callback.trainer = trainer``) lets it compare the completions of a group, too
    (RLD311).

    A trainer asks for its events by their names alone, so that transformers need not be imported for them."""

    def __init__(
        self,
        stop: bool = False,
        patience: int = PATIENCE,
        codes: Sequence[str] = CODES,
        tell: Callable[[Finding], None] | None = None,
    ) -> None:
        self.trainer: Any = None
        self.guard = Guard(stop, patience, codes, tell)

    @property
    def findings(self) -> list[Finding]:
        """The findings so far."""
        return self.guard.findings

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Any other event: nothing is done."""
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Takes a record. The trainer calls it on every rank; the first one judges."""
        if not logs:
            return
        why = ""
        if getattr(state, "is_world_process_zero", True):
            why = self.guard.take(logs, int(state.global_step), _completions(self.trainer))
        if self.guard.stop and _agreed(bool(why), args):
            # transformers logs once more when it has stopped.
            if why and not control.should_training_stop:
                logger.error("%s", why)
            control.should_training_stop = True


def _agreed(stops: bool, args: Any) -> bool:
    """The first rank's word on every rank: a run that some of its ranks leave stands still."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if torch is None or distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return stops
    word = torch.tensor([int(stops)], device=args.device)
    distributed.broadcast(word, src=0)
    return bool(word.item())


def _completions(trainer: Any) -> Iterator[tuple[str, str]]:
    """What TRL's trainers keep of their last completions: ``_logs`` since 0.22, ``_textual_logs`` from 0.18 on."""
    kept = getattr(trainer, "_logs", None) or getattr(trainer, "_textual_logs", None) or {}
    for prompt, completion in zip(kept.get("prompt", ()), kept.get("completion", ()), strict=False):
        yield str(prompt), str(completion)
