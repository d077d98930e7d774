"""Engines that are a little off: what rounding hides in bfloat16."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import engine_facts
import torch

from . import changes

MODEL = tuple(f"{worker}.model_runner.model" for worker in engine_facts.WORKERS)
RUNNER = tuple(f"{worker}.model_runner" for worker in engine_facts.WORKERS)
# Decode steps of the scenarios hold a token for each of so many requests at most; prompts are longer.
DECODING = 16


def model_of(llm: Any) -> Any:
    return engine_facts.first(llm, MODEL)


def layer_of(llm: Any, index: int = 1) -> Any:
    return model_of(llm).model.layers[index]


def attentions(llm: Any) -> list[Any]:
    return [module for module in model_of(llm).modules() if type(module).__name__ == "Attention"]


def block_size(llm: Any) -> int:
    return int(engine_facts.first(llm, ("llm_engine.vllm_config.cache_config",)).block_size)


def metadata_of(named: Any) -> Any:
    """What the attention of the step under way is told: one for each layer, or one for all."""
    from vllm.forward_context import get_forward_context

    told = get_forward_context().attn_metadata
    return next(iter(told.values())) if isinstance(told, dict) else told


# Weights. CPU builds pack matrices, so their products are changed.


def _scaled(module: Any, factor: float, columns: slice = slice(None)) -> None:
    def change(_: Any, out: Any) -> Any:
        out = out.clone()
        out[..., columns] *= factor
        return out

    changes.after(module, change)


def layer_off(llm: Any) -> None:
    """One matrix of one layer, off by half a percent."""
    _scaled(layer_of(llm).mlp.down_proj, 1.005)


def first_layer_off(llm: Any) -> None:
    _scaled(layer_of(llm, 0).self_attn.o_proj, 1.005)


def head_off(llm: Any) -> None:
    """The values of one query head reach the output a percent too large."""
    size = layer_of(llm).self_attn.head_dim

    def change(given: Any) -> Any:
        given = given.clone()
        given[..., :size] *= 1.01
        return (given,)

    changes.before(layer_of(llm).self_attn.o_proj, change)


def key_row_off(llm: Any) -> None:
    """One row of the key matrix, off by five percent."""
    attention = layer_of(llm).self_attn
    _scaled(attention.qkv_proj, 1.05, slice(attention.q_size + 7, attention.q_size + 8))


def norm_off(llm: Any) -> None:
    """One weight of one layer norm, off by five percent."""
    weight = layer_of(llm).post_attention_layernorm.weight
    values = weight.detach().clone()
    values[5] *= 1.05
    weight.data.copy_(values)


def norm_not_loaded(llm: Any) -> None:
    """A layer norm that kept what it was made with."""
    weight = layer_of(llm).input_layernorm.weight
    weight.data.copy_(torch.ones_like(weight))


def bias_dropped(llm: Any) -> None:
    projection = layer_of(llm).self_attn.qkv_proj
    changes.after(projection, lambda _, out: out - projection.bias)


def last_embedding_off(llm: Any) -> None:
    """The last row of the embedding, off by five percent."""
    last = model_of(llm).config.vocab_size - 1
    changes.after(
        model_of(llm).model.embed_tokens, lambda given, out: torch.where((given[0] == last)[:, None], out * 1.05, out)
    )


def last_logit_off(llm: Any) -> None:
    """The last row of the head, off by twenty percent."""
    _logits(llm, lambda logits: logits[:, -1].mul_(1.2))


def bfloat16_layer(llm: Any) -> None:
    """One matrix whose product is rounded to bfloat16."""
    changes.after(layer_of(llm).mlp.down_proj, lambda _, out: out.bfloat16().to(out.dtype))


def bfloat16_keys(llm: Any) -> None:
    """A KV cache in bfloat16 under a model in float32."""
    for module in attentions(llm):
        changes.before(module, lambda query, key, value, *rest: (query, key.bfloat16().to(key), value, *rest))


# Logits and what is told of them.


def _logits(llm: Any, change: Any) -> None:
    model = model_of(llm)
    compute = model.compute_logits

    def changed(*given: Any, **named: Any) -> Any:
        logits = compute(*given, **named)
        if logits is not None:
            change(logits)
        return logits

    changes.put(model, "compute_logits", changed)


def one_token_masked(llm: Any) -> None:
    """One ordinary token can never come."""
    _logits(llm, lambda logits: logits[:, 65].fill_(float("-inf")))


def softcapped(llm: Any) -> None:
    """Logits that are capped, and should not be."""
    _logits(llm, lambda logits: logits.copy_(100 * torch.tanh(logits / 100)))


def _logprobs(llm: Any, change: Any) -> None:
    sampler = engine_facts.first(llm, tuple(f"{runner}.sampler" for runner in RUNNER))
    compute = sampler.compute_logprobs
    changes.put(sampler, "compute_logprobs", lambda logits: change(compute(logits)))


def logprobs_scaled(llm: Any) -> None:
    _logprobs(llm, lambda values: values * 1.02)


def logprobs_shifted(llm: Any) -> None:
    _logprobs(llm, lambda values: values + 0.01)


def logprobs_of_the_neighbour(llm: Any) -> None:
    """Each request is told the log-probabilities of the next one's place."""
    _logprobs(llm, lambda values: values.roll(1, 0))


# Positions.


