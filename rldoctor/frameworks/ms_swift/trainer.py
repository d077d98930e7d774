"""Batches, evaluation, adapters and strategy of ms-swift's trainers, release by release."""

from __future__ import annotations

import math

from rldoctor.counted import counted
from rldoctor.formats.values import convert
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.ms_swift.place import megatron, serves, world
from rldoctor.frameworks.releases import between
from rldoctor.frameworks.trl.trainer import strategy

# swift/config (llm/ds_config before 4.0): stage, and whether optimizer states and weights are in host memory.
_PRESETS = {
    "zero0": (0, False, False),
    "zero1": (1, False, False),
    "zero2": (2, False, False),
    "zero3": (3, False, False),
    "zero2_offload": (2, True, False),
    "zero3_offload": (3, True, True),
}


def batch(draft: Draft) -> None:
    """Completions of one generation and of one optimizer step."""
    if serves(draft):
        return
    if draft.value("trainer.algorithm", "grpo") != "grpo":
        # Groups are GRPO's; num_generations has a default in every command.
        draft.settings.pop("batch.generations", None)
    if megatron(draft):
        _megatron(draft)
    else:
        _accumulation(draft)
        _huggingface(draft)
    generation, n = draft.value("batch.generation"), draft.value("batch.generations")
    if generation and n and generation % n == 0:
        draft.derive(
            "batch.prompts", generation // n, f"{generation} completions / {n}", "batch.generation", "batch.generations"
        )


def _accumulation(draft: Draft) -> None:
    """trainers/arguments.py: so that a step has 16 examples; 1 for GRPO from 3.7 on (llm/argument/rlhf_args.py)."""
    each, total = draft.value("batch.per_device"), world(draft)
    grpo = draft.value("trainer.algorithm") == "grpo"
    if grpo and between(draft, "ms-swift", "3.2.2", "3.4") and draft.value("sleep.level"):
        draft.override("batch.accumulation", 1, "ms-swift sets it to 1 when the engine sleeps", "sleep.level")
    elif grpo and between(draft, "ms-swift", "3.7"):
        draft.derive("batch.accumulation", 1, "1 for GRPO unless given")
    elif each and total and between(draft, "ms-swift", "3.2"):
        draft.derive(
            "batch.accumulation",
            max(1, math.ceil(16 / each / total)),
            "16 examples a step unless given",
            "batch.per_device",
        )


