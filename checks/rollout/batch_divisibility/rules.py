"""The divisions that each framework makes of its batches, by release: the table of RLD211."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rldoctor.api import Fix, RolloutPlan, dataclass
from rldoctor.api.releases import Scope

from ...declared.batches import (
    ACCUMULATION,
    CRITIC_EACH,
    CRITIC_MINI,
    ENGINES,
    EXPERIENCE,
    GENERATION,
    GROUP,
    MINI,
    PER_DEVICE,
    POOL,
    PROMPTS,
    STEPS,
    TRAIN,
    TRL_LIKE,
    accumulated,
    actors,
    backward,
    balanced,
    critics_mini,
    critics_share,
    devices,
    evaluated_group,
    evaluation,
    fed,
    generation_batch,
    larger,
    mini_batch,
    mini_ranks,
    native_number,
    one_number,
    per_step,
    rollout,
    rows,
    share,
    sharing,
    smaller,
    stepped,
    validation_environments,
    whole,
)
from .fixes import (
    a_backward_batch,
    a_critics_batch,
    a_critics_micro_batch,
    a_micro_batch,
    a_mini_batch_of_all_ranks,
    a_part_that_divides,
    a_training_batch,
    an_environments_batch,
    an_evaluation_batch,
    engines_that_divide,
    more_prompts,
    samples_of_whole_groups,
)


@dataclass(frozen=True)
class Rule(Scope):
    """``dividend`` must be a multiple of ``divisor``; both give a number and how it came about, or None where it is not
    known. ``remedy`` says what to do about the two numbers, where the usual answers do not fit."""

    dividend: Callable[[RolloutPlan], tuple[int, str] | None]
    divisor: Callable[[RolloutPlan], tuple[int, str] | None]
    cites: tuple[str, ...]
    remedy: Callable[[RolloutPlan, int, int], Iterable[Fix]] | None = None

    def known(self, plan: RolloutPlan) -> bool:
        """Whether the plan tells both numbers."""
        return self.dividend(plan) is not None and self.divisor(plan) is not None


CRITICS = (CRITIC_MINI, GROUP, "parallel.critic_sequence", "placement.gpus_per_node", "placement.nodes")
SHARED = (MINI, GROUP, PER_DEVICE, "parallel.sequence", "placement.gpus_per_node", "placement.nodes")

RULES = (
    Rule(
        TRL_LIKE,
        "trl",
        ">=0.15,<0.17",
        per_step,
        one_number(GROUP, "num_generations"),
        (GROUP, PER_DEVICE, "process.nproc"),
    ),
    Rule(
        TRL_LIKE,
        "trl",
        ">=0.17",
        generation_batch,
        one_number(GROUP, "num_generations"),
        (GROUP, PER_DEVICE, GENERATION, STEPS, ACCUMULATION, "process.total", "process.nproc"),
    ),
    Rule(
        TRL_LIKE,
        "trl",
        ">=0.19",
        generation_batch,
        per_step,
        (GENERATION, PER_DEVICE, "process.total", "process.nproc"),
    ),
    Rule(
        ("TRL", "open-r1"),
        "trl",
        ">=0.15,!=0.20.*,!=0.21.*",
        evaluation,
        evaluated_group,
        (GROUP, "batch.per_device_eval", "trainer.eval_strategy", "process.total", "process.nproc"),
        an_evaluation_batch,
    ),
    Rule(
        ("ms-swift",),
        "ms-swift",
        ">=3.2,<3.5",
        per_step,
        one_number(GROUP, "num_generations"),
        (GROUP, PER_DEVICE, "process.nproc"),
    ),
    Rule(
        ("ms-swift",),
        "ms-swift",
        ">=3.5",
        generation_batch,
        one_number(GROUP, "num_generations"),
        (GROUP, PER_DEVICE, GENERATION, STEPS, ACCUMULATION, "process.nproc"),
    ),
    Rule(
        ("ms-swift",),
        "ms-swift",
        ">=3.8",
        generation_batch,
        per_step,
        (GENERATION, PER_DEVICE, "process.nproc"),
    ),
    Rule(
        ("verl",), "verl", "<=0.5.0", rollout, devices, (PROMPTS, GROUP, "placement.gpus_per_node", "placement.nodes")
    ),
    Rule(
        ("verl",),
        "verl",
        ">0.5.0,<1",
        whole,
        devices,
        (PROMPTS, GROUP, "batch.dynamic", "placement.gpus_per_node", "placement.nodes"),
        more_prompts,
    ),
    *(
        Rule(
            ("verl",),
            "verl",
            versions,
            balanced,
            ranks,
            (PROMPTS, GROUP, "batch.dynamic", "parallel.sequence", "placement.gpus_per_node", "placement.nodes"),
            more_prompts,
        )
        for versions, ranks in ((">0.5.0,<0.7", devices), (">=0.7,<0.8", sharing))
    ),
    # engine_workers.py, train_mini_batch, the workers of 0.8 and later; the trainer of 0.9 fills up a batch that is no
    # number of whole mini batches.
    Rule(
        ("verl",),
        "verl",
        ">=0.8,<0.9",
        stepped,
        one_number(MINI, "ppo_mini_batch_size"),
        (PROMPTS, MINI),
        a_part_that_divides,
    ),
    Rule(
        ("verl",),
        "verl",
        ">=0.8,<1",
        mini_batch,
        mini_ranks,
        (MINI, GROUP, "parallel.sequence", "placement.gpus_per_node", "placement.nodes"),
        a_mini_batch_of_all_ranks,
    ),
    # fsdp_workers.py: from 0.8 on other workers divide.
    Rule(
        ("verl",),
        "verl",
        ">=0.4,<0.8",
        share,
        one_number(PER_DEVICE, "ppo_micro_batch_size_per_gpu"),
        SHARED,
        a_micro_batch,
    ),
    Rule(
        ("EasyR1",),
        "easyr1",
        ">=0",
        one_number(PROMPTS, "rollout batch"),
        one_number(MINI, "global batch"),
        (PROMPTS, MINI),
    ),
    Rule(
        ("EasyR1",),
        "easyr1",
        ">=0",
        fed,
        devices,
        (PROMPTS, POOL, "placement.gpus_per_node", "placement.nodes"),
        more_prompts,
    ),
    Rule(
        ("EasyR1",),
        "easyr1",
        ">=0",
        rollout,
        one_number(EXPERIENCE, "micro batch for experience"),
        (PROMPTS, GROUP, EXPERIENCE),
        a_micro_batch,
    ),
    Rule(
        ("EasyR1",),
        "easyr1",
        ">=0",
        share,
        one_number(PER_DEVICE, "micro batch for update"),
        SHARED,
        a_micro_batch,
    ),
    Rule(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.5.5.post1,<0.7.0.post1",
        one_number(PROMPTS, "rollout_batch_size"),
        actors,
        (PROMPTS, "placement.gpus_per_node", "placement.nodes"),
        more_prompts,
    ),
    Rule(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.5.5.post1,<0.6",
        actors,
        one_number(ENGINES, "engines"),
        (ENGINES, "placement.gpus_per_node", "placement.nodes"),
        engines_that_divide,
    ),
    Rule(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.6,<0.7.1",
        larger,
        smaller,
        (ENGINES, "placement.gpus_per_node", "placement.nodes"),
        engines_that_divide,
    ),
    Rule(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.5",
        one_number(TRAIN, "train_batch_size"),
        accumulated,
        (TRAIN, PER_DEVICE, "placement.gpus_per_node", "placement.nodes"),
        a_training_batch,
    ),
    Rule(
        ("prime-rl",),
        "prime-rl",
        ">=0.3",
        one_number("batch.generation", "batch_size"),
        one_number(GROUP, "samples per problem"),
        ("batch.generation", GROUP),
        samples_of_whole_groups,
    ),
    # base_worker.py (train_step): make_iterator on what one rank has of the step.
    Rule(
        ("ROLL",),
        "roll",
        "<1",
        rows,
        backward,
        (PROMPTS, GROUP, PER_DEVICE, ACCUMULATION),
        a_backward_batch,
    ),
    # agentic_config.py
    Rule(
        ("ROLL",),
        "roll",
        ">=0.2,<1",
        one_number(PROMPTS, "rollout_batch_size"),
        native_number("train_env_manager.group_size"),
        (PROMPTS, "train_env_manager.group_size"),
        more_prompts,
    ),
    Rule(
        ("ROLL",),
        "roll",
        ">=0.1.3,<1",
        one_number("batch.validation", "val_batch_size"),
        validation_environments,
        ("batch.validation", "val_env_manager.num_env_groups", "val_env_manager.group_size"),
        an_environments_batch,
    ),
    # areal/utils/dataloader.py
    Rule(
        ("AReaL",),
        "areal",
        ">=0.4,<0.5.2",
        one_number(PROMPTS, "train_dataset.batch_size"),
        one_number("parallel.data", "data parallel ranks"),
        (PROMPTS, "parallel.data"),
        more_prompts,
    ),
    Rule(
        ("NeMo-RL",), "nemo-rl", ">=0", rollout, one_number(TRAIN, "train_global_batch_size"), (PROMPTS, GROUP, TRAIN)
    ),
    Rule(
        ("NeMo-RL",),
        "nemo-rl",
        ">=0",
        one_number(TRAIN, "train_global_batch_size"),
        devices,
        (TRAIN, "placement.gpus_per_node"),
    ),
    Rule(
        ("SkyRL",),
        "skyrl-train",
        ">=0",
        one_number(PROMPTS, "train_batch_size"),
        one_number(MINI, "policy_mini_batch_size"),
        (PROMPTS, MINI),
    ),
    Rule(
        ("SkyRL",),
        "skyrl",
        ">=0",
        one_number(PROMPTS, "train_batch_size"),
        one_number(MINI, "policy_mini_batch_size"),
        (PROMPTS, MINI),
    ),
    *(
        Rule(
            ("SkyRL",),
            package,
            ">=0",
            share,
            one_number(PER_DEVICE, "micro_train_batch_size_per_gpu"),
            SHARED,
            a_micro_batch,
        )
        for package in ("skyrl-train", "skyrl")
    ),
    # Of the value model, where one is trained: fsdp_workers.py (CriticWorker), EasyR1's ray_trainer.py, SkyRL's
    # validate_batch_sizes.
    *(
        Rule(
            (framework,),
            package,
            ">=0",
            one_number(PROMPTS, batch),
            critics_mini,
            (CRITIC_MINI, PROMPTS),
            a_critics_batch,
        )
        for framework, package, batch in (
            ("EasyR1", "easyr1", "rollout batch"),
            ("SkyRL", "skyrl-train", "train_batch_size"),
            ("SkyRL", "skyrl", "train_batch_size"),
        )
    ),
    *(
        Rule(
            (framework,),
            package,
            versions,
            critics_share,
            one_number(micro, f"micro batch {of}"),
            (micro, *CRITICS),
            a_critics_micro_batch(micro),
        )
        for framework, package, versions, micro, of in (
            ("verl", "verl", ">=0.4,<0.8", CRITIC_EACH, "of the value model"),
            ("SkyRL", "skyrl-train", ">=0", PER_DEVICE, "of every model"),
            ("SkyRL", "skyrl", ">=0", PER_DEVICE, "of every model"),
        )
    ),
)
