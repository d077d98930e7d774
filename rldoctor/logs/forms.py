"""The forms that the lines of a traceback have: frames as Python, loguru and notebooks print them, and the line of the
exception itself."""

from __future__ import annotations

from rldoctor.expressions import expression
from rldoctor.logs.model import Frame

HEADER = "Traceback (most recent call last):"
# Stands in every frame that Python prints.
IN_FRAME = '", line '

_FRAME = expression(
    r'(?P<indent>\s*)(?:> )?File "(?P<file>[^"]{1,1024})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,300}))?'
)
_DRIVE = expression(r"[A-Za-z]:\\")
# ``File /x/a.py:376, in f(args)``, ``/x/a.py in f(self)``, ``Cell In[1], line 6``, ``<ipython-input-1-0> in <module>``.
_NOTEBOOK_FRAME = expression(
    r"(?:File )?(?P<file>(?:[A-Za-z]:\\|[~/.])[^\s:\"]{1,500}|<ipython-input[^>]{1,80}>|Cell In ?\[\d+\])"
    r"(?:(?::|, line )(?P<line>\d{1,9}))?(?:,? in (?P<function><[^>\n]{1,80}>|[^\s(]{1,200}).{0,2000})?$"
)
_NOTEBOOK_HEADER = expression(r"[A-Za-z_][\w.]{2,100} {2,}Traceback \(most recent call last\)$")
_NOTEBOOK_CODE = expression(r"\s*-+> ?(?P<line>\d{1,9})(?P<code>.*)")
# rich's box: its head, a place (over as many rows as it takes), and the line of code that the mark points at.
_BOX_HEAD = expression(r"\s*[╭┌]─+ Traceback \(most recent call last\) ─+[╮┐]?$")
_BOX_PLACE = expression(r"(?P<file>[/~.<\w][^\n]{0,1000}):(?P<line>\d{1,9}) in (?P<function>[^\s:]{1,200})$")
_BOX_CODE = expression(r"(?P<mark>❱)?\s*\d{1,9}(?: [│ ]*(?P<code>.*)|$)")
EXCEPTION = expression(
    r"(?P<type>(?:[A-Za-z_]\w{0,100}\.){0,12}[A-Za-z_]\w{0,100}(?:\([\w.]{1,100}\))?)(?P<rest>:(?: (?P<message>.*))?)?$"
)
# What nearly all exceptions' names end in; another name counts only where an exception is due.
USUAL = expression(r"(?:Error|Exception|Interrupt|Exit|Timeout|Warning|Group|Expired|Iteration)(?:\([\w.]+\))?$")
# A logger's line that was cut off behind its level.
_LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "FATAL"})
# What stands before every line of an exception group, and where its members and itself end.
GUTTER = expression(r"\s{0,40}[|+](?:-[+]-+ \d+ -+|-+ \d+ -+|-{4,})?(?: |$)")
GROUP_MEMBER = expression(r"\s{0,40}[+|][-+]{2,40} \d+ -+$")
GROUP_END = expression(r"\s{0,40}\+-{10,}$")
# Lines that no message goes on with: metrics, samples, the next end.
NOT_MESSAGE = expression(
    r"\s*(?:\{['\"]|step:\d+ - |Step \d+:?$|={5,} Step \d|={3,} .{1,200} in [\d.]+s|Episode \[|"
    r"\[(?:prompt|response)\]|wandb:|>>> |In \[\d+\]: |\d{1,3}%\||.{0,60}\d{1,3}%\|[ █▏▎▍▌▋▊▉#]|usage: |"
    r"Filesystem {2,}\S+ +Used |Exception in thread |Process \S+:$|\[rank\d+\]:|Exception ignored in)"
)


def opens(text: str) -> bool:
    """Whether a line, stripped, says that a traceback follows."""
    return text.endswith(HEADER) or is_notebooks(text) or is_box_head(text)


def is_notebooks(text: str) -> bool:
    """Whether it is a notebook that says so: ``KeyError     Traceback (most recent call last)``."""
    return _NOTEBOOK_HEADER.match(text) is not None


def is_box_head(text: str) -> bool:
    """Whether rich's box around a traceback begins in a line."""
    return _BOX_HEAD.match(text) is not None


def box_place(text: str) -> Frame | None:
    """The frame that the rows of a box name, put together."""
    match = _BOX_PLACE.match(text)
    return Frame(match["file"], int(match["line"]), match["function"]) if match is not None else None


def box_code(text: str) -> str | None:
    """The code of a row of a box that shows some, empty where the mark does not point at it; None for another row."""
    match = _BOX_CODE.match(text)
    return None if match is None else (match["code"] or "").strip() if match["mark"] else ""


def frame_of(text: str) -> tuple[Frame, int] | None:
    """The frame that Python or loguru printed in a line, with the line's indent, or None."""
    match = _FRAME.match(text)
    if match is None:
        return None
    named = (match["function"] or "<module>").strip()
    return Frame(_in_folders(match["file"]), int(match["line"]), named), len(match["indent"])


def _in_folders(file: str) -> str:
    """A path as the others are: whose code it is shows in its folders."""
    return file.replace("\\", "/") if _DRIVE.match(file) else file


def names_function(text: str) -> bool:
    """Whether the line is a frame of a traceback: a dump by signal and a warning's place name no function so."""
    match = _FRAME.match(text)
    return match is not None and match["function"] is not None


def notebook_frame(text: str) -> Frame | None:
    """The frame that IPython printed in a line."""
    match = _NOTEBOOK_FRAME.match(text)
    if match is None or not (match["line"] or match["function"]):
        return None
    line = int(match["line"]) if match["line"] else None
    return Frame(_in_folders(match["file"]), line, match["function"] or "<module>")


def names_cell(text: str) -> bool:
    """Whether the line is a frame of IPython with all that one has: a file, a line and a function's arguments."""
    frame = notebook_frame(text)
    return frame is not None and frame.line is not None and text.rstrip().endswith(")")


def notebook_code(text: str) -> tuple[int, str] | None:
    """Number and text of the line of code that IPython's arrow points at."""
    match = _NOTEBOOK_CODE.match(text)
    return (int(match["line"]), match["code"].strip()) if match is not None else None


def due(name: str) -> bool:
    """Whether a line that begins so can be the exception that a traceback still lacks."""
    last = name.split("(")[0].rsplit(".", 1)[-1]
    return name not in _LEVELS and ("." in name or last[:1].isupper())


def of_module(name: str) -> bool:
    """Whether a name is that of an exception with its module, as Python prints those that are not its own."""
    return "." in name and due(name.rpartition(".")[2])
