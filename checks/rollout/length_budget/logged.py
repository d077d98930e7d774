"""Requests and prompts that are too long, as engines, servers and data sets refuse them in a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rldoctor.api import Case, Finding, Fix, LogEvent

from . import check
from .fixes import FILTER, LONGER, context, prompts, response_of

# ``room`` is the engine's context, ``tokens`` the prompt's length, ``answer`` what is to be generated.
TOO_LONG = (
    r"maximum context length is (?P<room>\d+) tokens\. However, you requested \d+ tokens "
    r"\((?P<tokens>\d+) in the messages, (?P<answer>\d+) in the completion\)",
    r"maximum context length is (?P<room>\d+) tokens\. However, you requested (?P<answer>\d+) output tokens and your "
    r"prompt contains (?:at least )?(?P<tokens>\d+) input tokens",
    r"is too large: (?P<answer>\d+)\. This model's maximum context length is (?P<room>\d+) tokens and your request has "
    r"(?P<tokens>\d+) input tokens",
    r"maximum context length is (?P<room>\d+) tokens\. However, "
    r"(?:you requested|your (?:request|prompt) \w+(?: at least)?) "
    r"(?P<tokens>\d+)",
    r"maximum context length is (?P<room>\d+)",
    r"prompt \(length (?P<tokens>\d+)\).{0,80}longer than the maximum model length of (?P<room>\d+)",
    r"Prompt length of (?P<tokens>\d+) is longer than the maximum model length of (?P<room>\d+)",
    r"Input prompt \((?P<tokens>\d+) tokens\) is too long and exceeds limit of (?P<room>\d+)",
    r"prompt \(total length (?P<tokens>\d+)\) is too long to fit into the model \(context length (?P<room>\d+)\)",
    r"has length (?P<tokens>\d+) which exceeds max_model_len=(?P<room>\d+)",
    r"longer than the maximum model length of (?P<room>\d+)",
)


@check.logged("is greater than the derived max_model_len")
def beyond_the_models_length(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``User-specified max_model_len (4096) is greater than the derived max_model_len``."""
    numbers = event.search(r"max_model_len \((\d+)\) is greater than the derived max_model_len \((\w+)=(\d+)")
    if numbers is None or (event.exception is None and event.level == "WARNING"):
        return
    limit = int(numbers[3])
    yield check.finding(
        f"max_model_len {numbers[1]} exceeds the model's context of {limit} tokens ({numbers[2]})",
        fixes=(
            context(limit, "keep to the model's context", cost="prompt and response must fit into it"),
            Fix(title="or stretch the model with rope_scaling in its config.json, or take one with a longer context"),
        ),
    )


@check.logged(
    "is longer than the maximum model length of",
    "maximum context length is",
    "is too long and exceeds limit of",
    "is too long to fit into the model",
    "plus the number of requested output tokens (at least 1) is longer than the maximum model length",
    "longer than the maximum model length of",
    "which exceeds max_model_len=",
    unless=("exceeds the capacity of block_manager",),
)
def longer_than_the_engine(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A prompt, or prompt and answer, beyond the engine's context; the engine's and its server's words, 0.6 to 0.32."""
    numbers = next((found for pattern in TOO_LONG if (found := event.search(pattern))), None)
    if numbers is None:
        return
    groups = numbers.groupdict()
    tokens, room = groups.get("tokens"), int(groups["room"])
    said = f"a prompt of {tokens} tokens" if tokens else "a request"
    answer = f" and {groups['answer']} tokens to generate" if groups.get("answer") else ""
    response = int(groups.get("answer") or 0) or response_of(case)
    needed = (int(tokens) if tokens else room) + response if response else None
    yield check.finding(
        f"{said}{answer} {'do' if answer else 'does'} not fit into the engine's max_model_len {room}",
        fixes=(
            context(needed if needed and needed > room else None, LONGER),
            FILTER,
            Fix(title="or shorten the response, so that prompt and answer fit"),
        ),
    )


def _room_to_sample(case: Case, event: LogEvent, words: Mapping[str, str]) -> tuple[Fix, ...]:
    limit, response = words.get("limit"), response_of(case)
    return (
        FILTER,
        context(int(limit) + response if limit and response else None, f"or {LONGER}"),
        Fix(title="or vLLM 0.11.1 and later, which refuses such a prompt", commands=("pip install 'vllm>=0.11.1'",)),
    )


# V1 before 0.11.1 takes a prompt of exactly its context, and the worker asserts when it samples.
check.signature(
    "Sampled token IDs exceed the max model length",
    details=(r"> max_model_len: (?P<limit>\d+)",),
    says="a prompt fills the engine's max_model_len[[ {limit}]] to the last token, and the engine ends when it samples",
    fixes=_room_to_sample,
    url="https://github.com/vllm-project/vllm/issues/25120",
)


# A dialogue, or a prompt, that fills the context: what is left to generate is nothing.
check.signature(
    "max_tokens must be at least 1, got",
    details=(r"max_tokens must be at least 1, got (?P<left>-?\d+)",),
    says="the prompt fills the engine's context: {left|no} tokens are left for the answer",
    fixes=(
        context(None, LONGER),
        Fix(title="end a dialogue, or cut its observations, before it fills the context"),
        FILTER,
    ),
    url="https://github.com/TIGER-AI-Lab/verl-tool/issues/88",
)


# verl's and EasyR1's assertions on the model's context and on tokenized prompts.
check.signature(
    "model context length should be greater than total sequence length",
    "should be less than or equal to max_position_embeddings",
    says="prompt plus response (or max_model_len) exceed the model's max_position_embeddings",
    fixes=(
        Fix(title="shorten prompt or response until both fit into the model's context"),
        Fix(title="or stretch the model with rope_scaling in its config.json"),
    ),
)
check.signature(
    "is larger than max_length=",
    pattern=r"sequence_length=(?P<tokens>\d+) is larger than max_length=(?P<limit>\d+)",
    says="a prompt of {tokens} tokens is longer than the prompt limit {limit}",
    fixes=lambda case, event, words: (prompts(int(words["tokens"])), FILTER),
)
check.signature(
    "Prompt length exceeds model's maximum token limit",
    says="a prompt is longer than the model's limit",
    fixes=(FILTER, context(None, "or a longer context")),
)


# The data set of verl and EasyR1 with truncation `error`: `Prompt length 1377 is longer than 1024.`
check.signature(
    "Prompt length ",
    pattern=r"Prompt length (?P<length>\d+) is longer than (?P<limit>\d+)\.",
    says="a prompt of {length} tokens is longer than the prompt limit {limit}",
    fixes=lambda case, event, words: (FILTER, prompts(int(words["length"]))),
)
