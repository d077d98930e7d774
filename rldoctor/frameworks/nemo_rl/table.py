"""NeMo-RL's keys in canonical names: the YAML of ``examples/configs`` and the classes of ``nemo_rl`` of 0.1 to 0.7."""

from __future__ import annotations

from rldoctor.frameworks.rule import Rule, chosen
from rldoctor.frameworks.shared_rules import below, decided, gigabytes

GENERATION = "policy.generation"
VLLM = f"{GENERATION}.vllm_cfg"
DTENSOR, MEGATRON = "policy.dtensor_cfg", "policy.megatron_cfg"
DYNAMIC, PACKED = "policy.dynamic_batching", "policy.sequence_packing"
# The section of the training loop: one of them stands in a file.
LOOPS = ("grpo", "ppo", "distillation")


def _loop(name: str) -> dict[str, str | Rule]:
    rows: dict[str, str] = {
        "num_prompts_per_step": "batch.prompts",
        "num_generations_per_prompt": "batch.generations",
        "max_num_steps": "trainer.steps",
        "max_num_epochs": "trainer.epochs",
        "max_rollout_turns": "lengths.turns",
        "val_batch_size": "batch.validation",
        "val_period": "trainer.eval_every",
        "seed": "seed.trainer",
        "use_dynamic_sampling": "rollout.filtered",
        "ppo_epochs": "batch.iterations",
        **{
            f"async_{name}.{key}": option
            for key, option in {
                "enabled": "rollout.async",
                "max_trajectory_age_steps": "rollout.staleness",
                "in_flight_weight_updates": "rollout.partial",
            }.items()
        },
    }
    found: dict[str, str | Rule] = {
        f"{name}.{key}": Rule(option, spelled=name == "grpo") for key, option in rows.items()
    }
    return {**found, f"{name}.batch_multiplier": decided("batch.pool")}


def _engine(root: str, spelled: bool) -> dict[str, str | Rule]:
    vllm = {
        "precision": "engine.dtype",
        "tensor_parallel_size": "engine.tensor_parallel_size",
        "pipeline_parallel_size": "engine.pipeline_parallel_size",
        "gpu_memory_utilization": "engine.gpu_memory_utilization",
        "max_model_len": "engine.max_model_len",
        "enforce_eager": "engine.enforce_eager",
        "kv_cache_dtype": "engine.kv_cache_dtype",
        "enable_prefix_caching": "engine.enable_prefix_caching",
        "skip_tokenizer_init": "engine.skip_tokenizer_init",
        "logprobs_mode": "engine.logprobs_mode",
        "load_format": "engine.load_format",
        "async_engine": "rollout.async_engine",
    }
    sampling = {
        "backend": "rollout.backend",
        "max_new_tokens": "lengths.response",
        "temperature": "sampling.temperature",
        "top_p": "sampling.top_p",
        "top_k": "sampling.top_k",
        "stop_strings": "sampling.stop",
        "stop_token_ids": "sampling.stop_token_ids",
    }
    rows: dict[str, str | Rule] = {
        f"{root}.vllm_cfg.{key}": Rule(option, spelled=spelled) for key, option in vllm.items()
    }
    rows.update({f"{root}.{key}": Rule(option, spelled=spelled) for key, option in sampling.items()})
    rows[f"{root}.vllm_cfg.expert_parallel_size"] = Rule(
        "engine.enable_expert_parallel", read=lambda size: int(size) > 1
    )
    rows[f"{root}.vllm_cfg.env_vars.*"] = Rule("env.*", spelled=False)
    rows[f"{root}.vllm_kwargs.*"] = Rule("engine.*", spelled=spelled)
    # val_temperature and its like (0.7): sampling of validation where it differs.
    rows.update({f"{root}.val_{key}": decided("rollout.eval_sampling") for key in ("temperature", "top_p", "top_k")})
    return rows


