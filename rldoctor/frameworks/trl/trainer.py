"""What TRL's trainers make of their settings, release by release: batches, sampling, precision, adapters, strategy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor.counted import counted
from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks import releases
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.trl.engine import between, grpo_like
from rldoctor.plan.model import Form, Setting, Source


def batch(draft: Draft) -> None:
    """Completions and prompts of one generation and of one optimizer step."""
    each, total, accumulation = (
        draft.value(f"{name}") for name in ("batch.per_device", "process.total", "batch.accumulation")
    )
    pairs = draft.value("trainer.algorithm") in ("online_dpo", "xpo", "nash_md")
    if pairs or (grpo_like(draft) and between(draft, "0", "0.15")):
        # One prompt per example there, its completions are made inside (grpo_trainer.py 0.14.0 line 469).
        n = 2 if pairs else draft.value("batch.generations")
        if each and n:
            given = draft.settings["batch.per_device"]
            how = f"{each} prompts x {n} completions"
            draft.put("batch.per_device", replace(given, value=each * n, source=Source.DERIVED, how=how, form=None))
            if total:
                draft.derive(
                    "batch.prompts",
                    each * total,
                    f"{each} prompts x {total} processes",
                    "batch.per_device",
                    "process.total",
                )
            each *= n
    if each and total and accumulation:
        how = f"{each} per device x {counted(total, 'process')} x {counted(accumulation, 'step')}"
        draft.derive(
            "batch.train", each * total * accumulation, how, "batch.per_device", "batch.accumulation", "process.total"
        )
    if pairs or not grpo_like(draft):
        return
    if draft.value("trainer.algorithm") == "rloo" and between(draft, "0.22", "0.25"):
        # rloo_config.py 0.22 to 0.24: the older name, which meant something else before
        steps = draft.native("num_mini_batches")
        draft.derive("batch.steps_per_generation", steps, "num_mini_batches, as it was called")
    if between(draft, "0", "0.17"):
        # grpo_trainer.py 0.16.1 line 426
        draft.derive("batch.steps_per_generation", 1, "each micro step generates its own completions")
    elif between(draft, "0.17") and draft.is_open("batch.generation"):
        # 0.17.0 line 598; from 0.18 grpo_config.py __post_init__
        draft.derive("batch.steps_per_generation", accumulation, "gradient_accumulation_steps", "batch.accumulation")
    if each and total:
        _generation(draft, each * total, f"{each} per device x {total} processes")


def _generation(draft: Draft, step: int, how: str) -> None:
    inputs = ("batch.per_device", "batch.steps_per_generation", "batch.accumulation", "process.total")
    steps, given = draft.value("batch.steps_per_generation"), draft.value("batch.generation")
    if steps:
        draft.derive("batch.generation", step * steps, f"{how} x {counted(steps, 'step')}", *inputs)
    elif given and given % step == 0:
        how = f"generation_batch_size {given} / {step}"
        draft.derive("batch.steps_per_generation", given // step, how, "batch.generation")
    generated, n = draft.value("batch.generation"), draft.value("batch.generations")
    if generated and n and generated % n == 0:
        how = f"{generated} completions / {n}"
        draft.derive("batch.prompts", generated // n, how, "batch.generation", "batch.generations", *inputs)


def sampling(draft: Draft) -> None:
    """What the engine is asked, and what the loss assumes."""
    if draft.value("rollout.enabled"):
        draft.derive(
            "sampling.max_tokens", draft.value("lengths.response"), "max_completion_length", "lengths.response"
        )
        draft.derive(
            "sampling.top_k", -1 if "sampling.top_k" in draft.settings else None, "none is all", "sampling.top_k"
        )
        seeded = draft.value("sampling.seed")
        how = "no seed goes with a request" if seeded is None else f"generation_kwargs: seed {seeded}"
        draft.derive("seed.per_request", "none" if seeded is None else "same", how, "sampling.seed")
        draft.derive("rollout.spread", "parts", "each replica gets a contiguous part of the batch")
        if draft.value("placement.mode") in ("colocate", "separate") and grpo_like(draft):
            # n=1: the batch holds each prompt once for every completion (0.14: once, and n completions)
            old = between(draft, "0", "0.15")
            draft.derive(
                "sampling.n",
                draft.value("batch.generations") if old else 1,
                "the batch repeats each prompt",
                "batch.generations",
            )
        if draft.value("trainer.algorithm") not in ("rloo", "online_dpo", "xpo", "nash_md") and between(draft, "0.23"):
            draft.derive("sampling.logprobs", 0, "of the sampled tokens, fixed in TRL")
            draft.derive(
                "rollout.engine_logprobs",
                draft.value("rollout.importance_correction"),
                "importance sampling",
                "rollout.importance_correction",
            )
    if grpo_like(draft):
        if between(draft, "0.16"):
            # "Divide logits by sampling temperature", grpo_trainer.py from 0.16 on
            draft.derive(
                "trainer.temperature",
                draft.value("sampling.temperature"),
                "the sampling temperature",
                "sampling.temperature",
            )
        elif between(draft, "0.14"):
            draft.derive("trainer.temperature", 1.0, "log-probabilities of the unscaled logits")
    if draft.value("lengths.prompt") and between(draft, "0.19", "0.28") and grpo_like(draft):
        # 0.19.1 line 1065, 0.24.0 line 1136: the last max_prompt_length tokens are kept, before the engine gets them
        draft.derive("lengths.truncation", "left", "the last max_prompt_length tokens are kept", "lengths.prompt")
    if any(
        draft.natives.get(f"trainer.{name}") is not None for name in ("tools", "environment_factory", "rollout_func")
    ):
        draft.derive("rollout.tools", True, "the trainer is given tools or an environment")
    strategy = draft.value("trainer.eval_strategy")
    draft.derive(
        "rollout.evaluates", None if strategy is None else strategy != "no", "eval_strategy", "trainer.eval_strategy"
    )


def precision(draft: Draft) -> None:
    """What bf16, fp16 and accelerate's mixed_precision come to."""
    asked = {name: str(draft.native(name)).lower() for name in ("bf16", "fp16") if draft.native(name) is not None}
    if "true" in asked.values():
        name = next(name for name, value in asked.items() if value == "true")
        draft.override("trainer.dtype", {"bf16": "bfloat16", "fp16": "float16"}[name], f"{name} is true")
        native = draft.natives[name]
        draft.put(
            "trainer.dtype",
            replace(
                draft.settings["trainer.dtype"],
                source=Source.GIVEN,
                file=native.file,
                line=native.line,
                key=native.spelled,
            ),
        )
    elif (launcher := draft.launch.process.get("trainer.dtype")) is not None:
        draft.put("trainer.dtype", launcher)
    elif between(draft, "0.19") and "bf16" not in asked:
        # grpo_config.py __post_init__ from 0.19: bf16 = not fp16 where it is not given
        draft.derive("trainer.dtype", "bfloat16", "bf16 is on unless fp16 is")
    elif "bf16" in asked:
        draft.derive("trainer.dtype", "float32", "neither bf16 nor fp16")


