"""Values that stand under a telling name inside a text: a setting, JSON, a Python dictionary, YAML, TOML, a header, a
command line, a list of its words, a query, an entry of a manifest. Found by looking around the few words that names
of secrets are made of, each time over a bounded stretch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.redact.names import is_secret_option, looks_drawn, words
from rldoctor.redact.spans import Span

_STEM = re.compile(
    r"key|token|secret|pass|pswd|pwd|auth|bearer|cookie|credential|jwt|webhook|(?<![a-z])pat(?![a-z])|(?<![a-z])sig(?:nature)?(?![a-z])|dsn",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"[\w.-]{0,96}$")
_AFTER = re.compile(r"[\w.-]{0,96}")
_QUOTE = r"\\{0,16}[\"'`]"
# "name": | name= | name => | environ["NAME"] =
_JOINED = re.compile(rf"(?P<closed>{_QUOTE})?[ \t]{{0,8}}\]?[ \t]{{0,8}}(?:=>|:=|==?|:(?![/:]))[ \t]{{0,8}}")
# "--name", "value" | ("NAME", "value")
_LISTED = re.compile(rf"{_QUOTE}[ \t]{{0,8}},\s{{0,40}}(?={_QUOTE})")
# --name value
_SPACED = re.compile(r"[ \t]{1,8}(?![-\s])")
# - name: NAME\n  value: value
_ENTRY = re.compile(
    rf"(?:{_QUOTE})?[ \t]{{0,8}},?[ \t]{{0,8}}\n?[ \t]{{0,60}}(?:{_QUOTE})?value(?:{_QUOTE})?[ \t]{{0,8}}:[ \t]{{0,8}}"
)
_OPENING = re.compile(rf"(?:[bBrRfFuU]{{1,2}}(?=[\"']))?(?P<quote>\"\"\"|'''|{_QUOTE})")
_LIST = re.compile(r"\[[^\[\]{}]{0,1024}\]|\([^()\[\]{}]{0,1024}\)")
_PLAIN = re.compile(r"[^\s\"'`]{1,4096}")
_SHORT = re.compile(r"[^\s\"'`]{1,200}")
# Where a value without quotes ends before the next space.
_STOP = re.compile(r"[,;&][\w.+-]{1,64}[=:]|[,;](?=$)|&&|\|\||[)\]}>]+[.,;:]*$|\\[nrt](?![A-Za-z0-9])|<")
_SCHEME = re.compile(r"(?:bearer|basic|token|digest|apikey|aws4-hmac-sha256)[ \t]{1,4}", re.IGNORECASE)
_EXPRESSION = re.compile(r"[A-Za-z_][\w.]*[\[(]")
_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie"))
_LINE = re.compile(r"[^\n\"'`]*")
_LOGIN = re.compile(r"(?<!\S)(?:-u|--user|--proxy-user)[ \t=]{1,4}[\"']?([^\s:\"'/]{1,64}:)([^\s\"']{1,256})")
_NETRC = re.compile(r"\bmachine\s{1,4}\S{1,200}\s{1,4}login\s{1,4}\S{1,200}\s{1,4}password\s{1,4}(\S{1,256})")


def find(text: str) -> Iterator[Span]:
    """Where values stand that their names make secrets of."""
    position = 0
    for stem in _STEM.finditer(text):
        if stem.start() < position:
            continue
        before = _BEFORE.search(text, max(position, stem.start() - 96), stem.start())
        after = _AFTER.match(text, stem.end())
        begin = before.start() if before else stem.start()
        end = after.end() if after else stem.end()
        position = end
        span = _value(text, begin, end)
        if span is not None:
            position = max(position, span.end)
            yield span
    if "-u" in text:
        for login in _LOGIN.finditer(text):
            yield Span(login.start(2), login.end(2), "password")
    if "machine" in text:
        for entry in _NETRC.finditer(text):
            yield Span(entry.start(1), entry.end(1), "password")


def _value(text: str, begin: int, end: int) -> Span | None:
    name = text[begin:end].lstrip("-.").rstrip(".-")
    option = text[begin:end].startswith("-") or text[max(0, begin - 1) : begin] == "-"
    joined = _JOINED.match(text, end)
    if joined:
        return _after_a_name(text, begin, joined.end(), name, closed=joined["closed"] is not None, joint=joined[0])
    if (listed := _LISTED.match(text, end)) and (option or name.isupper() or len(words(name)) > 1):
        return _after_a_name(text, begin, listed.end(), name, closed=True, joint=",")
    if (entry := _ENTRY.match(text, end)) and text[:begin].rstrip(" \t\"'`\\").endswith((":", "=")):
        return _after_a_name(text, begin, entry.end(), name, closed=True, joint=":")
    if option and (spaced := _SPACED.match(text, end)):
        return _after_a_name(text, begin, spaced.end(), name, closed=True, joint=" ")
    return None


def _after_a_name(text: str, begin: int, start: int, name: str, *, closed: bool, joint: str) -> Span | None:
    """The value that starts here, where its name makes it a secret. ``closed``: the quotes of the name end before."""
    if name.lower() in _HEADERS and not closed:
        line = _LINE.match(text, start)
        whole = text[start : line.end()].rstrip() if line else ""
        if whole:
            return Span(start, start + len(whole), name)
    opening = _OPENING.match(text, start)
    if opening:
        inside = opening.end()
        end = _closing(text, inside, opening["quote"])
        return _judged(text, inside, end, name)
    certain = _names_a_secret(name)
    listed = _LIST.match(text, start) if certain else None
    if listed:
        return Span(start + 1, listed.end() - 1, name) if listed.end() - start > 2 else None
    if text.startswith(("{", "["), start):
        return None
    scheme = _SCHEME.match(text, start)
    plain = (_PLAIN if certain else _SHORT).match(text, scheme.end() if scheme else start)
    if plain is None or _EXPRESSION.match(plain[0]):
        return None
    stop = _STOP.search(plain[0])
    end = plain.start() + stop.start() if stop else plain.end()
    value = text[start:end]
    # Prose: "unexpected token: }", "the key: a, b".
    prose = ":" in joint and not closed and words(name) in (["token"], ["auth"], ["pass"])
    if (prose and not looks_drawn(value)) or value.lower() == name.lower():
        return None
    return _judged(text, start, end, name)


def _judged(text: str, start: int, end: int, name: str) -> Span | None:
    value = text[start:end]
    return Span(start, end, name) if value.strip() and is_secret_option(name, value.strip()) else None


def _names_a_secret(name: str) -> bool:
    """Whether any text under this name is a secret, not only what looks drawn at random."""
    return is_secret_option(name, "open sesame")


def _closing(text: str, start: int, quote: str) -> int:
    """Where the quoted value ends: at the same quotes with as many backslashes, else at the end of its line."""
    position = text.find(quote, start)
    while position >= 0:
        if position == start or text[position - 1] != "\\" or text[position - 2 : position] == "\\\\":
            return position
        position = text.find(quote, position + len(quote))
    newline = text.find("\n", start)
    return newline if newline >= 0 else len(text)
