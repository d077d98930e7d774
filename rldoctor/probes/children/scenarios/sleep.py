"""Sleep and wake-up: the memory that is given back, and the outputs after each level and after many cycles.

Arguments: ``levels`` (1, 2 or both), ``cycles`` (in all). Records: ``held`` (bytes of the engine's weights and KV
cache), ``free`` (bytes of the device ``before``), ``start`` (``scores`` of fixed tokens, ``seen``: log-probabilities of
a greedy completion whose prompt is in the prefix cache), ``cycles`` (one entry each: ``level``, ``asleep`` and
``awake``: free bytes), ``after`` (by level, after its last cycle: ``scores`` and ``seen``), ``failed`` (``level``,
``cycle``, ``exceptions``; then nothing follows), ``reach``. Written by the sources of vLLM 0.8.5 to 0.32."""

from __future__ import annotations

from typing import Any

import torch
from engine_facts import CACHES, WORKERS, first, tensors
from report import chain
from stand import Stand, prompt_logprobs
from syncing import MODELS, Sync
from trainer import Trainer

SCORED_TOKENS, GREEDY_TOKENS = 48, 8


def play(stand: Stand, arguments: dict[str, Any]) -> None:
    weights = Trainer(stand).weights() if 2 in arguments["levels"] else {}
    stand.record("held", _held(stand))
    # Twice: the second time the prompt is in the prefix cache.
    _told(stand)
    stand.record("start", _told(stand))
    stand.record("free", {"before": _free()})
    done: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    for number in range(arguments["cycles"]):
        level = arguments["levels"][number % len(arguments["levels"])]
        try:
            done.append({"level": level, **_cycle(stand, level, weights)})
            stand.record("cycles", done)
            if number >= arguments["cycles"] - len(arguments["levels"]) or str(level) not in after:
                after[str(level)] = _told(stand)
                stand.record("after", after)
        except Exception as error:
            stand.record("failed", {"level": level, "cycle": number + 1, "exceptions": chain(error)})
            break
    stand.record("reach", {"requests": 2 + len(after), "cycles": len(done), "ranks": 1})


def _cycle(stand: Stand, level: int, weights: dict[str, Any]) -> dict[str, int]:
    stand.engine.sleep(level=level)
    asleep = _free()
    stand.engine.wake_up()
    if level == 2:  # the weights are gone; the trainer sends its own
        Sync(stand, one_by_one=False).send(weights.items())
    stand.engine.reset_prefix_cache()
    return {"asleep": asleep, "awake": _free()}


def _free() -> int:
    return int(torch.cuda.mem_get_info()[0])


def _held(stand: Stand) -> int:
    worker = first(stand.engine, WORKERS)
    model = first(worker, MODELS) if worker is not None else None
    if model is None:
        return 0
    found = [*model.parameters(), *(tensor for _, tensor in tensors(first(worker, CACHES), "cache"))]
    return sum(tensor.numel() * tensor.element_size() for tensor in found)


def _told(stand: Stand) -> dict[str, list[Any]]:
    from vllm import SamplingParams

    parameters = SamplingParams(max_tokens=1, temperature=1.0, prompt_logprobs=1)
    prompts = [{"prompt_token_ids": stand.prompt(SCORED_TOKENS, salt=1)}]
    outputs = stand.engine.generate(prompts, parameters, use_tqdm=False)
    greedy = {"temperature": 0.0, "max_tokens": GREEDY_TOKENS, "logprobs": 1, "ignore_eos": True}
    (row,) = stand.generate({"seen": (stand.prompt(SCORED_TOKENS, salt=2), greedy)})
    return {"scores": prompt_logprobs(outputs[0])[1:], "seen": row["logprobs"]}
