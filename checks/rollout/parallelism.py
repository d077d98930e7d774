"""Heads, key-value heads or devices that a parallel size does not divide.

What it looks for
    The engine's tensor parallel size against the model's attention heads, key-value heads and feed-forward width, the
    trainer's tensor and sequence parallel sizes against the heads, Megatron's tensor ranks against the key-value heads
    and its stages against the layers, and all against the devices that are there for them; so Megatron's expert
    parallel ranks and FSDP's shard groups. In a log: the same refusals of engine and trainers.

Why it hurts
    vLLM refuses to start: ``Total number of attention heads (12) must be divisible by tensor parallel size (8)``.
    Trainers assert on the world size, after the models are loaded.

How sure it is
    The divisions are the engine's own. Heads need a ``config.json`` here (a directory, or the hub's cache).

The fix and its cost
    The largest smaller size that divides everything: fewer devices share one engine, so each holds more of the model.

References
    ``ModelConfig.verify_with_parallel_config``: https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/config/__init__.py
    Megatron Core ``transformer_config.py`` (0.12.2 line 574, 0.16.0 line 940: copies of key-value heads)
    ``QKVParallelLinear`` (key-value heads are replicated when there are fewer than ranks).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    cite,
    find,
    plan_of,
    version_within,
)
from rldoctor.api.models import cite_config, layers_of, model_config, model_heads, model_width, text_config

check = Check("RLD209", "parallelism-indivisible", __doc__)

TENSOR = "engine.tensor_parallel_size"
PIPELINE = "engine.pipeline_parallel_size"
DEVICES = "placement.engine_gpus"
TRAINERS = "placement.trainer_gpus"
MODEL_PARALLEL = ("parallel.tensor", "parallel.pipeline", "parallel.context")
SEQUENCE = ("parallel.sequence",)
STAGES, INNER = "parallel.pipeline", "parallel.expert_tensor"
MORE = "each device holds more"


@check.declared(needs=[f"plan.{TENSOR}", "model.config"])
def engine_and_model(case: Case) -> Iterator[Finding | Reach]:
    """The engine's ranks against the model's shape."""
    plan = plan_of(case)
    ranks = plan.value(TENSOR)
    config = model_config(case)
    heads, kv_heads = model_heads(config)
    if ranks is None or heads is None or kv_heads is None:
        raise NotChecked("the tensor parallel size or the number of the model's heads is not known")
    width = model_width(config)
    wrong = _indivisible(ranks, heads, kv_heads, width)
    if not wrong:
        yield Reach(f"{heads} heads, {kv_heads} KV heads over {ranks} ranks")
        return
    devices = plan.value(DEVICES)
    fitting = [size for size in range(1, ranks) if _fits(case, size) and (not devices or devices % size == 0)]
    yield check.finding(
        f"tensor_parallel_size {ranks} does not divide the model's {wrong}",
        evidence=(*cite(plan, TENSOR), *cite_config(case, wrong, config.defaulted)),
        fixes=tuple(
            Fix.safe(
                f"let {size} ranks share one engine", {TENSOR: size}, side_effects="each device holds more of the model"
            )
            for size in fitting[-1:]
        ),
    )


@check.declared(needs=["model.config", "plan"])
def trainer_and_model(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's tensor and sequence parallel ranks against the heads."""
    plan = plan_of(case)
    heads, _ = model_heads(model_config(case))
    if heads is None:
        raise NotChecked("the model's config.json does not tell its attention heads")
    options = ("parallel.tensor", "parallel.sequence")
    given = {option: ranks for option in options if (ranks := plan.value(option)) is not None}
    if not given:
        raise NotApplicable("the trainer is not said to split the model")
    for option, ranks in given.items():
        what = option.rpartition(".")[2]
        if ranks > 0 and heads % ranks:
            yield check.finding(
                f"the trainer's {what} parallel size {ranks} does not divide the model's {heads} attention heads",
                evidence=cite(plan, option),
                fixes=tuple(_fewer_that_share(plan, option, heads)),
            )
        else:
            yield Reach(f"{heads} heads over {ranks} {what} parallel ranks of the trainer")


