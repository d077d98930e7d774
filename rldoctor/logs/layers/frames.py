"""Layers around each line that have a known form: containers' and schedulers' envelopes, boxes, numbers, indents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from rldoctor.logs import envelope
from rldoctor.logs.encodings import text_of
from rldoctor.logs.layers.layer import MOST, Strip

_ISO = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]?\d (?P<time>\d\d:\d\d:\d\d)"
_POD = (
    rb"\[?(?:pod/)?(?P<node>[a-z0-9][a-z0-9.]{0,60}(?:-[a-z0-9.]{1,60}){1,8})[ /]"
    rb"[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?\]?"
)
# Each takes off what its tool writes, up to the program's own text; ``time`` and ``node`` are kept.
ENVELOPES: tuple[re.Pattern[bytes], ...] = tuple(
    re.compile(rb"(?m)^\xef?\xbb?\xbf?" + pattern)
    for pattern in (
        # gh run view --log: job, step, time
        rb"[^\t\n]{1,120}\t[^\t\n]{1,120}\t(?:\xef\xbb\xbf)?(?P<time>" + _ISO + rb")(?: |$)",
        # logcli, Grafana: time, labels
        rb"(?P<time>" + _ISO + rb")\s+\{[a-z_]\w*=\"[^\n}]{0,400}\}(?: |\t|$)",
        # containerd and CRI-O: time, stream, whole or part
        rb"(?P<time>" + _ISO + rb") std(?:out|err) [FP](?: |$)",
        # systemd's journal and syslog: time, host, program
        _MONTH + rb" (?P<node>[\w.-]{1,80}) [\w./@-]{1,80}(?:\[\d{1,9}\])?:(?: |$)",
        rb"(?P<time>" + _ISO + rb") (?P<node>[\w.-]{1,80}) [\w./@-]{1,80}\[\d{1,9}\]:(?: |$)",
        # ts of moreutils
        _MONTH + rb"(?: |$)",
        # stern and kubectl logs --prefix: pod, container, and a bar where all lines have one
        _POD + rb" (?:\||\xe2\x94\x82|\xe2\x80\xba)(?: |$)",
        _POD + rb"(?: |$)(?!- )",
        # docker compose
        rb"(?P<node>[a-zA-Z][\w.-]{0,80}) +\|(?: |$)",
        # mail
        rb">(?: |$|(?=>))",
        # kubectl logs --timestamps, docker logs -t, GitHub's raw logs
        rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d))(?: |$)",
        # ts -s and ts %T
        rb"(?P<time>\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?: |$)",
    )
)
# Text of a pod's name is text of a program too; nothing but a pod's is in front of every line.
_STRICT = {6: 0.95, 7: 0.95, 8: 0.95, 11: 0.95}
_NEARLY_ALL = 0.95

_BARS = "│┃║|"
_BORDER = re.compile(r"\s*[┌╭╔┏└╰╚┗├+-][─━═=+-]{4,}[^\w]{0,12}$")
_SEVERAL_COLUMNS = re.compile("[┼┬╪╋┳]")
# ``12: ``, ``  12\t``, ``12 | ``, and ``run.log:12:`` of grep, whose text begins right behind it.
_NUMBER = re.compile(rb"(?m)^[ \t]*(?P<number>\d{1,9})(?:[:|.)]|\xe2\x86\x92|\xe2\x94\x82)?(?:[ \t]|$)(?: ?\| )?")
_GREP = re.compile(rb"(?m)^(?:[^\s:]{1,200}[:-])?(?P<number>\d{1,9})[:-]")
_FEWEST = 4


def enveloped(lines: Sequence[bytes]) -> Strip | None:
    """The first known envelope that most lines have."""
    full = [line for line in lines if line.strip()]
    if len(full) < _FEWEST:
        return None
    for index, pattern in enumerate(ENVELOPES):
        matches = [match for line in full if (match := pattern.match(line)) is not None]
        if len(matches) >= _STRICT.get(index, MOST) * len(full):
            nodes = {match["node"] for match in matches} if "node" in pattern.groupindex else set()
            if len(nodes) <= max(1, len(full) // 4):
                return _taken_off(pattern, len(nodes) > 1)
    return None


def _taken_off(pattern: re.Pattern[bytes], with_node: bool) -> Strip:
    timed = "time" in pattern.groupindex

    def kept(match: re.Match[bytes]) -> bytes:
        time = match["time"].decode() if timed and match["time"] else ""
        return envelope.written(time=time, process=match["node"].decode() if with_node else "").encode()

    if not timed and not with_node:
        return lambda text: pattern.sub(b"", text)
    return lambda text: pattern.sub(kept, text)


def boxed(lines: Sequence[bytes]) -> Strip | None:
    """A frame of one column around the whole text; tables of samples have several, and text outside."""
    full = [text for line in lines if (text := text_of(line).strip())]
    inside = [text for text in full if not _BORDER.match(text)]
    if len(inside) < _FEWEST or any(_SEVERAL_COLUMNS.search(text) for text in full):
        return None
    for bar in _BARS:
        if sum(1 for text in inside if text.startswith(bar)) >= _NEARLY_ALL * len(inside):
            return partial(_unboxed, bar=bar)
    return None


def _unboxed(text: bytes, *, bar: str) -> bytes:
    found = []
    for raw in text.split(b"\n"):
        line = text_of(raw).strip()
        if line.startswith(bar):
            found.append(line[1:].removesuffix(bar).rstrip().removeprefix(" ").encode("utf-8", "replace"))
        else:
            found.append(b"" if _BORDER.match(line) else raw)
    return b"\n".join(found)


def numbered(lines: Sequence[bytes]) -> Strip | None:
    """Numbers that count the lines, as editors, ``cat -n`` and ``grep -n`` show them."""
    full = [line for line in lines if line.strip()]
    for pattern in (_NUMBER, _GREP):
        numbers = [int(match["number"]) for line in full if (match := pattern.match(line)) is not None]
        if len(numbers) >= max(_FEWEST, _NEARLY_ALL * len(full)):
            steps = sum(1 for a, b in pairwise(numbers) if 0 < b - a <= 3)
            if steps >= _NEARLY_ALL * (len(numbers) - 1):
                return partial(pattern.sub, b"")
    return None


def indented(lines: Sequence[bytes]) -> Strip | None:
    """Blanks before every line, as Markdown has them for code."""
    full = [line for line in lines if line.strip()]
    depth = min((len(line) - len(line.lstrip(b" \t")) for line in full), default=0)
    if not depth or len(full) < _FEWEST:
        return None
    return lambda text: re.sub(rb"(?m)^[ \t]{1,%d}" % depth, b"", text)
