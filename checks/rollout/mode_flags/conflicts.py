"""Settings that do not go together in a framework, by release: the table of RLD212."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rldoctor.api import Applicability, Edit, Fix, RolloutPlan

from ..batch_divisibility.operands import validates

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


MODES = (
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
            and asked(plan, MODE) in (True, "colocate")  # a flag
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


DYNAMIC = "batch.dynamic"
UPDATE, EXPERIENCE, REFERENCE = "batch.per_device", "batch.logprob_per_device", "batch.reference_per_device"


def _given(plan: RolloutPlan, ending: str) -> Any:
    """The value of a native setting that no canonical name stands for; None where the launch does not give it."""
    return next((g.value for g in reversed(plan.given) if g.key == ending or g.key.endswith(f".{ending}")), None)


def _without(plan: RolloutPlan, option: str, older: str) -> bool:
    """Whether neither the micro batch per device nor its older name has a value, and the batch is not packed by
    tokens. A launch that sets none of them is an excerpt, or has them from a file that is not at hand."""
    if not any((setting := plan.get(name)) and setting.source == "given" for name in (UPDATE, EXPERIENCE, REFERENCE)):
        return False
    if any("micro_batch" in name for unknown in plan.unknown for name in (unknown.key, *unknown.nearest)):
        return False  # it is given under another name, which is the finding
    setting = plan.get(option)
    missing = setting is not None and setting.value is None and not setting.unknown
    return missing and plan.value(DYNAMIC) is False and validates(plan) and _given(plan, older) is None


def _layers_before_the_base(plan: RolloutPlan) -> bool:
    """Adapters summoned layer by layer, for an engine that has not loaded the model they belong to."""
    adapted = (plan.value("lora.rank") or 0) > 0 and plan.value("sync.layered") is True
    dummy = "dummy" in str(plan.value("engine.load_format") or "")
    return adapted and dummy and plan.value("trainer.strategy", "fsdp") in ("fsdp", "fsdp2")


def _roles_differ(plan: RolloutPlan) -> bool:
    sizes, shared = plan.value("placement.roles", {}), plan.value("placement.colocated_roles", [])
    both = [sizes.get(role) for role in ("actor", "reference") if role in shared]
    return len(both) == 2 and None not in both and both[0] != both[1]


def _small_batches(option: str, name: str) -> tuple[Fix, ...]:
    return (
        Fix.safe(
            f"say how many sequences one device takes at a time ({name}), here the fewest",
            {option: 1},
            side_effects="slower than a larger micro batch that still fits",
        ),
        Fix.unsafe(
            "or pack by tokens: use_dynamic_bsz, with ppo_max_token_len_per_gpu of at least prompt plus response",
            {DYNAMIC: True},
        ),
    )


def _one_kl_term(plan: RolloutPlan) -> bool:
    in_loss = _given(plan, "trainer.algorithm.use_kl_loss")
    return _given(plan, "trainer.algorithm.use_kl_in_reward") is True and in_loss is not False


def _longer_input(plan: RolloutPlan) -> bool:
    """A limit on the input of a single turn that is not the limit on the prompt."""
    limit, prompt = _given(plan, "generator.max_input_length"), plan.value("lengths.prompt")
    return (
        isinstance(limit, int) and isinstance(prompt, int) and plan.value("lengths.turns", 1) == 1 and limit != prompt
    )


def _offline_not_batched(plan: RolloutPlan) -> bool:
    return plan.value("rollout.async_engine") is False and _given(plan, "generator.batched") is not True


WORKERS = (
    Conflict(
        ("verl",),
        "verl",
        ">=0.2,<1",
        lambda plan: _without(plan, UPDATE, "actor.ppo_micro_batch_size"),
        "the actor has neither a micro batch size nor dynamic batches: verl refuses (`Please set at least one of`)",
        (UPDATE, DYNAMIC),
        _small_batches(UPDATE, "ppo_micro_batch_size_per_gpu"),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.2,<1",
        lambda plan: _without(plan, EXPERIENCE, "rollout.log_prob_micro_batch_size"),
        "the rollout's log-probabilities have neither a micro batch size nor dynamic batches: verl refuses (`Please "
        "set at least one of`)",
        (EXPERIENCE, DYNAMIC),
        _small_batches(EXPERIENCE, "log_prob_micro_batch_size_per_gpu"),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.2,<1",
        lambda plan: (
            plan.value("trainer.reference") is True and _without(plan, REFERENCE, "ref.log_prob_micro_batch_size")
        ),
        "the reference model has neither a micro batch size nor dynamic batches: verl refuses (`Please set at least "
        "one of`)",
        (REFERENCE, DYNAMIC),
        _small_batches(REFERENCE, "log_prob_micro_batch_size_per_gpu"),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.2,<1",
        lambda plan: (
            plan.value(DYNAMIC) is False
            and plan.value("batch.micro") is not None
            and plan.value("batch.per_device") is not None
        ),
        "ppo_micro_batch_size together with ppo_micro_batch_size_per_gpu, which takes its place: verl refuses",
        ("batch.micro", UPDATE),
        (Fix(title="take actor_rollout_ref.actor.ppo_micro_batch_size out"),),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.4,<0.8",
        _layers_before_the_base,
        "layered_summon with an engine that starts on dummy weights: verl raises at the first weight sync (`To use "
        "layered_summon, you must make sure base-model is preloaded in vllm`)",
        ("sync.layered", "engine.load_format", "lora.rank"),
        (
            Fix.safe(
                "let the engine load the model",
                {"engine.load_format": "safetensors"},
                side_effects="the engine reads the checkpoint when it starts",
            ),
        ),
    ),
    Conflict(
        ("EasyR1",),
        "easyr1",
        ">=0",
        lambda plan: plan.value("trainer.offload_gradients") is True and (plan.value("batch.accumulation") or 1) > 1,
        "fsdp.enable_cpu_offload together with several micro batches per update: EasyR1 refuses FSDP's own offloading "
        "where gradients are accumulated",
        ("trainer.offload_gradients", "batch.accumulation", UPDATE),
        (
            Fix.safe(
                "offload with offload.offload_params instead",
                {"trainer.offload_gradients": False},
                side_effects="gradients stay on the device",
            ),
        ),
    ),
    Conflict(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.5",
        _roles_differ,
        "the actor and the reference model are colocated and have different numbers of devices: OpenRLHF asserts that "
        "nodes and devices per node are the same",
        ("placement.roles", "placement.gpus_per_node", "placement.nodes"),
        (Fix(title="give ref_num_nodes and ref_num_gpus_per_node the actor's numbers"),),
    ),
    *(
        conflict
        for package, before in (("skyrl-train", "<1"), ("skyrl", "<0.3"))
        for conflict in (
            Conflict(
                ("SkyRL",),
                package,
                before,
                _offline_not_batched,
                "async_engine=false without batched=true: SkyRL asserts that the offline engine generates in batches",
                ("rollout.async_engine",),
                (
                    Fix(title="generate in batches: generator.batched=true"),
                    Fix.unsafe("or take the asynchronous engine", {"rollout.async_engine": True}),
                ),
            ),
        )
    ),
    *(
        conflict
        for package in ("skyrl-train", "skyrl")
        for conflict in (
            Conflict(
                ("SkyRL",),
                package,
                ">=0",
                _one_kl_term,
                "use_kl_in_reward together with use_kl_loss, which is on by default: SkyRL asserts that one of them is",
                ("trainer.reference",),
                (Fix(title="take the KL term out of the loss: trainer.algorithm.use_kl_loss=false"),),
            ),
            Conflict(
                ("SkyRL",),
                package,
                ">=0",
                _longer_input,
                "generator.max_input_length differs from trainer.max_prompt_length in single-turn generation: SkyRL "
                "asserts that they are equal",
                ("lengths.prompt", "lengths.turns"),
                (
                    Fix(title="take generator.max_input_length out, or give it trainer.max_prompt_length"),
                    Fix(title="or say how many turns there are: generator.max_turns"),
                ),
            ),
            Conflict(
                ("SkyRL",),
                package,
                ">=0",
                lambda plan: plan.value("trainer.algorithm") == "gae" and plan.value("model.critic_path") is None,
                "advantage_estimator gae without a critic: SkyRL asserts that trainer.critic.model.path is given",
                ("trainer.algorithm", "model.critic_path"),
                (
                    Fix(title="name the critic: trainer.critic.model.path=MODEL"),
                    Fix.unsafe("or estimate advantages without one", {"trainer.algorithm": "grpo"}),
                ),
            ),
        )
    ),
)

CONFLICTS = (*MODES, *WORKERS)
