"""Plain vLLM: ``vllm serve``, its module entry points, and ``LLM(...)`` or engine arguments in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from rldoctor.formats.native import Native
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.rule import Boolean, Rule
from rldoctor.frameworks.vllm.seeds import derive_own
from rldoctor.plan.model import Form
from rldoctor.plan.vocabulary import terms

# Short and former names (vllm/engine/arg_utils.py, EngineArgs.add_cli_args).
_ALIASES = {
    "tp": "engine.tensor_parallel_size",
    "pp": "engine.pipeline_parallel_size",
    "dp": "engine.data_parallel_size",
    "ep": "engine.enable_expert_parallel",
    "q": "engine.quantization",
}
# The same as vLLM's other options, for what stands behind one dash.
_SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dpa": "data_parallel_address",
    "dpb": "data_parallel_backend",
    "dpe": "data_parallel_external_lb",
    "dph": "data_parallel_hybrid_lb",
    "dpl": "data_parallel_size_local",
    "dpm": "data_parallel_multi_port_external_lb",
    "dpn": "data_parallel_rank",
    "dpp": "data_parallel_rpc_port",
    "dpr": "data_parallel_start_rank",
    "dcp": "decode_context_parallel_size",
    "pcp": "prefill_context_parallel_size",
    "ep": "enable_expert_parallel",
    "asc": "api_server_count",
    "cc": "compilation_config",
    "ac": "attention_config",
    "sc": "speculative_config",
    "dc": "diffusion_config",
    "spec_draft_tp": "speculative_draft_tensor_parallel_size",
    "n": "nnodes",
    "r": "node_rank",
    "q": "quantization",
}
_SERVER = {
    "host": "placement.listen_host",
    "port": "placement.listen_port",
    "nnodes": "process.nnodes",
    "node_rank": "process.node_rank",
    "master_addr": "process.master_addr",
    "master_port": "process.master_port",
}

ENGINE = {name.removeprefix("engine."): name for name in terms() if name.startswith("engine.")}
"""vLLM's engine options, under vLLM's names: what other dialects put behind their prefix."""

SAMPLING = {
    "n": "sampling.n",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
    "min_p": "sampling.min_p",
    "repetition_penalty": "sampling.repetition_penalty",
    "presence_penalty": "sampling.presence_penalty",
    "frequency_penalty": "sampling.frequency_penalty",
    "max_tokens": "sampling.max_tokens",
    "min_tokens": "sampling.min_tokens",
    "stop": "sampling.stop",
    "stop_token_ids": "sampling.stop_token_ids",
    "include_stop_str_in_output": "sampling.include_stop",
    "ignore_eos": "sampling.ignore_eos",
    "skip_special_tokens": "sampling.skip_special_tokens",
    "detokenize": "sampling.detokenize",
    "logprobs": "sampling.logprobs",
    "prompt_logprobs": "sampling.prompt_logprobs",
    "seed": "sampling.seed",
}
"""The keywords of ``SamplingParams``."""


_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def _tokens(value: object) -> object:
    """A length as vLLM's parser takes it: ``8k`` is 8000, ``8K`` 8192 (human_readable_int), ``auto`` and -1 the
    engine's."""
    if isinstance(value, str) and value[-1:] in _FACTORS:
        factor = _FACTORS[value[-1]]
        return int(value[:-1]) * factor if factor & (factor - 1) == 0 else int(float(value[:-1]) * factor)
    return None if value in ("auto", "-1", -1) else value


def _seeds(draft: Draft) -> None:
    draft.derive("seed.engine", draft.value("engine.seed"), "the engine's seed", "engine.seed")
    if _serves(draft.launch):
        data = draft.value("engine.data_parallel_size", 1)
        draft.derive("placement.engines", data, "data_parallel_size", "engine.data_parallel_size")
        derive_own(draft, "engine.seed", "engine.data_parallel_size")


def _serves(launch: Launch) -> bool:
    """Whether an entry point listens, beside engines inside a script."""
    return _is_own(launch.entry)


def _is_own(entry: str) -> bool:
    """Whether a program or module is vLLM's, and no script that is called after it (``vllm_server/start.py``)."""
    program = entry.partition(" ")[0]
    return program == "vllm" or (program.startswith("vllm.") and not program.endswith(".py"))


# What gives a script vLLM's own options.
_PARSERS = re.compile(r"\badd_cli_args\b|\bmake_arg_parser\b|\bFlexibleArgumentParser\b")


