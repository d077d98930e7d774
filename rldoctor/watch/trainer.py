"""A callback for transformers' trainers, TRL's among them: says, or stops, a run whose first steps show it to be sick.

Runs in the training environment itself, beside the trainer::

    from rldoctor.watch.trainer import RLDoctorCallback

    trainer = GRPOTrainer(..., callbacks=[RLDoctorCallback(stop=True)])
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rldoctor.model import Finding, Severity
from rldoctor.report import words
from rldoctor.watch.measured import CODES, Measured

logger = logging.getLogger("rldoctor")
_LOUDNESS = {Severity.ERROR: logging.ERROR, Severity.WARNING: logging.WARNING, Severity.NOTE: logging.INFO}


class RLDoctorCallback:
    """Judges what the trainer logs, as ``rldoctor triage`` does afterwards.

    With ``stop`` the run ends once an error has lasted for ``patience`` records: a hard task may well begin with some
    steps without a reward. ``tell`` is called with every finding. A TRL trainer that is handed over
    (``callback.trainer = trainer``) lets it compare the completions of a group, too (RLD311).

    A trainer asks for its events by their names alone, so that transformers need not be imported for them."""

    def __init__(
        self,
        stop: bool = False,
        patience: int = 20,
        codes: Sequence[str] = CODES,
        tell: Callable[[Finding], None] | None = None,
    ) -> None:
        self.stop = stop
        self.patience = patience
        self.trainer: Any = None
        self.findings: list[Finding] = []
        self._tell = tell
        self._measured = Measured(codes)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Any other event: nothing is done."""
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Takes a record; the trainer calls it on every rank, one of them judges and stops all."""
        if not logs or not getattr(state, "is_world_process_zero", True):
            return
        new = self._measured.add(logs, int(state.global_step), _completions(self.trainer))
        for finding in new:
            self.findings.append(finding)
            logger.log(_LOUDNESS[finding.severity], "%s", _said(finding))
            if self._tell is not None:
                self._tell(finding)
        if self.stop and (lasting := self._measured.lasting(self.patience)):
            logger.error("rldoctor stops this run: %s for %d records", ", ".join(lasting), self.patience)
            control.should_training_stop = True


def _said(finding: Finding) -> str:
    fixes = "".join(f"\n  fix: {fix.title}" for fix in finding.fixes)
    return f"{words.head(finding)}{fixes}"


def _completions(trainer: Any) -> Iterator[tuple[str, str]]:
    """What TRL's trainers keep of their last completions: ``_logs`` since 0.22, ``_textual_logs`` from 0.18 on."""
    kept = getattr(trainer, "_logs", None) or getattr(trainer, "_textual_logs", None) or {}
    for prompt, completion in zip(kept.get("prompt", ()), kept.get("completion", ()), strict=False):
        yield str(prompt), str(completion)
