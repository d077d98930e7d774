"""Completions that a log, or a dump of the rollouts, shows beside each other."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Edit, Finding, Fix, Grade, NotChecked, Reach, Severity

from ...observed.trends import Run, finite, mean, steps_of
from . import check

# Nats per token below which a policy that repeats itself is sure, not badly sampled.
SURE = 0.05
# Groups that must all be the same: one may be chance.
FEWEST_GROUPS = 2
MANY_GROUPS = 4


@check.observed(needs=["metrics.sampled_groups", "metrics.sampled_groups_identical"])
def logged_groups(case: Case) -> Iterator[Finding | Reach]:
    """Completions that the log shows beside each other."""
    run = Run.of(case)
    groups, identical = finite(run.at("sampled_groups")), finite(run.at("sampled_groups_identical"))
    seen = int(sum(count for step, count in groups.items() if step in identical))
    same = int(sum(identical.values()))
    entropy = mean({step: value for step, value in finite(run.at("entropy")).items() if step in groups})
    if same == seen < FEWEST_GROUPS:
        raise NotChecked(f"too few logged groups of several completions to tell: {seen}")
    if same < seen:
        yield Reach(f"{seen - same} of {seen} logged groups have differing completions")
        return
    if entropy < SURE:
        yield Reach(f"{seen} logged groups are the same, which is likely at an entropy of {entropy:.3g}")
        return
    shown = ("sampled_groups", "sampled_groups_identical", "entropy", "reward", "frac_reward_zero_std")
    yield check.finding(
        f"the completions of each prompt are the same in all {seen} logged groups ({steps_of(len(groups))} since step "
        f"{min(groups)})",
        severity=Severity.ERROR if seen >= MANY_GROUPS else Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=run.evidences((min(groups), max(groups)), *shown),
        fixes=(
            Fix(
                title="sample with temperature 1.0, without a top_k of 1 (0 or -1 is all tokens), and without one seed "
                "for all requests",
                edits=(
                    Edit(option="sampling.temperature", value=1.0),
                    Edit(option="sampling.top_k", value=-1),
                    Edit(option="sampling.top_p", value=1.0),
                ),
            ),
        ),
    )
