"""How engines refuse a number of log-probabilities, and how their absence shows."""

from __future__ import annotations

from rldoctor.api import Fix

from . import check
from .correction import USED

# `Requested sample logprobs of 50, which is greater than max allowed: 20`.
check.signature(
    "greater than max allowed: ",
    pattern=(
        r"Requested (?P<kind>sample|prompt) logprobs of (?P<asked>-?\d+), which is (?:is )?greater than max "
        r"allowed: (?P<limit>\d+)"
    ),
    says="{asked} {kind} log-probabilities per token are asked for, the engine gives at most {limit}",
    fixes=lambda case, event, words: (
        Fix.unsafe(
            "let the engine give so many (max_logprobs)",
            {"engine.max_logprobs": max(int(words["asked"]), -1)},
            side_effects="memory and time for each token",
        ),
        Fix(title=f"or ask for at most {words['limit']}; 0 gives the chosen token's"),
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
