"""Sleep and wake-up: the memory that is given back, and the outputs after each level and after many cycles. Before the
first sleep the engine gets other weights than those that it has booted with, as a trainer's are after a step, and
after level 2 it gets those and a second kind of them by turns, as at times after level 1.

Arguments: ``levels`` (1, 2 or both), ``cycles`` (in all). Records: ``held`` (bytes of the engine's weights and KV
cache), ``free`` (bytes of the device ``before``), ``start`` (``scores`` of fixed tokens; ``seen``, a greedy completion
whose prompt is in the prefix cache: ``token_ids``, ``logprobs`` and ``tops``, see ``traffic.tops``; ``drawn``, the
tokens of a request without a seed; ``free_blocks`` of the KV cache while nothing runs, None where the engine does not
tell), ``second`` (the same with the second weights, where there are any), ``cycles`` (one entry each: ``level``,
``parts`` whether it woke up the weights and the cache one after the other, ``asleep`` and ``awake``: free bytes),
``after`` (an entry for the first cycles of each level, whole and in parts, and for its last one: ``level``, ``cycle``,
``parts``, ``weights``, 0 or 1 for the second, and all that ``start`` has), ``failed`` (``level``, ``cycle``,
``exceptions``; then nothing follows), ``unread`` (``level 2``: why it is not played, ``update``: why the weights are
those of the boot), ``reach``. Written by the sources of vLLM 0.8.5 to 0.32."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from engine_facts import CACHES, WORKERS, first, tensors
from report import chain
from running_engine import RunningEngine, covering, logprobs, prompt_logprobs
from syncing import MODELS, Sync, SyncError
from traffic import tops
from trainer import Trainer, TrainerError, noisy

# A long prompt, for what is lost of rotary tables far out, and of any token.
MOST_SCORED, SEEN_TOKENS, GREEDY_TOKENS, DRAWN_TOKENS = 1024, 48, 8, 32
TOPS = 5
# By what part of their spread the weights differ from those of the boot.
CHANGED, SEED = 0.1, 8
# What follows level 2 in most frameworks: the weights' memory, new weights, then the cache's. Others, and releases
# without tags, wake up everything at once.
PARTS = ("weights", "kv_cache")
RECORDS = ("held", "free", "start", "cycles", "after")
UPDATES = 2
# Turns of all levels, whole and in parts, without weights that come after level 1 and with them.
TOLD = 4


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    levels = list(arguments["levels"])
    sleeper = _Sleeper(running)
    unread: dict[str, str] = {}
    try:
        sleeper.learn()
    except (TrainerError, SyncError) as why:
        unread["update"] = str(why)
        if 2 in levels:
            levels.remove(2)
            unread.update(dict.fromkeys(("level 2", *(() if levels else RECORDS)), str(why)))
        running.record("unread", unread)
    if not levels:
        return
    running.record("held", _held(running))
    names = ["start", "second"]
    # The first ones last.
    for number in reversed(range(len(sleeper.updates) or 1)):
        sleeper.send(number)
        # Twice: the second time the prompt is in the prefix cache.
        _reported(running)
        running.record(names[number], _reported(running))
    running.record("free", {"before": _free()})
    done: list[dict[str, Any]] = []
    after: list[dict[str, Any]] = []
    for number in range(arguments["cycles"]):
        level, parts = levels[number % len(levels)], number // len(levels) % 2 == 1
        try:
            done.append(sleeper.cycle(level, parts, update=level == 2 or number // len(levels) % TOLD == TOLD - 1))
            running.record("cycles", done)
            if number < TOLD * len(levels) or number >= arguments["cycles"] - len(levels):
                told = {"parts": done[-1]["parts"], "weights": sleeper.sent}
                after.append({"level": level, "cycle": number + 1, **told, **_reported(running)})
                running.record("after", after)
        except Exception as error:
            running.record("failed", {"level": level, "cycle": number + 1, "exceptions": chain(error)})
            break
    running.record("reach", {"requests": 2 + len(after), "cycles": len(done), "ranks": 1})


class _Sleeper:
    """Puts the engine to sleep and wakes it up."""

    def __init__(self, running: RunningEngine) -> None:
        self.running = running
        self.updates: list[dict[str, Any]] = []
        self.sent = 0
        self.by_tags = "tags" in inspect.signature(running.engine.wake_up).parameters

    def learn(self) -> None:
        """Makes weights that are not those of the boot, which are what level 2 throws away, and sends them. Raises
        :class:`TrainerError` and :class:`SyncError`."""
        self.sync, trainer = Sync(self.running, one_by_one=False), Trainer(self.running)
        chance = torch.Generator().manual_seed(SEED)
        own = trainer.weights()
        changed = [{name: noisy(tensor, CHANGED, chance) for name, tensor in own.items()} for _ in range(UPDATES)]
        try:
            updates = [trainer.as_saved(one) for one in changed]
            self.sync.send(updates[0].items())
        except Exception as error:  # the weights scenario tells what an engine does not take
            raise SyncError(f"the engine takes no new weights: {type(error).__name__}: {error}") from error
        self.updates = updates

    def send(self, number: int) -> None:
        """Weights of another kind than those that the engine has, which forgets what it computed with them."""
        if self.updates:
            self.sync.send(self.updates[number].items())
            self.running.engine.reset_prefix_cache()
            self.sent = number

    def cycle(self, level: int, parts: bool, update: bool) -> dict[str, Any]:
        """Level 2 needs weights; where there are none an ``update`` is left out."""
        engine = self.running.engine
        engine.sleep(level=level)
        asleep = _free()
        parts = parts and self.by_tags
        for tags in [[tag] for tag in PARTS] if parts else [None]:
            engine.wake_up(**({"tags": tags} if tags else {}))
            if update and self.updates and tags != [PARTS[1]]:
                self.sent = 1 - self.sent
                self.sync.send(self.updates[self.sent].items())
        # Nobody resets the prefix cache here: the engine has to forget what it loses.
        return {"level": level, "parts": parts, "asleep": asleep, "awake": _free()}


def _free() -> int:
    return int(torch.cuda.mem_get_info()[0])


def _held(running: RunningEngine) -> int:
    worker = first(running.engine, WORKERS)
    model = first(worker, MODELS) if worker is not None else None
    if model is None:
        return 0
    found = [*model.parameters(), *(tensor for _, tensor in tensors(first(worker, CACHES), "cache"))]
    return sum(tensor.numel() * tensor.element_size() for tensor in found)


def _reported(running: RunningEngine) -> dict[str, Any]:
    from vllm import SamplingParams

    scored = SamplingParams(max_tokens=1, temperature=1.0, prompt_logprobs=1)
    more: dict[str, Any] = {"logprobs": running.tops(TOPS), "ignore_eos": True}
    longest = min(MOST_SCORED, running.limit - DRAWN_TOKENS - 1)
    short = min(SEEN_TOKENS, longest)
    fixed, seen, drawn = (
        running.engine.generate([{"prompt_token_ids": prompt}], asked, use_tqdm=False)[0]
        for prompt, asked in (
            (covering(running, longest), scored),
            (running.prompt(short, salt=2), SamplingParams(temperature=0.0, **more, max_tokens=GREEDY_TOKENS)),
            (running.prompt(short, salt=3), SamplingParams(temperature=1.0, **more, max_tokens=DRAWN_TOKENS)),
        )
    )
    answer = seen.outputs[0]
    reported = {"token_ids": list(answer.token_ids), "logprobs": logprobs(answer), "tops": tops(answer)}
    return {
        "scores": prompt_logprobs(fixed)[1:],
        "seen": reported,
        "drawn": list(drawn.outputs[0].token_ids),
        "free_blocks": running.free_blocks,
    }
