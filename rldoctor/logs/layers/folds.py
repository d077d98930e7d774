"""Lines that end elsewhere than the program ended them: folded at a width, or all run together in one."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from rldoctor.expressions import expression
from rldoctor.logs.encodings import text_of
from rldoctor.logs.layers.layer import Strip
from rldoctor.logs.layers.records import records
from rldoctor.logs.prefixes import parse
from rldoctor.logs.quoting import FIELDS_OF_SAMPLES
from rldoctor.logs.templates import template

_Length = Callable[[str], int]
_GoesOn = Callable[[str, str, int, _Length], bool]

_NARROWEST, _WIDEST = 40, 260
_WORD_CHARACTER = expression(r"\w")
_FEWEST = 3
_PADDED, _ONE_WIDTH = 0.5, 0.9
# Shares of the lines that are as long as can be, of those that end within a word, and of those behind which another
# line certainly begins.
_SHARE, _TORN, _FRESH = 0.05, 0.08, 0.25
# Behind which a line of code, of a rule or of a bar is at its end.
_CLOSED = ("^", "~", "=", "-", "*", "(", "{", "[", "]", "}", ")")
_LONG = 400
_RAISED = expression(r"[A-Za-z_][\w.]*(?:Error|Exception): \S")
_FEW_LINES = 80
# So few lines are all cut behind a blank, which then is no part of any.
_FEW_CUTS = 2
# Programs that put their name before whatever they say of a run.
_PROGRAM = expression(
    r"(?:srun|salloc|sbatch|slurmstepd(?:-\S{1,80})?|torchrun|mpirun|prterun|bash|kubelet): |=>> PBS: "
)
# What Python shows of a text or of bytes.
_LITERAL = expression(rb"b?(?:'[^\n]*'|\"[^\n]*\")\s*$")
_TERMINALS = frozenset({60, 64, 70, 72, 76, 78, 79, 80, 90, 96, 100, 120, 132, 160})
# A field of a data set's row, whose quotation marks may be escaped.
_SAMPLE = expression(rb"\\*['\"](?:" + "|".join(sorted(FIELDS_OF_SAMPLES)).encode() + rb")\\*['\"]\s*: ")
_TRACEBACK = b"Traceback (most recent call last):"
# Blanks between two lines; those behind a prefix (``[rank3]: ``, ``(Actor pid=1) ``, ``[core.py:133] ``) are none.
_GAP = rb"(?<![ \t])(?<!\d\])(?<!\d\]:)(?<!\d\))[ \t]+"
# Where a line of a traceback, of a logger or of a trainer begins in text that was run together.
_BEGINS = expression(
    _GAP + rb"(?="
    rb"Traceback \(most recent call last\):"
    rb"|(?:\[rank\d+\]:|\[default\d+\]:|\([A-Z]\w{2,40} (?:rank=\d+ )?pid=\d+[^()\n]{0,60}\)|\(raylet[^()\n]{0,40}\)) "
    rb"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d "
    rb"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
    rb"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    rb"|[WEIF]\d{4} \d\d:\d\d:\d\d\."
    rb"|\{'(?:loss|train_runtime|eval_loss)'"
    rb"|step:\d+ - "
    rb"|\d{1,3}%\|"
    rb"|={20,}(?= )|-{20,}(?= )"
    rb"|(?:slurmstepd|srun|torchrun|bash): "
    rb"|LLVM ERROR|terminate called |Fatal Python error|Killed(?: |$)|Segmentation fault|wandb: "
    rb"|Root Cause \(first observed|(?:time|host|rank|exitcode|error_file|traceback) {1,10}: "
    rb"|During handling of the above exception|The above exception was the direct cause"
    rb")"
)
# Behind so many blanks, what begins a line of a traceback; behind fewer, a logger's record that begins as its line did.
_RUN_ON = expression(
    rb"(?<=[^\s|\xe2\x94\x82])[ ]{40,}(?=(?:\w+\.)*\w+(?:Error|Exception)\b|Traceback \(|File \"|raise |\w+, \w+ = )"
    rb"|(?<=\S)[ ]{6,}(?=\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3} - [\w.]+ - (?:DEBUG|INFO|WARNING|ERROR) - )"
)
_FRAME = expression(
    rb"[ \t]*(?P<at>File \"[^\"\n]{1,400}\", line \d{1,9}, in (?:<\w+>|[\w.]+(?:\.<\w+>)*))[ \t]+(?!File \")"
)
_NEXT_FRAME = expression(_GAP + rb"(?=File \"[^\"\n]{1,400}\", line \d{1,9})")
_CARETS = expression(rb"[ \t]+[~^]{2,}(?=[ \t])")
# A frame's line that is there to its end.
_WHOLE_FRAME = expression(r".*File \"[^\"\n]{1,400}\", line \d{1,9}, in [\w.<>]+$")
_EXCEPTION = expression(
    _GAP + rb"(?=(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Timeout|Group)"
    rb"(?:\(\w+\))?(?::[ \t]|:?[ \t]*$|[ \t]+(?:\[rank|During handling|The above)))"
)


def folded(lines: Sequence[bytes]) -> Strip | None:
    """Text that was folded at a width: no line is longer, and those that are as long go on in the next, many within a
    word; or (``fold -s``) lines end in the blank behind which the next word had no room."""
    texts = [text_of(line) for line in lines]
    for length in (len, _bytes_of):
        width = max((length(text) for text in texts), default=0)
        if not _NARROWEST <= width <= _WIDEST:
            continue
        for goes_on in (_at_width, _at_blank):
            pairs = [(a, b) for a, b in pairwise(texts) if goes_on(a, b, width, length)]
            cut = sum(1 for a, b in pairs if _WORD_CHARACTER.match(a[-1]) and _WORD_CHARACTER.match(b[:1]))
            torn = len(pairs) if goes_on is _at_blank else cut
            fresh = sum(1 for a, b in pairs if (_is_fresh(b) and not _one_number(a, b)) or _begin_alike(a, b))
            several = len({template(a) for a, _ in pairs}) >= _FEWEST
            # Of few lines few are cut: there a width that terminals have, and a cut that no program makes, must do.
            odd = several or any(_is_torn(a, b) for a, b in pairs)
            if len(texts) <= _FEW_LINES and pairs and odd and not fresh:
                if goes_on is _at_width and width + 1 in _TERMINALS and len(pairs) <= _FEW_CUTS:
                    return partial(_joined, goes_on=goes_on, width=width + 1, length=length)
                if width in _TERMINALS:
                    return partial(_joined, goes_on=goes_on, width=width, length=length)
            enough = len(pairs) >= _SHARE * len(texts) and several
            if enough and torn >= _TORN * len(pairs) and fresh <= _FRESH * len(pairs):
                return partial(_joined, goes_on=goes_on, width=width, length=length)
    return None


def _is_torn(line: str, after: str) -> bool:
    """Whether a line that stands alone at the width ends within a word, or behind the blank before one. A capital
    mostly begins a sentence."""
    if line.endswith(" "):
        return after[:1].islower()
    return _WORD_CHARACTER.match(line[-1]) is not None and (
        after[:1] == "_" or after[:1].islower() or after[:1].isdigit()
    )


def _one_number(line: str, after: str) -> bool:
    """Whether the cut went through a number, the rest of which looks like a label."""
    return line[-1:].isdigit() and after[:1].isdigit()


def _begin_alike(line: str, after: str) -> bool:
    """Whether two lines begin with the same word, as records of one kind do."""
    return line.split(" ", 1)[0] == after.split(" ", 1)[0] != ""


def _at_width(line: str, after: str, width: int, length: _Length) -> bool:
    """Whether a line was cut at the width. A whole frame may have it by chance."""
    return length(line) == width and not (_WHOLE_FRAME.match(line) and _is_fresh(after))


def _at_blank(line: str, after: str, width: int, length: _Length) -> bool:
    word = after.split(" ", 1)[0]
    return line.endswith(" ") and bool(line.strip()) and length(line) + length(word) > width - 1


def _lost_blank(line: str, after: str, width: int, length: _Length) -> bool:
    """Whether a line went on behind a blank in its last column, which terminals do not copy."""
    full = length(line) == width - 1 and not line.endswith(_CLOSED)
    return full and after[:1].strip() != "" and not _is_fresh(after) and _RAISED.match(after) is None


def _bytes_of(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _is_fresh(text: str) -> bool:
    """Whether a line certainly is no continuation."""
    line = parse(text)
    reported = line.level or line.tag or line.origin.rank or line.origin.pid or line.stamp
    begins = text.startswith(("Traceback (", '  File "', "{'")) or _PROGRAM.match(text) is not None
    return bool(reported) or not text.strip() or begins


def _joined(text: bytes, *, goes_on: _GoesOn, width: int, length: _Length) -> bytes:
    found: list[str] = []
    before: str | None = None
    for line in (text_of(raw.rstrip(b"\r")) for raw in text.split(b"\n")):
        ended = line.startswith("  File ") or (found and found[-1][:1] == " " and _RAISED.match(line) is not None)
        ended = ended or _PROGRAM.match(line) is not None
        if before is not None and goes_on(before, line, width, length) and not ended:
            found[-1] += line
        elif before is not None and goes_on is _at_width and _lost_blank(before, line, width, length) and not ended:
            found[-1] += f" {line}"
        else:
            found.append(line)
        before = line
    return "\n".join(found).encode("utf-8", "replace")


def padded(lines: Sequence[bytes]) -> Strip | None:
    """Blanks up to the width of the terminal behind every line, as some copy them."""
    full = [line for line in lines if line.strip()]
    blank = sum(1 for line in full if line.endswith(b"  "))
    lengths = [len(text_of(line)) for line in full]
    # Of long lines that were folded first, few end in blanks; all are of one length then.
    wide = lengths.count(max(lengths, default=0))
    if blank < _FEWEST or (blank < _PADDED * len(full) and wide < _ONE_WIDTH * len(full)):
        return None
    return lambda text: b"\n".join(line.rstrip(b" \r") for line in text.split(b"\n"))


def run_on(lines: Sequence[bytes]) -> Strip | None:
    """Lines of a terminal whose ends were lost in copying: blanks up to its edge stand between them."""
    found = sum(len(_RUN_ON.findall(line)) for line in lines)
    return (lambda text: _RUN_ON.sub(b"\n", text)) if found else None


def escaped(lines: Sequence[bytes]) -> Strip | None:
    """One string with its line ends written as ``\\n``."""
    full = [line for line in lines if line.strip()]
    most = max((line.count(b"\\n") for line in full), default=0)
    quoted = len(full) == 1 and full[0].startswith(b'"') and _TRACEBACK in full[0]
    if (len(full) == 1 and _holds_texts(full[0])) or any(_is_sample(line, b"\\n") for line in full):
        return None
    if records(full) is not None:
        return None
    return _unescaped if 0 < len(full) <= 3 and most >= (1 if quoted else 4) else None


def _is_sample(line: bytes, said: bytes) -> bool:
    """Whether what a line says stands in a row of a data set."""
    return _SAMPLE.search(line, 0, max(0, line.find(said))) is not None


def _holds_texts(line: bytes) -> bool:
    """Whether a line is a JSON array of several texts (prompts, answers), and not of a log's lines with their ends."""
    if not line.lstrip().startswith(b"["):
        return False
    try:
        held = json.loads(line)
    except (ValueError, RecursionError):
        return False
    texts = [one for one in held if isinstance(one, str)] if isinstance(held, list) else []
    return len(texts) > 1 and not any(text.endswith("\n") for text in texts)


