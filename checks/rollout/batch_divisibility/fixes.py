"""What to do about batches that do not divide: micro batches, training batches, groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rldoctor.api import Fix, RolloutPlan

from ...declared.batches import (
    ACCUMULATION,
    CRITIC_MINI,
    EXPERIENCE,
    GENERATION,
    GROUP,
    MINI,
    PER_DEVICE,
    PROMPTS,
    TRAIN,
    data_ranks,
)


def a_micro_batch(plan: RolloutPlan, whole: int, micro: int) -> Iterator[Fix]:
    """The largest micro batch below the given one that divides what one rank has to do."""
    fitting = max(size for size in range(1, micro + 1) if whole % size == 0)
    option = EXPERIENCE if plan.value(EXPERIENCE) == micro and plan.value(PER_DEVICE) != micro else PER_DEVICE
    yield Fix.safe(f"micro batches of {fitting}", {option: fitting}, side_effects="more, smaller micro steps")


def a_critics_batch(plan: RolloutPlan, prompts: int, mini: int) -> Iterator[Fix]:
    """The nearest mini batch of the value model that divides the prompts of a step."""
    nearest = min((n for n in range(1, prompts + 1) if prompts % n == 0), key=lambda n: (abs(n - mini), n))
    yield Fix.safe(
        f"train the value model on batches of {nearest} prompts, which divide {prompts}",
        {CRITIC_MINI: nearest},
        side_effects="another number of its optimizer steps per rollout",
    )


def a_critics_micro_batch(option: str) -> Callable[[RolloutPlan, int, int], Iterator[Fix]]:
    """The largest micro batch below the given one that divides what one rank of the value model has to do."""

    def remedy(plan: RolloutPlan, whole: int, micro: int) -> Iterator[Fix]:
        fitting = max(size for size in range(1, micro + 1) if whole % size == 0)
        yield Fix.safe(f"micro batches of {fitting}", {option: fitting}, side_effects="more, smaller micro steps")

    return remedy


def more_prompts(plan: RolloutPlan, whole: int, parts: int) -> Iterator[Fix]:
    """The nearest number of prompts that divides, in whole mini batches where these are known."""
    prompts, mini = plan.value(PROMPTS), plan.value(MINI) or 1
    each = plan.value(GROUP, 1) or 1 if whole != prompts else 1
    dividing = [n for n in range(1, 2 * prompts + parts * mini) if n * each % parts == 0 and n >= mini]
    nearest = min(
        [n for n in dividing if n % mini == 0] or dividing, key=lambda n: (abs(n - prompts), -n), default=None
    )
    if nearest is not None:
        yield Fix.safe(
            f"roll out {nearest} prompts per step",
            {PROMPTS: nearest},
            side_effects="a step takes longer" if nearest > prompts else "a step trains on less",
        )


def engines_that_divide(plan: RolloutPlan, actors: int, engines: int) -> Iterator[Fix]:
    """The nearest smaller number of engines that the actors can be divided among."""
    ranks, given = plan.value("placement.trainer_gpus"), plan.value("placement.engines")
    fitting = max(n for n in range(1, given + 1) if ranks % n == 0)
    yield Fix.unsafe(
        f"start {fitting} engines",
        {"placement.engines": fitting},
        side_effects="devices of the engines that are left out stay idle unless the actors take them",
    )


def a_part_that_divides(plan: RolloutPlan, whole: int, part: int) -> Iterator[Fix]:
    """The nearest mini or training batch that divides the whole, and of which every rank gets as much."""
    ranks, prompts, group = data_ranks(plan) or 1, plan.value(PROMPTS), plan.value(GROUP, 1) or 1
    option = next((name for name in (MINI, TRAIN) if plan.value(name) == part), None)
    each = group if whole == prompts else 1
    sizes = [size for size in range(1, whole + 1) if whole % size == 0 and size * each % ranks == 0]
    if option is not None:
        yield from _nearest(option, part, sizes, f"train on batches of {{}}, which divide {whole}")


def _nearest_multiple(given: int, unit: int) -> int:
    return max(unit, round(given / unit) * unit)


def _nearest(option: str, given: int, sizes: list[int], title: str) -> Iterator[Fix]:
    """The one of the sizes that is nearest to what is given, the smaller of two; nothing where there is none."""
    nearest = min(sizes, key=lambda size: (abs(size - given), size), default=None)
    if nearest is not None:
        yield Fix.safe(
            title.format(nearest),
            {option: nearest},
            side_effects="another number of optimizer steps per rollout",
        )


def a_mini_batch_of_all_ranks(plan: RolloutPlan, whole: int, ranks: int) -> Iterator[Fix]:
    """The nearest mini batch that divides the prompts of a step and gives each rank as many completions."""
    mini, group, prompts = plan.value(MINI), plan.value(GROUP, 1) or 1, plan.value(PROMPTS)
    sizes = [n for n in range(1, mini + ranks + 1) if n * group % ranks == 0 and (not prompts or prompts % n == 0)]
    yield from _nearest(MINI, mini, sizes, "train on mini batches of {} prompts")


def a_backward_batch(plan: RolloutPlan, samples: int, step: int) -> Iterator[Fix]:
    """The nearest number of micro steps that divides what one rank has of a step; or prompts that fill the steps."""
    steps, group = plan.value(ACCUMULATION), plan.value(GROUP, 1) or 1
    micro = step // steps
    sizes = [n for n in range(1, 2 * steps + 1) if samples % (micro * n) == 0]
    yield from _nearest(ACCUMULATION, steps, sizes, "accumulate {} micro steps")
    prompts = next((n for n in range(samples // group, samples // group + step + 1) if n * group % step == 0), None)
    if prompts is not None:
        yield Fix.unsafe(
            f"or roll out {prompts} prompts per step", {PROMPTS: prompts}, side_effects="a step takes longer"
        )


def samples_of_whole_groups(plan: RolloutPlan, samples: int, group: int) -> Iterator[Fix]:
    """The nearest number of samples that is a number of whole groups."""
    nearest = _nearest_multiple(samples, group)
    yield Fix.safe(
        f"sample {nearest} completions per step",
        {GENERATION: nearest},
        side_effects="another number of problems per step",
    )


def an_evaluation_batch(plan: RolloutPlan, whole: int, group: int) -> Iterator[Fix]:
    """The smallest larger batch per device that holds whole groups on all of them together."""
    each = plan.value("batch.per_device_eval")
    ranks = whole // each
    fitting = next(size for size in range(each, each + group + 1) if size * ranks % group == 0)
    yield Fix.safe(
        f"evaluate {fitting} completions per device",
        {"batch.per_device_eval": fitting},
        side_effects="more memory in evaluation",
    )


def an_environments_batch(plan: RolloutPlan, batch: int, environments: int) -> Iterator[Fix]:
    """The nearest validation batch of which every environment plays as much."""
    nearest = _nearest_multiple(batch, environments)
    yield Fix.safe(
        f"validate on {nearest} trajectories",
        {"batch.validation": nearest},
        side_effects="another number of trajectories per validation",
    )


def some_environments(section: str) -> Callable[[RolloutPlan, int, int], Iterator[Fix]]:
    """Environments for a manager of ROLL that has none."""

    def remedy(plan: RolloutPlan, number: int, least: int) -> Iterator[Fix]:
        yield Fix(title=f"give {section} environments: num_env_groups and group_size of at least 1, with their tags")

    return remedy


def an_environments_group(plan: RolloutPlan, size: int, least: int) -> Iterator[Fix]:
    """Groups in which trajectories can be compared, or rewards that are not."""
    yield Fix(title="play each start several times: train_env_manager.group_size of 2 or more")
    yield Fix(title="or take rewards as they are: reward_normalization.method: identity")


def a_training_batch(plan: RolloutPlan, batch: int, step: int) -> Iterator[Fix]:
    """The nearest batch that is a multiple of what all ranks train on in one micro step."""
    nearest = _nearest_multiple(batch, step)
    yield Fix.safe(
        f"train on batches of {nearest}",
        {TRAIN: nearest},
        side_effects="another number of completions per optimizer step",
    )


def mini_of_all_prompts(plan: RolloutPlan, prompts: int, mini: int) -> Iterator[Fix]:
    """One optimizer step on all that was rolled out, or more to roll out."""
    yield Fix.safe(f"take one optimizer step per rollout: mini batches of {prompts} prompts", {MINI: prompts})
    yield Fix.unsafe(f"or roll out {mini} prompts per step", {PROMPTS: mini}, side_effects="a step takes longer")


def room_for_a_sequence(tokens: str, ranks: str) -> Callable[[RolloutPlan, int, int], Iterator[Fix]]:
    """Micro batches that hold the longest sequence, shared among the ``ranks`` of its sequence parallelism; ``tokens``
    is the limit of one rank."""

    def remedy(plan: RolloutPlan, held: int, sequence: int) -> Iterator[Fix]:
        least = -(-sequence // (plan.value(ranks, 1) or 1))
        yield Fix.safe(
            f"micro batches of {least} tokens, which hold the longest sequence",
            {tokens: least},
            side_effects="more activation memory",
        )

    return remedy


def a_larger_mini_batch(plan: RolloutPlan, completions: int, ranks: int) -> Iterator[Fix]:
    """The smallest mini batch that gives every rank something, in whole micro batches."""
    prompts, group, micro = plan.value(PROMPTS), plan.value(GROUP, 1) or 1, plan.value(PER_DEVICE) or 1
    sizes = [size for size in range(1, (prompts or 0) + 1) if prompts % size == 0 and size * group % ranks == 0]
    fitting = next((size for size in sizes if size * group // ranks % micro == 0), None)
    if fitting is None:
        yield Fix(title=f"mini batches of at least {-(-ranks // group)} prompts, or fewer devices")
        return
    yield Fix.safe(
        f"mini batches of {fitting} prompts", {MINI: fitting}, side_effects="fewer optimizer steps per rollout"
    )


def a_group(plan: RolloutPlan, size: int, least: int) -> Iterator[Fix]:
    """A group in which completions can be compared; of a size that divides the generation batch where that is known."""
    batch = plan.value("batch.generation")
    sizes = [n for n in range(2, 17) if isinstance(batch, int) and batch % n == 0]
    usual = min(sizes, key=lambda n: abs(n - 8), default=8)
    yield Fix.unsafe(
        f"sample {usual} completions per prompt",
        {GROUP: usual},
        side_effects="more completions to sample and to train on, or fewer prompts per step",
    )


def smaller_sample_batches(plan: RolloutPlan, batches: int, ranks: int) -> Iterator[Fix]:
    """Sample batches small enough that every rank gets one."""
    completions = (plan.value(PROMPTS) or 0) * (plan.value(GROUP) or 1)
    if completions >= ranks:
        yield Fix.safe(
            f"sample batches of {completions // ranks}",
            {EXPERIENCE: completions // ranks},
            side_effects="more, smaller forward passes",
        )
    else:
        yield Fix(title=f"roll out at least {ranks} completions per step, or train on fewer devices")
