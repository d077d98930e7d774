"""What a launch leaves open of its batches: the plan as it would be if a number were known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import combinations

from rldoctor.api import Case, NotChecked, RolloutPlan, Setting, Source
from rldoctor.api.plan import plain

from ...declared.allocation import named
from ...declared.devices import visible

TOTAL = "process.total"
# What decides the number of processes is one fact to a person.
_PROCESSES = (TOTAL, "process.nproc", "process.nnodes")
_START = "start it with accelerate launch --num_processes N or torchrun --nproc_per_node N"
# More that is not known together is not worked out.
_TOGETHER = 3


def with_numbers(plan: RolloutPlan, numbers: Mapping[str, int]) -> RolloutPlan:
    """The plan if these settings were known."""
    known = {name: Setting(value=value, source=Source.DERIVED) for name, value in numbers.items()}
    return replace(plan, settings={**plan.settings, **known})


def process_counts(case: Case, plan: RolloutPlan) -> range:
    """The numbers of processes for which the machine has a device each; empty where that is not known."""
    seen = visible(case, plan)
    return range(1, len(seen) * (named(case) or 1) + 1) if seen is not None else range(0)


def not_known(
    plan: RolloutPlan, conditions: Iterable[tuple[tuple[str, ...], Callable[[RolloutPlan], bool]]]
) -> NotChecked:
    """Why none of the conditions could be judged: the fewest settings of each with which it could be. A condition is
    the names that it is about and whether a plan knows all of its numbers."""
    lacking: dict[str, None] = {}
    for names, known in conditions:
        settings = {name: plan.settings.get(name) for name in (*names, *_PROCESSES)}
        open_ = [
            name
            for name, setting in settings.items()
            if (setting is None and name in names) or (setting is not None and setting.value is None)
        ]
        sets = (chosen for size in range(1, _TOGETHER + 1) for chosen in combinations(open_, size))
        enough = (chosen for chosen in sets if known(with_numbers(plan, dict.fromkeys(chosen, 1))))
        lacking |= dict.fromkeys(next(enough, ()))
    if not lacking:
        return NotChecked("the batch sizes that frameworks compare cannot be read from the launch file")
    said = {_named(plan, name): None for name in lacking}
    starts = any(name in _PROCESSES for name in lacking) and plan.value("process.launcher") in (
        None,
        "none",
        "accelerate",
    )
    return NotChecked(f"{', '.join(said)} cannot be read from the launch file", how=_START if starts else None)


def _named(plan: RolloutPlan, name: str) -> str:
    setting = plan.settings.get(name)
    said = "the number of processes" if name in _PROCESSES else plain(name)
    return f"{said} ({setting.unknown})" if setting is not None and setting.unknown else said
