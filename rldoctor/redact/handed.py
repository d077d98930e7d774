"""Secrets that reach their name by way of a variable: ``a = "..."``, and elsewhere ``api_key=a``, ``login(a)``,
``f"Bearer {a}"`` or ``export HF_TOKEN=$a``; also in pieces, ``token = a + b``."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from rldoctor.expressions import expression
from rldoctor.redact.names import is_nothing, is_password, is_secret_option, looks_made, words
from rldoctor.redact.spans import Span

# name = "value", NAME=value, $name = "value"
_GIVEN = expression(
    r"(?<![\w.-])(?P<name>[A-Za-z_]\w{0,40})[ \t]{0,8}(?::[ \t]?str[ \t]?)?=[ \t]{0,8}"
    r"(?P<quote>[\"']?)(?P<value>[^\s\"'`$(){}\[\];,|&<>=]{6,512}={0,2})(?P=quote)(?=[\s;,]|\Z)"
)
# The name of a secret, and what it is given: a shell's word, a string with holes, variables that are joined.
_USED = expression(
    r"(?<![\w.-])-{0,2}(?P<name>[A-Za-z_][\w.-]{0,63})"
    r"(?:[\"']?[\])]?[ \t]{0,4}[=:][ \t]{0,4}|[ \t](?=[\"']?[${])|[\"'],[ \t]{0,4}(?=[A-Za-z_])|\()"
    r"(?=(?P<from>[\"']?(?:\$\{?\w{1,41}\}?){1,4}|[fF]?\"[^\"\n]{1,100}\"|[fF]?'[^'\n]{1,100}'"
    r"|[A-Za-z_]\w{0,40}(?:[ \t]{0,4}\+[ \t]{0,4}[A-Za-z_]\w{0,40}){0,3}(?![\w.(\[])))"
)
_WORD = expression(r"[A-Za-z_]\w*|\S")
_JOINS = frozenset(("+", '"', "'", "{", "}", "$", "f", "env", "Bearer", "Basic", "Token", "token"))
_CALLS = ("login", "bearer")
# What a variable holds that says what something is called.
_WHAT_IT_IS = (["name"], ["id"], ["label"], ["title"], ["tag"])


def find(text: str) -> Iterator[Span]:
    """Where values stand that variables hand on to the name of a secret."""
    if "=" not in text:
        return
    given: dict[str, list[Span]] = {}
    for hit in _GIVEN.finditer(text):
        if (hit["quote"] or looks_made(hit["value"])) and words(hit["name"])[-1:] not in _WHAT_IT_IS:
            given.setdefault(hit["name"], []).append(Span(*hit.span("value"), hit["name"]))
    if not given:
        return
    # A variable may be set and handed on in each of many lines: what was looked at for a use of this name is done.
    done: Counter[tuple[str, str]] = Counter()
    for use in _USED.finditer(text):
        parts = _WORD.findall(use["from"])
        names = [part for part in parts if part not in _JOINS]
        if not names or not all(name in given for name in names) or not _takes_one(use["name"]):
            continue
        for name in names:
            pair = use["name"], name
            for span in itertools.islice(given[name], done[pair], None):
                if span.start >= use.start():
                    break
                done[pair] += 1
                if _is_one(use["name"], text[span.start : span.end]):
                    yield Span(span.start, span.end, use["name"])


def _takes_one(name: str) -> bool:
    return name.lower() in _CALLS or is_secret_option(name, "open sesame")


def _is_one(name: str, value: str) -> bool:
    return not is_nothing(value) and (is_password(name) or looks_made(value))