def _positions(llm: Any, change: Any) -> None:
    changes.before_named(model_of(llm), lambda named: {"positions": change(named["positions"])})


def decode_one_late(llm: Any) -> None:
    """Tokens that are decoded get the position before their own."""
    _positions(llm, lambda p: (p - 1).clamp(min=0) if p.numel() <= DECODING else p)


def batches_one_late(llm: Any) -> None:
    """Positions of all but the first of a step's prompts begin one late: seen only where prompts share a step."""

    def late(positions: Any) -> Any:
        starts = (positions[1:] != positions[:-1] + 1).nonzero().flatten()
        if positions.numel() <= DECODING or not len(starts):
            return positions
        moved = positions.clone()
        moved[int(starts[0]) + 1 + 8 :] += 1
        return moved

    _positions(llm, late)


def _late_after(llm: Any, border: int) -> None:
    _positions(llm, lambda p: torch.where(p > border, p - 1, p))


def one_late_after_16(llm: Any) -> None:
    _late_after(llm, 16)


def one_late_after_64(llm: Any) -> None:
    _late_after(llm, 64)


def _tables(llm: Any, change: Any) -> None:
    """``change(row numbers, frequencies)`` gives the angles of each rotary table."""
    config = model_of(llm).config
    for module in {id(m): m for m in model_of(llm).modules() if getattr(m, "cos_sin_cache", None) is not None}.values():
        table = module.cos_sin_cache
        rows, size = table.shape
        base = (getattr(config, "rope_parameters", None) or {}).get("rope_theta", 1000000.0)
        frequencies = base ** (-torch.arange(0, size, 2).double() / size)
        angles = change(torch.arange(rows).double()[:, None], frequencies[None], base)
        table.data.copy_(torch.cat([angles.cos(), angles.sin()], dim=-1).to(table))


def rotary_base_off(llm: Any) -> None:
    """A base that is one percent off."""
    _tables(llm, lambda rows, at, base: rows * at * (1.01 ** -torch.linspace(0, 1, at.shape[1]).double()))


def rotary_scaled(llm: Any) -> None:
    """Positions that are stretched by half a percent."""
    _tables(llm, lambda rows, at, base: rows * at / 1.005)


def last_rotary_row(llm: Any) -> None:
    """The last row of the rotary table holds nothing."""
    for module in model_of(llm).modules():
        table = getattr(module, "cos_sin_cache", None)
        if table is not None and float(table[-1].abs().sum()) > 0:
            values = table.clone()
            values[-1] = 0.0
            table.data.copy_(values)


# Attention and the KV cache.


def attention_scale_off(llm: Any) -> None:
    """Scores that are one percent too large."""
    for module in attentions(llm):
        changes.before(module, lambda query, *rest: (query * 1.01, *rest))


def _keys(llm: Any, wrong: Any, factor: float = 1.05) -> None:
    """Keys at the positions that ``wrong`` names are a little too long."""
    seen: list[Any] = []

    def watch(named: dict[str, Any]) -> dict[str, Any]:
        seen[:] = [named["positions"]]
        return {}

    changes.before_named(model_of(llm), watch)
    for module in attentions(llm):

        def spoil(query: Any, key: Any, *rest: Any) -> Any:
            at = wrong(seen[0])
            if at is None or not bool(at.any()):
                return None
            key = key.clone()
            key[: len(at)][at] *= factor
            return (query, key, *rest)

        changes.before(module, spoil)


def keys_off_at_block_ends(llm: Any) -> None:
    size = block_size(llm)
    _keys(llm, lambda positions: positions % size == size - 1)


def keys_off_where_decoding_begins_a_block(llm: Any) -> None:
    size = block_size(llm)
    _keys(llm, lambda positions: positions % size == 0 if positions.numel() <= DECODING else None, 2.0)


def keys_off_at_chunk_ends(llm: Any) -> None:
    """Where prompts are prefilled in chunks, the key of a chunk's last token is five percent too long."""
    config = engine_facts.first(llm, ("llm_engine.vllm_config.scheduler_config",))
    if not config.enable_chunked_prefill:
        return
    budget = config.max_num_batched_tokens

    def last(positions: Any) -> Any:
        if positions.numel() < budget:
            return None
        at = torch.zeros_like(positions, dtype=torch.bool)
        at[budget - 1] = True
        return at

    _keys(llm, last)


def _tables_of_blocks(llm: Any, change: Any) -> None:
    """``change(metadata)`` before the attention of every layer; what it changed is put back after it."""
    for module in attentions(llm):

        def spoil(*_: Any) -> None:
            change(metadata_of(None))

        changes.before(module, spoil)


def another_requests_block(llm: Any) -> None:
    """In a step of several requests the second reads the first one's first block."""

    def swapped(metadata: Any) -> None:
        if metadata is not None and len(metadata.seq_lens) > 1:
            metadata.block_table[1, 0] = metadata.block_table[0, 0]

    _tables_of_blocks(llm, swapped)


def prefixes_by_all_but_the_last_token(llm: Any) -> None:
    """Blocks are found again though their last token differs."""
    from vllm.v1.core import kv_cache_utils

    hashed = kv_cache_utils.hash_block_tokens

    def careless(function: Any, parent: Any, tokens: Any, *more: Any) -> Any:
        return hashed(function, parent, [*list(tokens)[:-1], 0], *more)

    changes.put(kv_cache_utils, "hash_block_tokens", careless)


# Text and adapters.


