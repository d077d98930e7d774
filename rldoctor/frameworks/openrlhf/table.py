"""OpenRLHF's options in canonical names: flat through 0.10.1, dotted from 0.10.2 (cli/train_ppo_ray.py)."""

from __future__ import annotations

from typing import Any

from rldoctor.formats.values import convert
from rldoctor.frameworks.rule import Rule, chosen

_PRECISIONS = {"bf16": "bfloat16", "fp16": "float16"}


# Rules for a part of a canonical dictionary or list; the whole is put together in a derivation.
def _role(name: str) -> Rule:
    return Rule("placement.roles", read=lambda count: {name: convert(count, "int")})


def _shared(*roles: str, spelled: bool = True) -> Rule:
    return Rule(
        "placement.colocated_roles",
        read=lambda given: list(roles) if convert(given, "bool") else None,
        write=lambda wanted: set(roles) <= set(wanted),
        spelled=spelled,
    )


def _evaluation(name: str) -> Rule:
    return Rule("rollout.eval_sampling", read=lambda value: {name: value})


def _images(count: Any) -> dict[str, int] | None:
    return {"image": int(count)} if int(count) else None


def _if_given(option: str, value: Any) -> Rule:
    """A flag that chooses one value."""
    return Rule(
        option, read=lambda given: value if convert(given, "bool") else None, write=lambda wanted: wanted == value
    )


_IMAGES = Rule("engine.limit_mm_per_prompt", read=_images, write=lambda limits: limits.get("image", 0))

