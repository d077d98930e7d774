"""AReaL: a script with ``--config FILE.yaml`` and Hydra overrides over it; SGLang or vLLM samples.

Read from 0.4.0 to 1.0.4: areal/api/cli_args.py, areal/trainer/rl_trainer.py, areal/infra/launcher."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import ClassVar

from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.areal.allocation import Role, resized, role, roles
from rldoctor.frameworks.defaults import fill_defaults
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import between
from rldoctor.frameworks.rule import Rule, inverted
from rldoctor.frameworks.shared_rules import Deciding, decided
from rldoctor.frameworks.slips import misspelled
from rldoctor.frameworks.spelled import Spelling
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan, Setting, Source

_COMMON: dict[str, str | Rule] = {
    "rollout.backend": decided("rollout.backend"),
    "actor.backend": decided("trainer.strategy"),
    "allocation_mode": decided("rollout.backend"),
    "rollout.scheduling_strategy.type": decided("placement.mode"),
    "cluster.n_nodes": "placement.nodes",
    "cluster.n_gpus_per_node": "placement.gpus_per_node",
    "rollout.max_concurrent_rollouts": "rollout.concurrency",
    "rollout.max_head_offpolicyness": "rollout.staleness",
    "rollout.request_timeout": "placement.server_timeout",
    "gconfig.n_samples": "batch.generations",
    "gconfig.max_new_tokens": "lengths.response",
    "gconfig.min_new_tokens": "sampling.min_tokens",
    "gconfig.max_tokens": "lengths.total",
    "gconfig.temperature": "sampling.temperature",
    "gconfig.top_p": "sampling.top_p",
    "gconfig.top_k": Rule("sampling.top_k", read=lambda count: -1 if int(count) >= 10**8 else int(count)),
    "gconfig.seed": "sampling.seed",
    "gconfig.stop_token_ids": "sampling.stop_token_ids",
    "gconfig.stop": "sampling.stop",
    "gconfig.ignore_eos": "sampling.ignore_eos",
    "gconfig.frequency_penalty": "sampling.frequency_penalty",
    "train_dataset.batch_size": "batch.prompts",
    "train_dataset.max_length": "lengths.prompt",
    "valid_dataset.batch_size": "batch.validation",
    "seed": "seed.trainer",
    "tokenizer_path": "model.tokenizer",
    "actor.path": "model.path",
    "actor.dtype": "trainer.dtype",
    "actor.attn_impl": "trainer.attention",
    "actor.temperature": "trainer.temperature",
    "actor.gradient_checkpointing": "trainer.gradient_checkpointing",
    "actor.mb_spec.max_tokens_per_mb": "batch.tokens_per_device",
    "actor.optimizer.type": "trainer.optimizer",
    "actor.ppo_n_minibatches": decided("batch.train"),
    "actor.kl_ctl": "trainer.kl_coefficient",
    "actor.weight_update_mode": Rule(
        "sync.backend", read=lambda mode: {"xccl": "nccl", "disk": "file"}.get(mode, mode)
    ),
    "actor.fsdp.offload_params": "trainer.offload_params",
    "actor.use_lora": "lora.enabled",
    "actor.lora_rank": decided("lora.rank"),
    "actor.lora_alpha": decided("lora.alpha"),
    "actor.target_modules": decided("lora.target_modules"),
    "ref.path": "model.reference_path",
    "ref.fsdp.offload_params": "trainer.reference_offload",
    "critic.path": "model.critic_path",
    "total_train_epochs": "trainer.epochs",
    "total_train_steps": "trainer.steps",
    "evaluator.freq_steps": "trainer.eval_every",
    "saver.freq_steps": "trainer.save_every",
    "enable_offload": "sleep.trainer",
}
_SGLANG: dict[str, str | Rule] = {
    "sglang.context_length": "engine.max_model_len",
    "sglang.mem_fraction_static": "engine.gpu_memory_utilization",
    "sglang.max_running_requests": "engine.max_num_seqs",
    "sglang.dtype": "engine.dtype",
    "sglang.kv_cache_dtype": "engine.kv_cache_dtype",
    "sglang.random_seed": "seed.engine",
    "sglang.disable_cuda_graph": "engine.enforce_eager",
    "sglang.disable_radix_cache": inverted("engine.enable_prefix_caching"),
    "sglang.enable_lora": "engine.enable_lora",
    "sglang.max_lora_rank": "engine.max_lora_rank",
    "sglang.enable_memory_saver": "sleep.enabled",
}
_VLLM: dict[str, str | Rule] = {
    "vllm.seed": "seed.engine",
    "vllm.no_enable_chunked_prefill": inverted("engine.enable_chunked_prefill"),
    "vllm.no_enable_prefix_caching": inverted("engine.enable_prefix_caching"),
    **{
        f"vllm.{name}": f"engine.{name}"
        for name in (
            "max_model_len", "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "dtype", "block_size",
            "enforce_eager", "distributed_executor_backend", "disable_sliding_window", "cpu_offload_gb", "swap_space",
            "enable_sleep_mode", "enable_lora", "max_lora_rank", "max_loras", "skip_tokenizer_init",
            "worker_extension_cls",
        )
    },
}  # fmt: skip
_SECTIONS = {"sglang": _SGLANG, "vllm": _VLLM}
# The configurations that a script passes to load_expr_config where it adds no section of its own.
_OWN = frozenset({"PPOConfig", "GRPOConfig"})
_OTHER = frozenset({"SFTConfig", "RWConfig", "DPOConfig"})


def _allocation(draft: Draft) -> tuple[Role | None, Role | None]:
    """The engine's and the trainer's role: each section's own, before 1.0.3 one text for both."""
    engine, trainer = roles(draft.native("allocation_mode"))
    return role(draft.native("rollout.backend")) or engine, role(draft.native("actor.backend")) or trainer


