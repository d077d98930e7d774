"""All rewards of every group are equal, so that every advantage is 0.

What it looks for
    In the logged metrics: every group without reward variance (TRL and ms-swift ``frac_reward_zero_std`` 1, a
    ``reward_std`` of 0, verl and NeMo-RL advantages with maximum and minimum 0, SkyRL ``avg_raw_advantages_abs`` 0),
    at every logged step, or at the last ten and more of a run that had a signal before.

Why it hurts
    Group-relative methods (GRPO, RLOO, DAPO) learn from differences within a group. Without any the policy gradient
    is exactly 0: the run costs what a good one costs and changes nothing but through a KL or entropy term.

How sure it is
    Three logged steps without any variance from the start are an error, fewer a note. Single groups, and single
    steps, without variance are normal (all answers right, or all wrong) and stay quiet. So does a loss of 0: GRPO's
    loss is 0 by construction where each batch is used once and beta is 0. A run that ends without variance at its
    best reward has solved its data, which is a note.

The fix and its cost
    Depends on why the rewards are equal. A reward function that returns one value for everything, or never finds the
    answer in the format it expects: print rewards beside completions. Completions that are the same (RLD311): sample
    with temperature 1 and without top_k 1. Completions that are all cut off before the answer (RLD503): a larger
    limit. Prompts that are too hard or too easy: other data, or more completions per prompt.

References
    https://github.com/huggingface/trl/blob/main/docs/source/grpo_trainer.md#logged-metrics
    https://github.com/modelscope/ms-swift/issues/4547
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Edit, Finding, Fix, Grade, Kind, NotApplicable, Reach, Severity

from ..observed.trends import FEWEST, Run, finite, mean, signal, steps_of, trailing

check = Check("RLD501", "reward-variance-zero", __doc__, kind=Kind.QUALITY)

SHOWN = ("reward", "reward_std", "frac_reward_zero_std", "advantage_max", "advantage_abs", "grad_norm")
# A run that had a signal must have lost it for this long, in steps and as a share of the run.
LOST_STEPS = check.threshold("lost-steps", 10, "the last logged steps without any variance, in a run that had some")
LOST_SHARE = check.threshold("lost-share", 0.3, "the same as a share of all logged steps", most=1)
# A last reward this close to the best one means that the data is solved.
SOLVED = 0.98
# With this share of completions cut off and nothing but the lowest reward, the cut is the likelier cause.
CUT = 0.95
CUT_STEPS = 8


@check.observed(needs=["metrics"])
def no_advantage(case: Case) -> Iterator[Finding | Reach]:
    """Steps at which no group has differing rewards."""
    run = Run.of(case)
    reported = signal(run)
    if not reported:
        raise NotApplicable("no reward deviation and no advantages are logged")
    without = trailing(reported, False)
    if len(without) == len(reported):
        yield _from_the_start(case, run, without)
    elif len(without) >= max(LOST_STEPS.of(case), LOST_SHARE.of(case) * len(reported)):
        yield _lost(run, without, reported)
    else:
        yield Reach(f"rewards differ within groups at {sum(reported.values())} of {steps_of(len(reported))}")


def _from_the_start(case: Case, run: Run, steps: list[int]) -> Finding:
    rewards = {step: value for step, value in run.at("reward").items() if step in steps}
    varies = len({f"{value:.3g}" for value in finite(rewards).values()}) > 1
    reward = f" (mean reward {mean(rewards):.4g}{' on average' if varies else ''})" if finite(rewards) else ""
    cut = len(steps) >= CUT_STEPS and mean(run.at("clipped_ratio")) >= CUT and not varies and mean(rewards) <= 0
    severity = Severity.WARNING if cut else Severity.ERROR
    return check.finding(
        f"the rewards of every group are equal at all {steps_of(len(steps))} since step {steps[0]}{reward}: all "
        "advantages are 0 and the policy gradient is 0"
        + (", while nearly all completions are cut off at the length limit" if cut else ""),
        severity=severity if len(steps) >= FEWEST else Severity.NOTE,
        grade=Grade.OBSERVED,
        evidence=run.evidences((steps[0], steps[-1]), *SHOWN),
        fixes=tuple(_remedies(case, run, varies)),
    )


def _lost(run: Run, steps: list[int], reported: dict[int, bool]) -> Finding:
    rewards = finite(run.at("reward"))
    last = mean({step: rewards[step] for step in steps if step in rewards})
    best = max((value for step, value in rewards.items() if step not in steps), default=last)
    solved = last >= best * SOLVED if best > 0 else last >= best
    return check.finding(
        f"since step {steps[0]} ({len(steps)} of {steps_of(len(reported))}) the rewards of every group are equal"
        + (
            f" at the best reward of the run ({last:.4g}): the data is solved"
            if solved
            else f" (mean reward {last:.4g})"
        )
        + ", nothing more is learned",
        severity=Severity.NOTE if solved else Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=run.evidences((steps[0], steps[-1]), *SHOWN),
        fixes=(
            Fix(title="train on prompts that the policy solves sometimes: filter by pass rate, or sample dynamically"),
        ),
    )


def _remedies(case: Case, run: Run, varies: bool) -> Iterator[Fix]:
    if varies:
        yield Fix(
            title="the reward depends on the prompt only: sample with temperature 1.0 and no top_k of 1, so that the "
            "completions of a prompt differ, and compare them in the log (log_completions)",
            edits=(Edit(option="sampling.temperature", value=1.0), Edit(option="sampling.top_k", value=-1)),
        )
    yield Fix(
        title="make the reward function distinguish the completions of one prompt: print its values beside "
        "completions, and see that it finds the answer in the format that the model writes"
    )
    if mean(run.at("clipped_ratio")) >= CUT:
        yield Fix(title="let completions end before they are judged: a larger completion limit (RLD503)")
    given = case.plan.value("batch.generations") if case.plan is not None else None
    yield Fix(
        title="more completions per prompt, and prompts neither too easy nor too hard",
        edits=(Edit(option="batch.generations", value=2 * given),) if given else (),
        side_effects="a larger group costs generation time in proportion",
    )
