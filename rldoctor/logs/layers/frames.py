"""Layers around each line that have a known form: containers' and schedulers' envelopes, boxes, numbers, indents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from rldoctor.logs import envelope
from rldoctor.logs.encodings import text_of
from rldoctor.logs.forms import is_box_head
from rldoctor.logs.layers.layer import MOST, Strip, of_program

_ISO = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]?\d (?P<time>\d\d:\d\d:\d\d(?:\.\d{1,9})?)"
_POD = (
    rb"\[?(?:pod/)?(?P<node>[a-z0-9][a-z0-9.]{0,60}(?:-[a-z0-9.]{1,60}){1,8})[ /]"
    rb"(?P<part>[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?)\]?"
)
_NEARLY_ALL = 0.95
# Each takes off what its tool writes, up to the program's own text; ``time``, and ``node`` and ``rank`` where there are
# several, are kept. Before each stands the share of the lines that must have it: programs write some of these forms
# too, but not in front of every line. The ``part`` of a node is a container of a pod.
ENVELOPES: tuple[tuple[re.Pattern[bytes], float], ...] = tuple(
    (re.compile(rb"(?m)^\xef?\xbb?\xbf?(?:\x1b\[[\d;]{0,8}m)?" + pattern), share)
    for share, pattern in (
        # gh run view --log: job, step, time
        (MOST, rb"[^\t\n]{1,120}\t[^\t\n]{1,120}\t(?:\xef\xbb\xbf)?(?P<time>" + _ISO + rb")(?: |$)"),
        # logcli, Grafana: time, labels
        (MOST, rb"(?P<time>" + _ISO + rb")\s+\{[a-z_]\w*=\"[^\n}]{0,400}\}(?: |\t|$)"),
        # containerd and CRI-O: time, stream, whole or part
        (MOST, rb"(?P<time>" + _ISO + rb") std(?:out|err) [FP](?: |$)"),
        # systemd's journal and syslog: time, host, program
        (MOST, _MONTH + rb" (?P<node>[\w.-]{1,80}) [\w./@-]{1,80}(?:\[\d{1,9}\])?:(?: |$)"),
        (MOST, rb"(?P<time>" + _ISO + rb") (?P<node>[\w.-]{1,80}) [\w./@-]{1,80}\[\d{1,9}\]:(?: |$)"),
        # systemd's journal with weekday and zone: short-full
        (
            MOST,
            rb"[A-Z][a-z]{2} (?P<time>"
            + _ISO
            + rb") [A-Z]{3,5} (?P<node>[\w.-]{1,80}) [\w./@-]{1,80}\[\d{1,9}\]:(?: |$)",
        ),
        # syslog as RFC 5424 has it: priority, time, host, program, process, message, data
        (
            MOST,
            rb"<\d{1,3}>1 (?P<time>"
            + _ISO
            + rb") (?P<node>\S{1,80}) \S{1,80} \S{1,80} \S{1,40} (?:-|\[[^\n]{1,400}?\])(?: |$)",
        ),
        # multilog of daemontools: TAI64N
        (MOST, rb"@[0-9a-f]{24}(?: |$)"),
        # gcloud ai custom-jobs stream-logs: severity, time, worker
        (
            MOST,
            rb"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL)\t(?P<time>" + _ISO + rb")(?: [+-]\d{4})?\t"
            rb"(?P<node>[\w.-]{1,80})(?:\t|$)",
        ),
        # ts of moreutils
        (MOST, _MONTH + rb"(?: |$)"),
        # stern and kubectl logs --prefix: pod, container, and a bar where all lines have one
        (_NEARLY_ALL, _POD + rb" (?:\||\xe2\x94\x82|\xe2\x80\xba)(?: |$)"),
        (_NEARLY_ALL, _POD + rb"(?: |$)(?!- )"),
        # k9s, and kubectl logs --prefix --timestamps without brackets: pod, time
        (_NEARLY_ALL, rb"(?P<node>[a-z0-9][a-z0-9.-]{1,120}) (?P<time>" + _ISO + rb")(?: |$)"),
        # SkyPilot: task or node, rank, process
        (
            MOST,
            rb"\((?P<node>[\w-]{1,60}),(?: rank=(?P<rank>\d{1,5}),)? pid=\d{1,9}"
            rb"(?:, ip=[\d.]{7,15})?\)(?:\x1b\[0m)?(?: |$)",
        ),
        # mpirun --tag-output, prterun, SageMaker: job and rank, stream
        (
            MOST,
            rb"\[(?:[\w.@-]{1,120}@)?\d{1,6},(?:mpirank:)?(?P<rank>\d{1,5})(?:,[\w-]{1,60})?\](?:<std(?:out|err|diag)>)?:"
            rb" ?(?=\S|\s|$)",
        ),
        # Determined: time, container, rank, level
        (
            MOST,
            rb"\[(?P<time>" + _ISO + rb")\] (?:\[?[0-9a-f]{6,12}\]? )?(?:\[rank=(?P<rank>\d{1,5})\] )?\|\|"
            rb"(?: (?:TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL):(?= )| (?=UNSPECIFIED))?(?: |$)",
        ),
        # srun --label
        (_NEARLY_ALL, rb" {0,4}(?P<rank>\d{1,4}):(?: |$)"),
        # docker compose
        (_NEARLY_ALL, rb"(?P<node>[a-zA-Z][\w.-]{0,80}) +\|(?: |$)"),
        # mail
        (MOST, rb">(?: |$|(?=>))"),
        # aws logs tail: time, stream
        (_NEARLY_ALL, rb"(?P<time>" + _ISO + rb") (?P<node>[\w.-]{1,120}/[\w./\[\]$-]{1,200})(?: |$)"),
        # kubectl logs --timestamps, docker logs -t, GitHub's and Azure's raw logs; GitLab adds the stream
        (
            MOST,
            rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d))(?: \d\d[OE](?:[ +]|$)| |$)",
        ),
        # Kaggle's page of a notebook's log: seconds, number of the line
        (_NEARLY_ALL, rb"\d{1,7}\.\d{1,2}s\t\d{1,7}(?:\t|$)"),
        # ts -s and ts %T
        (_NEARLY_ALL, rb"(?P<time>\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?: |$)"),
        # docker attach, whose header of each line left the one character that can be printed: service, time
        (
            MOST,
            rb"(?:\[(?P<node>[\w.-]{1,60})\] )?[^\n]{1,3}?(?P<time>20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,9}Z)(?: |$)",
        ),
        # Buildkite, with or without the control characters around it
        (MOST, rb"(?:\x1b)?_bk;t=\d{13}\x07?"),
        # pdsh and clush: the node
        (_NEARLY_ALL, rb"(?!rank|default|worker|step|epoch|iter)(?P<node>[a-z][\w.-]{0,80}\d[\w.-]{0,40}):(?: |$)"),
    )
)

_BARS = "│┃║|"
_CORNERS, _EDGES = "┌╭╔┏", "─━═"
_BORDER = re.compile(r"\s*[┌╭╔┏└╰╚┗├+-][─━═=+-]{4,}[^\w]{0,12}$|\s*[┌╭╔┏][─━═]{1,80} [^─━═]{1,80} [─━═]{4,}[┐╮╗┓]$")
_SEVERAL_COLUMNS = re.compile("[┼┬╪╋┳]")
# ``12: ``, ``  12\t``, ``12 | ``, and ``run.log:12:`` of grep, whose text begins right behind it.
_NUMBER = re.compile(rb"(?m)^[ \t]*(?P<number>\d{1,9})(?:[:|.)]|\xe2\x86\x92| {0,4}\xe2\x94\x82)?(?:[ \t]|$)(?: ?\| )?")
# ``12|`` and, where a page keeps its numbers in a column of their own, the number right before the text.
_BAR_ALONE = re.compile(rb"(?m)^[ \t]*(?P<number>\d{1,9})\|")
_GREP = re.compile(rb"(?m)^(?:[^\s:]{1,200}?[:-])??(?P<number>\d{1,9})[:-]")
# So far Markdown sets code in.
_BLOCK = 4
# Behind this reStructuredText and YAML set in by less.
_FARTHEST = 60
_ANNOUNCES = (b":", b"|", b">", b"|-", b">-")
_TRACED = (b"Traceback (most recent call last):", b'  File "')
# What makes a line a comment or an item, or one that a patch adds or takes away.
_MARKS = (b"#", b"//", b"-", b"+")
# What git and diff write of a file before its lines.
_PATCH = re.compile(
    rb"(?m)^(?:diff --git |new file mode \d|index [0-9a-f]{4}|(?:---|\+\+\+) (?:[ab]/|/dev/null)|@@ -\d)[^\n]*"
)
_COLUMN = re.compile(rb" *\d{1,9} ")
# A time alone in its line; of the lines of such a page it is every second, or with a stream's name every third.
# supervisord names the program and its stream beside it.
_ALONE = re.compile(_ISO + rb"(?: DEBG '[^'\n]{1,80}' std(?:out|err) output:)?")
_NUMBER_ALONE = re.compile(rb"\d{1,9}")
_OWN_LINES = 0.25
_FEWEST = 4


def enveloped(lines: Sequence[bytes]) -> Strip | None:
    """The first known envelope that most lines have."""
    full = [line for line in lines if line.strip()]
    if len(full) < _FEWEST:
        return None
    for pattern, share in ENVELOPES:
        matches = [match for line in full if (match := pattern.match(line)) is not None]
        if len(matches) >= share * len(full):
            named = {name: _values(matches, name) for name in ("node", "part", "rank")}
            most = max(1, len(full) // _FEWEST)
            several = frozenset(name for name, values in named.items() if len(values) > 1)
            strip = _taken_off(pattern, several)
            if all(len(values) <= most for values in named.values()) and strip(full[0]) != full[0]:
                return strip
    return None


def _values(matches: Sequence[re.Match[bytes]], name: str) -> set[bytes]:
    return {match[name] for match in matches if match[name]} if name in matches[0].re.groupindex else set()


def _taken_off(pattern: re.Pattern[bytes], several: frozenset[str]) -> Strip:
    """Takes the envelope off, and keeps the names of which there are several: one rank in front of all lines tells none
    from another, and where a scheduler's task is a launcher with ranks of its own, it is a node's number."""
    timed = "time" in pattern.groupindex

    def kept(match: re.Match[bytes]) -> bytes:
        time = match["time"].decode() if timed and match["time"] else ""
        process = b"/".join(match[name] for name in ("node", "part") if name in several)
        rank = b"%s: " % match["rank"] if "rank" in several and match["rank"] else b""
        return envelope.written(time=time, process=process.decode()).encode() + rank

    if not timed and not several:
        return lambda text: pattern.sub(b"", text)
    return lambda text: pattern.sub(kept, text)


def apart(lines: Sequence[bytes]) -> Strip | None:
    """The time of each line in a line of its own, with or without the stream that it is of, or its number, as pages of
    logs copy."""
    full = [line.strip() for line in lines if line.strip()]
    for alone in (_ALONE, _NUMBER_ALONE):
        found = [(line, after) for line, after in pairwise([*full, b""]) if alone.fullmatch(line)]
        if len(found) < max(_FEWEST, _OWN_LINES * len(full)):
            continue
        if alone is _NUMBER_ALONE and not _count([int(number) for number, _ in found]):
            continue
        label, times = Counter(after for _, after in found).most_common(1)[0]
        of_all = alone is _ALONE and times >= MOST * len(found) and not of_program(label)
        stream = rb"(?:[ \t]*%s[ \t\r]*(?:\n|\Z))?" % re.escape(label) if of_all else b""
        both = re.compile(rb"(?m)^[ \t]*(?:" + alone.pattern + rb")[ \t\r]*(?:\n|\Z)(?:[ \t\r]*\n)*" + stream)
        return partial(both.sub, b"")
    return None


def boxed(lines: Sequence[bytes]) -> Strip | None:
    """A frame of one column around the whole text; tables of samples have several, and text outside. One around a
    traceback is the traceback's own."""
    full = [text for line in lines if (text := text_of(line).strip())]
    if any(map(is_box_head, full)):
        return None
    inside = [text for text in full if not _BORDER.match(text)]
    # Of lines that are very wide a sample has few.
    fewest = 1 if full and full[0][0] in _CORNERS and full[0][1:2] in _EDGES else _FEWEST
    for bar in _BARS:
        # A table that the text itself shows stands behind the frame's bar.
        if any(_SEVERAL_COLUMNS.search(text) for text in full if not text.startswith(bar)):
            continue
        if sum(1 for text in inside if text.startswith(bar)) >= max(fewest, _NEARLY_ALL * len(inside)):
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
    """Numbers that count the lines, as editors, ``cat -n`` and ``grep -n`` show them, with or without a heading."""
    full = [line for line in lines if line.strip()]
    forms = (_NUMBER, _GREP, _BAR_ALONE)
    found = [(p, [(i, m) for i, line in enumerate(full) if (m := p.match(line)) is not None]) for p in forms]
    pattern, matches = max(found, key=lambda one: len(one[1]))
    if len(matches) < max(_FEWEST, MOST * len(full)) or (len(matches) < len(full) and counted(lines) is not None):
        return None
    first, end = matches[0][0], matches[-1][0] + 1
    if len(matches) < _NEARLY_ALL * (end - first) or any(map(of_program, full[:first] + full[end:])):
        return None
    return partial(pattern.sub, b"") if _count([int(match["number"]) for _, match in matches]) else None