def adapters_without_scale(llm: Any) -> None:
    """``W + B A`` in place of ``W + alpha / r B A``."""
    from vllm.lora.lora_weights import LoRALayerWeights

    changes.put(LoRALayerWeights, "optimize", lambda self: self)


def epsilon_of_norms(llm: Any) -> None:
    """Norms add a thousandth to the variance, not a millionth."""
    for module in model_of(llm).modules():
        if hasattr(module, "variance_epsilon"):
            changes.put(module, "variance_epsilon", 1e-3)


def another_activation(llm: Any) -> None:
    """GELU in place of SiLU in one layer."""

    def gelu(given: Any, _: Any) -> Any:
        gate, up = given[0].chunk(2, dim=-1)
        return torch.nn.functional.gelu(gate) * up

    changes.after(layer_of(llm).mlp.act_fn, gelu)


def one_head_zeroed(llm: Any) -> None:
    size = layer_of(llm).self_attn.head_dim

    def change(given: Any) -> Any:
        given = given.clone()
        given[..., size : 2 * size] = 0.0
        return (given,)

    changes.before(layer_of(llm, 0).self_attn.o_proj, change)


def kv_heads_exchanged(llm: Any) -> None:
    """Query heads read the other one of two KV heads."""

    def exchanged(query: Any, key: Any, value: Any, *rest: Any) -> Any:
        half = key.shape[-1] // 2
        return (query, key.roll(half, -1), value.roll(half, -1), *rest)

    changes.before(attentions(llm)[1], exchanged)


def epsilon_of_one_norm(llm: Any) -> None:
    changes.put(layer_of(llm).input_layernorm, "variance_epsilon", 1e-4)


def last_frequency_not_rotated(llm: Any) -> None:
    """The last pair of values of each head has no position."""
    _tables(llm, lambda rows, at, base: rows * torch.cat([at[:, :-1], torch.zeros_like(at[:, -1:])], dim=1))


def residual_scaled(llm: Any) -> None:
    """What the first layer adds to the stream is 0.2 percent too large."""
    changes.after(layer_of(llm, 0), lambda given, out: out * 1.002)


def logits_in_bfloat16(llm: Any) -> None:
    _logits(llm, lambda logits: logits.copy_(logits.bfloat16().float()))


def first_key_empty(llm: Any) -> None:
    _keys(llm, lambda positions: positions == 0, 0.0)


def values_off_beyond_700(llm: Any) -> None:
    """In steps with a sequence of 700 tokens or more the last value is a tenth too large."""

    def spoil(query: Any, key: Any, value: Any, *rest: Any) -> Any:
        metadata = metadata_of(None)
        if metadata is None or int(max(metadata.seq_lens)) < 700:
            return None
        value = value.clone()
        value[-1] *= 1.1
        return (query, key, value, *rest)

    for module in attentions(llm):
        changes.before(module, spoil)


def last_row_of_full_batches_off(llm: Any) -> None:
    """In steps of as many tokens as a captured graph the last row is a percent too large."""

    def change(_: Any, out: Any) -> Any:
        if out.shape[0] not in (4, 8, 16, 32):
            return out
        out = out.clone()
        out[-1] *= 1.01
        return out

    changes.after(layer_of(llm).mlp.down_proj, change)


def prefixes_without_what_is_before(llm: Any) -> None:
    """Blocks are found again whatever stands before them."""
    from vllm.v1.core import kv_cache_utils

    hashed = kv_cache_utils.hash_block_tokens

    def careless(function: Any, parent: Any, tokens: Any, *more: Any) -> Any:
        return hashed(function, None, tokens, *more)

    changes.put(kv_cache_utils, "hash_block_tokens", careless)


def logprobs_in_bfloat16(llm: Any) -> None:
    _logprobs(llm, lambda values: values.bfloat16().float())


def logprobs_at_least_minus_eight(llm: Any) -> None:
    _logprobs(llm, lambda values: values.clamp(min=-8.0))


def decoded_values_off(llm: Any) -> None:
    """Values of tokens that are decoded are two percent too large."""

    def spoil(query: Any, key: Any, value: Any, *rest: Any) -> Any:
        return (query, key, value * 1.02, *rest) if value.shape[0] <= DECODING else None

    changes.before(attentions(llm)[1], spoil)


def fourth_block_read_twice(llm: Any) -> None:
    """Sequences read their fourth block in place of the fifth."""

    def twice(metadata: Any) -> None:
        if metadata is not None and metadata.block_table.shape[1] > 4:
            metadata.block_table[:, 4] = metadata.block_table[:, 3]

    _tables_of_blocks(llm, twice)


def attention_scale_of_one_layer_off(llm: Any) -> None:
    changes.before(attentions(llm)[1], lambda query, *rest: (query * 1.02, *rest))


def last_norm_not_loaded(llm: Any) -> None:
    weight = model_of(llm).model.norm.weight
    weight.data.copy_(torch.ones_like(weight))


def logits_scaled(llm: Any) -> None:
    """Logits half a percent too large."""
    _logits(llm, lambda logits: logits.mul_(1.005))


def positions_in_bfloat16(llm: Any) -> None:
    """Positions beyond 256 are rounded."""
    _positions(llm, lambda p: p.bfloat16().to(p.dtype))


