"""unsloth: ``FastLanguageModel.from_pretrained(fast_inference=True)`` builds the engine, TRL's GRPOTrainer trains."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import within
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.trl.dialect import TRL, algorithm
from rldoctor.frameworks.trl.engine import start, without
from rldoctor.frameworks.trl.table import BESIDE, TABLE
from rldoctor.frameworks.trl.trainer import adapters, batch, rewards, sampling, strategy
from rldoctor.frameworks.vllm.dialect import SAMPLING
from rldoctor.plan.model import Setting, Source

_LOADERS = ("FastLanguageModel", "FastVisionModel", "FastModel")
# What its patched GRPOConfig takes where TRL's own default differs (unsloth/models/rl.py, "Edit GA / bsz").
_CHANGED = {
    "batch.per_device": 4,
    "batch.per_device_eval": 4,
    "batch.accumulation": 2,
    "batch.generations": 8,
    "seed.trainer": 3407,
    "trainer.optimizer": "adamw_8bit",
}
# Sizes that vLLM accepts as max_lora_rank (unsloth_zoo/vllm_utils.py, determine_max_lora_rank).
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)

_LOADED: dict[str, str | Rule] = {
    "model.model_name": "model.path",
    "model.max_seq_length": "engine.max_model_len",
    "model.fast_inference": "rollout.enabled",
    "model.gpu_memory_utilization": "engine.gpu_memory_utilization",
    "model.max_lora_rank": "engine.max_lora_rank",
    "model.float8_kv_cache": Rule(
        "engine.kv_cache_dtype", read=lambda value: "fp8" if value else "auto", write=lambda value: value == "fp8"
    ),
    "model.enforce_eager": "engine.enforce_eager",
    "model.enable_prefix_caching": "engine.enable_prefix_caching",
    "model.load_in_4bit": Rule("model.quantization", read=lambda value: "4bit" if value else None),
    "model.load_in_8bit": Rule("model.quantization", read=lambda value: "8bit" if value else None),
    "model.load_in_fp8": Rule("model.quantization", read=lambda value: "fp8" if value else None),
    "model.dtype": "model.dtype",
    "model.torch_dtype": Rule("model.dtype", spelled=False),
    "model.trust_remote_code": "model.trust_remote_code",
    "model.full_finetuning": "trainer.full",
    "model.attn_implementation": "model.attention",
    **{f"request.{key}": SAMPLING[key] for key in ("stop", "stop_token_ids")},
}


def _release(draft: Draft, low: str, high: str | None = None) -> bool:
    return within(draft.launch.version_of("unsloth"), low, high)


def _zoo(draft: Draft, low: str, high: str | None = None) -> bool:
    version = (
        draft.launch.version_of("unsloth_zoo")
        or draft.launch.version_of("unsloth-zoo")
        or draft.launch.version_of("unsloth")
    )
    return within(version, low, high)


def _adapters(draft: Draft) -> None:
    python = draft.launch.python
    if python is not None and python.has_call("get_peft_model"):
        draft.derive("lora.enabled", True, "get_peft_model")
        # models/rl.py: generate(..., lora_request=self.model.load_lora(...))
        draft.derive("lora.merged", False, "unsloth sends adapters with the requests")
        # models/llama.py: use_gradient_checkpointing="unsloth", whatever the trainer's arguments say
        draft.override("trainer.gradient_checkpointing", True, "get_peft_model")
    elif draft.value("trainer.full"):
        draft.derive("lora.enabled", False, "full_finetuning", "trainer.full")


def _placement(draft: Draft) -> None:
    """One engine in the training process, where ``fast_inference`` is asked for."""
    without(draft, "placement.server_")
    without(draft, "sync.")
    draft.derive("lengths.model", draft.value("engine.max_model_len"), "max_seq_length", "engine.max_model_len")
    if draft.is_open("rollout.enabled"):
        draft.derive("rollout.enabled", False, "fast_inference is not set")
    if draft.value("rollout.enabled"):
        draft.override("placement.mode", "colocate", "fast_inference", "rollout.enabled")
        draft.derive("rollout.backend", "vllm", "fast_inference", "rollout.enabled")
        return
    if draft.value("rollout.enabled") is False:
        draft.override("placement.mode", "none", "fast_inference is off", "rollout.enabled")
        draft.derive("rollout.backend", "hf", "fast_inference is off", "rollout.enabled")
    for name in [name for name in draft.settings if name.startswith("engine.")]:
        del draft.settings[name]


def _engine(draft: Draft) -> None:
    """The engine's arguments: load_vllm in unsloth_zoo/vllm_utils.py (2025.6.8 line 1267, 2025.9.12 line 1611)."""
    if draft.value("placement.mode") != "colocate":
        return
    total = draft.value("process.total")
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("engine.tensor_parallel_size", 1, "one device")
    draft.derive("placement.engines", total, "one in each process", "process.total")
    draft.derive("placement.engine_gpus", total, "one in each process", "process.total")
    # random_state is not handed on, load_vllm's own default is; _setup_vllm_external_launcher adds the rank
    draft.derive("seed.engine", 0, "fixed in unsloth_zoo")
    if total != 1 and _zoo(draft, "2026.10.9"):
        how = "0 + torchrun's rank"
        draft.derive("engine.distributed_executor_backend", "external_launcher", "fixed in unsloth_zoo")
        draft.derive("engine.seed", Unresolved(how, "every replica has its own"), how)
        draft.derive("seed.per_replica", "replica", how)
    else:
        draft.derive("engine.seed", 0, "fixed in unsloth_zoo")
        draft.derive("seed.per_replica", "same", "fixed in unsloth_zoo")
    if draft.value("model.quantization") == "4bit":
        for name in ("quantization", "load_format"):
            draft.derive(f"engine.{name}", "bitsandbytes", "load_in_4bit", "model.quantization")
    rank = draft.value("engine.max_lora_rank")
    rounded = next((size for size in _LORA_RANKS if rank and size >= rank), rank)
    if rounded != rank:
        draft.note(f"unsloth raises max_lora_rank from {rank} to {rounded}, which vLLM accepts")
        draft.put(
            "engine.max_lora_rank", replace(draft.settings["engine.max_lora_rank"], value=rounded, how="rounded up")
        )
    draft.derive("engine.enable_lora", True, "fixed in unsloth_zoo")
    draft.derive("engine.max_loras", 1, "fixed in unsloth_zoo")
    draft.derive("engine.enable_prefix_caching", True, "fixed in unsloth_zoo")
    draft.derive("engine.max_logprobs", 0, "fixed in unsloth_zoo")
    draft.derive("engine.max_num_seqs", Unresolved("", "chosen by the free memory"), "unsloth_zoo")
    context = draft.value("engine.max_model_len")
    if _zoo(draft, "2025.9.7"):
        draft.derive("engine.enable_chunked_prefill", True, "fixed in unsloth_zoo")
        draft.derive("engine.max_num_batched_tokens", Unresolved("", "chosen by the free memory"), "unsloth_zoo")
    elif _zoo(draft, "2025.2"):
        draft.derive("engine.max_num_batched_tokens", context, "max_seq_length", "engine.max_model_len")
    _standby(draft)


