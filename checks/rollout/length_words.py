"""How engines, servers and frameworks say that a request is longer than the engine's context."""

from __future__ import annotations

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
