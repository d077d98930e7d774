"""The trainer's side of a comparison: the same model in transformers, and its log-probabilities of given tokens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from engine_facts import WORKERS, first
from running_engine import RunningEngine

# A second copy of the weights beside the engine, and what a pass over a long prompt and a large vocabulary takes.
ROOM, PASS = 1.5, 2 << 30


class TrainerError(Exception):
    """The engine's model cannot be loaded a second time; the message says why."""


class Trainer:
    """The model that the engine runs, in evaluation mode and the engine's precision or the ``dtype`` that is given, on
    the engine's device where there is room for it, else on the CPU; ``apart`` on the CPU until :meth:`join`.

    Raises :class:`TrainerError`."""

    def __init__(self, running: RunningEngine, apart: bool = False, dtype: Any = None) -> None:
        from transformers import AutoModelForCausalLM

        if running.made["weights"] == "dummy":
            raise TrainerError("the engine made up its own weights")
        config = first(running.engine, ("llm_engine.model_config", "llm_engine.vllm_config.model_config"))
        dtype = dtype or getattr(config, "dtype", None)
        if not isinstance(dtype, torch.dtype):
            raise TrainerError("the engine does not tell its precision")
        try:
            # transformers 5 calls it dtype and still takes the old name; 4 knows only the old one.
            model = AutoModelForCausalLM.from_pretrained(
                running.made["path"], torch_dtype=dtype, **_attention(running.made["config"])
            )
        except Exception as error:
            raise TrainerError(f"transformers could not load it: {type(error).__name__}: {error}") from error
        self._running = running
        self.device = torch.device("cpu")
        self.model = model.eval()
        self._narrow = "logits_to_keep" in inspect.signature(type(model).forward).parameters
        if not apart:
            self.join()

    def join(self) -> None:
        """Moves to the engine's device, where there is room and it is not there yet."""
        if self.device.type == "cpu":
            self.device = _device(self._running, self.model)
            self.model = self.model.to(self.device)

    def facts(self) -> dict[str, Any]:
        """``class``, ``dtype``, ``device`` and ``attention`` (implementation)."""
        return {
            "class": type(self.model).__name__,
            "dtype": str(self.model.dtype).replace("torch.", ""),
            "device": str(self.device),
            "attention": getattr(self.model.config, "_attn_implementation", None),
        }

    def weights(self) -> dict[str, Any]:
        """A copy of every parameter, by its own name."""
        return {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}

    def as_saved(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """The same by the names and in the parts that checkpoints have: transformers 5 keeps a layer's experts in one
        tensor. Before, both were the same."""
        try:
            from transformers.core_model_loading import revert_weight_conversion
        except ImportError:
            return dict(weights)
        saved = revert_weight_conversion(self.model, dict(weights))
        return dict(saved if saved.keys() != weights.keys() else weights)  # in the model's order where nothing changed

    def load(self, weights: Mapping[str, Any]) -> None:
        """Puts copies of these weights in the place of the present ones."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in weights:
                    parameter.copy_(weights[name])

    def log_probabilities(
        self, prompt: Sequence[int], tokens: Sequence[int], temperatures: Sequence[float] = (1.0,)
    ) -> list[list[float]]:
        """For each temperature the log-probability of each token after the prompt and the tokens before it."""
        ids = torch.tensor([[*prompt, *tokens]], device=self.device)
        kept = {"logits_to_keep": len(tokens) + 1} if self._narrow else {}
        with torch.no_grad():
            logits = self.model(input_ids=ids, **kept).logits[0, -len(tokens) - 1 : -1].float()
        wanted = torch.tensor(list(tokens), device=self.device).unsqueeze(1)
        reported = [torch.log_softmax(logits / temperature, dim=-1).gather(1, wanted) for temperature in temperatures]
        return [values.squeeze(1).tolist() for values in reported]

    def shown(self, by: float, judged: Sequence[tuple[Sequence[int], Sequence[int]]]) -> dict[str, dict[str, float]]:
        """For each parameter the ``mean`` and the ``largest`` step of the log-probabilities of ``judged`` (prompts with
        their tokens) where the values of that parameter alone are larger or smaller by the part ``by``, each for
        itself: the scale of a whole matrix is nothing where a norm follows it."""

        def reported() -> list[float]:
            return [value for prompt, tokens in judged for value in self.log_probabilities(prompt, tokens)[0]]

        right, found, chance = reported(), {}, torch.Generator().manual_seed(0)
        for name, parameter in self.model.named_parameters():
            held = parameter.detach().clone()
            with torch.no_grad():
                parameter.mul_(1 + by * _signs(parameter, chance))
                steps = [abs(one - other) for one, other in zip(right, reported())]  # noqa: B905 - Python 3.9
                parameter.copy_(held)
            found[name] = {"mean": sum(steps) / len(steps), "largest": max(steps)}
        return found

    def next_logits(self, prompt: Sequence[int]) -> Any:
        """The logits of the token that follows a prompt: float32, one for each row of the vocabulary, on the CPU."""
        return self.logits_of(prompt, ())[0]

    def logits_of(self, prompt: Sequence[int], tokens: Sequence[int]) -> Any:
        """The logits after a prompt and after each of the tokens behind it: float32 (tokens + 1, vocabulary), on the
        CPU."""
        ids = torch.tensor([[*prompt, *tokens]], device=self.device)
        kept = {"logits_to_keep": len(tokens) + 1} if self._narrow else {}
        with torch.no_grad():
            return self.model(input_ids=ids, **kept).logits[0, -len(tokens) - 1 :].float().cpu()

    def of_rows(self, rows: Sequence[Mapping[str, Any]], prompts: Callable[[str], Sequence[int]]) -> list[list[float]]:
        """The log-probabilities of completions (rows of ``RunningEngine.generate``) at temperature 1."""
        return [self.log_probabilities(prompts(row["request"]), row["token_ids"])[0] for row in rows]


def noisy(tensor: Any, strength: float, chance: torch.Generator) -> Any:
    """A tensor whose values are off at random by this part of their spread, as after a step of training."""
    # A bias of zeros and a norm of ones have no spread of their own.
    values = tensor.float()
    spread = max(float(values.std(unbiased=False)), 0.5 * float(values.abs().mean()), 0.05)
    noise = torch.randn(tensor.shape, generator=chance).to(tensor.device)
    return (values + strength * spread * noise).to(tensor.dtype)


def _signs(tensor: Any, chance: torch.Generator) -> Any:
    """1 and -1 in the form of a tensor, each the product of those of its row, its column and so on: drawing one for
    each value of an embedding takes seconds."""
    signs = torch.ones((), dtype=tensor.dtype, device=tensor.device)
    for size in tensor.shape:
        own = torch.randint(0, 2, (size,), generator=chance).to(tensor) * 2 - 1
        signs = signs.unsqueeze(-1) * own
    return signs


def _attention(config: Mapping[str, Any]) -> dict[str, str]:
    """The implementation of attention that computes what the model is: transformers' sdpa leaves soft caps of scores
    out without a word (5.19, integrations/sdpa_attention.py)."""
    return {"attn_implementation": "eager"} if config.get("attn_logit_softcapping") else {}


def _device(running: RunningEngine, model: Any) -> Any:
    worker = first(running.engine, WORKERS)
    device = first(worker, ("device", "model_runner.device")) if worker is not None else None
    if not isinstance(device, torch.device) or device.type != "cuda":
        return torch.device("cpu")
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.parameters())
    return device if torch.cuda.mem_get_info(device)[0] > ROOM * size + PASS else torch.device("cpu")