@check.declared(needs=["model.config", "plan"])
def megatron_and_model(case: Case) -> Iterator[Finding | Reach]:
    """Megatron's own two divisions: key-value heads over tensor parallel ranks, layers over pipeline stages."""
    plan, config = plan_of(case), model_config(case)
    if plan.value("trainer.strategy") != "megatron":
        raise NotApplicable("the trainer is not said to be Megatron")
    _, kv_heads = model_heads(config)
    ranks, stages = plan.value("parallel.tensor"), plan.value("parallel.pipeline")
    layers, heads = layers_of(text_config(config)), f"{kv_heads} key-value heads"
    if ranks and kv_heads and kv_heads % ranks:
        copies = _copies_heads(case)
        if ranks % kv_heads or copies is False:
            fitting = [size for size in range(1, ranks) if kv_heads % size == 0]
            yield check.finding(
                f"the trainer's tensor parallel size {ranks} does not divide the model's {heads}: "
                "Megatron refuses (`num_query_groups`)",
                evidence=(
                    *cite(plan, "parallel.tensor"),
                    *cite_config(case, f"{kv_heads} key-value heads", config.defaulted),
                ),
                fixes=tuple(
                    Fix.unsafe(
                        f"let {size} tensor parallel ranks share the model",
                        {"parallel.tensor": size},
                        side_effects="each device holds more",
                    )
                    for size in fitting[-1:]
                ),
            )
        elif copies is None:
            raise NotChecked("Megatron from 0.16 on copies key-value heads, and which release is at hand is not known")
    if stages and stages > 1 and layers and layers % stages and plan.framework in EVEN and not _uneven(plan):
        yield check.finding(
            f"{stages} pipeline stages do not divide the model's {layers} layers, and the launch does not say how many "
            "the first or the last has: Megatron refuses",
            evidence=cite(plan, "parallel.pipeline"),
            fixes=(
                *(
                    Fix.unsafe(
                        f"cut the model into {size} stages", {"parallel.pipeline": size}, side_effects="each holds more"
                    )
                    for size in [size for size in range(1, stages) if layers % size == 0][-1:]
                ),
                Fix(title=f"or say how many layers the first or the last stage has: {EVEN[plan.framework]}"),
            ),
        )
    yield Reach(f"{heads} over {ranks} ranks, {layers} layers over {stages} stages")


# Frameworks that hand the sizes to Megatron as they are, and what they call an uneven split.
EVEN = {
    "verl": "+actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_last_pipeline_stage",
    "NeMo-RL": "policy.megatron_cfg.num_layers_in_last_pipeline_stage",
    "slime": "--decoder-last-pipeline-num-layers",
}
UNEVEN = re.compile(r"(first|last)_pipeline|pipeline_(num_layers|model_parallel_layout)|account_for_\w+_in_pipeline")
# transformer_config.py: from this release on ranks that are a multiple of the heads have copies.
COPIES = ">=0.16"


def _uneven(plan: RolloutPlan) -> bool:
    return any(UNEVEN.search(one.key) and (one.unknown or one.value not in (None, False)) for one in plan.given)


def _copies_heads(case: Case) -> bool | None:
    """Whether this Megatron has copies of key-value heads; None where its release is not known."""
    installed = find(case.packages, "megatron-core") if case.packages else None
    return version_within(installed.version, COPIES) if installed is not None and installed.version else None


