"""ms-swift's options in canonical names, of ``swift rlhf``, ``swift rollout`` and ``megatron rlhf``, 3.2 to 4.6."""

from __future__ import annotations

from typing import Any

from rldoctor.formats.values import convert
from rldoctor.frameworks.rule import Rule, chosen, report_to

# One option under two names: 3.x and 4.x.
_TUNER = Rule("trainer.full", read=lambda name: name == "full", write=lambda full: "full" if full else "lora")

# vLLM's arguments behind ``vllm_`` (rlhf_trainers/args_mixin.py, VllmArguments); the servers of 3.4 to 3.6 had them
# bare.
_PREFIXED = (
    "gpu_memory_utilization", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "enable_expert_parallel", "max_num_seqs", "max_model_len", "disable_custom_all_reduce", "enforce_eager",
    "limit_mm_per_prompt", "max_lora_rank", "enable_prefix_caching", "quantization", "disable_cascade_attn",
    "mm_processor_cache_gb", "speculative_config", "enable_lora",
)  # fmt: skip
_BARE = (
    "gpu_memory_utilization", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "max_num_seqs", "disable_custom_all_reduce", "enforce_eager", "limit_mm_per_prompt", "enable_prefix_caching",
)  # fmt: skip


def _first(value: Any) -> Any:
    """The only entry of a list; a list of several stays one."""
    if isinstance(value, str):
        value = convert(value, "list") if "," in value else value
    if isinstance(value, list):
        value = [convert(part, "int") if str(part).isdecimal() else part for part in value]
        return value[0] if len(value) == 1 else value
    return int(value) if str(value).isdecimal() else value


def _joined(value: Any) -> Any:
    return ",".join(str(part) for part in value) if isinstance(value, list) else value


def _given(value: Any) -> bool:
    return value not in (None, False, "", "none", "None", "null")


def _if_true(option: str, value: Any) -> Rule:
    return Rule(
        option, read=lambda given: value if convert(given, "bool") else None, write=lambda wanted: wanted == value
    )


def _served(value: Any) -> str:
    return "vllm" if convert(value, "bool") else "hf"


def _fsdp(name: Any) -> str | None:
    return None if not _given(name) else "fsdp2" if "fsdp2" in str(name) else "fsdp"


def _seconds(minutes: Any) -> float:
    return float(minutes) * 60


_ENGINE: dict[str, str | Rule] = {
    "use_vllm": Rule("rollout.backend", read=_served, write=lambda backend: backend == "vllm"),
    "use_lmdeploy": Rule(
        "rollout.backend", read=lambda value: "lmdeploy" if convert(value, "bool") else None, spelled=False
    ),
    "infer_backend": chosen("rollout.backend", {"pt": "hf", "transformers": "hf"}),
    **{f"vllm_{name}": f"engine.{name}" for name in _PREFIXED},
    **{name: f"engine.{name}" for name in _BARE},
    "vllm_engine_kwargs.*": "engine.*",
    "vllm_use_async_engine": "rollout.async_engine",
    "use_async_engine": "rollout.async_engine",
    "vllm_device": Rule("placement.engine_device", read=_joined),
    "num_infer_workers": Rule("placement.engines", read=lambda count: convert(count, "int")),
    "sleep_level": "sleep.level",
    "offload_model": "sleep.trainer",
    "offload_optimizer": Rule("sleep.trainer", spelled=False),
}

_ROLLOUT: dict[str, str | Rule] = {
    "vllm_mode": "placement.mode",
    "vllm_server_host": Rule("placement.server_host", read=_first, write=lambda host: host),
    "vllm_server_port": Rule("placement.server_port", read=_first, write=lambda port: port),
    "vllm_server_base_url": Rule("placement.server_url", read=_first, write=lambda url: url),
    "vllm_server_timeout": "placement.server_timeout",
    "vllm_server_group_port": Rule("sync.port", read=_first, write=lambda port: port),
    "host": "placement.listen_host",
    "port": "placement.listen_port",
    "move_model_batches": Rule("sync.layered", read=lambda count: convert(count, "int") > 1),
    "async_generate": "rollout.async",
    "multi_turn_scheduler": Rule("rollout.multi_turn", read=_given),
    "multi_turn_func": Rule("rollout.multi_turn", read=_given),
    "gym_env": Rule("rollout.tools", read=_given),
    "use_gym_env": Rule("rollout.tools", spelled=False),
    "max_turns": "lengths.turns",
    "dynamic_sample": "rollout.filtered",
    "rollout_importance_sampling_mode": Rule("rollout.importance_correction", read=_given),
    "log_rollout_offpolicy_metrics": "rollout.engine_logprobs",
    "max_completion_length": "lengths.response",
    "max_new_tokens": Rule("lengths.response", spelled=False),
    "response_length": Rule("lengths.response", spelled=False),
    "max_length": "lengths.prompt",
    "max_model_len": "lengths.model",
    "truncation_strategy": "lengths.truncation",
    "temperature": "sampling.temperature",
    "top_k": "sampling.top_k",
    "top_p": "sampling.top_p",
    "min_p": "sampling.min_p",
    "repetition_penalty": "sampling.repetition_penalty",
    "stop_words": "sampling.stop",
    "structured_outputs_regex": "sampling.guided",
}

