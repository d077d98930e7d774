"""Engines that take adapters in a wrong way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from . import changes


def one_late(llm: Any) -> None:
    """Every adapter takes effect with the next request only."""
    generate = llm.generate
    before: list[Any] = [None]

    def previous(request: Any) -> Any:
        if request is None:
            return None
        before.append(request)
        return before[-2]

    def late(*given: Any, lora_request: Any = None, **named: Any) -> Any:
        several = isinstance(lora_request, list)
        asked = [previous(one) for one in lora_request] if several else previous(lora_request)
        return generate(*given, lora_request=asked, **named)

    changes.put(llm, "generate", late)


def anything_fits(llm: Any) -> None:
    """No rank is too large."""
    changes.put(llm.llm_engine, "add_lora", lambda request: True)


def _loaded(change: Callable[[Any], None]) -> None:
    """Every matrix of an adapter is changed when it is loaded."""
    from vllm.lora.lora_weights import LoRALayerWeights

    optimize = LoRALayerWeights.optimize

    def changed(self: Any) -> Any:
        change(self)
        return optimize(self)

    changes.put(LoRALayerWeights, "optimize", changed)


def scale_of_its_root(llm: Any) -> None:
    """``alpha / sqrt(r)``, as for adapters that were trained so, in place of ``alpha / r``."""

    def other(weights: Any) -> None:
        weights.scaling = weights.lora_alpha / weights.rank**0.5

    _loaded(other)


def one_module_left_out(llm: Any) -> None:
    """The adapter of one matrix of one layer is never applied."""

    def without(weights: Any) -> None:
        if weights.module_name.endswith("layers.1.mlp.down_proj"):
            weights.lora_b.zero_()

    _loaded(without)


def one_rank_left_out(llm: Any) -> None:
    """The last rank of every adapter is lost."""

    def without(weights: Any) -> None:
        weights.lora_a[-1].zero_()

    _loaded(without)


def only_prompts(llm: Any) -> None:
    """Steps that decode alone run without the adapter."""
    from vllm.lora.layers import base_linear

    apply = base_linear.BaseLinearLayerWithLoRA.apply

    def bare(self: Any, given: Any, bias: Any = None) -> Any:
        if given.shape[-2] > 8:
            return apply(self, given, bias)
        return self.base_layer.quant_method.apply(self.base_layer, given, bias)

    changes.put(base_linear.BaseLinearLayerWithLoRA, "apply", bare)


def prefixes_of_any_adapter(llm: Any) -> None:
    """Blocks are found again whatever adapter they were computed with."""
    from vllm.v1.core import kv_cache_utils

    changes.put(kv_cache_utils, "_gen_lora_extra_hash_keys", lambda request: [])


def kept_for_the_next(llm: Any) -> None:
    """Requests without an adapter get that of the request before."""
    generate = llm.generate
    last: list[Any] = [None]

    def kept(*given: Any, lora_request: Any = None, **named: Any) -> Any:
        last[0] = lora_request or last[0]
        return generate(*given, lora_request=last[0], **named)

    changes.put(llm, "generate", kept)


def first_one_for_ever(llm: Any) -> None:
    """Whatever adapter is asked for, the first one is applied."""
    generate = llm.generate
    held: dict[str, Any] = {}

    def first(*given: Any, lora_request: Any = None, **named: Any) -> Any:
        if lora_request is not None:
            lora_request = held.setdefault("first", lora_request)
        return generate(*given, lora_request=lora_request, **named)

    changes.put(llm, "generate", first)


def one_layer_left_out(llm: Any) -> None:
    def without(weights: Any) -> None:
        if "layers.1." in weights.module_name:
            weights.lora_b.zero_()

    _loaded(without)


def in_bfloat16(llm: Any) -> None:
    _loaded(lambda weights: weights.lora_b.copy_(weights.lora_b.bfloat16().to(weights.lora_b)))


def scale_of_the_largest_rank(llm: Any) -> None:
    """``alpha`` over the largest rank that the engine takes, not over the adapter's."""
    limit = llm.llm_engine.vllm_config.lora_config.max_lora_rank
    _loaded(lambda weights: setattr(weights, "scaling", weights.lora_alpha / limit))