@check.declared(needs=[f"plan.{TENSOR}", f"plan.{DEVICES}"])
def engine_and_devices(case: Case) -> Iterator[Finding | Reach]:
    """Whole engines must fit into the devices that are there for them."""
    plan = plan_of(case)
    devices, ranks = plan.value(DEVICES), plan.value(TENSOR)
    if devices is None or ranks is None:
        raise NotChecked("the devices of the engine cannot be read from the launch file")
    engine = ranks * plan.value(PIPELINE, 1)
    if devices % engine == 0:
        yield Reach(f"{devices} devices in engines of {engine}")
        return
    stages = plan.value(PIPELINE, 1)
    fitting = [size for size in range(1, ranks) if devices % (size * stages) == 0 and _fits(case, size)]
    yield check.finding(
        f"{devices} devices cannot be divided into engines of {engine} ({ranks} tensor x "
        f"{plan.value(PIPELINE, 1)} pipeline parallel ranks)",
        evidence=cite(plan, TENSOR, PIPELINE, DEVICES),
        fixes=tuple(Fix.safe(f"let {size} ranks share one engine", {TENSOR: size}) for size in fitting[-1:]),
    )


@check.declared(needs=["plan", f"plan.{TRAINERS}"])
def trainer_and_devices(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's model and sequence parallel ranks must fit into its devices a whole number of times."""
    plan = plan_of(case)
    devices = plan.value(TRAINERS)
    options = [option for option in _sharing(plan) if (plan.value(option) or 1) > 1]
    if devices is None or not options:
        raise NotApplicable("no ranks of the trainer share a model or a sequence, as far as the launch tells")
    group = prod(plan.value(option) for option in options)
    named = " x ".join(f"{plan.value(option)} {option.rpartition('.')[2]}" for option in options)
    if devices % group == 0:
        yield Reach(f"{devices} devices of the trainer in groups of {group} ({named})")
        return
    yield check.finding(
        f"the trainer's {devices} devices cannot be divided into groups of {group} ({named} parallel ranks)",
        evidence=cite(plan, *options, TRAINERS, "placement.gpus_per_node", "placement.nodes"),
        fixes=tuple(fix for option in options for fix in _fewer_that_share(plan, option)),
    )


# Frameworks that hand the sizes to Megatron as they are.
OF_MEGATRON = ("verl", "ms-swift")


@check.declared(needs=["plan", f"plan.{TRAINERS}"])
def experts_and_devices(case: Case) -> Iterator[Finding | Reach]:
    """The ranks that share Megatron's experts must fit into the devices a whole number of times: as many tensor ranks
    as the rest of the model has, unless the launch says how many (parallel_state.py, ``initialize_model_parallel``)."""
    plan = plan_of(case)
    devices, experts = plan.value(TRAINERS), plan.value("parallel.expert")
    if plan.framework not in OF_MEGATRON or plan.value("trainer.strategy") != "megatron" or (experts or 1) < 2:
        raise NotApplicable("Megatron is not said to spread experts over ranks")
    inner, stages = plan.get("parallel.expert_tensor"), plan.value(STAGES)
    tensor = plan.value("parallel.tensor") if inner is not None and inner.value is None else plan.value(INNER)
    if not devices or not tensor or not stages or (inner is not None and inner.unknown):
        raise NotChecked("how many ranks share the experts cannot be read from the launch")
    if devices % prod(plan.value(option) or 1 for option in MODEL_PARALLEL):
        raise NotApplicable("the devices cannot be divided without the experts either")
    group = experts * tensor * stages
    named = f"{experts} expert x {tensor} tensor x {stages} pipeline"
    if devices % group == 0:
        yield Reach(f"{devices} devices of the trainer in groups of {group} ({named})")
        return
    fitting = [size for size in range(1, experts) if devices % (size * tensor * stages) == 0]
    yield check.finding(
        f"the trainer's {devices} devices cannot be divided into groups of {group} that share the experts ({named} "
        "parallel ranks): Megatron refuses (`is not divisible by expert_tensor_model_pipeline_parallel size`)",
        evidence=cite(plan, "parallel.expert", INNER, "parallel.tensor", STAGES, TRAINERS, "placement.gpus_per_node"),
        fixes=(
            *(
                Fix.unsafe(f"spread the experts over {n} ranks", {"parallel.expert": n}, side_effects=MORE)
                for n in fitting[-1:]
            ),
            *(
                (Fix.unsafe("or give each expert to one rank", {INNER: 1}),)
                if tensor > 1 and devices % (experts * stages) == 0
                else ()
            ),
        ),
    )


@check.declared(needs=["plan.parallel.fsdp", f"plan.{TRAINERS}"])
def shards_and_devices(case: Case) -> Iterator[Finding | Reach]:
    """FSDP's shard groups are a mesh of the devices, whole or divided."""
    plan = plan_of(case)
    size, devices = plan.value("parallel.fsdp"), plan.value(TRAINERS)
    if plan.framework not in ("verl", "EasyR1") or plan.usual("trainer.strategy", "fsdp") not in ("fsdp", "fsdp2"):
        raise NotApplicable("the shard groups are not known to be a mesh of the devices")
    if not devices or size is None:
        raise NotChecked("the devices of the trainer cannot be read from the launch")
    if size <= 0 or size >= devices or devices % size == 0:
        yield Reach(f"{devices} devices of the trainer in shard groups of {size}")
        return
    fitting = [one for one in range(1, size) if devices % one == 0]
    yield check.finding(
        f"the trainer's {devices} devices cannot be divided into FSDP groups of {size}: torch refuses a mesh of other "
        "ranks than there are",
        evidence=cite(plan, "parallel.fsdp", TRAINERS, "placement.gpus_per_node", "placement.nodes"),
        fixes=(
            *(
                Fix.unsafe(f"shard over {one} devices", {"parallel.fsdp": one}, side_effects=MORE)
                for one in fitting[-1:]
            ),
            Fix.safe("or over all of them", {"parallel.fsdp": -1}),
        ),
    )


def _fewer_that_share(plan: RolloutPlan, option: str, heads: int = 0) -> Iterator[Fix]:
    """The largest smaller number of the trainer's ranks under one option that divides the heads and the devices."""
    ranks, devices = plan.value(option), plan.value(TRAINERS) or 0
    others = prod(plan.value(other) or 1 for other in _sharing(plan) if other != option)
    fitting = [size for size in range(1, ranks) if heads % size == 0 and devices % (size * others) == 0]
    for size in fitting[-1:]:
        yield Fix.unsafe(
            f"let {size} {option.rpartition('.')[2]} parallel ranks share the model or the sequence",
            {option: size},
            side_effects="each device holds more",
        )


def _sharing(plan: RolloutPlan) -> tuple[str, ...]:
    """The options whose ranks share a model or a sequence in this framework's trainer."""
    if plan.framework in ("verl", "SkyRL", "ROLL", "slime"):
        strategy = plan.value("trainer.strategy")
        return MODEL_PARALLEL if strategy == "megatron" else SEQUENCE if strategy in ("fsdp", "fsdp2") else ()
    if plan.framework == "ms-swift":
        return MODEL_PARALLEL if plan.value("trainer.strategy") == "megatron" else ()
    return {"NeMo-RL": MODEL_PARALLEL, "EasyR1": SEQUENCE, "OpenRLHF": ("parallel.sequence", "parallel.tensor")}.get(
        plan.framework, ()
    )


def _fits(case: Case, ranks: int) -> bool:
    """Whether the model can be shared by so many ranks, as far as its config is there to tell."""
    if case.model is None or case.model.config is None:
        return True
    config = model_config(case)
    heads, kv_heads = model_heads(config)
    return heads is None or kv_heads is None or not _indivisible(ranks, heads, kv_heads, model_width(config))


def _indivisible(ranks: int, heads: int, kv_heads: int, width: int | None) -> str | None:
    """What ``ranks`` does not divide, in words, or None."""
    if heads % ranks:
        return f"{heads} attention heads"
    # More ranks than KV heads share copies of them.
    if kv_heads % ranks and (kv_heads > ranks or ranks % kv_heads):
        return f"{kv_heads} key-value heads"
    if width and width % ranks:
        return f"feed-forward width {width}"
    return None


# What is divided, and by which option's ranks; the first that fits. Numbers stand behind the names.
DIVISIONS = (
    (r"attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)", "attention heads", TENSOR),
    (r"world_size:? ?(\d+) is not divisible by (?:infer_tp|infer_world_size|tp size):? ?(\d+)", "ranks", TENSOR),
    (r"tensor_parallel_size \((?P<by>\d+)\) must divide world size \((?P<of>\d+)\)", "ranks", TENSOR),
    (
        r"num_(?:attention_|key_value_)?heads \(?(\d+)\)? must be divisible by ulysses[^\d]*(\d+)",
        "heads",
        "parallel.sequence",
    ),
    (r"Number of heads \((\d+)\) must be divisible[^\d]*(\d+)", "heads", "parallel.sequence"),
    (r"(\d+) is not divisible by (?:weight quantization block_[nk]|min_thread_[nk]) = (\d+)", "sizes per rank", ""),
    (r"world_size \(?(\d+)\)? (?:must|should) be divisible by[^\d]*(\d+)", "ranks", ""),
    (r"world_size \((\d+)\) is not divisible by (?:\w+ size \()?(\d+)\)?$", "ranks", ""),
    (r"world_size \(\d+\) is not divisible by \w+ \(\d+\) x ", "ranks", ""),
    (r"n_gpus \((\d+)\) must be divisible by model_parallel_size \((\d+)\)", "devices", "parallel.tensor"),
    (
        r"First dimension of the tensor should be divisible by tensor parallel size",
        "tokens of a micro batch, which sequence parallelism shares out,",
        "parallel.tensor",
    ),
    (r"\bvocab_size should be divisible by tp_size", "vocabulary", TENSOR),
    (r"(?:AssertionError|ValueError): (\d+) is not divisible by (\d+)\s*$", "sizes", TENSOR),
)
# Batches are RLD211.
BATCHES = re.compile(r"batch|generations|DataProto|num_engines|critic_world_size", re.IGNORECASE)


@check.logged(
    "must be divisible by",
    "should be divisible by",
    "is not divisible by",
    "must divide world size",
    "must be divisible by tensor parallel size",
)
def refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The engine's and the trainers' assertions on parallel sizes."""
    message = event.line if event.exception is None else f"{event.exception.type}: {event.exception.message}"
    if BATCHES.search(message.split("[type=")[0]):
        return
    for pattern, what, option in DIVISIONS:
        found = re.search(pattern, message, re.MULTILINE)
        if found is None:
            continue
        named = found.groupdict()
        numbers = (named["of"], named["by"]) if named else (*found.groups(), None, None)[:2]
        of, by = (int(n) if n else None for n in numbers)
        counted = f" ({of} by {by})" if of and by else ""
        yield check.finding(
            f"the parallel size does not divide the {what}{counted}", fixes=tuple(_smaller(option, of, by))
        )
        return


def _smaller(option: str, of: int | None, by: int | None) -> Iterator[Fix]:
    size = next((size for size in range(min(by, of), 0, -1) if of % size == 0), None) if of and by else None
    if option and size:
        yield Fix.unsafe(
            f"a parallel size of {size}, which divides {of}",
            {option: size},
            side_effects="each device holds more of the model",
        )
        return
    yield Fix(
        title="lower the tensor parallel size (engine.tensor_parallel_size) to one that divides heads, vocabulary and "
        "the blocks of quantized weights",
    )


# deepspeed/runtime/hybrid_engine.py makes the group for whole multiples of the size alone.
check.signature(
    "'DeepSpeedHybridEngine' object has no attribute 'mp_group'",
    says="DeepSpeed's hybrid engine has no group for this rank: inference_tp_size does not divide the number of ranks, "
    "or is larger",
    fixes=(Fix(title="lower inference_tp_size to one that divides the number of ranks (1 always does)"),),
    url="https://github.com/deepspeedai/DeepSpeedExamples/issues/379",
)
