"""Batches for ``LLM.generate()`` whose answers tell which prompt they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from running_engine import RunningEngine

PROMPTS = 4


@dataclass
class Batch:
    """Prompts of their own and what is asked of each: greedy answers of ``response`` tokens."""

    engine: Any
    prompts: list[list[int]]
    response: int

    @classmethod
    def of(cls, running: RunningEngine, prompt: int, response: int, salt: int) -> Batch:
        prompts = [running.prompt(max(8, prompt - 3 * n), salt=salt + 7 * n + 1) for n in range(PROMPTS)]
        return cls(running.engine, prompts, response)

    def generate(self) -> list[Any]:
        from vllm import SamplingParams

        asked = SamplingParams(temperature=0.0, max_tokens=self.response, ignore_eos=True)
        prompts = [{"prompt_token_ids": list(prompt)} for prompt in self.prompts]
        return list(self.engine.generate(prompts, asked, use_tqdm=False))

    def alone(self) -> list[list[int]]:
        """The answers of an engine that does nothing else."""
        return [list(output.outputs[0].token_ids) for output in self.generate()]


def row(asked: int) -> dict[str, Any]:
    """A call of ``generate``: prompts ``asked`` and outputs ``got``, how it ``ended`` (waiting, answered, raised),
    ``foreign`` (outputs that, by their place, stand beside a prompt which is not theirs) and the answers'
    ``token_ids``."""
    return {"asked": asked, "got": None, "ended": "waiting", "foreign": 0, "token_ids": []}


def take(call: dict[str, Any], batch: Batch, outputs: Sequence[Any]) -> None:
    pairs = zip(batch.prompts, outputs)  # noqa: B905 - their lengths may differ, which is what is asked
    call.update(
        ended="answered",
        got=len(outputs),
        foreign=sum(list(output.prompt_token_ids or ()) != prompt for prompt, output in pairs),
        token_ids=[list(output.outputs[0].token_ids) for output in outputs],
    )
