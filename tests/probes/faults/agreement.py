"""Engines whose log-probabilities are not those of the model that they were given."""

from __future__ import annotations

from typing import Any

import engine_facts

RUNNERS = tuple(f"{worker}.model_runner" for worker in engine_facts.WORKERS)


def other_weights(llm: Any) -> None:
    """A norm that the engine has loaded otherwise than the trainer. CPU builds keep packed copies of matrices only."""
    engine_facts.first(llm, RUNNERS).model.model.norm.weight.data.mul_(1.3)


def neighbours(llm: Any) -> None:
    """A request whose logits take in those of the others in its batch."""
    model = engine_facts.first(llm, RUNNERS).model
    compute = model.compute_logits

    def mixed(hidden: Any, *more: Any, **named: Any) -> Any:
        logits = compute(hidden, *more, **named)
        return logits + 0.5 * logits.mean(dim=0, keepdim=True) if logits is not None and len(logits) > 1 else logits

    model.compute_logits = mixed


def half_heated(llm: Any) -> None:
    """A sampler that tells log-probabilities at another temperature than the one it samples at, and not at 1 either."""
    sampler = engine_facts.first(llm, RUNNERS).sampler
    forward, compute = sampler.forward, sampler.compute_logprobs
    temperatures: list[Any] = []

    def noticing(*given: Any, **named: Any) -> Any:
        temperatures[:] = [(named["sampling_metadata"] if "sampling_metadata" in named else given[1]).temperature]
        reported = forward(*given, **named)
        temperatures.clear()
        return reported

    def halfway(logits: Any) -> Any:
        heated = temperatures and temperatures[0] is not None
        return compute(logits / temperatures[0].sqrt().unsqueeze(1) if heated else logits)

    sampler.forward, sampler.compute_logprobs = noticing, halfway
