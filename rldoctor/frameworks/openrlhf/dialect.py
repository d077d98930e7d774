"""OpenRLHF: ``train_ppo_ray``, its flat options (through 0.10.1) and its dotted ones (from 0.10.2); PPO without Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from rldoctor.formats.native import Native
from rldoctor.frameworks.batch import count_completions
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.openrlhf.place import models, native_or_default, number, placement, with_ray
from rldoctor.frameworks.openrlhf.table import BESIDE, TABLE
from rldoctor.frameworks.releases import between, name_anew, within, writing
from rldoctor.frameworks.rule import Boolean, Rule
from rldoctor.frameworks.spelled import Spelling
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan

# A release of each generation of names, for a launch whose release is not known.
_DOTTED, _FLAT, _TWO_LENGTHS = "0.11.0", "0.10.0", "0.9.0"


def _lengths(draft: Draft) -> None:
    prompt, response = draft.value("lengths.prompt"), draft.value("lengths.response")
    if prompt and response and not between(draft, "openrlhf", "0.9.8"):
        # cli/train_ppo_ray.py through 0.9.7: max_len if given, else the sum
        how = f"prompt {prompt} + response {response}"
        draft.derive("engine.max_model_len", prompt + response, how, "lengths.response", "lengths.prompt")
    elif between(draft, "openrlhf", "0.9.8"):
        draft.derive("lengths.total", draft.value("engine.max_model_len"), "max_len", "engine.max_model_len")
    draft.derive("sampling.max_tokens", response, "the longest response", "lengths.response")


# What the correction of importance sampling asks of the engine.
_CORRECTED: dict[str, object] = {
    "engine.logprobs_mode": "processed_logprobs",
    "engine.max_logprobs": 1,
    "sampling.logprobs": 1,
    "rollout.engine_logprobs": True,
}


def _engine(draft: Draft) -> None:
    """``create_vllm_engines`` (trainer/ray/vllm_engine.py)."""
    _sleep(draft)
    if not with_ray(draft) or draft.value("placement.mode") == "none":
        return
    _replaced(draft)
    ranks = draft.value("engine.tensor_parallel_size") or 1
    if between(draft, "openrlhf", "0.5.6"):
        draft.derive(
            "engine.distributed_executor_backend",
            "uni" if ranks == 1 else "ray",
            f"{ranks} ranks",
            "engine.tensor_parallel_size",
        )
    if between(draft, "openrlhf", "0.6.3"):
        draft.derive(
            "engine.worker_extension_cls", "openrlhf.trainer.ray.vllm_worker_wrap.WorkerWrap", "fixed by OpenRLHF"
        )
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("engine.dtype", "bfloat16", "fixed by OpenRLHF")
    draft.derive("engine.trust_remote_code", True, "fixed by OpenRLHF")
    if draft.value("rollout.importance_correction") and between(draft, "openrlhf", "0.8.9"):
        for option, value in _CORRECTED.items():
            draft.derive(option, value, "importance sampling correction", "rollout.importance_correction")
    agent = bool(draft.value("rollout.tools")) and between(draft, "openrlhf", "0.8")
    asynchronous = agent or between(draft, "openrlhf", "0.9.1")
    draft.derive("rollout.async_engine", asynchronous, "the engine's asynchronous interface")
    if asynchronous:
        draft.override("env.VLLM_USE_V1", "1", "OpenRLHF sets it in the engine's process")


def _sleep(draft: Draft) -> None:
    """Sleep mode, which only colocated models have."""
    if draft.value("engine.enable_sleep_mode") and draft.value("placement.mode") != "colocate":
        draft.override(
            "engine.enable_sleep_mode", False, "switched off: not all models are colocated", "placement.mode"
        )
    sleeping = draft.value("engine.enable_sleep_mode")
    draft.derive("sleep.enabled", sleeping, "the engine's sleep mode", "engine.enable_sleep_mode")
    level, how = (None if sleeping is None else int(sleeping)), "sleep(level=1)" if sleeping else "no sleep mode"
    draft.derive("sleep.level", level, how, "engine.enable_sleep_mode")


def _replaced(draft: Draft) -> None:
    """What releases of OpenRLHF put in the place of what is given."""
    colocated = draft.value("placement.mode") == "colocate"
    share = draft.value("engine.gpu_memory_utilization")
    if between(draft, "openrlhf", "0.5.8", "0.6.0.post1") and colocated and isinstance(share, float) and share >= 0.9:
        draft.override(
            "engine.gpu_memory_utilization",
            0.4,
            "OpenRLHF replaces 0.9 and more when all models are colocated",
            "placement.mode",
        )
    if between(draft, "openrlhf", "0.5", "0.5.8"):
        draft.override("engine.enable_prefix_caching", False, "switched off by OpenRLHF")


def _seeds(draft: Draft) -> None:
    """``seed=seed + i`` for engine i, in all releases; requests have none. Each completion is a request of its own."""
    if not draft.value("placement.engines"):
        return
    seed = draft.value("seed.trainer")
    draft.derive("seed.engine", seed, "--seed", "seed.trainer")
    draft.derive("engine.seed", seed, "seed + index of the engine", "seed.trainer")
    draft.derive("seed.per_replica", "replica", "seed + index of the engine", "seed.trainer")
    draft.derive("seed.per_request", "none", "no seed in the requests")
    draft.derive("sampling.n", 1, "each completion is a request of its own")
    if between(draft, "openrlhf", "0.9.1"):
        draft.derive("rollout.spread", "prompt", "each prompt's samples go to the engine that has the fewest")
    elif between(draft, "openrlhf", "0"):
        draft.derive("rollout.spread", "parts", "each engine gets a contiguous part of the batch")
    draft.derive("sampling.skip_special_tokens", False, "fixed by OpenRLHF")
    draft.derive("sampling.min_tokens", 1, "fixed by OpenRLHF")


def _batch(draft: Draft) -> None:
    count_completions(draft)
    train, micro = draft.value("batch.train"), draft.value("batch.per_device")
    world = draft.value("placement.trainer_gpus") if with_ray(draft) else draft.value("process.total")
    inner = (draft.value("parallel.sequence") or 1) * (draft.value("parallel.tensor") or 1)
    if not world or world % inner:
        return
    # utils/deepspeed/deepspeed.py: train_batch_size * ring * tensor // micro // world
    draft.derive(
        "parallel.data", world // inner, f"{world} ranks / {inner}", "parallel.sequence", "placement.gpus_per_node"
    )
    if train and micro and not draft.value("batch.dynamic") and train % (micro * (world // inner)) == 0:
        how = f"{train} completions / {world // inner} ranks / {micro}"
        draft.derive("batch.accumulation", train // (world // inner) // micro, how, "batch.train", "batch.per_device")


def _trainer(draft: Draft) -> None:
    draft.derive("trainer.strategy", "deepspeed", "fixed by OpenRLHF")
    draft.derive(
        "trainer.temperature", draft.value("sampling.temperature"), "the sampling temperature", "sampling.temperature"
    )
    rank = draft.value("lora.rank", 0)
    draft.derive("lora.enabled", rank > 0, f"lora_rank {rank}", "lora.rank")
    draft.derive("trainer.full", rank <= 0, f"lora_rank {rank}", "lora.rank")
    asked = {
        "temperature": number(native_or_default(draft, "eval_temperature", "eval.temperature"), "float"),
        "n": number(native_or_default(draft, "eval_n_samples_per_prompt", "eval.n_samples_per_prompt"), "int"),
    }
    draft.settings.pop("rollout.eval_sampling", None)
    found = {name: value for name, value in asked.items() if value is not None}
    draft.derive("rollout.eval_sampling", found or None, "sampling of evaluation")
    draft.derive("rollout.evaluates", False, "no evaluation data")


class OpenRLHF(Dialect):
    name, owner = "OpenRLHF", "openrlhf"
    own_code = ("remote_rm_url", "reward.remote_url", "agent_func_path", "train.agent_func_path")
    entries = ("openrlhf.cli.train_ppo*", "*train_ppo_ray*", "*openrlhf/cli/train_ppo.py")
    booleans = Boolean.FLAG
    abbreviations = True
    exact = True
    words: ClassVar[Mapping[str, str]] = dict.fromkeys(("vllm_sync_backend", "vllm.sync_backend"), "nccl gloo")
    groups: ClassVar[Mapping[str, str]] = {"*train_ppo": "openrlhf:train_ppo", "*train_ppo.py": "openrlhf:train_ppo"}
    table: ClassVar[Mapping[str, str | Rule]] = TABLE
    beside = BESIDE
    derivations = (models, placement, _lengths, _engine, _seeds, _batch, _trainer)

    def option_group(self, launch: Launch, native: Native) -> str | None:
        """None for a script of that name outside the package, which may have a parser of its own."""
        if native.form is Form.OPTION and launch.entry.endswith(".py") and "openrlhf/" not in launch.entry:
            return None
        return super().option_group(launch, native)

    def claims(self, launch: Launch) -> int:
        """Its entry points, and a fork's with its telling option."""
        found = super().claims(launch)
        telling = ("--vllm_num_engines", "--vllm.num_engines")
        return found or (60 if any(word.text.partition("=")[0] in telling for word in launch.words) else 0)

    def check_known(self, draft: Draft, native: Native) -> None:
        """As everywhere; what another release calls otherwise is named as this one does."""
        first = len(draft.unknown)
        super().check_known(draft, native)
        name_anew(self, draft, first)

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """In the names of the plan's release, or of the generation that its options are of."""
        from rldoctor.frameworks.spelling import spell

        if edit.option == "sleep.enabled":
            edit = replace(edit, option="engine.enable_sleep_mode")
        return spell(writing(OpenRLHF, _generation(plan), plan_group(plan)), edit, plan)


def plan_group(plan: RolloutPlan) -> str:
    """The table of a plan's options."""
    return "train_ppo_ray" if "ray" in plan.entry else "train_ppo"


def _generation(plan: RolloutPlan) -> str:
    if plan.version is not None and within(plan.version, "0"):
        return plan.version
    keys = {given.key for given in plan.given if given.form is Form.OPTION}
    if any("." in key for key in keys):
        return _DOTTED
    return _TWO_LENGTHS if {"prompt_max_len", "generate_max_len"} & keys or "max_len" not in keys else _FLAT


DIALECT = OpenRLHF()
