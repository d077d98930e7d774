"""Settings that do not go together in a framework, by release: the table of RLD212 is ``conflicts.json``, and here are
those whose condition takes code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.api import Applicability, Edit, Fix, RolloutPlan, dataclass
from rldoctor.api.releases import Scope

from ...declared.batches import per_step, validates

MODE = "placement.mode"


def _always(plan: RolloutPlan) -> bool:
    return True


@dataclass(frozen=True)
class Conflict(Scope):
    """Settings that do not go together, and what the framework makes of them; ``holds`` is what no table can say of
    them. ``cites`` are canonical names, and native keys of which there is none."""

    holds: Callable[[RolloutPlan], bool]
    message: str
    cites: tuple[str, ...]
    fixes: tuple[Fix, ...]


def _rows() -> tuple[Conflict, ...]:
    """Those of ``conflicts.json``."""
    rows = msgspec.json.decode(Path(__file__).with_name("conflicts.json").read_bytes())
    return tuple(
        Conflict(
            tuple(row["frameworks"]),
            row["package"],
            row["versions"],
            _always,
            row["message"],
            tuple(row["cites"]),
            tuple(map(_fix, row["fixes"])),
            when=row["when"],
        )
        for row in rows
    )


def _fix(row: Mapping[str, Any]) -> Fix:
    return Fix(
        title=row["title"],
        applicability=Applicability(row.get("applicability", "display")),
        edits=tuple(Edit(option=option, value=value) for option, value in row.get("edits", {}).items()),
        side_effects=row.get("side_effects"),
    )


def server_mode(applicability: Applicability) -> Fix:
    return Fix(
        title="say server, where the server is meant",
        applicability=applicability,
        edits=(Edit(option=MODE, value="server"),),
        side_effects="the settings of the colocated engine do not count",
    )


NO_SERVER = Fix(title="or, where the colocated engine is meant, take out the server's host, port or URL")


DYNAMIC = "batch.dynamic"
UPDATE, EXPERIENCE, REFERENCE = "batch.per_device", "batch.logprob_per_device", "batch.reference_per_device"


# Stands for a value that is not known: it is neither true, nor false, nor missing.
_UNKNOWN: Any = object()


def _given(plan: RolloutPlan, ending: str) -> Any:
    """The value of a native setting that no canonical name stands for; None where the launch does not give it,
    ``_UNKNOWN`` where it gives one that reading does not tell, or may give one in what could not be read."""
    named = (g for g in reversed(plan.given) if g.key == ending or g.key.endswith(f".{ending}"))
    left_out = _UNKNOWN if any(note.unread for note in plan.notes) else None
    return next((_UNKNOWN if g.unknown else g.value for g in named), left_out)


def _without(plan: RolloutPlan, option: str, older: str) -> bool:
    """Whether neither the micro batch per device nor its older name has a value, and the batch is not packed by
    tokens. A launch that sets none of them and names no data is an excerpt, or has them from a file that is not at
    hand; a configuration by itself leaves them to the command line."""
    chosen = any((setting := plan.get(name)) and setting.source == "given" for name in (UPDATE, EXPERIENCE, REFERENCE))
    open_ = any(note.unread for note in plan.notes)
    whole = _given(plan, "train_files") is not None and not open_
    if not plan.entry or not (chosen or whole):
        return False
    if any("micro_batch" in name for unknown in plan.unknown for name in (unknown.key, *unknown.nearest)):
        return False  # it is given under another name, which is the finding
    setting = plan.get(option)
    missing = setting is not None and setting.value is None and not setting.unknown
    if missing and open_ and setting is not None and setting.source == "given":
        return False  # a blank of a configuration, which what was not read may fill
    return missing and plan.value(DYNAMIC) is False and validates(plan) and _given(plan, older) is None


def _layers_before_the_base(plan: RolloutPlan) -> bool:
    """Adapters summoned layer by layer, for an engine that has not loaded the model they belong to."""
    adapted = (plan.value("lora.rank") or 0) > 0 and plan.value("sync.layered") is True
    dummy = "dummy" in str(plan.value("engine.load_format") or "")
    return adapted and dummy and plan.usual("trainer.strategy", "fsdp") in ("fsdp", "fsdp2")


def _no_step(path: Any) -> bool:
    """Whether a path, which must be known, does not name the folder of a step."""
    return isinstance(path, str) and "$" not in path and "global_step_" not in path


def _differs(role: str, other: str = "actor") -> Callable[[RolloutPlan], bool]:
    """Whether two roles share devices and have different numbers of them."""

    def holds(plan: RolloutPlan) -> bool:
        sizes, shared = plan.value("placement.roles", {}), plan.value("placement.colocated_roles", [])
        both = [sizes.get(one) for one in (other, role) if one in shared]
        return len(both) == 2 and None not in both and both[0] != both[1]

    return holds


def _critic_beside_its_reward(plan: RolloutPlan) -> bool:
    return _given(plan, "colocate_critic_reward") is True and _differs("reward", "critic")(plan)


def _bounds_nothing(value: Any) -> bool:
    """Whether it is a number of at most 1, as a file or a command line has it."""
    try:
        return value is not None and float(value) <= 1
    except (TypeError, ValueError):
        return False


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
    return _given(plan, "trainer.algorithm.use_kl_in_reward") is True and in_loss in (None, True)


def _is_weight(value: Any) -> bool:
    """Whether it is a number other than 0, as a file or a command line has it."""
    try:
        return value is not None and float(value) != 0
    except (TypeError, ValueError):
        return False


def _longer_input(plan: RolloutPlan) -> bool:
    """A limit on the input of a single turn that is not the limit on the prompt."""
    limit, prompt = _given(plan, "generator.max_input_length"), plan.value("lengths.prompt")
    return (
        isinstance(limit, int) and isinstance(prompt, int) and plan.usual("lengths.turns", 1) == 1 and limit != prompt
    )


def _server_without_address(plan: RolloutPlan) -> bool:
    """Server mode that no host and no URL goes with, in a launch that was read to its end."""
    here = plan.entry.startswith("swift") and plan.role == "trainer" and not any(note.unread for note in plan.notes)
    addresses = {"placement.server_host", "placement.server_url"}
    named = plan.unknown or addresses & {given.option for given in plan.given}
    hidden = any((setting := plan.get(name)) and setting.unknown for name in addresses)
    server = plan.value("rollout.backend") == "vllm" and plan.value(MODE) == "server"
    return here and server and not named and not hidden


def _offline_not_batched(plan: RolloutPlan) -> bool:
    return plan.value("rollout.async_engine") is False and _given(plan, "generator.batched") in (None, False)


def _both(one: str, other: str) -> Callable[[RolloutPlan], bool]:
    """Whether two switches are on."""
    return lambda plan: _given(plan, one) is True and _given(plan, other) is True


def _not_one_batch(plan: RolloutPlan) -> bool:
    """On-policy steps by force, and not one training batch for all that is sampled (nemo_rl/algorithms/grpo.py)."""
    prompts, group, batch = plan.value("batch.prompts"), plan.value("batch.generations"), plan.value("batch.train")
    known = bool(prompts and group and batch)
    return _given(plan, "loss_fn.force_on_policy_ratio") is True and known and prompts * group != batch


def _no_backend(plan: RolloutPlan) -> bool:
    """Neither of NeMo-RL's trainers, both switched off by the launch itself."""
    switches = [_given(plan, f"policy.{name}_cfg.enabled") for name in ("megatron", "dtensor")]
    return switches == [False, False]