def counted(lines: Sequence[bytes]) -> Strip | None:
    """The number of each line right before its text, as pages that keep their numbers in a column are copied."""
    return _uncounted if len(lines) >= _FEWEST and _counts_from(lines) is not None else None


def _counts_from(lines: Sequence[bytes]) -> int | None:
    """The number in which the first line begins, where each that follows begins in the next one."""
    digits = _NUMBER_ALONE.match(lines[0]) if lines else None
    for length in range(1, digits.end() + 1 if digits is not None else 1):
        first = int(lines[0][:length])
        if all(line.startswith(b"%d" % number) for number, line in enumerate(lines, first)):
            return first
    return None


def _uncounted(text: bytes) -> bytes:
    lines = text.split(b"\n")
    last = [] if lines[-1] else [lines.pop()]
    first = _counts_from(lines)
    if first is None:
        return text
    return b"\n".join([*(line[len(b"%d" % number) :] for number, line in enumerate(lines, first)), *last])


def paged(lines: Sequence[bytes]) -> Strip | None:
    """Numbers in a column, and blanks in it before what a line goes on with, as pagers show lines that are too long."""
    full = [line for line in lines if line.strip()]
    first = _COLUMN.match(full[0]) if full else None
    if first is None:
        return None
    column = first.end()
    row = re.compile(rb"(?m)^(?: {%d}|(?= *\d+ )[ \d]{%d} )" % (column, column - 1))
    numbers = [int(line[: column - 1]) for line in full if line[: column - 1].strip().isdigit()]
    if len(numbers) < _FEWEST or not all(row.match(line) for line in full[:-1]) or not _count(numbers):
        return None
    more = re.compile(rb"\r?\n {%d}(?! *\n)" % column)
    return lambda text: row.sub(b"", more.sub(b"", text))


