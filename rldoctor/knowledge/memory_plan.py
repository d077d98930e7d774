"""What a rollout plan asks of each device's memory: the arithmetic of :mod:`rldoctor.knowledge.memory` on a case.

What the plan does not tell is taken at its smallest; a function raises :class:`NotChecked` where even that is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldoctor import frameworks
from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable, NotChecked
from rldoctor.frameworks.record import Memory
from rldoctor.knowledge import memory
from rldoctor.knowledge.model_config import context, model_config
from rldoctor.knowledge.vllm_engine import release
from rldoctor.plan.evidence import plan_of
from rldoctor.plan.model import RolloutPlan
from rldoctor.records import dataclass

# Optimizers with smaller states than two moments for each weight, by a part of their name.
SMALL_OPTIMIZERS = (
    "8bit",
    "8-bit",
    "4bit",
    "adafactor",
    "sgd",
    "lion",
    "muon",
    "galore",
    "apollo",
    "lomo",
    "adalomo",
    "paged",
)
# Before it, vLLM counts what is on the device when it starts as part of its share (V1's determine_available_memory).
SHARE_ON_TOP = (0, 9)


@dataclass(frozen=True)
class Engine:
    """One engine rank: ``share`` of the ``device``'s bytes (None where the cache's size is given in bytes), ``weights``
    on it, the ``cache`` of a sequence, and the longest sequence (``context`` tokens, None where not known).
    ``defaulted`` says which keys of the model's config.json are defaults."""

    device: float
    utilization: float
    weights: float
    cache: memory.Cache | None
    context: int | None
    ranks: int
    fixed_cache: float | None = None
    defaulted: str = ""

    @property
    def share(self) -> float:
        if self.fixed_cache is not None:
            return self.weights + self.fixed_cache
        return self.device * self.utilization

    @property
    def available(self) -> float:
        """Bytes for the KV cache, if the engine needed nothing else."""
        return self.share - self.weights


def habits(plan: RolloutPlan) -> Memory:
    """What the plan's framework keeps on a device as far as no option says it; of an unknown one, the least."""
    framework = frameworks.framework(plan.framework)
    return framework.memory if framework is not None else Memory()


def device_memory(case: Case) -> float:
    """The largest device, in bytes; the smaller part where devices are sliced."""
    devices = case.gpus.devices if case.gpus is not None else ()
    if case.gpus is not None and case.gpus.vendor != "nvidia" and not devices:
        raise NotApplicable("there is no NVIDIA device here")
    sizes = [
        max((i.memory_total for i in d.instances if i.memory_total), default=d.memory_total)
        for d in devices
        if d.memory_total
    ]
    if not sizes:
        raise NotChecked("the devices' memory is not known", how="--assume machine.json")
    return float(max(sizes))


def parameters_of(case: Case) -> int:
    """The parameters of the local model. Raises :class:`NotChecked` where its config does not tell."""
    return _parameters(model_config(case))


def defaulted(case: Case) -> str:
    """The keys that the model's config.json leaves out and its size is worked out with, in words."""
    config = model_config(case)
    memory.parameters(config)
    return config.defaulted


def _parameters(config: Mapping[str, Any]) -> int:
    found = memory.parameters(config)
    if found is None:
        raise NotChecked("the model's config.json is not there or does not tell its size")
    return found


def _usual(plan: RolloutPlan, option: str, default: Any) -> Any:
    """What the engine has where the launch leaves it out; raises :class:`NotChecked` where that may stand in a part of
    the launch that was not read: with two of these the share holds what it does not with one."""
    value = plan.usual(option, default)
    if value is None:
        raise NotChecked(f"the engine's {option.partition('.')[2]} is not known: it may stand in what was not read")
    return value


def engine(case: Case) -> Engine:
    """What the plan's engine claims on each of its devices."""
    plan, device, config = plan_of(case), device_memory(case), model_config(case)
    count = _parameters(config)
    utilization = plan.value("engine.gpu_memory_utilization")
    fixed = plan.value("engine.kv_cache_memory_bytes")
    if not isinstance(utilization, int | float) and fixed is None:
        raise NotChecked("the engine's share of the device is not known")
    tensor, pipeline = _usual(plan, "engine.tensor_parallel_size", 1), _usual(plan, "engine.pipeline_parallel_size", 1)
    element = memory.weight_element(config, plan.value("engine.dtype"), _quantization(plan))
    experts = memory.expert_parameters(config)
    apart = bool(experts) and _usual(plan, "engine.enable_expert_parallel", False)
    spread = _usual(plan, "engine.data_parallel_size", 1) if apart else 1
    weights = element * ((count - experts) + experts / spread) / (tensor * pipeline)
    stored = sum(
        size for name, size in (case.model.files if case.model else {}).items() if name.endswith(".safetensors")
    )
    if stored:
        weights = min(weights, stored / (tensor * pipeline))
    weights = max(0.0, weights - _usual(plan, "engine.cpu_offload_gb", 0) * memory.GIB)
    return Engine(
        device=device,
        utilization=float(utilization or 0),
        weights=weights,
        cache=memory.cache(config, _cache_element(plan, config), tensor, pipeline),
        context=_context(plan, config),
        ranks=tensor * pipeline,
        fixed_cache=float(fixed) if isinstance(fixed, int | float) else None,
        defaulted=config.defaulted,
    )


