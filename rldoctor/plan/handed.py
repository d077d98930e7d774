"""What a launch and its framework hand to vLLM: options of ``EngineArgs`` that are not its own defaults, nor about the
machine."""

from __future__ import annotations

from rldoctor.plan.model import RolloutPlan, Setting, Source

# The engine's options that name files, addresses and programs, or that speak of the machine and the build.
NOT_ASKED = frozenset(
    {
        "model", "tokenizer", "revision", "trust_remote_code", "task", "runner", "quantization", "load_format",
        "device", "kv_cache_dtype", "swap_space", "cpu_offload_gb", "compilation_config", "data_parallel_rank",
        "data_parallel_size_local", "data_parallel_address", "data_parallel_rpc_port", "data_parallel_start_rank",
        "data_parallel_backend", "all2all_backend", "kv_transfer_config", "worker_cls", "worker_extension_cls",
        "enable_sleep_mode", "disable_log_stats", "limit_mm_per_prompt", "mm_processor_kwargs", "generation_config",
        "override_generation_config", "chat_template", "speculative_config", "guided_decoding_backend",
        "structured_outputs_config", "attention_backend", "skip_tokenizer_init", "weight_transfer_config",
        "served_model_name", "lora_dtype", "enable_eplb", "seed",
    }
)  # fmt: skip


def handed(plan: RolloutPlan, but: frozenset[str] = NOT_ASKED) -> dict[str, Setting]:
    """The settings by the engine's own names, ``but`` some; none where another engine rolls out, or where it is not
    known what the framework's release hands on."""
    elsewhere = plan.value("rollout.backend", "vllm") != "vllm" or plan.value("rollout.enabled") is False
    if elsewhere or plan.version is None:
        return {}
    found = {}
    for name, setting in plan.settings.items():
        option = name.removeprefix("engine.")
        if option != name and option not in but and not is_own_default(setting):
            found[option] = setting
    return found


def is_own_default(setting: Setting) -> bool:
    """Whether nobody says it, so that the engine's class has its own default."""
    return setting.source is Source.DEFAULT and (setting.how or "").startswith("default of vllm")
