"""Makes a model of a few megabytes on the spot: random weights from a fixed seed, a byte-level tokenizer.

Without a model to stand in for it is a Qwen2 of two layers. Given a ``config.json`` it keeps that architecture, the
ratio of heads, the rope and vocabulary settings and the tokenizer, and shrinks layers, widths and experts."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import byte_tokenizer

SEED = 20240229
HEAD_DIM = 64  # vLLM's CPU attention takes 32 and more, its GPU kernels 64 and more
LAYERS = 2
MAX_EXPERTS = 8
WINDOW = 128  # the traffic's prompts are longer: what lies before it is to matter
# Where the model has fewer KV heads than others, a query head may read the wrong one: two of them, unless that makes
# more query heads than these.
KV_HEADS, MOST_HEADS = 2, 8
EVEN = 1.25  # kinds of nearly as many layers share a group size; 0.32 says 1.5, which makes fewer groups
# How much larger than its input what a matrix puts out is. Scores of attention grow with the product of two; at 2.5 it
# chooses, and among all positions.
GAINS = {"q_proj": 1.6, "k_proj": 1.6, "q_norm": 1.6, "k_norm": 1.6}
# How large the stream of layers is: about as in real models, where a norm's epsilon counts. A power of two, so that
# nothing else depends on it. What writes into the stream has it.
STREAM, WRITERS = 2.0**-5, ("embed_tokens.weight", "o_proj.weight", "down_proj.weight")
# What configs call the number of experts.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
# By how much a router prefers a token's own experts to others, before norms, and what else of the stream it reads, in
# parts of a router that reads nothing else: its choice is to be safe from rounding, and its shares are to vary.
PREFERRED, CONTEXT = 10.0, 0.5
# By how much the weights of norms differ from what they are made with, and biases from zero.
UNEVEN = 0.2
# How large the logit of the end of an answer is beside those of other tokens.
RARE = 0.2
# The spread of logits in parts of that at which the likeliest of so many get a share that does not vanish.
FEW = 1.2
# Tokens whose logits are measured to bring them to the wanted spread, and how often.
MEASURED, ROUNDS = 32, 3
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "generation_config.json",
)
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
QWEN2: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 4 * HEAD_DIM,
    "intermediate_size": 4 * HEAD_DIM,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": byte_tokenizer.SIZE,
    "max_position_embeddings": 2048,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "use_cache": True,
    "bos_token_id": None,
    "eos_token_id": byte_tokenizer.END,
    # What models are trained in, and what V1's first releases insist on: float32 made them fall back to V0
    # (https://github.com/vllm-project/vllm/blob/v0.9.1/vllm/engine/arg_utils.py, _is_v1_supported_oracle).
    "torch_dtype": "bfloat16",
}

# What names tokens.
FEW_TOKENS = {name: QWEN2.get(name) for name in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")}

# As models have it whose answers end with a turn or with the text: only the first of them is the tokenizer's own end.
GENERATION = {"eos_token_id": [byte_tokenizer.END, byte_tokenizer.FIRST_SPECIAL]}

# Settings that hold a part which text alone does not exercise; such a model is stood in for by the plain miniature.
OTHER_MODALITIES = ("vision_config", "audio_config", "vision_tower", "speech_config")


def make(
    directory: Path,
    config: dict[str, Any] | None = None,
    files: str | None = None,
    own: bool = False,
    few_tokens: bool = False,
) -> dict[str, Any]:
    """Writes the miniature into ``directory``, with a small vocabulary where it is to have ``few_tokens``, or takes the
    model in ``files`` as it is (``own``). Returns ``path``,
    ``config``, ``like`` (the architecture it stands in for, or None), ``weights`` (``written``, ``own`` or ``dummy``:
    the engine is to make them up), ``tokenizer`` (whether there is one), ``note`` where a given model could not be
    followed, and of a likeness whether it has ``few_tokens``."""
    if own and files and config is not None:
        tokenizer = any((Path(files) / name).exists() for name in TOKENIZERS)
        like = next(iter(config.get("architectures") or []), config.get("model_type"))
        return {"path": files, "config": config, "like": like, "weights": "own", "tokenizer": tokenizer, "note": None}
    directory.mkdir(parents=True, exist_ok=True)
    note = None
    if config is not None:
        modality = next((key for key in OTHER_MODALITIES if config.get(key)), None)
        if modality is None and "hidden_size" in config:
            if few_tokens:
                byte_tokenizer.write(directory, QWEN2["max_position_embeddings"])
                config, files = {**config, **FEW_TOKENS}, None
            return {**_like(directory, shrink(config), files), "few_tokens": few_tokens}
        what = modality or "config without hidden_size"
        note = f"the model's {what} is not scaled down: a plain Qwen2 stands in for it"
    _write_config(directory, QWEN2)
    byte_tokenizer.write(directory, QWEN2["max_position_embeddings"])
    (directory / "generation_config.json").write_text(json.dumps(GENERATION))
    _write_qwen2(directory, QWEN2)
    return {
        "path": str(directory),
        "config": QWEN2,
        "like": None,
        "weights": "written",
        "tokenizer": True,
        "note": note,
    }


def shrink(config: dict[str, Any]) -> dict[str, Any]:
    """The same architecture, small: few KV heads, each with its group of query heads, few layers of every kind, few
    experts."""
    small = {k: v for k, v in config.items() if k not in ("quantization_config", "auto_map", "_name_or_path")}
    heads = int(config.get("num_attention_heads") or 1)
    kv_heads = int(config.get("num_key_value_heads") or heads)
    ratio = max(heads // max(kv_heads, 1), 1)
    given = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
    rope = json.dumps([config.get(key) for key in ("rope_scaling", "rope_parameters")])
    # Their entries are counted in parts of the original head.
    fixed = any(word in rope for word in ("mrope_section", "short_factor", "long_factor"))
    head_dim = given if fixed else min(given, HEAD_DIM)
    small_kv = KV_HEADS if ratio * KV_HEADS <= MOST_HEADS else 1
    small.update(num_attention_heads=ratio * small_kv, hidden_size=ratio * small_kv * head_dim)
    if "num_key_value_heads" in config:
        small["num_key_value_heads"] = small_kv
    if config.get("head_dim"):
        small["head_dim"] = head_dim
    _shrink_layers(small, config)
    for key in [k for k in config if k.endswith("intermediate_size") and isinstance(config[k], int)]:
        small[key] = min(config[key], 4 * HEAD_DIM)
    _shrink_experts(small, config)
    for key in ("sliding_window", "attention_chunk_size"):
        if isinstance(config.get(key), int):
            small[key] = min(config[key], WINDOW)
    return small


def cache_groups(directory: str) -> int:
    """How many KV cache groups V1 makes of the model's layers; a sequence takes blocks in each. Layers of one kind fall
    into groups as large as the smallest kind (vllm/v1/core/kv_cache_utils.py: _get_kv_cache_groups_uniform_page_size);
    one group where the config cannot be read or tells no kinds."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(directory).get_text_config()
    except Exception:  # the engine is to have its say on it
        return 1
    counts = Counter(getattr(config, "layer_types", None) or ["one kind"]).values()
    size = max(counts) if max(counts) < EVEN * min(counts) else min(counts)
    return sum(-(-count // size) for count in counts)


def _shrink_layers(small: dict[str, Any], config: dict[str, Any]) -> None:
    """Two layers, or one of every kind that the config names or counts out."""
    kinds = list(dict.fromkeys(config.get("layer_types") or []))
    layers = min(max(LAYERS, len(kinds)), int(config.get("num_hidden_layers") or LAYERS))
    small["num_hidden_layers"] = layers
    if kinds:
        small["layer_types"] = (kinds * LAYERS)[:layers]
    for key in ("sliding_window_pattern", "full_attention_interval"):
        if isinstance(config.get(key), int):
            small[key] = min(config[key], layers)
    if isinstance(given := config.get("max_window_layers"), int):
        # From this layer on windows slide: in some of the layers, where the model has some.
        some = config.get("use_sliding_window") and given < int(config.get("num_hidden_layers") or 0)
        small["max_window_layers"] = min(given, layers - 1 if some else layers)
    if isinstance(config.get("first_k_dense_replace"), int):
        small["first_k_dense_replace"] = min(config["first_k_dense_replace"], 1)


def _shrink_experts(small: dict[str, Any], config: dict[str, Any]) -> None:
    for key in EXPERTS:
        if isinstance(config.get(key), int):
            small[key] = min(config[key], MAX_EXPERTS)
    if isinstance(config.get("num_experts_per_tok"), int):
        small["num_experts_per_tok"] = min(config["num_experts_per_tok"], 2)
    for key in ("n_group", "topk_group"):
        if isinstance(config.get(key), int):
            small[key] = 1


def _like(directory: Path, config: dict[str, Any], files: str | None) -> dict[str, Any]:
    made: dict[str, Any] = {"path": str(directory), "config": config, "weights": "written", "note": None}
    made["like"] = next(iter(config.get("architectures") or []), config.get("model_type"))
    made["tokenizer"] = _link_tokenizer(directory, files)
    _write_config(directory, config)
    try:
        _write_any(directory, config)
    except Exception as error:  # a config that transformers cannot build: the engine is to have its say on it
        made["weights"] = "dummy"
        made["note"] = f"transformers could not build it: {type(error).__name__}: {error}"
    _write_config(directory, config)  # saving rewrites it, and may mend what is wrong with it
    return made


def _write_any(directory: Path, config: dict[str, Any]) -> None:
    """Weights of any architecture that transformers knows."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(SEED)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(str(directory))).float()
    sensitive(model)
    model.to(torch.bfloat16).save_pretrained(str(directory))


def sensitive(model: Any) -> None:
    """Weights in the place of those that transformers makes a model with, which are too small, and too regular, to tell
    what is computed with them: every layer adds to the stream as much as it holds, attention chooses among all
    positions, no norm is one and no bias zero, and the next token's distribution has the one to two nats of a real
    model."""
    import torch

    chance = torch.Generator().manual_seed(SEED)
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_drawn(name, parameter, chance))
        _decide(model, chance)
        ids = torch.randint(3, embedding.weight.shape[0] * 3 // 4, (1, MEASURED), generator=chance)
        embedding.weight /= embedding(ids).std()  # some models multiply what they look up
        tied = head is None or head.weight is embedding.weight
        scaled = _last_norm(model) if tied else head.weight
        if scaled is None:
            return
        # Some norms add one to their weight.
        shift = 1.0 if tied and abs(float(scaled.mean())) < 0.5 else 0.0
        if tied:  # of either sign: else the token that was read last is by far the likeliest
            scaled.copy_((scaled + shift) * torch.randn(scaled.shape, generator=chance).sign() - shift)
        for _ in range(ROUNDS):
            spread = float(model.eval()(input_ids=ids).logits.float().std())
            scaled.copy_((scaled + shift) * (_spread(embedding.weight.shape[0]) / spread) - shift)


def _drawn(name: str, parameter: Any, chance: Any) -> Any:
    """Values for a parameter, by its name and form."""
    import torch

    noise = torch.randn(parameter.shape, generator=chance)
    kind = name.rpartition(".")[0].rpartition(".")[2]
    if parameter.dim() > 1:
        if "embed" in kind:
            return noise
        return noise * GAINS.get(kind, 1.0) / parameter.shape[-1] ** 0.5
    if "norm" in kind:
        return parameter * GAINS.get(kind, 1.0) + UNEVEN * noise
    if name.endswith(("bias", "sinks")):
        return UNEVEN * noise
    return parameter


def _decide(model: Any, chance: Any) -> None:
    """Routers that choose a token's experts by what its embedding says in directions of the stream that nothing else
    reads or writes. Where two experts are as good as each other, rounding to 16 bits exchanges them, in one token of
    fifty, and one of a miniature's few experts is worth nats, where a real model has hundreds that add up."""
    import torch

    config = model.config.get_text_config()
    experts = next((count for key in EXPERTS if (count := getattr(config, key, None))), 0)
    each = getattr(config, "num_experts_per_tok", None)
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    hidden = embedding.shape[1]
    routers = [one for one in model.parameters() if tuple(one.shape) == (experts, hidden)]
    if not routers or not isinstance(each, int) or each >= experts:
        return
    directions = torch.linalg.qr(torch.randn(hidden, experts, generator=chance)).Q
    kept = {id(one) for one in (*routers, embedding, *([] if head is None else [head.weight]))}
    for matrix in [one for one in model.parameters() if one.dim() > 1 and id(one) not in kept]:
        for axis in [axis for axis, size in enumerate(matrix.shape) if size == hidden]:
            values = matrix.movedim(axis, -1)
            values -= values @ directions @ directions.T
    for router in routers:
        router.copy_(CONTEXT * router + directions.T)
    chosen = torch.rand(len(embedding), experts, generator=chance).topk(each).indices
    own = torch.zeros(len(embedding), experts).scatter(1, chosen, 1.0) - 0.5
    embedding += (PREFERRED * own - embedding @ directions) @ directions.T


def _spread(vocabulary: int) -> float:
    """The standard deviation of logits at which so many of them leave one to two nats: beyond where, for independent
    normal ones, few take it all (Derrida's random energy model)."""
    return FEW * math.sqrt(2.0 * math.log(vocabulary))


def _last_norm(model: Any) -> Any:
    """The weight of the norm before the head, or None."""
    found = [p for name, p in model.named_parameters() if "norm" in name.lower() and ".layers." not in name]
    return next((p for p in reversed(found) if p.dim() == 1), None)


def _write_qwen2(directory: Path, config: dict[str, Any]) -> None:
    import torch
    from safetensors.torch import save_file

    chance = torch.Generator().manual_seed(SEED)
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head = hidden // config["num_attention_heads"]
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"], "v": config["num_key_value_heads"]}
    ones, zeros = torch.ones, torch.zeros
    weights = {
        "model.embed_tokens.weight": zeros(vocab, hidden),
        "model.norm.weight": ones(hidden),
        "lm_head.weight": zeros(vocab, hidden),
    }
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}."
        for name, count in heads.items():
            weights[f"{layer}self_attn.{name}_proj.weight"] = zeros(count * head, hidden)
            weights[f"{layer}self_attn.{name}_proj.bias"] = zeros(count * head)
        weights[layer + "self_attn.o_proj.weight"] = zeros(hidden, heads["q"] * head)
        weights[layer + "mlp.gate_proj.weight"] = zeros(inner, hidden)
        weights[layer + "mlp.up_proj.weight"] = zeros(inner, hidden)
        weights[layer + "mlp.down_proj.weight"] = zeros(hidden, inner)
        weights[layer + "input_layernorm.weight"] = ones(hidden)
        weights[layer + "post_attention_layernorm.weight"] = ones(hidden)
    weights = {name: _drawn(name, tensor, chance) for name, tensor in weights.items()}
    for name in [name for name in weights if name.endswith(WRITERS)]:
        weights[name] *= STREAM
    weights["lm_head.weight"] *= _spread(vocab)
    weights["lm_head.weight"][byte_tokenizer.END] *= RARE  # an answer that ends at once shows little
    save_file(weights, str(directory / "model.safetensors"), metadata={"format": "pt"})


def _write_config(directory: Path, config: dict[str, Any]) -> None:
    (directory / "config.json").write_text(json.dumps(config, indent=1))


def _link_tokenizer(directory: Path, files: str | None) -> bool:
    for name in TOKENIZER_FILES if files else ():
        source = Path(str(files)) / name
        if source.is_file():
            (directory / name).symlink_to(source.resolve())
    return any((directory / name).exists() for name in TOKENIZERS)
