"""Layers of documents: colours that lost their escape character, quotation marks of mails, and the fences of
Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from rldoctor.expressions import expression
from rldoctor.logs.layers.layer import MOST, UNDERLINE, Strip, emptied, of_program

# No-break space, figure space, narrow no-break space; and what chats put between lines and no one sees.
_ODD_BLANK = expression(rb"\xc2\xa0|\xe2\x80[\x87\xaf]")
_NO_WIDTH = expression(rb"\xe2\x80[\x8b\x8e\x8f]|\xe2\x81\xa0")
# Print sets some letters as one.
_LIGATURES = tuple(
    (printed.encode(), typed)
    for printed, typed in (
        *(("\ufb00", b"ff"), ("\ufb01", b"fi"), ("\ufb02", b"fl")),
        *(("\ufb03", b"ffi"), ("\ufb04", b"ffl")),
    )
)
_LIGATURE = expression(rb"\xef\xac[\x80-\x84]")
_CURLY_FRAME = expression(
    rb"File[ \xa0\xc2]+\xe2\x80[\x9c\x9d][^\n]{1,400}\xe2\x80\x9d, line \d|\{\xe2\x80[\x98\x99]\w"
)
_TYPED = tuple((mark.encode(), typed) for mark, typed in (("\u201c", b'"'), ("\u201d", b'"'), ("\u2018", b"'"),
                                                          ("\u2019", b"'")))  # fmt: skip
# ESC written out, by its name, as a caret, in syslog's octal or lost.
_COLOUR = expression(
    rb"(?:#033|ESC|\\x1b|\\u001b|\\033|\\e|\^\[|\xe2\x90\x9b|(?<!\x1b))\[(?:\d{1,3}(?:;\d{1,3}){0,4})m"
)
_RESET = expression(rb"(?<!\x1b)\[(?:0;)?(?:0|22|24|27|39|49)m")
_FEWEST = 2
_ENTITY = expression(rb"&(?:quot|lt|gt|amp|apos|#x?[0-9a-fA-F]{1,5});")
_TAGS = expression(rb"\s*(?:</?[a-z]{1,10}[^<>]{0,100}>\s*)+$")
# A page in which each line has elements of its own around it, and those that end a line.
_ELEMENT = (
    rb"(?:html|head|body|div|span|p|br|li|ul|ol|tr|td|th|table|tbody|pre|code|samp|font|b|i|em|strong|a|mark|section)"
)
_TAG = expression(rb"</?" + _ELEMENT + rb"(?: [^<>\n]{0,400})?/?>|<!DOCTYPE html>", re.IGNORECASE)
_ENDS_LINE = expression(rb"<br ?/?>|</(?:div|p|li|tr|pre|h\d)>", re.IGNORECASE)
_CLOSED = expression(rb"</" + _ELEMENT + rb">[ \t\r]*$", re.IGNORECASE)
_BROKEN = expression(rb"<br ?/?>[ \t\r]*$", re.IGNORECASE)
_FEWEST_ENDS = 3
# A page as it begins, and text whose lines it keeps: what notebooks are exported as.
_PAGE = expression(rb"(?:\xef\xbb\xbf)?\s*<(?:!DOCTYPE html|html)\b", re.IGNORECASE)
_KEPT_TEXT = expression(rb"<pre(?: [^<>\n]{0,400})?>", re.IGNORECASE)
# What stands in nearly every log, and never in the text of a page.
_MARKUP = expression(rb'["<>]')
_BRACKET = expression(rb"[<>]")
_FENCE = expression(
    rb"(?m)^[ \t]*(?:\x1b\[[0-9;]*m)*(?:```+[ \t]*[\w+.{}-]*|~~~+[ \t]*[\w+-]*|"
    rb"</?(?:details|summary|pre|code)>)[ \t\r]*(?:\x1b\[[0-9;]*m)*$"
)
# Marks of code that stand in the log's own first and last line.
_OPENED = expression(rb"`{1,3}(?=\(\w+ pid=\d|Traceback \(|\[rank\d|[\w.]+(?:Error|Exception)\b)[^`\n]*$")
_GLUED = expression(rb"(?m)^`{1,3}(?=[^`\n]+$)|(?<=[^`\n])`{1,3}[ \t\r]*$")
_LINK = expression(rb"\[(?P<text>[^\]\n]{1,400})\]\((?P<target>(?:https?|vscode[\w-]{0,30}):[^)\s]{1,1000})\)")
# Where Colab's own links to files lead, whichever file it is.
_COLAB = expression(rb"https?://localhost:\d{2,5}/#?")
_SPAN = expression(rb"(?m)^[ \t]*(?P<mark>`{1,2})(?P<text>[^\n]*?)(?P=mark)[ \t\r]*$")
_FARTHEST = 60
_CELL_NAME = expression(rb'(?m)^\s*(?:\{|"(?:name|message)": "[^\n]*",)[ \t\r]*$')
_CELL_STACK = expression(rb'(?m)^\s*"stack": "')
_CELL_END = expression(rb'(?m)(?<=[^\n])"[ \t\r]*\n\}[ \t\r]*$')
_ESCAPED = expression(rb'\\([\\"n])')
# A heading of Markdown, or of reStructuredText with the line below it.
_HEADING = expression(rb"#{1,6} +(?P<title>[^\n]{2,80})$")
# Headings of what tells how a program is used; those of the first kind stand in nothing else.
_HELPS = expression(
    rb"(?i)^(?!.*\bexisting\b).*\b(?:trouble-?shooting|faqs?|frequently asked|"
    rb"(?:common|known) (?:problems|issues|errors|pitfalls))\b" + "|常见问题|故障排查|常見問題".encode()
)
_EXPLAINS = expression(
    rb"(?i)\b(?:install(?:ation|ing)?|usage|quick[- ]?start|getting started|license|licence|features|contributing|"
    rb"requirements|prerequisites|change-?log|citation|acknowledge?ments?|table of contents|documentation|"
    rb"supported (?:models|algorithms)|roadmap|what'?s new)\b" + "|安装|使用方法|快速开始|许可证|引用".encode()
)
# Headings of what reports that something failed.
_REPORTS = expression(
    rb"(?i)\b(?:describe the \w+|bug|reproduc\w+|(?:expected|actual|current) behaviou?r|what happened|existing \w+|"
    rb"error|logs?|traceback|stack ?trace|system info\w*|your current environment|additional context|before submitting|"
    rb"screenshots?)\b" + "|问题描述|复现|当前行为|期望行为|报错|日志".encode()
)
_FEWEST_HEADINGS = 2
# The lines of a block of code: between fences, or set in behind an empty line.
_EXAMPLE = expression(
    rb"(?m)^[ ]{0,8}(?P<fence>```+|~~~+)[^\n]*\n(?:[^\n]*\n)*?[ ]{0,8}(?P=fence)[`~ \t\r]*$"
    rb"|(?:(?<=\n\n)|(?<=\n\r\n))(?:(?:[ ]{4}|\t)[^\n]*(?:\n|$)|[ \t\r]*\n(?=[ ]{4}|\t))+"
)
# Among other lines, so many that are quoted are a quotation. A Python prompt is none.
_FEWEST_QUOTED = 4
_QUOTED = expression(rb"[ \t]*>(?!>>)[ ]?")
_QUOTED_EACH = expression(rb"(?m)^[ \t]*>(?!>>)[ ]?")


def blanks(lines: Sequence[bytes]) -> Strip | None:
    """Blanks that do not break, quotation marks and joined letters of print, as word processors, chats and PDFs make
    them of what is pasted into them."""
    odd = sum(1 for line in lines if _ODD_BLANK.search(line) or _NO_WIDTH.search(line))
    curly = any(_CURLY_FRAME.search(line) for line in lines)
    if odd < _FEWEST and not curly and not any(map(_LIGATURE.search, lines)):
        return None
    return _typed if curly else _plain


def _typed(text: bytes) -> bytes:
    for printed, typed in _TYPED:
        text = text.replace(printed, typed)
    return _plain(text)


def _plain(text: bytes) -> bytes:
    for printed, typed in _LIGATURES:
        text = text.replace(printed, typed)
    return _NO_WIDTH.sub(b"", _ODD_BLANK.sub(b" ", text))


def lost_escapes(lines: Sequence[bytes]) -> Strip | None:
    """Colours as they are pasted: ``[36m(Worker pid=1)[0m``."""
    if sum(1 for line in lines if _RESET.search(line)) < _FEWEST:
        return None
    return lambda text: _COLOUR.sub(b"", text)


def quoted(lines: Sequence[bytes]) -> Strip | None:
    """A log that was answered to: its lines, however few they are, are quoted as mails do. Of what stands before or
    behind the quotation no program has written anything."""
    written = [line for line in lines if line.strip()]
    marked = [i for i, line in enumerate(written) if _QUOTED.match(line)]
    if not marked:
        return None
    first, last = marked[0], marked[-1]
    around = written[:first] + written[last + 1 :]
    if len(marked) != last - first + 1 or (around and len(marked) < _FEWEST_QUOTED):
        return None
    return None if any(of_program(line) for line in around) else lambda text: _QUOTED_EACH.sub(b"", text)


def elements(lines: Sequence[bytes]) -> Strip | None:
    """A saved page of a log viewer or of a mail: every line between tags, or all in one with breaks between them. What
    a run prints of a page has lines of its own around it."""
    full = [line for line in lines if line.strip()]
    tagged = sum(1 for line in full if _TAG.match(line.strip()))
    ends = sum(len(_ENDS_LINE.findall(line)) for line in full)
    closed = sum(1 for line in full if _CLOSED.search(line))
    own_lines = tagged >= max(_FEWEST_ENDS, MOST * len(full)) and closed >= MOST * len(full)
    one_line = tagged >= MOST * len(full) and ends >= max(_FEWEST_ENDS, tagged // 2)
    broken = sum(1 for line in full if _BROKEN.search(line)) >= max(_FEWEST_ENDS, MOST * len(full))
    if not full or not (one_line or own_lines or broken or _keeps_text(full)):
        return None
    return _without_elements


def _keeps_text(full: Sequence[bytes]) -> bool:
    """Whether it is a page, or a part of one, with text whose lines it keeps. No program has written anything before
    such a text; of one without a page around it HTML's own characters are all written as a page has to."""
    if _PAGE.match(full[0]):
        return True
    first = next((i for i, line in enumerate(full[:_FARTHEST]) if _KEPT_TEXT.search(line)), None)
    if first is None or not _TAG.match(full[first].lstrip()) or any(map(of_program, full[:first])):
        return False
    written = sum(1 for line in full if _ENTITY.search(line) or _TAG.search(line))
    return written > sum(1 for line in full if _BRACKET.search(_TAG.sub(b"", line)))


def _without_elements(text: bytes) -> bytes:
    text = _ENDS_LINE.sub(lambda end: b"" if text[end.end() : end.end() + 1] in (b"\n", b"\r") else b"\n", text)
    return _without_entities(_TAG.sub(b"", text))


def entities(lines: Sequence[bytes]) -> Strip | None:
    """The text of a web page, with what HTML writes for quotation marks and brackets. A page that a run shows as a
    sample has quotation marks of its own around it."""
    written = sum(1 for line in lines if _ENTITY.search(line))
    bare = sum(1 for line in lines if _MARKUP.search(line) and not _TAGS.match(line))
    return _without_entities if written >= _FEWEST and written > bare else None


def _without_entities(text: bytes) -> bytes:
    return b"\n".join(
        html.unescape(line.decode("utf-8", "surrogateescape")).replace("\xa0", " ").encode("utf-8", "surrogateescape")
        if b"&" in line
        else line
        for line in text.split(b"\n")
    )


def guide(lines: Sequence[bytes]) -> Strip | None:
    """A document about the use of a program: what stands in its blocks of code are examples, and happened to nobody
    here. A report of a failure has headings of its own."""
    titles = [title for title in map(_title, lines, [*lines[1:], b""]) if title is not None]
    helps = sum(1 for title in titles if _HELPS.search(title))
    explains = sum(1 for title in titles if _EXPLAINS.search(title))
    reports = sum(1 for title in titles if _REPORTS.search(title) and not _HELPS.search(title))
    if not (helps or explains >= _FEWEST_HEADINGS) or reports >= helps + explains:
        return None
    text = b"\n".join(lines) + b"\n"
    return None if any(map(of_program, _EXAMPLE.sub(b"", text).split(b"\n"))) else _without_examples


def _title(line: bytes, below: bytes) -> bytes | None:
    if (heading := _HEADING.match(line)) is not None:
        return heading["title"]
    return line if line[:1].isalnum() and UNDERLINE.match(below) and len(below.strip()) >= len(line.strip()) else None


def _without_examples(text: bytes) -> bytes:
    return _EXAMPLE.sub(lambda block: emptied(block[0]), text)


def links(lines: Sequence[bytes]) -> Strip | None:
    """Places that an editor or a notebook shows as links to themselves: ``[/x/a.so](https://remote/x/a.so)``."""
    return _unlinked if any(_has_link(line) for line in lines) else None


def _has_link(line: bytes) -> bool:
    return b"](" in line and any(_is_place(link) for link in _LINK.finditer(line))


def _unlinked(text: bytes) -> bytes:
    return _LINK.sub(lambda link: link["text"] if _is_place(link) else link[0], text) if b"](" in text else text


def _is_place(link: re.Match[bytes]) -> bool:
    return len(link["text"]) > 1 and (link["text"] in link["target"] or _COLAB.fullmatch(link["target"]) is not None)


def cells(lines: Sequence[bytes]) -> Strip | None:
    """The error of a notebook's cell as VS Code copies it: name, message and traceback in a text that is like JSON,
    except for the ends of its lines."""
    full = [line for line in lines if line.strip()]
    named = any(_CELL_NAME.match(line) for line in full[:_FARTHEST])
    return _uncelled if named and any(_CELL_STACK.match(line) for line in full[:_FARTHEST]) else None


def _uncelled(text: bytes) -> bytes:
    bare = _CELL_END.sub(b"", _CELL_STACK.sub(b"", _CELL_NAME.sub(b"", text)))
    return _ESCAPED.sub(lambda escape: b"\n" if escape[1] == b"n" else escape[1], bare)


def spans(lines: Sequence[bytes]) -> Strip | None:
    """Marks of code around each line, as in the cells of a table or in a list."""
    full = [line for line in lines if line.strip()]
    marked = sum(1 for line in full if _SPAN.match(line))
    return (lambda text: _SPAN.sub(rb"\g<text>", text)) if marked >= max(_FEWEST_QUOTED, MOST * len(full)) else None


def fences(lines: Sequence[bytes]) -> Strip | None:
    """A log between fences, as in an issue: before the first one no program has written anything. A fence further down
    belongs to a sample that the run shows."""
    first = next((i for i, line in enumerate(lines[:_FARTHEST]) if _FENCE.match(line) or _OPENED.match(line)), None)
    if first is None or any(of_program(line) for line in lines[:first]):
        return None
    return _unfenced


def _unfenced(text: bytes) -> bytes:
    """Without fences, and without the single mark before and behind a log of several lines."""
    return _GLUED.sub(b"", _FENCE.sub(b"", text))
