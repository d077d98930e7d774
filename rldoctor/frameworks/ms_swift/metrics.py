"""ms-swift logs under TRL's names, with its position in the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldoctor.frameworks.metrics import Metrics
from rldoctor.frameworks.samples import MOST_ROWS, Sample, shown


def _columns(record: Mapping[str, Any]) -> list[Sample] | None:
    """The completions of a step (completions.jsonl), a column each."""
    prompts, completions = record.get("prompt"), record.get("completion")
    if not isinstance(prompts, list) or not isinstance(completions, list):
        return None
    rows = list(zip(prompts, completions, strict=False))[:MOST_ROWS]
    return [Sample(shown(prompt), shown(completion)) for prompt, completion in rows]


METRICS = Metrics(
    source="https://github.com/modelscope/ms-swift/blob/main/swift/rlhf_trainers/grpo_trainer.py",
    like="trl",
    literals=("global_step/max_steps", '"completion": '),
    marks='"completion"',
    samples=(_columns,),
)
