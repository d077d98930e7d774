"""axolotl: one YAML for ``axolotl train`` and ``axolotl vllm-serve``; its ``trl:`` section goes to TRL's GRPOConfig."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from rldoctor.formats.native import Native
from rldoctor.formats.yaml.reader import YamlFile
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.option_table import OptionTable
from rldoctor.frameworks.releases import within
from rldoctor.frameworks.rule import Rule, inverted
from rldoctor.frameworks.slips import misspelled, slip
from rldoctor.frameworks.trl.engine import engine, placement, start
from rldoctor.frameworks.trl.table import BESIDE, TABLE
from rldoctor.frameworks.trl.trainer import adapters, batch, sampling, strategy
from rldoctor.frameworks.vllm.seeds import derive_own
from rldoctor.plan.model import Form, Place

_SAMPLES = ("grpo", "gdpo", "ebft")
# What GRPOConfig is given of the `vllm:` section in colocate mode (core/trainers/grpo/__init__.py).
_COLOCATED = ("vllm.gpu_memory_utilization", "vllm.tensor_parallel_size")
# Besides that, where its plugin runs (get_training_args in integrations/nemo_gym/plugin.py).
_NEMO_GYM, _BY_NEMO_GYM = "axolotl.integrations.nemo_gym.NemoGymPlugin", ("vllm.max_model_len",)

# TRL's defaults do not count for these: axolotl chooses, or hands on null (max_completion_length).
_KEPT = ("placement.mode", "lengths.prompt", "lengths.response", "batch.per_device_eval")

_SERVE: dict[str, str | Rule] = {
    "vllm.tensor_parallel_size": "engine.tensor_parallel_size",
    "vllm.data_parallel_size": "engine.data_parallel_size",
    "vllm.gpu_memory_utilization": "engine.gpu_memory_utilization",
    "vllm.dtype": "engine.dtype",
    "vllm.max_model_len": "engine.max_model_len",
    "vllm.enable_prefix_caching": "engine.enable_prefix_caching",
    "vllm.enforce_eager": "engine.enforce_eager",
    "vllm.worker_extension_cls": "engine.worker_extension_cls",
    "vllm.device": "engine.device",
    "vllm.host": "placement.listen_host",
    "vllm.port": "placement.listen_port",
}

_TRAIN: dict[str, str | Rule] = {
    "base_model": "model.path",
    "rl": "trainer.algorithm",
    "micro_batch_size": "batch.per_device",
    "gradient_accumulation_steps": "batch.accumulation",
    "eval_batch_size": "batch.per_device_eval",
    "sequence_len": "lengths.total",
    "max_prompt_len": "lengths.prompt",
    "rl_beta": Rule("trainer.kl_coefficient", spelled=False),
    "seed": "seed.trainer",
    "deepspeed": "trainer.deepspeed",
    "fsdp": Rule("trainer.strategy", read=lambda value: "fsdp" if value else None),
    "fsdp_version": Rule("trainer.strategy", read=lambda value: "fsdp2" if int(value) == 2 else "fsdp"),
    "fsdp_config.fsdp_version": Rule("trainer.strategy", read=lambda value: "fsdp2" if int(value) == 2 else "fsdp"),
    "fsdp_config.offload_params": "trainer.offload_params",
    "fsdp_config.fsdp_offload_params": Rule("trainer.offload_params", spelled=False),
    "context_parallel_size": "parallel.context",
    "sequence_parallel_degree": Rule("parallel.context", spelled=False),
    "tensor_parallel_size": "parallel.tensor",
    "dp_shard_size": "parallel.fsdp",
    "gradient_checkpointing": "trainer.gradient_checkpointing",
    "torch_compile": "trainer.compile",
    "optimizer": "trainer.optimizer",
    "max_steps": "trainer.steps",
    "num_epochs": "trainer.epochs",
    "save_steps": "trainer.save_every",
    "save_total_limit": "trainer.save_limit",
    "eval_steps": "trainer.eval_every",
    "eval_strategy": "trainer.eval_strategy",
    "ddp_timeout": "trainer.timeout",
    "bf16": Rule(
        "trainer.dtype", read=lambda value: "bfloat16" if value is True or value in ("auto", "full") else None
    ),
    "fp16": Rule("trainer.dtype", read=lambda value: "float16" if value is True else None),
    "trust_remote_code": "model.trust_remote_code",
    "attn_implementation": "model.attention",
    "flash_attention": Rule("model.attention", read=lambda value: "flash_attention_2" if value else None),
    "chat_template": "model.chat_template",
    "load_in_4bit": Rule("model.quantization", read=lambda value: "4bit" if value else None),
    "load_in_8bit": Rule("model.quantization", read=lambda value: "8bit" if value else None),
    "adapter": Rule("lora.enabled", read=lambda value: bool(value)),
    "lora_r": "lora.rank",
    "lora_alpha": "lora.alpha",
    "lora_dropout": "lora.dropout",
    "lora_target_modules": "lora.target_modules",
    "lora_modules_to_save": "lora.modules_to_save",
    "peft_use_dora": "lora.dora",
    "num_processes": "process.total",
    "num_machines": "process.nnodes",
    "nproc_per_node": "process.nproc",
    "nnodes": "process.nnodes",
    "ebft.n_samples_per_prompt": Rule("batch.generations", spelled=False),
    "ebft.generate_max_len": Rule("lengths.response", spelled=False),
    "ebft.temperature": Rule("sampling.temperature", spelled=False),
}
# The section's own names (utils/schemas/trl.py) are TRL's; these it has besides.
_SECTION: dict[str, str | Rule] = {
    **{
        f"trl.{key}": row
        for key, row in TABLE.items()
        if not key.startswith(("generation_kwargs.", "model_init_kwargs.", "peft.", "trainer.", "env."))
    },
    "trl.vllm_sync_interval": "sync.interval",
    "trl.async_prefetch": "rollout.async",
    "trl.prefetch_depth": "rollout.staleness",
    "trl.vllm_lora_sync": inverted("lora.merged"),
}
_OTHER = """
ddp* device_map* hub_* strict plugins datasets* test_datasets* dataset_* skip_prepare_dataset val_set_size output_dir
wandb_* mlflow_* comet_* use_wandb special_tokens* tokens added_tokens* learning_rate lr_* warmup_* weight_decay
max_grad_norm adam_* optim_* cosine_* train_on_inputs group_by_length early_stopping_patience resume_from_checkpoint
auto_resume_* local_rank logging_steps gradient_checkpointing_kwargs* xformers_attention s2_attention sdp_attention
flex_attention eager_attention flash_attn_* evals_per_epoch saves_per_epoch save_* eval_* debug dataloader_* gc_steps
sample_packing* pad_to_sequence_len excess_length_strategy tf32 float16 bfloat16 model_type tokenizer_* is_*
lora_target_linear lora_fan_in_fan_out lora_*_kernel lora_model_dir unfrozen_parameters* liger_* cut_cross_entropy
torch_dtype chat_template_jinja shuffle_merged_datasets remove_unused_columns fsdp_config.* fsdp_final_state_dict_type
sequence_parallel* ring_attn_func heads_k_stride use_tensorboard include_* loraplus_* neftune_* profiler_*
torch_compile_* activation_offloading layer_offloading experimental_* batch_flattening gdpo_* ebft.* nemo_gym*
streaming* revision_of_model base_model_* overrides_of_model_* trackio_* launcher use_kernels scaling_softmax
qlora_sharded_model_loading axolotl_config_path processor_* image_* freeze_mm_modules quantize_* reward_funcs
serve_module reasoning_parser enable_reasoning log_level cloud sweep vllm.serve_module vllm.enable_reasoning
vllm.reasoning_parser trl.use_data_producer trl.streaming_* trl.replay_* trl.reroll_* trl.skip_zero_* trl.rollout_func
"""
_BESIDE = (*_OTHER.split(), *(f"trl.{name}" for name in BESIDE))


def _vllm(draft: Draft) -> None:
    """What of the ``vllm:`` section reaches the trainer's own engine; the rest is the server's alone."""
    algorithm = draft.value("trainer.algorithm")
    if algorithm == "gdpo":
        draft.override("trainer.algorithm", "grpo", "gdpo runs GRPOTrainer", "trainer.algorithm")
    if draft.value("rollout.enabled"):
        # validation.py check_vllm_mode_set; before 0.12 the server is all there is
        draft.derive("placement.mode", "server", "vllm_mode is not set: server", "rollout.enabled")
    colocated = draft.value("placement.mode") == "colocate"
    plugins = draft.native("plugins")
    kept = _COLOCATED + (_BY_NEMO_GYM if isinstance(plugins, list) and _NEMO_GYM in plugins else ())
    for key, row in _SERVE.items():
        option, native = str(row), draft.natives.get(key)
        if colocated and key in kept:
            continue
        draft.settings.pop(option, None)
        if colocated and native is not None and native.value is not None and option.startswith("engine."):
            draft.unknown.append(
                native.as_unknown(
                    owner=f"axolotl {draft.launch.version_of('axolotl') or ''}".rstrip(),
                    ignored=True,
                    why="in colocate mode TRL gets only gpu_memory_utilization and tensor_parallel_size of vllm",
                )
            )


def _lengths(draft: Draft) -> None:
    """GRPOConfig's max_prompt_length: max_prompt_len or sequence_len in 0.13 and 0.14 (core/builders/rl.py)."""
    version = draft.launch.version_of("axolotl")
    if within(version, "0.13", "0.15"):
        draft.derive("lengths.prompt", draft.value("lengths.total"), "sequence_len", "lengths.total")
    elif version is not None:
        draft.settings.pop("lengths.prompt", None)
        draft.default(
            "lengths.prompt",
            draft.launch.default("trl:GRPOConfig", "max_prompt_length"),
            "max_prompt_length",
            "default of TRL",
        )
    draft.settings.pop("lengths.total", None)
    draft.derive("batch.per_device_eval", draft.value("batch.per_device"), "micro_batch_size", "batch.per_device")
    draft.derive("engine.tensor_parallel_size", 1 if draft.value("placement.mode") == "colocate" else None, "not set")


