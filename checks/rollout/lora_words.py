"""How engines and PEFT refuse an adapter, what that means, and what helps."""

from __future__ import annotations

# What the engine prints -> what is wrong, and what helps.
REFUSALS: dict[str, tuple[str, str]] = {
    "vLLM does not yet support DoRA": ("the adapter is a DoRA adapter", "train a plain LoRA adapter (use_dora=False)"),
    "vLLM only supports modules_to_save being None": (
        "the adapter has modules that are trained in full",
        "train adapters only (modules_to_save empty), or merge them before they go to the engine",
    ),
    "is unsupported LoRA weight": (
        "the adapter has a weight that vLLM does not know",
        "name target_modules that vLLM serves with adapters",
    ),
    " is not supported for LoRA.": (
        "this vLLM serves no adapters for this architecture",
        "merge the adapter into the weights, or take a vLLM release that supports it",
    ),
    "does not support LoRA yet": (
        "this vLLM serves no adapters for this architecture",
        "merge the adapter into the weights, or take a vLLM release that supports it",
    ),
    "expected target modules in": (
        "the adapter's target modules are not among those that vLLM serves",
        "name target_modules that vLLM serves (q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj)",
    ),
    " not found in the base model": (
        "PEFT finds none of the adapter's target modules in this model",
        "name modules that the model has (print(model)), or target_modules='all-linear'",
    ),
    ": No adapter found for ": (
        "the engine finds no adapter at the path that the request names",
        "save the adapter (adapter_config.json and its weights) where every engine process can read it, before the "
        "request",
    ),
    "assert inputs.size(1) == lora_a_weights[0].size(-1)": (
        "an adapter is applied to a layer that it does not fit (adapters on a vision tower, or of another base model)",
        "train adapters on the language model's layers alone, or merge the adapter before it goes to the engine",
    ),
    "but LoRA is not enabled!": (
        "a request names an adapter and the engine was started without adapters",
        "start the engine with enable_lora=True and a max_lora_rank that holds the adapter",
    ),
}
