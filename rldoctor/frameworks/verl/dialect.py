"""verl: Hydra overrides over its trainer config; PPO family, sync and async rollouts, FSDP and Megatron."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from rldoctor.counted import counted
from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.batch import count_completions
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.groups import driver, placement_group
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.patterns import Patterns
from rldoctor.frameworks.releases import between
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.verl.config import BASE, SHIPPED, choices, chooses_engine, configuration, generates, hidden
from rldoctor.frameworks.verl.table import BESIDE, TABLE
from rldoctor.plan.model import Form

_ACTOR = "actor_rollout_ref.actor"
_VARIABLES = "ray_kwargs.ray_init.runtime_env.env_vars."
_ROLLOUT = "actor_rollout_ref.rollout"
# Sizes that vLLM accepts as max_lora_rank (vllm/config/lora.py; through 0.11 without 1).
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


def _served(draft: Draft) -> bool:
    """Whether the engine is verl's asynchronous server (the only one left from 0.7)."""
    return draft.value("rollout.async_engine") is True or between(draft, "verl", "0.7")


def _joins(draft: Draft) -> None:
    # vllm_async_server.py: ExternalRayDistributedExecutor calls ray.init(namespace=...) in the engine's own process, in
    # 0.4.0 and 0.4.1 line 53, in 0.5.0 line 55, where another executor is the default; gone in 0.6.0.
    named = "env.VERL_VLLM_DISTRIBUTED_BACKEND"
    by_ray = between(draft, "verl", "0.4", "0.5") or (
        between(draft, "verl", "0.5", "0.6") and draft.value(named) == "ray"
    )
    if by_ray and draft.value("rollout.async_engine") and draft.value("rollout.backend", "vllm") == "vllm":
        how = "its executor calls ray.init without an address"
        draft.derive("ray.engine_joins", True, how, "rollout.async_engine", named)