def _nothing_left(plan: RolloutPlan) -> bool:
    """Engines with devices of their own that take all nodes, or all devices of the only one."""
    nodes, each = plan.value("placement.nodes"), plan.value("placement.gpus_per_node")
    taken, theirs = plan.value("placement.engine_nodes"), plan.value("placement.engine_gpus_per_node")
    if plan.value(MODE) not in ("separate", "async") or not nodes or not each:
        return False
    return theirs is not None and theirs >= each if nodes == 1 else taken is not None and taken >= nodes


def _two_generation_batches(plan: RolloutPlan) -> bool:
    """A generation batch beside steps per generation that come to another, both said by the launch."""
    batch, steps = plan.get("batch.generation"), plan.get("batch.steps_per_generation")
    step = per_step(plan)
    if batch is None or steps is None or step is None or {batch.source, steps.source} != {"given"}:
        return False
    return bool(batch.value) and bool(steps.value) and batch.value != step[0] * steps.value


def _more_than_one(value: Any) -> bool:
    return str(value).isdecimal() and int(value) > 1


# prime_rl/trainer/config.py: ModelConfig.seq_len, in every release that has it.
_TRAINED_BY_DEFAULT = 2048


def _longer_than_trained(plan: RolloutPlan) -> bool:
    """Samples of more tokens than the trainer takes, which has its own number unless the launch gives one for both."""
    trained = _given(plan, "trainer.model.seq_len")
    if trained is None and _given_at_the_top(plan, "seq_len") is None and _whole(plan):
        trained = _TRAINED_BY_DEFAULT
    setting = plan.get("lengths.total")
    sampled = setting.value if setting is not None and setting.source == "given" else None
    return str(trained).isdecimal() and sampled is not None and int(trained) < sampled


