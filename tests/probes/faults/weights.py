"""Engines that take new weights in a wrong way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import engine_facts

MODELS = tuple(f"{worker}.model_runner.model" for worker in engine_facts.WORKERS)
Weights = Iterable[tuple[str, Any]]


def model_of(llm: Any) -> Any:
    return engine_facts.first(llm, MODELS)


def _through(llm: Any, change: Callable[[Weights], Weights]) -> None:
    """Everything that is loaded from now on goes through a function first."""
    model = model_of(llm)
    load = model.load_weights
    model.load_weights = lambda weights: load(change(weights))


def stale_layer(llm: Any) -> None:
    """One layer that never gets its update."""
    _through(llm, lambda weights: [pair for pair in weights if ".layers.1." not in pair[0]])


def ignored(llm: Any) -> None:
    """An engine that takes weights and does nothing with them."""
    _through(llm, lambda weights: [])


def never_reset(llm: Any) -> None:
    """A prefix cache that outlives every update."""
    llm.reset_prefix_cache = lambda *_, **__: True


def drifting(llm: Any) -> None:
    """A sync that adds to the weights that were there before."""
    counts: dict[str, int] = {}

    def grown(weights: Weights) -> Weights:
        for name, tensor in weights:
            counts[name] = counts.get(name, 0) + 1
            yield name, tensor * (0.8 + 0.2 * counts[name])

    _through(llm, grown)


def unknown_names_ignored(llm: Any) -> None:
    """A loader that passes over names that it does not know."""
    _through(llm, lambda weights: [pair for pair in weights if "_of_another_model" not in pair[0]])


def shapes_padded(llm: Any) -> None:
    """A loader that makes every shape fit."""
    import torch

    shapes: dict[str, Any] = {}

    def fitted(weights: Weights) -> Weights:
        for name, tensor in weights:
            missing = shapes.setdefault(name, tensor.shape)[0] - tensor.shape[0]
            yield name, torch.cat([tensor, tensor.new_zeros(missing, *tensor.shape[1:])]) if missing > 0 else tensor

    _through(llm, fitted)


def renamed(llm: Any) -> None:
    """A model whose parameters have other names than the trainer's."""
    _through(llm, lambda weights: [(name.replace("o_proj", "out_proj"), tensor) for name, tensor in weights])