# Flat name, dotted name (empty where there is none), what it means.
_ROWS: tuple[tuple[str, str, str | Rule], ...] = (
    # Who gets which devices.
    ("actor_num_nodes", "actor.num_nodes", "placement.nodes"),
    ("actor_num_gpus_per_node", "actor.num_gpus_per_node", "placement.gpus_per_node"),
    ("ref_num_nodes", "ref.num_nodes", _role("reference")),
    ("ref_num_gpus_per_node", "ref.num_gpus_per_node", _role("reference")),
    ("critic_num_nodes", "critic.num_nodes", _role("critic")),
    ("critic_num_gpus_per_node", "critic.num_gpus_per_node", _role("critic")),
    ("reward_num_nodes", "reward.num_nodes", _role("reward")),
    ("reward_num_gpus_per_node", "reward.num_gpus_per_node", _role("reward")),
    ("colocate_all_models", "train.colocate_all", _if_given("placement.mode", "colocate")),
    ("colocate_actor_ref", "train.colocate_actor_ref", _shared("actor", "reference")),
    ("colocate_critic_reward", "train.colocate_critic_reward", _shared("critic", "reward")),
    # The engines.
    ("vllm_num_engines", "vllm.num_engines", "placement.engines"),
    ("vllm_tensor_parallel_size", "vllm.tensor_parallel_size", "engine.tensor_parallel_size"),
    ("vllm_gpu_memory_utilization", "vllm.gpu_memory_utilization", "engine.gpu_memory_utilization"),
    ("enable_prefix_caching", "vllm.enable_prefix_caching", "engine.enable_prefix_caching"),
    ("enforce_eager", "vllm.enforce_eager", "engine.enforce_eager"),
    ("vllm_enable_sleep", "vllm.enable_sleep", "engine.enable_sleep_mode"),
    ("vllm_sync_backend", "vllm.sync_backend", "sync.backend"),
    ("vllm_sync_with_ray", "vllm.sync_with_ray", "sync.ray"),
    ("deepspeed_enable_sleep", "ds.enable_sleep", "sleep.trainer"),
    ("max_images_per_prompt", "data.max_images_per_prompt", _IMAGES),
    ("max_len", "data.max_len", "engine.max_model_len"),
    # Rollouts.
    ("prompt_max_len", "", "lengths.prompt"),
    ("generate_max_len", "", "lengths.response"),
    ("max_new_tokens", "rollout.max_new_tokens", "lengths.response"),
    ("temperature", "rollout.temperature", "sampling.temperature"),
    ("top_p", "rollout.top_p", "sampling.top_p"),
    ("n_samples_per_prompt", "rollout.n_samples_per_prompt", "batch.generations"),
    ("rollout_batch_size", "rollout.batch_size", "batch.prompts"),
    ("vllm_generate_batch_size", "rollout.vllm_generate_batch_size", "batch.pool"),
    ("async_train", "train.async_enable", "rollout.async"),
    ("partial_rollout", "train.partial_rollout_enable", Rule("rollout.async", spelled=False)),
    ("async_queue_size", "train.async_queue_size", "rollout.concurrency"),
    ("agent_func_path", "train.agent_func_path", Rule("rollout.tools", read=bool)),
    ("dynamic_filtering", "algo.dynamic_filtering_enable", "rollout.filtered"),
    ("enable_vllm_is_correction", "algo.advantage.is_correction_enable", "rollout.importance_correction"),
    ("eval_temperature", "eval.temperature", _evaluation("temperature")),
    ("eval_n_samples_per_prompt", "eval.n_samples_per_prompt", _evaluation("n")),
    ("eval_dataset", "eval.dataset", Rule("rollout.evaluates", read=bool)),
    ("eval_steps", "eval.steps", "trainer.eval_every"),
    # Batches and parallel sizes of the trainer.
    ("train_batch_size", "train.batch_size", "batch.train"),
    ("micro_train_batch_size", "train.micro_batch_size", "batch.per_device"),
    ("micro_rollout_batch_size", "rollout.micro_batch_size", "batch.logprob_per_device"),
    ("max_epochs", "train.max_epochs", "batch.iterations"),
    ("use_dynamic_batch", "train.dynamic_batch_enable", "batch.dynamic"),
    ("train_max_tokens_per_gpu", "train.max_tokens_per_gpu", "batch.tokens_per_device"),
    ("rollout_max_tokens_per_gpu", "rollout.max_tokens_per_gpu", "batch.logprob_tokens_per_device"),
    ("packing_samples", "ds.packing_samples", "batch.packing"),
    ("ring_attn_size", "ds.ring_attn_size", "parallel.sequence"),
    ("ds_tensor_parallel_size", "ds.tensor_parallel_size", "parallel.tensor"),
    ("seed", "train.seed", "seed.trainer"),
    ("full_determinism", "train.full_determinism_enable", "seed.deterministic"),
    # The trainer.
    ("pretrain", "actor.model_name_or_path", "model.path"),
    ("reward_pretrain", "reward.model_name_or_path", "model.reward_path"),
    ("critic_pretrain", "critic.model_name_or_path", "model.critic_path"),
    ("advantage_estimator", "algo.advantage.estimator", "trainer.algorithm"),
    ("init_kl_coef", "algo.kl.init_coef", "trainer.kl_coefficient"),
    ("zero_stage", "ds.zero_stage", "trainer.zero_stage"),
    ("adam_offload", "ds.adam_offload", "trainer.offload_optimizer"),
    ("ref_reward_offload", "ref.offload", "trainer.reference_offload"),
    ("param_dtype", "ds.param_dtype", chosen("trainer.dtype", _PRECISIONS)),
    ("bf16", "", _if_given("trainer.dtype", "bfloat16")),
    ("gradient_checkpointing", "actor.gradient_checkpointing_enable", "trainer.gradient_checkpointing"),
    ("attn_implementation", "ds.attn_implementation", "model.attention"),
    ("flash_attn", "", _if_given("model.attention", "flash_attention_2")),
    ("use_liger_kernel", "ds.use_liger_kernel", "trainer.logits_chunked"),
    ("deepcompile", "ds.deepcompile", "trainer.compile"),
    ("torch_compile", "", Rule("trainer.compile", spelled=False)),
    ("load_in_4bit", "ds.load_in_4bit", "lora.quantized"),
    ("lora_rank", "ds.lora.rank", "lora.rank"),
    ("lora_alpha", "ds.lora.alpha", "lora.alpha"),
    ("lora_dropout", "ds.lora.dropout", "lora.dropout"),
    ("target_modules", "ds.lora.target_modules", "lora.target_modules"),
    ("freeze_visual_encoder", "actor.freeze_visual_encoder", "trainer.freeze_vision"),
    ("apply_chat_template", "data.apply_chat_template", "model.apply_chat_template"),
    ("num_episodes", "train.num_episodes", "trainer.epochs"),
    ("save_steps", "ckpt.save_steps", "trainer.save_every"),
    ("max_ckpt_num", "ckpt.max_num", "trainer.save_limit"),
    ("", "actor.optim", "trainer.optimizer"),
)  # fmt: skip