class VLLM(Dialect):
    name, owner = "vLLM", "vllm"
    # Training frameworks import vLLM too, and are the better judges of their own scripts.
    specific = -20
    entries = (
        "vllm serve",
        "vllm.entrypoints.openai.api_server",
        "vllm.entrypoints.api_server",
        "vllm.entrypoints.cli.*",
    )
    imports = ("vllm",)
    dashes = True
    booleans = Boolean.PAIRED
    # arg_utils.py, get_kwargs
    units = frozenset(
        {
            "kv_cache_memory_bytes",
            "max_model_len",
            "max_num_batched_tokens",
            "max_num_queued_tokens",
            "max_num_scheduled_tokens",
            "safetensors_prefetch_block_size",
        }
    )
    automatic = frozenset({"max_model_len"})
    config_options = ("config",)
    calls: ClassVar[Mapping[str, str]] = {
        "LLM": "",
        "AsyncEngineArgs": "",
        "EngineArgs": "",
        "SamplingParams": "sampling.",
    }
    groups: ClassVar[Mapping[str, str]] = {
        "LLM": "vllm:LLM",
        "AsyncEngineArgs": "vllm:AsyncEngineArgs",
        "EngineArgs": "vllm:EngineArgs",
        "SamplingParams": "vllm:SamplingParams",
        "vllm[ .]*": "vllm:serve",
    }
    table: ClassVar[Mapping[str, str | Rule]] = {
        **ENGINE,
        **{key: Rule(f"engine.{key}", read=_tokens, write=int) for key in ("max_model_len", "max_num_batched_tokens")},
        **_SERVER,
        **{alias: Rule(option, spelled=False) for alias, option in _ALIASES.items()},
        **{f"sampling.{key}": option for key, option in SAMPLING.items()},
    }
    beside = (
        "api_key", "ssl_*", "uvicorn_*", "allow*", "cors_*", "root_path", "middleware", "response_role", "log_*",
        "disable_log_*",
        "enable_auto_tool_choice", "tool_call_parser", "tool_parser_plugin", "reasoning_parser*", "enable_reasoning",
        "lora_modules", "return_tokens_as_token_ids", "disable_fastapi_docs", "disable_uvicorn_access_log",
        "max_log_len",
        "chat_template_content_format", "enable_request_id_headers", "enable_server_load_tracking", "otlp_*",
        "download_dir",
        "tokenizer_mode", "config_format", "ignore_patterns", "logits_processors", "media_io_kwargs", "model_impl",
        "model_loader_extra_config", "ec_transfer_config", "num_redundant_experts", "enable_prompt_embeds",
        "enable_mm_embeds", "quantization_config", "kv_events_config", "additional_config", "code_revision",
        "tokenizer_revision", "hf_config_path", "ir_op_priority", "numa_bind", "watermark_config", "allowed_*",
        "enable_return_routed_experts", "qlora_adapter_name_or_path", "pooler_config", "convert", "optimization_level",
        "show_hidden_metrics_for_version", "collect_detailed_traces", "sampling.*",
    )  # fmt: skip
    derivations = (_seeds,)

    def role(self, launch: Launch) -> str:
        """``server`` for an entry point that listens, ``engine`` for one inside a script."""
        return "server" if _serves(launch) else "engine"

    def natives(self, launch: Launch) -> Iterator[Native]:
        """The options, and the model that stands without one (``vllm serve MODEL``, ``LLM("model")``)."""
        if launch.python is not None:
            for name in ("LLM", "AsyncEngineArgs", "EngineArgs"):
                for call in launch.python.calls(name):
                    if call.positionals and "model" not in call.keywords:
                        yield _model(call.positionals[0], launch.python.source.file, call.line, Form.KEYWORD, name)
        words = launch.arguments(flags=self._flags).positionals
        if launch.entry == "vllm serve" and words:
            yield _model(words[0].value, launch.file, words[0].line, None, launch.entry)
        yield from (_long(native) for native in super().natives(launch))

    def option_group(self, launch: Launch, native: Native) -> str | None:
        """None for the options of a script that has a parser of its own."""
        python = launch.python
        own = native.form is Form.OPTION and python is not None and not _is_own(launch.entry)
        if own and python is not None and not _PARSERS.search(python.source.text):
            return None
        return super().option_group(launch, native)

    def check_known(self, draft: Draft, native: Native) -> None:
        """A short name is looked up as it is spelled: some came later than their long one. ``-O`` and what follows it
        are FlexibleArgumentParser's (vllm/utils), in every release since 0.6.5."""
        if not _is_short(native):
            super().check_known(draft, native)
        elif not native.spelled.startswith("-O"):
            before = len(draft.unknown)
            super().check_known(draft, replace(native, key=re.split(r"[.=]", native.spelled)[0]))
            if len(draft.unknown) > before and native.key in self.table:
                draft.unknown[-1] = replace(draft.unknown[-1], nearest=(native.key,))


def _is_short(native: Native) -> bool:
    return native.form is Form.OPTION and native.spelled[:1] == "-" and native.spelled[:2] != "--"


def _long(native: Native) -> Native:
    """A native setting under its long name: ``-tp``, ``-cc.mode``; ``-O3`` is a level, ``-O.mode`` a part of the
    compilation config."""
    if not _is_short(native):
        return native
    head, dot, rest = native.key.partition(".")
    if head[:1] == "O":
        composite = dot or isinstance(native.value, dict) or str(native.value).lstrip()[:1] == "{"
        return replace(native, key=("compilation_config" if composite else "optimization_level") + dot + rest)
    return replace(native, key=_SHORT.get(head, head) + dot + rest)


def _model(value: object, file: str, line: int, form: Form | None, group: str) -> Native:
    # Without a name there is nothing to rewrite in place: the form stays that of a place, not of a setting.
    return Native(
        key="model", value=value, file=file, line=line, form=form or Form.OPTION, spelled="--model", group=group
    )


DIALECT = VLLM()