_POLICY: dict[str, str | Rule] = {
    "policy.model_name": "model.path",
    "policy.tokenizer.name": "model.tokenizer",
    "policy.tokenizer.chat_template": "model.chat_template",
    "policy.hf_config_overrides": "model.overrides",
    "policy.train_global_batch_size": "batch.train",
    "policy.train_micro_batch_size": "batch.per_device",
    "policy.logprob_batch_size": "batch.logprob_per_device",
    "policy.generation_batch_size": "batch.rollout_per_device",
    "policy.max_total_sequence_length": "lengths.total",
    "policy.precision": "trainer.dtype",
    "policy.logprob_chunk_size": Rule("trainer.logits_chunked", read=bool),
    "policy.refit_buffer_size_gb": gigabytes("sync.bucket_mb"),
    f"{DYNAMIC}.enabled": "batch.dynamic",
    f"{PACKED}.enabled": "batch.packing",
    # FSDP 1, through 0.2.
    "policy.fsdp_offload_enabled": Rule("trainer.offload_params", spelled=False),
    "policy.activation_checkpointing_enabled": Rule("trainer.gradient_checkpointing", spelled=False),
    f"{DTENSOR}.enabled": decided("trainer.strategy"),
    f"{MEGATRON}.enabled": decided("trainer.strategy"),
    "value.train_micro_batch_size": "batch.critic_per_device",
    "value.model_name": "model.critic_path",
    "data.max_input_seq_length": decided("lengths.prompt"),
    "loss_fn.use_importance_sampling_correction": "rollout.importance_correction",
    "loss_fn.reference_policy_kl_penalty": "trainer.kl_coefficient",
    "checkpointing.save_period": "trainer.save_every",
    "async_rl.max_inflight_prompts": "rollout.concurrency",
    "async_rl.sampler.name": "rollout.sampler",
    "async_rl.sampler.max_staleness_versions": Rule("rollout.staleness", spelled=False),
}

# Keys of alternatives, of which one section is in force: (section, whose switch) -> key -> canonical name.
ALTERNATIVES: dict[str, dict[str, str]] = {
    DTENSOR: {
        "tensor_parallel_size": "parallel.tensor",
        "context_parallel_size": "parallel.context",
        "expert_parallel_size": "parallel.expert",
        "sequence_parallel": "parallel.megatron_sequence",
        "cpu_offload": "trainer.offload_params",
        "activation_checkpointing": "trainer.gradient_checkpointing",
        "lora_cfg.enabled": "lora.enabled",
        "lora_cfg.dim": "lora.rank",
        "lora_cfg.alpha": "lora.alpha",
        "lora_cfg.dropout": "lora.dropout",
        "lora_cfg.target_modules": "lora.target_modules",
        "lora_cfg.exclude_modules": "lora.excluded_modules",
    },
    MEGATRON: {
        "tensor_model_parallel_size": "parallel.tensor",
        "pipeline_model_parallel_size": "parallel.pipeline",
        "context_parallel_size": "parallel.context",
        "expert_model_parallel_size": "parallel.expert",
        "expert_tensor_parallel_size": "parallel.expert_tensor",
        "sequence_parallel": "parallel.megatron_sequence",
        "activation_checkpointing": "trainer.gradient_checkpointing",
        "optimizer.optimizer_cpu_offload": "trainer.offload_optimizer",
        "peft.enabled": "lora.enabled",
        "peft.dim": "lora.rank",
        "peft.alpha": "lora.alpha",
        "peft.dropout": "lora.dropout",
        "peft.target_modules": "lora.target_modules",
        "peft.exclude_modules": "lora.excluded_modules",
    },
    DYNAMIC: {"train_mb_tokens": "batch.tokens_per_device", "logprob_mb_tokens": "batch.logprob_tokens_per_device"},
    PACKED: {"train_mb_tokens": "batch.tokens_per_device", "logprob_mb_tokens": "batch.logprob_tokens_per_device"},
}

_PLACE: dict[str, str | Rule] = {
    "cluster.gpus_per_node": "placement.gpus_per_node",
    "cluster.num_nodes": "placement.nodes",
    f"{GENERATION}.colocated.enabled": chosen("placement.mode", {True: "colocate", False: "separate"}),
    f"{GENERATION}.colocated.resources.gpus_per_node": "placement.engine_gpus_per_node",
    f"{GENERATION}.colocated.resources.num_nodes": "placement.engine_nodes",
    f"{GENERATION}.refit_transport": "sync.backend",
}