def _huggingface(draft: Draft) -> None:
    each, total, accumulation = draft.value("batch.per_device"), world(draft), draft.value("batch.accumulation")
    given, steps = draft.value("batch.generation"), draft.value("batch.steps_per_generation")
    if between(draft, "ms-swift", "3.2", "3.5"):
        # grpo_trainer.py: every micro step generates its own
        draft.derive("batch.steps_per_generation", 1, "each micro step generates its own completions")
    elif given is None and between(draft, "ms-swift", "3.5"):
        why = "gradient_accumulation_steps"
        draft.derive("batch.steps_per_generation", accumulation, why, "batch.accumulation")
    if not each or not total:
        return
    how, inputs = f"{each} per device x {total} processes", ("batch.per_device", "process.nproc")
    if given and steps is None and given % (each * total) == 0:
        draft.derive("batch.steps_per_generation", given // (each * total), f"{given} completions / ({how})", *inputs)
    steps = draft.value("batch.steps_per_generation")
    if steps:
        whole = f"{how} x {counted(steps, 'step')}"
        draft.derive("batch.generation", each * total * steps, whole, *inputs, "batch.steps_per_generation")
    if accumulation:
        whole = f"{how} x {counted(accumulation, 'step')}"
        draft.derive("batch.train", each * total * accumulation, whole, *inputs, "batch.accumulation")


def _megatron(draft: Draft) -> None:
    """megatron/arguments/megatron_args.py: global_batch_size counts completions."""
    total, train, micro = world(draft), draft.value("batch.train"), draft.value("batch.per_device")
    inner = math.prod((draft.value(f"parallel.{name}") or 1) for name in ("tensor", "pipeline", "context"))
    if total and inner and total % inner == 0:
        data = total // inner
        draft.derive("parallel.data", data, f"{total} processes / {inner}", "parallel.tensor", "process.nproc")
        if train and micro and train % (micro * data) == 0:
            draft.derive(
                "batch.accumulation",
                train // (micro * data),
                f"{train} / {micro} per device / {data} ranks",
                "batch.train",
            )
    if not train:
        return
    given = draft.value("batch.generation")
    if given and train and given % train == 0:
        draft.derive(
            "batch.steps_per_generation",
            given // train,
            f"{given} completions / {train}",
            "batch.generation",
            "batch.train",
        )
    elif given is None:
        draft.derive("batch.steps_per_generation", 1, "1 unless given")
        steps = draft.value("batch.steps_per_generation")
        if steps:
            draft.derive(
                "batch.generation",
                train * steps,
                f"{train} completions x {counted(steps, 'step')}",
                "batch.train",
                "batch.steps_per_generation",
            )


def evaluation(draft: Draft) -> None:
    """Whether evaluation runs, and drives the same engine (llm/argument/train_args.py)."""
    if serves(draft) or draft.value("trainer.algorithm") not in ("grpo", "gkd", "ppo"):
        return
    asked = draft.value("trainer.eval_strategy")
    if asked is None and between(draft, "ms-swift", "3.2"):
        asked = str(draft.native("save_strategy") or "steps")
        draft.derive("trainer.eval_strategy", asked, "as save_strategy")
    data = _evaluation_data(draft)
    if data is False and asked not in (None, "no") and between(draft, "ms-swift", "3.6"):
        draft.override("trainer.eval_strategy", "no", "there is no evaluation data")
        asked = "no"
    if asked == "no" or data is False:
        draft.derive("rollout.evaluates", False, "no evaluation", "trainer.eval_strategy")
    elif asked is not None and data:
        draft.derive("rollout.evaluates", True, f"eval_strategy {asked}", "trainer.eval_strategy")


def _evaluation_data(draft: Draft) -> bool | None:
    if any(draft.natives.get(key) is not None for key in ("val_dataset", "eval_dataset", "cached_val_dataset")):
        return True
    ratio = draft.native("split_dataset_ratio")
    if ratio is None:
        # base_args/data_args.py: 0.01 through 3.5, 0 from 3.6
        ratio = 0.01 if between(draft, "ms-swift", "3.2", "3.6") else 0 if between(draft, "ms-swift", "3.6") else None
    try:
        share = convert(ratio, "float")
    except ValueError:
        return None
    return share > 0 if isinstance(share, int | float) else None


def training(draft: Draft) -> None:
    """Adapters, precision, strategy, the reference model."""
    if serves(draft):
        return
    algorithm = draft.value("trainer.algorithm")
    if algorithm not in (None, "grpo", "gkd", "ppo"):
        # The sequence's length there, not the prompt's.
        draft.settings.pop("lengths.prompt", None)
    if draft.value("process.launcher") is not None or megatron(draft):
        draft.derive("trainer.strategy", "megatron" if megatron(draft) else None, "Megatron")
    named = draft.value("trainer.deepspeed")
    if isinstance(named, str) and named in _PRESETS:
        stage, optimizer, weights = _PRESETS[named]
        for option, value in (
            ("trainer.zero_stage", stage),
            ("trainer.offload_optimizer", optimizer),
            ("trainer.offload_params", weights),
        ):
            draft.derive(option, value, f"deepspeed {named}", "trainer.deepspeed")
    strategy(draft)
    full = draft.value("trainer.full")
    draft.derive("lora.enabled", None if full is None else not full, "train_type or tuner_type", "trainer.full")
    if full:
        for name in (
            "lora.rank",
            "lora.alpha",
            "lora.dropout",
            "lora.target_modules",
            "lora.modules_to_save",
            "lora.dora",
        ):
            draft.settings.pop(name, None)
    draft.derive("trainer.dtype", draft.value("model.dtype"), "torch_dtype", "model.dtype")
    draft.derive(
        "trainer.temperature", draft.value("sampling.temperature"), "the sampling temperature", "sampling.temperature"
    )
    weight = draft.value("trainer.kl_coefficient")
    if algorithm == "grpo":
        if weight is None and between(draft, "ms-swift", "3.2"):
            draft.derive("trainer.kl_coefficient", 0.04, "0.04 for GRPO unless given")
            weight = draft.value("trainer.kl_coefficient")
        # With adapters the reference is the policy without them.
        draft.derive(
            "trainer.reference",
            None if weight is None or full is None else bool(weight) and full,
            f"beta {weight}",
            "trainer.kl_coefficient",
        )
