"""Makes texts fit to be facts: no secrets, no bytes that are no text."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "<redacted>"

# Whole words of a variable's name, so that TOKENIZERS_PARALLELISM is not taken for a token.
_SECRET_WORDS = re.compile(
    r"\w*(?:KEY|SECRET|PASSWORD)S?|AUTH(?:ORIZATION)?|BEARER|COOKIES?|CREDENTIALS?|JWT|PASS|PASSPHRASE|PASSWD|PRIVATE|PWD|TOKENS?"
)
_NOT_SECRET = frozenset({"PWD", "OLDPWD"})
# Counts and switches that carry such a word: IMAGE_MAX_TOKEN_NUM=1024, HF_HUB_DISABLE_IMPLICIT_TOKEN=1.
_HARMLESS = re.compile(r"\d{0,9}|true|false|yes|no|on|off|none|null", re.IGNORECASE)
_PASSWORD = re.compile(r"PASS|PWD")

# What the issuers' own prefixes give away: Hugging Face, OpenAI and Anthropic, GitHub, GitLab, AWS, Slack, NVIDIA,
# Google, ModelScope, JSON web tokens.
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|sk-[\w-]{16,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|A[KS]IA[0-9A-Z]{16}|xox[abeprs]-[\w-]{10,}|nvapi-[\w-]{20,}|AIza[\w-]{30,}"
    r"|ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
# Up to the last @, since passwords are not always percent-encoded.
_URL_CREDENTIALS = re.compile(r"(?<=://)[^\s,;'\"]*@")
_BARE_CREDENTIALS = re.compile(r"^(?!\w+://)\S*@")
# Launch files and requests are full of innocent keys and tokens (prompt_key, pad_token, max_tokens): of an option's
# name these are the words that make a secret of it.
_OPTION = (
    r"(?:[\w-]*[_-])?(?:(?:api|access|secret|private|license|encryption|wandb|swanlab)[_-]?key(?:[_-]?id)?"
    r"|(?:hub|hf|auth|access|api|bearer|session|security|refresh|wandb|swanlab|github|modelscope)[_-]?tokens?"
    r"|secrets?|passw(?:or)?d|passphrase|credentials?|authorization|signature)|token"
)
_OPTION_NAME = re.compile(_OPTION, re.IGNORECASE)
# A variable's name says it with fewer words.
_SETTING = re.compile(
    rf"""((?<![\w-])(?:{_OPTION}|(?-i:[A-Z0-9_]*(?:TOKEN|SECRET|PASSW(?:OR)?D|API_?KEY|ACCESS_?KEY|CREDENTIAL)S?))"""
    r"""\\*["']?\s*[:=]\s*)"""
    r"""(?!(?:\d{1,9}|true|false|none|null)\b)(\\*"[^"]*"|\\*'[^']*'|[^\s,;&}\]]+)""",
    re.IGNORECASE,
)


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of this name holds a secret: a word such as KEY or TOKEN in it, and more than a number."""
    words = re.split(r"[^A-Z0-9]+", name.upper())
    telling = [word for word in words if _SECRET_WORDS.fullmatch(word)]
    if not telling or not value or name.upper() in _NOT_SECRET:
        return False
    return any(map(_PASSWORD.search, telling)) or not _HARMLESS.fullmatch(value)


def is_secret_option(name: str, value: str) -> bool:
    """Whether an option of this name (its last part, without dots) is given a secret; a switch or a number is none."""
    return bool(value and _OPTION_NAME.fullmatch(name)) and not _HARMLESS.fullmatch(value)


def redact_text(text: str) -> str:
    """The text without what looks like a token, without credentials in URLs and without values of secret settings."""
    text = _URL_CREDENTIALS.sub(f"{REDACTED}@", text)
    text = _SETTING.sub(rf"\g<1>{REDACTED}", text)
    return _TOKENS.sub(REDACTED, text)


def redact_variable(name: str, value: str) -> str:
    """The value as a fact: that a secret was set is kept, the secret is not."""
    if is_secret(name, value):
        return REDACTED
    if name.lower().endswith("_proxy"):  # user:password@host is accepted without a scheme too
        value = _BARE_CREDENTIALS.sub(f"{REDACTED}@", value)
    return redact_text(plain(value))


def plain(text: str) -> str:
    """The text in characters that JSON can carry: bytes that are no UTF-8 come as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a child process may have."""
    return {name: value for name, value in environ.items() if not is_secret(name, value)}