def _cited(draft: Draft, *keys: str) -> str:
    """The key that says it, for people."""
    return next((key for key in keys if key in draft.natives), keys[0])


def _placement(draft: Draft) -> None:
    engine, trainer = _allocation(draft)
    draft.override("process.launcher", "areal", "AReaL starts its workers itself")
    if engine is not None:
        how = _cited(draft, "rollout.backend", "allocation_mode")
        draft.override("rollout.backend", engine.backend, how)
        draft.derive("placement.engines", engine.size("d"), how)
        draft.derive("engine.tensor_parallel_size", engine.size("t"), how)
        draft.derive("engine.pipeline_parallel_size", engine.size("p"), how)
        draft.derive("placement.engine_gpus", engine.devices, how)
    if trainer is not None:
        how = _cited(draft, "actor.backend", "allocation_mode")
        strategy = {"": "fsdp2", "fsdp": "fsdp2", "archon": "fsdp2"}.get(trainer.backend, trainer.backend)
        draft.override("trainer.strategy", strategy, how)
        draft.derive("placement.trainer_gpus", trainer.devices, how)
        for letter, option in (("t", "tensor"), ("p", "pipeline"), ("c", "context"), ("e", "expert"), ("d", "data")):
            draft.derive(f"parallel.{option}", trainer.size(letter), how)
    if draft.native("rollout.scheduling_strategy.type") == "colocation":
        draft.derive("placement.mode", "colocate", "rollout.scheduling_strategy.type: colocation")
    elif engine is not None:
        late = draft.value("rollout.staleness")
        overlaps = bool(late) if late is not None else None
        draft.derive("placement.mode", "async" if overlaps else "separate", "engines have devices of their own")
        draft.derive("rollout.async", overlaps, f"max_head_offpolicyness {late}", "rollout.staleness")


def _engine(draft: Draft) -> None:
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("sampling.max_tokens", draft.value("lengths.response"), "gconfig.max_new_tokens", "lengths.response")
    draft.derive("batch.per_request", 1, "every sample is a request of its own")
    draft.derive("rollout.async_engine", True, "the engines are servers")
    if draft.value("rollout.backend") == "vllm":
        draft.derive("engine.trust_remote_code", True, "fixed by AReaL")
    if draft.value("lora.enabled"):
        for option, key in (("rank", "lora_rank"), ("alpha", "lora_alpha"), ("target_modules", "target_modules")):
            value = draft.native(f"actor.{key}") or draft.launch.default("areal", f"actor.{key}")
            draft.derive(f"lora.{option}", None if isinstance(value, Unresolved) else value, f"actor.{key}")


