"""TRL's names in canonical ones: its trainer configs from 0.14 on, ``ModelConfig``, training arguments."""

from __future__ import annotations

from typing import Any

from rldoctor.frameworks.rule import Rule, report_to
from rldoctor.frameworks.vllm.dialect import SAMPLING


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _true(value: object) -> bool:
    return value is True or str(value).lower() in ("true", "1", "yes")


ALGORITHMS = {
    "GRPOConfig": "grpo",
    "RLOOConfig": "rloo",
    "OnlineDPOConfig": "online_dpo",
    "XPOConfig": "xpo",
    "NashMDConfig": "nash_md",
    "AsyncGRPOConfig": "async_grpo",
    "GFPOConfig": "gfpo",
    "GRPOWithReplayBufferConfig": "grpo",
    "DPPOConfig": "dppo",
    "PAPOConfig": "papo",
    "MiniLLMConfig": "minillm",
    "GMPOConfig": "gmpo",
    "GOLDConfig": "gold",
    "DistillationConfig": "distillation",
    "IWOPDConfig": "iw_opd",
    "SDFTConfig": "sdft",
    "SDPOConfig": "sdpo",
    "SSDConfig": "ssd",
}
"""The configs of TRL's trainers that sample while they train."""

# trl/trainer/{grpo,rloo,online_dpo}_config.py; names that a release has no longer are read and never written.
_ROLLOUT: dict[str, str | Rule] = {
    "use_vllm": "rollout.enabled",
    "vllm_mode": "placement.mode",
    "vllm_device": "placement.engine_device",
    "vllm_gpu_memory_utilization": "engine.gpu_memory_utilization",
    "gpu_memory_utilization": Rule("engine.gpu_memory_utilization", spelled=False),
    "vllm_tensor_parallel_size": "engine.tensor_parallel_size",
    "vllm_max_model_length": "engine.max_model_len",
    "vllm_max_model_len": "engine.max_model_len",
    "vllm_dtype": "engine.dtype",
    "vllm_enable_prefix_caching": "engine.enable_prefix_caching",
    "vllm_enable_sleep_mode": "engine.enable_sleep_mode",
    "vllm_model_impl": "engine.model_impl",
    "vllm_server_base_url": "placement.server_url",
    "vllm_server_host": "placement.server_host",
    "vllm_server_port": "placement.server_port",
    "vllm_server_timeout": "placement.server_timeout",
    "vllm_group_port": "sync.port",
    "vllm_structured_outputs_regex": "sampling.guided",
    "vllm_guided_decoding_regex": "sampling.guided",
    "vllm_importance_sampling_correction": "rollout.importance_correction",
    "vllm_sync_frequency": "sync.interval",
    "weight_sync_steps": "sync.interval",
    "weight_sync_timeout": "sync.timeout",
    "max_staleness": "rollout.staleness",
    "max_inflight_tasks": "rollout.concurrency",
    "max_prompt_length": "lengths.prompt",
    "max_completion_length": "lengths.response",
    "max_new_tokens": Rule("lengths.response", spelled=False),
    "response_length": Rule("lengths.response", spelled=False),
    "max_length": "lengths.total",
    "max_tool_calling_iterations": "lengths.turns",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
    "min_p": "sampling.min_p",
    "repetition_penalty": "sampling.repetition_penalty",
    # Overrides what the names above say (generation_kwargs.update in the trainers).
    **{f"generation_kwargs.{key}": Rule(option, spelled=False) for key, option in SAMPLING.items()},
}

_BATCH: dict[str, str | Rule] = {
    "num_generations": "batch.generations",
    "rloo_k": Rule("batch.generations", spelled=False),
    "num_generations_eval": Rule("rollout.eval_sampling", read=lambda n: {"n": int(n)}, write=lambda d: d["n"]),
    "per_device_train_batch_size": "batch.per_device",
    "gradient_accumulation_steps": "batch.accumulation",
    "generation_batch_size": "batch.generation",
    "steps_per_generation": "batch.steps_per_generation",
    "per_device_eval_batch_size": "batch.per_device_eval",
    "num_iterations": "batch.iterations",
    "num_ppo_epochs": Rule("batch.iterations", spelled=False),
    "token_budget": "batch.tokens_per_device",
}

