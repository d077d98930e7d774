"""How engines refuse a number of log-probabilities, and how their absence shows."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent

from . import check
from .correction import USED


@check.logged("greater than max allowed: ")
def too_many_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``Requested sample logprobs of 50, which is greater than max allowed: 20``."""
    numbers = event.search(
        r"Requested (sample|prompt) logprobs of (-?\d+), which is (?:is )?greater than max allowed: (\d+)"
    )
    if numbers is None:
        return
    yield check.finding(
        f"{numbers[2]} {numbers[1]} log-probabilities per token are asked for, the engine gives at most {numbers[3]}",
        fixes=(
            Fix.unsafe(
                "let the engine give so many (max_logprobs)",
                {"engine.max_logprobs": max(int(numbers[2]), -1)},
                side_effects="memory and time for each token",
            ),
            Fix(title=f"or ask for at most {numbers[3]}; 0 gives the chosen token's"),
        ),
    )


# The correction's own test of its input (verl, SkyRL).
check.signature(
    "requires rollout_log_probs in batch",
    "Truncated Importance Sampling (TIS) requires to configure",
    "rollout_logprobs are required for",
    "KeyError: 'rollout_log_probs'",
    says="the loss corrects with the engine's log-probabilities, and the rollout did not return them",
    fixes=(
        Fix.unsafe(
            "let the rollout return them (verl: rollout.calculate_log_probs=True; SkyRL: "
            "generator.sampling_params.logprobs=0)",
            {USED: True},
        ),
    ),
)
