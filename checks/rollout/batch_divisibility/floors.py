"""The least that a framework wants of a batch, by release: the other table of RLD211."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rldoctor.api import Fix, RolloutPlan, Severity, Source, dataclass
from rldoctor.api.releases import Scope

from ...declared.batches import (
    EXPERIENCE,
    GROUP,
    MINI,
    PROMPTS,
    TRAIN,
    TRL_LIKE,
    data_ranks,
    environments,
    replaced_workers,
    validates,
)
from .fixes import (
    a_group,
    a_larger_mini_batch,
    a_part_that_divides,
    an_environments_group,
    mini_of_all_prompts,
    room_for_a_sequence,
    smaller_sample_batches,
    some_environments,
)

Number = Callable[[RolloutPlan], int | None]
GROUPED = ("grpo", "rloo", "reinforce_baseline", "group_norm", "dr_grpo")


@dataclass(frozen=True)
class Floor(Scope):
    """``number`` must not be below ``least``; both are None where they are not known or the condition does not hold.
    ``message`` takes the two. ``severity`` is that of a refusal, unless the framework goes on."""

    number: Number
    least: Number
    message: str
    cites: tuple[str, ...]
    remedy: Callable[[RolloutPlan, int, int], Iterable[Fix]]
    severity: Severity = Severity.ERROR

    def known(self, plan: RolloutPlan) -> bool:
        """Whether the plan tells both numbers."""
        return self.number(plan) is not None and self.least(plan) is not None


def _prompts(plan: RolloutPlan) -> int | None:
    """verl compares without dynamic batches alone."""
    prompts: int | None = plan.value(PROMPTS)
    return prompts if plan.value("batch.dynamic") is False and validates(plan) else None


def _mini(plan: RolloutPlan) -> int | None:
    mini: int | None = plan.value(MINI)
    return mini


def _tokens(plan: RolloutPlan) -> int | None:
    """What a micro batch that is packed by tokens may hold, over the ranks that share a sequence (dp_actor.py)."""
    tokens = plan.value(TOKENS)
    if not tokens or plan.value("batch.dynamic") is not True or replaced_workers(plan):
        return None
    ranks = plan.usual("parallel.sequence", 1)
    return None if ranks is None else int(tokens) * (ranks or 1)


def _tokens_of(part: str, ranks: str, there: str | None = None) -> Number:
    """The same of a part of the trainer that the launch gives a limit of its own (dp_critic.py, fsdp_workers.py);
    ``there`` says whether the run has that part."""

    def number(plan: RolloutPlan) -> int | None:
        setting, tokens = plan.get(f"batch.{part}_tokens_per_device"), plan.value(f"batch.{part}_tokens_per_device")
        runs = plan.value(f"batch.{part}_dynamic") is True and (there is None or plan.value(there) is True)
        if not tokens or setting is None or setting.source != "given" or not runs or replaced_workers(plan):
            return None
        over = plan.usual(ranks, 1)
        return None if over is None else int(tokens) * (over or 1)

    return number


def _sequence(plan: RolloutPlan) -> int | None:
    """verl pads prompts and responses to their longest (seqlen_balancing.py: attention_mask.shape[-1])."""
    prompt, response = plan.value("lengths.prompt"), plan.value("lengths.response")
    return prompt + response if isinstance(prompt, int) and isinstance(response, int) else None


def _completions(plan: RolloutPlan) -> int | None:
    mini = plan.value(MINI)
    if not mini or (plan.framework == "verl" and replaced_workers(plan)):
        return None
    group = plan.usual(GROUP, 1)
    return int(mini) * group if group else None


def _grouped(plan: RolloutPlan) -> int | None:
    """The group size of an algorithm that compares the completions of a group."""
    group: int | None = plan.value(GROUP)
    # Of a student that learns from a teacher's distribution the reward is none of the signal.
    distils = any(given.key.startswith("distillation") for given in plan.given)
    if distils or _is_multiplied(plan):
        return None
    return group if plan.usual("trainer.algorithm", "grpo") in GROUPED else None


def _is_multiplied(plan: RolloutPlan) -> bool:
    """Whether a fork draws the completions of a prompt under a name of its own beside ``n`` (``n_agent``,
    ``n_trajectories``), or a script of one's own may group them otherwise where nothing says ``n``."""
    group = plan.get(GROUP)
    if group is None or group.key is None or not group.key.endswith(".n"):
        return False
    if group.source is Source.DEFAULT and plan.entry.endswith(".py") and not plan.entry.endswith("main_ppo.py"):
        return True
    own = (given for given in plan.given if given.option is None and given.key.startswith(f"{group.key}_"))
    return any(isinstance(given.value, int) and given.value > 1 for given in own)