def _unescaped(text: bytes) -> bytes:
    return b"\n".join(_meant(line) for line in text.split(b"\n"))


def _meant(line: bytes) -> bytes:
    """What a string stands for: JSON's own reading where it is JSON, Python's where it is Python's."""
    try:
        said = (
            json.loads(line)
            if line.startswith(b'"')
            else ast.literal_eval(line.decode())
            if _LITERAL.match(line)
            else None
        )
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        said = None
    if isinstance(said, str):
        return said.encode("utf-8", "replace")
    if isinstance(said, bytes):
        return said
    for written, meant in ((b"\\r\\n", b"\n"), (b"\\n", b"\n"), (b"\\t", b"\t"), (b'\\"', b'"')):
        line = line.replace(written, meant)
    return line.removeprefix(b'"').removesuffix(b'"')


def flattened(lines: Sequence[bytes]) -> Strip | None:
    """All lines run together with blanks between them."""
    full = [line for line in lines if line.strip()]
    if not full or len(full) > 3 or max(map(len, full)) < _LONG or any(_is_sample(line, _TRACEBACK) for line in full):
        return None
    if not any(_TRACEBACK in line or len(_BEGINS.findall(line)) >= 3 for line in full):
        return None
    return _unflattened


def _unflattened(text: bytes) -> bytes:
    return b"\n".join(_split(line) if len(line) >= _LONG else line for line in text.split(b"\n"))


def _split(line: bytes) -> bytes:
    found: list[bytes] = []
    for piece in _BEGINS.sub(b"\n", line).split(b"\n"):
        if piece.startswith(_TRACEBACK) or b'File "' in piece:
            piece = _CARETS.sub(b"", piece)
            piece = _EXCEPTION.sub(b"\n", _FRAME.sub(rb"\n  \g<at>\n    ", _NEXT_FRAME.sub(b"\n", piece)))
            piece = re.sub(rb"\n+(?=File \")", b"\n  ", piece)
            piece = re.sub(rb"[ \t]*\n{2,}", b"\n", piece)
        found.append(piece)
    return b"\n".join(found)
