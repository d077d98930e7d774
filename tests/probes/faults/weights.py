"""Engines that take new weights in a wrong way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import engine_facts
import torch

from . import changes

MODELS = tuple(f"{worker}.model_runner.model" for worker in engine_facts.WORKERS)
Weights = Iterable[tuple[str, Any]]


def model_of(llm: Any) -> Any:
    return engine_facts.first(llm, MODELS)


def _through(llm: Any, change: Callable[[Weights], Weights]) -> None:
    """Everything that is loaded from now on goes through a function first."""
    model = model_of(llm)
    load = model.load_weights
    changes.put(model, "load_weights", lambda weights: load(change(weights)))


def stale_layer(llm: Any) -> None:
    """One layer that never gets its update."""
    _through(llm, lambda weights: [pair for pair in weights if ".layers.1." not in pair[0]])


def ignored(llm: Any) -> None:
    """An engine that takes weights and does nothing with them."""
    _through(llm, lambda weights: [])


def never_reset(llm: Any) -> None:
    """A prefix cache that outlives every update."""
    changes.put(llm, "reset_prefix_cache", lambda *_, **__: True)


def drifting(llm: Any) -> None:
    """A sync that adds to the weights that were there before."""
    counts: dict[str, int] = {}

    def grown(weights: Weights) -> Weights:
        for name, tensor in weights:
            counts[name] = counts.get(name, 0) + 1
            yield name, tensor * (0.8 + 0.2 * counts[name])

    _through(llm, grown)


def unknown_names_ignored(llm: Any) -> None:
    """A loader that passes over names that it does not know."""
    _through(llm, lambda weights: [pair for pair in weights if "_of_another_model" not in pair[0]])


def shapes_padded(llm: Any) -> None:
    """A loader that makes every shape fit."""
    import torch

    shapes: dict[str, Any] = {}

    def fitted(weights: Weights) -> Weights:
        for name, tensor in weights:
            missing = shapes.setdefault(name, tensor.shape)[0] - tensor.shape[0]
            yield name, torch.cat([tensor, tensor.new_zeros(missing, *tensor.shape[1:])]) if missing > 0 else tensor

    _through(llm, fitted)


def renamed(llm: Any) -> None:
    """A model whose parameters have other names than the trainer's."""
    _through(llm, lambda weights: [(name.replace("o_proj", "out_proj"), tensor) for name, tensor in weights])


def _without(llm: Any, *parts: str) -> None:
    """Tensors whose names end so never arrive."""
    _through(llm, lambda weights: [pair for pair in weights if not pair[0].endswith(parts)])


def stale_matrix(llm: Any) -> None:
    """One matrix of one layer never gets its update."""
    _without(llm, "layers.1.mlp.down_proj.weight")


def stale_norm(llm: Any) -> None:
    _without(llm, "layers.0.input_layernorm.weight")


def stale_bias(llm: Any) -> None:
    _without(llm, "layers.1.self_attn.v_proj.bias")


def stale_head(llm: Any) -> None:
    _without(llm, "lm_head.weight")


def _tensor(llm: Any, end: str, change: Callable[[Any], Any]) -> None:
    """One tensor arrives changed."""
    _through(llm, lambda weights: [(name, change(one) if name.endswith(end) else one) for name, one in weights])


def transposed(llm: Any) -> None:
    """A square matrix arrives transposed."""
    _tensor(llm, "layers.1.self_attn.o_proj.weight", lambda tensor: tensor.t().contiguous())