def _compared(plan: RolloutPlan) -> int | None:
    """The group size where the reward's mean over the group is what an advantage is measured from."""
    given = {g.key: g.value for g in plan.given}
    sources = given.get("orchestrator.train.source") or given.get("orchestrator.train.env")
    measured = {
        "prime-rl": given.get("orchestrator.algo.type", "grpo") in ("grpo", "echo", "max_rl")
        and not any(key.startswith("orchestrator.advantage") for key in given)
        and not any({"group_size", "algo"} & set(row) for row in sources or () if isinstance(row, dict)),
        "slime": plan.usual("trainer.algorithm", "grpo") in ("grpo", "gspo")
        and "disable_rewards_normalization" not in given,
        "ROLL": "num_return_sequences_in_group" in given
        and (plan.value("trainer.algorithm") == "grpo" or given.get("norm_mean_type") == "group"),
        "AReaL": given.get("actor.reward_norm.mean_level") == "group"
        and given.get("actor.reward_norm.group_size", 1) == 1
        and given.get("actor.reward_norm.mean_leave1out") is not True,
    }
    group: int | None = plan.value(GROUP)
    return group if measured[plan.framework] else None


def _compared_trajectories(plan: RolloutPlan) -> int | None:
    """The group size of ROLL's environments where rewards are measured from their group's mean; groups by tags or
    states hold trajectories of several."""
    given = {g.key: None if g.unknown else g.value for g in plan.given}
    normal = {name: given.get(f"reward_normalization.{name}") for name in ("grouping", "method", "norm_mean_type")}
    measured = normal["norm_mean_type"] == "group" or (
        "reward_normalization.norm_mean_type" not in given and normal["method"] in ("mean", "mean_std", "asym_clip")
    )
    size = given.get("train_env_manager.group_size")
    return size if isinstance(size, int) and measured and normal["grouping"] == "traj_group_id" else None


def _one(plan: RolloutPlan) -> int | None:
    return 1


def _sample_batches(plan: RolloutPlan) -> int | None:
    prompts, group, each = plan.value(PROMPTS), plan.value(GROUP), plan.value(EXPERIENCE)
    return prompts * group // each if prompts and group and each else None


def _drawn(plan: RolloutPlan) -> int | None:
    """The samples that slime draws for a training step; a function of the launch's own may return more or fewer."""
    own = {"rollout_function_path", "custom_generate_function_path", "debug_rollout_only", "debug_train_only"}
    own |= {"use_dynamic_global_batch_size", "disable_rollout_trim_samples"}
    drawn: int | None = plan.value("batch.generation")
    return None if own & {given.key for given in plan.given} else drawn


def _kept(plan: RolloutPlan) -> int | None:
    """Those that whole training batches take."""
    drawn, batch = _drawn(plan), plan.value(TRAIN)
    return drawn // batch * batch if drawn and batch and drawn >= batch else None


def _batch(plan: RolloutPlan) -> int | None:
    batch: int | None = plan.value(TRAIN)
    return batch


def _two(plan: RolloutPlan) -> int | None:
    return 2


TOKENS = "batch.tokens_per_device"
PLACE = ("placement.gpus_per_node", "placement.nodes", "parallel.sequence")
ONE_OF_A_GROUP = "a group of {0} completion has no group-relative advantage: {framework} requires at least {1}"
# core_algos.py and ppo_utils.py: the mean of a single reward counts as 0, its deviation as 1.
BARE_REWARD = (
    "a group of {0} completion has nothing to compare it with, and {framework} takes its bare reward as the advantage: "
    "a group needs {1}"
)
NO_ADVANTAGE = (
    "a group of {0} completion is its own mean: every advantage is 0 and nothing is learnt; {framework} needs groups "
    "of at least {1}"
)
DROPPED = "of {1} samples that a step draws {framework} trains on {0}: it drops what fills no whole batch"
NOT_ONE_BATCH = "a step draws {0} samples, less than one training batch of {1}: {framework} refuses"
NOTHING_LEFT = "a mini batch of {0} completions leaves nothing for each of {1} ranks: {framework} refuses"

