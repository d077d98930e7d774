"""Batch, micro batch, group and worker counts that do not divide.

What it looks for
    The divisions that the framework itself makes before or while it starts, on the numbers of the launch: completions
    of one generation over the group size, batches over ranks, mini batches over micro batches; and what is too small
    for its purpose: fewer prompts than a mini batch, nothing left for a rank, groups of one. In a log: the framework's
    refusals.

Why it hurts
    Most frameworks refuse with an assertion, some only after every model has been loaded on every rank. Where nothing
    asserts, groups are cut in two and advantages are computed over half of them.

How sure it is
    Each rule (``batch_rules.py``) and each least number (``batch_floors.py``) is one condition of the framework's
    source, with the versions that have it; it is judged only when all of its numbers are known. TRL 0.18 and ms-swift
    3.5 have an operator slip in one test (``a % b * c``), which is therefore not judged for them.

The fix and its cost
    The nearest group size that divides, or a batch that is a multiple. Both change how many completions a prompt gets
    or how many there are in a step.

References
    TRL ``trl/trainer/grpo_config.py`` (``__post_init__``), ms-swift ``swift/llm/argument/rlhf_args.py``, verl
    ``verl/utils/config.py`` (``validate_config``), EasyR1 ``verl/trainer/ray_trainer.py``, NeMo-RL
    ``nemo_rl/distributed/batched_data_dict.py``, SkyRL ``skyrl_train/utils/utils.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Source,
    cite,
    installed_within,
    plan_of,
)

from .batch_floors import FLOORS
from .batch_operands import ACCUMULATION, GENERATION, GROUP, MINI, PER_DEVICE, PROMPTS, TRAIN
from .batch_rules import RULES

check = Check("RLD211", "batch-indivisible", __doc__)


@check.declared(needs=["plan"])
def indivisible(case: Case) -> Iterator[Finding | Reach]:
    """The framework's own conditions."""
    plan = plan_of(case)
    rules = [
        rule
        for rule in RULES
        if plan.framework in rule.frameworks and installed_within(case, rule.package, rule.versions)
    ]
    if plan.value("trainer.algorithm") == "async_grpo":
        raise NotApplicable("asynchronous GRPO builds its groups from what the server returns")
    if not rules:
        raise NotApplicable(f"no rule is known for this release of {plan.framework}")
    told = [
        (rule, dividend, divisor)
        for rule in rules
        if (dividend := rule.dividend(plan)) is not None and (divisor := rule.divisor(plan)) is not None
    ]
    if not told:
        raise NotChecked("the batch sizes that have to divide cannot be read from the launch file")
    for rule, dividend, divisor in told:
        if dividend[0] % divisor[0] == 0:
            yield Reach(f"{dividend[0]} ({dividend[1]}) by {divisor[0]} ({divisor[1]})")
            continue
        yield check.finding(
            f"{dividend[0]} ({dividend[1]}) is not a multiple of {divisor[0]} ({divisor[1]})",
            evidence=cite(plan, *rule.cites),
            fixes=tuple((rule.remedy or _remedies)(plan, dividend[0], divisor[0])),
        )
        return  # the next condition of a framework is about the same numbers


@check.declared(needs=["plan"])
def too_few(case: Case) -> Iterator[Finding | Reach]:
    """The least that the framework wants of a batch, a group or a rank's share."""
    plan = plan_of(case)
    if plan.value("trainer.algorithm") == "async_grpo":
        raise NotApplicable("asynchronous GRPO builds its groups from what the server returns")
    floors = [
        floor
        for floor in FLOORS
        if plan.framework in floor.frameworks and installed_within(case, floor.package, floor.versions)
    ]
    if not floors:
        raise NotApplicable(f"no least number is known for this release of {plan.framework}")
    told = [
        (floor, number, least)
        for floor in floors
        if (number := floor.number(plan)) is not None and (least := floor.least(plan)) is not None
    ]
    if not told:
        raise NotChecked("the batch sizes that must reach a least number cannot be read from the launch file")
    for floor, number, least in told:
        given = any(setting.source is not Source.DEFAULT for name in floor.cites if (setting := plan.get(name)))
        # What nobody chose is no launch's fault: an excerpt, or the rest is in a file that is not at hand.
        if number >= least or not given:
            yield Reach(f"{number} of at least {least}" + ("" if number >= least else ", all by default"))
            continue
        yield check.finding(
            floor.message.format(number, least, framework=plan.framework),
            evidence=cite(plan, *floor.cites),
            fixes=tuple(floor.remedy(plan, number, least)),
        )
        return  # the next condition is about the same numbers