def rotary_in_bfloat16(llm: Any) -> None:
    """The rotary table is rounded under a model in float32."""
    for module in model_of(llm).modules():
        table = getattr(module, "cos_sin_cache", None)
        if table is not None:
            table.data.copy_(table.bfloat16().to(table.dtype))


def prefixes_of_one_byte(llm: Any) -> None:
    """Blocks are told apart by one byte of their hash."""
    from vllm.v1.core import kv_cache_utils

    hashed = kv_cache_utils.hash_block_tokens
    changes.put(kv_cache_utils, "hash_block_tokens", lambda *given: hashed(*given)[:1])


def rows_beyond_eight_off(llm: Any) -> None:
    """In steps of more than eight requests the later ones' logits are a percent too large."""
    _logits(llm, lambda logits: logits[8:].mul_(1.01))


def neighbours_mixed(llm: Any) -> None:
    """A thousandth of the next request's logits is in each request's own."""
    _logits(llm, lambda logits: logits.add_(logits.roll(1, 0) - logits, alpha=0.003))


# Windows of attention.


def window_a_token_less(llm: Any) -> None:
    for module in attentions(llm):
        module.impl.sliding_window -= 1


def window_of_one_layer_ignored(llm: Any) -> None:
    attentions(llm)[-1].impl.sliding_window = -1


# Experts.


def router_in_bfloat16(llm: Any) -> None:
    changes.after(layer_of(llm).mlp.gate, lambda _, out: out.bfloat16().to(out.dtype))


def an_expert_never_chosen(llm: Any) -> None:
    def masked(_: Any, out: Any) -> Any:
        out = out.clone()
        out[..., 3] = float("-inf")
        return out

    changes.after(layer_of(llm).mlp.gate, masked)


def shares_of_experts_too_small(llm: Any) -> None:
    """What the chosen experts count for does not add up to one."""
    _scaled(layer_of(llm).mlp, 0.98)


# Requests that lose their place in the KV cache.


def resumed_without_its_first_block(llm: Any) -> None:
    """A request that lost its blocks computes all but the first again: there is what another one left."""
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    preempt, block = scheduler._preempt_request, block_size(llm)

    def preempted(request: Any, *given: Any, **named: Any) -> None:
        preempt(request, *given, **named)
        # The scheduler's own books refuse what would leave nothing to compute.
        request.num_computed_tokens = block if request.num_tokens > block else 0

    changes.put(scheduler, "_preempt_request", preempted)


def chunks_begin_a_token_early(llm: Any) -> None:
    """The first token of a chunk that goes on with a prompt gets the position before its own."""

    def early(positions: Any) -> Any:
        if positions.numel() <= DECODING or int(positions[0]) == 0:
            return positions
        return torch.cat([positions[:1] - 1, positions[1:]])

    _positions(llm, early)


def values_in_eight_bits(llm: Any) -> None:
    """Values pass through eight bits on their way to the cache."""
    for module in attentions(llm):
        changes.before(module, lambda q, k, value, *rest: (q, k, value.to(torch.float8_e4m3fn).to(value), *rest))


def _requests_of_a_step() -> list[tuple[int, int]]:
    """Where each request of the step under way begins among its tokens, and where it ends; none while warming up."""
    told = metadata_of(None)
    starts = [] if told is None else told.query_start_loc.tolist()
    return list(pairwise(starts))


def decode_beside_prompts_late(llm: Any) -> None:
    """In a step that reads prompts, too, requests that decode get the position before their own."""

    def late(positions: Any) -> Any:
        requests = _requests_of_a_step()
        alone = [begin for begin, end in requests if end == begin + 1]
        if not alone or len(alone) == len(requests):
            return positions
        positions = positions.clone()
        positions[alone] = (positions[alone] - 1).clamp(min=0)
        return positions

    _positions(llm, late)


def wholly_cached_prompts_late(llm: Any) -> None:
    """Of a prompt that is in the prefix cache as a whole the last token gets the position before its own."""
    size = block_size(llm)

    def late(positions: Any) -> Any:
        positions = positions.clone()
        for begin, end in _requests_of_a_step():
            if end - begin == size and int(positions[begin]) > 0 and int(positions[begin]) % size == 0:
                positions[end - 1] -= 1
        return positions

    _positions(llm, late)


