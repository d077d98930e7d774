"""The difference between engine and trainer that a run logs."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, Grade, NotApplicable, Reach

from ...observed.trends import DIFFERENCE, Run, finite, leaves_the_trainer
from . import SLEEP, check


@check.observed(needs=["metrics"])
def difference_grows(case: Case) -> Iterator[Finding | Reach]:
    """The gap between engine and trainer widens with every update."""
    run = Run.of(case)
    grown = leaves_the_trainer(run)
    if grown is None:
        raise NotApplicable("no difference between the engine's and the trainer's log-probabilities is logged for long")
    if not grown:
        yield Reach("the difference between engine and trainer does not grow with the steps")
        return
    values = finite(run.at(DIFFERENCE))
    first, last = min(values), max(values)
    yield check.finding(
        f"the engine's log-probabilities leave the trainer's step by step: {values[first]:.3g} at step {first}, "
        f"{values[last]:.3g} at step {last}; the engine does not get the updates",
        grade=Grade.OBSERVED,
        evidence=run.evidences((first, last), DIFFERENCE, "importance_ratio_mean", "loss", "reward"),
        fixes=(
            Fix.unsafe(
                "let the engine stay awake (TRL 0.28 to 1.9 reload the checkpoint when it wakes up)", {SLEEP: False}
            ),
            Fix(title="TRL 1.10 and later sync after every wake-up", commands=('pip install "trl>=1.10"',)),
            Fix(title="see that every update reaches the engine", commands=("rldoctor check --level compare",)),
        ),
        url="https://github.com/huggingface/trl/issues/5312",
    )