def _seeds(draft: Draft) -> None:
    """launcher/{vllm,sglang}_server.py: the section's seed + the server's number. Without a launcher (0.5.2 on:
    utils/environ.py, is_single_controller) rollout_controller.py starts all servers with the same arguments, and gives
    each group of samples to the next worker and its server."""
    # vllm_remote.py, after 2.0.0: ``payload["seed"] = gconfig.seed`` in every request
    seeded = draft.value("sampling.seed") is not None
    draft.derive("seed.per_request", "same" if seeded else "none", "gconfig.seed", "sampling.seed")
    entry = draft.launch.entry
    launched = ".launcher." in entry
    if entry and not launched and between(draft, "areal", "0.5.2"):
        draft.derive("seed.per_replica", "same", "every server is started with the same arguments", "seed.engine")
        draft.derive("rollout.spread", "prompt", "rollout_controller.py gives a whole group to one worker")
    elif launched:
        draft.derive("rollout.spread", "turns", "each request goes to the next server (remote_inf_engine.py)")
        if not (entry.endswith("launcher.ray") and draft.value("rollout.backend") == "vllm"):
            # That one adds the server's number on its node once more.
            draft.derive("seed.per_replica", "replica", "the section's seed + number of the server", "seed.engine")


def _batch(draft: Draft) -> None:
    prompts, n = draft.value("batch.prompts"), draft.value("batch.generations")
    if prompts and n:
        draft.derive("batch.generation", prompts * n, f"{prompts} prompts x {n}", "batch.prompts", "batch.generations")


def _trainer(draft: Draft) -> None:
    draft.derive("trainer.critic", isinstance(draft.native("critic"), dict), "the critic's section")
    weight, given = draft.value("trainer.kl_coefficient"), isinstance(draft.native("ref"), dict)
    keeps = None if weight is None else weight > 0 and given
    draft.derive("trainer.reference", keeps, f"kl_ctl {weight}, with a section ref: {given}", "trainer.kl_coefficient")


class AReaL(Deciding):
    name, owner = "AReaL", "areal"
    entries = ("areal.launcher.*", "areal.infra.launcher.*")
    keys = ("rollout.max_head_offpolicyness", "rollout.max_concurrent_rollouts", "gconfig.n_samples")
    imports = ("areal",)
    style = Form.OVERRIDE
    # The YAML file is composed by itself: what it lacks needs the signs.
    append = "++"
    config_options = ("config",)
    table: ClassVar[Mapping[str, str | Rule]] = {**_COMMON, **_SGLANG, **_VLLM}
    beside = (
        "experiment_name", "trial_name", "cluster.*", "scheduler.*", "launcher.*", "saver.*", "recover.*",
        "evaluator.*", "checkpointer.*", "stats_logger.*", "perf_tracer.*", "memory_profiler.*", "train_dataset.*",
        "valid_dataset.*", "rollout.*", "eval_gconfig.*", "gconfig.*", "actor.*", "ref.*", "critic.*", "teacher.*",
        "sglang.*", "vllm.*", "eval_rollout.*", "dynamic_bs", "total_train_n_seqs", "async_training", "openai.*",
        "workflow", "eval_workflow", "reward_fn", "rollout", "actor", "ref", "critic", "log_dir", "defaults",
    )  # fmt: skip
    derivations = (_placement, _engine, _seeds, _batch, _trainer)

    def claims(self, launch: Launch) -> int:
        """Its launchers and sections, also of the file that a script not at hand is given; a script of its
        own is one of rollouts unless it loads another configuration."""
        loaded = _configurations(launch)
        return 0 if loaded and loaded <= _OTHER else super().claims(launch) or self._by_its_file(launch)

    def _by_its_file(self, launch: Launch) -> int:
        name = launch.arguments(overrides=True).value("config")
        if launch.python is not None or not isinstance(name, str) or launch.files.find(name) is None:
            return 0
        tree = launch.yaml(name)
        return 60 if tree is not None and any(map(tree.has, self.keys)) else 0

    def natives(self, launch: Launch) -> Iterator[Native]:
        """All settings but those of the engine that does not sample."""
        found = list(super().natives(launch))
        others = _SECTIONS.keys() - {_engine_of(found)}
        return (native for native in found if native.key.partition(".")[0] not in others)

    def check_known(self, draft: Draft, native: Native) -> None:
        """A script's own configuration class may have more sections, and more in those of the release: these are known
        where the release's class is loaded. Where the script is not at hand, a name of another release is told, and a
        slip of one of this."""
        section, dot, _ = native.key.partition(".")
        if _configurations(draft.launch) & _OWN:
            super().check_known(draft, native)
            return
        options = draft.launch.options(self.owner) if draft.launch.python is None and dot else None
        if options is not None and options.known(section) is True:
            found = len(draft.unknown)
            super().check_known(draft, native)
            draft.unknown[found:] = filter(misspelled, draft.unknown[found:])

    def defaults(self, draft: Draft) -> None:
        engine, _ = _allocation(draft)
        fill_defaults(_ON.get(engine.backend, _PLAIN) if engine is not None else _PLAIN, draft)

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """Also the letters of an allocation, of which each stands for a size."""
        from rldoctor.frameworks.spelling import spell

        dialect = _ON.get(plan.value("rollout.backend", ""), _PLAIN)
        sized = _sized(edit, plan)
        return spell(dialect, edit, plan) if sized is None else spell(dialect, *sized)


