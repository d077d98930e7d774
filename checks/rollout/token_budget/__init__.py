"""The token budget of a scheduler step does not reach a whole prompt.

What it looks for
    ``max_num_batched_tokens`` below ``max_model_len`` on an engine that does not chunk prefill, and below
    ``max_num_seqs`` on any engine. Whether prefill is chunked is taken as the release takes it: V1 up to 0.11.0 chunks
    whatever it is asked, later releases honour ``enable_chunked_prefill=False``, V0 chunks by itself only above a
    context of 32768 tokens. And the frameworks' own tests: EasyR1 wants the budget above prompt plus response, chunked
    or not; verl 0.3 to 0.6 (synchronous rollout) raises where prefill IS chunked and the budget is below the context.
    In a running engine: prompts longer than the budget that never get a step. In a log: the messages of these tests.

Why it hurts
    vLLM refuses to start: ``max_num_batched_tokens (8192) is smaller than max_model_len (10240)``. Frameworks that
    compute the context from prompt plus response and leave the budget at a constant run into it when only the lengths
    are raised, or when chunked prefill is switched off for another reason.

How sure it is
    The comparison is the engine's own, on the numbers that the framework hands it.

The fix and its cost
    Raise the budget to the context: more activation memory in prefill. Or let the engine chunk prefill. Or shorten
    prompt or response.

References
    https://github.com/verl-project/verl/pull/259, https://github.com/verl-project/verl/issues/7624
    verl ``verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py`` (v0.3.0.post1 line 105, v0.6.1 line 199), EasyR1
    ``verl/workers/rollout/vllm_rollout_spmd.py`` (v0.3.0 line 67, v0.3.2 line 98)
    ``SchedulerConfig._verify_args`` (vLLM 0.6.3 to 0.11.0) and ``verify_max_model_len`` (0.12.0 on).
    https://github.com/vllm-project/vllm/blob/v0.8.5/vllm/config.py#L2023
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
    RolloutPlan,
    cite,
    installed_within,
    plan_of,
)
from rldoctor.api.engine import chunked_prefill

from .fixes import BUDGET, CONTEXT, raised, remedies, shorter

check = Check("RLD202", "token-budget-below-context", __doc__)

SEQUENCES = "engine.max_num_seqs"


@check.declared(needs=[f"plan.{BUDGET}", f"plan.{CONTEXT}", "packages.vllm"])
def below_the_context(case: Case) -> Iterator[Finding | Reach]:
    """The engine's own start-up test on the values that it will be given."""
    plan = plan_of(case)
    budget, context = plan.value(BUDGET), plan.value(CONTEXT)
    if budget is None or context is None:
        raise NotChecked("the token budget or the context length cannot be read from the launch file")
    if budget >= context:
        yield Reach(f"budget {budget}, context {context}")
        return
    chunked = chunked_prefill(case)
    if chunked.value is None:
        raise NotChecked(f"whether prefill is chunked is not known: {chunked.why}")
    if chunked.value:
        yield Reach(f"budget {budget} below context {context}, prefill is chunked: {chunked.why}")
        return
    yield check.finding(
        f"max_num_batched_tokens {budget} is below max_model_len {context} and prefill is not chunked "
        f"({chunked.why}): vLLM refuses to start",
        evidence=cite(plan, BUDGET, CONTEXT, "engine.enable_chunked_prefill", "env.VLLM_USE_V1"),
        fixes=tuple(remedies(case, budget, context)),
    )


@check.declared(needs=[f"plan.{BUDGET}", f"plan.{SEQUENCES}", "packages.vllm"])
def below_the_sequences(case: Case) -> Iterator[Finding | Reach]:
    """A step must have room for one token of every running sequence."""
    plan = plan_of(case)
    budget, sequences = plan.value(BUDGET), plan.value(SEQUENCES)
    if budget is None or sequences is None:
        raise NotChecked("max_num_batched_tokens or max_num_seqs cannot be read from the launch file")
    if budget >= sequences:
        yield Reach(f"max_num_batched_tokens {budget} for {sequences} sequences")
        return
    yield check.finding(
        f"max_num_batched_tokens {budget} is below max_num_seqs {sequences}: vLLM refuses to start",
        evidence=cite(plan, BUDGET, SEQUENCES),
        fixes=(
            Fix.safe(
                "lower the number of sequences to the budget",
                {SEQUENCES: budget},
                side_effects="fewer sequences are decoded together",
            ),
        ),
    )


@check.declared(needs=["plan", f"plan.{BUDGET}"])
def refused_by_the_framework(case: Case) -> Iterator[Finding | Reach]:
    """What EasyR1 and verl compare before they build the engine, whatever the engine would say."""
    plan = plan_of(case)
    reported = _framework_test(case, plan)
    budget = plan.value(BUDGET)
    if reported is None or not isinstance(budget, int):
        raise NotApplicable(f"{plan.framework} has no test of its own")
    needed, why = reported
    if budget >= needed:
        yield Reach(f"budget {budget}, {plan.framework} wants {needed}")
        return
    yield check.finding(
        f"max_num_batched_tokens {budget} is below {needed}: {why}",
        evidence=cite(plan, BUDGET, CONTEXT, "lengths.prompt", "lengths.response", "engine.enable_chunked_prefill"),
        fixes=(raised(needed), *shorter(plan, budget)),
    )


def _framework_test(case: Case, plan: RolloutPlan) -> tuple[int, str] | None:
    prompt, response = plan.value("lengths.prompt"), plan.value("lengths.response")
    if plan.framework == "EasyR1" and isinstance(prompt, int) and isinstance(response, int):
        return prompt + response, "EasyR1 refuses a budget below prompt plus response, chunked or not"
    context = plan.value(CONTEXT)
    # verl.trainer.main_generation has a configuration of its own.
    trains = plan.framework == "verl" and "main_generation" not in plan.entry
    applies = trains and installed_within(case, "verl", ">=0.3,<0.7")
    if not applies or plan.value("rollout.async_engine") is not False or not isinstance(context, int):
        return None
    if plan.value("engine.enable_chunked_prefill") is not True or plan.usual("rollout.backend", "vllm") != "vllm":
        return None
    return context, "verl's synchronous rollout raises ValueError while chunked prefill is on"
