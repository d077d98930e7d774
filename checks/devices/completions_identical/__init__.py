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
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    Source,
    cite,
    plan_of,
)

check = Check("RLD311", "completions-identical", __doc__, before=("RLD501",))

TEMPERATURE, TOP_K = "sampling.temperature", "sampling.top_k"


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