def _standby(draft: Draft) -> None:
    asleep = draft.launch.variable("UNSLOTH_VLLM_STANDBY")
    if isinstance(asleep, Unresolved) or not _release(draft, "2025.6"):
        return
    enabled = asleep not in (None, "0")
    how = "UNSLOTH_VLLM_STANDBY"
    draft.derive("engine.enable_sleep_mode", enabled, how, f"env.{how}")
    draft.derive("sleep.enabled", enabled, how, f"env.{how}")
    level = draft.launch.variable("VLLM_SLEEP_MODE") or "1"
    draft.derive(
        "sleep.level", int(level) if enabled and str(level).isdecimal() else 0, "VLLM_SLEEP_MODE, else 1", f"env.{how}"
    )
    if enabled and draft.launch.variable("UNSLOTH_VLLM_STANDBY_UTIL_OVERRIDE") in (None, "0"):
        why = "standby sets it by the size of the device"
        # What the file says of it counts for nothing, so nobody could be asked for another value.
        draft.put("engine.gpu_memory_utilization", Setting(unknown=why, source=Source.DERIVED, how=why))


def _divisible(draft: Draft) -> None:
    """unsloth raises the batch size in place of failing (models/rl.py; the whole step counts from 2025.11.6)."""
    each, n = draft.value("batch.per_device"), draft.value("batch.generations")
    if not each or not n or not draft.is_open("batch.generation") or not draft.is_open("batch.steps_per_generation"):
        return
    factor = 1
    if _release(draft, "2025.11.6"):
        factor = (draft.value("batch.accumulation") or 1) * (draft.value("process.total") or 1)
    elif not _release(draft, "2025.5"):
        return
    if each * factor % n:
        given = draft.settings["batch.per_device"]
        draft.note(
            f"unsloth changes per_device_train_batch_size from {each} to num_generations {n}", given.file, given.line
        )
        draft.put(
            "batch.per_device", replace(given, value=n, source=Source.DERIVED, how="unsloth makes it num_generations")
        )


