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
    Each rule (``rules.py``) and each least number (``floors.py``) is one condition of the framework's
    source, with the versions that have it; it is judged only when all of its numbers are known. TRL 0.18 and ms-swift
    3.5 have an operator slip in one test (``a % b * c``), which is therefore not judged for them.

The fix and its cost
    The nearest group size that divides, or a batch that is a multiple. Both change how many completions a prompt gets
    or how many there are in a step.

References
    ``__post_init__``: https://github.com/huggingface/trl/blob/v0.24.0/trl/trainer/grpo_config.py,
    ms-swift ``swift/llm/argument/rlhf_args.py``, verl ``verl/utils/config.py`` (``validate_config``), EasyR1
    ``verl/trainer/ray_trainer.py``, NeMo-RL ``nemo_rl/distributed/batched_data_dict.py``, SkyRL
    ``skyrl_train/utils/utils.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    NotApplicable,
    Reach,
    RolloutPlan,
    Source,
    cite,
    plan_of,
)
from rldoctor.api.facts import aside
from rldoctor.api.plan import cite_given

from ...declared.batches import ACCUMULATION, GROUP, PER_DEVICE, PROMPTS, ranks_of
from ...declared.devices import machine_evidence
from .fixes import a_part_that_divides
from .floors import FLOORS
from .rules import RULES, Rule
from .unknown import TOTAL, not_known, process_counts, with_numbers

# A batch that differs by less is what was meant.
NEARLY = 0.1

check = Check("RLD211", "batch-indivisible", __doc__)


@check.declared(needs=["plan"])
def indivisible(case: Case) -> Iterator[Finding | Reach]:
    """The framework's own conditions."""
    plan = plan_of(case)
    rules = [rule for rule in RULES if rule.covers(case)]
    if plan.value("trainer.algorithm") == "async_grpo":
        raise NotApplicable("asynchronous GRPO builds its groups from what the server returns")
    if not rules:
        raise NotApplicable(f"no rule is known for this release of {plan.framework}")
    reported = _numbers(plan, rules)
    if _misfit(reported) is None and ranks_of(plan) is None:
        # However many are started: each number that the machine has devices for must be refused.
        with aside():
            counts = process_counts(case, plan)
            misfits = [_misfit(_numbers(with_numbers(plan, {TOTAL: count}), rules)) for count in counts]
        if misfits and all(misfits):
            yield _whatever_the_processes(case, plan, [misfit for misfit in misfits if misfit is not None])
            return
    if not reported:
        raise not_known(plan, [(rule.cites, rule.known) for rule in rules])
    for rule, dividend, divisor in reported:
        if dividend[0] % divisor[0] == 0:
            yield Reach(f"{dividend[0]} ({dividend[1]}) by {divisor[0]} ({divisor[1]})")
            continue
        yield check.finding(
            f"{_named(*dividend)} is not a multiple of {_named(*divisor)}",
            evidence=cite(plan, *rule.cites),
            fixes=_ways(plan, rule, dividend[0], divisor[0]),
        )
        return  # the next condition of a framework is about the same numbers


@check.declared(needs=["plan"])
def too_few(case: Case) -> Iterator[Finding | Reach]:
    """The least that the framework wants of a batch, a group or a rank's share."""
    plan = plan_of(case)
    if plan.value("trainer.algorithm") == "async_grpo":
        raise NotApplicable("asynchronous GRPO builds its groups from what the server returns")
    floors = [floor for floor in FLOORS if floor.covers(case)]
    if not floors:
        raise NotApplicable(f"no least number is known for this release of {plan.framework}")
    reported = [
        (floor, number, least)
        for floor in floors
        if (number := floor.number(plan)) is not None and (least := floor.least(plan)) is not None
    ]
    if not reported:
        raise not_known(plan, [(floor.cites, floor.known) for floor in floors])
    for floor, number, least in reported:
        native = [one for one in plan.given if one.key in floor.cites]
        chosen = any(setting.source is not Source.DEFAULT for name in floor.cites if (setting := plan.get(name)))
        # What nobody chose is no launch's fault: an excerpt, or the rest is in a file that is not at hand.
        if number >= least or not (chosen or native):
            yield Reach(f"{number} of at least {least}" + ("" if number >= least else ", all by default"))
            continue
        yield check.finding(
            floor.message.format(number, least, framework=plan.framework),
            severity=floor.severity,
            evidence=(*cite(plan, *floor.cites), *map(cite_given, native)),
            fixes=tuple(floor.remedy(plan, number, least)),
        )
        return  # the next condition is about the same numbers


Misfit = tuple[Rule, tuple[int, str], tuple[int, str]]


def _numbers(plan: RolloutPlan, rules: Sequence[Rule]) -> list[Misfit]:
    """The rules of which both numbers are known."""
    return [
        (rule, dividend, divisor)
        for rule in rules
        if (dividend := rule.dividend(plan)) is not None and (divisor := rule.divisor(plan)) is not None
    ]


def _misfit(numbers: Sequence[Misfit]) -> Misfit | None:
    return next((each for each in numbers if each[1][0] % each[2][0]), None)


def _whatever_the_processes(case: Case, plan: RolloutPlan, misfits: Sequence[Misfit]) -> Finding:
    """One misfit for each number of processes that the machine has devices for."""
    rule, dividend, divisor = misfits[-1]
    first, least, by = misfits[0]
    count = len(misfits)
    several = f"no number of processes up to {count} fits: " if count > 1 else ""
    return check.finding(
        f"{several}{_named(*dividend)} is not a multiple of {_named(*divisor)}",
        evidence=(*cite(plan, *rule.cites), *machine_evidence(case)),
        # What divides for one process divides for each number of them.
        fixes=_ways(with_numbers(plan, {TOTAL: 1}), first, least[0], by[0]),
    )


def _named(number: int, what: str) -> str:
    """``num_generations 8``, ``32 prompts x 16 = 512``."""
    computed = " x " in what or " / " in what
    return what if not computed and str(number) in what.split() else f"{what} = {number}"


def _ways(plan: RolloutPlan, rule: Rule, dividend: int, divisor: int) -> tuple[Fix, ...]:
    """The rule's own remedies; or the usual ones, and a batch that divides in place of the one that does not, which
    comes first where it is nearly the same."""
    if rule.remedy is not None:
        return tuple(rule.remedy(plan, dividend, divisor))
    usual = tuple(_remedies(plan, dividend, divisor))
    named = [name for name in rule.cites if name.startswith("batch.") and plan.value(name) == divisor]
    if len(named) != 1 or named[0] == GROUP:
        return usual
    sizes = [size for size in range(2, dividend + 1) if dividend % size == 0]
    nearest = min(sizes, key=lambda size: abs(size - divisor), default=None)
    if nearest is None:
        return usual
    fix = Fix.unsafe(f"a batch of {nearest}, which divides {dividend}", {named[0]: nearest})
    return (fix, *usual) if abs(nearest - divisor) <= NEARLY * divisor else (*usual, fix)


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
        yield from a_part_that_divides(plan, dividend, divisor)
        group = plan.value(GROUP, 1) or 1
        prompts = plan.value(PROMPTS)
        per_prompt = group if dividend == prompts * group else 1
        rounded = next((p for p in range(prompts, prompts + divisor + 1) if p * per_prompt % divisor == 0), None)
        if rounded is not None:
            yield Fix.safe(
                f"roll out {rounded} prompts per step", {PROMPTS: rounded}, side_effects="a step takes longer"
            )