def _server(draft: Draft) -> None:
    """cli/vllm_serve.py: the section, with the options of the command before it, and the policy."""
    draft.derive("engine.model", draft.value("model.path"), "base_model", "model.path")
    draft.override("placement.mode", "server", "axolotl vllm-serve")
    draft.derive("rollout.backend", "vllm", "axolotl vllm-serve")
    for name in ("tensor", "data"):
        draft.derive(f"engine.{name}_parallel_size", 1, "not set")
    ranks, replicas = draft.value("engine.tensor_parallel_size"), draft.value("engine.data_parallel_size")
    draft.derive("placement.engines", replicas, "data_parallel_size", "engine.data_parallel_size")
    draft.derive(
        "placement.engine_gpus",
        ranks * replicas,
        f"{ranks} tensor x {replicas} data parallel",
        "engine.tensor_parallel_size",
    )
    derive_own(draft, "engine.data_parallel_size")
    lora = draft.native("trl.vllm_lora_sync")
    if within(draft.launch.version_of("axolotl"), "0.16"):
        draft.derive("engine.enable_lora", bool(lora), "trl.vllm_lora_sync")
        draft.derive("engine.logprobs_mode", "processed_logprobs", "fixed in vllm_serve_lora.py")
        if lora:
            draft.derive("engine.max_lora_rank", draft.value("lora.rank"), "lora_r", "lora.rank")


