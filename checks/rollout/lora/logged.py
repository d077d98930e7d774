"""How engines refuse an adapter."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Edit, Finding, Fix, LogEvent

from . import check
from .ranks import LIMIT, RANK, accepted

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
    " is not supported. Currently, only the following modules are supported": (
        "PEFT puts no adapter on a module of that kind: the names in target_modules fit others than linear layers too",
        "name linear layers alone in target_modules (q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj)",
    ),
    " not found in the base model": (
        "PEFT finds none of the adapter's target modules in this model",
        "name modules that the model has (print(model)), or target_modules='all-linear'",
    ),
    "No modules were targeted for adaptation": (
        "PEFT is left with no module for the adapter: what target_modules names, exclude_modules or modules_to_save "
        "takes away",
        "name modules that the model has (print(model)), or target_modules='all-linear', and none of them twice",
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
    "adapters that add tokens to the vocabulary": (
        "the adapter brings tokens of its own (added_tokens.json), and the engine serves none with adapters",
        "save the adapter without its tokenizer where no token was added, or merge it before it goes to the engine",
    ),
    "is incompatible with the current LoRA memory pool": (
        "the adapter's rank or target modules are above what SGLang set aside for adapters as it started",
        "start the engine with a max_lora_rank and lora_target_modules that hold the adapter",
    ),
    "No suitable kernel. h_in=": (
        "this vLLM's compiled LoRA kernels lack the adapter's shape or precision",
        "run engine and adapter in one of float16 and bfloat16, or take a vLLM from 0.6 on, whose kernels are Triton's",
    ),
    "but LoRA is not enabled!": (
        "a request names an adapter and the engine was started without adapters",
        "start the engine with enable_lora=True and a max_lora_rank that holds the adapter",
    ),
}


@check.logged("is greater than max_lora_rank")
def rank_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``LoRA rank 64 is greater than max_lora_rank 16.``"""
    numbers = event.search(r"LoRA rank (\d+) is greater than max_lora_rank\s*(\d+)?")
    if numbers is None:
        return
    rank = int(numbers[1])
    size = next((size for size in accepted(None) if size >= rank), rank)
    above = f" {numbers[2]}" if numbers[2] else ""
    yield check.finding(
        f"the adapter's rank {rank} is above the engine's max_lora_rank{above}",
        fixes=(
            Fix.unsafe(f"start the engine with max_lora_rank={size}", {LIMIT: size}),
            Fix(title="or train an adapter of a smaller rank"),
        ),
    )


@check.logged("max_lora_rank (", "Input should be 1, 8, 16, 32, 64, 128, 256, 320 or 512")
def size_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``max_lora_rank (24) must be one of (8, 16, ...)``; from 0.11.1 on pydantic's ``Input should be 1, 8, ...``."""
    asked = event.search(r"max_lora_rank \((\d+)\) must be one of") or event.search(
        r"Input should be 1, 8, 16, 32[^\[]*\[type=literal_error, input_value=(\d+)"
    )
    if asked is None:
        return
    rank = int(asked[1])
    size = next((size for size in accepted(None) if size >= rank), 512)
    yield check.finding(
        f"vLLM does not accept max_lora_rank {rank}",
        fixes=(
            Fix.unsafe(
                f"train an adapter of rank {size}, where the framework hands its rank on as max_lora_rank", {RANK: size}
            ),
            Fix.unsafe(f"or start the engine with max_lora_rank={size}", {LIMIT: size}),
        ),
    )


# Words that also stand in other messages, and how these ones have them.
_WHOLE = {" not found in the base model": r"[Tt]arget modules .{1,400} not found in the base model"}
for _literal, (_says, _remedy) in REFUSALS.items():
    _edits = (Edit(option="engine.enable_lora", value=True),) if "enable_lora" in _remedy else ()
    check.signature(
        _literal,
        pattern=_WHOLE.get(_literal),
        says=_says,
        fixes=(Fix(title=_remedy, applicability=Applicability.UNSAFE, edits=_edits),),
    )


# The request's path has no adapter in it: before vLLM said so itself, Python did.
check.signature(
    "adapter_config.json'",
    pattern=r"\[Errno 2\] [^'\n]{0,60}'(?P<path>[^'\n]{0,300}?)/?adapter_config\.json'",
    exception="FileNotFoundError",
    says="no adapter is at {path}",
    fixes=(Fix(title=REFUSALS[": No adapter found for "][1]),),
)


_TRAINABLE = Fix(
    title="load an adapter that is to be trained further with PeftModel.from_pretrained(model, path, is_trainable=True)"
)

check.signature(
    "trainable params: 0 ||",
    says="no parameter of the adapted model is trainable: an adapter loaded without is_trainable=True serves inference "
    "only",
    fixes=(
        _TRAINABLE,
        Fix(title="or give the trainer a peft_config, so that it makes a new adapter (its weights require gradients)"),
    ),
    silent=True,
    url="https://huggingface.co/docs/peft/main/en/package_reference/peft_model",
)
check.signature(
    " already exists. Please use a different name.",
    pattern=r"Adapter with name (?P<name>\S+) already exists",
    says="the model already has an adapter {name}: it is attached a second time",
    fixes=(
        Fix(title="hand the trainer either a PeftModel or a peft_config, not both"),
        Fix(title="or remove the first one before the next round: model.delete_adapter({name}), or merge_and_unload()"),
    ),
    url="https://huggingface.co/docs/peft/main/en/package_reference/peft_model",
)
check.signature(
    " has already been loaded.",
    pattern=r"[Ll]o[Rr][Aa] adapter '?(?P<name>[^'\s]+)'? has already been loaded",
    says="the engine already has an adapter {name}: the next round's weights are refused under the same name",
    fixes=(
        Fix(title="unload it first (POST /v1/unload_lora_adapter), or give each round its own name and id"),
        Fix(title="or replace it in place (load_inplace in the request), where this vLLM has it"),
    ),
    url="https://docs.vllm.ai/en/latest/features/lora.html",
)
check.signature(
    "object has no attribute 'load_lora'",
    "object has no attribute 'save_lora'",
    says="the model was loaded without unsloth's engine, which load_lora and save_lora belong to",
    fixes=(Fix(title="load it with FastLanguageModel.from_pretrained(..., fast_inference=True, max_lora_rank=RANK)"),),
    url="https://github.com/unslothai/unsloth/issues/2009",
)
