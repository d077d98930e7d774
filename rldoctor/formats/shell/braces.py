"""Brace expansion (``a{b,c}``, ``{1..3}``), which bash does on the text of a word before anything else."""

from __future__ import annotations

import re

MAX_WORDS = 1000
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?\Z")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,9}))?\Z")


def braces(text: str) -> list[str]:
    """The words that ``text`` becomes, itself alone where it has no brace expression outside quotes. A text that would
    become too many is left as it is."""
    done, waiting = [], [text]
    while waiting:
        word = waiting.pop(0)
        found = _first(word)
        if found is None:
            done.append(word)
            continue
        start, end, parts = found
        waiting = [word[:start] + part + word[end:] for part in parts] + waiting
        if len(waiting) + len(done) > MAX_WORDS:
            return [text]
    return done


def _first(text: str) -> tuple[int, int, list[str]] | None:
    """The first brace expression: where it starts and ends, and its alternatives."""
    at = 0
    while at < len(text):
        if text[at] == "{" and (found := _expression(text, at)) is not None:
            return at, *found
        at = _skip(text, at)
    return None


def _expression(text: str, start: int) -> tuple[int, list[str]] | None:
    depth, at, cut = 0, start + 1, [start + 1]
    while at < len(text):
        char = text[at]
        if char == "{":
            depth += 1
        elif char == "}" and depth:
            depth -= 1
        elif char == "}":
            parts = [text[a:b] for a, b in zip(cut, [*(c - 1 for c in cut[1:]), at], strict=True)]
            listed = parts if len(parts) > 1 else _counted(parts[0])
            return None if listed is None else (at + 1, listed)
        elif char == "," and not depth:
            cut.append(at + 1)
        at = _skip(text, at)
    return None


def _counted(text: str) -> list[str] | None:
    letters = _LETTERS.match(text)
    if letters is not None:
        first, last, step = ord(letters[1]), ord(letters[2]), abs(int(letters[3] or 1)) or 1
        return [chr(code) for code in _steps(first, last, step)]
    found = _RANGE.match(text)
    if found is None:
        return None
    first, last, step = int(found[1]), int(found[2]), abs(int(found[3] or 1)) or 1
    if abs(last - first) // step >= MAX_WORDS:
        return None
    padded = any(re.match(r"-?0\d", part) for part in found.groups()[:2] if part)
    width = max(len(found[1]), len(found[2])) if padded else 0
    return [f"{number:0{width}d}" for number in _steps(first, last, step)]


def _steps(first: int, last: int, step: int) -> range:
    return range(first, last + 1, step) if first <= last else range(first, last - 1, -step)


def _skip(text: str, at: int) -> int:
    """Behind the character, the quoted text or the expansion that starts at ``at``."""
    char = text[at]
    if char == "\\":
        return at + 2
    if char in ("'", '"') or text[at : at + 2] == "$'":
        escapes = char != "'"
        end = at + (2 if char == "$" else 1)
        while end < len(text) and text[end] != ('"' if char == '"' else "'"):
            end += 2 if escapes and text[end] == "\\" else 1
        return end + 1
    if char == "`":
        end = text.find("`", at + 1)
        return len(text) if end < 0 else end + 1
    if char == "$" and text[at + 1 : at + 2] in ("{", "("):
        opening, closing = text[at + 1], {"{": "}", "(": ")"}[text[at + 1]]
        depth, end = 0, at + 1
        while end < len(text):
            depth += (text[end] == opening) - (text[end] == closing)
            if not depth:
                return end + 1
            end = end + 1 if text[end] in (opening, closing) else _skip(text, end)
    return at + 1
