"""OpenRLHF's log-probabilities of completions, as its loss takes them. Read in 0.11 (``openrlhf/models/actor.py``,
``trainer/ppo_utils/samples_generator.py``)."""

from __future__ import annotations

import importlib.metadata
import inspect

from asked import Asked, Told, keeps_rows_apart, model_of, pad_of, plain_flash_attention


def own(asked: Asked) -> Told:
    plain_flash_attention()
    import torch
    from openrlhf.models.actor import Actor

    if "action_mask" not in inspect.signature(Actor.forward).parameters:
        raise NotImplementedError("an Actor.forward that takes no action_mask")
    model = model_of(asked)
    packing = bool(asked.packing) and keeps_rows_apart(model, asked)
    actor = Actor(model, temperature=asked.temperature)
    # What it only sets beside a model that it loads itself.
    vars(actor).update(packing_samples=packing)
    model.config.use_cache = False
    ids, mask, actions = _batch(asked, pad_of(asked))
    with torch.no_grad():
        told = actor(torch.tensor(ids), torch.tensor(actions), torch.tensor(mask))
    begins = [len(prompt) - 1 for prompt in asked.prompts]
    width = max(map(len, asked.completions))
    padded = torch.nn.functional.pad(told, (0, width))
    rows = torch.stack([row[begin : begin + width] for row, begin in zip(padded, begins)])  # noqa: B905 - Python 3.9
    version = importlib.metadata.version("openrlhf")
    return Told(f"OpenRLHF {version}, Actor.forward with packing_samples={packing}", rows)


def _batch(asked: Asked, pad: int) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Token ids and mask, padded on the right, and which tokens but the first are the policy's own."""
    pairs = list(zip(asked.prompts, asked.completions))  # noqa: B905 - Python 3.9
    width = max(len(prompt) + len(completion) for prompt, completion in pairs)
    ids, mask, actions = [], [], []
    for prompt, completion in pairs:
        length = len(prompt) + len(completion)
        ids.append([*prompt, *completion] + [pad] * (width - length))
        mask.append([1] * length + [0] * (width - length))
        actions.append(([0] * len(prompt) + [1] * len(completion) + [0] * (width - length))[1:])
    return ids, mask, actions