def _launched(draft: Draft) -> None:
    """``axolotl train`` starts accelerate unless ``--launcher`` says otherwise (cli/main.py)."""
    if draft.launch.entry == "axolotl train":
        chosen = draft.native("launcher")
        launcher = {"python": "none"}.get(str(chosen), chosen) if isinstance(chosen, str) else "accelerate"
        draft.derive("process.launcher", launcher, "axolotl train --launcher, else accelerate")


def _serves(launch: Launch) -> bool:
    return "serve" in launch.entry


def _trainer(draft: Draft) -> None:
    if _serves(draft.launch):
        _server(draft)
        return
    for derivation in (_launched, start, _vllm, placement, _lengths, batch, engine, sampling, strategy, adapters):
        derivation(draft)
    _strided(draft)
    if not draft.launch.entry and draft.value("placement.mode") == "server":
        _its_server(draft)


def _strided(draft: Draft) -> None:
    """EBFT over strides draws its samples within a row: no rows belong together (core/trainers/ebft/strided.py)."""
    if draft.native("rl") == "ebft" and draft.native("ebft.mode") == "strided":
        for name in ("batch.generations", "batch.generation", "batch.prompts"):
            draft.settings.pop(name, None)


def _its_server(draft: Draft) -> None:
    """A configuration by itself is the server's, too: what its section says of the engine, and no more."""
    for key, row in _SERVE.items():
        native = draft.natives.get(key)
        if native is not None and native.value is not None and str(row).startswith("engine."):
            draft.take(native, str(row), native.value)