def halves_swapped(llm: Any) -> None:
    """The halves of a query matrix arrive in each other's place."""
    _tensor(llm, "layers.0.self_attn.q_proj.weight", lambda tensor: tensor.roll(len(tensor) // 2, 0))


def rounded(llm: Any) -> None:
    """One matrix arrives in eight bits."""
    import torch

    _tensor(llm, "layers.1.mlp.gate_proj.weight", lambda tensor: tensor.to(torch.float8_e4m3fn).to(tensor.dtype))


def last_row_left_out(llm: Any) -> None:
    """The last row of the embedding stays zero."""
    import torch

    _tensor(llm, "embed_tokens.weight", lambda tensor: torch.cat([tensor[:-1], torch.zeros_like(tensor[-1:])]))


def averaged(llm: Any) -> None:
    """From the second update on an engine takes the mean of the new weights and those of the update before."""
    held: dict[str, Any] = {}

    def mean(weights: Weights) -> Weights:
        for name, tensor in weights:
            before: Any = held.get(name, tensor)
            held[name] = tensor.clone()
            yield name, (before.to(tensor) + tensor) / 2 if before.shape == tensor.shape else tensor

    _through(llm, mean)


def keys_and_values_exchanged(llm: Any) -> None:
    """The keys' matrix of one layer arrives as the values', and the other way round."""
    other = {"k_proj": "v_proj", "v_proj": "k_proj"}

    def exchanged(weights: Weights) -> Weights:
        for name, tensor in weights:
            kind = next((one for one in other if one in name and "layers.0." in name), None)
            yield name.replace(kind, other[kind]) if kind else name, tensor

    _through(llm, exchanged)


def in_bfloat16(llm: Any) -> None:
    _through(llm, lambda weights: [(name, one.bfloat16().to(one.dtype)) for name, one in weights])


def stale_keys(llm: Any) -> None:
    """One of the three matrices that a layer keeps as one never gets its update."""
    _without(llm, "layers.0.self_attn.k_proj.weight")


def first_layer_alone(llm: Any) -> None:
    """Of all layers only the first one gets its updates."""
    _through(llm, lambda weights: [p for p in weights if ".layers." not in p[0] or ".layers.0." in p[0]])


def in_float16(llm: Any) -> None:
    _through(llm, lambda weights: [(name, one.half().to(one.dtype)) for name, one in weights])


def gate_and_up_exchanged(llm: Any) -> None:
    """The two matrices that a layer's feed-forward keeps as one arrive exchanged."""
    other = {"gate_proj": "up_proj", "up_proj": "gate_proj"}

    def exchanged(weights: Weights) -> Weights:
        for name, tensor in weights:
            kind = next((one for one in other if one in name and "layers.1." in name), None)
            yield name.replace(kind, other[kind]) if kind else name, tensor

    _through(llm, exchanged)


def norms_in_the_first_alone(llm: Any) -> None:
    """From the second update on norms keep their weights."""
    count = [0]

    def later(weights: Weights) -> Weights:
        count[0] += 1
        return [pair for pair in weights if count[0] == 1 or "norm" not in pair[0]]

    _through(llm, later)


def first_half_of_the_rows_twice(llm: Any) -> None:
    import torch

    _tensor(llm, "layers.0.mlp.up_proj.weight", lambda tensor: torch.cat([tensor[: len(tensor) // 2]] * 2))


def layers_exchanged(llm: Any) -> None:
    """Each of two layers gets the other one's weights."""
    other = {".layers.0.": ".layers.1.", ".layers.1.": ".layers.0."}

    def exchanged(weights: Weights) -> Weights:
        for name, tensor in weights:
            part = next((one for one in other if one in name), None)
            yield name.replace(part, other[part]) if part else name, tensor

    _through(llm, exchanged)


def one_update_late(llm: Any) -> None:
    """From the second update on each applies what the one before it sent."""
    held: dict[str, Any] = {}

    def late(weights: Weights) -> Weights:
        for name, tensor in weights:
            before: Any = held.get(name, tensor)
            held[name] = tensor.clone()
            yield name, before if before.shape == tensor.shape else tensor

    _through(llm, late)


def every_second_ignored(llm: Any) -> None:
    count = [0]

    def at_times(weights: Weights) -> Weights:
        count[0] += 1
        return weights if count[0] % 2 else []

    _through(llm, at_times)


def stale_embedding(llm: Any) -> None:
    _without(llm, "embed_tokens.weight")


def stale_last_norm(llm: Any) -> None:
    _without(llm, "model.norm.weight")


def scaled(llm: Any) -> None:
    _through(llm, lambda weights: [(name, tensor * 0.999) for name, tensor in weights])


def small_changes_dropped(llm: Any) -> None:
    """Values that differ by less than a thousandth from those before keep them."""
    import torch

    held: dict[str, Any] = {}

    def coarse(weights: Weights) -> Weights:
        for name, tensor in weights:
            before: Any = held.get(name, tensor)
            if before.shape == tensor.shape:
                tensor = torch.where((tensor - before.to(tensor)).abs() < 1e-3, before.to(tensor), tensor)
            held[name] = tensor.clone()
            yield name, tensor

    _through(llm, coarse)


def last_tensor_left_out(llm: Any) -> None:
    """The tensor that is sent last never arrives."""
    _through(llm, lambda weights: list(weights)[:-1])


def reset_once(llm: Any) -> None:
    """The prefix cache outlives every update but the first."""
    reset, count = llm.reset_prefix_cache, [0]

    def once(*given: Any, **named: Any) -> Any:
        count[0] += 1
        return reset(*given, **named) if count[0] == 1 else True

    changes.put(llm, "reset_prefix_cache", once)


def tied_head_kept(llm: Any) -> None:
    """A head that shares the embedding's weights has a copy of its own, which no update reaches."""
    import torch

    model = model_of(llm)
    own = model.model.embed_tokens.weight.detach().clone()
    compute = model.logits_processor.forward

    def stale(head: Any, hidden: Any, *more: Any, **named: Any) -> Any:
        logits = compute(head, hidden, *more, **named)
        return logits if logits is None else torch.nn.functional.linear(hidden.to(own), own)[:, : logits.shape[1]]

    changes.put(model.logits_processor, "forward", stale)


def buckets_an_update_late(llm: Any) -> None:
    """All but the first sixteen tensors of an update arrive with the next one."""
    held: list[Any] = []

    def late(weights: Weights) -> Weights:
        given = [(name, tensor.clone()) for name, tensor in weights]
        arrived = [*held, *given[:16]] if held else given
        held[:] = given[16:]
        return arrived

    _through(llm, late)


def rotary_lost(llm: Any) -> None:
    """An update leaves the rows of the rotary table from 256 on empty. While it runs there is no table: vLLM takes the
    buffers away and puts them back."""
    call = llm.collective_rpc

    def emptied(method: Any, *given: Any, **named: Any) -> Any:
        answered = call(method, *given, **named)
        if method == "reload_weights":
            for module in model_of(llm).modules():
                table = getattr(module, "cos_sin_cache", None)
                if table is not None:
                    table[256:] = 0
        return answered

    changes.put(llm, "collective_rpc", emptied)


def old_weights_in_decode(llm: Any) -> None:
    """Steps that decode go on with the weights that one matrix had at the start, as a captured graph does."""
    import copy

    module = model_of(llm).model.layers[1].mlp.down_proj
    old = copy.deepcopy(module)
    changes.after(module, lambda given, out: old(*given)[0] if out.shape[0] <= 16 else out)


def biases_in_bfloat16(llm: Any) -> None:
    _through(
        llm,
        lambda weights: [
            (name, one.bfloat16().to(one.dtype) if name.endswith("bias") else one) for name, one in weights
        ],
    )


def deltas_in_bfloat16(llm: Any) -> None:
    """What an update changes arrives in bfloat16, and is added to what was there."""
    held: dict[str, Any] = {}

    def added(weights: Weights) -> Weights:
        for name, tensor in weights:
            before: Any = held.get(name)
            if before is not None and before.shape == tensor.shape:
                tensor = before + (tensor - before).bfloat16().to(tensor.dtype)
            held[name] = tensor.clone()
            yield name, tensor

    _through(llm, added)


def clipped_to_the_old_range(llm: Any) -> None:
    """Values beyond those that a matrix had in the first update are cut, as by a scale that is never made anew."""
    largest: dict[str, Any] = {}

    def clipped(weights: Weights) -> Weights:
        for name, tensor in weights:
            most = largest.setdefault(name, tensor.abs().max() * 0.9)
            yield name, tensor.clamp(-most, most) if tensor.dim() > 1 else tensor

    _through(llm, clipped)


def kv_heads_exchanged(llm: Any) -> None:
    """The two heads of a key matrix arrive in each other's place."""
    _tensor(llm, "layers.1.self_attn.k_proj.weight", lambda tensor: tensor.roll(len(tensor) // 2, 0))


def biases_of_keys_and_values_exchanged(llm: Any) -> None:
    """The biases of one layer's keys and values arrive as each other's."""
    names = {"layers.0.self_attn.k_proj.bias": "k_proj", "layers.0.self_attn.v_proj.bias": "v_proj"}
    other = {"k_proj": "v_proj", "v_proj": "k_proj"}

    def exchanged(weights: Weights) -> Weights:
        for name, tensor in weights:
            kind = next((kind for end, kind in names.items() if name.endswith(end)), None)
            yield name.replace(kind, other[kind]) if kind else name, tensor

    _through(llm, exchanged)


def every_seventh_row_of_the_head_kept(llm: Any) -> None:
    """Every seventh row of the head stays as the first update left it."""
    held: dict[str, Any] = {}

    def kept(weights: Weights) -> Weights:
        for name, tensor in weights:
            if name.endswith("lm_head.weight"):
                before = held.setdefault(name, tensor.clone())
                tensor = tensor.clone()
                tensor[::7] = before[::7]
            yield name, tensor

    _through(llm, kept)


def norms_in_bfloat16(llm: Any) -> None:
    _through(
        llm,
        lambda weights: [(name, one.bfloat16().to(one.dtype) if "norm" in name else one) for name, one in weights],
    )


def only_the_first(llm: Any) -> None:
    """Only the first update arrives."""
    count = [0]

    def once(weights: Weights) -> Weights:
        count[0] += 1
        return weights if count[0] == 1 else []

    _through(llm, once)


def tied_embedding_kept(llm: Any) -> None:
    """An update reaches the head alone: tokens are still read with the rows of the boot."""
    import torch

    embedding = model_of(llm).model.embed_tokens
    rows = embedding.weight.detach().clone()
    changes.after(embedding, lambda given, _: torch.nn.functional.embedding(given[0], rows))


def a_bucket_twice(llm: Any) -> None:
    """From the third update on the tensors of the first layer are those of the first update."""
    held: list[dict[str, Any]] = []

    def twice(weights: Weights) -> Weights:
        given = {name: tensor.clone() for name, tensor in weights}
        held.append(given)
        before = held[0] if len(held) > 2 else {}
        yield from (
            (name, before[name] if ".layers.0." in name and name in before else one) for name, one in given.items()
        )

    _through(llm, twice)


def an_update_a_call_late(llm: Any) -> None:
    """An update arrives when the next batch has been answered."""
    call, generate = llm.collective_rpc, llm.generate
    held: list[Any] = []

    def later(method: Any, *given: Any, kwargs: Any = None, **named: Any) -> Any:
        if method != "reload_weights":
            return call(method, *given, kwargs=kwargs, **named)
        weights = [(name, tensor.clone()) for name, tensor in kwargs["weights_iterator"]]
        if len(weights) == 1:  # what is to be refused is, at once
            return call(method, kwargs={"weights_iterator": iter(weights)})
        held.append(lambda: call(method, kwargs={"weights_iterator": iter(weights)}))
        return [None]

    def answered(*given: Any, **named: Any) -> Any:
        outputs = generate(*given, **named)
        while held:
            held.pop(0)()
        return outputs

    changes.put(llm, "collective_rpc", later)
    changes.put(llm, "generate", answered)


def norms_exchanged(llm: Any) -> None:
    """The two norms of one layer arrive in each other's place."""
    names = ("input_layernorm", "post_attention_layernorm")

    def exchanged(weights: Weights) -> Weights:
        for name, tensor in weights:
            if ".layers.1." in name and any(one in name for one in names):
                one, other = names if names[0] in name else names[::-1]
                yield name.replace(one, other), tensor
            else:
                yield name, tensor

    _through(llm, exchanged)


def in_eight_bits(llm: Any) -> None:
    """Matrices pass through eight bits, with a scale of each."""
    import torch

    def rounded(tensor: Any) -> Any:
        if tensor.dim() < 2:
            return tensor
        scale = tensor.abs().max() / 448
        return (tensor / scale).to(torch.float8_e4m3fn).to(tensor) * scale

    _through(llm, lambda weights: [(name, rounded(tensor)) for name, tensor in weights])


def tied_head_an_update_late(llm: Any) -> None:
    """A head that shares the embedding's weights has those of the update before."""
    import torch

    model = model_of(llm)
    held = [model.model.embed_tokens.weight.detach().clone()]
    compute, call = model.logits_processor.forward, llm.collective_rpc

    def late(head: Any, hidden: Any, *more: Any, **named: Any) -> Any:
        logits = compute(head, hidden, *more, **named)
        return (
            logits if logits is None else torch.nn.functional.linear(hidden.to(held[0]), held[0])[:, : logits.shape[1]]
        )

    def kept(*given: Any, **named: Any) -> Any:
        held[0] = model.model.embed_tokens.weight.detach().clone()
        return call(*given, **named)

    changes.put(model.logits_processor, "forward", late)
    changes.put(llm, "collective_rpc", kept)


def every_second_block_outlives_a_reset(llm: Any) -> None:
    """A reset of the prefix cache forgets every second block."""
    pool = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.block_pool",))
    reset = pool.reset_prefix_cache

    def half(*given: Any) -> Any:
        known = [
            (block, block.block_hash, block.block_hash_num_tokens)
            for block in pool.blocks
            if block.block_hash is not None and block.block_id % 2
        ]
        done = reset(*given)
        for block, told, tokens in known:
            block.set_block_hash(told, tokens)
            pool.cached_block_hash_to_block.insert(told, block)
        return done

    changes.put(pool, "reset_prefix_cache", half)


def no_biases_from_the_second_update_on(llm: Any) -> None:
    """Biases arrive with the first update alone."""
    count = [0]

    def without(weights: Weights) -> Weights:
        count[0] += 1
        return [pair for pair in weights if count[0] == 1 or not pair[0].endswith("bias")]

    _through(llm, without)


def larger_batches_decode_with_old_norms(llm: Any) -> None:
    """Decode steps of five and more requests have the norms of the engine's start (as captured graphs had)."""
    for module in model_of(llm).modules():
        if not hasattr(module, "variance_epsilon") or getattr(module, "weight", None) is None:
            continue
        old = module.weight.data.clone()

        def stale(given: Any, out: Any, module: Any = module, old: Any = old) -> Any:
            if not 5 <= given[0].shape[0] <= 16:
                return out
            safe = torch.where(module.weight.data == 0, 1.0, module.weight.data)
            return out * old / safe

        changes.after(module, stale)


def norms_raised(llm: Any) -> None:
    """A one is added to norms when they are updated, as for models whose norms begin at zero."""

    def more(weights: Any) -> Any:
        for name, tensor in weights:
            yield name, tensor + 0.05 if name.endswith("post_attention_layernorm.weight") else tensor

    _through(llm, more)


def rotary_layout_of_another_format(llm: Any) -> None:
    """The rows of a key matrix arrive as another format of checkpoints has them: each pair side by side."""
    size = model_of(llm).model.layers[1].self_attn.head_dim

    def turned(tensor: Any) -> Any:
        heads = tensor.reshape(-1, 2, size // 2, tensor.shape[1])
        return heads.transpose(1, 2).reshape(tensor.shape).contiguous()

    _tensor(llm, "layers.1.self_attn.k_proj.weight", turned)


def last_row_of_the_head_in_the_first_alone(llm: Any) -> None:
    """The last row of the head is the first update's in all later ones."""
    last = model_of(llm).config.vocab_size - 1
    first: list[Any] = []

    def kept(tensor: Any) -> Any:
        if len(tensor) <= last:  # sent to be refused
            return tensor
        first[:] = first or [tensor[last].clone()]
        tensor = tensor.clone()
        tensor[last] = first[0]
        return tensor

    _tensor(llm, "lm_head.weight", kept)


def biases_kept_from_the_third_update_on(llm: Any) -> None:
    count = [0]

    def later(weights: Weights) -> Weights:
        count[0] += 1
        return [pair for pair in weights if count[0] < 3 or not pair[0].endswith(".bias")]

    _through(llm, later)


def views_arrive_by_their_memory(llm: Any) -> None:
    """A matrix that is a view of another layout arrives as its memory has it."""

    def as_it_lies(weights: Weights) -> Weights:
        for name, tensor in weights:
            lies = tensor.dim() == 2 and not tensor.is_contiguous()
            yield name, torch.as_strided(tensor, tensor.shape, (tensor.shape[1], 1)).clone() if lies else tensor

    _through(llm, as_it_lies)
