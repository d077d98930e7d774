"""SkyRL's keys in canonical names: the YAML of skyrl-train 0.1 to 0.4 and the classes of skyrl 0.1 on."""

from __future__ import annotations

from typing import Any

from rldoctor.frameworks.rule import Rule, chosen
from rldoctor.frameworks.shared_rules import below, decided, gigabytes

ENGINE, SAMPLING = "generator.inference_engine", "generator.sampling_params"
PLACEMENT = "trainer.placement"
POLICY, REF, CRITIC = "trainer.policy", "trainer.ref", "trainer.critic"

# skyrl/train/config/legacy.py (0.1 and 0.2), GENERATOR_TO_INFERENCE_ENGINE_FIELDS: the keys that skyrl-train has below
# generator itself, with their names of skyrl where they differ.
RENAMED = {
    "num_inference_engines": "num_engines",
    "inference_engine_tensor_parallel_size": "tensor_parallel_size",
    "inference_engine_pipeline_parallel_size": "pipeline_parallel_size",
    "inference_engine_expert_parallel_size": "expert_parallel_size",
    "inference_engine_data_parallel_size": "data_parallel_size",
    "remote_inference_engine_urls": "remote_urls",
}
_MOVED = """
model_dtype run_engines_locally backend weight_sync_backend weight_transfer_threshold_cuda_ipc_GB async_engine
vllm_v1_disable_multiproc enable_prefix_caching enable_chunked_prefill max_num_batched_tokens enforce_eager
fully_sharded_loras enable_ray_prometheus_stats gpu_memory_utilization max_num_seqs enable_http_endpoint
http_endpoint_host http_endpoint_port served_model_name engine_init_kwargs override_existing_update_group
external_proxy_url external_server_urls
"""
LEGACY = {
    **{f"generator.{old}": f"{ENGINE}.{new}" for old, new in RENAMED.items()},
    **{f"generator.{k}": f"{ENGINE}.{k}" for k in _MOVED.split()},
}
"""Native key of skyrl-train -> the same key of skyrl."""


def _more_than_one(size: Any) -> bool:
    return int(size) > 1


_NEW: dict[str, str | Rule] = {
    f"{ENGINE}.num_engines": "placement.engines",
    f"{ENGINE}.tensor_parallel_size": "engine.tensor_parallel_size",
    f"{ENGINE}.pipeline_parallel_size": "engine.pipeline_parallel_size",
    f"{ENGINE}.data_parallel_size": "engine.data_parallel_size",
    f"{ENGINE}.expert_parallel_size": Rule("engine.enable_expert_parallel", read=_more_than_one),
    f"{ENGINE}.model_dtype": "engine.dtype",
    f"{ENGINE}.backend": "rollout.backend",
    f"{ENGINE}.async_engine": "rollout.async_engine",
    f"{ENGINE}.run_engines_locally": decided("placement.mode"),
    f"{ENGINE}.remote_urls": "placement.server_url",
    f"{ENGINE}.external_server_urls": "placement.server_url",
    f"{ENGINE}.external_proxy_url": Rule("placement.server_url", spelled=False),
    f"{ENGINE}.http_endpoint_host": "placement.listen_host",
    f"{ENGINE}.http_endpoint_port": "placement.listen_port",
    f"{ENGINE}.weight_sync_backend": "sync.backend",
    f"{ENGINE}.weight_transfer_threshold_cuda_ipc_GB": gigabytes("sync.bucket_mb"),
    f"{ENGINE}.enable_prefix_caching": "engine.enable_prefix_caching",
    # Declared and never handed on; engine_init_kwargs is the way.
    f"{ENGINE}.enable_chunked_prefill": Rule("engine.enable_chunked_prefill", spelled=False),
    f"{ENGINE}.max_num_batched_tokens": "engine.max_num_batched_tokens",
    f"{ENGINE}.max_num_seqs": "engine.max_num_seqs",
    f"{ENGINE}.enforce_eager": "engine.enforce_eager",
    f"{ENGINE}.gpu_memory_utilization": "engine.gpu_memory_utilization",
    f"{ENGINE}.fully_sharded_loras": "engine.fully_sharded_loras",
    f"{ENGINE}.served_model_name": "engine.served_model_name",
    f"{ENGINE}.distributed_executor_backend": "engine.distributed_executor_backend",
    f"{ENGINE}.language_model_only": "engine.language_model_only",
    f"{ENGINE}.enable_return_routed_experts": "engine.enable_return_routed_experts",
    f"{ENGINE}.speculative_config": "engine.speculative_config",
    f"{ENGINE}.engine_init_kwargs.*": "engine.*",
}
_OLD = {old + end: _NEW[new + end] for old, new in LEGACY.items() for end in ("", ".*") if new + end in _NEW}

