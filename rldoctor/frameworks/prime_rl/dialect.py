"""prime-rl: ``rl @ FILE.toml --section.option value``; vLLM servers, an orchestrator and a trainer with own devices.

Read from 0.3.0 to 0.8.0: src/prime_rl/rl.py, then packages/prime-rl-configs/src/prime_rl/configs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from rldoctor.errors import InputError
from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import between
from rldoctor.frameworks.rule import Rule, chosen
from rldoctor.frameworks.shared_rules import Deciding, decided
from rldoctor.frameworks.spelled import Spelling
from rldoctor.model import Edit
from rldoctor.plan.model import RolloutPlan, Source

_ROLLOUT: dict[str, str | Rule] = {
    "orchestrator.batch_size": "batch.generation",
    "orchestrator.group_size": "batch.generations",
    "orchestrator.rollouts_per_example": Rule("batch.generations", spelled=False),
    "orchestrator.seq_len": "lengths.total",
    "orchestrator.train.sampling.max_completion_tokens": "lengths.response",
    "orchestrator.train.sampling.max_tokens": Rule("lengths.response", spelled=False),
    "orchestrator.sampling.max_tokens": Rule("lengths.response", spelled=False),
    "orchestrator.sampling.min_tokens": "sampling.min_tokens",
    "orchestrator.sampling.repetition_penalty": "sampling.repetition_penalty",
    "orchestrator.sampling.seed": "sampling.seed",
    "orchestrator.train.sampling.temperature": "sampling.temperature",
    "orchestrator.sampling.temperature": Rule("sampling.temperature", spelled=False),
    "orchestrator.max_off_policy_steps": "rollout.staleness",
    "orchestrator.max_inflight_episodes": "rollout.concurrency",
    "orchestrator.max_inflight_rollouts": Rule("rollout.concurrency", spelled=False),
    "orchestrator.max_concurrent": Rule("rollout.concurrency", spelled=False),
}
_ENGINE: dict[str, str | Rule] = {
    "inference.model.name": "engine.model",
    "inference.model.dtype": "engine.dtype",
    "inference.model.max_model_len": "engine.max_model_len",
    "inference.model.enforce_eager": "engine.enforce_eager",
    "inference.model.trust_remote_code": "engine.trust_remote_code",
    "inference.model.chat_template": "model.chat_template",
    "inference.parallel.tp": "engine.tensor_parallel_size",
    "inference.parallel.dp": "engine.data_parallel_size",
    "inference.gpu_memory_utilization": "engine.gpu_memory_utilization",
    "inference.enable_lora": "engine.enable_lora",
    "inference.max_loras": "engine.max_loras",
    "inference.max_cpu_loras": "engine.max_cpu_loras",
    "inference.max_lora_rank": "engine.max_lora_rank",
    "inference.enable_prefix_caching": "engine.enable_prefix_caching",
    "inference.enable_expert_parallel": "engine.enable_expert_parallel",
    "inference.all2all_backend": "engine.all2all_backend",
    "inference.enable_eplb": "engine.enable_eplb",
    "inference.seed": "engine.seed",
    "inference.server.port": "placement.server_port",
    "inference.vllm.*": "engine.*",
    "inference.vllm_extra.*": "engine.*",
}
_TRAINER: dict[str, str | Rule] = {
    "trainer.model.name": "model.path",
    "trainer.model.seq_len": decided("lengths.total"),
    "trainer.model.attn": "trainer.attention",
    "trainer.model.cp": "parallel.context",
    "trainer.model.ep": decided("parallel.expert"),
    "trainer.model.fsdp_cpu_offload": "trainer.offload_params",
    "trainer.model.optim_cpu_offload": "trainer.offload_optimizer",
    "trainer.model.optimization_dtype": "trainer.param_dtype",
    "trainer.model.lora.rank": decided("lora.rank"),
    "trainer.model.lora.alpha": decided("lora.alpha"),
    "trainer.model.lora.target_modules": decided("lora.target_modules"),
    "trainer.optim.type": decided("trainer.optimizer"),
    "trainer.dist_timeout_seconds": "trainer.timeout",
    "max_steps": "trainer.steps",
    "ckpt.interval": "trainer.save_every",
    "weight_broadcast.type": chosen("sync.backend", {"nccl": "nccl", "filesystem": "file"}),
    "weight_broadcast.port": "sync.port",
    "weight_broadcast.timeout": "sync.timeout",
    "deployment.gpus_per_node": decided("placement.gpus_per_node"),
    "deployment.num_train_gpus": decided("placement.trainer_gpus"),
    "deployment.num_infer_gpus": decided("placement.engine_gpus"),
    "deployment.num_train_nodes": decided("placement.trainer_gpus"),
    "deployment.num_infer_nodes": decided("placement.engine_nodes"),
    "trainer_gpu_ids": decided("placement.trainer_gpus"),
    "inference_gpu_ids": decided("placement.engine_gpus"),
    "model.name": decided("model.path"),
    "seq_len": decided("lengths.total"),
    "max_model_len": decided("engine.max_model_len"),
}
_LISTS = {"placement.trainer_gpus": "trainer_gpu_ids", "placement.engine_gpus": "inference_gpu_ids"}
_PARTS = ("trainer", "orchestrator", "inference")


def _shared(draft: Draft) -> None:
    """What stands at the top is for the parts that do not say otherwise (rl.py, auto_setup_*)."""
    for key, options in (
        ("model.name", ("model.path", "engine.model")),
        ("seq_len", ("lengths.total",)),
        ("max_model_len", ("engine.max_model_len",)),
    ):
        native = draft.natives.get(key)
        if native is None or native.value is None:
            continue
        for option in options:
            setting = draft.settings.get(option)
            if setting is None or setting.source == "default" or setting.value is None:
                draft.take(native, option, native.value)
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")


def _count(draft: Draft, *keys: str, default: bool = False) -> int | None:
    """A number, or how many are listed, under the first of the keys that is given, else as its default says."""
    given = [(key, value) for key in keys if (value := draft.native(key)) is not None]
    usual = ((key, draft.launch.default("prime-rl", key)) for key in keys) if default else ()
    for key, value in given or usual:
        if isinstance(value, list):
            return len(value)
        # On a command line a list is written with commas, and one device is a list too.
        if key.endswith("_ids") and re.fullmatch(r"\[?\s*\d+(?:\s*,\s*\d+)*\s*\]?", str(value)):
            return len(str(value).split(","))
        if isinstance(value, int | str) and str(value).isdecimal():
            return int(value)
    return None


def _starts_servers(draft: Draft) -> bool:
    """Whether it starts its servers itself, which takes the section, be it an empty one (``inference: ... | None``)."""
    return any(key.partition(".")[0] == "inference" for key in draft.natives)


def _placement(draft: Draft) -> None:
    draft.override("process.launcher", "prime-rl", "rl starts servers, orchestrator and torchrun itself")
    draft.derive("placement.mode", "async", "devices of their own, training overlaps with sampling")
    draft.derive("rollout.async", True, "training overlaps with sampling")
    each = draft.count("deployment.gpus_per_node", 8)
    nodes, engines = _count(draft, "deployment.num_train_nodes"), _count(draft, "deployment.num_infer_nodes")
    if each is None or (nodes is None and draft.native("deployment.type") == "multi_node"):
        return
    started = _starts_servers(draft)
    if nodes is None:
        trains = _count(draft, "deployment.num_train_gpus", "trainer_gpu_ids", default=True)
        samples = _count(draft, "deployment.num_infer_gpus", "inference_gpu_ids", default=started)
    else:  # rl.py, MultiNodeDeploymentConfig: infer nodes are those of one replica
        draft.derive("placement.gpus_per_node", each, "deployment.gpus_per_node")
        engines = None if engines is None else engines * (_count(draft, "deployment.num_infer_replicas") or 1)
        trains, samples = nodes * each, None if engines is None else engines * each
        if engines is not None:
            how = f"{nodes} nodes of the trainer and {engines} of the servers"
            draft.derive("placement.nodes", nodes + engines, how)
    draft.derive("placement.trainer_gpus", trains, "devices of the trainer")
    draft.derive("placement.engine_gpus", samples, "devices of the servers")
    size = draft.value("engine.tensor_parallel_size") or 1
    if samples and size and samples % size == 0:
        if nodes is None and started:  # auto_setup_deployment, whatever the file says
            how = f"{samples} devices of the servers / {size}"
            draft.override("engine.data_parallel_size", samples // size, how)
        draft.derive("placement.engines", samples // size, f"{samples} devices / {size}", "engine.tensor_parallel_size")


def _batching(draft: Draft) -> None:
    """resolve_batching (configs/orchestrator.py) fills in from 0.5.0 on what is null by default."""
    if not between(draft, "prime-rl", "0.5") or draft.native("orchestrator.token_batch_size") is not None:
        return
    draft.derive("batch.generation", 128, "neither samples nor tokens of a batch are given")
    rows, factor = draft.value("batch.generation"), draft.native("orchestrator.oversampling_factor")
    if not isinstance(rows, int) or not isinstance(factor, int | float | None):
        return
    running = rows if factor is None else int(rows * factor)
    if between(draft, "prime-rl", "0.6"):
        running = max(running, draft.value("batch.generations") or 1)
    draft.derive("rollout.concurrency", running, "samples of a batch x oversampling_factor", "batch.generation")


def _rollout(draft: Draft) -> None:
    draft.derive("rollout.backend", "vllm", "the only engine of prime-rl")
    scheduled = any(key.startswith("orchestrator.sampling.temp_scheduler") for key in draft.natives)
    if between(draft, "prime-rl", "0.4", "0.6") and not scheduled and draft.value("sampling.temperature") is None:
        # validate_temperature_config, for a default of null
        draft.derive("sampling.temperature", 1.0, "neither a temperature nor a schedule of it is given")
    draft.derive("rollout.async_engine", True, "the engines are servers")
    draft.override("engine.logprobs_mode", "processed_logprobs", "set by prime-rl (configs/inference.py)")
    draft.derive("sampling.max_tokens", draft.value("lengths.response"), "the longest response", "lengths.response")
    rows, n = draft.value("batch.generation"), draft.value("batch.generations")
    if rows and n and rows % n == 0:
        draft.derive("batch.prompts", rows // n, f"{rows} samples / {n}", "batch.generation", "batch.generations")
    draft.derive("batch.per_request", 1, "every sample is a request of its own")


def _seeds(draft: Draft) -> None:
    """configs/inference.py: ``--seed`` of every server. A group has one client: a server, whose data parallel rank vLLM
    chooses (env_worker.py through 0.4.0), or one of its data parallel ranks (scheduler.py of 0.5.0, dispatcher.py of
    0.6.0 to 0.8.0)."""
    seed = draft.value("engine.seed")
    if not between(draft, "prime-rl", "0.3") or seed is None:
        return
    draft.derive("seed.engine", seed, "inference.seed", "engine.seed")
    draft.derive("seed.per_replica", "same", "every server gets inference.seed", "engine.seed")
    how = "orchestrator.sampling.seed"
    draft.derive("seed.per_request", "none" if draft.value("sampling.seed") is None else "same", how, "sampling.seed")
    if between(draft, "prime-rl", "0.3", "0.5") and (draft.value("engine.data_parallel_size") or 1) > 1:
        draft.derive("rollout.spread", "load", "vLLM chooses the data parallel rank")
    elif between(draft, "prime-rl", "0.3", "0.8.1"):
        draft.derive("rollout.spread", "prompt", "all samples of a group have one client")


def _trainer(draft: Draft) -> None:
    draft.derive("trainer.strategy", "fsdp2", "prime-rl trains with FSDP2")
    given = isinstance(draft.native("trainer.model.lora"), dict) or any(
        key.startswith("trainer.model.lora.") for key in draft.natives
    )
    draft.derive("lora.enabled", given, "trainer.model.lora")
    if given:
        draft.derive("lora.rank", _count(draft, "trainer.model.lora.rank") or 16, "trainer.model.lora.rank")
        if _starts_servers(draft):  # auto_setup_lora, whatever the section says
            draft.override("engine.enable_lora", True, "trainer.model.lora")
            draft.override("engine.max_lora_rank", draft.value("lora.rank"), "trainer.model.lora.rank", "lora.rank")
    kind = draft.native("trainer.optim.type")
    draft.derive("trainer.optimizer", kind if isinstance(kind, str) else None, "trainer.optim.type")


class PrimeRL(Deciding):
    name, owner = "prime-rl", "prime-rl"
    entries = ("prime_rl.entrypoints.rl", "prime_rl.rl", "*prime_rl/rl.py", "*prime_rl/entrypoints/rl.py")
    keys = (
        "orchestrator.batch_size", "orchestrator.group_size", "orchestrator.rollouts_per_example", "orchestrator.train",
        "orchestrator.env", "deployment.num_infer_gpus", "deployment.num_infer_nodes",
    )  # fmt: skip
    dashes = True
    table: ClassVar[Mapping[str, str | Rule]] = {**_ROLLOUT, **_ENGINE, **_TRAINER}
    beside = (
        "*ckpt*", "*log*", "*wandb*", "*monitors*", "output_dir", "clean*", "bench", "dump_config", "orchestrator.*",
        "trainer.*", "inference.*", "slurm*", "tmux*", "model.*", "weight_broadcast*", "rollout_transport*", "dry_run",
        "max_async_level", "deployment.*", "teacher*", "experimental*", "matmul_precision", "env_vars*", "sft*",
        "*_server*", "trainer", "orchestrator", "inference", "collect*", "heartbeat*", "run_*", "async_*",
    )  # fmt: skip
    derivations = (_shared, _placement, _batching, _rollout, _seeds, _trainer)

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """Releases that take lists of devices (``trainer_gpu_ids``) take no numbers of them."""
        key = _LISTS.get(edit.option)
        given = next((one for one in plan.given if one.key == key), None)
        if key is None or given is None:
            return super().spell(edit, plan)
        return Spelling(
            text=f"{key}: a list of {edit.value}",
            file=given.file,
            line=given.line,
            reason="which devices is for you to say",
        )

    def defaults(self, draft: Draft) -> None:
        """Those of the servers where it starts them."""
        super().defaults(draft)
        if not _starts_servers(draft):
            for option, setting in list(draft.settings.items()):
                if setting.source is Source.DEFAULT and (setting.key or "").startswith("inference."):
                    del draft.settings[option]

    def engine_defaults(self, draft: Draft) -> None:
        """vLLM's own, for servers that it starts."""
        if _starts_servers(draft):
            super().engine_defaults(draft)

    def claims(self, launch: Launch) -> int:
        """Its modules and sections; its console program has a common name, and reads ``@ FILE``."""
        named = launch.entry.rpartition("/")[2] == "rl" and any(word.text.startswith("@") for word in launch.words)
        return 100 if named else super().claims(launch)

    def collected(self, launch: Launch) -> Iterator[Native]:
        """The files that ``@`` names, for all or for one part, then the options."""
        if launch.tree is not None:
            yield from (self._as_option(native) for native in launch.tree.natives())
        arguments = launch.arguments(flags=self._flags)
        words = [word.value for word in arguments.positionals]
        for position, word in enumerate(words):
            if isinstance(word, str) and word.startswith("@"):
                name = word[1:] or (words[position + 1] if position + 1 < len(words) else "")
                yield from self._file(launch, name, "")
        for native in arguments.natives:
            value = native.value
            first = value[0] if isinstance(value, list) and value else value
            if isinstance(first, str) and first.startswith("@") and native.key in _PARTS:
                name = first[1:] or (value[1] if isinstance(value, list) and len(value) > 1 else "")
                yield from self._file(launch, name, f"{native.key}.")
            else:
                yield native

    def _file(self, launch: Launch, name: str | Unresolved, prefix: str) -> Iterator[Native]:
        from rldoctor.formats.toml.reader import read_toml

        if isinstance(name, Unresolved):
            launch.miss(f"{name.raw} names a file that is not known ({name.why})")
            return
        try:
            source = launch.files.open(name)
            tree = read_toml(source) if source is not None else None
        except InputError as error:
            launch.miss(str(error))
            return
        if tree is None:
            launch.miss(f"{name}: named here, not found")
            return
        for native in tree.natives():
            yield self._as_option(replace(native, key=f"{prefix}{native.key}"))


DIALECT: Dialect = PrimeRL()
