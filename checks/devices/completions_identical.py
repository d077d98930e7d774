"""Completions that must differ are the same.

What it looks for
    In a launch: groups of several completions at temperature 0, or with the most likely token alone (top_k 1). In a
    real rollout on a miniature model: all completions of a group that was sampled at temperature 1, without a
    seed of their own, are token for token the same; engines or requests to which the launch gives different seeds draw
    the same completions, so that the seeds have no effect; draws of one batch are equal more often than independent
    ones are; and, under ``--soak``, a request is drawn the same time after time. In a log: in TRL's table of
    completions (``log_completions``), in ms-swift's ``completions.jsonl`` or verl's rollout dump all completions of
    each prompt are the same.

Why it hurts
    The completions of a group get the same reward, so every advantage is 0 and nothing is learned; the run looks
    healthy.

How sure it is
    The engine's own log-probabilities say how likely it was that the others repeat the first; reported is only what
    would happen by chance less than once in a thousand million times. A peaked distribution or a very short completion
    is therefore no finding. Logged completions must be the same in all of two groups and more; short ones, those that
    the log cuts off, and those of a policy whose logged entropy is nearly 0 are left out.

The fix and its cost
    Sampling parameters with a temperature above 0, without a top_k of 1 and without one seed for all requests; another
    release of vLLM where the sampler itself is stuck.

References
    https://docs.vllm.ai/en/latest/usage/reproducibility.html
    https://docs.vllm.ai/en/latest/api/vllm/sampling_params.html
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    Source,
    cite,
    plan_of,
)
from rldoctor.api.seeds import replicas_per_prompt, seed_topology

from ..observed.draws import dependent
from ..observed.rollout import (
    NEVER,
    Completion,
    describe,
    groups,
    log_probability,
    one_cause,
    records,
    repeats_one_token,
    require,
    rollouts,
    runs,
)
from ..observed.soak import repeated, soaked
from ..observed.trends import Run, finite, mean, steps_of
from .seeds import live as sampled

check = Check("RLD311", "completions-identical", __doc__, before=("RLD501",))

TEMPERATURE, TOP_K = "sampling.temperature", "sampling.top_k"
# Nats per token below which a policy that repeats itself is sure, not badly sampled.
SURE = 0.05
# Groups that must all be the same: one may be chance.
FEWEST_GROUPS = 2
MANY_GROUPS = 4


@check.declared(needs=["plan", "plan.batch.generations"])
def sampled_greedily(case: Case) -> Iterator[Finding | Reach]:
    """A group of which every completion is the most likely one, whatever the seeds are."""
    plan = plan_of(case)
    size, given = plan.value("batch.generations"), {name: plan.settings.get(name) for name in (TEMPERATURE, TOP_K)}
    if size < 2:
        raise NotApplicable("one completion for each prompt")
    if any(one.key.rpartition(".")[2] == "val_only" and one.value is True for one in plan.given):
        raise NotApplicable("it validates, and does not train")
    greedy = {
        name: setting
        for name, value in ((TEMPERATURE, 0), (TOP_K, 1))
        if (setting := given[name]) is not None and setting.value == value and setting.source is Source.GIVEN
    }
    if greedy:
        said = [f"{setting.key} {setting.value}" for setting in greedy.values()]
        yield check.finding(
            f"{' and '.join(said)} {'takes' if len(said) == 1 else 'take'} the most likely token each time: the {size} "
            "completions of a prompt are the same, and nothing sets their rewards apart",
            severity=Severity.ERROR,
            evidence=cite(plan, *greedy, "batch.generations"),
            fixes=(Fix.unsafe("sample", {name: 1.0 if name == TEMPERATURE else -1 for name in greedy}),),
        )
    temperature = given[TEMPERATURE]
    if temperature is None or temperature.value is None:
        raise NotChecked("the temperature of the rollout is not known")
    yield Reach(f"{size} completions of a prompt, sampled at temperature {temperature.value:g}")


@check.observed(needs=["observations.rollout"])
@one_cause
def group_is_one(case: Case) -> Iterator[Finding | Reach]:
    """A sampled group in which nothing differs."""
    compared = 0
    for job in rollouts(case).values():
        for request, rows in groups(job):
            if len(rows) < 2:
                continue
            compared += 1
            if _distinct(rows) > 1:
                yield Reach(f"{_distinct(rows)} of {len(rows)} completions of the {request} differ in {describe(job)}")
                continue
            if repeats_one_token(rows):
                raise NotApplicable("the outputs are corrupt (RLD404): one token is repeated")
            first = log_probability(rows[0])
            if first is None:
                raise NotApplicable("the outputs are corrupt (RLD404): log-probabilities are no numbers")
            repeated = first * (len(rows) - 1)
            if repeated > NEVER:
                yield Reach(f"the {request} is equal, which is likely for so peaked a distribution")
                continue
            temperature, seed = rows[0]["temperature"], records(job).get("engine", {}).get("seed")
            chance = f"log-probability {first:.1f} of the first, {repeated:.0f} that all others repeat it"
            yield check.finding(
                f"all {len(rows)} completions sampled at temperature {temperature} by {describe(job)} are the same",
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(text=f"{request}: {len(rows)} times {rows[0]['token_ids'][:16]}", source="rollout probe"),
                    Evidence(text=chance, source="rollout probe"),
                    Evidence(text=f"engine seed {seed}", source="rollout probe"),
                ),
                fixes=(
                    Fix(title="sample with a temperature above 0 and without a seed for each request"),
                    Fix(title="another release of vLLM: its sampler draws the same numbers for every request"),
                ),
            )
    if not compared:
        raise NotChecked("the rollout sampled no group of several completions")


@check.observed(needs=["observations.sampling"])
def draws_of_one_batch(case: Case) -> Iterator[Finding | Reach]:
    """Requests that share their random numbers: draws of one batch, or of two calls, are equal too often."""
    alike = [rows for job in rollouts(case).values() for _, rows in groups(job) if len(rows) > 1]
    if any(_distinct(rows) == 1 for rows in alike):
        raise NotApplicable("the whole group is one completion")
    for job in runs(case, "sampling"):
        reported = dependent(job)
        if reported:
            yield check.finding(
                f"requests of one batch do not draw independently in {describe(job)}",
                grade=Grade.OBSERVED,
                evidence=tuple(Evidence(text=text, source="sampling scenario") for text in reported),
                fixes=(Fix(title="another release of vLLM: its sampler shares random numbers between requests"),),
            )
        count = sum(row["pairs"] for row in require(job, "pairs"))
        yield Reach(f"{count} pairs of draws from {describe(job)} are equal as often as chance makes them")


@check.observed(needs=["observations.soak"])
def draws_repeat_in_time(case: Case) -> Iterator[Finding | Reach]:
    """A request without a seed is answered the same, window after window, at the end of a soak."""
    job, windows = soaked(case)
    reported = repeated(job, windows)
    if reported:
        answers = windows[-1]["fixed"]["answers"]
        yield check.finding(
            f"{describe(job)} draws the same completions again after {windows[-1]['cycles']} cycles of traffic",
            grade=Grade.OBSERVED,
            evidence=tuple(
                Evidence(text=f"{name}: {answers[name]['token_ids']} in each of the last measures", source="soak")
                for name in reported
            ),
            fixes=(Fix(title="another release of vLLM: its random numbers begin anew"),),
        )
    else:
        yield Reach(f"requests without a seed are drawn anew through {windows[-1]['cycles']} cycles")


@check.observed(needs=["plan", "observations.seeds"])
def seeds_of_replicas(case: Case) -> Iterator[Finding | Reach]:
    """Two engines with different seeds that draw the same."""
    plan, drawn = plan_of(case), sampled.replicas(case)
    if not drawn.equal:
        yield Reach(f"{drawn.summary()} between two replicas")
        return
    if not drawn.apart:
        raise NotApplicable("both replicas have the same seed (RLD310)")
    found = seed_topology(plan)
    together = replicas_per_prompt(plan, found.replicas) if found is not None else None
    yield check.finding(
        f"{drawn.same} of {drawn.total} completions are the same on two engine replicas, whose seeds differ"
        + (f"; {together} replicas get the same prompts" if together and together > 1 else ""),
        severity=Severity.ERROR if together and together > 1 else Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=(*cite(plan.server or plan, "seed.per_replica", "seed.engine"), *drawn.evidence),
        fixes=(Fix(title="another release of vLLM: the seed that it is given has no effect"),),
    )


@check.observed(needs=["plan", "observations.seeds"])
def seeds_of_requests(case: Case) -> Iterator[Finding | Reach]:
    """Requests with different seeds that draw the same."""
    drawn = sampled.repeated(sampled.requests(case))
    if not (drawn.equal and drawn.apart):
        yield Reach(f"{drawn.summary()} between requests with the launch's seeds")
        return
    yield check.finding(
        f"{drawn.same} of {drawn.total} completions of a group repeat its first one, with other seeds or none",
        grade=Grade.OBSERVED,
        evidence=(*cite(plan_of(case), "seed.per_request", "sampling.seed"), *drawn.evidence),
        fixes=(Fix(title="another release of vLLM: the seeds of requests have no effect"),),
    )


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


def _distinct(rows: list[Completion]) -> int:
    return len({tuple(row["token_ids"]) for row in rows})