_ROLLOUT: dict[str, str | Rule] = {
    "generator.n_samples_per_prompt": "batch.generations",
    "generator.max_turns": "lengths.turns",
    "generator.max_input_length": decided("lengths.total"),
    f"{SAMPLING}.max_generate_length": "lengths.response",
    f"{SAMPLING}.temperature": "sampling.temperature",
    f"{SAMPLING}.top_p": "sampling.top_p",
    f"{SAMPLING}.top_k": "sampling.top_k",
    f"{SAMPLING}.min_p": "sampling.min_p",
    f"{SAMPLING}.repetition_penalty": "sampling.repetition_penalty",
    f"{SAMPLING}.logprobs": "sampling.logprobs",
    f"{SAMPLING}.stop": "sampling.stop",
    f"{SAMPLING}.min_new_tokens": "sampling.min_tokens",
    f"{SAMPLING}.additional_kwargs.seed": "sampling.seed",
    f"{SAMPLING}.additional_kwargs.min_tokens": Rule("sampling.min_tokens", spelled=False),
    f"{SAMPLING}.additional_kwargs.repetition_penalty": Rule("sampling.repetition_penalty", spelled=False),
    "generator.eval_sampling_params": "rollout.eval_sampling",
    "generator.rope_scaling": "engine.rope_scaling",
    "generator.rope_theta": "engine.rope_theta",
    # Of the Harbor integration.
    "generator.rate_limit.max_concurrency": "rollout.concurrency",
    "trainer.fully_async.enabled": "rollout.async",
    "trainer.fully_async.max_staleness_steps": "rollout.staleness",
    "trainer.fully_async.num_parallel_generation_workers": "rollout.workers",
    "trainer.algorithm.dynamic_sampling.type": Rule("rollout.filtered", read=lambda kind: str(kind).lower() != "none"),
    "trainer.algorithm.use_tis": "rollout.importance_correction",
    "trainer.algorithm.off_policy_correction.tis_ratio_type": Rule(
        "rollout.importance_correction", read=lambda kind: str(kind).lower() not in ("none", "null")
    ),
}

_BATCH: dict[str, str | Rule] = {
    "trainer.train_batch_size": "batch.prompts",
    "trainer.policy_mini_batch_size": "batch.mini_prompts",
    "trainer.critic_mini_batch_size": "batch.critic_mini_prompts",
    "trainer.micro_train_batch_size_per_gpu": "batch.per_device",
    "trainer.micro_forward_batch_size_per_gpu": "batch.logprob_per_device",
    "trainer.update_epochs_per_batch": "batch.iterations",
    "trainer.eval_batch_size": "batch.validation",
    "trainer.max_tokens_per_microbatch": Rule(
        "batch.tokens_per_device", read=lambda n: int(n) if int(n) > 0 else None, write=int
    ),
    "trainer.remove_microbatch_padding": "batch.packing",
    # Its name of skyrl-train and of skyrl through 0.2.
    "trainer.use_sample_packing": "batch.packing",
    "trainer.max_prompt_length": "lengths.prompt",
}


def _megatron(section: str, prefix: str) -> dict[str, str | Rule]:
    sizes = ("tensor_model", "pipeline_model", "expert_model", "context")
    return {
        f"{section}.megatron_config.{size}_parallel_size": f"parallel.{prefix}{size.partition('_')[0]}"
        for size in sizes
    }


_TRAINER: dict[str, str | Rule] = {
    f"{POLICY}.model.path": "model.path",
    f"{REF}.model.path": "model.reference_path",
    f"{CRITIC}.model.path": "model.critic_path",
    f"{CRITIC}.sequence_parallel_size": "parallel.critic_sequence",
    "trainer.reward.model.path": "model.reward_path",
    f"{POLICY}.model.lora.rank": "lora.rank",
    f"{POLICY}.model.lora.alpha": "lora.alpha",
    f"{POLICY}.model.lora.dropout": "lora.dropout",
    f"{POLICY}.model.lora.target_modules": "lora.target_modules",
    f"{POLICY}.model.lora.exclude_modules": "lora.excluded_modules",
    f"{POLICY}.model.lora.max_loras": "engine.max_loras",
    f"{POLICY}.model.lora.max_cpu_loras": "engine.max_cpu_loras",
    f"{POLICY}.megatron_config.lora_config.merge_lora": "lora.merged",
    "trainer.target_modules": Rule("lora.target_modules", spelled=False),
    "trainer.exclude_modules": Rule("lora.excluded_modules", spelled=False),
    "trainer.strategy": "trainer.strategy",
    f"{POLICY}.fsdp_config.cpu_offload": "trainer.offload_params",
    f"{POLICY}.fsdp_config.fsdp_size": "parallel.fsdp",
    f"{POLICY}.sequence_parallel_size": "parallel.sequence",
    f"{POLICY}.use_torch_compile": "trainer.compile",
    f"{POLICY}.optimizer_config.offload_after_step": "sleep.trainer",
    f"{POLICY}.megatron_config.optimizer_config_kwargs.optimizer_cpu_offload": "trainer.offload_optimizer",
    f"{POLICY}.megatron_config.expert_tensor_parallel_size": "parallel.expert_tensor",
    f"{POLICY}.model_config_kwargs": "model.overrides",
    **_megatron(POLICY, ""),
    **_megatron(REF, "reference_"),
    f"{REF}.sequence_parallel_size": "parallel.reference_sequence",
    f"{REF}.fsdp_config.cpu_offload": "trainer.reference_offload",
    "deepspeed_config.train.zero_optimization.stage": "trainer.zero_stage",
    "deepspeed_config.train.zero_optimization.offload_param.device": Rule(
        "trainer.offload_params", read=lambda device: str(device) == "cpu", spelled=False
    ),
    "deepspeed_config.train.zero_optimization.offload_optimizer.device": Rule(
        "trainer.offload_optimizer", read=lambda device: str(device) == "cpu", spelled=False
    ),
    "trainer.algorithm.advantage_estimator": "trainer.algorithm",
    "trainer.algorithm.use_kl_loss": "trainer.reference",
    "trainer.algorithm.use_kl_in_reward": decided("trainer.reference"),
    "trainer.algorithm.kl_loss_coef": "trainer.kl_coefficient",
    "trainer.algorithm.temperature": "trainer.temperature",
    "trainer.gradient_checkpointing": "trainer.gradient_checkpointing",
    "trainer.logprobs_chunk_size": Rule("trainer.logits_chunked", read=bool),
    "trainer.flash_attn": Rule("trainer.attention", read=lambda on: "flash_attention_2" if on is True else "sdpa"),
    "trainer.bf16": Rule("trainer.dtype", read=lambda on: "bfloat16" if on is True else "float32"),
    "trainer.rope_scaling": "model.rope_scaling",
    "trainer.seed": "seed.trainer",
    "trainer.epochs": "trainer.epochs",
    "trainer.max_training_steps": "trainer.steps",
    "trainer.ckpt_interval": "trainer.save_every",
    "trainer.max_ckpts_to_keep": "trainer.save_limit",
    "trainer.logger": "trainer.trackers",
    "trainer.eval_interval": "trainer.eval_every",
}

