"""What a model, an engine and a trainer take of one device's memory: the arithmetic, without a device.

All sizes are bytes and lower bounds: what is certain to be there, without fragmentation, workspaces and communication
buffers. Sources: the layer shapes of transformers' ``modeling_*.py``; KV cache of vLLM ``kv_cache_interface.py``
(0.8.5, 0.10.2); ZeRO, https://arxiv.org/abs/1910.02054, table 1; Megatron's distributed optimizer,
https://github.com/NVIDIA/Megatron-LM/blob/main/docs/source/api-guide/dist_optimizer.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldoctor.knowledge.model_config import HEADS, KV_HEADS, number, text_config
from rldoctor.records import dataclass

GIB = 1 << 30
# CUDA context and the kernels of one process: https://pytorch.org/docs/stable/notes/cuda.html#memory-management
CONTEXT = GIB // 2

# Families whose feed-forward layers have a gate beside the two projections; of others two matrices are counted.
GATED = (
    "llama",
    "mistral",
    "mixtral",
    "qwen",
    "gemma",
    "phi3",
    "internlm",
    "olmo",
    "granite",
    "deepseek",
    "glm",
    "smollm",
)
# Sequence mixers whose state is no KV cache.
NO_KV_LAYERS = ("linear_attention", "mamba", "conv", "recurrent")
WITHOUT_KV = ("mamba", "rwkv", "jamba", "bamba", "zamba", "falcon_h1", "nemotron_h", "lfm2", "granitemoehybrid")

# Bytes of an element; names as transformers, vLLM and the frameworks write them.
ELEMENT = {
    "float32": 4.0, "fp32": 4.0, "float": 4.0, "32": 4.0, "32-true": 4.0, "no": 4.0,
    "bfloat16": 2.0, "bf16": 2.0, "float16": 2.0, "fp16": 2.0, "half": 2.0, "16": 2.0,
}  # fmt: skip
# Bytes of a quantized weight, by a part of the method's name; methods that are not named count as four bits.
QUANTIZED = {"fp8": 1.0, "int8": 1.0, "8bit": 1.0, "w8a8": 1.0, "modelopt": 0.5}
FOUR_BITS = 0.5


def head_dim(text: Mapping[str, Any]) -> int | None:
    """The width of one attention head."""
    hidden, heads = number(text, "hidden_size", "n_embd", "d_model"), number(text, *HEADS)
    return number(text, "head_dim") or (hidden // heads if hidden and heads else None)


def layers(text: Mapping[str, Any]) -> int | None:
    """How many layers the language model has."""
    return number(text, "num_hidden_layers", "n_layer", "num_layers")


def parameters(config: Mapping[str, Any]) -> int | None:
    """Parameters of the language model, or None where the config does not give its shape. Towers for images and sound,
    biases and norms are not counted; for Qwen2-7B it is 7.61 of 7.62 billion."""
    text = text_config(config)
    hidden, width = (
        number(text, "hidden_size", "n_embd", "d_model"),
        number(text, "intermediate_size", "ffn_hidden_size"),
    )
    count, vocabulary = layers(text), number(text, "vocab_size")
    if not (hidden and count and vocabulary):
        return None
    attention = _attention(text, hidden)
    experts = number(text, "num_experts", "num_local_experts", "n_routed_experts")
    if attention is None or not (width or experts):
        return None
    matrices = 3 if str(text.get("model_type", "")).startswith(GATED) else 2
    dense = matrices * hidden * (width or 0)
    if not experts:
        body = count * dense
    else:
        sparse = _sparse_layers(text, count)
        expert_width = number(text, "moe_intermediate_size") or width or 0
        shared = (
            number(text, "shared_expert_intermediate_size") or (number(text, "n_shared_experts") or 0) * expert_width
        )
        each = matrices * hidden * (experts * expert_width + shared) + hidden * experts
        body = sparse * each + (count - sparse) * dense
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings", True)) is not False
    return count * attention + body + vocabulary * hidden * (1 if tied else 2)


def _attention(text: Mapping[str, Any], hidden: int) -> int | None:
    heads, width = number(text, *HEADS), head_dim(text)
    if not heads or not width:
        return None
    latent = number(text, "kv_lora_rank")
    if latent:  # DeepSeek's latent attention
        rope, plain = number(text, "qk_rope_head_dim") or 0, number(text, "qk_nope_head_dim") or 0
        value = number(text, "v_head_dim") or plain
        low = number(text, "q_lora_rank")
        query = low * (hidden + heads * (plain + rope)) if low else hidden * heads * (plain + rope)
        return query + hidden * (latent + rope) + latent * heads * (plain + value) + heads * value * hidden
    kv_heads = number(text, *KV_HEADS) or heads
    return 2 * hidden * width * (heads + kv_heads)


def _sparse_layers(text: Mapping[str, Any], count: int) -> int:
    """Layers with experts in place of a dense feed-forward part."""
    dense = number(text, "first_k_dense_replace") or 0
    listed = text.get("mlp_only_layers")
    dense += len(listed) if isinstance(listed, list) else 0
    return max(0, count - dense) // (number(text, "decoder_sparse_step") or 1)


def expert_parameters(config: Mapping[str, Any]) -> int:
    """The part of :func:`parameters` that expert parallelism spreads."""
    text = text_config(config)
    experts, hidden, count = (
        number(text, "num_experts", "num_local_experts", "n_routed_experts"),
        number(text, "hidden_size"),
        layers(text),
    )
    if not (experts and hidden and count):
        return 0
    width = number(text, "moe_intermediate_size") or number(text, "intermediate_size") or 0
    return _sparse_layers(text, count) * 3 * hidden * experts * width


@dataclass(frozen=True)
class Cache:
    """KV cache of one sequence on one rank: bytes per token in layers that see everything, and in layers that see a
    window of ``window`` tokens."""

    full: float
    windowed: float = 0.0
    window: int = 0

    def bytes(self, tokens: int) -> float:
        return self.full * tokens + self.windowed * min(tokens, self.window)

    def tokens(self, available: float) -> int:
        """The longest sequence that fits into ``available`` bytes."""
        if self.windowed and available < self.bytes(self.window):
            return int(available / (self.full + self.windowed))
        rest = available - self.windowed * self.window
        return int(rest / self.full) if self.full else 1 << 40


def cache(config: Mapping[str, Any], element: float, tensor: int = 1, pipeline: int = 1) -> Cache | None:
    """The KV cache of a sequence, ``element`` bytes for each number; None where the model's layers keep something else
    or the config does not tell."""
    text = text_config(config)
    count, heads, width = layers(text), number(text, *HEADS), head_dim(text)
    kind = str(text.get("model_type", ""))
    if not (count and heads and width) or kind.startswith(WITHOUT_KV):
        return None
    latent = number(text, "kv_lora_rank")
    if latent:
        each = (latent + (number(text, "qk_rope_head_dim") or 0)) * element
    else:
        each = 2 * max(1, (number(text, *KV_HEADS) or heads) // tensor) * width * element
    kinds = text.get("layer_types")
    window = number(text, "sliding_window") if text.get("use_sliding_window", True) is not False else None
    if isinstance(kinds, list) and kinds:
        states = sum(any(name in str(k) for name in NO_KV_LAYERS) for k in kinds)
        sliding = sum("sliding" in str(k) or "chunked" in str(k) for k in kinds) if window else 0
        full = len(kinds) - states - sliding
    elif interval := number(text, "full_attention_interval"):  # linear attention in between (Qwen3-Next)
        full, sliding = count // interval, 0
    else:
        full, sliding = (0, count) if window else (count, 0)
    return Cache(each * full / pipeline, each * sliding / pipeline, window or 0) if full or sliding else None


def weight_element(config: Mapping[str, Any], dtype: str | None, quantization: str | None) -> float:
    """Bytes that the engine keeps for one weight."""
    stated = text_config(config).get("quantization_config") or config.get("quantization_config")
    method = quantization or (str(stated.get("quant_method", "")) if isinstance(stated, Mapping) else "")
    if method:
        return next((size for name, size in QUANTIZED.items() if name in method.lower()), FOUR_BITS)
    if str(dtype).lower() in QUANTIZED:  # a trainer's own option for the precision
        return QUANTIZED[str(dtype).lower()]
    # "auto" halves a model that is stored in 32 bits (vLLM, `_get_and_verify_dtype`).
    return ELEMENT.get((dtype or "auto").lower(), 2.0)


@dataclass(frozen=True)
class Training:
    """What decides how much a trainer keeps on each device. ``ranks`` share what is sharded, ``model_ranks`` of them
    hold the parts of one model (tensor, pipeline, expert parallel). ``element`` is the size of a stored weight.
    ``critic_weights`` and ``critic_optimizer`` say that a value model as large and as spread keeps these there."""

    parameters: int
    strategy: str
    ranks: int
    zero_stage: int = 0
    element: float = 2.0
    model_ranks: int = 1
    adapters: bool = False
    frozen_element: float = 2.0
    small_optimizer: bool = False
    reference: bool = False
    weights_offloaded: bool = False
    gradients_offloaded: bool = False
    optimizer_offloaded: bool = False
    critic_weights: bool = False
    critic_optimizer: bool = False


# How a trainer may spread its states: of these :func:`states` knows what a device keeps.
STRATEGIES = frozenset({"single", "dataparallel", "ddp", "deepspeed", "fsdp", "fsdp2", "megatron"})


@dataclass(frozen=True)
class States:
    """Bytes on one device: the trained model's weights, gradients and optimizer states, the reference model, and what
    of the value model stays there while the policy is trained."""

    weights: float
    gradients: float
    optimizer: float
    reference: float
    critic: float

    @property
    def resting(self) -> float:
        """What stays between updates."""
        return self.weights + self.optimizer + self.reference + self.critic

    @property
    def total(self) -> float:
        return self.resting + self.gradients


def states(training: Training) -> States:
    """The trainer's states on one device: the least that its strategy allows."""
    t = training
    held = t.parameters / t.model_ranks
    sharded = t.strategy in ("fsdp", "fsdp2")
    stage = 3 if sharded else t.zero_stage if t.strategy == "deepspeed" else 0
    share = t.model_ranks / t.ranks

    def part(each: float, from_stage: int) -> float:
        return held * each * (share if stage >= from_stage else 1.0)

    if t.adapters:
        weights, gradients, optimizer = part(t.frozen_element, 3), 0.0, 0.0
    else:
        # DeepSpeed and Megatron keep a 32-bit copy beside two moments, plain Adam two moments like the weights.
        copies = 4.0 if t.strategy in ("deepspeed", "megatron") and t.element < 4 else 0.0
        moments = 0.0 if t.small_optimizer else 8.0 if copies else 2 * t.element
        weights, gradients, optimizer = part(t.element, 3), part(t.element, 2), part(copies + moments, 1)
        if t.strategy == "megatron":
            optimizer *= share
    reference = part(t.frozen_element, 3) if t.reference and not t.adapters else 0.0
    return States(
        weights=0.0 if t.weights_offloaded else weights,
        gradients=0.0 if t.gradients_offloaded else gradients,
        optimizer=0.0 if t.optimizer_offloaded else optimizer,
        reference=0.0 if t.weights_offloaded else reference,
        critic=t.critic_weights * weights + t.critic_optimizer * optimizer,
    )