def strategy(draft: Draft) -> None:
    """DeepSpeed with what its JSON file says, else data parallel where nothing else is asked for."""
    _deepspeed(draft)
    asked = draft.settings.get("trainer.deepspeed")
    if (draft.value("process.total") or 0) > 1 and (asked is None or asked.unknown is None):
        draft.derive("trainer.strategy", "ddp", "several processes, neither DeepSpeed nor FSDP", "process.total")
    _stored(draft)
    if draft.value("trainer.steps") == -1:
        del draft.settings["trainer.steps"]
    python = draft.launch.python
    if python is not None and python.has_call("gradient_checkpointing_enable"):
        draft.override("trainer.gradient_checkpointing", True, "gradient_checkpointing_enable")


def _stored(draft: Draft) -> None:
    """In which precision TRL's own scripts keep the trained weights. DeepSpeed makes 16-bit copies of them."""
    own = draft.launch.entry.startswith(("trl ", "trl.scripts"))
    setting = draft.settings.get("model.dtype")
    unset = setting is not None and setting.value is None and setting.unknown is None
    quantized = draft.value("model.quantization") or draft.value("lora.quantized")
    if not own or not unset or quantized or draft.value("trainer.strategy") in (None, "deepspeed"):
        return
    if between(draft, "0.12", "0.29") and releases.between(draft, "transformers", "4", "5"):
        draft.derive("trainer.param_dtype", "float32", "transformers before 5 loads so where no dtype is given")