def _remedies(plan: RolloutPlan, dividend: int, divisor: int) -> Iterator[Fix]:
    if plan.value(GROUP) == divisor:
        sizes = [size for size in range(2, dividend + 1) if dividend % size == 0]
        nearest = min(sizes, key=lambda size: (abs(size - divisor), -size), default=None)
        if nearest is not None:
            yield Fix.safe(
                f"sample {nearest} completions per prompt",
                {GROUP: nearest},
                side_effects="the advantage is estimated over another group size",
            )
    each, accumulation = plan.value(PER_DEVICE), plan.value(ACCUMULATION)
    if each and plan.value(GROUP) == divisor:
        # The per-device batch enters the dividend as a factor, so a multiple of the divisor makes it divide.
        factor = next(k for k in range(1, divisor + 1) if dividend * k % divisor == 0)
        yield Fix.unsafe(
            f"train on {each * factor} completions per device",
            {PER_DEVICE: each * factor},
            side_effects="more activation memory",
        )
        if accumulation:
            yield Fix.unsafe(
                f"accumulate {accumulation * factor} micro steps",
                {ACCUMULATION: accumulation * factor},
                side_effects="fewer optimizer steps per completion",
            )
    elif plan.value(PROMPTS):
        group = plan.value(GROUP, 1) or 1
        prompts = plan.value(PROMPTS)
        per_prompt = group if dividend == prompts * group else 1
        rounded = next((p for p in range(prompts, prompts + divisor + 1) if p * per_prompt % divisor == 0), None)
        if rounded is not None:
            yield Fix.safe(
                f"roll out {rounded} prompts per step", {PROMPTS: rounded}, side_effects="a step takes longer"
            )


