"""How a missing or refusing chat template shows in a log."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Finding,
    Fix,
    LogEvent,
)

from . import APPLIES, MEND, URL, check


@check.logged(
    "tokenizer.chat_template is not set and no template argument was passed",
    "default chat template is no longer allowed",
    "because this processor does not have a chat template",
)
def refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The tokenizer's own words."""
    yield check.finding(
        "the tokenizer has no chat template and is asked to apply one (a base model, or files that lost it)",
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