def _deepspeed(draft: Draft) -> None:
    named = draft.value("trainer.deepspeed")
    if not isinstance(named, str):
        return
    draft.derive("trainer.strategy", "deepspeed", f"deepspeed: {named}", "trainer.deepspeed")
    tree = draft.launch.yaml(named) if named.endswith((".json", ".yaml", ".yml")) else None
    if tree is None:
        return
    for key, option in (
        ("stage", "trainer.zero_stage"),
        ("offload_optimizer.device", "trainer.offload_optimizer"),
        ("offload_param.device", "trainer.offload_params"),
    ):
        path = f"zero_optimization.{key}"
        value: Any = tree.get(path)
        if value is not None and draft.is_open(option):
            read = value if key == "stage" else value != "none"
            draft.put(
                option,
                Setting(
                    value=read, source=Source.DERIVED, how=path, file=tree.source.file, line=tree.line(path), key=path
                ),
            )


def adapters(draft: Draft) -> None:
    """Whether adapters are trained, and with which reference model."""
    python = draft.launch.python
    given = draft.natives.get("trainer.peft_config")
    if python is not None and given is not None and given.value is not None and python.has_call("LoraConfig"):
        draft.derive("lora.enabled", True, "peft_config")
    enabled = draft.value("lora.enabled")
    draft.derive("trainer.full", None if enabled is None else not enabled, "adapters or not", "lora.enabled")
    if not enabled:
        for name in [name for name in draft.settings if name.startswith("lora.") and name != "lora.enabled"]:
            if draft.settings[name].source is Source.DEFAULT:
                del draft.settings[name]
    elif between(draft, "0.15"):
        # merge_adapter() before the weights go to the engine
        draft.derive("lora.merged", True, "TRL merges adapters before it sends weights")
    if grpo_like(draft) and between(draft, "0.16"):
        coefficient = draft.value("trainer.kl_coefficient")
        # With adapters the reference is the policy without them.
        kept = None if coefficient is None else coefficient != 0 and not enabled
        draft.derive("trainer.reference", kept, "beta is not 0, and no adapters", "trainer.kl_coefficient")


def rewards(draft: Draft) -> None:
    """The trainer wants a weight for each reward function (`Number of reward weights`); a model that rewards is one
    more of them."""
    weights, functions = _listed(draft, "reward_weights"), _listed(draft, "reward_funcs", "trainer.reward_funcs")
    if not weights or not functions or "reward_model_name_or_path" in draft.natives:
        return
    native, given = weights
    if len(given) != len(functions[1]):
        count = counted(len(functions[1]), "reward function")
        draft.refused.append(
            native.as_refused(
                owner=draft.launch.entry,
                value=str(given),
                takes="a weight for each reward function",
                why=f"{counted(len(given), 'weight')} for {count}, and the trainer refuses that",
            )
        )


def _listed(draft: Draft, *keys: str) -> tuple[Native, list[Any]] | None:
    """What the launch gives for a list, where it is known how many it has; one word behind an option is one entry,
    but of a script of the launch's own a word may stand for several."""
    native = next((draft.natives[key] for key in keys if key in draft.natives), None)
    if native is None:
        return None
    if not isinstance(native.value, list):
        own = native.form is not Form.OPTION or draft.launch.entry.endswith(".py")
        return None if own or type(native.value) not in (int, float, str) else (native, [native.value])
    whole = not any(isinstance(one, Unresolved) and one.raw.startswith("*") for one in native.value)
    return (native, native.value) if whole else None
