"""slime: ``train.py`` or ``train_async.py`` with Megatron's options, its own, and SGLang's behind ``--sglang-``.

Read from 0.1.0 to 0.3.1: slime/utils/arguments.py, slime/backends/sglang_utils/arguments.py and sglang_engine.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import ClassVar

from rldoctor.counted import counted
from rldoctor.formats.native import Native
from rldoctor.formats.python.started import Helper
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.groups import placement_group
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import between
from rldoctor.frameworks.rule import Boolean, Rule, as_list
from rldoctor.frameworks.translating import translated
from rldoctor.plan.model import Form

# Its script has a common name: so many of these options tell it.
_TELLING = frozenset(
    {
        "hf_checkpoint",
        "rollout_batch_size",
        "rollout_num_gpus_per_engine",
        "actor_num_gpus_per_node",
        "n_samples_per_prompt",
        "rollout_max_response_len",
    }
)
_ENOUGH = 3
# Beginnings of names that only slime gives, not Megatron; so much alike is a name to one with a slip in it.
_OWN = ("rollout_", "actor_num_")
_SLIP = 0.93

_PLACE: dict[str, str | Rule] = {
    "actor_num_nodes": "placement.nodes",
    "actor_num_gpus_per_node": "placement.gpus_per_node",
    "rollout_num_gpus": "placement.engine_gpus",
    "colocate": Rule(
        "placement.mode",
        read=lambda given: "colocate" if given else None,
        write=lambda mode: True,
        boolean=Boolean.FLAG,
    ),
    "offload_rollout": "sleep.enabled",
    "offload_train": "sleep.trainer",
    "tensor_model_parallel_size": "parallel.tensor",
    "pipeline_model_parallel_size": "parallel.pipeline",
    "context_parallel_size": "parallel.context",
    "expert_model_parallel_size": "parallel.expert",
    "expert_tensor_parallel_size": "parallel.expert_tensor",
    "sequence_parallel": "parallel.megatron_sequence",
    "distributed_timeout_minutes": Rule("trainer.timeout", read=lambda value: float(value) * 60),
    "update_weights_interval": "sync.interval",
    "update_weight_transport": "sync.backend",
}
_ENGINE: dict[str, str | Rule] = {
    "rollout_num_gpus_per_engine": "engine.tensor_parallel_size",
    "sglang_mem_fraction_static": "engine.gpu_memory_utilization",
    "sglang_context_length": "engine.max_model_len",
    "sglang_max_running_requests": "engine.max_num_seqs",
    "sglang_server_concurrency": "rollout.concurrency",
}
_ROLLOUT: dict[str, str | Rule] = {
    "hf_checkpoint": "model.path",
    "rollout_max_prompt_len": "lengths.prompt",
    "rollout_max_response_len": "lengths.response",
    "rollout_max_context_len": "lengths.total",
    "rollout_temperature": "sampling.temperature",
    "rollout_top_p": "sampling.top_p",
    "rollout_top_k": "sampling.top_k",
    "rollout_stop": "sampling.stop",
    "rollout_stop_token_ids": Rule("sampling.stop_token_ids", read=lambda given: [int(one) for one in as_list(given)]),
    "rollout_batch_size": "batch.prompts",
    "over_sampling_batch_size": "batch.pool",
    "n_samples_per_prompt": "batch.generations",
    "partial_rollout": "rollout.partial",
    "rollout_seed": "seed.data",
}
_TRAINER: dict[str, str | Rule] = {
    "advantage_estimator": "trainer.algorithm",
    "global_batch_size": "batch.train",
    "micro_batch_size": "batch.per_device",
    "use_dynamic_batch_size": "batch.dynamic",
    "max_tokens_per_gpu": "batch.tokens_per_device",
    "log_probs_max_tokens_per_gpu": "batch.logprob_tokens_per_device",
    "balance_data": "trainer.balanced",
    "num_rollout": "trainer.steps",
    "num_epoch": "trainer.epochs",
    "save_interval": "trainer.save_every",
    "eval_interval": "trainer.eval_every",
    "seed": "seed.trainer",
    "kl_loss_coef": "trainer.kl_coefficient",
    "use_tis": "rollout.importance_correction",
}


def _placement(draft: Draft) -> None:
    colocated = draft.value("placement.mode") == "colocate"
    nodes, each = draft.value("placement.nodes"), draft.value("placement.gpus_per_node")
    total = nodes * each if nodes and each else None
    draft.derive("placement.trainer_gpus", total, f"{counted(nodes, 'node')} x {each}", "placement.gpus_per_node")
    if colocated:
        draft.override("placement.engine_gpus", total, "--colocate: those of the actor", "placement.gpus_per_node")
    # Of printed arguments the script is not known.
    script_known = draft.launch.entry.endswith(".py")
    overlaps = "async" in draft.launch.entry
    if not colocated and script_known:
        draft.derive("placement.mode", "async" if overlaps else "separate", "no --colocate: devices of their own")
    if script_known and (overlaps or not colocated):
        draft.derive("rollout.async", overlaps, "train_async.py" if overlaps else "train.py")
    if draft.native("offload") is True or colocated:
        how = "--offload" if draft.native("offload") is True else "--colocate"
        draft.derive("sleep.enabled", True, how)
        draft.derive("sleep.trainer", True, how)
    engines, size = draft.value("placement.engine_gpus"), draft.value("engine.tensor_parallel_size")
    if engines and size and engines % size == 0:
        how = f"{engines} devices / {size}"
        draft.derive("placement.engines", engines // size, how, "engine.tensor_parallel_size")
    if total and engines and not colocated:
        draft.derive("placement.roles", {"actor": total, "engine": engines}, "no --colocate", "placement.gpus_per_node")
    needed = (total or 0) + (0 if colocated else engines or 0)
    draft.derive("ray.gpus_needed", needed or None, "actor and engines", "placement.gpus_per_node")
    if needed:
        # ray/placement_group.py: one group for everything
        draft.derive("ray.groups", [placement_group("PACK", needed)], "one group", "placement.gpus_per_node")
    draft.override("process.launcher", "ray", "slime starts its workers with Ray")


def _engine(draft: Draft) -> None:
    draft.derive("rollout.backend", "sglang", "the only engine of slime")
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("sampling.max_tokens", draft.value("lengths.response"), "the longest response", "lengths.response")


def _seeds(draft: Draft) -> None:
    """sglang_engine.py: ``args.seed + rank``, where an engine has a rank on each of its nodes; sglang_rollout.py seeds
    requests only where inference is to be deterministic."""
    base = draft.usual("seed.trainer", 1234)
    draft.derive("seed.engine", base, "--seed", "seed.trainer")
    draft.derive("seed.per_replica", "replica", "--seed + rank of the engine's first process", "seed.trainer")
    each, size = draft.count("num_gpus_per_node", 8), draft.usual("engine.tensor_parallel_size", 1)
    if each and size and size > each:
        draft.derive("seed.stride", size // each, f"{size} devices / {each} on a node: so many processes in an engine")
    draft.derive("rollout.spread", "load", "SGLang's router chooses")
    fixed = draft.native("sglang_enable_deterministic_inference") is True
    draft.derive("seed.per_request", "counter" if fixed else "none", "--sglang-enable-deterministic-inference")


def _batch(draft: Draft) -> None:
    prompts, n = draft.value("batch.prompts"), draft.usual("batch.generations", 1)
    rows = prompts * n if prompts and n else None
    how = f"{prompts} prompts x {n}"
    draft.derive("batch.generation", rows, how, "batch.prompts", "batch.generations")
    draft.derive("batch.per_request", 1, "every sample is a request of its own")
    steps = draft.count("num_steps_per_rollout")
    if rows and steps:
        draft.derive("batch.train", rows // steps, f"{how} / {steps} steps", "batch.prompts")


def _trainer(draft: Draft) -> None:
    draft.derive("trainer.strategy", "megatron", "slime trains with Megatron")
    draft.derive("trainer.temperature", draft.value("sampling.temperature"), "rollout_temperature")
    algorithm = draft.value("trainer.algorithm")
    draft.derive("trainer.critic", algorithm == "ppo" if algorithm else None, "advantage_estimator is ppo")
    reference = draft.native("use_kl_loss") is True or bool(draft.native("kl_coef"))
    draft.derive("trainer.reference", True if reference else None, "--use-kl-loss or --kl-coef")


class Slime(Dialect):
    name, owner = "slime", "slime"
    # The last is that of printed arguments.
    entries = ("*slime/train.py", "*slime/train_async.py", "slime")
    imports = ("slime.utils.arguments", "slime.ray.placement_group")
    # slime/utils/external_utils/command_utils.py
    helpers: ClassVar[Mapping[str, Helper]] = {
        "execute_train": Helper("slime", options="train_args", script="train_script", default="train.py")
    }
    dashes = True
    booleans = Boolean.FLAG
    # Megatron and SGLang take what it does not declare itself.
    strict = frozenset()
    table: ClassVar[Mapping[str, str | Rule]] = {**_ROLLOUT, **_ENGINE, **_PLACE, **_TRAINER}
    beside = (
        "rollout_*", "eval_*", "custom_*", "save*", "load*", "ref_*", "wandb_*", "use_*", "sglang_*", "adam_*", "lr*",
        "min_lr*", "weight_decay*", "eps_clip*", "kl_*", "entropy_coef", "input_key", "label_key", "metadata_key",
        "tool_key", "prompt_data", "apply_chat_template*", "rm_*", "reward_key", "recompute_*", "attention_*",
        "hidden_*", "num_layers", "num_attention_heads", "num_query_groups", "ffn_hidden_size", "group_query_attention",
        "normalization", "norm_epsilon", "rotary_*", "vocab_size", "swiglu", "disable_bias_linear", "qk_layernorm",
        "kv_channels", "untie_embeddings_and_output_weights", "optimizer*", "accumulate_*", "moe_*",
        "offload", "num_gpus_per_node", "num_steps_per_rollout", "n_samples_per_eval_prompt", "dynamic_sampling_*",
        "buffer_filter_path", "update_weight*", "model_name", "debug_*", "dump_details", "no_*", "spec", "tis_*",
        "gamma", "lambd", "value_clip", "normalize_advantages", "data_source_path", "global_dataset", "ci_*",
        "multimodal_keys", "train_*", "add_qkv_bias", "make_vocab_size_divisible_by", "max_position_embeddings",
    )  # fmt: skip
    derivations = (_placement, _engine, _seeds, _batch, _trainer)

    def check_known(self, draft: Draft, native: Native) -> None:
        """Megatron's parser is told to let pass what it does not know (``megatron_parse_args``): an option in another
        framework's words, or one of slime's own with a slip in it, is dropped in silence."""
        super().check_known(draft, native)
        key = native.key
        options = draft.launch.options(self.owner)
        if native.form is not Form.OPTION or self.rule(key) is not None or options is None or key in options:
            return
        meant: Sequence[str] = ()
        if key.startswith(_OWN):
            meant = get_close_matches(key, [name for name in options if name.startswith(_OWN)], 1, _SLIP)
        elif not self._rows.beside.match(key) and between(draft, "slime", "0.3.1", "0.4"):
            meant = translated(self, key)
        if meant:
            owner = f"slime {draft.launch.version_of('slime')}"
            draft.unknown.append(native.as_unknown(owner=owner, nearest=tuple(meant), ignored=True))

    def leaves(self, launch: Launch) -> bool:
        return True

    def claims(self, launch: Launch) -> int:
        """Its folder, its imports, or enough of its options for a script of that name, or in printed arguments."""
        found = super().claims(launch)
        words = {word.text.partition("=")[0].lstrip("-").replace("-", "_") for word in launch.words}
        return found or (90 if len(words & _TELLING) >= _ENOUGH else 0)


DIALECT = Slime()
