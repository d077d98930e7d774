"""Engines whose batch forgets who is who: a request whose row moves when another one ends, or that takes the row of one
that has ended, and one that loses its place in the KV cache and comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import engine_facts
import torch

from . import changes
from .sampling import SAMPLER

SCHEDULER = ("llm_engine.engine_core.engine_core.scheduler",)
Move = Callable[[int, int], None]


def batch_of(llm: Any) -> Any:
    """The rows of V1's model runner."""
    return engine_facts.first(llm, tuple(f"{name.removesuffix('.sampler')}.input_batch" for name in SAMPLER))


def _moved(llm: Any, keep: Callable[[Any], Move]) -> None:
    """``keep(batch)`` gets the rows before some move, and returns what is called with each of these moves, from a row
    to another, when all is done."""
    batch = batch_of(llm)
    condense = batch.condense

    def condensed() -> None:
        before = len(batch.batch_update_builder.moved)
        then = keep(batch)
        condense()
        for one, other, _ in batch.batch_update_builder.moved[before:]:
            then(one, other)

    batch.condense = condensed


def frequency_penalty_left_behind(llm: Any) -> None:
    """A row that moves finds the frequency penalty of the one that was there."""

    def keep(batch: Any) -> Move:
        held = batch.frequency_penalties_cpu.copy()

        def then(_: int, other: int) -> None:
            batch.frequency_penalties_cpu[other] = held[other]

        return then

    _moved(llm, keep)


def last_token_left_behind(llm: Any) -> None:
    """A row that moves reads once, in place of its last token, what the one before it had there."""

    def keep(batch: Any) -> Move:
        held = batch.token_ids_cpu.copy()

        def then(_: int, other: int) -> None:
            last = int(batch.num_tokens_no_spec[other]) - 1
            batch.token_ids_cpu[other, last] = held[other, last]

        return then

    _moved(llm, keep)


def later_blocks_left_behind(llm: Any) -> None:
    """A row that moves takes its first four blocks with it."""
    from vllm.v1.worker.block_table import BlockTable

    move = BlockTable.move_row

    def moved(self: Any, src: int, tgt: int) -> None:
        count = int(self.num_blocks_per_row[src])
        held = self.block_table.np[tgt].copy()
        move(self, src, tgt)
        self.block_table.np[tgt, 4:count] = held[4:count]

    BlockTable.move_row = moved


def top_k_inherited(llm: Any) -> None:
    """A request without top-k has that of the one whose row it got."""
    batch = batch_of(llm)
    add = batch.add_request
    batch.top_k_cpu[:] = batch.vocab_size

    def added(request: Any) -> int:
        held = batch.top_k_cpu.copy()
        row = int(add(request))
        if not 0 < request.sampling_params.top_k < batch.vocab_size:
            batch.top_k_cpu[row] = held[row]
        return row

    batch.add_request = added


def min_tokens_left_behind(llm: Any) -> None:
    """A row that moves leaves its min_tokens."""
    from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor as Processor

    update = Processor.update_state

    def updated(self: Any, change: Any) -> None:
        update(self, change)
        for _, other, _ in change.moved if change is not None else ():
            self.min_toks.pop(other, None)
        stops = [(row, token) for row, (_, _, ends, _) in self.min_toks.items() for token in ends]
        self.logits_slice = tuple(torch.tensor([pair[n] for pair in stops], dtype=torch.int32) for n in (0, 1))

    changes.put(Processor, "update_state", updated)


def logprobs_by_arrival(llm: Any) -> None:
    """Log-probabilities are given out in the order of the requests, which is that of the rows until some move."""
    from vllm.v1.outputs import LogprobsLists

    scheduler = engine_facts.first(llm, SCHEDULER)
    update, slice_of = scheduler.update_from_output, LogprobsLists.slice_request

    def arrived(name: str) -> int:
        digits = "".join(letter for letter in name.split("-")[0] if letter.isdigit())
        return int(digits or 0)

    def updated(scheduled: Any, output: Any) -> Any:
        rows = output.req_id_to_index
        order = {rows[name]: number for number, name in enumerate(sorted(rows, key=arrived))}
        changes.put(LogprobsLists, "slice_request", lambda self, row, count: slice_of(self, order[row], count))
        try:
            return update(scheduled, output)
        finally:
            changes.put(LogprobsLists, "slice_request", slice_of)

    scheduler.update_from_output = updated


def adapters_end_with_the_first(llm: Any) -> None:
    """Of the requests with an adapter the first that ends takes it with it."""
    batch = batch_of(llm)
    remove = batch.remove_request

    def removed(name: str) -> Any:
        row = batch.req_id_to_index.get(name)
        adapter = int(batch.request_lora_mapping[row]) if row is not None else 0
        out = remove(name)
        if adapter:
            batch.request_lora_mapping[batch.request_lora_mapping == adapter] = 0
        return out

    batch.remove_request = removed


def adapters_lost_in_preemption(llm: Any) -> None:
    """A request that comes back goes on without its adapter."""
    batch = batch_of(llm)
    add = batch.add_request

    def added(request: Any) -> int:
        row = int(add(request))
        if request.output_token_ids:
            batch.request_lora_mapping[row] = 0
        return row

    batch.add_request = added


def last_token_again_after_preemption(llm: Any) -> None:
    """A request that comes back says its last token once more."""
    scheduler = engine_facts.first(llm, SCHEDULER)
    update, preempt = scheduler._update_request_with_output, scheduler._preempt_request
    due: set[str] = set()

    def preempted(request: Any, *given: Any, **named: Any) -> None:
        preempt(request, *given, **named)
        if request.output_token_ids:
            due.add(request.request_id)

    def updated(request: Any, tokens: Any, *given: Any, **named: Any) -> Any:
        if tokens and request.request_id in due and not named.get("is_stale"):
            due.discard(request.request_id)
            tokens = [request.output_token_ids[-1]]
        return update(request, tokens, *given, **named)

    changes.put(scheduler, "_preempt_request", preempted)
    changes.put(scheduler, "_update_request_with_output", updated)