def _placement(draft: Draft) -> None:
    # rollout.nnodes > 0 gives the engines devices of their own (verl/experimental, *_off_policy, fully_async_policy).
    nodes, each = draft.value("placement.nodes"), draft.value("placement.gpus_per_node")
    engine_nodes, engine_each = draft.value("placement.engine_nodes"), draft.value("placement.engine_gpus_per_node")
    entry = draft.launch.entry
    separate = bool(engine_nodes and engine_each) and ("async" in entry or "off_policy" in entry)
    if nodes and each:
        draft.derive(
            "placement.trainer_gpus", nodes * each, f"{counted(nodes, 'node')} x {each}", "placement.gpus_per_node"
        )
    if separate:
        total = engine_nodes * engine_each
        how = f"{counted(engine_nodes, 'node')} x {engine_each}"
        draft.derive("placement.engine_gpus", total, how, "placement.engine_gpus_per_node")
        draft.derive("placement.mode", "async", "the engines have devices of their own", "placement.engine_nodes")
        draft.derive("rollout.async", True, "generation and training overlap", "placement.engine_nodes")
    else:
        draft.derive("placement.mode", "colocate", "hybrid engine: trainer and engine share devices")
        draft.derive(
            "placement.engine_gpus", draft.value("placement.trainer_gpus"), "hybrid engine", "placement.trainer_gpus"
        )
    rewards = _reward_pool(draft)
    needed = (draft.value("placement.trainer_gpus") or 0) + (draft.value("placement.engine_gpus") or 0) * separate
    how = "trainer and separate engines" if separate else "trainer and engines on the same devices"
    if rewards[0]:
        how += f", {counted(rewards[0], 'node')} x {rewards[1]} of the reward model"
    draft.derive("ray.gpus_needed", needed + rewards[0] * rewards[1] or None, how, "placement.gpus_per_node")
    devices = draft.value("placement.engine_gpus")
    size = 1
    for name in ("tensor", "data", "pipeline"):
        size *= draft.value(f"engine.{name}_parallel_size", 1)
    if devices and size and devices % size == 0:
        # llm_server.py: replicas = world // (tp * dp * pp)
        draft.derive("placement.engines", devices // size, f"{devices} devices / {size}", "engine.tensor_parallel_size")
    _groups(draft, rewards, size if separate else 0)


def _environment(draft: Draft) -> None:
    """The variables that ray.init is handed, with the types that Hydra gives them: Ray takes texts alone."""
    given = {key: native.value for key, native in draft.natives.items() if key.startswith(_VARIABLES)}
    values = {key.removeprefix(_VARIABLES): value for key, value in given.items() if not isinstance(value, Unresolved)}
    odd = [name for name, value in values.items() if not isinstance(value, str)]
    if odd:
        draft.derive("ray.runtime_env", {"env_vars": values}, "what ray.init is handed", *(f"env.{one}" for one in odd))


def _reward_pool(draft: Draft) -> tuple[int, int]:
    """Nodes, and devices on each, that a reward model has for itself (main_ppo.py, ``enable_resource_pool``)."""
    for section in ("reward.reward_model", "reward_model"):
        sizes = (draft.native(f"{section}.nnodes"), draft.native(f"{section}.n_gpus_per_node"))
        if draft.native(f"{section}.enable_resource_pool") is True and all(isinstance(size, int) for size in sizes):
            return sizes
    return (0, 0)


def _groups(draft: Draft, rewards: tuple[int, int], replica: int) -> None:
    """ResourcePoolManager.create_resource_pool: a group for each node of a pool, whose bundles take a device and as
    many cores as ``max_colocate_count``, 1 before 0.7.0 (ray_trainer.py) and 3 since; engines of ``replica`` ranks with
    devices of their own have a pool each, with 2 (replica.py)."""
    nodes, each = draft.value("placement.nodes"), draft.value("placement.gpus_per_node")
    cores = 3 if between(draft, "verl", "0.7") else 1 if between(draft, "verl", "0") else None
    if not nodes or not each or not cores:
        return
    first, second, last = _loops(draft)
    groups = [*map(driver, first), placement_group("STRICT_PACK", each, cpus=cores, count=nodes)]
    if rewards[0] and rewards[1]:
        groups.append(placement_group("STRICT_PACK", rewards[1], cpus=cores, count=rewards[0]))
    if replica:
        engines, theirs = draft.value("placement.engine_gpus"), draft.value("placement.engine_gpus_per_node")
        if not between(draft, "verl", "0.7") or not engines or engines % replica:
            return
        part = min(theirs, replica)
        groups += [*map(driver, second), placement_group("STRICT_PACK", part, cpus=2, count=engines // part)]
        groups += map(driver, last)
    draft.derive("ray.groups", groups, "a group for each node of a pool", "placement.gpus_per_node", "placement.nodes")


def _loops(draft: Draft) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The cores of actors that have no group and stay: before the trainer's pool, before the engines, and last."""
    entry = draft.launch.entry
    if entry.endswith("fully_async_main"):
        # FullyAsyncTaskRunner and FullyAsyncTrainer, FullyAsyncRollouter, MessageQueue
        return (1, 10), (10,), (2,)
    if "one_step_off_policy" in entry:
        return (10 if between(draft, "verl", "0.7") else 1,), (), ()
    # main_ppo.py: TaskRunner, which from 0.9.0 keeps no core for itself.
    return ((1,) if entry.endswith("main_ppo") and between(draft, "verl", "0.3", "0.9") else ()), (), ()


def _lengths(draft: Draft) -> None:
    prompt, response = draft.value("lengths.prompt"), draft.value("lengths.response")
    draft.derive("sampling.max_tokens", response, "the longest response", "lengths.response")
    if not prompt or not response:
        return
    how, inputs = f"prompt {prompt} + response {response}", ("lengths.response", "lengths.prompt")
    if between(draft, "verl", "0.6", "0.7") and _served(draft):
        # vllm_async_server.py, 0.6.0 line 142: the sum, whatever max_model_len says
        draft.override("engine.max_model_len", prompt + response, how, *inputs)
    elif between(draft, "verl", "0", "0.7"):
        # vllm_rollout_spmd.py: int(config.max_model_len or prompt_length + response_length)
        draft.derive("engine.max_model_len", prompt + response, how, *inputs)
    # From 0.7.0 the default is the model's own max_position_embeddings, which the launch does not tell.


def _seeds(draft: Draft) -> None:
    # ray_trainer.py: gen_batch.repeat(n) from 0.5.0 on, n in the sampling parameters before
    if between(draft, "verl", "0.5"):
        draft.derive("batch.per_request", 1, "a batch holds every prompt n times")
    elif between(draft, "verl", "0"):
        draft.derive("batch.per_request", draft.value("batch.generations"), "rollout.n", "batch.generations")
    if between(draft, "verl", "0.5", "0.7.1") and _served(draft):
        # agent_loop.py, AsyncLLMServerManager._choose_server: the server with the fewest requests so far, ended or not
        draft.derive("rollout.spread", "turns", "each request goes to the next server in turn", "rollout.async_engine")
    elif between(draft, "verl", "0.7.1"):
        draft.derive("rollout.spread", "load", "each request goes to the server with the fewest in flight")
    elif between(draft, "verl", "0"):
        draft.derive("rollout.spread", "parts", "each replica gets a contiguous part of the batch")
    draft.derive(
        "seed.per_request", "same" if draft.value("seed.deterministic") else "none", "rollout.full_determinism"
    )
    if draft.value("rollout.backend", "vllm") != "vllm":
        _other_seeds(draft)
        return
    given = draft.value("seed.engine")
    if between(draft, "verl", "0", "0.9"):
        draft.derive("seed.engine", 0, "rollout.seed is not set: 0")
    if between(draft, "verl", "0.7.1"):
        # vllm_async_server.py, launch_server
        draft.derive("seed.per_replica", "replica", "replica rank + rollout.seed", "seed.engine")
        return
    by_rank = between(draft, "verl", "0.4", "0.5") and draft.value("rollout.async_engine") is True
    if between(draft, "verl", "0") and not by_rank:
        draft.derive("engine.seed", given or 0, "rollout.seed", "seed.engine")
    if _has_random_state(draft):
        how = "the worker's random state, 1000 + data parallel rank, whatever the engine's seed"
        draft.override("seed.engine", 1000, how)
        draft.derive("seed.per_replica", "replica", how)
    elif by_rank:
        draft.derive("seed.per_replica", "replica", "the engine's data parallel rank")
    elif between(draft, "verl", "0"):
        draft.derive("seed.per_replica", "same", f"every replica gets seed {given or 0}", "seed.engine")


def _has_random_state(draft: Draft) -> bool:
    """Whether the engine draws in the trainer's worker, which puts a random state of its own in the place of the
    engine's before each rollout: ``gen_random_states`` of sharding_manager/fsdp_vllm.py from 0.2.0, of megatron_vllm.py
    from 0.4.1, of fsdp_workers.py and megatron_workers.py (``rollout_mode``) in 0.6.0 to 0.7.0.

    A worker that only samples keeps the engine's (0.6.0 on). From 0.5.0 to 0.6.1 so does a server whose engine never
    sleeps: agent_loop.py wakes it only where ``free_cache_engine`` is set."""
    if draft.value("placement.mode") != "colocate" or not between(draft, "verl", "0.2", "0.7.1"):
        return False
    if draft.value("trainer.strategy") == "megatron" and not between(draft, "verl", "0.4.1"):
        return False
    if generates(draft.launch) and between(draft, "verl", "0.6"):
        return False
    never_wakes = between(draft, "verl", "0.5", "0.7") and draft.value("rollout.async_engine") is True
    return not (never_wakes and draft.value("sleep.enabled") is False)


def _other_seeds(draft: Draft) -> None:
    """async_sglang_server.py, sglang_rollout.py, 0.4.1 to 0.7.0: the seed is none of what SGLang is given."""
    draft.settings.pop("seed.engine", None)
    given = draft.native(f"{_ROLLOUT}.engine_kwargs.sglang.random_seed")
    if isinstance(given, int):
        draft.derive("seed.engine", given, "engine_kwargs.sglang.random_seed")
        draft.derive("seed.per_replica", "same", f"every replica gets random_seed {given}")
    elif between(draft, "verl", "0", "0.7.1"):
        draft.derive("seed.per_replica", "random", "SGLang draws its own seed")


# engine_kwargs.sglang wins over what verl passes itself.
_OF_SGLANG = {
    "mem_fraction_static": "engine.gpu_memory_utilization",
    "max_running_requests": "engine.max_num_seqs",
    "context_length": "engine.max_model_len",
    "kv_cache_dtype": "engine.kv_cache_dtype",
    "quantization": "engine.quantization",
}


def _given_to_sglang(draft: Draft) -> None:
    if draft.value("rollout.backend") != "sglang":
        return
    draft.settings.pop("engine.enable_prefix_caching", None)  # SGLang does not get it
    for name, option in _OF_SGLANG.items():
        native = draft.natives.get(f"{_ROLLOUT}.engine_kwargs.sglang.{name}")
        if native is not None and native.value is not None:
            draft.take(native, option, native.value)


def _engine(draft: Draft) -> None:
    _given_to_sglang(draft)
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("rollout.multi_turn", False, "not enabled")
    if between(draft, "verl", "0", "0.5"):
        draft.derive("engine.enable_prefix_caching", True, "fixed in vllm_rollout_spmd.py")
    draft.derive("engine.disable_custom_all_reduce", True if between(draft, "verl", "0") else None, "fixed by verl")
    rank = draft.value("lora.rank", 0)
    draft.derive("lora.enabled", rank > 0, "lora_rank above 0", "lora.rank")
    draft.derive("trainer.full", rank <= 0, "lora_rank is 0", "lora.rank")
    if rank > 0:
        draft.derive("engine.enable_lora", True, "lora_rank above 0", "lora.rank")
        draft.derive("engine.max_loras", 1, "one adapter", "lora.rank")
        rounded = next((size for size in _LORA_RANKS if size >= rank), rank)
        if between(draft, "verl", "0.6.1"):
            draft.derive("engine.max_lora_rank", rounded, "rounded up to a rank that vLLM accepts", "lora.rank")
        elif between(draft, "verl", "0"):
            draft.derive("engine.max_lora_rank", rank, "lora_rank as it is", "lora.rank")


def _sleep(draft: Draft) -> None:
    enabled = draft.value("sleep.enabled")
    if (between(draft, "verl", "0.6") and _served(draft)) or between(draft, "verl", "0.4", "0.5"):
        draft.derive("engine.enable_sleep_mode", True, "fixed by verl")
    else:
        draft.derive("engine.enable_sleep_mode", enabled, "free_cache_engine", "sleep.enabled")
    if enabled is False:
        draft.derive("sleep.level", 0, "free_cache_engine is false", "sleep.enabled")
    elif between(draft, "verl", "0.7.1"):
        lora = draft.value("lora.enabled")
        draft.derive("sleep.level", 1 if lora else 2, "1 with adapters, else 2", "lora.rank")
    elif between(draft, "verl", "0", "0.6") or (between(draft, "verl", "0.6", "0.7.1") and draft.value("sync.layered")):
        draft.derive("sleep.level", 1, "fixed by verl")


def _batch(draft: Draft) -> None:
    count_completions(draft)
    draft.derive(
        "trainer.temperature",
        draft.value("sampling.temperature"),
        "log-probabilities use rollout.temperature",
        "sampling.temperature",
    )


def _trainer(draft: Draft) -> None:
    megatron = "ppo_megatron" in str(draft.launch.arguments(overrides=True).value("config_name") or "")
    draft.derive("trainer.strategy", "megatron" if megatron else None, "--config-name ppo_megatron_trainer")
    algorithm = draft.value("trainer.algorithm")
    draft.derive(
        "trainer.critic", algorithm == "gae" if algorithm else None, "adv_estimator is gae", "trainer.algorithm"
    )
    in_reward = draft.native("algorithm.use_kl_in_reward")
    if in_reward is True:
        draft.override("trainer.reference", True, "algorithm.use_kl_in_reward")
    every = draft.value("trainer.eval_every")
    draft.derive(
        "rollout.evaluates", every > 0 if every is not None else None, "trainer.test_freq above 0", "trainer.eval_every"
    )
    draft.override("process.launcher", "ray", "verl starts its workers with Ray")
    if draft.value("trainer.strategy", "fsdp") in ("fsdp", "fsdp2") and between(draft, "verl", "0.2", "0.6"):
        draft.derive(
            "trainer.param_dtype", "float32", "fsdp_workers.py loads the actor so where model_dtype is not given"
        )
    policy = f"{_ACTOR}.fsdp_config.offload_policy"
    if draft.native(policy) is True and draft.value("trainer.strategy") == "fsdp2":
        for states in ("params", "gradients", "optimizer"):
            draft.override(f"trainer.offload_{states}", True, f"{policy}: FSDP 2 keeps them on the host")


def _dropped(draft: Draft) -> None:
    """From 0.6 the server's command line is built from true values only: an explicit false reaches nobody."""
    if not (between(draft, "verl", "0.6") and _served(draft)) or draft.value("rollout.backend", "vllm") != "vllm":
        return
    for name in ("enable_chunked_prefill", "enable_prefix_caching"):
        option, native = f"engine.{name}", draft.natives.get(f"{_ROLLOUT}.{name}")
        if native is None or draft.value(option) is not False:
            continue
        del draft.settings[option]
        draft.unknown.append(
            native.as_unknown(
                owner=f"verl {draft.launch.version_of('verl')}",
                nearest=(f"{_ROLLOUT}.engine_kwargs.vllm.no_{name}",),
                ignored=True,
                why="verl builds the engine's command line from true values only, a false one is dropped",
            )
        )


_FSDP = Patterns(("*.fsdp_config.*", "*.ulysses_sequence_parallel_size"))


class Verl(Dialect):
    name, owner = "verl", "verl"
    own_code = ("custom_reward_function.path", "reward.custom_reward_function.path")
    # Recipes and forks have mains of their own and are known by their keys.
    entries = (
        "verl.trainer.main_ppo*",
        "verl.trainer.main_generation*",
        "*verl/trainer/main_ppo*.py",
        "verl.experimental.*main*",
    )
    keys = ("actor_rollout_ref",)
    style = Form.OVERRIDE
    composes = True
    untyped = True
    append = "++"
    strict = frozenset({Form.OVERRIDE})
    table: ClassVar[Mapping[str, str | Rule]] = TABLE
    beside = BESIDE
    owners: ClassVar[Mapping[str, str]] = {f"{_ROLLOUT}.engine_kwargs.vllm.": "vllm:EngineArgs"}
    # What no place of the source lists; all others are read with its options (layout.py).
    words: ClassVar[Mapping[str, str]] = {
        f"{_ROLLOUT}.mode": "sync async",
        f"{_ROLLOUT}.load_format": "auto safetensors hf megatron dummy dummy_dtensor dummy_hf dummy_megatron dtensor",
    }
    needs = (f"{_ROLLOUT}.name",)  # ??? in rollout.yaml from 0.6.0 on
    derivations = (_dropped, _trainer, _joins, _environment, _placement, _lengths, _seeds, _engine, _sleep, _batch)

    def claims(self, launch: Launch) -> int:
        """Its entry points and keys, and a main of one's own that starts its trainer."""
        found = super().claims(launch)
        if found or launch.python is None or not launch.python.has_call("hydra.main"):
            return found
        return 55 if launch.python.imports_from("verl.trainer.ppo.ray_trainer") else 0

    def registers(self, launch: Launch) -> bool:
        """Recipes have mains of their own; ``external_lib`` is imported for what it registers."""
        keys = (native.key for native in launch.arguments(overrides=True).natives)
        return not launch.entry.endswith("verl.trainer.main_ppo") or any(key.endswith("external_lib") for key in keys)

    def natives(self, launch: Launch) -> Iterator[Native]:
        """``main_generation`` has the sections of ``actor_rollout_ref`` at the top."""
        generating = generates(launch)
        for native in super().natives(launch):
            moved = generating and native.key.startswith(("rollout.", "model.", "actor."))
            yield replace(native, key=f"actor_rollout_ref.{native.key}") if moved else native

    def defaults(self, draft: Draft) -> None:
        """Not those of the trainer where no trainer runs."""
        if not generates(draft.launch):
            super().defaults(draft)

    def is_part(self, launch: Launch, key: str) -> bool:
        """FSDP's keys are there where FSDP trains: the classes declare them for every engine."""
        return launch.arguments(overrides=True).value("model_engine") in (None, "dp") or not _FSDP.match(key)

    def ships(self, config: str) -> bool:
        """Those of its trainers and recipes."""
        return config in SHIPPED or config == "generation"

    def is_whole(self, launch: Launch) -> bool:
        """One with verl's own configuration, of which all keys are known, with data and a model: no excerpt."""
        arguments = launch.arguments(overrides=True)
        named = all(arguments.value(key) is not None for key in ("data.train_files", "actor_rollout_ref.model.path"))
        return named and configuration(launch)[1] and super().is_whole(launch)

    def choices(self, launch: Launch) -> Mapping[str, str]:
        """The engines that could train, each with options of its own."""
        return choices(launch)

    def main_group(self, launch: Launch) -> str:
        """The configuration that is composed, as far as verl ships it."""
        return f"verl:{configuration(launch)[0]}"

    def check_known(self, draft: Draft, native: Native) -> None:
        found, before = len(draft.unknown), draft.natives.get(native.key)
        super().check_known(draft, native)
        made = before is not None and before.form is Form.YAML  # by a configuration of the launch's own
        draft.unknown[found:] = [one for one in draft.unknown[found:] if not made and not hidden(draft.launch, one.key)]

    def option_group(self, launch: Launch, native: Native) -> str | None:
        """None where the configuration is another one than verl's: its keys are not known."""
        if native.key == "model_engine" and chooses_engine(launch):  # another word leaves no configuration
            return f"verl:{BASE}"
        group, exact = configuration(launch)
        return f"verl:{group}" if exact else None


DIALECT = Verl()
