"""EasyR1: OmegaConf overrides over the YAML that ``config=`` names; its distribution is verl, its key ``easyr1``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, ClassVar

from rldoctor.counted import counted
from rldoctor.formats.hydra.overrides import by_yaml
from rldoctor.formats.native import Native
from rldoctor.frameworks.batch import count_completions
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.groups import driver, placement_group
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import between
from rldoctor.frameworks.rule import Rule, as_list, inverted
from rldoctor.plan.model import Form, RefusedValue

_ACTOR, _CRITIC, _REF, _ROLLOUT = "worker.actor", "worker.critic", "worker.ref", "worker.rollout"
# verl/utils/torch_dtypes.py, PrecisionType.
_PRECISIONS = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    "full": "float32",
}

_EXAMPLE = "examples/config.yaml"
_DASHED = re.compile(r"--?[a-z_][\w.]*(=|$)")


def _precision(name: Any) -> Any:
    return _PRECISIONS.get(name, name)


def _images(count: Any) -> dict[str, int] | None:
    return {"image": int(count)} if int(count) else None


_ENGINE: dict[str, str | Rule] = {
    f"{_ROLLOUT}.name": "rollout.backend",
    f"{_ROLLOUT}.tensor_parallel_size": "engine.tensor_parallel_size",
    f"{_ROLLOUT}.gpu_memory_utilization": "engine.gpu_memory_utilization",
    f"{_ROLLOUT}.enable_chunked_prefill": "engine.enable_chunked_prefill",
    f"{_ROLLOUT}.max_num_batched_tokens": "engine.max_num_batched_tokens",
    f"{_ROLLOUT}.max_model_len": "engine.max_model_len",
    f"{_ROLLOUT}.enforce_eager": "engine.enforce_eager",
    f"{_ROLLOUT}.disable_log_stats": "engine.disable_log_stats",
    f"{_ROLLOUT}.dtype": Rule("engine.dtype", read=_precision, write=lambda name: name),
    f"{_ROLLOUT}.limit_images": Rule(
        "engine.limit_mm_per_prompt", read=_images, write=lambda limits: limits.get("image", 0)
    ),
    f"{_ROLLOUT}.seed": "seed.engine",
    f"{_ROLLOUT}.n": "batch.generations",
    f"{_ROLLOUT}.temperature": "sampling.temperature",
    f"{_ROLLOUT}.top_p": "sampling.top_p",
    f"{_ROLLOUT}.top_k": "sampling.top_k",
    f"{_ROLLOUT}.ignore_eos": "sampling.ignore_eos",
    f"{_ROLLOUT}.val_override_config": "rollout.eval_sampling",
    # The only door for what RolloutConfig has no field for; evaluation asks it of the same engine.
    f"{_ROLLOUT}.val_override_config.min_tokens": "sampling.min_tokens",
}
_DATA: dict[str, str | Rule] = {
    "data.max_prompt_length": "lengths.prompt",
    "data.max_response_length": "lengths.response",
    "data.filter_overlong_prompts": "lengths.overlong_filtered",
    "data.rollout_batch_size": "batch.prompts",
    "data.mini_rollout_batch_size": "batch.pool",
    "data.val_batch_size": "batch.validation",
    "data.seed": "seed.data",
    "data.override_chat_template": "model.chat_template",
    "data.max_pixels": "model.max_pixels",
}
_BATCH: dict[str, str | Rule] = {
    f"{_ACTOR}.global_batch_size": "batch.mini_prompts",
    f"{_ACTOR}.micro_batch_size_per_device_for_update": "batch.per_device",
    f"{_ACTOR}.micro_batch_size_per_device_for_experience": "batch.logprob_per_device",
    f"{_ACTOR}.ppo_epochs": "batch.iterations",
    f"{_ACTOR}.padding_free": "batch.packing",
    f"{_ACTOR}.dynamic_batching": "batch.dynamic",
    f"{_CRITIC}.global_batch_size": "batch.critic_mini_prompts",
    f"{_CRITIC}.micro_batch_size_per_device_for_update": "batch.critic_per_device",
}
_TRAINER: dict[str, str | Rule] = {
    f"{_ACTOR}.model.model_path": "model.path",
    f"{_ACTOR}.model.tokenizer_path": "model.tokenizer",
    f"{_ACTOR}.model.trust_remote_code": "model.trust_remote_code",
    f"{_ACTOR}.model.override_config": "model.overrides",
    f"{_ACTOR}.model.enable_gradient_checkpointing": "trainer.gradient_checkpointing",
    f"{_ACTOR}.model.freeze_vision_tower": "trainer.freeze_vision",
    f"{_ACTOR}.model.lora.rank": "lora.rank",
    f"{_ACTOR}.model.lora.alpha": "lora.alpha",
    f"{_ACTOR}.model.lora.target_modules": "lora.target_modules",
    f"{_ACTOR}.model.lora.exclude_modules": "lora.excluded_modules",
    f"{_ACTOR}.strategy": "trainer.strategy",
    f"{_ACTOR}.ulysses_size": "parallel.sequence",
    # The name of 0.3.0.
    f"{_ACTOR}.ulysses_sequence_parallel_size": Rule("parallel.sequence", spelled=False),
    f"{_ACTOR}.fsdp.fsdp_size": "parallel.fsdp",
    f"{_ACTOR}.fsdp.torch_dtype": Rule("trainer.param_dtype", read=_precision, write=lambda name: name),
    f"{_ACTOR}.fsdp.mp_param_dtype": Rule("trainer.dtype", read=_precision, write=lambda name: name),
    # FSDP's own CPU offload keeps weights and gradients in host memory.
    f"{_ACTOR}.fsdp.enable_cpu_offload": "trainer.offload_gradients",
    f"{_ACTOR}.offload.offload_params": "trainer.offload_params",
    f"{_ACTOR}.offload.offload_optimizer": "trainer.offload_optimizer",
    f"{_ACTOR}.optim.strategy": "trainer.optimizer",
    f"{_ACTOR}.use_torch_compile": "trainer.compile",
    f"{_REF}.offload.offload_params": "trainer.reference_offload",
    f"{_REF}.fsdp.enable_cpu_offload": Rule("trainer.reference_offload", spelled=False),
    f"{_CRITIC}.model.model_path": "model.critic_path",
    f"{_CRITIC}.ulysses_size": "parallel.critic_sequence",
    "algorithm.adv_estimator": "trainer.algorithm",
    "algorithm.disable_kl": inverted("trainer.reference"),
    "algorithm.kl_coef": "trainer.kl_coefficient",
    "algorithm.online_filtering": "rollout.filtered",
    "trainer.total_epochs": "trainer.epochs",
    "trainer.total_episodes": Rule("trainer.epochs", spelled=False),
    "trainer.max_steps": "trainer.steps",
    "trainer.val_freq": "trainer.eval_every",
    "trainer.save_freq": "trainer.save_every",
    "trainer.save_limit": "trainer.save_limit",
    "trainer.logger": Rule("trainer.trackers", write=as_list),
    "trainer.nnodes": "placement.nodes",
    "trainer.n_gpus_per_node": "placement.gpus_per_node",
}


def _placement(draft: Draft) -> None:
    """One pool for everything (trainer/main.py): each device holds a trainer rank and a rank of an engine."""
    draft.override("process.launcher", "ray", "EasyR1 starts its workers with Ray")
    draft.derive("placement.mode", "colocate", "hybrid engine: trainer and engine share devices")
    nodes, each = draft.value("placement.nodes"), draft.value("placement.gpus_per_node")
    if not nodes or not each:
        return
    total, how = nodes * each, f"{counted(nodes, 'node')} x {each} devices"
    for option in ("placement.trainer_gpus", "placement.engine_gpus", "ray.gpus_needed"):
        draft.derive(option, total, how, "placement.gpus_per_node", "placement.nodes")
    # main.py: Runner; ResourcePoolManager.create_resource_pool: a group for each node, with one core for each device
    groups = [driver(), placement_group("STRICT_PACK", each, count=nodes)]
    draft.derive("ray.groups", groups, "a group for each node", "placement.gpus_per_node", "placement.nodes")
    # workers/fsdp_workers.py: dp_size = world_size // tp_size
    ranks = draft.value("engine.tensor_parallel_size")
    if ranks and total % ranks == 0:
        draft.derive("placement.engines", total // ranks, f"{total} devices / {ranks}", "engine.tensor_parallel_size")
    sequence = draft.value("parallel.sequence") or 1
    if sequence and total % sequence == 0:
        draft.derive(
            "parallel.data", total // sequence, f"{total} devices / {sequence} sequence parallel", "parallel.sequence"
        )


def _engine(draft: Draft) -> None:
    """What vLLMRollout hands to ``LLM(...)`` beside the given settings (workers/rollout/vllm_rollout_spmd.py, 0.3.0
    line 69, 0.3.2 line 106)."""
    prompt, response = draft.value("lengths.prompt"), draft.value("lengths.response")
    if prompt and response:
        how = f"prompt {prompt} + response {response}"
        draft.derive("engine.max_model_len", prompt + response, how, "lengths.response", "lengths.prompt")
    draft.derive("sampling.max_tokens", response, "the longest response", "lengths.response")
    draft.derive("sampling.detokenize", False, "fixed by EasyR1")
    draft.derive("sampling.n", draft.value("batch.generations"), "rollout.n", "batch.generations")
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive(
        "engine.trust_remote_code", draft.value("model.trust_remote_code"), "as the policy", "model.trust_remote_code"
    )
    rank = draft.value("lora.rank", 0)
    for option, value in (
        ("engine.distributed_executor_backend", "external_launcher"),
        ("engine.disable_custom_all_reduce", True),
        ("engine.skip_tokenizer_init", False),
        ("engine.enable_sleep_mode", True),
        ("engine.load_format", "safetensors" if rank > 0 else "dummy"),
        ("sleep.enabled", True),
        ("sleep.level", 1),
    ):
        draft.derive(option, value, "fixed by EasyR1")
    if between(draft, "easyr1", "0.3.0", "0.3.1"):
        draft.derive("engine.disable_mm_preprocessor_cache", True, "fixed by EasyR1 0.3.0")
    draft.derive("lora.enabled", rank > 0, f"lora.rank {rank}", "lora.rank")
    draft.derive("trainer.full", rank <= 0, f"lora.rank {rank}", "lora.rank")
    if rank > 0:
        draft.derive("engine.enable_lora", True, f"lora.rank {rank}", "lora.rank")
        draft.derive("engine.max_loras", 1, "one adapter", "lora.rank")
        draft.derive("engine.max_lora_rank", rank, "lora.rank", "lora.rank")


def _seeds(draft: Draft) -> None:
    """``seed=config.seed`` in every engine; SamplingParams takes every key of the section that it has, the seed too.
    The n completions of a prompt are one request, replicas have different prompts."""
    seed = draft.usual("seed.engine", 1)
    draft.derive("seed.engine", seed, "worker.rollout.seed is not set: 1", "seed.engine")
    draft.derive("engine.seed", seed, "worker.rollout.seed", "seed.engine")
    draft.derive("sampling.seed", seed, "worker.rollout.seed is in every request", "seed.engine")
    draft.derive("seed.per_replica", "same", "every engine gets worker.rollout.seed", "seed.engine")
    draft.derive("seed.per_request", "same", "every request gets worker.rollout.seed", "seed.engine")


def _batch(draft: Draft) -> None:
    count_completions(draft)  # workers/fsdp_workers.py: global_batch_size *= rollout.n
    data, micro, train = draft.value("parallel.data"), draft.value("batch.per_device"), draft.value("batch.train")
    if data and micro and train and (train // data) % micro == 0:
        how = f"{train} completions / {data} ranks / {micro}"
        draft.derive("batch.accumulation", train // data // micro, how, "batch.per_device")


def _trainer(draft: Draft) -> None:
    algorithm, every = draft.value("trainer.algorithm"), draft.value("trainer.eval_every")
    draft.derive(
        "trainer.critic",
        None if algorithm is None else algorithm == "gae",
        f"adv_estimator {algorithm}",
        "trainer.algorithm",
    )
    evaluates = every > 0 if isinstance(every, int | float) else None
    draft.derive("rollout.evaluates", evaluates, f"val_freq {every}", "trainer.eval_every")
    draft.derive(
        "trainer.temperature",
        draft.value("sampling.temperature"),
        "the actor takes rollout.temperature",
        "sampling.temperature",
    )
    if draft.value("trainer.offload_gradients"):
        draft.override("trainer.offload_params", True, "fsdp.enable_cpu_offload", "trainer.offload_gradients")
    offloads = [draft.natives.get(f"{_REF}.{key}") for key in ("fsdp.enable_cpu_offload", "offload.offload_params")]
    if any(native is not None and native.value is True for native in offloads):
        draft.override(
            "trainer.reference_offload",
            True,
            "ref.fsdp.enable_cpu_offload or ref.offload.offload_params",
            "trainer.reference_offload",
        )
    if draft.value("trainer.param_dtype") is None:
        draft.override("trainer.param_dtype", "float32", "fsdp_workers.py loads the actor so where no dtype is given")


def _dashed(draft: Draft) -> None:
    """OmegaConf takes a word with dashes for a key of its own, which the configuration does not have (main.py,
    ``OmegaConf.from_cli``)."""
    launch = draft.launch
    for word, behind in zip_longest(launch.words, launch.words[1:]):
        if isinstance(word.value, str) and _DASHED.match(word.value):
            name, sign, value = word.value.lstrip("-").partition("=")
            if not sign and behind is not None and "=" not in behind.text:
                value = behind.text
            draft.refused.append(
                RefusedValue(
                    key=word.value,
                    value="",
                    file=word.file or launch.file,
                    line=word.line,
                    form=Form.OVERRIDE,
                    owner="OmegaConf",
                    takes=f"each key without dashes, as one word with its value: {name}={value or 'VALUE'}",
                )
            )


def _environment(draft: Draft) -> None:
    """trainer/main.py hands its workers a runtime environment of its own, unless the driver has joined Ray already."""
    name = "env.PYTORCH_CUDA_ALLOC_CONF"
    if draft.value(name) is not None and "ray.runtime_env" not in draft.settings:
        draft.override(
            name, "expandable_segments:False", "EasyR1's own runtime environment sets it for the workers", name
        )


class EasyR1(Dialect):
    name, owner = "EasyR1", "easyr1"
    own_code = ("worker.reward.reward_function",)
    entries = ("verl.trainer.main", "*verl/trainer/main.py")
    keys = (_ROLLOUT, _ACTOR)
    style = Form.OVERRIDE
    signs = False
    config_options = ("config",)
    table: ClassVar[Mapping[str, str | Rule]] = {**_ENGINE, **_DATA, **_BATCH, **_TRAINER}
    beside = (
        "data.*_files", "data.*_key", "data.*_dir", "data.video_fps", "data.format_prompt", "data.shuffle",
        "data.min_pixels", "data.filter_overlong_prompts_workers", "algorithm.*", "worker.reward.*",
        "worker.hybrid_engine", "worker.rollout.disable_tqdm", "worker.rollout.val_override_config.*",
        "worker.actor.clip_*", "worker.actor.entropy_*", "worker.actor.max_grad_norm", "worker.actor.loss_*",
        "worker.actor.tau_*", "worker.actor.use_kl_loss", "worker.actor.kl_*", "worker.actor.optim.*",
        "worker.critic.*", "worker.ref.strategy", "*.fsdp.enable_full_shard", "*.fsdp.enable_rank0_init",
        "*.fsdp.use_orig_params", "*.fsdp.mp_reduce_dtype", "*.fsdp.mp_buffer_dtype", "*.fsdp.torch_dtype",
        "trainer.logger", "trainer.*_name", "trainer.max_try_make_batch", "trainer.critic_warmup", "trainer.val_*",
        "trainer.save_*", "trainer.load_checkpoint_path", "trainer.find_last_checkpoint", "trainer.ray_timeline",
        "trainer.remove_*",
    )  # fmt: skip
    derivations = (_placement, _engine, _seeds, _batch, _trainer, _environment, _dashed)

    def collected(self, launch: Launch) -> Iterator[Native]:
        """OmegaConf reads its overrides (main.py, from_cli)."""
        yield from map(by_yaml, super().collected(launch))

    def ships(self, config: str) -> bool:
        """The file that its example launches build upon, with the values of the release."""
        return f"/{config}".endswith(f"/{_EXAMPLE}")

    def main_group(self, launch: Launch) -> str:
        name = launch.arguments(overrides=True, flags=self._flags).value("config")
        absent = isinstance(name, str) and self.ships(name) and launch.files.find(name) is None
        return f"easyr1:{_EXAMPLE}" if absent else self.owner


DIALECT = EasyR1()