class Unsloth(TRL):
    name, owner = "unsloth", "unsloth"
    specific = 20
    entries: ClassVar[tuple[str, ...]] = ()
    calls: ClassVar[Mapping[str, str]] = {
        **TRL.calls,
        **{f"{name}.from_pretrained": "model." for name in _LOADERS},
        **{f"{name}.get_peft_model": "peft." for name in _LOADERS},
    }
    table: ClassVar[Mapping[str, str | Rule]] = {
        **{
            key: row
            for key, row in TABLE.items()
            if key not in ("use_vllm", "vllm_max_model_length", "vllm_max_model_len")
        },
        **_LOADED,
    }
    beside: ClassVar[tuple[str, ...]] = (
        *BESIDE,
        "model.*",
        "request.*",
        "use_vllm",
        "unsloth_*",
        "vllm_sampling_params",
        "max_seq_length",
    )
    derivations = (
        algorithm, start, _placement, _engine, _divisible, _adapters, batch, sampling, strategy, adapters, rewards,
    )  # fmt: skip

    def claims(self, launch: Launch) -> int:
        """A script that imports it and samples with TRL's trainers."""
        python = launch.python
        return super().claims(launch) if python is not None and python.imports_from("unsloth") else 0

    def main_group(self, launch: Launch) -> str:
        """The config's; what unsloth adds to it is listed nowhere."""
        return super().main_group(launch) if launch.python is None else "trl:GRPOConfig"

    def check_known(self, draft: Draft, native: Native) -> None:
        """Nothing: it adds options to TRL's configs, and hands on what its loaders do not know."""

    def collected(self, launch: Launch) -> Iterator[Native]:
        """As in TRL; and the keywords of the ``SamplingParams`` that the config is given."""
        yield from super().collected(launch)
        python = launch.python
        for line in [] if python is None else _sampling_lines(python.tree):
            for name in ("SamplingParams", "vLLMSamplingParams"):
                found = {call.line: call for call in python.calls(name)} if python is not None else {}
                for keyword, value in found[line].keywords.items() if line in found else ():
                    yield _request(python, keyword, value, found[line].keywords.lines[keyword], name)

    def defaults(self, draft: Draft) -> None:
        """Its own in place of TRL's, and those of its loader."""
        version = draft.launch.version_of("unsloth") or ""
        for option, value in _CHANGED.items():
            draft.default(option, value, None, f"default of unsloth {version}".rstrip())
        if _release(draft, "2025.6"):
            draft.default("trainer.kl_coefficient", 0.001, "beta", f"default of unsloth {version}")
        if _release(draft, "2025.9"):
            draft.default("rollout.importance_correction", False, None, f"default of unsloth {version}")
        group = "unsloth:from_pretrained"
        options = draft.launch.options(group)
        for key, rule in self.rules().items():
            bare = key.removeprefix("model.")
            if bare != key and options is not None and bare in options and rule.option not in draft.settings:
                draft.default(
                    rule.option,
                    rule.canonical(draft.launch.default(group, bare)),
                    bare,
                    f"default of unsloth {version}".rstrip(),
                )
        super().defaults(draft)


def _request(python: Any, keyword: str, value: Any, line: int, group: str) -> Native:
    from rldoctor.plan.model import Form

    return Native(
        key=f"request.{keyword}",
        spelled=keyword,
        value=value,
        file=python.source.file,
        line=line,
        form=Form.KEYWORD,
        group=group,
    )


def _sampling_lines(tree: ast.Module) -> list[int]:
    """The lines of the calls that make what the config is given as ``vllm_sampling_params``."""
    given = [
        k.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Call)
        for k in n.keywords
        if k.arg == "vllm_sampling_params"
    ]
    names = {node.id for node in given if isinstance(node, ast.Name)}
    lines = [node.lineno for node in given if isinstance(node, ast.Call)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in node.targets):
            lines.append(node.value.lineno)
    return lines


DIALECT = Unsloth()
