"""Options that exclude or silently override each other.

What it looks for
    Pairs of settings of which the framework refuses the combination, or drops one: a colocated engine with the
    address of a rollout server, two settings of which one gives the other.

Why it hurts
    A refused pair costs a start. A dropped one costs the run: it trains in another mode, on other devices and with
    other memory than the file says, and nothing in the log looks wrong.

How sure it is
    Each row is one condition in the framework's source, for the versions that have it.

The fix and its cost
    Say one thing: keep the mode that was meant and take out what belongs to the other.

References
    ms-swift ``swift/llm/argument/rlhf_args.py`` (3.5.0 line 163: a server host switches the mode; 3.12.0 line 365: it
    does not), https://github.com/modelscope/ms-swift/issues/4275
    TRL ``trl/trainer/grpo_trainer.py`` (``vllm_mode``), ``grpo_config.py`` (``__post_init__``)
    verl ``vllm_rollout_spmd.py`` (0.4.1 line 90), ``workers/config/rollout.py`` (0.7.0 line 225), ``ray_trainer.py``
    OpenRLHF ``openrlhf/cli/train_ppo_ray.py``, NeMo-RL ``nemo_rl/algorithms/grpo.py`` (0.4.0 line 1564)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    Reach,
    RolloutPlan,
    cite,
    find,
    plan_of,
    version_within,
)

check = Check("RLD212", "mode-flags-conflict", __doc__)

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


def _asked(plan: RolloutPlan, option: str) -> Any:
    """What the launch itself says of an option, which is not always what becomes of it."""
    return next((given.value for given in reversed(plan.given) if given.option == option), None)


def _said(plan: RolloutPlan, *options: str) -> bool:
    """Whether the launch itself sets one of the options."""
    found = (plan.get(option) for option in options)
    return any(s is not None and s.source in ("given", "environment") and s.value is not None for s in found)


def _switched(plan: RolloutPlan, to: str) -> bool:
    """ms-swift takes the mode by whether a server is named; the launch says another one."""
    return plan.value(MODE) == to and _asked(plan, MODE) not in (None, to)


def _server_mode(applicability: Applicability) -> Fix:
    return Fix(
        title="say server, where the server is meant",
        applicability=applicability,
        edits=(Edit(option=MODE, value="server"),),
        side_effects="the settings of the colocated engine do not count",
    )


_NO_SERVER = Fix(title="or, where the colocated engine is meant, take out the server's host, port or URL")
_SYNCHRONOUS = Fix(
    title="generate synchronously",
    applicability=Applicability.SAFE,
    edits=(Edit(option="rollout.async", value=False),),
    side_effects="generation and training no longer overlap",
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
        (_server_mode(Applicability.SAFE), _NO_SERVER),
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
        lambda plan: plan.value(MODE) == "colocate" and _said(plan, *SERVER),
        "vllm_mode colocate together with the address of a rollout server: the trainer connects to the server at start "
        "and samples with an engine of its own",
        (MODE, *SERVER),
        (_server_mode(Applicability.UNSAFE), _NO_SERVER),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.5",
        lambda plan: plan.value("rollout.async") is True and plan.value(MODE) == "colocate",
        "async_generate needs a rollout server: ms-swift asserts that vllm_mode is server",
        ("rollout.async", MODE),
        (_SYNCHRONOUS,),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.2.2,<3.5",
        lambda plan: plan.value("rollout.async") is True and plan.value(MODE) == "colocate",
        "async_generate with an engine on every training device: ms-swift asserts that the engines have devices of "
        "their own",
        ("rollout.async", MODE, "process.nproc"),
        (_SYNCHRONOUS,),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.5",
        lambda plan: plan.value("rollout.async") is True and bool(plan.value("rollout.multi_turn")),
        "async_generate does not go with dialogues of several turns: ms-swift raises NotImplementedError",
        ("rollout.async", "rollout.multi_turn"),
        (_SYNCHRONOUS,),
    ),
    Conflict(
        ("TRL", "open-r1"),
        "trl",
        ">=0.18",
        lambda plan: plan.value(MODE) == "colocate" and _said(plan, *SERVER),
        "vllm_mode colocate together with the address of a rollout server: the server is never asked",
        (MODE, *SERVER),
        (_server_mode(Applicability.UNSAFE), _NO_SERVER),
    ),
    Conflict(
        ("TRL", "open-r1"),
        "trl",
        ">=0.22",
        lambda plan: _said(plan, "batch.generation") and _said(plan, "batch.steps_per_generation"),
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
        (
            Fix(
                title="run without CUDA graphs",
                applicability=Applicability.SAFE,
                edits=(Edit(option="engine.enforce_eager", value=True),),
                side_effects="decoding is slower",
            ),
        ),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.7",
        lambda plan: plan.value("rollout.async_engine") is False and _said(plan, "rollout.async_engine"),
        "rollout.mode=sync: verl has removed it and refuses to start",
        ("rollout.async_engine",),
        (
            Fix(
                title="take the asynchronous engine",
                applicability=Applicability.SAFE,
                edits=(Edit(option="rollout.async_engine", value=True),),
            ),
        ),
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
        (
            Fix(
                title="remove the padding",
                applicability=Applicability.SAFE,
                edits=(Edit(option="batch.packing", value=True),),
            ),
        ),
    ),
    Conflict(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.8",
        lambda plan: (
            plan.value("rollout.async") is True
            and _asked(plan, MODE) == "colocate"
            and _asked(plan, "engine.enable_sleep_mode") is True
        ),
        "async_train together with vllm_enable_sleep: OpenRLHF asserts that an engine which generates all the "
        "time does "
        "not sleep",
        ("rollout.async", "engine.enable_sleep_mode"),
        (
            Fix(
                title="leave the engine awake",
                applicability=Applicability.SAFE,
                edits=(Edit(option="engine.enable_sleep_mode", value=False),),
            ),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4",
        lambda plan: plan.value("rollout.async") is True and plan.value("rollout.async_engine") is False,
        "asynchronous GRPO needs the asynchronous engine: NeMo-RL asserts vllm_cfg.async_engine",
        ("rollout.async", "rollout.async_engine"),
        (
            Fix(
                title="take the asynchronous engine",
                applicability=Applicability.SAFE,
                edits=(Edit(option="rollout.async_engine", value=True),),
            ),
        ),
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
            Fix(
                title="or train synchronously",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="rollout.async", value=False),),
            ),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4",
        lambda plan: plan.value("rollout.async") is True and plan.value("rollout.importance_correction") is False,
        "asynchronous GRPO trains on samples of older weights: NeMo-RL asserts use_importance_sampling_correction",
        ("rollout.async", "rollout.importance_correction"),
        (
            Fix(
                title="correct for the difference",
                applicability=Applicability.SAFE,
                edits=(Edit(option="rollout.importance_correction", value=True),),
            ),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4",
        lambda plan: plan.value("engine.pipeline_parallel_size", 1) > 1 and plan.value("rollout.async_engine") is False,
        "pipeline parallel engines need the asynchronous engine: NeMo-RL asserts vllm_cfg.async_engine",
        ("engine.pipeline_parallel_size", "rollout.async_engine"),
        (
            Fix(
                title="take the asynchronous engine",
                applicability=Applicability.SAFE,
                edits=(Edit(option="rollout.async_engine", value=True),),
            ),
        ),
    ),
)


@check.declared(needs=["plan"])
def conflicting(case: Case) -> Iterator[Finding | Reach]:
    """The combinations that are known for this framework."""
    plan = plan_of(case)
    known = [row for row in CONFLICTS if plan.framework in row.frameworks and _holds(row, case)]
    if not known:
        raise NotApplicable(f"no conflict is known for this release of {plan.framework}")
    for row in known:
        if row.holds(plan):
            yield check.finding(row.message, evidence=cite(plan, *row.cites), fixes=row.fixes)
    yield Reach(f"{len(known)} combinations")


def _holds(row: Conflict, case: Case) -> bool:
    found = find(case.packages, row.package) if case.packages is not None else None
    return found is not None and version_within(found.version, row.versions) is True


# What the framework prints -> what is wrong, and the fixes.
REFUSALS: dict[str, tuple[str, tuple[Fix, ...]]] = {
    "set vllm_mode to `server` since vllm": (
        "a rollout server is named, so ms-swift switched vllm_mode from colocate to server and dropped the settings of "
        "the colocated engine",
        (_server_mode(Applicability.UNSAFE), _NO_SERVER),
    ),
    "set vllm_mode to `colocate` since vllm": (
        "no rollout server is named, so ms-swift switched vllm_mode from server to colocate",
        (Fix(title="name the server: --vllm_server_host HOST --vllm_server_port PORT"),),
    ),
    "vllm_mode is required when use_vllm is true": (
        "use_vllm without vllm_mode: ms-swift no longer chooses one",
        (
            Fix(
                title="say colocate (or server, with the server's address)",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option=MODE, value="colocate"),),
            ),
        ),
    ),
    "vllm_mode is not supported when use_vllm is false": (
        "vllm_mode is given and vLLM is switched off",
        (
            Fix(
                title="switch vLLM on",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="rollout.backend", value="vllm"),),
            ),
        ),
    ),
    "async generate require vllm_mode == server": ("asynchronous generation needs a rollout server", (_SYNCHRONOUS,)),
    "async_generate requires async mode, but you are under colocate mode": (
        "asynchronous generation with an engine on every training device",
        (_SYNCHRONOUS,),
    ),
    "async_generate is not supported with multi-turn": (
        "asynchronous generation does not go with dialogues of several turns",
        (_SYNCHRONOUS,),
    ),
    "'generation_batch_size' and 'steps_per_generation' can not be both configured": (
        "generation_batch_size and steps_per_generation are both given, and one gives the other",
        (Fix(title="give one of the two"),),
    ),
    "(enforce_eager = False) if free cache engine": (
        "verl frees the engine's cache, which its release does not combine with CUDA graphs",
        (
            Fix(
                title="run without CUDA graphs",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="engine.enforce_eager", value=True),),
            ),
        ),
    ),
    "Rollout mode 'sync' has been removed": (
        "this verl has no synchronous rollout any more",
        (
            Fix(
                title="take the asynchronous engine",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="rollout.async_engine", value=True),),
            ),
        ),
    ),
    "you must enable `use_remove_padding`": (
        "sequence parallel ranks need use_remove_padding",
        (
            Fix(
                title="remove the padding",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="batch.packing", value=True),),
            ),
        ),
    ),
    "Async RLHF is not supported with --vllm_enable_sleep": (
        "an engine that generates all the time cannot sleep",
        (
            Fix(
                title="leave the engine awake",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="engine.enable_sleep_mode", value=False),),
            ),
        ),
    ),
    "Async GRPO requires vLLM backend with vllm_cfg.async_engine=True": (
        "asynchronous GRPO needs the asynchronous engine",
        (
            Fix(
                title="take the asynchronous engine",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="rollout.async_engine", value=True),),
            ),
        ),
    ),
    "When pipeline_parallel_size > 1, async_engine must be set to True": (
        "pipeline parallel engines need the asynchronous engine",
        (
            Fix(
                title="take the asynchronous engine",
                applicability=Applicability.UNSAFE,
                edits=(Edit(option="rollout.async_engine", value=True),),
            ),
        ),
    ),
}


@check.logged(*REFUSALS)
def refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The framework's own words."""
    said, fixes = REFUSALS[event.literal]
    yield check.finding(said, fixes=fixes)
