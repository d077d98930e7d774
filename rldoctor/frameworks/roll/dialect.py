"""ROLL: a pipeline's script with ``--config_path`` and ``--config_name``, one section for each role.

Read from 0.1.0 to 0.3.0: roll/configs, roll/pipeline/rlvr/rlvr_config.py, roll/distributed/strategy."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.groups import placement_group
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import between
from rldoctor.frameworks.rule import Rule, chosen, inverted
from rldoctor.frameworks.shared_rules import Deciding, decided
from rldoctor.frameworks.spelled import Spelling
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan

_TRAIN, _INFER, _REF, _CRITIC = "actor_train", "actor_infer", "reference", "critic"
_ENGINE, _TRAINER = f"{_INFER}.strategy_args", f"{_TRAIN}.strategy_args"
_PRECISIONS = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_STRATEGIES = {"megatron_train": "megatron", "fsdp2_train": "fsdp2", "deepspeed_train": "deepspeed"}
MAX_DEVICES = 100_000
_OWN_WORKER = re.compile(r"\bworker_cls\s*[:=]\s*[\"']?(?!roll\.)\w")

_COMMON: dict[str, str | Rule] = {
    f"{_ENGINE}.strategy_name": "rollout.backend",
    f"{_TRAINER}.strategy_name": chosen("trainer.strategy", _STRATEGIES),
    f"{_INFER}.device_mapping": decided("placement.engine_gpus"),
    f"{_TRAIN}.device_mapping": decided("placement.trainer_gpus"),
    "num_gpus_per_node": "placement.gpus_per_node",
    "pretrain": "model.path",
    "reward_pretrain": "model.critic_path",
    f"{_TRAIN}.model_args.dtype": chosen("trainer.dtype", _PRECISIONS),
    f"{_INFER}.model_args.dtype": chosen("engine.dtype", _PRECISIONS),
    f"{_TRAIN}.model_args.disable_gradient_checkpointing": inverted("trainer.gradient_checkpointing"),
    f"{_TRAIN}.model_args.attn_implementation": "trainer.attention",
    f"{_TRAIN}.model_args.ulysses_size": "parallel.sequence",
    f"{_TRAIN}.model_args.lora_target": "lora.target_modules",
    f"{_TRAIN}.model_args.lora_rank": decided("lora.rank"),
    f"{_TRAIN}.training_args.per_device_train_batch_size": "batch.per_device",
    f"{_TRAIN}.training_args.gradient_accumulation_steps": "batch.accumulation",
    f"{_TRAIN}.infer_batch_size": "batch.logprob_per_device",
    f"{_TRAIN}.use_dynamic_batching_in_train": "batch.dynamic",
    f"{_TRAIN}.max_tokens_per_microbatch_in_train": decided("batch.tokens_per_device"),
    f"{_TRAIN}.use_sequence_packing": "batch.packing",
    f"{_TRAINER}.strategy_config.tensor_model_parallel_size": "parallel.tensor",
    f"{_TRAINER}.strategy_config.pipeline_model_parallel_size": "parallel.pipeline",
    f"{_TRAINER}.strategy_config.context_parallel_size": "parallel.context",
    f"{_TRAINER}.strategy_config.expert_model_parallel_size": "parallel.expert",
    f"{_TRAINER}.strategy_config.sequence_parallel": "parallel.megatron_sequence",
    f"{_TRAINER}.strategy_config.offload_policy": decided("trainer.offload_params"),
    f"{_INFER}.generating_args.max_new_tokens": decided("sampling.max_tokens"),
    f"{_INFER}.generating_args.temperature": "sampling.temperature",
    f"{_INFER}.generating_args.top_p": "sampling.top_p",
    f"{_INFER}.generating_args.top_k": "sampling.top_k",
    f"{_INFER}.generating_args.repetition_penalty": "sampling.repetition_penalty",
    f"{_INFER}.generating_args.stop_strings": "sampling.stop",
    "rollout_batch_size": "batch.prompts",
    "val_batch_size": "batch.validation",
    "num_return_sequences_in_group": "batch.generations",
    "is_num_return_sequences_expand": decided("batch.per_request"),
    "async_generation_ratio": "rollout.staleness",
    "max_running_requests": "rollout.concurrency",
    "prompt_length": "lengths.prompt",
    "response_length": "lengths.response",
    "sequence_length": "lengths.total",
    "seed": "seed.trainer",
    "adv_estimator": "trainer.algorithm",
    "init_kl_coef": decided("trainer.reference"),
    "use_kl_loss": decided("trainer.reference"),
    "kl_loss_coef": "trainer.kl_coefficient",
    "is_offload_states": "sleep.trainer",
    "max_steps": "trainer.steps",
    "save_steps": "trainer.save_every",
    "eval_steps": "trainer.eval_every",
    "model_update_buffer_size_mb": "sync.bucket_mb",
}
_VLLM: dict[str, str | Rule] = {
    f"{_ENGINE}.strategy_config.sleep_level": "sleep.level",
    f"{_ENGINE}.strategy_config.*": "engine.*",
}
_SGLANG: dict[str, str | Rule] = {
    f"{_ENGINE}.strategy_config.{name}": option
    for name, option in {
        "mem_fraction_static": "engine.gpu_memory_utilization",
        "context_length": "engine.max_model_len",
        "max_running_requests": "engine.max_num_seqs",
        "tensor_parallel_size": "engine.tensor_parallel_size",
        "pipeline_parallel_size": "engine.pipeline_parallel_size",
        "kv_cache_dtype": "engine.kv_cache_dtype",
        "disable_cuda_graph": "engine.enforce_eager",
        "load_format": "engine.load_format",
    }.items()
}
# Handed to the engine as it is: what SGLang calls otherwise, and what no plan speaks of.
_BESIDE_SGLANG = (f"{_ENGINE}.strategy_config.*",)


_MOST_DEVICES = 1 << 16


def devices(text: Any) -> list[int] | None:
    """The device numbers of a ``device_mapping``: a list, or Python text such as ``list(range(0,16))``, else None."""
    if isinstance(text, list):
        return text if all(isinstance(one, int) for one in text) else None
    if not isinstance(text, str) or len(text) > 2000:
        return None
    try:
        return _numbers(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _numbers(node: ast.expr) -> list[int]:
    """The numbers of lists, ranges and their sums. Raises ValueError for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_numbers(node.left), *_numbers(node.right)]
    if isinstance(node, ast.List):
        return [_whole(part) for part in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "list" and len(node.args) == 1:
            return _numbers(node.args[0])
        if node.func.id == "range" and 1 <= len(node.args) <= 3:
            numbers = range(*(_whole(part) for part in node.args))
            if len(numbers) <= _MOST_DEVICES:
                return list(numbers)
    raise ValueError("no device numbers")


def _whole(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= MAX_DEVICES:
        return node.value
    raise ValueError("no device number")


def _placement(draft: Draft) -> None:
    draft.override("process.launcher", "ray", "ROLL starts its workers with Ray")
    if between(draft, "roll", "0.1.3"):
        # base_config.py puts the driver's own count of devices in its place.
        draft.settings.pop("placement.gpus_per_node", None)
    engine, trainer = (devices(draft.native(f"{role}.device_mapping")) for role in (_INFER, _TRAIN))
    if trainer:
        draft.derive("placement.trainer_gpus", len(trainer), "actor_train.device_mapping")
        ranks = draft.ranks("parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.sequence")
        if ranks and len(trainer) % ranks == 0:
            draft.derive("parallel.data", len(trainer) // ranks, f"{len(trainer)} devices / {ranks}")
    if not engine:
        return
    draft.derive("placement.engine_gpus", len(engine), "actor_infer.device_mapping")
    each = draft.native(f"{_INFER}.num_gpus_per_worker")
    if draft.value("rollout.backend") == "sglang" and isinstance(each, int):
        # sglang_strategy.py: the devices of a worker, where strategy_config names no other number
        draft.derive("engine.tensor_parallel_size", each, "actor_infer.num_gpus_per_worker")
    size = draft.ranks("engine.tensor_parallel_size", "engine.pipeline_parallel_size")
    if size and len(engine) % size == 0:
        how = f"{len(engine)} devices / {size}"
        draft.derive("placement.engines", len(engine) // size, how, "engine.tensor_parallel_size")
    if trainer is None:
        return
    shared, late = set(engine) & set(trainer), draft.value("rollout.staleness")
    mode = "colocate" if shared else "async" if late else "separate"
    how = f"actor_train and actor_infer share {len(shared)} devices" if shared else "they share no device"
    draft.derive("placement.mode", mode, how)
    draft.derive("rollout.async", bool(late), f"async_generation_ratio {late}", "rollout.staleness")
    draft.derive("sleep.enabled", bool(shared), how)
    draft.derive("ray.gpus_needed", len({*engine, *trainer}), "devices of actor_train and actor_infer")
    _groups(draft)


def _groups(draft: Draft) -> None:
    """scheduler/resource_manager.py: for each node up to the last device that a role names a group of one bundle, with
    all devices of the node and half of its cores."""
    each = draft.value("placement.gpus_per_node")
    mapped = [devices(one.value) for key, one in draft.natives.items() if key.endswith(".device_mapping")]
    if not isinstance(each, int) or each < 1 or None in mapped:
        return
    last = max(number for numbers in mapped if numbers for number in numbers)
    groups = [placement_group("PACK", 1, gpus=each, cpus=0, count=last // each + 1)]
    draft.derive("ray.groups", groups, "a group for each node, with all its devices", "placement.gpus_per_node")


def _lengths(draft: Draft) -> None:
    """configs/base_config.py: sequence_length is response_length + prompt_length where it is not given."""
    prompt, response, total = (draft.value(f"lengths.{name}") for name in ("prompt", "response", "total"))
    given = "sequence_length" in draft.natives
    if given and total and prompt and not response and total > prompt and not _is_agentic(draft.launch):
        draft.override("lengths.response", total - prompt, "sequence_length - prompt_length", "lengths.total")
    elif prompt and response and not given:
        draft.override("lengths.total", prompt + response, "prompt_length + response_length", "lengths.response")
    most = draft.native(f"{_INFER}.generating_args.max_new_tokens")
    if isinstance(most, int):
        draft.derive("sampling.max_tokens", most, "generating_args.max_new_tokens")


def _engine(draft: Draft) -> None:
    """vllm_strategy.py: what it adds to strategy_config."""
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("rollout.async_engine", True, "the engine's asynchronous interface")
    seed = draft.value("seed.trainer")
    draft.derive("seed.engine", seed, "the pipeline's seed", "seed.trainer")
    if draft.value("rollout.backend") in ("vllm", "sglang") and seed is not None and between(draft, "roll", "0"):
        draft.derive("engine.seed", seed, "the pipeline's seed", "seed.trainer")
        draft.derive("seed.per_replica", "same", "every engine gets the pipeline's seed", "seed.trainer")
        draft.derive("seed.per_request", "none", "no seed in the requests")
    if draft.value("rollout.backend") != "vllm":
        return
    for option, value in (
        ("engine.trust_remote_code", True),
        ("engine.enable_sleep_mode", True),
        ("engine.enforce_eager", False),
        ("engine.disable_custom_all_reduce", True),
    ):
        draft.derive(option, value, "set by ROLL")
    draft.derive("sleep.level", 1, "set by ROLL")
    draft.derive("engine.load_format", "auto" if draft.value("lora.enabled") else "dummy", "set by ROLL")
    if between(draft, "roll", "0.1.1"):
        draft.derive("engine.enable_prefix_caching", True, "set by ROLL")
    if between(draft, "roll", "0.2"):
        draft.derive("engine.max_num_batched_tokens", 8192, "set by ROLL")
        draft.override("env.PYTORCH_CUDA_ALLOC_CONF", "", "emptied by ROLL before the engine starts")
    if draft.value("lora.enabled"):
        draft.derive("engine.enable_lora", True, "lora_target")
        draft.derive("engine.max_loras", 1, "one adapter")
        draft.derive("engine.max_lora_rank", draft.value("lora.rank"), "lora_rank")


def _spread(draft: Draft) -> None:
    """generate_scheduler.py sends each request to the worker with the fewest; router.py (0.2.1 on) keeps a prompt's on
    one worker, an environment's in agentic pipelines."""
    named = draft.native("router_args.router_name")
    if between(draft, "roll", "0", "0.2.1"):
        draft.derive("rollout.spread", "load", "each request goes to the worker with the fewest")
    elif between(draft, "roll", "0.2.1") and named in (None, "PromptAffinityRouter", "EnvAffinityRouter"):
        by_prompt = named == "PromptAffinityRouter" or (named is None and not _is_agentic(draft.launch))
        if by_prompt:
            draft.derive("rollout.spread", "prompt", "PromptAffinityRouter keeps a prompt's requests on one worker")
        else:
            draft.derive("rollout.spread", "load", "EnvAffinityRouter gives an environment the worker with the fewest")


def _adapters(draft: Draft) -> None:
    target = draft.value("lora.target_modules")
    draft.derive("lora.enabled", target is not None, f"lora_target {target}", "lora.target_modules")
    if target is not None:
        rank = draft.count(f"{_TRAIN}.model_args.lora_rank", 8)
        draft.derive("lora.rank", rank, "lora_rank", "lora.target_modules")


def _batch(draft: Draft) -> None:
    prompts, n = draft.value("batch.prompts"), draft.value("batch.generations")
    if _is_agentic(draft.launch):
        return  # its batch counts trajectories of environments
    if prompts and n:
        draft.derive("batch.generation", prompts * n, f"{prompts} prompts x {n}", "batch.prompts", "batch.generations")
    spread = draft.native("is_num_return_sequences_expand") is True or bool(draft.value("rollout.staleness"))
    draft.derive("batch.per_request", 1 if spread else n, "is_num_return_sequences_expand", "batch.generations")
    data, each, steps = (draft.value(o) for o in ("parallel.data", "batch.per_device", "batch.accumulation"))
    if data and each and steps:
        draft.derive("batch.train", data * each * steps, f"{data} ranks x {each} x {steps}", "batch.per_device")


def _trainer(draft: Draft) -> None:
    algorithm = draft.value("trainer.algorithm")
    draft.derive("trainer.critic", None if algorithm is None else algorithm == "gae", "adv_estimator")
    weight, loss = draft.native("init_kl_coef"), draft.native("use_kl_loss")
    keeps = loss is True or (isinstance(weight, int | float) and weight > 0)
    draft.derive("trainer.reference", True if keeps else None, "use_kl_loss, or init_kl_coef above 0")
    draft.derive("trainer.temperature", draft.value("sampling.temperature"), "as the engine", "sampling.temperature")


def _is_agentic(launch: Launch) -> bool:
    return "agentic" in launch.entry or (launch.tree is not None and launch.tree.has("train_env_manager"))


class Roll(Deciding):
    name, owner = "ROLL", "roll"
    entries = tuple(
        f"{folder}start_{name}pipeline.py"
        for folder in ("", "*/")
        for name in ("rlvr_", "rlvr_vl_", "rlvr_rollout_", "agentic_", "agentic_rollout_", "onpolicy_distill_")
    )
    keys = (f"{_INFER}.strategy_args", f"{_INFER}.device_mapping")
    imports = ("roll.pipeline.rlvr", "roll.pipeline.agentic")
    style = Form.OVERRIDE
    signs = False
    strict = frozenset()
    table: ClassVar[Mapping[str, str | Rule]] = {**_COMMON, **_VLLM}
    beside: ClassVar[tuple[str, ...]] = (
        "hydra*", "defaults", "exp_name", "*_dir", "system_envs*", "checkpoint_config*", "track*", "logging_steps",
        "resume_from_checkpoint", "ppo_epochs", "*clip*", "norm_*", "*mask*", "difficulty_*", "*_weight*", "*reward*",
        "*whiten*", "validation*", "rewards*", f"{_TRAIN}.*", f"{_INFER}.*", f"{_REF}*", f"{_CRITIC}*",
        "*_env_manager*", "custom_envs*", "*kl*", "entropy*", "max_grad_norm",
        "gamma", "lambd", "*advantage*", "query_filter*", "*_opd*",
        "student_*", "teacher*", "profiler_*", "model_download_type", "rpc_timeout", "rollout_mock*", "*loss*",
        "use_additional_prompts", "is_use_additional_prompts", "generate_opt_level", "max_additional_running_prompts",
        "*_schedul*", "*_probs", "val_*", "critic_warmup", "num_nodes", "batch_adjust_mode", "step_*", "episode_*",
        "enable_*", "save_logging*", "*segment*", "*importance*", "train_infer_*", "*old_logprobs*", "*_args",
        "add_token_level_kl", "logits_*", "max_ckpt_to_keep", "pg_variant", "reward_*", "router*", "length_*", "*tags*",
    )  # fmt: skip
    derivations = (_lengths, _placement, _adapters, _engine, _spread, _batch, _trainer)

    def registers(self, launch: Launch) -> bool:
        """A worker or a pipeline of one's own may take words of its own."""
        files = (tree.source.text for tree in (launch.tree, *launch.trees) if tree is not None)
        own = any(_OWN_WORKER.search(text) for text in (*files, *(word.text for word in launch.words)))
        return own or not any(fnmatchcase(launch.entry, entry) for entry in self.entries)

    def main_group(self, launch: Launch) -> str:
        return "roll:agentic" if _is_agentic(launch) else "roll:rlvr"

    def read(self, launch: Launch) -> RolloutPlan:
        """The plan, read with the words of the engine that samples."""
        return (_ON_SGLANG if self._samples_with(launch) == "sglang" else _ON_VLLM).read(launch)

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        return (_ON_SGLANG if plan.value("rollout.backend") == "sglang" else _ON_VLLM).spell(edit, plan)

    def _samples_with(self, launch: Launch) -> str | None:
        named: str | None = None
        for native in self.natives(launch):
            if native.key == _INFER and isinstance(native.value, dict):
                section = native.value.get("strategy_args")
                name = section.get("strategy_name") if isinstance(section, dict) else None
                named = name if isinstance(name, str) else named
        return named


class _OnVllm(Roll):
    read, spell = Dialect.read, Dialect.spell


class _OnSglang(Roll):
    table: ClassVar[Mapping[str, str | Rule]] = {**_COMMON, **_SGLANG}
    beside = (*Roll.beside, *_BESIDE_SGLANG)
    read, spell = Dialect.read, Dialect.spell


DIALECT = Roll()
_ON_VLLM, _ON_SGLANG = _OnVllm(), _OnSglang()