def first_matrices_kept(llm: Any) -> None:
    """The first of an adapter's two matrices is that of the adapter that came first."""
    held: dict[str, Any] = {}

    def kept(weights: Any) -> None:
        first = held.setdefault(weights.module_name, weights.lora_a.clone())
        if first.shape == weights.lora_a.shape:
            weights.lora_a.copy_(first)

    _loaded(kept)


def never_removed(llm: Any) -> None:
    """What is loaded under a name stays, whatever lies at its path now and whoever removes it."""
    from vllm.lora.request import LoRARequest
    from vllm.lora.worker_manager import WorkerLoRAManager

    load = WorkerLoRAManager._load_adapter
    held: dict[str, Any] = {}

    def kept(self: Any, request: LoRARequest) -> Any:
        if request.lora_name not in held:
            held[request.lora_name] = load(self, request)
        return held[request.lora_name]

    changes.put(WorkerLoRAManager, "_load_adapter", kept)


def keys_and_values_exchanged(llm: Any) -> None:
    """The adapters of keys and values arrive in each other's place."""
    from vllm.lora.lora_weights import PackedLoRALayerWeights

    pack = PackedLoRALayerWeights.pack

    def exchanged(loras: Any) -> Any:
        given = list(loras)
        return pack([given[0], given[2], given[1]] if len(given) == 3 else given)

    changes.put(PackedLoRALayerWeights, "pack", exchanged)


def only_the_first_of_a_batch(llm: Any) -> None:
    """All requests of a batch but the first run without their adapter."""
    from vllm.lora.layers import base_linear

    apply = base_linear.BaseLinearLayerWithLoRA.apply

    def first(self: Any, given: Any, bias: Any = None) -> Any:
        import torch
        from vllm.forward_context import get_forward_context

        out = apply(self, given, bias)
        told = get_forward_context().attn_metadata
        told = next(iter(told.values())) if isinstance(told, dict) else told
        starts = getattr(told, "query_start_loc", None)
        if starts is None or len(starts) < 3 or given.dim() != 2:
            return out
        bare = self.base_layer.quant_method.apply(self.base_layer, given, bias)
        return torch.cat([out[: int(starts[1])], bare[int(starts[1]) :]])

    changes.put(base_linear.BaseLinearLayerWithLoRA, "apply", first)


def only_in_short_steps(llm: Any) -> None:
    """Steps of more than 256 tokens run without the adapter."""
    from vllm.lora.layers import base_linear

    apply = base_linear.BaseLinearLayerWithLoRA.apply

    def short(self: Any, given: Any, bias: Any = None) -> Any:
        if given.numel() // given.shape[-1] > 256:
            return self.base_layer.quant_method.apply(self.base_layer, given, bias)
        return apply(self, given, bias)

    changes.put(base_linear.BaseLinearLayerWithLoRA, "apply", short)


def not_for_prompt_logprobs(llm: Any) -> None:
    """Log-probabilities of prompts are computed without the adapter."""
    generate = llm.generate

    def bare(prompts: Any, parameters: Any, *given: Any, lora_request: Any = None, **named: Any) -> Any:
        first = parameters[0] if isinstance(parameters, list) else parameters
        used = None if first.prompt_logprobs is not None else lora_request
        return generate(prompts, parameters, *given, lora_request=used, **named)

    changes.put(llm, "generate", bare)


def dropout_left_on(llm: Any) -> None:
    """A twentieth of what goes into an adapter is dropped at random, as in training."""
    from vllm.lora.layers import base_linear

    apply = base_linear.BaseLinearLayerWithLoRA.apply

    def dropped(self: Any, given: Any, bias: Any = None) -> Any:
        import torch

        out = apply(self, given, bias)
        bare = self.base_layer.quant_method.apply(self.base_layer, given, bias)
        kept = (torch.rand(out.shape[:-1]) > 0.05).unsqueeze(-1).to(out)
        return bare + (out - bare) * kept

    changes.put(base_linear.BaseLinearLayerWithLoRA, "apply", dropped)


