"""What brings budget and longest sequence together."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Fix, RolloutPlan, plan_of
from rldoctor.api.engine import generation

BUDGET = "engine.max_num_batched_tokens"
CONTEXT = "engine.max_model_len"


def remedies(case: Case, budget: int, context: int) -> Iterator[Fix]:
    plan = plan_of(case)
    yield raised(context)
    if plan.value("env.VLLM_USE_V1") == "0" and generation(case).value == "V0":
        yield Fix.unsafe("let the V1 engine run, which chunks prefill", {"env.VLLM_USE_V1": "1"})
    # On a V0 engine chunked prefill is a risk of its own (RLD201).
    elif plan.value("engine.enable_chunked_prefill") is False and generation(case).value != "V0":
        yield Fix.unsafe("let the engine chunk prefill", {"engine.enable_chunked_prefill": True})
    yield from shorter(plan, budget)


def raised(context: int) -> Fix:
    return Fix.safe(
        f"raise the token budget to {context}, the longest sequence",
        {BUDGET: context},
        side_effects="more activation memory during prefill",
    )


def shorter(plan: RolloutPlan, budget: int) -> Iterator[Fix]:
    prompt, response = plan.value("lengths.prompt"), plan.value("lengths.response")
    if prompt and response and budget > prompt:
        yield Fix.unsafe(
            f"shorten prompt or response until both fit into {budget} tokens",
            {"lengths.response": budget - prompt},
            side_effects="longer answers are cut off",
        )
