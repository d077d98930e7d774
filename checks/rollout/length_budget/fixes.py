"""What makes prompt and response fit into an engine's context."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Edit, Fix, RolloutPlan

CONTEXT = "engine.max_model_len"
PROMPT = "lengths.prompt"
RESPONSE = "lengths.response"
TOTAL = "lengths.total"

FILTER = Fix(
    title="drop or cut prompts beyond the limit before training (filter_overlong_prompts, truncation, a data filter)",
)

LONGER = "give the engine a context that holds prompt and response, where the model has it"


def response_of(case: Case) -> int | None:
    """The longest response that the launch asks for, where it is known: a context needs room for it."""
    value = case.plan.value(RESPONSE) if case.plan is not None else None
    return value if isinstance(value, int) else None


def shorten(plan: RolloutPlan, room: int, context: int | None = None) -> Iterator[Fix]:
    """Fixes that make prompt plus response fit into ``room`` tokens, the response first. ``context`` is what the launch
    has to give the engine along with it."""
    prompt, response = plan.value(PROMPT), plan.value(RESPONSE)
    along = "" if context is None else f", and give the engine a context of {context}"
    also = {} if context is None else {CONTEXT: context}
    if response and not prompt:
        half = f"shorten the response to {room // 2} tokens, which leaves as much for the prompt"
        yield Fix.unsafe(half + along, {RESPONSE: room // 2, **also})
    for option, value, other in ((RESPONSE, response, prompt), (PROMPT, prompt, response)):
        if value and other and room > other:
            title = f"shorten the {option.split('.')[1]} to {room - other} tokens"
            yield Fix.unsafe(title + along, {option: room - other, **also})


def context(tokens: int | None, title: str, cost: str = "more KV cache for each sequence") -> Fix:
    return Fix(
        title=f"{title} (max_model_len{f' {tokens}' if tokens else ''})",
        applicability=Applicability.UNSAFE,
        edits=(Edit(option=CONTEXT, value=tokens),) if tokens else (),
        side_effects=cost,
    )


def prompts(tokens: int) -> Fix:
    return Fix.unsafe(
        f"or allow prompts of {tokens} tokens",
        {PROMPT: tokens},
        side_effects="the engine's context must hold prompt plus response",
    )
