"""A prefix that most lines share is a prefix, whatever it is: learnt token by token from the file itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rldoctor.logs import envelope
from rldoctor.logs.layers.layer import MOST, Strip
from rldoctor.logs.liveness import is_progress
from rldoctor.logs.prefixes import parse

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_TOKEN = re.compile(rb"\x1b\[[0-9;]*m|[\w\x80-\xff]+|\s|[^\w\s]")
# Numbers, and the parts of a time.
_COUNTED = re.compile(rb"\d+(?:[TZ]\d*)?")
_LOOKED_AT = 160
_FEWEST = 4
# What a prefix ends in. A mere blank will do only where nearly all lines have the prefix.
_ENDS = (b": ", b"] ", b"> ", b"| ", b") ", b"\t", b" - ", b"\xe2\x94\x82 ", b"\xe2\x80\xba ")
_NEARLY_ALL = 0.97
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d(?:[.,]\d{1,6})?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
# What only content has: dictionaries, options, bars, the frames of tables, and the driver's name before what it tells,
# of which the kernel's ring keeps the like together.
_CONTENT = re.compile(rb"[{}='\"%$]|\bNVRM: |\xe2\x94[\x82\x83]|\xe2\x95\x91")
_MOST_VALUES = 64
_FEWEST_SHAPES = 5


def prefixed(lines: Sequence[bytes]) -> Strip | None:
    """The unknown prefix of most lines, with the parts in which it differs: numbers, and a few names."""
    full = [line for line in lines if line.strip()]
    if len(full) < _FEWEST:
        return None
    tokens = [_TOKEN.findall(line[:_LOOKED_AT]) for line in full]
    columns, members, agreeing = _agreed(tokens)
    cut, example = _cut(columns, [tokens[i] for i in members], agreeing, len(full))
    # A colour in which all lines begin also ends in all of them: it is taken off as a whole elsewhere.
    if not _COLOUR.sub(b"", example).strip() or _CONTENT.search(example):
        return None
    # Steps that are counted are what a run says.
    if is_progress(parse(example.decode("utf-8", "replace"))):
        return None
    pattern = re.compile(rb"(?m)^(?:" + b"".join(columns[:cut]) + rb")")
    rests = [(line, line[match.end() :]) for line in full if (match := pattern.match(line)) is not None]
    if all(_text(line) == _text(rest) for line, rest in rests) or _differ_little([r for _, r in rests], len(full)):
        return None
    blank = b"".join(columns[:cut]).rstrip(b" ").removesuffix(b"\\")
    bare = re.compile(rb"(?m)^(?:" + blank + rb")[ \t]*$") if blank else None

    def strip(text: bytes) -> bytes:
        text = pattern.sub(_kept, text)
        return bare.sub(b"", text) if bare is not None else text

    return strip


def _kept(match: re.Match[bytes]) -> bytes:
    clock = _CLOCK.search(match[0])
    named = b" ".join(value for value in match.groups() if value)
    return envelope.written(
        time=clock[0].decode() if clock is not None else "", process=named.decode("utf-8", "replace")
    ).encode()


def _agreed(tokens: list[list[bytes]]) -> tuple[list[bytes], list[int], list[int]]:
    """The pattern of each column in which most lines agree, the lines that have them all, and how many have the columns
    up to each."""
    columns: list[bytes] = []
    agreeing: list[int] = []
    members = list(range(len(tokens)))
    while True:
        at = len(columns)
        here = [(i, tokens[i][at]) for i in members if at < len(tokens[i])]
        if not here:
            break
        value, count = Counter(token for _, token in here).most_common(1)[0]
        least = MOST * len(tokens)
        digits = [i for i, token in here if _COUNTED.fullmatch(token)]
        names = {token for _, token in here if token.isalnum() and any(48 <= c <= 57 for c in token)}
        if count >= max(least, 0.98 * len(here)):
            columns.append(re.escape(value))
            members = [i for i, token in here if token == value]
        elif len(digits) >= least:
            columns.append(_COUNTED.pattern)
            members = digits
        elif len(names) <= _MOST_VALUES and sum(token in names for _, token in here) >= least:
            columns.append(rb"(\w+)")
            members = [i for i, token in here if token in names]
        elif count >= least:
            columns.append(re.escape(value))
            members = [i for i, token in here if token == value]
        else:
            break
        agreeing.append(len(members))
    return columns, members, agreeing


def _cut(columns: list[bytes], members: list[list[bytes]], agreeing: list[int], lines: int) -> tuple[int, bytes]:
    """After how many columns the prefix ends, and an example of it. What :func:`parse` knows by itself stays."""
    if not members:
        return 0, b""
    row = members[0]
    ends = [n for n in range(1, len(columns) + 1) if b"".join(row[:n]).endswith(_ENDS)]
    # In a short log one line of a scheduler's is more than a few in a hundred.
    nearly = max(_FEWEST, min(_NEARLY_ALL * lines, lines - 1))
    blanks = (n for n in range(1, len(columns) + 1) if row[n - 1].isspace() and agreeing[n - 1] >= nearly)
    ends += [n for n in blanks if n not in ends]
    whole = b"".join(row[: max(ends, default=0)])
    for n in range(len(columns)):
        rest = whole[len(b"".join(row[:n])) :]
        if n and n not in ends and not rest.startswith((b"[", b"(", b"\x1b")):
            continue
        line = parse(rest.decode("utf-8", "replace") + "x")
        if rest and (line.level or line.tag or line.origin.rank or line.origin.actor or line.origin.pid):
            return n, b"".join(row[:n])
    return max(ends, default=0), whole


def _differ_little(rests: Sequence[bytes], lines: int) -> bool:
    """Whether the lines say much the same behind the prefix: then it is their text, unless all ``lines`` have it.
    Numbers make no difference."""
    texts = (_text(rest).encode()[:_LOOKED_AT] for rest in rests)
    shapes = {tuple(b"0" if t.isdigit() else t for t in _TOKEN.findall(text)[:6]) for text in texts}
    least = len(rests) // 5 if len(rests) < 50 else 10
    return len(shapes) < max(3, min(least, _FEWEST_SHAPES) if len(rests) == lines else least)


def _text(line: bytes) -> str:
    """What is left behind the prefixes that are known by themselves."""
    return parse(line.decode("utf-8", "replace")).text