_TRAINER: dict[str, str | Rule] = {
    # OnlineDPO takes one for each epoch.
    "beta": Rule("trainer.kl_coefficient", read=_first, write=lambda value: value),
    "kl_coef": Rule("trainer.kl_coefficient", spelled=False),
    "seed": "seed.trainer",
    "data_seed": "seed.data",
    "full_determinism": "seed.deterministic",
    "max_steps": "trainer.steps",
    "num_train_epochs": "trainer.epochs",
    "save_steps": "trainer.save_every",
    "save_total_limit": "trainer.save_limit",
    "report_to": Rule("trainer.trackers", write=report_to),
    "eval_steps": "trainer.eval_every",
    "eval_strategy": "trainer.eval_strategy",
    "evaluation_strategy": Rule("trainer.eval_strategy", spelled=False),
    "deepspeed": "trainer.deepspeed",
    "fsdp": Rule("trainer.strategy", read=lambda value: "fsdp" if value else None),
    "bf16": Rule("trainer.dtype", read=lambda value: "bfloat16" if _true(value) else None),
    "fp16": Rule("trainer.dtype", read=lambda value: "float16" if _true(value) else None),
    "gradient_checkpointing": "trainer.gradient_checkpointing",
    "use_liger_kernel": "trainer.logits_chunked",
    "use_liger_loss": Rule("trainer.logits_chunked", spelled=False),
    "torch_compile": "trainer.compile",
    "optim": "trainer.optimizer",
    "ddp_timeout": "trainer.timeout",
}

_MODEL: dict[str, str | Rule] = {
    "model_name_or_path": "model.path",
    "sft_model_path": Rule("model.path", spelled=False),
    "reward_model_name_or_path": "model.reward_path",
    "reward_model_path": Rule("model.reward_path", spelled=False),
    "dtype": "model.dtype",
    "torch_dtype": Rule("model.dtype", spelled=False),
    "trust_remote_code": "model.trust_remote_code",
    "attn_implementation": "model.attention",
    "chat_template": "model.chat_template",
    "model_init_kwargs.dtype": Rule("model.dtype", spelled=False),
    "model_init_kwargs.torch_dtype": Rule("model.dtype", spelled=False),
    "model_init_kwargs.attn_implementation": Rule("model.attention", spelled=False),
    "model_init_kwargs.trust_remote_code": Rule("model.trust_remote_code", spelled=False),
    "load_in_4bit": Rule("model.quantization", read=lambda value: "4bit" if _true(value) else None),
    "load_in_8bit": Rule("model.quantization", read=lambda value: "8bit" if _true(value) else None),
    "use_peft": "lora.enabled",
    "lora_r": "lora.rank",
    "lora_alpha": "lora.alpha",
    "lora_dropout": "lora.dropout",
    "lora_target_modules": "lora.target_modules",
    "lora_modules_to_save": "lora.modules_to_save",
    "use_dora": "lora.dora",
    "peft.r": "lora.rank",
    "peft.lora_alpha": "lora.alpha",
    "peft.lora_dropout": "lora.dropout",
    "peft.target_modules": "lora.target_modules",
    "peft.exclude_modules": "lora.excluded_modules",
    "peft.modules_to_save": "lora.modules_to_save",
    "peft.use_dora": "lora.dora",
    "trainer.model": Rule("model.path", spelled=False),
}