_BATCH: dict[str, str | Rule] = {
    "per_device_train_batch_size": "batch.per_device",
    "micro_batch_size": "batch.per_device",
    "per_device_eval_batch_size": "batch.per_device_eval",
    "gradient_accumulation_steps": "batch.accumulation",
    "global_batch_size": "batch.train",
    "generation_batch_size": "batch.generation",
    "steps_per_generation": "batch.steps_per_generation",
    "num_generations": "batch.generations",
    "num_generations_eval": Rule("rollout.eval_sampling", read=lambda count: {"n": convert(count, "int")}),
    "num_iterations": "batch.iterations",
    "num_ppo_epochs": Rule("batch.iterations", spelled=False),
    "local_rollout_forward_batch_size": "batch.logprob_per_device",
    "padding_free": "batch.packing",
    "packing": Rule("batch.packing", spelled=False),
    "tensor_model_parallel_size": "parallel.tensor",
    "deepspeed_autotp_size": Rule("parallel.tensor", spelled=False),
    "pipeline_model_parallel_size": "parallel.pipeline",
    "virtual_pipeline_model_parallel_size": "parallel.virtual_pipeline",
    "num_virtual_stages_per_pipeline_rank": Rule("parallel.virtual_pipeline", spelled=False),
    "context_parallel_size": "parallel.context",
    "expert_model_parallel_size": "parallel.expert",
    "expert_tensor_parallel_size": "parallel.expert_tensor",
    "sequence_parallel": "parallel.megatron_sequence",
    "sequence_parallel_size": "parallel.sequence",
    "fsdp_num": "parallel.fsdp",
    "train.gpus": "placement.trainer_gpus",
    "rollout.gpus": "placement.engine_gpus",
    "nnodes": "placement.nodes",
    "colocate_groups": Rule(
        "placement.colocated_roles", read=lambda groups: sorted({role for group in groups for role in group})
    ),
    "seed": "seed.trainer",
    "data_seed": "seed.data",
    "full_determinism": "seed.deterministic",
    "deterministic_mode": Rule("seed.deterministic", spelled=False),
}

