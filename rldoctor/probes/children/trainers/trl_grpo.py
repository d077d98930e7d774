"""Log-probabilities of completions as the trainer's loss takes them: a program for the target's interpreter.

Standard input is JSON: ``model`` (folder with weights and tokenizer), ``prompts`` and ``completions`` (token ids),
``temperature``, ``answer`` (the file to write: ``what`` was asked, ``log_probabilities`` of each completion's tokens).
The trainer is built as a run builds it, in float32: what the precision does is compared elsewhere. Read in 0.16 to 1.16
(``trl/trainer/grpo_trainer.py``): 0.16 to 0.19 have ``_get_per_token_logps``, 0.19 on the one with entropies, which
gives a dictionary in some releases and a tuple in the others."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

METHODS = ("_get_per_token_logps_and_entropies", "_get_per_token_logps")
GROUP = 2


def main(asked: dict[str, Any]) -> None:
    import torch
    import trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(asked["model"])
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    arguments = trl.GRPOConfig(
        output_dir="output",
        temperature=asked["temperature"],
        per_device_train_batch_size=GROUP,
        num_generations=GROUP,
        max_completion_length=max(map(len, asked["completions"])),
        use_cpu=True,
        bf16=False,
        report_to=[],
    )
    trainer = trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(asked["model"], torch_dtype=torch.float32),
        reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "a"}] * GROUP),
        processing_class=tokenizer,
    )
    method = next(name for name in METHODS if hasattr(trainer, name))
    prompts, completions = asked["prompts"], asked["completions"]
    ids, mask = batch(prompts, completions, tokenizer.pad_token_id)
    width = max(map(len, completions))
    model = trainer.model.eval()
    with torch.no_grad():
        told = getattr(trainer, method)(model, torch.tensor(ids), torch.tensor(mask), width)
    told = told["logps"] if isinstance(told, dict) else told[0] if isinstance(told, tuple) else told
    rows = [row[: len(one)] for row, one in zip(told.float().tolist(), completions)]  # noqa: B905 - Python 3.9
    what = f"{trl.__name__} {trl.__version__}, GRPOTrainer.{method}"
    Path(asked["answer"]).write_text(json.dumps({"what": what, "log_probabilities": rows}))


def batch(
    prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], pad: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids and mask as the trainer makes them: prompts padded on the left, completions on the right."""
    left, right = max(map(len, prompts)), max(map(len, completions))
    ids, mask = [], []
    for prompt, completion in zip(prompts, completions):  # noqa: B905 - Python 3.9
        before, after = left - len(prompt), right - len(completion)
        ids.append([pad] * before + [*prompt, *completion] + [pad] * after)
        mask.append([0] * before + [1] * (len(prompt) + len(completion)) + [0] * after)
    return ids, mask


if __name__ == "__main__":
    main(json.load(sys.stdin))
