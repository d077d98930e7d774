"""Engines whose sampler is broken."""

from __future__ import annotations

from typing import Any

import engine_facts
import torch

SAMPLER = tuple(f"{worker}.model_runner.sampler" for worker in engine_facts.WORKERS)


def _before_sampling(llm: Any, change: Any) -> None:
    """Has ``change(logits, metadata)`` look at what the sampler of V1 gets; it may return other logits."""
    sampler = engine_facts.first(llm, SAMPLER)
    forward = sampler.forward

    def changed(logits: Any, sampling_metadata: Any, *more: Any, **named: Any) -> Any:
        other = change(logits, sampling_metadata)
        return forward(logits if other is None else other, sampling_metadata, *more, **named)

    sampler.forward = changed


def temperature_ignored(llm: Any) -> None:
    def one(logits: Any, metadata: Any) -> None:
        if metadata.temperature is not None:
            metadata.temperature = torch.where(metadata.temperature > 1e-4, 1.0, metadata.temperature)

    _before_sampling(llm, one)


def top_k_ignored(llm: Any) -> None:
    def none(logits: Any, metadata: Any) -> None:
        metadata.top_k = None

    _before_sampling(llm, none)


def biased(llm: Any) -> None:
    """Every token's logit is a little higher where its id is even."""

    def lifted(logits: Any, metadata: Any) -> Any:
        logits[:, ::2] += 0.4
        return logits

    _before_sampling(llm, lifted)


def seeds_ignored(llm: Any) -> None:
    def none(logits: Any, metadata: Any) -> None:
        metadata.generators = {}

    _before_sampling(llm, none)
