"""Settings that do not go together in a framework, by release: the table of RLD212."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rldoctor.api import (
    Applicability,
    Edit,
    Fix,
    RolloutPlan,
)

MODE = "placement.mode"
SERVER = ("placement.server_host", "placement.server_url")


@dataclass(frozen=True)
class Conflict:
    """Settings that do not go together in the ``versions`` of a ``package``, and what the framework makes of them."""

    frameworks: tuple[str, ...]
    package: str
    versions: str
    holds: Callable[[RolloutPlan], bool]
    message: str
    cites: tuple[str, ...]
    fixes: tuple[Fix, ...]


def asked(plan: RolloutPlan, option: str) -> Any:
    """What the launch itself says of an option, which is not always what becomes of it."""
    return next((given.value for given in reversed(plan.given) if given.option == option), None)


def said(plan: RolloutPlan, *options: str) -> bool:
    """Whether the launch itself sets one of the options."""
    found = (plan.get(option) for option in options)
    return any(s is not None and s.source in ("given", "environment") and s.value is not None for s in found)


def _switched(plan: RolloutPlan, to: str) -> bool:
    """ms-swift takes the mode by whether a server is named; the launch says another one."""
    return plan.value(MODE) == to and asked(plan, MODE) not in (None, to)


def server_mode(applicability: Applicability) -> Fix:
    return Fix(
        title="say server, where the server is meant",
        applicability=applicability,
        edits=(Edit(option=MODE, value="server"),),
        side_effects="the settings of the colocated engine do not count",
    )


NO_SERVER = Fix(title="or, where the colocated engine is meant, take out the server's host, port or URL")
SYNCHRONOUS = Fix.safe(
    "generate synchronously", {"rollout.async": False}, side_effects="generation and training no longer overlap"
)


CONFLICTS = (
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.5,<3.12",
        lambda plan: _switched(plan, "server"),
        "vllm_mode colocate together with the address of a rollout server: ms-swift switches to server mode and drops "
        "the settings of the colocated engine",
        (MODE, *SERVER, "engine.gpu_memory_utilization", "engine.tensor_parallel_size"),
        (server_mode(Applicability.SAFE), NO_SERVER),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.5,<3.12",
        lambda plan: _switched(plan, "colocate"),
        "vllm_mode server without the address of a rollout server: ms-swift switches to colocate mode and starts an "
        "engine on the trainer's devices",
        (MODE, "placement.server_port"),
        (Fix(title="name the server: --vllm_server_host HOST --vllm_server_port PORT"),),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.12",
        lambda plan: plan.value(MODE) == "colocate" and said(plan, *SERVER),
        "vllm_mode colocate together with the address of a rollout server: the trainer connects to the server at start "
        "and samples with an engine of its own",
        (MODE, *SERVER),
        (server_mode(Applicability.UNSAFE), NO_SERVER),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.5",
        lambda plan: plan.value("rollout.async") is True and plan.value(MODE) == "colocate",
        "async_generate needs a rollout server: ms-swift asserts that vllm_mode is server",
        ("rollout.async", MODE),
        (SYNCHRONOUS,),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.2.2,<3.5",
        lambda plan: plan.value("rollout.async") is True and plan.value(MODE) == "colocate",
        "async_generate with an engine on every training device: ms-swift asserts that the engines have devices of "
        "their own",
        ("rollout.async", MODE, "process.nproc"),
        (SYNCHRONOUS,),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.5",
        lambda plan: plan.value("rollout.async") is True and bool(plan.value("rollout.multi_turn")),
        "async_generate does not go with dialogues of several turns: ms-swift raises NotImplementedError",
        ("rollout.async", "rollout.multi_turn"),
        (SYNCHRONOUS,),
    ),
    Conflict(
        ("TRL", "open-r1"),
        "trl",
        ">=0.18",
        lambda plan: plan.value(MODE) == "colocate" and said(plan, *SERVER),
        "vllm_mode colocate together with the address of a rollout server: the server is never asked",
        (MODE, *SERVER),
        (server_mode(Applicability.UNSAFE), NO_SERVER),
    ),
    Conflict(
        ("TRL", "open-r1"),
        "trl",
        ">=0.22",
        lambda plan: said(plan, "batch.generation") and said(plan, "batch.steps_per_generation"),
        "generation_batch_size and steps_per_generation are both given: TRL refuses, since one gives the other",
        ("batch.generation", "batch.steps_per_generation"),
        (Fix(title="give one of the two"),),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.2,<0.5",
        lambda plan: plan.value("engine.enforce_eager") is False and plan.value("sleep.enabled") is True,
        "enforce_eager=False together with free_cache_engine=True: verl asserts that CUDA graphs are off where the "
        "cache is freed",
        ("engine.enforce_eager", "sleep.enabled"),
        (Fix.safe("run without CUDA graphs", {"engine.enforce_eager": True}, side_effects="decoding is slower"),),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.7",
        lambda plan: plan.value("rollout.async_engine") is False and said(plan, "rollout.async_engine"),
        "rollout.mode=sync: verl has removed it and refuses to start",
        ("rollout.async_engine",),
        (Fix.safe("take the asynchronous engine", {"rollout.async_engine": True}),),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.2,<0.8",
        lambda plan: (
            plan.value("parallel.sequence", 1) > 1
            and plan.value("batch.packing") is False
            and plan.value("trainer.strategy", "fsdp") in ("fsdp", "fsdp2")
        ),
        "sequence parallel ranks without use_remove_padding: verl asserts both",
        ("parallel.sequence", "batch.packing"),
        (Fix.safe("remove the padding", {"batch.packing": True}),),
    ),
    Conflict(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.8",
        lambda plan: (
            plan.value("rollout.async") is True
            and asked(plan, MODE) == "colocate"
            and asked(plan, "engine.enable_sleep_mode") is True
        ),
        "async_train together with vllm_enable_sleep: OpenRLHF asserts that an engine which generates all the "
        "time does "
        "not sleep",
        ("rollout.async", "engine.enable_sleep_mode"),
        (Fix.safe("leave the engine awake", {"engine.enable_sleep_mode": False}),),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4",
        lambda plan: plan.value("rollout.async") is True and plan.value("rollout.async_engine") is False,
        "asynchronous GRPO needs the asynchronous engine: NeMo-RL asserts vllm_cfg.async_engine",
        ("rollout.async", "rollout.async_engine"),
        (Fix.safe("take the asynchronous engine", {"rollout.async_engine": True}),),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4,<0.6",
        lambda plan: plan.value("rollout.async") is True and plan.value(MODE) == "colocate",
        "asynchronous GRPO needs engines on devices of their own",
        ("rollout.async", MODE),
        (
            Fix(title="give the engines devices: policy.generation.colocated.enabled=false with its resources"),
            Fix.unsafe("or train synchronously", {"rollout.async": False}),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4",
        lambda plan: plan.value("rollout.async") is True and plan.value("rollout.importance_correction") is False,
        "asynchronous GRPO trains on samples of older weights: NeMo-RL asserts use_importance_sampling_correction",
        ("rollout.async", "rollout.importance_correction"),
        (Fix.safe("correct for the difference", {"rollout.importance_correction": True}),),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4",
        lambda plan: plan.value("engine.pipeline_parallel_size", 1) > 1 and plan.value("rollout.async_engine") is False,
        "pipeline parallel engines need the asynchronous engine: NeMo-RL asserts vllm_cfg.async_engine",
        ("engine.pipeline_parallel_size", "rollout.async_engine"),
        (Fix.safe("take the asynchronous engine", {"rollout.async_engine": True}),),
    ),
)