def _given_at_the_top(plan: RolloutPlan, key: str) -> Any:
    return next((_UNKNOWN if one.unknown else one.value for one in plan.given if one.key == key), None)


def _whole(plan: RolloutPlan) -> bool:
    """Whether all of a launch was read."""
    return bool(plan.entry) and not any(note.unread for note in plan.notes)


def _no_engine_devices(plan: RolloutPlan) -> bool:
    """slime's engines on devices of their own of which the launch tells no number, read to its end."""
    whole = _whole(plan) and not plan.unknown
    elsewhere = ("rollout_num_gpus", "rollout_external", "rollout_external_engine_addrs", "debug_train_only")
    other = any(_given(plan, name) is not None for name in (*elsewhere, "debug_rollout_only", "sglang_config"))
    sized = plan.value("placement.gpus_per_node")
    return whole and bool(sized) and not other and plan.value(MODE) in ("separate", "async")


_PACKED, _DYNAMIC = "policy.sequence_packing.enabled", "policy.dynamic_batching.enabled"
_PADDED = "policy.make_sequence_length_divisible_by"


def _engine_devices_unsaid(plan: RolloutPlan) -> bool:
    """NeMo-RL's engines on devices of their own, of which the launch does not say how many each node has; on nodes of
    their own they have to be all of them."""
    each = plan.get("placement.engine_gpus_per_node")
    nodes = plan.value("placement.nodes")
    if not _whole(plan) or not nodes or plan.value(MODE) not in ("separate", "async") or (each and each.unknown):
        return False
    given = each.value if each is not None else None
    return given is None or (nodes > 1 and plan.value("placement.gpus_per_node") not in (None, given))


def _pad_factor(plan: RolloutPlan) -> int | None:
    """What packed sequences have to be multiples of for NeMo-RL's Megatron: twice the context parallel ranks, times
    the tensor parallel ones where those share the sequence."""
    tensor, context = plan.value("parallel.tensor"), plan.value("parallel.context")
    shares = plan.value("parallel.megatron_sequence")
    if None in (tensor, context, shares):
        return None
    return (2 * context if context > 1 else 1) * (tensor if tensor > 1 and shares else 1)


def _padded_to_another(plan: RolloutPlan) -> bool:
    """Sequences of packed batches that are padded to multiples of another number than the ranks need."""
    padded, factor = _given(plan, _PADDED), _pad_factor(plan)
    packed = _given(plan, _PACKED) is True and plan.value("trainer.strategy") == "megatron"
    return packed and isinstance(padded, int) and bool(padded) and factor is not None and padded % factor > 0


_BUFFERS = ("overlong_buffer_cfg", "overlong_buffer")  # a reward manager's arguments, and the recipe's own section


