"""Finds the quote, here-document or bracket that a shell script opens and never closes."""

from __future__ import annotations

import re

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][\w-]*)\1")
_CLOSES = {"(": ")", "{": "}"}


def unclosed(text: str) -> tuple[str, int] | None:
    """What is left open at the end of ``text`` and its line (from 1), or None where all is closed."""
    stack: list[tuple[str, int]] = []
    waiting: list[str] = []
    line, i, word_start = 1, 0, True
    while i < len(text):
        char = text[i]
        top = stack[-1][0] if stack else ""
        if char == "\n":
            line += 1
            if waiting and top != "'":
                i, line, left = _skip_heredocs(text, i + 1, line, waiting)
                if left:
                    return f"the here-document {left}", line
                waiting, word_start = [], True
                continue
        if top == "'":
            if char == "'":
                stack.pop()
        elif char == "\\":
            line += text[i + 1 : i + 2] == "\n"
            i += 1
        elif top == '"':
            if char == '"':
                stack.pop()
            elif text.startswith("$(", i) or text.startswith("${", i):
                stack.append((text[i + 1], line))
                i += 1
        elif char in "'\"":
            stack.append((char, line))
        elif char == "#" and word_start:
            end = text.find("\n", i)
            i = len(text) if end < 0 else end
            continue
        elif char == "<" and top in ("", "{") and (found := _HEREDOC.match(text, i)) and text[i : i + 3] != "<<<":
            waiting.append(found[2])
            i = found.end()
            continue
        elif char == "$" and text[i + 1 : i + 2] in ("(", "{"):
            stack.append((text[i + 1], line))
            i += 1
        elif char == "(" and top == "(":
            stack.append((char, line))
        elif top and char == _CLOSES.get(top):
            stack.pop()
        word_start = char in " \t\n;&|("
        i += 1
    if not stack:
        return None
    what = {"'": "the quote '", '"': 'the quote "', "(": "the bracket $(", "{": "the brace ${"}[stack[-1][0]]
    return what, stack[-1][1]


def _skip_heredocs(text: str, start: int, line: int, names: list[str]) -> tuple[int, int, str]:
    for name in names:
        while True:
            end = text.find("\n", start)
            row = text[start : end if end >= 0 else len(text)]
            line += end >= 0
            start = end + 1 if end >= 0 else len(text)
            if row.strip("\t ") == name:
                break
            if end < 0:
                return start, line, name
    return start, line, ""