def training(case: Case) -> memory.Training:
    """What the plan's trainer keeps. Raises :class:`NotChecked` where the plan leaves its strategy or ranks open."""
    plan, count = plan_of(case), parameters_of(case)
    ranks = plan.value("placement.trainer_gpus") or plan.value("process.total")
    strategy = plan.value("trainer.strategy")
    if strategy is None and ranks == 1:
        if plan.value("model.spread") is True:
            raise NotChecked("the script lays the model over the devices that it sees (device_map)")
        strategy = "single"
    if not ranks or strategy is None:
        raise NotChecked("how the trainer spreads its states over devices is not known")
    if strategy not in memory.STRATEGIES:
        raise NotChecked(f"how {strategy} spreads the trainer's states over devices is not known")
    stage = plan.value("trainer.zero_stage")
    if strategy == "deepspeed" and stage is None:
        raise NotChecked("the ZeRO stage is not known")
    shard = plan.value("parallel.fsdp", -1)
    if strategy in ("fsdp", "fsdp2") and isinstance(shard, int) and shard > 1:
        ranks = min(ranks, shard)
    model_ranks = 1
    if strategy == "megatron":
        for option in ("parallel.tensor", "parallel.pipeline", "parallel.expert"):
            model_ranks *= plan.value(option, 1) or 1
    elif (plan.value("parallel.tensor", 1) or 1) > 1:
        model_ranks = plan.value("parallel.tensor")
    quantized = bool(plan.value("lora.quantized")) or bool(plan.value("model.quantization"))
    names = str(plan.value("trainer.optimizer", "")).lower()
    critic = strategy in ("fsdp", "fsdp2") and _critic_is_like_the_policy(plan)
    return memory.Training(
        parameters=count,
        strategy=strategy,
        ranks=max(ranks, model_ranks),
        zero_stage=stage or 0,
        element=_element(plan, strategy),
        model_ranks=model_ranks,
        adapters=_adapters(plan),
        frozen_element=memory.FOUR_BITS if quantized else 2.0,
        small_optimizer=any(part in names for part in SMALL_OPTIMIZERS),
        reference=bool(plan.value("trainer.reference"))
        and habits(plan).keeps_reference
        and plan.value("trainer.reference_offload") is not True,
        weights_offloaded=plan.value("trainer.offload_params") is True,
        gradients_offloaded=plan.value("trainer.offload_gradients") is True,
        optimizer_offloaded=plan.value("trainer.offload_optimizer") is True,
        critic_weights=critic and plan.value("trainer.critic_offload_params") is False,
        critic_optimizer=critic and plan.value("trainer.critic_offload_optimizer") is False,
    )


def _critic_is_like_the_policy(plan: RolloutPlan) -> bool:
    """Whether a value model is trained on the same devices, in the same size. Elsewhere it is not counted."""
    path = plan.value("model.critic_path")
    return plan.value("trainer.critic") is True and path is not None and path == plan.value("model.path")


def engine_sleeps(plan: RolloutPlan) -> bool:
    """Whether the engine gives its memory back while the trainer works; unknown counts as yes."""
    if plan.value("sleep.enabled") is False:
        return False
    known = plan.value("sleep.enabled"), plan.value("sleep.level"), plan.value("engine.enable_sleep_mode")
    return not (plan.value("sleep.level") == 0 or known == (None, None, False))


def share_includes_trainer(case: Case) -> bool:
    """Whether this vLLM counts what stands on the device at its start as part of its share; unknown counts as yes."""
    version = release(case)
    return version is None or version < SHARE_ON_TOP


def _adapters(plan: RolloutPlan) -> bool:
    enabled, rank = plan.value("lora.enabled"), plan.settings.get("lora.rank")
    if enabled is None and rank is not None and rank.unknown is not None:
        raise NotChecked(f"whether adapters are trained or the whole model is not known: {rank.unknown}")
    if enabled is None:
        return bool(plan.value("lora.rank")) or plan.value("trainer.full") is False
    return bool(enabled)


def _element(plan: RolloutPlan, strategy: str) -> float:
    stored = memory.ELEMENT.get(str(plan.value("trainer.param_dtype", "")).lower())
    if stored is None and strategy != "deepspeed":
        stored = memory.ELEMENT.get(str(plan.value("model.dtype", "")).lower())
    if strategy == "deepspeed" and plan.value("trainer.dtype") == "float32":
        return 4.0
    return stored or 2.0


def _quantization(plan: RolloutPlan) -> str | None:
    named = plan.value("engine.quantization") or plan.value("model.quantization")
    if named is None and plan.value("engine.load_format") == "bitsandbytes":
        named = "bitsandbytes"
    return str(named) if named else "4bit" if plan.value("lora.quantized") and habits(plan).shares_weights else None


def _cache_element(plan: RolloutPlan, config: Mapping[str, Any]) -> float:
    named = str(plan.value("engine.kv_cache_dtype", "auto")).lower()
    if named.startswith(("fp8", "int8")):
        return 1.0
    stated = config.get("quantization_config")
    if (
        named == "auto"
        and isinstance(stated, dict)
        and (stated.get("kv_cache_scheme") or stated.get("kv_cache_quant_algo"))
    ):
        return 1.0
    # Nothing smaller than a byte for names that are not known.
    return memory.ELEMENT.get(named, 2.0 if named == "auto" else 0.5)


def _context(plan: RolloutPlan, config: Mapping[str, Any]) -> int | None:
    asked = plan.get("engine.max_model_len")
    if asked is not None and asked.value is not None:
        return int(asked.value) if isinstance(asked.value, int) and asked.value > 0 else None
    # Null, and known to be null: vLLM takes the model's own. Where nothing says so, the framework may compute it.
    if (asked is None and plan.framework != "vLLM") or (asked is not None and asked.unknown):
        return None
    whole = context(config)
    return whole.tokens if whole else None