def not_for_first_tokens(llm: Any) -> None:
    """The first token of each prompt is computed without the adapter."""
    from vllm.lora.layers import base_linear

    apply = base_linear.BaseLinearLayerWithLoRA.apply

    def later(self: Any, given: Any, bias: Any = None) -> Any:
        out = apply(self, given, bias)
        if given.dim() != 2 or given.shape[0] <= 16:
            return out
        bare = self.base_layer.quant_method.apply(self.base_layer, given[:1], bias)
        out = out.clone()
        out[:1] = bare
        return out

    changes.put(base_linear.BaseLinearLayerWithLoRA, "apply", later)


def decoded_with_the_first_one(llm: Any) -> None:
    """Steps that decode go on with the first adapter that was applied, as a captured graph does."""
    from vllm.lora.layers import base_linear

    layer = base_linear.BaseLinearLayerWithLoRA
    apply = layer.apply
    held: dict[int, Any] = {}

    def first(self: Any, given: Any, bias: Any = None) -> Any:
        if given.dim() != 2 or given.shape[0] > 16:
            return apply(self, given, bias)
        old = held.setdefault(id(self), [(a.clone(), b.clone()) for a, b in zip(*_stacked(self), strict=True)])
        if not any(bool(b.any()) for _, b in old):
            held.pop(id(self))
            return apply(self, given, bias)
        new = [(a.clone(), b.clone()) for a, b in zip(*_stacked(self), strict=True)]
        for (a, b), (x, y) in zip(zip(*_stacked(self), strict=True), old, strict=True):
            a.copy_(x), b.copy_(y)
        try:
            return apply(self, given, bias)
        finally:
            for (a, b), (x, y) in zip(zip(*_stacked(self), strict=True), new, strict=True):
                a.copy_(x), b.copy_(y)

    changes.put(layer, "apply", first)


def _stacked(layer: Any) -> tuple[Any, Any]:
    return layer.lora_a_stacked, layer.lora_b_stacked


def exchanged_in_a_batch(llm: Any) -> None:
    """Where a step has requests of several adapters, they get each other's."""
    from vllm.lora.model_manager import LoRAModelManager

    told = LoRAModelManager._set_adapter_mapping

    def exchanged(self: Any, mapping: Any) -> None:
        ids = sorted({*mapping.index_mapping} - {0})
        if len(ids) > 1:
            other = dict(zip(ids, [*ids[1:], ids[0]], strict=True))
            changes.put(mapping, "index_mapping", tuple(other.get(one, one) for one in mapping.index_mapping))
        told(self, mapping)

    changes.put(LoRAModelManager, "_set_adapter_mapping", exchanged)


def scale_a_little_off(llm: Any) -> None:
    """A scale that is two percent too large."""
    _loaded(lambda weights: weights.lora_b.mul_(1.02))


def prefixes_of_any_other_adapter(llm: Any) -> None:
    """Blocks of one adapter are found again with another, but not without any."""
    from vllm.v1.core import kv_cache_utils

    changes.put(
        kv_cache_utils, "_gen_lora_extra_hash_keys", lambda request: [("lora",)] if request.lora_request else []
    )


def layers_exchanged(llm: Any) -> None:
    """The adapters of two layers' outputs arrive in each other's place."""
    held: dict[str, Any] = {}

    def exchanged(weights: Any) -> None:
        for one, other in (("layers.0.", "layers.1."), ("layers.1.", "layers.0.")):
            if one in weights.module_name and weights.module_name.endswith("o_proj"):
                held[one] = weights
                if other in held:
                    mine, theirs = weights.lora_b.clone(), held.pop(other).lora_b
                    weights.lora_b.copy_(theirs)
                    theirs.copy_(mine)
                    held.clear()
                return

    _loaded(exchanged)


