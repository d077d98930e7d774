"""Credentials in URLs and connection strings."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.expressions import expression
from rldoctor.redact.names import is_nothing, looks_made
from rldoctor.redact.spans import Span

# Python's paths make one slash of two, and who makes a file's name of a URL none at all.
_START = expression(
    r"://|(?<![\w:/.\\])(?://|__)(?=[^\s/@:]{1,64}:[^\s/@]{1,255}@\w)|(?<=[a-z0-9][a-z0-9]):(?:/|__)(?=[^/\s:@]{0,64}:|(?=[^/\s:@]{0,255}\d)[^/\s:@]{16,255}@)"
)
# user:password@host behind a scheme without its slashes; others divide a job, a task and a rank by colons.
_OPAQUE = expression(
    r"(?<![\w/@.-])(?:mailto|(?:imap|smtp|pop3?|sip)s?|xmpp):(?P<user>[\w.-]{1,64}:[^\s:@/\"'<>]{6,256})(?=@(?!sha\d)[\w.-])"
)
_RUN = expression(r"[^\s\"'`<>\\|]{0,2048}")
_SCHEME = expression(r"[A-Za-z][A-Za-z0-9+.-]{0,31}$")
_PATH = expression(r"[/?#]")
# Cut off before the host.
_WITHOUT_A_HOST = expression(r":(?P<password>[^\s:/?#]{8,256})")
_BARE = expression(r"^(?!\w+://)\S{1,2048}(?=@)")
# A name that a person logs in with is no secret: git@github.com.
_LOGIN = expression(r"[a-z][a-z0-9_-]{0,15}")
_PERSON = expression(r"[a-z]{1,8}")
_BY_LOGIN = ("ssh", "git+ssh", "git", "sftp", "rsync", "scp")


def find(text: str) -> Iterator[Span]:
    """Where the user's part of a URL stands."""
    start = _START.search(text)
    while start:
        begin = start.end()
        then = _START.search(text, begin)
        following = then.start() if then else -1
        run = _RUN.match(text, begin)
        end = run.end() if run else begin
        if 0 <= following < end:
            scheme = _SCHEME.search(text, max(begin, following - 32), following)
            end = scheme.start() if scheme else following
        length = _credentials(text[begin:end])
        shown = text[begin : begin + length]
        if (
            length
            and not all(map(is_nothing, shown.split(":")))
            and not _is_login(text[max(0, start.start() - 16) : start.start()], shown)
        ):
            yield Span(begin, begin + length, "credentials")
        start = then
    for hit in _OPAQUE.finditer(text):
        if looks_made(hit["user"].partition(":")[2]):
            yield Span(*hit.span("user"), "credentials")


def _credentials(rest: str) -> int:
    """How many characters of what follows ``://`` are credentials. Passwords are not always percent-encoded: they hold
    commas, slashes and further ``@``."""
    path = _PATH.search(rest)
    authority = rest[: path.start()] if path else rest
    host, colon, port = authority.rpartition(":")
    if "@" not in rest and (cut_off := _WITHOUT_A_HOST.match(rest)) and looks_made(cut_off["password"]):
        return cut_off.end()
    if "@" not in authority and not (colon and not port.isdecimal() and not host.startswith("[")):
        return 0
    # A user or a token alone: what follows further @ is a version, git@github.com/x/y@v2.
    alone = "@" in authority and ":" not in authority[: authority.find("@")]
    return max((authority if alone else rest).rfind("@"), 0)


def _is_login(before: str, user: str) -> bool:
    scheme = _SCHEME.search(before)
    return bool(scheme and scheme[0] in _BY_LOGIN and _LOGIN.fullmatch(user)) or bool(_PERSON.fullmatch(user))


def find_bare(value: str) -> Iterator[Span]:
    """The credentials of a value that may be a URL without its scheme: ``user:password@host``."""
    hit = _BARE.match(value)
    if hit:
        yield Span(hit.start(), hit.end(), "credentials")