def _buffer_beyond_the_response(plan: RolloutPlan) -> bool:
    """DAPO's penalty begins before the longest response: a buffer of more tokens than that has nowhere to begin."""
    for section in _BUFFERS:
        size, longest = _given(plan, f"{section}.len"), _given(plan, "max_resp_len")
        longest = plan.value("lengths.response") if longest is None else longest
        known = isinstance(size, int | float) and isinstance(longest, int | float)
        if known and _given(plan, f"{section}.enable") is True and longest < size:
            return True
    return False


def _weights_of_other_rewards(plan: RolloutPlan) -> bool:
    """Weights that are fewer or more than the rewards: functions, models, and a gym's own."""
    weights, rewards, models = (_given(plan, name) for name in ("reward_weights", "reward_funcs", "reward_model"))
    # What it is started with by hand may add to it.
    if not _whole(plan) or _UNKNOWN in (weights, rewards, models) or weights is None or plan.unknown:
        return False
    counts = [len(one) if isinstance(one, list) else one is not None for one in (weights, rewards, models)]
    return counts[0] != counts[1] + counts[2] and _given(plan, "use_gym_env") in (None, False)


def _cores_of_a_cluster_that_runs(plan: RolloutPlan) -> bool:
    """Cores for ``ray.init``, in a launch that starts Ray before, or names one that runs: a job's driver does."""
    joined = [setting for name in ("ray.address", "env.RAY_ADDRESS") if (setting := plan.get(name)) is not None]
    runs = plan.value("ray.started") or any(one.value not in (None, "", "local") for one in joined)
    return isinstance(_given(plan, "ray_init.num_cpus"), int) and bool(runs)