class Axolotl(Dialect):
    name, owner = "axolotl", "axolotl"
    entries = ("axolotl train", "axolotl vllm-serve", "axolotl.cli.train", "axolotl.cli.vllm_serve", "axolotl.cli.main")
    lookups: ClassVar[Mapping[str, str]] = {
        "optimizer": "transformers:TrainingArguments.optim",
        "lr_scheduler": "transformers:TrainingArguments.lr_scheduler_type",
        "trl.loss_type": "trl:GRPOConfig.loss_type",
    }
    table: ClassVar[Mapping[str, str | Rule]] = {**_SECTION, **_SERVE, **_TRAIN}
    beside = _BESIDE
    strict = frozenset({Form.YAML})
    dashes = True
    derivations = (_trainer,)

    def check_known(self, draft: Draft, native: Native) -> None:
        """A misspelled name, of this release or another, or one of another release: pydantic drops what it does not
        know, and plugins bring keys of their own."""
        found = len(draft.unknown)
        super().check_known(draft, native)
        nearest = OptionTable.load("axolotl").nearest
        draft.unknown[found:] = [one for one in draft.unknown[found:] if misspelled(one, nearest(one.key, None))]

    def claims(self, launch: Launch) -> int:
        """Its commands and its YAML, where the run samples."""
        tree = _config(launch)
        if launch.entry in self.entries:
            return 100 if tree is None or _samples(tree) else 0
        return 80 if tree is not None and self.is_config(tree) and _samples(tree) else 0

    def is_config(self, tree: YamlFile) -> bool:
        """Every one of its trainings names its model so."""
        return tree.has("base_model")

    def role(self, launch: Launch) -> str:
        """``server`` for ``axolotl vllm-serve``."""
        return "server" if _serves(launch) else "trainer"

    def place(self, launch: Launch) -> Place | None:
        """The YAML, which holds everything."""
        tree = _config(launch)
        return launch.place if tree is None else Place(form=Form.YAML, file=tree.source.file, line=1)

    def collected(self, launch: Launch) -> Iterator[Native]:
        """The YAML, then the command's options; those of ``vllm-serve`` stand for the section's."""
        tree = _config(launch)
        if tree is not None:
            yield from tree.natives()
        for native in launch.arguments(flags=self._flags).natives:
            served = _serves(launch) and f"vllm.{native.key}" in _SERVE
            yield replace(native, key=f"vllm.{native.key}") if served else native

    def defaults(self, draft: Draft) -> None:
        """Its own; where it hands nothing on, TRL's. None where the YAML is not at hand."""
        if _config(draft.launch) is None:
            return
        super().defaults(draft)
        options = draft.launch.options("trl:GRPOConfig")
        for key, row in TABLE.items() if options is not None else ():
            rule = row if isinstance(row, Rule) else Rule(row)
            if options is not None and key in options and rule.option not in _KEPT and draft.is_open(rule.option):
                value = rule.canonical(draft.launch.default("trl:GRPOConfig", key))
                draft.settings.pop(rule.option, None)
                draft.default(rule.option, value, key, "default of TRL")

    def engine_defaults(self, draft: Draft) -> None:
        """vLLM's own, for an engine that this launch starts."""
        if self.role(draft.launch) == "server" or draft.value("placement.mode") == "colocate":
            super().engine_defaults(draft)


def _config(launch: Launch) -> YamlFile | None:
    """The YAML of the launch: the target itself, or the first positional of the command."""
    if launch.tree is not None:
        return launch.tree
    named = next((word.value for word in launch.arguments().positionals if isinstance(word.value, str)), None)
    return launch.yaml(named) if named is not None and launch.files.find(named) is not None else None


def _samples(tree: YamlFile) -> bool:
    """Whether the run generates while it trains, as far as a slip of the pen tells what was meant."""
    asked = tree.get("rl")
    return asked in _SAMPLES or (isinstance(asked, str) and slip(asked, _SAMPLES) is not None)


DIALECT = Axolotl()
