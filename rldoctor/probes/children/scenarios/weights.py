"""New weights for a running engine: does it follow the trainer's, forget what it cached, and refuse what does not fit?

Arguments: ``prompt`` and ``response`` (tokens, the most that is to be used), ``one_by_one`` (how the framework sends),
``as_saved`` (whether under the names of checkpoints, not those of the trainer's parameters).
Records: ``way`` (``name`` None where there is none, ``why``), ``change`` (``strength``, ``moved``: mean absolute
change of the trainer's log-probabilities), ``before`` and ``after`` (rows: ``request``, ``seen`` before the update,
``engine``, ``trainer``, and after it ``old`` for the trainer's former weights), ``rejected`` (``what`` was sent that
should have been taken, ``exceptions``; the last record then), ``sensitivity`` (for each layer, and each tensor, what
the trainer tells of the same tokens where that part alone is old), ``vocabulary`` (after the update: ``token_ids`` of
a prompt that takes tokens from the whole vocabulary, with ``engine`` and ``trainer`` for all but the first), ``many``
(rows of prompts that come with several completions each, after the update: ``engine``, ``trainer``),
``scores`` (of fixed tokens after the sync, after the same ``again``, in ``float32`` and as ``views``), ``refusals``
(``name`` and ``shape``: ``sent``, ``exceptions`` or None, ``scores`` before and after), ``restored`` (scores at the
start and with the old weights back), ``again`` (rows of the seen prompts then, ``engine`` and ``trainer``),
``reach``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from report import chain
from running_engine import RunningEngine, covering, scored
from syncing import Snapshot, Sync, SyncError
from trainer import Trainer, TrainerError, noisy

REQUESTS = 3
# Completions of each prompt of a larger batch: graphs of steps are captured by their size.
GROUP = 3
# Every tensor changes by this part of its own spread, more where that moves the log-probabilities too little.
STRENGTH, MOVED, MOST_DOUBLINGS = 0.3, 0.5, 5
SEED = 7
SCORED, SCORED_TOKENS = 2, 48
# Layers and tensors that are tried as the old ones.
MOST_PARTS = 64


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    try:
        trainer, sync = Trainer(running), Sync(running, arguments["one_by_one"])
    except (TrainerError, SyncError) as why:
        running.record("way", {"name": None, "why": str(why)})
        return
    running.record("way", {"name": sync.name, "why": sync.why})
    running.record("trainer", trainer.facts())
    try:
        _Play(running, arguments, trainer, sync).run()
    except _RejectedError as error:
        running.record("rejected", {"what": str(error), "exceptions": chain(error.__cause__ or error)})


class _RejectedError(Exception):
    """The engine raised at weights that it should have taken."""


class _Play:
    def __init__(self, running: RunningEngine, arguments: dict[str, Any], trainer: Trainer, sync: Sync) -> None:
        self.running, self.trainer, self.sync, self.response = running, trainer, sync, arguments["response"]
        self.named = trainer.as_saved if arguments["as_saved"] else dict
        self.longest = arguments["prompt"]
        # Only full blocks are found again in the prefix cache.
        length = min(2 * running.block + 8, self.longest)
        salts = {"seen": 0, "new": 50, "many": 80}
        self.prompts = {
            f"{kind} {i}": running.prompt(length, salt=salt + i)
            for kind, salt in salts.items()
            for i in range(REQUESTS)
        }
        self.tokens = 0

    def run(self) -> None:
        old, start = self.trainer.weights(), self._score()
        seen = self._sampled("seen")
        # What is wrong in larger batches before is no matter of the update.
        before = [*seen, *self._sampled("many", GROUP)]
        self._reported(before, "trainer")
        self.running.record("before", before)
        new = self._changed(old, seen)
        sent = self.named(new)
        self._send("the trainer's weights", sent)
        self.running.engine.reset_prefix_cache()
        after = [*self._sampled("seen"), *self._sampled("new")]
        self._reported(after, "trainer")
        self._vocabulary()
        many = self._sampled("many", GROUP)
        self._reported(many, "trainer")
        self.running.record("many", many)
        self.running.record("sensitivity", self._sensitivity(old, new, [row for row in after if not row["seen"]]))
        self.trainer.load(old)
        self._reported(after, "old")
        self.running.record("after", after)
        self._scores(sent)
        self._refusals(sent)
        # In the prefix cache once more, which other requests have filled since, and asked for before these do again:
        # what they find there is of the weights of before, if the reset did nothing.
        self._sampled("seen")
        self._send("the weights of before", self.named(old))
        self.running.engine.reset_prefix_cache()
        again = self._sampled("seen")
        self.running.record("restored", {"start": start, "end": self._score()})
        self._reported(again, "trainer")
        self.running.record("again", again)
        longest = max(map(len, self.prompts.values())) + self.response
        self.running.record(
            "reach",
            {
                "requests": len(before) + len(after) + len(many) + len(again),
                "compared_tokens": self.tokens,
                "longest": longest,
                "ranks": 1,
            },
        )

    def _send(self, what: str, weights: dict[str, Any]) -> None:
        try:
            self.sync.send(weights.items())
        except Exception as error:
            raise _RejectedError(what) from error

    def _sampled(self, kind: str, completions: int = 1) -> list[dict[str, Any]]:
        given = {"temperature": 1.0, "max_tokens": self.response, "logprobs": 1, "ignore_eos": True, "n": completions}
        asked = {name: (prompt, given) for name, prompt in self.prompts.items() if name.startswith(kind)}
        rows = self.running.generate(asked)
        self.tokens += sum(len(row["token_ids"]) for row in rows)
        return [
            {"request": r["request"], "seen": kind == "seen", "token_ids": r["token_ids"], "engine": r["logprobs"]}
            for r in rows
        ]

    def _reported(self, rows: list[dict[str, Any]], name: str) -> None:
        for row, reported in zip(rows, self.trainer.of_rows(rows, self.prompts.__getitem__)):  # noqa: B905 - Python 3.9
            row[name] = reported

    def _changed(self, old: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
        """New weights, in the trainer too, that move its log-probabilities well beyond noise."""
        strength = STRENGTH
        for _ in range(MOST_DOUBLINGS + 1):
            chance = torch.Generator().manual_seed(SEED)
            new = {name: noisy(tensor, strength, chance) for name, tensor in old.items()}
            self.trainer.load(new)
            reported = self.trainer.of_rows(rows, self.prompts.__getitem__)
            steps = [abs(a - b) for row, now in zip(rows, reported) for a, b in zip(row["trainer"], now)]  # noqa: B905
            moved = sum(steps) / len(steps)
            if moved >= MOVED:
                break
            strength *= 2
        self.running.record("change", {"strength": strength, "moved": moved, "tensors": len(old)})
        return new

    def _sensitivity(self, old: dict[str, Any], new: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
        reported = {}
        for part in list(dict.fromkeys((*map(_part, old), *old)))[:MOST_PARTS]:
            names = [name for name in old if part in (name, _part(name))]
            self.trainer.load({name: old[name] for name in names})
            reported[part] = self.trainer.of_rows(rows, self.prompts.__getitem__)
            self.trainer.load({name: new[name] for name in names})
        return reported

    def _vocabulary(self) -> None:
        """A row of the embedding or of the head that stayed the old one."""
        ids = covering(self.running, self.longest)
        (engine,) = scored(self.running, [ids])
        trainer = self.trainer.log_probabilities(ids[:1], ids[1:])[0]
        self.running.record("vocabulary", {"token_ids": ids, "engine": engine[1:], "trainer": trainer})

    def _score(self) -> list[Any]:
        """Log-probabilities of fixed tokens, some of them from the whole vocabulary, none from the prefix cache."""
        prompts = [self.running.prompt(SCORED_TOKENS, salt=200 + i) for i in range(SCORED)]
        prompts.append(covering(self.running, self.longest))
        return [value for values in scored(self.running, prompts) for value in values[1:]]

    def _scores(self, new: dict[str, Any]) -> None:
        scores = {"sync": self._score()}
        ways = {
            "again": (new, "once more"),
            "float32": ({name: tensor.float() for name, tensor in new.items()}, "in float32"),
            "views": ({name: _view(tensor) for name, tensor in new.items()}, "as views of other memory"),
        }
        for name, (sent, how) in ways.items():
            self._send(f"the same weights {how}", sent)
            scores[name] = self._score()
            self.running.record("scores", scores)

    def _refusals(self, new: dict[str, Any]) -> None:
        name = next(name for name in reversed(list(new)) if new[name].dim() == 2 and _part(name) != name)
        module, _, kind = name.rpartition(".")
        wrong = {
            "name": (f"{module}_of_another_model.{kind}", new[name]),
            "shape": (name, new[name][:-1]),
        }
        reported = {}
        for what, (label, tensor) in wrong.items():
            before, kept = self._score(), Snapshot(self.sync.model)
            raised = _attempt(functools.partial(self.sync.send, [(label, tensor)]))
            after = None if raised else self._score()
            sent = f"{label} {list(tensor.shape)}"
            reported[what] = {"sent": sent, "exceptions": raised, "before": before, "after": after}
            self.running.record("refusals", reported)
            kept.put_back()
            self._send(f"weights after one of a wrong {what}", new)


def _view(tensor: Any) -> Any:
    """The same numbers, which are no piece of memory of their own: of matrices columns stand behind each other, of
    vectors every second number is another one's. Trainers send parts of what they hold."""
    if tensor.dim() > 1:
        return tensor.transpose(0, 1).contiguous().transpose(0, 1)
    return torch.stack([tensor, -tensor], dim=-1)[..., 0]


def _attempt(act: Callable[[], None]) -> list[dict[str, Any]] | None:
    try:
        act()
    except Exception as error:
        return chain(error)
    return None


def _part(name: str) -> str:
    """The layer that a parameter belongs to, else its own name."""
    layer = re.match(r".*?\.\d+\.", name)
    return layer[0].rstrip(".") if layer else name