# Messages about batches, with what their numbers are; the first that fits is told.
REFUSALS = (
    (r"generation_batch_size \((?P<of>\d+)\) must be divisible by num_generations \((?P<by>\d+)\)", GROUP),
    (r"batch size \([^)]*\) must be evenly divisible by the number of generations per prompt \((?P<by>\d+)\)", GROUP),
    (r"evenly divisible by the number of generations (?:per|for|used)\b[^(]*\((?P<by>\d+)\)", GROUP),
    (r"eval batch size \([^)]*\) must be divisible by[^(]*num_generations\w* \((?P<by>\d+)\)", GROUP),
    (r"generation_batch_size \((?P<of>\d+)\) must be divisible by the global batch size \((?P<by>\d+)\)", GENERATION),
    (r"real_train_batch_size \((?P<of>\d+)\) must be divisible by[^(]*\((?P<by>\d+)\)", PROMPTS),
    (r"only support equal chunk\. Got size of DataProto (?P<of>\d+) and chunk (?P<by>\d+)", PROMPTS),
    (r"rollout_ba?t?ch_size must be divisible by actor_world_size, got (?P<of>\d+) and (?P<by>\d+)", PROMPTS),
    (r"= (?P<of>\d+) must be divisible by data_parallel size (?P<by>\d+)", PROMPTS),
    (r"mini_batch_size \(?(?P<of>\d+)\)? (?:must|should) be divisible by \w*micro_batch_size\w* \(?(?P<by>\d+)", MINI),
    (r"Rollout batch size must be divisible by \w+ global batch size", MINI),
    (r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size (?P<of>\d+) !=", TRAIN),
    (r"batch size \((?P<of>\d+)\) needs to be a round multiple of the number of processes \((?P<by>\d+)\)", PER_DEVICE),
    (r"(?:must|should) be (?:evenly )?divisible by|is not divisible by", ""),
)
ABOUT_BATCHES = re.compile(r"batch|generations|DataProto|num_engines|critic_world_size", re.IGNORECASE)


@check.logged(
    "must be divisible by",
    "should be divisible by",
    "be evenly divisible by",
    "is not divisible by",
    "only support equal chunk. Got size of DataProto",
    "train_batch_size is not equal to micro_batch_per_gpu",
    "needs to be a round multiple of the number of processes",
)
def refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The framework's own assertion."""
    message = event.line if event.exception is None else event.exception.message
    if event.exception is None and not event.fatal and event.level not in ("ERROR", "CRITICAL"):
        return  # a remark
    if not ABOUT_BATCHES.search(message) or "attention heads" in message:
        return
    for pattern, option in REFUSALS:
        found = re.search(pattern, message)
        if found is None:
            continue
        numbers = {name: int(text) for name, text in found.groupdict().items()}
        valid = re.search(r"valid values for the number of generations are: \[([\d, ]*)\]", message)
        choices = [int(n) for n in valid[1].split(",") if n.strip()] if valid else []
        yield check.finding(message.splitlines()[0][:300], fixes=tuple(_logged_remedies(option, numbers, choices)))
        return


def _logged_remedies(option: str, numbers: dict[str, int], choices: list[int]) -> Iterator[Fix]:
    of, by = numbers.get("of"), numbers.get("by")
    if option == GROUP and by:
        sizes = choices or [size for size in range(2, (of or 0) + 1) if of and of % size == 0]
        nearest = min((n for n in sizes if n > 1), key=lambda n: (abs(n - by), -n), default=None)
        if nearest is not None:
            yield Fix.unsafe(f"sample {nearest} completions per prompt", {GROUP: nearest})
        if of:
            # The per-device batch enters as a factor.
            factor = next(k for k in range(1, by + 1) if of * k % by == 0)
            yield Fix.unsafe(
                f"or make the generation batch {of * factor} (per_device_train_batch_size or "
                f"gradient_accumulation_steps times {factor})",
                {GENERATION: of * factor},
            )
        return
    if of and by and option in (GENERATION, PROMPTS):
        yield Fix(title=f"make the batch a multiple of {by}: {-(-of // by) * by} instead of {of}")
        return
    yield Fix(
        title="make the larger batch a multiple of the smaller one, and of the ranks that share it: train "
        "batch, mini batch, "
        "micro batch and num_generations in that order",
    )


@check.logged(
    "requires at least 2 generations per prompt",
    "requires n_samples_per_prompt > 1",
    "algorithm need `config.worker.rollout.n > 1`",
    "number of sample batches must be greater than or equal to the effective number of actor processes",
)
def group_too_small(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Advantages of a group need two completions, and every rank needs a batch."""
    if event.literal.startswith("number of sample batches"):
        yield check.finding(
            "there are fewer sample batches than training ranks",
            fixes=(
                Fix(title="raise --rollout_batch_size or --n_samples_per_prompt, or lower --micro_rollout_batch_size"),
            ),
        )
        return
    yield check.finding(
        "a group of one completion has no advantage: the algorithm needs two or more per prompt",
        fixes=(Fix.unsafe("sample several completions per prompt (num_generations, rollout.n)", {GROUP: 8}),),
    )


@check.logged("range() arg 3 must not be zero", "view(-1, self.num_generations)")
def no_whole_group(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The generation batch holds no whole group: ms-swift's sampler steps by zero, rewards cannot be grouped."""
    error = event.exception
    if error is None or (event.literal.startswith("view") and "is invalid for input of size" not in error.message):
        return
    if event.literal.startswith("range") and not any(
        f.file.endswith(("sampler.py", "utils.py", "trainer.py")) for f in error.frames
    ):
        return
    yield check.finding(
        "num_generations does not divide the completions of one generation (processes x per_device_train_batch_size x "
        "gradient_accumulation_steps)",
        fixes=(
            Fix(
                title="choose num_generations as a divisor of that product, or raise the per-device batch or "
                "accumulation"
            ),
        ),
        url="https://github.com/modelscope/ms-swift/issues/4589",
    )