# What `trl grpo` and its YAML hand on to accelerate (accelerate/commands/launch.py).
LAUNCH: dict[str, str | Rule] = {
    "num_processes": "process.total",
    "num_machines": "process.nnodes",
    "machine_rank": "process.node_rank",
    "main_process_ip": "process.master_addr",
    "main_process_port": "process.master_port",
    "gpu_ids": "process.devices",
    "zero_stage": "trainer.zero_stage",
    "env.*": "env.*",
}

TABLE: dict[str, str | Rule] = {**_ROLLOUT, **_BATCH, **_TRAINER, **_MODEL, **LAUNCH}

_ACCELERATE = """
accelerate_config config_file mixed_precision multi_gpu use_deepspeed use_fsdp use_megatron_lm cpu same_network
rdzv_* max_restarts monitor_interval dynamo_* num_cpu_threads_per_process deepspeed_* offload_* zero3_*
gradient_clipping fsdp_* megatron_lm_* parallelism_config_* enable_cpu_affinity debug main_training_function
distributed_type compute_environment downcast_bf16 tpu_* use_cpu tee role quiet
"""
ACCELERATE = tuple(_ACCELERATE.split())
"""Further names that accelerate takes there."""

# transformers/training_args.py
_TRANSFORMERS = """
output_dir overwrite_output_dir learning_rate lr_* warmup_* weight_decay adam_* max_grad_norm optim_* logging_*
log_level* log_on_each_node report_to run_name save_* eval_* load_best_model_at_end metric_for_* greater_is_better
push_to_hub* hub_* dataloader_* disable_tqdm remove_unused_columns label_* ignore_data_skip tf32 bf16_full_eval
fp16_* half_precision_backend use_cpu no_cuda local_rank ddp_* group_by_length length_column_name
train_sampling_strategy neftune_* torch_compile_* torch_empty_cache_steps resume_from_checkpoint include_* do_train
do_eval do_predict auto_find_batch_size accelerator_config* fsdp_* parallelism_config* average_tokens_across_devices
liger_kernel_config* trackio_* project use_mps_device skip_memory_metrics gradient_checkpointing_kwargs*
prediction_loss_only restore_callback_states_from_checkpoint jit_mode_eval
"""

# TRL's configs: losses, rewards, logging
_TRL = """
loss_type clip_ratio* epsilon*
delta scale_rewards importance_sampling_level reward_* num_completions_to_print log_* wandb_*
mask_truncated_completions sync_ref_model ref_model_* top_entropy_quantile sapo_* vespo_* entropy_*
use_adaptive_entropy use_bias_correction_kl off_policy_mask_threshold multi_objective_aggregation normalize_*
vllm_importance_sampling_* cast_lm_head_to_fp32 router_aux_loss_coef pad_to_multiple_of shuffle_dataset
disable_dropout missing_eos_penalty judge mixture_coef alpha cliprange whiten_rewards token_level_kl exp_name
stop_token* num_mini_batches total_episodes num_sample_generations local_* dppo_* divergence_* num_remains_in_group
replay_buffer_size perception_* heartbeat_stale_after_s queue_maxsize request_timeout fork_threshold_tokens lmbda
seq_kd uld_* use_uld_loss use_extended_uld teacher_* student_* callbacks
"""

# generation without vLLM, templates, gathering for generation
_GENERATE = """
cache_implementation use_transformers_* transformers_continuous_batching_config* chat_template_kwargs*
generation_kwargs.* ds3_gather_for_generation model_init_kwargs model_init_kwargs.*
"""

# trl/scripts/utils.py, trl/trainer/model_config.py, peft
_SCRIPTS = """
dataset_* datasets* streaming test_split_size gradient_checkpointing_use_reentrant ignore_bias_buffers
model_revision bnb_4bit_* use_bnb_nested_quant lora_task_type lora_target_parameters use_rslora peft.* trainer.*
"""

BESIDE = tuple(f"{_TRANSFORMERS} {_TRL} {_GENERATE} {_SCRIPTS}".split())
"""Native keys, as patterns, that do not concern a plan."""