TABLE: dict[str, str | Rule] = {
    **{key: rule for loop in LOOPS for key, rule in _loop(loop).items()},
    **_POLICY,
    **{f"{section}.{key}": option for section, keys in ALTERNATIVES.items() for key, option in keys.items()},
    **_engine(GENERATION, spelled=True),
    **_PLACE,
    # examples/run_eval.py has its engine at the top level.
    **_engine("generation", spelled=False),
}

# Steps, validation, rewards and advantages of the loop.
_LOOP = """
val_* max_val_samples num_val_generations_per_prompt normalize_rewards use_leave_one_out_baseline reward_* adv*
overlong_filtering stop_at_validation_* seq_logprob_error_threshold best_at_k_* use_best_at_k combined_*
use_combined_training dynamic_sampling_* *_strategy penalize_* malformed_thinking_advantage
invalid_tool_call_advantage skip_reference_policy_logprobs_calculation zero_variance_prompt_filtering
calculate_advantages_on_gpu deduplicate_multimodal_data debug_payload_metrics topk_logits_k
policy_training_start_step checkpoint_dir async_{loop} async_{loop}.recompute_kv_cache_*
async_{loop}.max_generation_failures async_{loop}.drop_incomplete_targets_on_restore
async_{loop}.warmup_generation_lead_steps
"""
# Other engines, the engine's HTTP server, its quantization and its way of taking weights. Of vllm_cfg, nobody reads
# enable_expert_parallel, distributed_executor_backend, max_num_seqs and limit_mm_per_prompt: the worker passes
# expert_parallel_size > 1, an executor of its own, and vllm_kwargs.
_GENERATION = """
sglang_* trtllm_* mcore_generation_config* dynamo_cfg* port_range_* quant_cfg real_quant* refit_cfg* bad_words
use_async_rollouts vllm_kwargs model_name num_prompts_per_step colocated.resources _pad_token_id pad_token_id
vllm_cfg.http_* vllm_cfg.expose_http_server vllm_cfg.*_plugin vllm_cfg.*metrics_logger*
vllm_cfg.num_*_layers_in_bf16 vllm_cfg.use_deep_gemm vllm_cfg.is_mx vllm_cfg.use_tqdm vllm_cfg.video*
vllm_cfg.cap_max_tokens_to_context vllm_cfg.quantization_ignored_layer_kws vllm_cfg.reset_encoder_cache_*
vllm_cfg.zmq_refit_server_port vllm_cfg.env_vars vllm_cfg.enforce_monotonicity vllm_cfg.enable_thinking
vllm_cfg.enable_expert_parallel vllm_cfg.distributed_executor_backend vllm_cfg.max_num_seqs
vllm_cfg.limit_mm_per_prompt*
"""
# How the trainer computes, without a bearing on rollouts, batches, placement or sharding.
_TRAINER = """
dtensor_cfg.* megatron_cfg.* optimizer* scheduler* tokenizer.* draft.* quant_* max_grad_norm learning_rate
make_sequence_length_divisible_by offload_optimizer_for_logprob is_vlm disable_modelopt_layer_spec router_replay.*
dynamic_batching.sequence_length_round sequence_packing.sequence_length_round sequence_packing.algorithm
sequence_packing.fuse_loss sequence_packing.microbatch_order reward_model_cfg*
"""
_ELSEWHERE = """
defaults *._override_ _teachers* sif_dir env env.* env_configs* data data.* logger logger.* checkpointing
checkpointing.* loss_fn loss_fn.* value_loss_fn* reward_penalties* data_plane* teacher* value.*
on_policy_distillation* reward_model_cfg* eval.* tokenizer.* async_rl.*.* async_rl.diagnostics
async_rl.max_buffered_rollouts async_rl.min_groups_for_streaming_train
async_rl.recompute_kv_cache_after_weight_updates cluster.master_port_range_* cluster.segment_size
"""

BESIDE = (
    *_ELSEWHERE.split(),
    *(pattern for loop in LOOPS for pattern in below(loop, _LOOP.format(loop=loop))),
    *below("policy", _TRAINER),
    *(pattern for root in (GENERATION, "generation") for pattern in below(root, _GENERATION)),
)
"""Keys that say nothing about rollouts, batches, placement, seeds or parallelism."""
