"""The refusals of vLLM, verl and EasyR1 in a log."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Edit, Finding, Fix, LogEvent

from . import check
from .fixes import BUDGET


@check.logged(
    "This effectively limits the maximum sequence length to max_num_batched_tokens",
    "Enable chunked prefill, max_num_batched_tokens is smaller than max_model_len",
    "max_num_batched_tokens should be greater than prompt_length + response_length",
)
def refused_at_start(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM's own test, verl's (which asks for the opposite of chunked prefill) and EasyR1's."""
    numbers = event.search(r"max_num_batched_tokens \((\d+)\) is smaller than max_model_len \((\d+)\)")
    context = int(numbers[2]) if numbers else None
    higher = Fix(
        title="raise max_num_batched_tokens to the longest sequence" + (f", {context}" if context else ""),
        applicability=Applicability.UNSAFE,
        edits=(Edit(option=BUDGET, value=context),) if context else (),
        side_effects="more activation memory during prefill",
    )
    on = "Enable chunked" not in event.literal
    other = Fix.unsafe(
        "or let the engine chunk prefill" if on else "or switch chunked prefill off",
        {"engine.enable_chunked_prefill": on},
    )
    shorter = Fix(title="or shorten prompt, response or max_model_len")
    said = f": {numbers[1]} against {numbers[2]}" if numbers else ""
    yield check.finding(
        f"the token budget of a scheduler step is below the longest sequence{said}",
        fixes=(higher, shorter) if "prompt_length" in event.literal else (higher, other, shorter),
        url="https://github.com/verl-project/verl/pull/259",
    )