def decoded_blocks_lost(llm: Any) -> None:
    """Blocks that decoding filled are emptied when their request ends, and found again all the same."""
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    manager, size, layers = scheduler.kv_cache_manager, block_size(llm), attentions(llm)
    free = manager.free

    def emptied(request: Any) -> Any:
        (ids,) = manager.get_block_ids(request.request_id)
        for block in ids[request.num_prompt_tokens // size : request.num_computed_tokens // size]:
            for layer in layers:
                cache = layer.kv_cache
                (cache[0] if isinstance(cache, list | tuple) else cache)[block] = 0
        return free(request)

    changes.put(manager, "free", emptied)


def values_off_in_long_answers(llm: Any) -> None:
    """Values are two percent too large once decoding has gone on for 32 steps."""
    steps = 0

    def count(named: dict[str, Any]) -> dict[str, Any]:
        nonlocal steps
        positions = named["positions"]
        steps = steps + 1 if positions.numel() <= DECODING and int(positions.min()) > 0 else 0
        return {}

    changes.before_named(model_of(llm), count)
    for module in attentions(llm):
        changes.before(module, lambda q, k, value, *rest: (q, k, value * 1.02, *rest) if steps > 32 else None)


def window_halved_in_decode(llm: Any) -> None:
    """Steps that only decode see half of the window."""
    for module in attentions(llm):
        own, whole = module.impl, module.impl.sliding_window
        half = (whole[0] // 2, whole[1]) if isinstance(whole, tuple) else whole // 2

        def halve(query: Any, *_: Any, own: Any = own, whole: Any = whole, half: Any = half) -> None:
            own.sliding_window = half if query.shape[0] <= DECODING else whole

        changes.before(module, halve)


def window_ignored_in_prompts(llm: Any) -> None:
    """Steps that read prompts see the whole of them in one layer."""
    module = attentions(llm)[1]
    own, window = module.impl, module.impl.sliding_window
    none = (-1, -1) if isinstance(window, tuple) else -1

    def whole(query: Any, *_: Any) -> None:
        own.sliding_window = window if query.shape[0] <= DECODING else none

    changes.before(module, whole)


def resumed_with_another_last_token(llm: Any) -> None:
    """A request that lost its blocks goes on as if its last token were the one before it."""
    runner = engine_facts.first(llm, RUNNER)
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    preempt = scheduler._preempt_request

    def preempted(request: Any, *given: Any, **named: Any) -> None:
        preempt(request, *given, **named)
        state = runner.requests.get(request.request_id)
        for tokens in (request._all_token_ids, state.output_token_ids if state is not None else []):
            if request.num_output_tokens > 1 and len(tokens) > 1:
                tokens[-1] = tokens[-2]

    changes.put(scheduler, "_preempt_request", preempted)


def experts_of_the_neighbour_in_decode(llm: Any) -> None:
    """In steps that decode, a token goes to the experts of its neighbour in the batch."""
    changes.after(layer_of(llm).mlp.gate, lambda _, out: out.roll(1, 0) if 1 < out.shape[0] <= DECODING else out)


def _stretched(llm: Any) -> list[Any]:
    return [module for module in model_of(llm).modules() if type(module).__name__ == "YaRNScalingRotaryEmbedding"]


def yarn_without_its_factor(llm: Any) -> None:
    """Scores of attention are not larger, as they are to be where positions are stretched."""
    for module in _stretched(llm):
        module.cos_sin_cache.div_(module.mscale)


def yarn_of_another_factor(llm: Any) -> None:
    """Positions are stretched two percent too far."""
    for module in _stretched(llm):
        frequencies = module._compute_inv_freq
        changes.put(module, "_compute_inv_freq", lambda factor, own=frequencies: own(factor * 1.02))
        module.cos_sin_cache.copy_(module._compute_cos_sin_cache())


def rotary_of_neighbours(llm: Any) -> None:
    """Positions turn neighbouring values, not the halves of a head."""
    for module in model_of(llm).modules():
        if getattr(module, "cos_sin_cache", None) is not None:
            changes.put(module, "is_neox_style", False)


def full_last_block_read_from_before(llm: Any) -> None:
    """A sequence that ends with a full block reads the block before it once more in its place."""
    size = block_size(llm)

    def before(metadata: Any) -> None:
        for row, length in enumerate(() if metadata is None else metadata.seq_lens.tolist()):
            if length % size == 0 and length > size:
                metadata.block_table[row, length // size - 1] = metadata.block_table[row, length // size - 2]

    _tables_of_blocks(llm, before)


def attention_in_bfloat16(llm: Any) -> None:
    """What attention puts out in one layer is rounded."""
    changes.after(attentions(llm)[1], lambda _, out: out.bfloat16().to(out.dtype))


def biases_dropped_in_decode(llm: Any) -> None:
    """Keys of tokens that are decoded lack their bias."""
    attention = layer_of(llm).self_attn
    keys = slice(attention.q_size, attention.q_size + attention.kv_size)

    def dropped(_: Any, out: Any) -> Any:
        if out.shape[0] > DECODING:
            return out
        out = out.clone()
        out[..., keys] -= attention.qkv_proj.bias[keys]
        return out

    changes.after(attention.qkv_proj, dropped)


# Compressed keys and values, shared experts.


def latent_norm_not_loaded(llm: Any) -> None:
    weight = layer_of(llm).self_attn.kv_a_layernorm.weight
    weight.data.copy_(torch.ones_like(weight))


def latents_in_bfloat16(llm: Any) -> None:
    """Compressed keys and values are rounded before they are used."""
    changes.after(layer_of(llm).self_attn.kv_a_layernorm, lambda _, out: out.bfloat16().to(out.dtype))


def shared_experts_off(llm: Any) -> None:
    """What all tokens' experts put out is two percent too small."""
    _scaled(layer_of(llm).mlp.shared_experts, 0.98)


def experts_chosen_by_biased_scores(llm: Any) -> None:
    """The router's scores are a twentieth too high for one expert."""

    def lifted(_: Any, out: Any) -> Any:
        out = out.clone()
        out[..., 1] += 0.05
        return out

    changes.after(layer_of(llm).mlp.gate, lifted)


def two_experts_exchanged(llm: Any) -> None:
    """Tokens of one expert go to another one, and the other way round."""
    order = torch.tensor([0, 1, 3, 2])

    def exchanged(_: Any, out: Any) -> Any:
        return torch.cat([out[..., order], out[..., 4:]], dim=-1)

    changes.after(layer_of(llm).mlp.gate, exchanged)


def embedding_scale_off(llm: Any) -> None:
    """What an embedding is multiplied by is one percent too small."""
    model_of(llm).model.normalizer.mul_(0.99)


def logits_not_capped(llm: Any) -> None:
    changes.put(model_of(llm).logits_processor, "soft_cap", None)


def windows_of_the_other_layers(llm: Any) -> None:
    """Layers with a window have none, and the others have it."""
    one, other = (module.impl for module in attentions(llm))
    one.sliding_window, other.sliding_window = other.sliding_window, one.sliding_window


def rows_off_in_odd_batches(llm: Any) -> None:
    """In steps that decode three, five or seven requests the last row is a percent too large."""

    def change(_: Any, out: Any) -> Any:
        if out.shape[0] not in (3, 5, 7):
            return out
        out = out.clone()
        out[-1] *= 1.01
        return out

    changes.after(layer_of(llm).mlp.down_proj, change)


def positions_stop_at_1024(llm: Any) -> None:
    """All tokens from there on have the same position."""
    _positions(llm, lambda p: p.clamp(max=1024))


def values_off_beyond_1024(llm: Any) -> None:
    """Where a sequence is longer than that, attention's output is two percent too large."""

    def spoil(_: Any, out: Any) -> Any:
        metadata = metadata_of(None)
        long = metadata is not None and int(max(metadata.seq_lens)) > 1024
        return out * 1.02 if long else out

    for module in attentions(llm):
        changes.after(module, spoil)


def aborted_requests_leave_empty_blocks(llm: Any) -> None:
    """The blocks of a request that is aborted are emptied, and found again all the same."""
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    manager, size, layers = scheduler.kv_cache_manager, block_size(llm), attentions(llm)
    free = manager.free

    def emptied(request: Any) -> Any:
        if str(request.status).endswith("ABORTED"):
            (ids,) = manager.get_block_ids(request.request_id)
            for block in ids[: request.num_computed_tokens // size]:
                for layer in layers:
                    cache = layer.kv_cache
                    (cache[0] if isinstance(cache, list | tuple) else cache)[block] = 0
        return free(request)

    changes.put(manager, "free", emptied)


def experts_drop_tokens_of_long_steps(llm: Any) -> None:
    """Tokens beyond the 256th of a step get nothing from the experts, whose room is full."""

    def dropped(_: Any, out: Any) -> Any:
        if out.shape[0] <= 256:
            return out
        out = out.clone()
        out[256:] = 0
        return out

    changes.after(layer_of(llm).mlp, dropped)


def first_chunks_forgotten(llm: Any) -> None:
    """Where a prompt goes on in a later chunk, its first block is read as empty."""
    for module in attentions(llm):

        def forget(query: Any, *_: Any, layer: Any = module) -> None:
            for row, (begin, end) in enumerate(_requests_of_a_step()):
                metadata = metadata_of(None)
                before = int(metadata.seq_lens[row]) - (end - begin)
                if end - begin > DECODING and before >= 512:
                    metadata.block_table[row, 0] = metadata.block_table[row, 1]

        changes.before(module, forget)


def queries_in_bfloat16(llm: Any) -> None:
    """One layer's queries are rounded."""
    changes.before(attentions(llm)[0], lambda query, *rest: (query.bfloat16().to(query), *rest))


def rotary_in_bfloat16_far_out(llm: Any) -> None:
    """The rotary table is rounded from position 1000 on."""
    for module in model_of(llm).modules():
        table = getattr(module, "cos_sin_cache", None)
        if table is not None:
            table.data[1000:] = table[1000:].bfloat16().to(table.dtype)


def last_rows_of_head_empty(llm: Any) -> None:
    """The last two rows of the head are zero."""
    _logits(llm, lambda logits: logits[:, -2:].zero_())


def gate_in_bfloat16(llm: Any) -> None:
    """The gate of one layer's activation is rounded."""

    def rounded(given: Any, _: Any) -> Any:
        gate, up = given[0].chunk(2, dim=-1)
        return gate * torch.sigmoid(gate).bfloat16().to(gate.dtype) * up

    changes.after(layer_of(llm).mlp.act_fn, rounded)


def late_rows_one_early(llm: Any) -> None:
    """In steps that decode more than 32 requests the later ones' positions are those before."""

    def early(positions: Any) -> Any:
        metadata = metadata_of(None)
        if metadata is None or not 32 < len(metadata.seq_lens) == positions.numel():
            return positions
        return torch.cat([positions[:32], (positions[32:] - 1).clamp(min=0)])

    _positions(llm, early)


def window_a_token_more(llm: Any) -> None:
    _windows(llm, attentions(llm), 1)


def window_of_one_layer_short(llm: Any) -> None:
    """One layer's window lacks a block."""
    _windows(llm, attentions(llm)[1:2], -block_size(llm))


def _windows(llm: Any, layers: list[Any], more: int) -> None:
    for module in layers:
        whole = module.impl.sliding_window
        module.impl.sliding_window = (whole[0] + more, whole[1]) if isinstance(whole, tuple) else whole + more


def one_expert_less(llm: Any) -> None:
    """The last of the chosen experts of one layer has no share."""
    many = int(model_of(llm).config.num_experts_per_tok)

    def without(_: Any, out: Any) -> Any:
        last = out.topk(many, dim=-1).indices[..., -1:]
        return out.scatter(-1, last, float("-inf"))

    changes.after(layer_of(llm).mlp.gate, without)


def rows_of_an_expert_rolled(llm: Any) -> None:
    """The outputs of one expert of one layer come a place late."""
    experts = [module for module in layer_of(llm).modules() if getattr(module, "w2_weight", None) is not None]
    weight = experts[0].w2_weight
    weight.data[3].copy_(weight.data[3].clone().roll(1, 0))


def shares_before_the_choice(llm: Any) -> None:
    """Shares of experts are sharper by two percent in one layer."""
    changes.after(layer_of(llm).mlp.gate, lambda _, out: out * 1.02)


def routed_experts_scaled(llm: Any) -> None:
    """What the chosen experts give is two percent too large, what all share is not."""
    changes.after(layer_of(llm).mlp, lambda _, out: out * 1.02)


def keys_without_their_rotary_part(llm: Any) -> None:
    """The part of a latent key that carries its position is empty in one layer."""
    size = int(model_of(llm).config.qk_rope_head_dim)
    projection = next(
        module
        for name, module in layer_of(llm).named_modules()
        if name.endswith(("kv_a_proj_with_mqa", "fused_qkv_a_proj"))
    )

    def emptied(_: Any, out: Any) -> Any:
        out = out.clone()
        out[..., -size:] = 0
        return out

    changes.after(projection, emptied)


def rotary_base_of_one_layer_off(llm: Any) -> None:
    """One layer's rotary base is one percent off."""
    import copy

    attention = layer_of(llm).self_attn
    own = copy.deepcopy(attention.rotary_emb)
    table = own.cos_sin_cache
    rows, size = table.shape
    base = (getattr(model_of(llm).config, "rope_parameters", None) or {}).get("rope_theta", 1000000.0) * 1.01
    angles = torch.arange(rows).double()[:, None] * base ** (-torch.arange(0, size, 2).double() / size)
    table.data.copy_(torch.cat([angles.cos(), angles.sin()], dim=-1).to(table))
    changes.put(attention, "rotary_emb", own)


def padding_of_the_head_counts(llm: Any) -> None:
    """What fills the head up to a multiple of 64 rows takes part in the softmax, with a logit of zero."""
    sampler = engine_facts.first(llm, tuple(f"{runner}.sampler" for runner in RUNNER))
    compute = sampler.compute_logprobs

    def padded(logits: Any) -> Any:
        more = torch.zeros(len(logits), 48).to(logits)
        return compute(torch.cat([logits, more], dim=-1))[:, : logits.shape[1]]

    changes.put(sampler, "compute_logprobs", padded)


def residual_in_bfloat16(llm: Any) -> None:
    """What goes past one layer is rounded."""
    changes.before(
        layer_of(llm),
        lambda positions, hidden, residual, *more: (positions, hidden, residual.bfloat16().to(residual), *more),
    )


def keys_a_thousandth_off(llm: Any) -> None:
    """Keys are kept with a scale that is a thousandth off."""
    for module in attentions(llm):
        changes.before(module, lambda query, key, *rest: (query, key * 1.001, *rest))


def long_steps_in_bfloat16(llm: Any) -> None:
    """In steps of more than 256 tokens one layer's products are rounded."""
    changes.after(
        layer_of(llm).mlp.down_proj, lambda _, out: out.bfloat16().to(out.dtype) if out.shape[0] > 256 else out
    )


def query_norm_left_as_made(llm: Any) -> None:
    """The norm of one layer's queries is as it was made."""
    layer_of(llm).self_attn.q_norm.weight.data.fill_(1.0)


def values_of_one_head_off(llm: Any) -> None:
    """The values of one layer's first head are half a percent too large."""
    attention = attentions(llm)[1]

    def off(query: Any, key: Any, value: Any, *rest: Any) -> Any:
        value = value.clone()
        value[..., : attention.head_size] *= 1.005
        return query, key, value, *rest

    changes.before(attention, off)


def norm_behind_rotation(llm: Any) -> None:
    """Queries of one layer are scaled by their norm's weight after they were turned, not before."""
    attention = layer_of(llm).self_attn
    norm, rotary = attention.q_norm, attention.rotary_emb
    weight = norm.weight.data.clone()
    norm.weight.data.fill_(1.0)
    copied = copy.copy(rotary)
    attention.rotary_emb = copied

    def turned(_: Any, out: Any) -> Any:
        query = out.view(*out.shape[:-1], -1, weight.shape[0]) * weight
        return query.view(out.shape)

    copied._forward_hooks = type(rotary._forward_hooks)()
    changes.after(copied, turned)


def scaling_of_positions_ignored(llm: Any) -> None:
    """The rotary table as if no rope_scaling was given."""
    config = model_of(llm).config
    theta = (getattr(config, "rope_parameters", None) or {})["rope_theta"]
    for module in model_of(llm).modules():
        table = getattr(module, "cos_sin_cache", None)
        if table is not None:
            rows, size = table.shape
            angles = torch.arange(rows).double()[:, None] * theta ** (-torch.arange(0, size, 2).double() / size)
            table.data.copy_(torch.cat([angles.cos(), angles.sin()], dim=-1).to(table))


def local_base_of_the_global(llm: Any) -> None:
    """Layers with a window turn positions with the base of those without."""
    layers = model_of(llm).model.layers
    whole = next(one for one in layers if not one.self_attn.is_sliding)
    for one in layers:
        one.self_attn.rotary_emb = whole.self_attn.rotary_emb


def shared_gate_ignored(llm: Any) -> None:
    """The expert that all share is added whole in one layer."""
    gate = layer_of(llm).mlp.shared_expert_gate
    changes.after(gate, lambda _, out: torch.full_like(out, 100.0))


def chunks_of_one_token_a_position_early(llm: Any) -> None:
    """A prompt's last chunk of a single token is taken for decoding, a position early."""
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    schedule = scheduler.schedule
    at: list[bool] = [False]

    def watched(*given: Any, **named: Any) -> Any:
        out = schedule(*given, **named)
        counts = out.num_scheduled_tokens
        at[0] = any(
            count == 1
            and name in scheduler.requests
            and scheduler.requests[name].num_computed_tokens <= scheduler.requests[name].num_prompt_tokens
            and scheduler.requests[name].num_output_tokens == 0
            for name, count in counts.items()
        )
        return out

    changes.put(scheduler, "schedule", watched)

    def early(positions: Any) -> Any:
        if not at[0]:
            return positions
        moved = positions.clone()
        moved[-1] = (moved[-1] - 1).clamp(min=0)
        return moved

    _positions(llm, early)


def values_of_later_rows_off(llm: Any) -> None:
    """Decode steps of five and more: rows beyond the fourth do not see their newest key but one."""

    def spoil(query: Any, key: Any, value: Any, *rest: Any) -> Any:
        if not 5 <= key.shape[0] <= DECODING:
            return None
        value = value.clone()
        value[4:] *= 0.9
        return (query, key, value, *rest)

    for module in attentions(llm):
        changes.before(module, spoil)


def prompts_of_more_than_256_tokens_scored_in_half(llm: Any) -> None:
    """The last norm of long prompts is rounded to half precision."""
    changes.after(model_of(llm).model.norm, lambda _, out: out.bfloat16().to(out) if out.shape[0] > 256 else out)


def logprobs_of_three_digits(llm: Any) -> None:
    _logprobs(llm, lambda values: (values * 1000).round() / 1000)


def siblings_share_a_block(llm: Any) -> None:
    """In steps that decode, completions of one prompt read the first one's block behind those that they share."""

    def shared(metadata: Any) -> None:
        if metadata is None or metadata.query_start_loc[-1] != len(metadata.seq_lens):
            return
        table = metadata.block_table
        for row in range(1, len(metadata.seq_lens)):
            other = ((table[row] != table[row - 1]) | (table[row] <= 0)).nonzero().flatten().tolist()
            if other and other[0]:
                table[row, other[0]] = table[row - 1, other[0]]

    _tables_of_blocks(llm, shared)


def aborts_free_anothers_block(llm: Any) -> None:
    """With an aborted request a block of another one is given away, and overwritten."""
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    runner = engine_facts.first(llm, RUNNER)
    finish = scheduler.finish_requests

    def freed(*given: Any, **named: Any) -> Any:
        done = finish(*given, **named)
        for request in scheduler.running:
            blocks = scheduler.kv_cache_manager.get_block_ids(request.request_id)[0]
            if len(blocks) > 1:
                for cache in runner.kv_caches:
                    (cache if cache.shape[0] > 2 else cache.transpose(0, 1))[blocks[0]] = 0
                break
        return done

    changes.put(scheduler, "finish_requests", freed)


def keys_off_in_the_second_chunk(llm: Any) -> None:
    """The key of the second chunk's last token is five percent too long; later chunks are right."""
    budget = engine_facts.first(llm, ("llm_engine.vllm_config.scheduler_config",)).max_num_batched_tokens

    def last(positions: Any) -> Any:
        if positions.numel() < budget // 2 or not 0 < int(positions[0]) <= budget:
            return None
        at = torch.zeros_like(positions, dtype=torch.bool)
        ends = (positions[1:] != positions[:-1] + 1).nonzero().flatten().tolist()
        at[ends[0] if ends else -1] = True
        return at

    _keys(llm, last)


def last_row_of_large_batches_reads_anothers_block(llm: Any) -> None:
    """In steps of more than 16 requests the last one reads the first block of the one before it."""

    def wrong(metadata: Any) -> None:
        if metadata is not None and len(metadata.seq_lens) > 16:
            metadata.block_table[-1, 0] = metadata.block_table[-2, 0]

    _tables_of_blocks(llm, wrong)


def epsilon_ten_times_too_large(llm: Any) -> None:
    """Norms add 1e-5 to the variance, not 1e-6."""
    for module in model_of(llm).modules():
        if hasattr(module, "variance_epsilon"):
            changes.put(module, "variance_epsilon", 1e-5)


def fortieth_block_read_twice(llm: Any) -> None:
    """Sequences read their 41st block in place of the one behind it."""

    def twice(metadata: Any) -> None:
        if metadata is not None and metadata.block_table.shape[1] > 41:
            metadata.block_table[:, 41] = metadata.block_table[:, 40]

    _tables_of_blocks(llm, twice)


def prefixes_in_any_order(llm: Any) -> None:
    """The prefix cache takes a block of the same tokens in another order for the same."""
    from vllm.v1.core import kv_cache_utils

    hash_of = kv_cache_utils.hash_block_tokens

    def sorted_hash(function: Any, parent: Any, tokens: Any, extra: Any = None) -> Any:
        return hash_of(function, parent, sorted(tokens), extra)

    kv_cache_utils.hash_block_tokens = sorted_hash
