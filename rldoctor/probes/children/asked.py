"""What the programs of ``trainers`` share: what they are asked, the batch that a trainer would make of it, and what
lets a trainer's code run in float32 on the CPU (what the precision does is compared elsewhere)."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# Rows that share a forward pass and do not see each other agree so far with rows alone.
APART = 1e-3


@dataclass(frozen=True)
class Asked:
    """``model`` is a folder with weights and tokenizer, ``prompts`` and ``completions`` are token ids; ``packing`` and
    ``fused`` are what the launch asks for, rows without padding and logits that are never whole, or None."""

    model: str
    prompts: Sequence[Sequence[int]]
    completions: Sequence[Sequence[int]]
    temperature: float
    packing: bool | None
    fused: bool | None


@dataclass(frozen=True)
class Told:
    """``rows`` may go on beyond the completions: the rest is padding."""

    what: str
    rows: Any


def batch(
    prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], pad: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids and mask with prompts padded on the left and completions on the right."""
    left, right = max(map(len, prompts)), max(map(len, completions))
    ids, mask = [], []
    for prompt, completion in zip(prompts, completions):  # noqa: B905 - Python 3.9
        before, after = left - len(prompt), right - len(completion)
        ids.append([pad] * before + [*prompt, *completion] + [pad] * after)
        mask.append([0] * before + [1] * (len(prompt) + len(completion)) + [0] * after)
    return ids, mask


def model_of(asked: Asked) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(asked.model, torch_dtype=torch.float32).eval()


def pad_of(asked: Asked) -> int:
    """Some token of the model: what is padding is masked."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    return int(next(one for one in (tokenizer.pad_token_id, tokenizer.eos_token_id, 0) if one is not None))


def keeps_rows_apart(model: Any, asked: Asked) -> bool:
    """Whether attention on this machine tells packed rows apart by their positions, as kernels for GPUs do. Where it
    does not, a trainer that packs is right and would look wrong."""
    import torch

    rows = [torch.tensor([*one]) for one in asked.prompts]
    packed = torch.cat(rows)[None]
    positions = torch.cat([torch.arange(len(row)) for row in rows])[None]
    with torch.no_grad():
        together = model(input_ids=packed, position_ids=positions, use_cache=False).logits[0]
        alone = torch.cat([model(input_ids=row[None], use_cache=False).logits[0] for row in rows])
    return bool((together - alone).abs().max() < APART)


def without_autocast() -> None:
    """Trainers that compute in bfloat16 whatever the model is in."""
    import torch

    vars(torch)["autocast"] = lambda *_, **__: contextlib.nullcontext()


def plain_flash_attention() -> None:
    """A ``flash_attn`` of nothing but what packs rows and unpacks them, as transformers does it: the real one's kernels
    are for GPUs, and without it trainers fall back to what runs anywhere."""
    from transformers import modeling_flash_attention_utils as of_transformers

    def rearrange(tensor: Any, pattern: str) -> Any:
        if pattern != "b s ... -> (b s) ...":
            raise NotImplementedError(pattern)
        return tensor.flatten(0, 1)

    padding = {
        "unpad_input": of_transformers._unpad_input,
        "pad_input": of_transformers._pad_input,
        "index_first_axis": lambda tensor, indices: tensor[indices],
        "rearrange": rearrange,
    }
    _module("flash_attn", {"__path__": []})
    _module("flash_attn.bert_padding", padding)
    _module("flash_attn.utils", {"__path__": []})
    _module("flash_attn.utils.distributed", {"all_gather": None})


def _module(name: str, contents: dict[str, Any]) -> None:
    module = ModuleType(name)
    module.__spec__ = importlib.util.spec_from_loader(name, None)
    vars(module).update(contents)
    sys.modules[name] = module
