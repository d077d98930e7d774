"""Finds the quote, here-document, bracket or array that a shell script opens and never closes."""

from __future__ import annotations

import re

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][\w-]*)\1")
_ARRAY = "=("
_ASSIGNED = re.compile(r"(?:^|[\s;&|(])[A-Za-z_]\w*\+?=$")
_LONGEST_NAME = 80
_CLOSES = {"(": ")", "{": "}", _ARRAY: ")"}
_NAMES = {_ARRAY: "the array (", "'": "the quote '", '"': 'the quote "', "(": "the bracket $(", "{": "the brace ${"}


def unclosed(text: str) -> tuple[str, int] | None:
    """What is left open at the end of ``text`` and its line (from 1), or None where all is closed."""
    return _Scan(text).left_open()


def ends_in_single_quotes(text: str) -> bool:
    """Whether what stands behind ``text`` is in single quotes."""
    scan = _Scan(text)
    scan.left_open()
    return bool(scan.open) and scan.open[-1][0] == "'"


class _Scan:
    """One pass over a script. ``open`` are the quotes and brackets that it is in with their lines, ``waiting`` the
    here-documents that begin behind the line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.open: list[tuple[str, int]] = []
        self.waiting: list[str] = []
        self.begins_a_word = True

    def left_open(self) -> tuple[str, int] | None:
        while self.at < len(self.text):
            char = self.text[self.at]
            within = self.open[-1][0] if self.open else ""
            if char == "\n":
                self.line += 1
                if self.waiting and within != "'":
                    left = self._skip_heredocs()
                    if left:
                        return f"the here-document {left}", self.line
                    continue
            if within == "'":
                self._plainly_quoted(char)
            elif char == "\\":
                self.line += self.text[self.at + 1 : self.at + 2] == "\n"
                self.at += 1
            elif within == '"':
                self._quoted(char)
            elif self._skipped(char, within):
                continue
            elif within == _ARRAY and self._begins_an_array(char):
                break  # bash takes no bracket there: the one before it was to be closed
            else:
                self._bare(char, within)
            self.begins_a_word = char in " \t\n;&|("
            self.at += 1
        if not self.open:
            return None
        what, line = self.open[-1]
        return _NAMES[what], line

    def _plainly_quoted(self, char: str) -> None:
        if char == "'":
            self.open.pop()

    def _quoted(self, char: str) -> None:
        if char == '"':
            self.open.pop()
        elif char == "$":
            self._substitution()

    def _bare(self, char: str, within: str) -> None:
        if char in "'\"" or (char == "(" and within in ("(", _ARRAY)):
            self.open.append((char, self.line))
        elif not within and self._begins_an_array(char):
            self.open.append((_ARRAY, self.line))
        elif char == "$":
            self._substitution()
        elif within and char == _CLOSES.get(within):
            self.open.pop()

    def _begins_an_array(self, char: str) -> bool:
        return char == "(" and _ASSIGNED.search(self.text[max(0, self.at - _LONGEST_NAME) : self.at]) is not None

    def _substitution(self) -> None:
        """Enters ``$(`` or ``${`` where that stands here."""
        opens = self.text[self.at + 1 : self.at + 2]
        if opens and opens in _CLOSES:
            self.open.append((opens, self.line))
            self.at += 1

    def _skipped(self, char: str, within: str) -> bool:
        """Goes behind a comment, or the operator of a here-document, where one begins here."""
        if char == "#" and self.begins_a_word:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return True
        if char == "<" and within in ("", "{") and not self.text.startswith("<<<", self.at):
            found = _HEREDOC.match(self.text, self.at)
            if found is not None:
                self.waiting.append(found[2])
                self.at = found.end()
                return True
        return False

    def _skip_heredocs(self) -> str:
        """Goes behind the here-documents that begin with the next line. Returns the word that one of them lacks."""
        self.at += 1
        for name in self.waiting:
            while True:
                end = self.text.find("\n", self.at)
                row = self.text[self.at : end if end >= 0 else len(self.text)]
                self.line += end >= 0
                self.at = end + 1 if end >= 0 else len(self.text)
                if row.strip("\t ") == name:
                    break
                if end < 0:
                    return name
        self.waiting, self.begins_a_word = [], True
        return ""
