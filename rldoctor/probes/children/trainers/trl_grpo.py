"""TRL's log-probabilities of completions, as its loss takes them.

Read in 0.16 to 1.16 (``trl/trainer/grpo_trainer.py``): 0.16 to 0.19 have ``_get_per_token_logps``, 0.19 on the one with
entropies, which gives a dictionary in some releases and a tuple in the others."""

from __future__ import annotations

from asked import Asked, Told, batch, model_of

METHODS = ("_get_per_token_logps_and_entropies", "_get_per_token_logps")
GROUP = 2


def own(asked: Asked) -> Told:
    import torch
    import trl
    from datasets import Dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    width = max(map(len, asked.completions))
    trainer = trl.GRPOTrainer(
        model=model_of(asked),
        reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
        args=trl.GRPOConfig(
            output_dir="output",
            temperature=asked.temperature,
            per_device_train_batch_size=GROUP,
            num_generations=GROUP,
            max_completion_length=width,
            use_cpu=True,
            bf16=False,
            report_to=[],
        ),
        train_dataset=Dataset.from_list([{"prompt": "a"}] * GROUP),
        processing_class=tokenizer,
    )
    method = next(name for name in METHODS if hasattr(trainer, name))
    ids, mask = batch(asked.prompts, asked.completions, tokenizer.pad_token_id)
    model = trainer.model.eval()
    with torch.no_grad():
        told = getattr(trainer, method)(model, torch.tensor(ids), torch.tensor(mask), width)
    told = told["logps"] if isinstance(told, dict) else told[0] if isinstance(told, tuple) else told
    return Told(f"{trl.__name__} {trl.__version__}, GRPOTrainer.{method}", told)
