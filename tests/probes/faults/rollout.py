"""Engines that are broken on purpose in ways that any rollout shows."""

from __future__ import annotations

import os
from typing import Any

import engine_facts
import running_engine

WORKER = engine_facts.WORKERS[0]


def model_of(llm: Any) -> Any:
    return engine_facts.first(llm, (f"{WORKER}.model_runner.model",))


def patch(name: str, function: Any) -> None:
    """Puts another function in the place of one of the engine's own."""
    setattr(running_engine.RunningEngine, name, function)


def nan_layer(llm: Any) -> None:
    """A layer whose weights are no numbers. A norm's: CPU builds keep a packed copy of the matrices."""
    model_of(llm).model.layers[1].input_layernorm.weight.data.fill_(float("nan"))


def meta_parameter(llm: Any) -> None:
    """A parameter that was never loaded."""
    import torch

    norm = model_of(llm).model.norm
    norm.weight = torch.nn.Parameter(torch.empty_like(norm.weight, device="meta"), requires_grad=False)


def idle_meta_parameter(llm: Any) -> None:
    """A parameter on another device that no operation of the rollout touches."""
    import torch

    model_of(llm).register_parameter("unused", torch.nn.Parameter(torch.empty(4, device="meta"), requires_grad=False))


def constant_noise(llm: Any) -> None:
    """A sampler that draws the same number for every token of every request."""
    import torch

    draw = torch.randint
    # The sampler of CPU builds seeds each row by a drawn number, the others draw exponential noise.
    torch.randint = lambda *arguments, **named: draw(*arguments, **named).fill_(7)
    torch.Tensor.exponential_ = lambda self, *_, **__: self.fill_(1.0)


def one_token(llm: Any) -> None:
    """An engine that answers with one token, whatever it says of its probabilities."""
    generate = running_engine.RunningEngine.generate

    def stuck(*arguments: Any) -> list[dict[str, Any]]:
        return [{**row, "token_ids": [0] * len(row["token_ids"])} for row in generate(*arguments)]

    patch("generate", stuck)


def crash(llm: Any) -> None:
    """A native crash in the middle of a rollout."""
    import ctypes

    patch("generate", lambda *_: ctypes.string_at(0))


def assertion(llm: Any) -> None:
    """An assertion inside the engine that no code describes."""

    def fail(*_: Any) -> None:
        raise AssertionError("len(self.running) == 0")

    model_of(llm).compute_logits = fail


def killed(llm: Any) -> None:
    """What the kernel does when memory runs out."""
    os.kill(os.getpid(), 9)
