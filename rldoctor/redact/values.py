"""Where a value ends, by the notation that it stands in: a string in quotes, a word of a shell, a phrase that is all
its line, the arguments of a call. One place for all who find where a value begins."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.expressions import expression
from rldoctor.redact.names import says_of_it

LONGEST = 4096
# How a shell, SQL, YAML and CSV write a quote inside the same quotes: '"'"', '\'', '', "".
_EMBEDDED = {
    "'": expression(r"'\"'\"'|'\\''|''(?=[ ]?\w[^'\n]{0,4096}')"),
    '"': expression(r"\"'\"'\"|\"\\\"\"|\"\"(?=[ ]?\w[^\"\n]{0,4096}\")"),
}
# What a shell joins to a word: a space, a quote or a sign behind a backslash.
_ESCAPED = expression(r"\\[ '\"&;,|()<>$!#*?](?=[^\s])|\\\\(?=\w)")
_PLAIN = expression(r"[^\s\"'`;|&\\]+")
# A setting from the beginning of its line up to the value; a prompt that asks for one; a block of YAML.
_SETTING = expression(
    r"[ \t>+?#-]{0,40}(?:(?:export|set|let|local|readonly|declare[ ]-x|ENV)[ \t]{1,4})?"
    r"(?:[\"'$][\w.:@/-]{1,80}[\"']|[\w.:@/\[\]() '\u2019-]{0,120})[ \t]{0,8}(?::|=>|:?=|\uff1a)?[ \t]{0,8}"
)
# Words without the signs of options, paths, settings and calls.
_PHRASE_WORD = r"(?:[^\W\d_][^\s=:/\\|<>(){}\[\]#`]{0,63}|[&\"'][^\W\d_]?[^\s=:/\\|<>(){}\[\]#`]{0,63}|\d{1,9}|[-&])"
_PHRASE = expression(rf"{_PHRASE_WORD}(?:[ \t]{{1,4}}{_PHRASE_WORD}){{1,15}}")
_PHRASE_ENDS = expression(
    r"[ \t]{0,80}(?:\r?\n|\0|\Z|[ \t]#|\\?[\"'](?:[\s,;)\]}]|\Z)|[ \t]\([^()\n]{1,60}\)[ \t]{0,80}(?:\n|\Z))"
)
_SHELL_NAME = expression(r"\w+")
# An expression of a program: self.password or "", config and config.secret.
_OPERATION = expression(r"[\w.]{1,80}[ ](?:or|and|if|is|in|not|else)[ ]")
# A command behind its variables: a program with an option or a file, as NAME=value program -x file.
_COMMAND = expression(r"[ \t](?:-|[\w-]{1,64}\.[a-z]{1,5}\b|\d)|[ \t](?:python3?|bash|sh|make|exec|env|sudo|uv|ray)\b")
_ARGUMENT = expression(
    r"\s{0,80}(?:(?P<keyword>\w{1,64})[ ]?=(?!=)[ ]?)?(?:[bBrRuU]{0,2}(?P<quote>\\{0,4}[\"'])|[^,()\"'\n]{1,200})"
)
_COMMA = expression(r"\s{0,8},")


def closing(text: str, start: int, quote: str) -> int:
    """Where the quoted value ends: at the same quotes with as many backslashes, else at the end of its line."""
    embedded = _EMBEDDED.get(quote)
    end = start + LONGEST
    position = text.find(quote, start, end)
    while position >= 0:
        escaped = position != start and text[position - 1] == "\\" and text[position - 2 : position] != "\\\\"
        joined = embedded.match(text, position) if embedded and position > start and not escaped else None
        if not escaped and not joined:
            return position
        position = text.find(quote, joined.end() if joined else position + len(quote), end)
    newline = text.find("\n", start)
    return newline if newline >= 0 else len(text)


def whole(text: str, start: int, end: int) -> int:
    """Where a value ends of which a pattern saw the beginning: behind a quote at the closing one, else with the shell's
    word."""
    quote = text[start - 1 : start]
    if quote in ("'", '"'):
        return max(end, closing(text, start, quote))
    if end > start + 1 and text[end - 1] == "\\":
        end -= 1
    while end < start + LONGEST and (escaped := _ESCAPED.match(text, end)):
        plain = _PLAIN.match(text, escaped.end())
        end = plain.end() if plain else escaped.end()
    return end


def phrase(text: str, begin: int, start: int) -> int:
    """Where the words of a password end that stand without quotes of their own: all that a line, or what quotes hold,
    has behind the name at ``begin``. ``start`` where there is no such phrase."""
    found = _PHRASE.match(text, start)
    if found is None or says_of_it(found[0]):
        return start
    if text[begin:start].rstrip().endswith("=") and _OPERATION.match(found[0]):
        return start
    quote = text[begin - 1 : begin]
    last = found.end() - (text[found.end() - 1] == quote)
    if quote in ("'", '"') and "\n" not in text[begin:start] and text[last : last + 1] == quote:
        return last
    # What quotes hold begins behind the first, and ends before the last.
    lowest = max(0, start - 400)
    line = max(text.rfind("\n", lowest, start), *(text.rfind(one, lowest, begin) for one in "\"'")) + 1
    last = found.end() - (text[found.end() - 1] in "\"'" and text[found.end() : found.end() + 1] in (*",;)]}", ""))
    if not _SETTING.fullmatch(text, line, start) or not _PHRASE_ENDS.match(text, last):
        return start
    in_a_shell = text[start - 1 : start] == "="
    no_command = "," in found[0] or not found[0].isascii() or not _SHELL_NAME.fullmatch(text, begin, start - 1)
    if in_a_shell and not no_command and (found[0].count(" ") < 2 or _COMMAND.search(found[0])):
        return start
    return last


def arguments(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """The strings among the arguments of a call, from behind its bracket: the keyword of each, empty where it has none,
    and where its content stands."""
    end = start + LONGEST
    while argument := _ARGUMENT.match(text, start, end):
        start = argument.end()
        if argument["quote"]:
            last = closing(text, start, argument["quote"])
            yield argument["keyword"] or "", start, last
            start = last + len(argument["quote"])
        if not (comma := _COMMA.match(text, start)):
            return
        start = comma.end()