WRITTEN = (
    # workers/reward_manager/dapo.py, experimental/reward_loop/reward_manager/dapo.py
    Conflict(
        ("verl",),
        "verl",
        ">=0.5",
        _buffer_beyond_the_response,
        "the overlong buffer is longer than the longest response: verl asserts that it is not (`max_resp_len must be "
        "larger than overlong_buffer.len`)",
        (
            *(
                f"{place}{section}.len"
                for place in ("reward_model.reward_kwargs.", "reward_model.", "reward.reward_kwargs.")
                for section in _BUFFERS
            ),
            "lengths.response",
        ),
        (Fix(title="make overlong_buffer_cfg.len a part of data.max_response_length, such as a quarter of it"),),
    ),
    # trainers/rlhf_trainer/grpo_trainer.py, rlhf_trainers/grpo_trainer.py
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.2",
        _weights_of_other_rewards,
        "reward_weights are not as many as the rewards: ms-swift refuses (`Number of reward weights must match number "
        "of reward functions`)",
        ("reward_weights", "reward_funcs", "reward_model"),
        (
            Fix(
                title="give one weight for each function of --reward_funcs, and one for each --reward_model behind them"
            ),
        ),
    ),
    # ray/_private/worker.py, init
    Conflict(
        ("verl",),
        "verl",
        "",
        _cores_of_a_cluster_that_runs,
        "ray_init.num_cpus tells a Ray how many cores it has, and the launch joins one that runs: ray.init refuses "
        "that (`When connecting to an existing cluster, num_cpus and num_gpus must not be provided`)",
        ("ray.num_cpus", "ray.address", "ray.started", "env.RAY_ADDRESS"),
        (
            Fix.safe("leave it to the cluster", {"ray.num_cpus": None}),
            Fix(title="and tell it where Ray is started", commands=("ray start --head --num-cpus=N",)),
        ),
    ),
    # nemo_rl/algorithms/grpo.py, setup
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.3",
        _nothing_left,
        "the engines' own resources are all that the cluster has: nothing is left for training",
        (
            MODE,
            "placement.engine_nodes",
            "placement.engine_gpus_per_node",
            "placement.nodes",
            "placement.gpus_per_node",
        ),
        (
            Fix(
                title="leave devices for training: policy.generation.colocated.resources.num_nodes below "
                "cluster.num_nodes, or with one node its gpus_per_node below cluster.gpus_per_node"
            ),
            Fix(title="or share them: policy.generation.colocated.enabled=true"),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4",
        _engine_devices_unsaid,
        "the engines have devices of their own, and policy.generation.colocated.resources.gpus_per_node does not say "
        "how many: NeMo-RL asserts that it is given, and on nodes of their own that it is cluster.gpus_per_node",
        (MODE, "placement.engine_gpus_per_node", "placement.engine_nodes", "placement.gpus_per_node"),
        (
            Fix(
                title="say how many: policy.generation.colocated.resources.gpus_per_node, the cluster's number where "
                "the engines have nodes of their own"
            ),
            Fix(title="or share the trainer's devices: policy.generation.colocated.enabled=true"),
        ),
    ),
    # nemo_rl/models/megatron/data.py, _get_pack_sequence_parameters_for_megatron
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.6",
        _padded_to_another,
        "policy.make_sequence_length_divisible_by is no multiple of what Megatron's ranks share a packed sequence by "
        "(twice the context parallel ranks, times the tensor parallel ones with sequence_parallel): NeMo-RL asserts it "
        "(`is not a multiple of minimum_pad_factor`)",
        (_PADDED, "parallel.tensor", "parallel.context", "parallel.megatron_sequence"),
        (
            Fix(
                title="give policy.make_sequence_length_divisible_by that product: tensor_model_parallel_size x 2 x "
                "context_parallel_size"
            ),
        ),
    ),
    # swift/rlhf_trainers/args_mixin.py, _init_generation_batch_params
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=4.2",
        _two_generation_batches,
        "generation_batch_size is not per_device_train_batch_size x processes x steps_per_generation: ms-swift refuses "
        "the two together unless they are equal",
        ("batch.generation", "batch.steps_per_generation", "batch.per_device", "process.nproc"),
        (
            Fix.unsafe("give the steps alone, from which the batch follows", {"batch.generation": None}),
            Fix.unsafe("or the batch alone", {"batch.steps_per_generation": None}),
        ),
    ),
    # swift/megatron/arguments/megatron_args.py (through 3.12 argument/megatron_args.py)
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.12,<4.6",
        lambda plan: plan.value("trainer.strategy") == "megatron" and _more_than_one(_given(plan, "num_iterations")),
        "several optimizer passes over one rollout with Megatron: ms-swift refuses (`num_iterations > 1 is not "
        "supported for Megatron GRPO`)",
        ("num_iterations", "trainer.strategy"),
        (Fix(title="take one pass: --num_iterations 1, or leave it out"),),
    ),
    # prime_rl: rl.py, then utils/validation.py (validate_shared_seq_len)
    Conflict(
        ("prime-rl",),
        "prime-rl",
        ">=0.3,<1",
        _longer_than_trained,
        f"trainer.model.seq_len ({_TRAINED_BY_DEFAULT} where the launch does not give it) is below the orchestrator's "
        "seq_len: prime-rl refuses, since the trainer would be given longer sequences than it takes",
        ("trainer.model.seq_len", "orchestrator.seq_len", "seq_len"),
        (Fix(title="give both the same: seq_len at the top, and none in [trainer.model] and [orchestrator]"),),
    ),
    # nemo_rl/models/policy/lm_policy.py
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.3",
        _both(_PACKED, _DYNAMIC),
        "policy.sequence_packing and policy.dynamic_batching are both on: NeMo-RL asserts that one of them is off",
        ("batch.packing", DYNAMIC),
        (
            Fix.safe("pack sequences, and cut no micro batches by tokens", {DYNAMIC: False}),
            Fix.unsafe("or cut micro batches by tokens, and pack nothing", {"batch.packing": False}),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4",
        _both("policy.megatron_cfg.enabled", "policy.dtensor_cfg.enabled"),
        "policy.megatron_cfg and policy.dtensor_cfg are both on: NeMo-RL takes one of them (`Configure either Megatron`"
        ")",
        ("trainer.strategy",),
        (
            Fix(title="train with Megatron: policy.dtensor_cfg.enabled=false"),
            Fix(title="or with DTensor: policy.megatron_cfg.enabled=false"),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.4,<0.8",
        _no_backend,
        "policy.megatron_cfg and policy.dtensor_cfg are both off: NeMo-RL has nothing to train with (`Please either "
        "set policy.megatron_cfg.enabled=true`)",
        ("trainer.strategy",),
        (
            Fix(title="train with DTensor: policy.dtensor_cfg.enabled=true"),
            Fix(title="or with Megatron: policy.megatron_cfg.enabled=true"),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.3",
        lambda plan: _given(plan, _DYNAMIC) is True and (plan.value("parallel.pipeline") or 1) > 1,
        "dynamic batching with pipeline parallel stages: NeMo-RL asserts that there is one stage",
        (DYNAMIC, "parallel.pipeline"),
        (
            Fix(title=f"pack sequences instead: {_DYNAMIC}=false, {_PACKED}=true"),
            Fix.unsafe("or train in one pipeline stage", {"parallel.pipeline": 1}, side_effects="more memory per rank"),
        ),
    ),
    Conflict(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0.5",
        _not_one_batch,
        "loss_fn.force_on_policy_ratio with a training batch that is not all prompts times their completions: NeMo-RL "
        "asserts that they are equal",
        ("batch.train", "batch.prompts", "batch.generations"),
        (
            Fix(
                title="train on all that a step samples at once: policy.train_global_batch_size = "
                "grpo.num_prompts_per_step x grpo.num_generations_per_prompt"
            ),
            Fix(title="or let the ratio be computed: loss_fn.force_on_policy_ratio=false"),
        ),
    ),
    Conflict(
        ("ms-swift",),
        "ms-swift",
        ">=3.12",
        _server_without_address,
        "vllm_mode server without the address of a rollout server: ms-swift asserts that it has one",
        (MODE, "placement.server_port"),
        (Fix(title="name the server: --vllm_server_host HOST --vllm_server_port PORT"),),
    ),
    Conflict(
        ("verl",),
        "verl",
        ">=0.2,<0.8",
        lambda plan: (
            plan.value("parallel.sequence", 1) > 1
            and plan.value("batch.packing") is False
            and plan.usual("trainer.strategy", "fsdp") in ("fsdp", "fsdp2")
        ),
        "sequence parallel ranks without use_remove_padding: verl asserts both",
        ("parallel.sequence", "batch.packing"),
        (Fix.safe("remove the padding", {"batch.packing": True}),),
    ),
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
        _differs("reference"),
        "the actor and the reference model are colocated and have different numbers of devices: OpenRLHF asserts that "
        "nodes and devices per node are the same",
        (
            *("ref_num_gpus_per_node", "ref.num_gpus_per_node", "placement.roles", "placement.gpus_per_node"),
            "placement.nodes",
        ),
        (Fix(title="give ref_num_nodes and ref_num_gpus_per_node the actor's numbers"),),
    ),
    # cli/train_ppo_ray.py, train
    Conflict(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.5",
        _critic_beside_its_reward,
        "the critic and the reward model are colocated (colocate_critic_reward) and have different numbers of devices: "
        "OpenRLHF asserts that nodes and devices per node are the same",
        (
            *("critic_num_gpus_per_node", "reward_num_gpus_per_node", "critic.num_gpus_per_node"),
            *("reward.num_gpus_per_node", "placement.roles"),
        ),
        (Fix(title="give reward_num_nodes and reward_num_gpus_per_node the critic's numbers"),),
    ),
    # models/loss.py, PolicyLoss
    Conflict(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.8.9",
        lambda plan: _bounds_nothing(_given(plan, "dual_clip")),
        "dual_clip bounds the loss where the advantage is negative, and has to be above 1: OpenRLHF asserts that it is "
        "(`dual_clip must be > 1.0`)",
        ("dual_clip", "actor.dual_clip"),
        (Fix(title="take about 3, or leave dual_clip out"),),
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
            # trainer.py, build_models
            *(
                Conflict(
                    ("SkyRL",),
                    package,
                    ">=0",
                    _differs(role),
                    f"the policy and the {title} model are colocated and have different numbers of devices: SkyRL "
                    "asserts that nodes and devices per node are the same",
                    ("placement.roles", "placement.gpus_per_node", "placement.nodes"),
                    (Fix(title=f"give {name}_num_nodes and {name}_num_gpus_per_node the policy's numbers"),),
                )
                for role, title, name in (("reference", "reference", "ref"), ("critic", "critic", "critic"))
            ),
            # utils/utils.py, validate_generator_cfg; by default it is 0 or 1
            Conflict(
                ("SkyRL",),
                package,
                "<0.3" if package == "skyrl" else ">=0.2",
                lambda plan: plan.value(MODE) == "server" and plan.value("sampling.logprobs") is not None,
                "log-probabilities of the samples with engines that the launch does not start: SkyRL refuses (`Remote "
                "inference mode doesn't support`)",
                ("sampling.logprobs", MODE),
                (Fix(title="ask for none: generator.sampling_params.logprobs=null"),),
            ),
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
            Conflict(
                ("SkyRL",),
                package,
                ">=0.2",
                lambda plan: (plan.value("lora.rank") or 0) > 0 and plan.value("rollout.backend") == "sglang",
                "adapters with SGLang: SkyRL asserts that the engine is vLLM",
                ("lora.rank", "rollout.backend"),
                (
                    Fix(title="sample with vLLM: generator.backend=vllm"),
                    Fix(title="or train the whole model: trainer.policy.model.lora.rank=0"),
                ),
            ),
        )
    ),
    # ray_trainer.py, _load_checkpoint
    Conflict(
        ("verl",),
        "verl",
        ">=0.3.0.post1",
        lambda plan: (
            _given(plan, "trainer.resume_mode") == "resume_path" and _no_step(_given(plan, "trainer.resume_from_path"))
        ),
        "trainer.resume_mode=resume_path with a path of no step: verl asserts that it names one (`resume ckpt must "
        "specify the global_steps`)",
        ("trainer.resume_mode", "trainer.resume_from_path"),
        (
            Fix(title="name the folder of a step: trainer.resume_from_path=FOLDER/global_step_NUMBER"),
            Fix(title="or go on from the newest that there is: trainer.resume_mode=auto"),
        ),
    ),
    Conflict(
        ("slime",),
        "slime",
        ">=0.1",
        lambda plan: _is_weight(_given(plan, "kl_coef")) and _is_weight(plan.value("trainer.kl_coefficient")),
        "kl_coef together with kl_loss_coef: slime asserts that the KL term is in the reward or in the loss",
        ("kl_coef", "trainer.kl_coefficient"),
        (
            Fix(title="keep the term in the loss: take --kl-coef out"),
            Fix(title="or keep the one in the reward: take --kl-loss-coef out"),
        ),
    ),
    # slime/ray/placement_group.py
    Conflict(
        ("slime",),
        "slime",
        ">=0.1",
        _no_engine_devices,
        "neither --colocate nor --rollout-num-gpus: slime adds the engines' devices to the actor's, and is given none "
        "(`unsupported operand type(s) for +: 'int' and 'NoneType'`)",
        (MODE, "placement.gpus_per_node"),
        (
            Fix(title="give the engines devices of their own: --rollout-num-gpus NUMBER"),
            Fix.unsafe("or let them share the actor's", {MODE: "colocate"}),
        ),
    ),
    Conflict(
        ("axolotl",),
        "axolotl",
        ">=0.4",
        lambda plan: (
            plan.value("model.quantization") in ("4bit", "8bit") and plan.usual("lora.enabled", False) is False
        ),
        "a model loaded in 4 or 8 bit without an adapter: axolotl refuses to train quantized weights",
        ("model.quantization",),
        (
            Fix(title="train an adapter: adapter: qlora (lora for 8 bit), with lora_r and lora_alpha"),
            Fix(title="or take load_in_4bit and load_in_8bit out"),
        ),
    ),
)

CONFLICTS = (*_rows(), *WRITTEN)