_PLACE: dict[str, str | Rule] = {
    f"{PLACEMENT}.colocate_all": chosen("placement.mode", {True: "colocate", False: "separate"}),
    f"{PLACEMENT}.colocate_policy_ref": decided("placement.colocated_roles"),
    f"{PLACEMENT}.policy_num_nodes": "placement.nodes",
    f"{PLACEMENT}.policy_num_gpus_per_node": "placement.gpus_per_node",
    **{
        f"{PLACEMENT}.{role}_num_{of}": decided("placement.roles")
        for role in ("ref", "critic", "reward")
        for of in ("nodes", "gpus_per_node")
    },
}

TABLE: dict[str, str | Rule] = {**_NEW, **_OLD, **_ROLLOUT, **_BATCH, **_TRAINER, **_PLACE}

# The engine's server, router and metrics, and details of one way of syncing.
_SERVING = """
enable_http_endpoint enable_ray_prometheus_stats override_existing_update_group vllm_v1_disable_multiproc
engine_init_kwargs delta_weight_sync* enable_pd num_prefill *fill_init_kwargs* router_init_kwargs* thunder_agent_*
offload_kv_for_weight_sync use_expandable_segments fp8_weight_sync_mode enable_return_sample_support_set
"""
# How prompts and turns are put together.
_GENERATOR = """
batched chat_template* append_eos_token_* use_conversation_multi_turn apply_overlong_filtering
zero_reward_on_non_stop step_wise_trajectories model_name merge_stepwise_output vision_language_generator
eval_n_samples_per_prompt use_cache_salt retokenize_chat_history miniswe_* task rate_limit.* *child*
sampling_params.additional_kwargs* enable_http_endpoint enable_ray_prometheus_stats override_existing_update_group
vllm_v1_disable_multiproc engine_init_kwargs
"""
# The loss, the optimizer, logs and checkpoints.
_TRAINER_ONLY = """
algorithm.* *.optimizer_config.* critic.* ref.* reward.* policy.model.lora.init_method policy.model.lora.lora_sync_path
policy.model.lora.sync_mode policy.model.lora.share_expert_adapters policy.model.fake_int4_qat* policy.fsdp_config.*
policy.megatron_config.* policy.torch_profiler_config* policy.record_memory policy.language_model_only
policy.model_config_kwargs.* policy.inference_only_init policy.deepspeed_config* fully_async.* mtp.* arctic_rl.*
gradient_checkpointing_use_reentrant ckpt_path export_path log_path resume_* max_ckpts_to_keep hf_save_interval
logger project_name run_name tags dump_* eval_before_train eval_start* disable_fast_tokenizer
update_ref_every_epoch use_orm_score override_entrypoint num_dummy_steps use_expandable_segments
enable_ray_gpu_monitor *example_interval num_logger_* vocab_entropy_* fused_lm_head_*
recompute_old_logprobs_per_minibatch sequence_parallel_backend rope_theta placement.colocate_critic_reward
"""
_ELSEWHERE = """
data data.* environment environment.* harbor_trial_config* terminal_bench_config* hydra.* verifiers*
deepspeed_config.*
"""

BESIDE = (
    *_ELSEWHERE.split(),
    *below(ENGINE, _SERVING),
    *below("generator", _GENERATOR),
    *below("trainer", _TRAINER_ONLY),
)
"""Keys that say nothing about rollouts, batches, placement, seeds or parallelism."""
