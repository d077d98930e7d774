"""Layers of what tells of changes to a program: diffs, histories of commits, and release notes. A failure that they
name is one that was mended, and happened to nobody here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from rldoctor.logs.layers.layer import MOST, UNDERLINE, Strip, emptied, of_program

# A hunk says how many lines it has; a run that prints the diff of its own code goes on behind them.
_HUNK = re.compile(rb"@@ -\d+(?:,(?P<old>\d{1,9}))? \+\d+(?:,(?P<new>\d{1,9}))? @@(?: |\r?$)")
_COMMIT = re.compile(rb"commit [0-9a-f]{7,40}\b")
_AUTHOR = re.compile(rb"(?:Author|Merge|Commit|AuthorDate|CommitDate|Date): +\S")
_MESSAGE = re.compile(rb" {4}\S|\s*$")
# ``git log --oneline``, with the lines of ``--graph`` and the names that point to a commit.
_ONE_LINE = re.compile(rb"[*|/\\ _]{0,20}(?P<hash>[0-9a-f]{7,12}) (?:\([^()\n]{1,200}\) )?\S")
_GRAPH = re.compile(rb"[*|/\\ _]{1,40}$")
_FEWEST_COMMITS = 3
# Headings over what a release changed: its number, or a word for it.
_HEADING = re.compile(
    rb"(?i)(?:#{1,6} +)?\W{0,3}(?:(?:version |release )?v?\d+\.\d+(?:\.\d+)?[\w.+-]{0,20}(?:\W.{0,40})?"
    rb"|unreleased\W{0,3}|change-?log|(?:version |release )?history|release notes\b.{0,40}"
    rb"|what'?s (?:changed|new)\b.{0,40})\s*$"
)
_POINT = re.compile(rb"\s{0,8}(?:[-*]|\xe2\x80\xa2) \S")
_SET_IN = re.compile(rb"\s{2,12}\S")


def diffs(lines: Sequence[bytes]) -> Strip | None:
    """What git shows of changed lines, whatever stands around it. Of one new file it shows the whole text, which may be
    a log."""
    hunks = [match for line in lines if (match := _HUNK.match(line)) is not None]
    return None if not hunks or (len(hunks) == 1 and hunks[0]["old"] == b"0") else _without_hunks


def _without_hunks(text: bytes) -> bytes:
    kept: list[bytes] = []
    old = new = 0
    for line in text.split(b"\n"):
        if (hunk := _HUNK.match(line)) is not None:
            old, new = (int(count) if count is not None else 1 for count in hunk.group("old", "new"))
            kept.append(b"")
        elif (old > 0 or new > 0) and line[:1] in (b" ", b"+", b"-", b"\\", b""):
            old -= line[:1] not in (b"+", b"\\")  # ``\ No newline at end of file`` is no line of either
            new -= line[:1] not in (b"-", b"\\")
            kept.append(b"")
        else:
            old = new = 0
            kept.append(line)
    return b"\n".join(kept)


def commits(lines: Sequence[bytes]) -> Strip | None:
    """What ``git log`` shows: the messages of commits, with who made them, or one commit a line."""
    if any(_COMMIT.match(line) and _AUTHOR.match(after) for line, after in pairwise(lines)):
        return _without_messages
    full = [line for line in lines if line.strip() and not _GRAPH.match(line)]
    listed = [match for line in full if (match := _ONE_LINE.match(line)) is not None]
    # The hashes of one listing are of one length; a run's own lines begin with other things.
    alike = len({len(match["hash"]) for match in listed}) == 1
    return emptied if len(listed) >= _FEWEST_COMMITS and len(listed) == len(full) and alike else None


def _without_messages(text: bytes) -> bytes:
    kept: list[bytes] = []
    in_message = False
    for line in text.split(b"\n"):
        in_message = _COMMIT.match(line) is not None or (
            in_message and (_AUTHOR.match(line) or _MESSAGE.match(line)) is not None
        )
        kept.append(b"" if in_message else line)
    return b"\n".join(kept)


def releases(lines: Sequence[bytes]) -> Strip | None:
    """Notes on releases: nearly all lines are headings with their numbers and points below them."""
    full = [line for line in lines if line.strip() and not UNDERLINE.match(line)]
    points = sum(1 for line in full if _POINT.match(line))
    below = sum(1 for line in full if _SET_IN.match(line) and not _POINT.match(line))
    headings = [i for i, line in enumerate(full) if _HEADING.match(line)]
    if not points or not headings or headings[0] > 1 or points + below + len(headings) < MOST * len(full):
        return None
    return None if any(map(of_program, lines)) else emptied
