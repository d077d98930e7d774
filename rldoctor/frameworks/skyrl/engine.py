"""What SkyRL hands to vLLM: ``create_ray_wrapped_inference_engines`` of skyrl-train and of skyrl through 0.2, and
``build_vllm_cli_args`` (inference_servers/utils.py) of the HTTP servers from skyrl 0.2 on."""

from __future__ import annotations

from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.shared_rules import keys_of, passed_twice
from rldoctor.frameworks.skyrl.release import FIRST, first, handed_over, owner_of, second, servers
from rldoctor.frameworks.skyrl.table import ENGINE, LEGACY, TABLE

# What ray_wrapped_inference_engine.py passes to the actors by name, beside **engine_init_kwargs (from 0.2 on).
PASSED = (
    "model",
    "enforce_eager",
    "worker_extension_cls",
    "tensor_parallel_size",
    "enable_expert_parallel",
    "distributed_executor_backend",
    "seed",
    "enable_prefix_caching",
    "dtype",
    "trust_remote_code",
    "gpu_memory_utilization",
    "enable_sleep_mode",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_logprobs",
)


def lengths(draft: Draft) -> None:
    response, prompt = draft.value("lengths.response"), draft.value("lengths.prompt")
    draft.derive("sampling.max_tokens", response, "max_generate_length", "lengths.response")
    # A turn starts with at most max_input_length tokens, which is max_prompt_length where it is not given.
    longest = draft.native("generator.max_input_length")
    longest = longest if isinstance(longest, int) and not isinstance(longest, bool) else prompt
    if not longest or not response:
        return
    how = f"input {longest} + response {response}"
    draft.derive("lengths.total", longest + response, how, "lengths.response", "lengths.prompt")
    if first(draft, "0.1", "0.2"):
        # entrypoints/main_base.py of 0.1; later releases leave the context to the model or to engine_init_kwargs.
        draft.derive("engine.max_model_len", longest + response, how, "lengths.response", "lengths.prompt")
    scaling = draft.value("engine.rope_scaling")
    if isinstance(scaling, dict) and (first(draft, "0.3") or second(draft, "0.1", "0.3")):
        factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings")
        if isinstance(factor, int | float) and isinstance(original, int):
            how = f"factor {factor} x {original} positions"
            draft.derive("engine.max_model_len", int(factor * original), how, "engine.rope_scaling")


def seeds(draft: Draft) -> None:
    seed, shared = draft.value("seed.trainer"), servers(draft)
    if shared is None:
        return
    draft.derive("seed.engine", seed, "trainer.seed", "seed.trainer")
    if shared:
        draft.derive("seed.per_replica", "same", "every engine gets trainer.seed", "seed.trainer")
        # inference_servers/utils.py: consistent_hash over X-Session-ID, one for each trajectory
        draft.derive("rollout.spread", "session", "a router chooses by a hash of each trajectory's name")
        draft.derive("engine.seed", seed, "trainer.seed", "seed.trainer")
    else:
        draft.derive("seed.per_replica", "replica", "trainer.seed + index of the engine", "seed.trainer")
        draft.derive("engine.seed", seed, "trainer.seed + index of the engine", "seed.trainer")
    given = draft.value("sampling.seed")
    draft.derive("seed.per_request", "none" if given is None else "same", "additional_kwargs.seed", "sampling.seed")
    draft.derive("sampling.n", 1, "each completion is a request of its own")


def engine(draft: Draft) -> None:
    if draft.value("rollout.backend", "vllm") != "vllm":
        return
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("engine.trust_remote_code", True, "fixed by SkyRL")
    shared = servers(draft)
    colocated = draft.value("placement.mode") == "colocate"
    if colocated and not handed_over(draft):  # in every release
        draft.derive("engine.enable_sleep_mode", True, "colocate_all", "placement.mode")
    if shared is not None:
        draft.derive("sleep.enabled", colocated, "colocate_all", "placement.mode")
        offloading = draft.native(f"{ENGINE}.offload_kv_for_weight_sync") is True and second(draft, "0.4")
        draft.derive("engine.enable_sleep_mode", offloading, "colocate_all", "placement.mode")
        if not draft.value("env.VLLM_USE_V1"):
            draft.override("env.VLLM_USE_V1", "1", "SkyRL sets it where it is not set")
    if shared is False:
        ranks = draft.ranks("engine.tensor_parallel_size", "engine.pipeline_parallel_size")
        executor = None if ranks is None else "uni" if ranks == 1 else "ray"
        draft.override(
            "engine.distributed_executor_backend", executor, f"{ranks} ranks per engine", "engine.tensor_parallel_size"
        )
        draft.derive("engine.max_logprobs", 1, "fixed by SkyRL")
        _twice(draft)
    elif shared:
        draft.derive("engine.generation_config", "vllm", "fixed by SkyRL")
        draft.derive("engine.mm_processor_cache_gb", 0, "fixed by SkyRL")
    _adapters(draft)
    if colocated:
        level = 1 if first(draft, "0.1", "0.2") or draft.value("engine.enable_lora") else 2
        draft.derive(
            "sleep.level", level if shared is not None else None, "2, or 1 with adapters and in 0.1", "placement.mode"
        )
    elif shared is not None:
        draft.derive("sleep.level", 0, "colocate_all is false", "placement.mode")
    if draft.native(f"{ENGINE}.use_expandable_segments") is True:
        draft.derive(
            "env.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "use_expandable_segments of the engines"
        )


def _twice(draft: Draft) -> None:
    owner = owner_of(draft.launch)
    names = list(PASSED)
    if first(draft, "0.3") or second(draft, "0.1"):
        names.append("pipeline_parallel_size")
    old = {new: key for key, new in LEGACY.items()}

    def own(name: str) -> str | None:
        if name == "model":
            return "trainer.policy.model.path"
        key = next((key for key in keys_of(TABLE, f"engine.{name}") if key.startswith(f"{ENGINE}.")), None)
        return old.get(key or "") if owner == FIRST else key

    section = f"{ENGINE}.engine_init_kwargs"
    stated = f"{owner} {draft.launch.version_of(owner)}"
    passed_twice(draft, old[section] if owner == FIRST else section, names, stated, own)


def _adapters(draft: Draft) -> None:
    """Megatron merges adapters into the weights unless told otherwise; everywhere else the engine serves them."""
    rank = draft.value("lora.rank", 0)
    draft.derive("lora.enabled", rank > 0, f"lora.rank {rank}", "lora.rank")
    draft.derive("trainer.full", rank <= 0, f"lora.rank {rank}", "lora.rank")
    if rank <= 0:
        return
    megatron = draft.value("trainer.strategy") == "megatron"
    merged = megatron and draft.value("lora.merged", True) is not False
    draft.derive("lora.merged", merged, "Megatron merges adapters", "trainer.strategy")
    if merged:
        return
    draft.derive("engine.enable_lora", True, f"lora.rank {rank}", "lora.rank")
    draft.derive("engine.max_lora_rank", rank, f"lora.rank {rank}", "lora.rank")
    draft.derive("engine.max_loras", 1, "one adapter", "lora.rank")
    if draft.value("engine.enforce_eager") and (first(draft, "0.3") or second(draft, "0.1")):
        draft.override("engine.enforce_eager", False, "switched off by SkyRL with adapters", "lora.rank")