def _count(numbers: Sequence[int]) -> bool:
    """Whether the numbers are those of lines that follow each other."""
    steps = sum(1 for a, b in pairwise(numbers) if 0 < b - a <= 3)
    return steps >= _NEARLY_ALL * (len(numbers) - 1)


def indented(lines: Sequence[bytes]) -> Strip | None:
    """Blanks before every line, as Markdown has them for code and YAML for a text; of what stands before or behind such
    a block no program has written anything."""
    full = [line for line in lines if line.strip()]
    depths = [len(line) - len(line.lstrip(b" \t")) for line in full]
    least = max(_FEWEST, MOST * len(full))
    first, end = _announced(full, depths, least) or _block(depths)
    depth = min(depths[first:end], default=0)
    around = full[:first] + full[end:]
    if not depth or end - first < least or any(of_program(line) for line in around):
        return None
    before = full[first - 1].rstrip() if first else b""
    if around and depth < _BLOCK and not before.endswith(_ANNOUNCES):
        return None
    return lambda text: re.sub(rb"(?m)^[ \t]{1,%d}" % depth, b"", text)


def _block(depths: Sequence[int]) -> tuple[int, int]:
    """From where to where all lines are set in; nothing where others stand between them."""
    inside = [i for i, depth in enumerate(depths) if depth]
    return (inside[0], inside[-1] + 1) if inside and len(inside) == inside[-1] - inside[0] + 1 else (0, 0)