_TRAINER: dict[str, str | Rule] = {
    "rlhf_type": "trainer.algorithm",
    "model": "model.path",
    "model_type": "model.type",
    "ref_model": "model.reference_path",
    "reward_model": Rule("model.reward_path", read=_joined),
    "torch_dtype": "model.dtype",
    "attn_impl": "model.attention",
    "quant_bits": Rule("model.quantization", read=lambda bits: f"{bits}bit"),
    "rope_scaling": "model.rope_scaling",
    "max_pixels": "model.max_pixels",
    "use_chat_template": "model.apply_chat_template",
    "train_type": _TUNER,
    "tuner_type": _TUNER,
    "lora_rank": "lora.rank",
    "lora_alpha": "lora.alpha",
    "lora_dropout": "lora.dropout",
    "target_modules": "lora.target_modules",
    "modules_to_save": "lora.modules_to_save",
    "adapters": Rule("lora.path", read=_joined),
    "use_dora": "lora.dora",
    "freeze_vit": "trainer.freeze_vision",
    "deepspeed": "trainer.deepspeed",
    "fsdp": Rule("trainer.strategy", read=_fsdp),
    "bf16": _if_true("trainer.dtype", "bfloat16"),
    "fp16": _if_true("trainer.dtype", "float16"),
    "gradient_checkpointing": "trainer.gradient_checkpointing",
    "recompute_granularity": Rule("trainer.gradient_checkpointing", read=_given),
    "optimizer_cpu_offload": "trainer.offload_optimizer",
    "optim": "trainer.optimizer",
    "torch_compile": "trainer.compile",
    "use_liger_kernel": "trainer.logits_chunked",
    "beta": "trainer.kl_coefficient",
    "max_steps": "trainer.steps",
    "train_iters": "trainer.steps",
    "num_train_epochs": "trainer.epochs",
    "max_epochs": Rule("trainer.epochs", spelled=False),
    "eval_strategy": "trainer.eval_strategy",
    "evaluation_strategy": Rule("trainer.eval_strategy", spelled=False),
    "eval_steps": "trainer.eval_every",
    "eval_interval": Rule("trainer.eval_every", spelled=False),
    "save_steps": "trainer.save_every",
    "save_total_limit": "trainer.save_limit",
    "report_to": Rule("trainer.trackers", write=report_to),
    "save_interval": Rule("trainer.save_every", spelled=False),
    "ddp_timeout": "trainer.timeout",
    "distributed_timeout_minutes": Rule("trainer.timeout", read=_seconds, write=lambda seconds: seconds // 60),
    # swift/cli/main.py hands these to torchrun.
    "env:NPROC_PER_NODE": "process.nproc",
    "env:NNODES": "process.nnodes",
    "env:NODE_RANK": "process.node_rank",
    "env:MASTER_ADDR": "process.master_addr",
    "env:MASTER_PORT": "process.master_port",
    "env:MAX_PIXELS": "model.max_pixels",
    "env:SWIFT_UPDATE_WEIGHTS_BUCKET_SIZE": "sync.bucket_mb",
}

TABLE: dict[str, str | Rule] = {**_ENGINE, **_ROLLOUT, **_BATCH, **_TRAINER}

BESIDE = (
    # Data, templates, rewards, the loss.
    "*dataset*", "columns", "split_dataset_ratio", "interleave_prob", "shuffle_buffer_size", "stopping_strategy",
    "streaming", "strict", "lazy_tokenize", "load_from_cache_file", "template", "template_backend", "system",
    "agent_template", "tools_prompt", "loss_*", "add_non_thinking_prefix", "enable_thinking", "response_prefix",
    "norm_bbox", "padding_side", "packing_*", "new_special_tokens", "external_plugins", "callbacks",
    "custom_register_path", "model_kwargs", "model_name", "model_author", "model_revision", "reward_*", "ref_*",
    "teacher_*", "teacher", "teacher.*", "cosine_*", "repetition_n_grams", "repetition_max_penalty", "soft_*",
    "overlong_filter", "scale_rewards", "epsilon*", "delta", "importance_sampling_level",
    "rollout_importance_sampling_threshold", "advantage_*", "kl_*", "num_mini_batches", "mini_batch_size",
    "max_resample_times", "completion_length_limit_scope", "sync_ref_model", "top_entropy_quantile", "log_entropy",
    "chord_*", "tau_*", "fipo_*", "real_tau", "rlsd_*", "sdar_*", "gkd_*", "lmbda", "seq_kd", "sft_alpha",
    "offload_teacher_model", "whiten_rewards", "cliprange*", "vf_coef", "gamma", "lam", "missing_eos_penalty",
    "num_sample_generations", "stop_properly*", "off_policy_sequence_mask_delta", "label_smoothing*", "rpo_alpha",
    "center_rewards_coefficient", "use_logits_to_keep", "vllm_server_pass_dataset", "vllm_reasoning_parser",
    "enable_flattened_weight_sync", "context_manager", "gc_collect_after_offload", "ds3_gather_for_generation",
    "offload_bridge", "use_ray", "device_groups", "ray_exp_name", "router_replay_mode",
    # Tuners, optimizers, precision.
    "init_weights", "use_rslora", "lora_*", "lorap_lr_ratio", "freeze_*", "trainable_parameters*", "target_regex",
    "target_parameters", "tuner_backend", "galore_*", "use_galore", "lisa_*", "merge_lora", "learning_rate", "*_lr",
    "lr", "lr_*", "min_lr", "warmup_*", "weight_decay*", "adam_*", "max_grad_norm", "clip_grad", "optimizer*",
    "bnb_*", "quant_method", "hqq_axis", "device_map", "max_memory", "local_repo_path", "neftune_noise_alpha",
    "experts_impl", "gradient_checkpointing_kwargs", "vit_*", "fsdp_config", "ddp_*", "zero_hpz_partition_size",
    "average_tokens_across_devices", "task_type", "num_labels", "problem_type", "init_strategy",
    # Logging, checkpoints, evaluation by another program.
    "output_dir", "add_version", "save_*", "no_save_*", "logging_*", "log_*", "report_to", "run_name", "swanlab_*",
    "wandb_*", "tensorboard_*", "resume_*", "load_best_model_at_end", "metric*", "greater_is_better", "eval_*",
    "overwrite_output_dir", "push_to_hub", "hub_*", "dataloader_*", "train_dataloader_shuffle", "disable_tqdm",
    "remove_unused_columns", "use_hf", "check_model", "ignore_args_error", "load_args", "download_mode",
    "safe_serialization", "max_shard_size", "do_*", "predict_with_generate", "skip_memory_metrics", "logprobs",
    "top_logprobs", "result_path", "write_batch_size", "verbose", "api_key", "owned_by", "served_model_name",
    "ssl_*", "max_logprobs", "stream", "max_batch_size", "num_beams", "lmdeploy_*", "sglang_*", "vision_batch_size",
    "cached_*", "create_checkpoint_symlink", "ckpt_dir", "debug",
    # Megatron's own.
    "load_safetensors", "load", "no_load_*", "finetune", "num_workers", "attention_*", "cross_entropy_*",
    "recompute_*", "moe_*", "no_*", "use_flash_attn", "gradient_accumulation_fusion", "masked_softmax_fusion",
    "bias_*", "calculate_*", "use_precision_aware_optimizer", "optimizer_offload_fraction", "decoder_*", "mtp_*",
    "manual_gc*", "bridge_backend", "mcore_*", "async_save", "ckpt_format", "apply_rope_fusion", "overlap_*",
    "padded_vocab_size", "num_layers_per_virtual_pipeline_stage", "exp_avg*", "main_*_dtype", "language_model_only",
    "data_sharding", "data_parallel_random_init", "data_parallel_sharding_strategy", "linear_decoupled_in_proj",
    "tp_comm_overlap", "fp8_*",
)  # fmt: skip
"""Options that say nothing about rollouts, batches, placement, seeds or parallelism."""
