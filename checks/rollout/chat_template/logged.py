"""How a missing or refusing chat template shows in a log."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent, Severity

from . import APPLIES, MEND, URL, check

# The tokenizer's own words.
check.signature(
    "tokenizer.chat_template is not set and no template argument was passed",
    "default chat template is no longer allowed",
    says="the tokenizer has no chat template and is asked to apply one (a base model, or files that lost it)",
    fixes=(
        Fix(
            title="put a chat_template into the tokenizer's tokenizer_config.json (or chat_template.jinja), for "
            "instance that of the instruct sibling, or train the instruct model",
        ),
        Fix.unsafe("or give one with the launch, or hand the prompts on as they are", {APPLIES: False}),
    ),
    url=URL,
)


@check.logged(
    "Conversation roles must alternate user/assistant",
    "After the optional system message, conversation roles must alternate",
    "System role not supported",
    "Only user and assistant roles are supported",
    "TemplateSyntaxError",
    "TemplateAssertionError",
)
def conversation_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The template itself raises, on roles that it does not take, or does not parse."""
    error = event.exception
    if error is None or "emplate" not in error.type:
        return
    parses = "Syntax" not in error.type and "Assertion" not in error.type
    yield check.finding(
        f"the chat template refuses the conversation: {error.message.splitlines()[0]}"
        if parses
        else f"the chat template does not parse: {error.message.splitlines()[0] if error.message else error.type}",
        fixes=(
            Fix(
                title="write the prompts with the roles that the template takes (no system turn, user and "
                "assistant in turn)"
            )
            if parses
            else MEND,
        ),
        url=URL,
    )


check.signature(
    "because this processor does not have a chat template",
    "No chat template is set for this processor",
    says="the processor has no chat template and is asked to apply one: a base model, or files that lost "
    "chat_template.json",
    fixes=(
        Fix(title="train the instruct sibling (MODEL-Instruct), whose processor has a chat template"),
        Fix(
            title="or put its chat_template.json (newer transformers: chat_template.jinja) beside the base model's "
            "preprocessor_config.json"
        ),
    ),
    url=URL,
)
# Whatever a template raises comes through one of these functions of transformers, or from its own text.
_RENDERS = r"apply_chat_template|render_jinja_template|_compile_jinja_template|<template>|chat_template"
_MESSAGES = (
    Fix(title='write each message as {"role": ..., "content": ...}, with content of the type that it takes'),
    MEND,
)
check.signature(
    "jinja2.exceptions.UndefinedError",
    "UndefinedError: ",
    pattern=r"(?s)(?=.*(?:jinja2|" + _RENDERS + r")).*UndefinedError: (?P<what>[^\n]{1,200})",
    exception=("UndefinedError", "jinja2.exceptions.UndefinedError"),
    says="the chat template reads a field that a message does not have: {what}",
    fixes=_MESSAGES,
    url=URL,
)
check.signature(
    "Object of type Undefined is not JSON serializable",
    pattern=r"(?s)" + _RENDERS,
    says="the chat template writes a field of a tool or a tool call as JSON, and it is not there",
    fixes=(
        Fix(
            title="write each tool call whole: its name and arguments (an empty object where there are none); the "
            'tools as {"type": "function", "function": {...}}'
        ),
        MEND,
    ),
    url=URL,
)
check.signature(
    "jinja2.exceptions.TemplateError: ",
    "jinja2.exceptions.SecurityError: ",
    pattern=r"(?:TemplateError|SecurityError): (?P<what>[^\n]{1,200})",
    unless=("onversation roles must alternate", "System role not supported", "Only user and assistant roles are"),
    says="the chat template refuses the conversation: {what}",
    fixes=(
        Fix(title="write the conversation as the template asks (its own words say what), tool calls included"),
        MEND,
    ),
    url=URL,
)
# verl compares what was sampled with the whole dialogue encoded anew; Qwen3's template drops earlier thoughts.
check.signature(
    "Inconsistent training and inference tokenization detected",
    says="the dialogue's tokens change when it is encoded anew: the chat template drops or rewrites earlier turns "
    "(Qwen3 and its kin drop their thoughts), so the policy is trained on other tokens than it sampled",
    severity=Severity.WARNING,
    silent=True,
    fixes=(
        Fix(title="take a chat template that keeps earlier turns as they were sampled (model.custom_chat_template)"),
        Fix(
            title="where only blanks differ: "
            "actor_rollout_ref.rollout.multi_turn.tokenization_sanity_check_mode=ignore_strippable"
        ),
    ),
    url="https://github.com/volcengine/verl/blob/main/docs/sglang_multiturn/multiturn.rst",
)
# verifiers (prime-rl) encodes each turn's conversation anew, and asserts that the one before begins it.
check.signature(
    "token_prefix_with_turn[: len(token_prefix)] == token_prefix",
    exception="AssertionError",
    says="the dialogue's tokens change when it is encoded with its next turn: the chat template drops or rewrites "
    "earlier turns (Qwen3 and its kin drop their thoughts)",
    fixes=(
        Fix(
            title="give the model a template that leaves earlier turns as they are, or train single turns (max_turns=1)"
        ),
        Fix(title="or hand on tokens instead of texts between the turns, where the release has it"),
    ),
    url="https://github.com/PrimeIntellect-ai/prime-rl/issues/1334",
)