TABLE: dict[str, str | Rule] = {
    **{flat: meaning for flat, _, meaning in _ROWS if flat},
    **{dotted: meaning for _, dotted, meaning in _ROWS if dotted},
}

BESIDE = (
    # Data, rewards, the loss.
    "prompt_data*", "prompt_split", "pretrain_data*", "pretrain_split", "eval_split", "input_key", "output_key",
    "label_key", "input_template", "max_samples", "image_key", "remote_rm_url", "normalize_reward",
    "reward_clip_range", "overlong_*", "stop_properly_penalty_coef", "value_head_prefix", "eps_clip*", "dual_clip",
    "value_clip", "lambd", "gamma", "ptx_coef", "l2", "max_norm", "kl_*", "use_kl_loss", "use_kl_estimator_k3",
    "policy_loss_type", "no_advantage_std_norm", "entropy_loss_coef", "aux_loss_coef",
    "dynamic_filtering_reward_range", "vllm_is_*", "freezing_actor_steps", "save_value_network",
    "dataloader_num_workers", "*learning_rate", "lr_*", "adam_betas", "min_lr*",
    # How DeepSpeed and the models are set up, without a bearing on rollouts, batches or sizes.
    "zpg", "local_rank", "actor_init_on_gpu", "grad_accum_dtype", "overlap_comm",
    "gradient_checkpointing_use_reentrant", "disable_fast_tokenizer", "disable_trace_cache", "enable_ema",
    "ema_beta", "ring_head_stride", "use_ms", "perf", "aux_loss*",
    # Checkpoints and logging.
    "save_*", "ckpt_path", "disable_ds_ckpt", "max_ckpt_*", "load_checkpoint", "use_ds_universal_ckpt",
    "best_metric_key", "logging_steps", "use_wandb", "wandb_*", "use_tensorboard",
    # The same with dots.
    "data.prompt_*", "data.*_key", "data.input_template", "data.max_samples", "data.disable_fast_tokenizer",
    "data.dataloader_num_workers", "eval.split", "algo.kl.*", "algo.advantage.*", "algo.dynamic_filtering_range",
    "reward.remote_url", "reward.normalize_enable", "reward.clip_range", "reward.overlong_*",
    "reward.stop_properly_penalty_coef", "reward.offload", "ds.zpg", "ds.grad_accum_dtype", "ds.overlap_comm",
    "ds.use_universal_ckpt", "ds.experts_implementation", "ds.ring_attn_head_stride", "ds.value_head_prefix",
    "ckpt.*", "logger.*", "train.enable_ema", "train.ema_beta", "actor.*lr*", "critic.*lr*", "actor.adam.*",
    "critic.adam.*", "actor.muon.*", "critic.muon.*", "critic.optim", "actor.max_norm", "critic.max_norm",
    "actor.eps_clip*", "actor.dual_clip", "critic.value_clip", "actor.policy_loss_type", "actor.aux_loss_coef",
    "actor.entropy_coef", "actor.gradient_checkpointing_reentrant", "critic.freezing_steps",
    "critic.save_value_network",
)  # fmt: skip
"""Options that say nothing about rollouts, batches, placement, seeds or parallelism."""