def _engine_of(natives: list[Native]) -> str | None:
    """The engine that samples, by the last setting that names one."""
    named: str | None = None
    for native in natives:
        value, key = native.value, native.key
        if key == "rollout" and isinstance(value, dict):
            key, value = "rollout.backend", value.get("backend")
        if key in ("rollout.backend", "allocation_mode") and (found := roles(value)[0]) is not None:
            named = found.backend
    return named


def _configurations(launch: Launch) -> set[str]:
    """The configuration classes of AReaL that the launch's script loads; its own classes are none of them."""
    if launch.python is None:
        return set()
    own = {node.name for node in ast.walk(launch.python.tree) if isinstance(node, ast.ClassDef)}
    calls = launch.python.calls("load_expr_config")
    loaded = {value.raw for call in calls for value in call.positionals[1:] if isinstance(value, Unresolved)}
    return loaded - own


# The letter of each size, in the allocation of the engine or of the trainer.
_LETTERS = {
    "placement.engines": ("rollout.backend", "d"),
    "engine.tensor_parallel_size": ("rollout.backend", "t"),
    "engine.pipeline_parallel_size": ("rollout.backend", "p"),
    "parallel.data": ("actor.backend", "d"),
    "parallel.tensor": ("actor.backend", "t"),
    "parallel.pipeline": ("actor.backend", "p"),
    "parallel.context": ("actor.backend", "c"),
    "parallel.expert": ("actor.backend", "e"),
}


def _sized(edit: Edit, plan: RolloutPlan) -> tuple[Edit, RolloutPlan] | None:
    """A size as an edit of the allocation that its letter stands in; None where the launch has none."""
    option, size = edit.option, edit.value
    ranks = 1
    if option == "placement.engine_gpus":
        ranks = plan.value("engine.tensor_parallel_size", 1) * plan.value("engine.pipeline_parallel_size", 1)
        option = "placement.engines"
    if option == "placement.trainer_gpus":
        ranks = prod(plan.value(f"parallel.{name}") or 1 for name in ("tensor", "pipeline", "context"))
        option = "parallel.data"
    if option not in _LETTERS or not isinstance(size, int) or size % ranks:
        return None
    key, letter = _LETTERS[option]
    given = next((g for g in reversed(plan.given) if g.key in (key, "allocation_mode")), None)
    engine = key == "rollout.backend"
    text = resized(given.value, letter, size // ranks, engine) if given and isinstance(given.value, str) else None
    if given is None or text is None:
        return None
    name = "rollout.backend" if engine else "trainer.strategy"
    asked = Setting(
        value=given.value, source=Source.GIVEN, key=given.key, file=given.file, line=given.line, form=given.form
    )
    return Edit(option=name, value=text), replace(plan, settings={**plan.settings, name: asked})


class _Plain(AReaL):
    table: ClassVar[Mapping[str, str | Rule]] = _COMMON


class _OnSglang(AReaL):
    table: ClassVar[Mapping[str, str | Rule]] = {**_COMMON, **_SGLANG}


class _OnVllm(AReaL):
    table: ClassVar[Mapping[str, str | Rule]] = {**_COMMON, **_VLLM}


DIALECT = AReaL()
_PLAIN = _Plain()
_ON: Mapping[str, AReaL] = {"sglang": _OnSglang(), "vllm": _OnVllm()}