def empty_the_second_time(llm: Any) -> None:
    """An adapter that had to make room and comes back gets a place that still holds another."""
    from vllm.lora.model_manager import LoRAModelManager

    activate = LoRAModelManager.activate_adapter
    seen: set[int] = set()

    def activated(self: Any, lora_id: int) -> bool:
        if lora_id not in seen or lora_id in self._active_adapters:
            seen.add(lora_id)
            return bool(activate(self, lora_id))
        index = next(i for i, one in enumerate(self.lora_index_to_id) if one is None)
        self._active_adapters[lora_id] = None
        self.lora_index_to_id[index] = lora_id
        return True

    changes.put(LoRAModelManager, "activate_adapter", activated)


def biases_dropped_with_an_adapter(llm: Any) -> None:
    """Where an adapter is applied, the base's bias is not."""
    from vllm.lora.layers import base_linear

    apply = base_linear.BaseLinearLayerWithLoRA.apply

    def bare(self: Any, given: Any, bias: Any = None) -> Any:
        out = apply(self, given, bias)
        return out - bias if bias is not None and bool(self.lora_b_stacked[0].any()) else out

    changes.put(base_linear.BaseLinearLayerWithLoRA, "apply", bare)


def second_of_a_batch_as_the_first(llm: Any) -> None:
    """Where a step has requests of several adapters, all get the first one's."""
    from vllm.lora.model_manager import LoRAModelManager

    told = LoRAModelManager._set_adapter_mapping

    def first(self: Any, mapping: Any) -> None:
        ids = [one for one in mapping.index_mapping if one > 0]
        if len({*ids}) > 1:
            changes.put(mapping, "index_mapping", tuple(ids[0] if one > 0 else one for one in mapping.index_mapping))
        told(self, mapping)

    changes.put(LoRAModelManager, "_set_adapter_mapping", first)


def not_for_siblings(llm: Any) -> None:
    """Of the completions of a request only the first one gets its adapter."""
    changes.siblings(llm, lambda request: setattr(request, "lora_request", None))


def places_not_emptied(llm: Any) -> None:
    """What a larger adapter has left of itself stays when a smaller one takes its place."""
    from vllm.lora.layers import base_linear

    changes.put(base_linear.BaseLinearLayerWithLoRA, "reset_lora", lambda self, index: None)


def mixed_steps_have_the_first_adapter(llm: Any) -> None:
    """Steps that prefill and decode give what they decode the first adapter of the step."""
    from vllm.lora.model_manager import LoRAModelManager

    told = LoRAModelManager._set_adapter_mapping

    def first(self: Any, mapping: Any) -> None:
        ids = list(mapping.index_mapping)
        runs = [(one, len(list(group))) for one, group in groupby(ids)]
        if any(n > 1 for _, n in runs) and any(n == 1 for _, n in runs):
            lead = next((one for one in ids if one), 0)
            new: list[int] = []
            for one, n in runs:
                new += [lead if n == 1 and one else one] * n
            changes.put(mapping, "index_mapping", tuple(new))
        told(self, mapping)

    changes.put(LoRAModelManager, "_set_adapter_mapping", first)


def adapters_lack_their_last_quarter(llm: Any) -> None:
    """The last quarter of an adapter's outputs of one matrix is not applied."""

    def without(weights: Any) -> None:
        if weights.module_name.endswith("layers.0.self_attn.o_proj"):
            rows = weights.lora_b.shape[0]
            weights.lora_b[rows - rows // 4 :] = 0

    _loaded(without)


def scale_of_the_first_adapter(llm: Any) -> None:
    """All adapters are scaled as the one that was loaded first."""
    first: list[float] = []

    def other(weights: Any) -> None:
        first.append(weights.lora_alpha / weights.rank)
        weights.scaling = first[0]

    _loaded(other)


def scale_in_whole_numbers(llm: Any) -> None:
    """``alpha // r`` in place of ``alpha / r``."""

    def other(weights: Any) -> None:
        weights.scaling = float(weights.lora_alpha // weights.rank)

    _loaded(other)