FLOORS = (
    Floor(
        ("verl",),
        "verl",
        ">=0.3.0.post0,<1",
        _prompts,
        _mini,
        "a step rolls out {0} prompts, and one mini batch has {1}: {framework} refuses",
        (PROMPTS, MINI, "batch.dynamic"),
        mini_of_all_prompts,
    ),
    Floor(
        ("verl",),
        "verl",
        ">=0.3.0.post0,<0.8",
        _completions,
        data_ranks,
        NOTHING_LEFT,
        (MINI, GROUP, *PLACE),
        a_larger_mini_batch,
    ),
    Floor(
        ("verl",),
        "verl",
        ">=0.2,<0.8",
        _tokens,
        _sequence,
        "a micro batch of {0} tokens does not hold one sequence of {1}: {framework} asserts that it does "
        "(`max_token_len must be greater than the sequence length`)",
        (TOKENS, "lengths.prompt", "lengths.response", "parallel.sequence"),
        room_for_a_sequence(TOKENS, "parallel.sequence"),
    ),
    *(
        Floor(
            ("verl",),
            "verl",
            ">=0.2,<0.8",
            _tokens_of(part, ranks, there),
            _sequence,
            f"a micro batch of {{0}} tokens {of} does not hold one sequence of {{1}}: {{framework}} asserts that it "
            "does (`max_token_len must be greater than the sequence length`)",
            (f"batch.{part}_tokens_per_device", "lengths.prompt", "lengths.response", ranks),
            room_for_a_sequence(f"batch.{part}_tokens_per_device", ranks),
        )
        for part, ranks, of, there in (
            ("critic", "parallel.critic_sequence", "of the value model", "trainer.critic"),
            ("reference", "parallel.sequence", "of the reference model", "trainer.reference"),
        )
    ),
    Floor(
        ("EasyR1",),
        "easyr1",
        ">=0",
        _completions,
        data_ranks,
        NOTHING_LEFT,
        (MINI, GROUP, *PLACE),
        a_larger_mini_batch,
    ),
    *(
        Floor(
            ("SkyRL",),
            package,
            ">=0",
            _completions,
            data_ranks,
            NOTHING_LEFT,
            (MINI, GROUP, *PLACE),
            a_larger_mini_batch,
        )
        for package in ("skyrl-train", "skyrl")
    ),
    Floor(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.7.2",
        _sample_batches,
        data_ranks,
        "{0} sample batches do not reach {1} training ranks: {framework} asserts that they do",
        (PROMPTS, GROUP, EXPERIENCE, *PLACE),
        smaller_sample_batches,
    ),
    # Before TRL 0.17 and ms-swift 3.6 the group sizes that they offer begin with two.
    Floor((*TRL_LIKE, "unsloth"), "trl", ">=0.15", _grouped, _two, ONE_OF_A_GROUP, (GROUP,), a_group),
    # 4.4 takes a single completion for what it is.
    Floor(("ms-swift",), "ms-swift", ">=3.2,<4.4,!=3.5.*", _grouped, _two, ONE_OF_A_GROUP, (GROUP,), a_group),
    Floor(("EasyR1",), "easyr1", ">=0", _grouped, _two, ONE_OF_A_GROUP, (GROUP, "trainer.algorithm"), a_group),
    Floor(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.6",
        _grouped,
        _two,
        ONE_OF_A_GROUP,
        (GROUP, "trainer.algorithm"),
        a_group,
    ),
    *(
        Floor(
            (framework,),
            package,
            releases,
            _grouped,
            _two,
            BARE_REWARD,
            (GROUP, "trainer.algorithm"),
            a_group,
            Severity.WARNING,
        )
        for framework, package, releases in (
            ("verl", "verl", ">=0.2,<1"),
            ("SkyRL", "skyrl-train", "<1"),
            ("SkyRL", "skyrl", "<1"),
        )
    ),
    # slime/ray/rollout.py, slime/utils/dp_schedule.py
    Floor(("slime",), "slime", "<1", _drawn, _batch, NOT_ONE_BATCH, (PROMPTS, GROUP, TRAIN), a_part_that_divides),
    Floor(
        ("slime",),
        "slime",
        "<1",
        _kept,
        _drawn,
        DROPPED,
        (PROMPTS, GROUP, TRAIN),
        lambda plan, kept, drawn: a_part_that_divides(plan, drawn, plan.value(TRAIN)),
        Severity.WARNING,
    ),
    # slime/ray/rollout.py, prime_rl/orchestrator/advantage.py, areal/utils/data.py (Normalization),
    # roll/utils/functionals.py (reward_postprocess)
    *(
        Floor((framework,), package, releases, _compared, _two, NO_ADVANTAGE, (GROUP,), a_group, Severity.WARNING)
        for framework, package, releases in (
            ("slime", "slime", "<1"),
            ("prime-rl", "prime-rl", "<1"),
            ("AReaL", "areal", ">=0.4,<2"),
            ("ROLL", "roll", "<1"),
        )
    ),
    # roll/pipeline/agentic: utils.py (agentic_reward_norm), agentic_config.py
    Floor(
        ("ROLL",),
        "roll",
        ">=0.2,<1",
        _compared_trajectories,
        _two,
        NO_ADVANTAGE.replace("completion is", "trajectory is"),
        ("train_env_manager.group_size", "reward_normalization.method"),
        an_environments_group,
        Severity.WARNING,
    ),
    *(
        Floor(
            ("ROLL",),
            "roll",
            ">=0.1.3,<1",
            environments(section),
            _one,
            f"{section} has {{0}} environments, and {{framework}} divides the batch by them (`division by zero`)",
            (f"{section}.num_env_groups", f"{section}.group_size"),
            some_environments(section),
        )
        for section in ("train_env_manager", "val_env_manager")
    ),
)