def _announced(full: Sequence[bytes], depths: Sequence[int], least: float) -> tuple[int, int] | None:
    """The lines that stand deeper than one that announces them, where they are nearly all."""
    for i, line in enumerate(full[:_FARTHEST]):
        if line.rstrip().endswith(_ANNOUNCES) and not of_program(line):
            end = next((j for j in range(i + 1, len(full)) if depths[j] <= depths[i]), len(full))
            if end - i > least:
                return i + 1, end
    return None


def marked(lines: Sequence[bytes]) -> Strip | None:
    """A mark before every line: a log that stands in a source file as a comment, in a list, or in a patch, with or
    without its heads."""
    full = [line for line in lines if line.strip()]
    first = next((i for i, line in enumerate(full) if _PATCH.match(line)), 0)
    held = [line for line in full[first:] if not _PATCH.match(line)]
    if any(map(of_program, full[:first])):
        return None
    for mark in _MARKS:
        rests = [line[len(mark) :] for line in held if line.startswith(mark)]
        if len(rests) < max(_FEWEST, _NEARLY_ALL * len(held)):
            continue
        # A shell traces its commands behind a plus and a blank.
        blank = b"" if mark == b"+" or not all(rest[:1] in (b"", b" ") for rest in rests) else b" ?"
        texts = [rest[1:] if blank and rest.startswith(b" ") else rest for rest in rests]
        if any(text.startswith(_TRACED) or (text[:1] != b" " and of_program(text)) for text in texts):
            each = re.compile(rb"(?m)^" + re.escape(mark) + blank)
            return lambda text: each.sub(b"", _PATCH.sub(b"", text))
    return None