def activations(config: Mapping[str, Any], adapters: bool = False) -> float | None:
    """What autograd keeps of one token for the backward pass where nothing is recomputed, in 16 bits: around attention
    and the gated feed-forward part of each layer (https://arxiv.org/abs/2205.05198, without attention's own matrices,
    which flash attention recomputes). Frozen matrices keep no input (``adapters``). None where the config does not give
    the layers' shape; of layers with experts the chosen ones count."""
    text = text_config(config)
    hidden, count, width = number(text, "hidden_size", "n_embd", "d_model"), layers(text), head_dim(text)
    heads = number(text, *HEADS)
    if not (hidden and count and width and heads):
        return None
    inner = number(text, "moe_intermediate_size")
    chosen = number(text, "num_experts_per_tok") or 1
    inner = inner * chosen if inner else number(text, "intermediate_size", "ffn_hidden_size")
    if not inner:
        return None
    attention = 2 * heads * width + 2 * (number(text, *KV_HEADS) or heads) * width
    # The inputs of both norms, their outputs where a matrix behind them is trained, the gate, what it becomes, the
    # other projection, and their product where that goes into a trained matrix.
    kept = (2 * hidden + attention + 3 * inner) if adapters else (4 * hidden + attention + 4 * inner)
    return 2.0 * count * kept
