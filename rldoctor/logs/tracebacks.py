"""Puts one process's lines together into an exception: frames, message, chain, group, nested remote tracebacks."""

from __future__ import annotations

import re

from rldoctor.expressions import expression
from rldoctor.logs import forms
from rldoctor.logs.draft import Draft
from rldoctor.logs.model import Frame, LoggedException, Origin
from rldoctor.logs.prefixes import Line

SEPARATORS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)

_CARETS = expression(r"\s*[~^][~^ ]*$")
_REMOTE_ABOUT = expression(r"\(pid=(?P<pid>\d+)(?:, ip=(?P<ip>[^,)\s]+))?")
# What Ray says before the remote traceback that a message carries: nothing, or that an actor was not even created.
_CARRIED = expression(r"(?P<said>(?:[^\n]{0,120}error raised in its creation task, )?)(?P<remote>ray::.*)")
# Where the frames of such an actor are missing, that is still what happened.
_NOT_CREATED = "raised in its creation task, ray::"
_REMOTE_ACTOR = expression(r"ray::(?P<actor>[\w<>:-]+)")
_OF_TYPE = expression(r"RayTaskError\((\w{1,100})\)$")
# What the hub's client raises has its reason behind an empty line.
_IN_PARAGRAPHS = expression(r"\d{3} (?:Client|Server) Error\b")
_RULE = expression(r"={20,}$")
_CORNERS = ("╭", "┌", "╰", "└")

# A message goes on over lines that nothing else claims, up to a limit.
_MESSAGE_LINES = 80
_STRAY_LINES = 8
_MOST_FRAMES = 400


class TracebackParser:
    """Fed with the lines of one process, from the one that opens a traceback. ``part`` says what the last line that
    it took was: ``header``, ``code``, what a box shows ``around`` it, or ``message``."""

    def __init__(self, origin: Origin, source: str) -> None:
        self.origin = origin
        self.source = source
        self.open = False
        self.ranked = False
        self.part = "header"
        self.level: str | None = None
        self.time: float | None = None
        self.first = 0
        self.last = 0
        self._number = 0
        self._draft = Draft()
        self._outer: list[Draft] = []
        self._opened = ""
        self._phase = "frames"
        self._tag = ""
        self._stamped = False
        self._margin: int | None = None
        self._stray = 0
        self._blank = 0
        self._copies = 1
        self._grouped = False
        self._group_head: Draft | None = None
        self._notebook = False
        self._box: str | None = None
        self._torn = False
        self._flat = False
        self.torn_frames = _MOST_FRAMES

    def begin(self, line: Line, number: int, header: str = "") -> None:
        """Opens a traceback at its ``Traceback`` line, at a Ray remote header, or at the one line of an exception
        without frames that a separator follows (``begin_bare``)."""
        self.open = True
        self.first = self.last = self._number = number
        self.time, self.level, self._tag, self.ranked = line.time, line.level, line.tag, line.ranked
        self._stamped = bool(line.stamp)
        self._draft = Draft(header=header, line=number)
        self._phase, self._margin = "frames", None
        self._grouped = "Exception Group Traceback" in line.text
        self._opened = line.text
        text = line.text.strip()
        self._notebook, self._box = forms.is_notebooks(text), "" if forms.is_box_head(text) else None
        named = forms.EXCEPTION.match(text) if " ray::" in text else None
        if named is not None and _OF_TYPE.search(named["type"]):  # what stood above it was cut away
            self._take_type(named)
        elif text.startswith("ray::") or " ray::" in text:
            self._remote_header(text[text.find("ray::") :])

    def begin_bare(self, line: Line, number: int, named: re.Pattern[str] = forms.USUAL) -> bool:
        """Opens at a line like ``httpx.ConnectError: ...`` that was printed without a traceback, where the type's name
        is one of those ``named``."""
        match = forms.EXCEPTION.match(line.text.strip())
        if match is None or not named.search(match["type"]):
            return False
        self.begin(line, number)
        self._take_type(match)
        return True

    def begin_torn(self, line: Line, number: int) -> None:
        """Opens at a frame whose ``Traceback`` line is not in the log; nothing is made of it unless an exception
        follows, or ``torn_frames`` of them."""
        self.begin(line, number)
        self._torn = True
        self._notebook = forms.names_cell(line.text)
        self.feed(line, number)

    def feed(self, line: Line, number: int) -> bool:
        """Takes the process's next line. False where the line does not belong to the exception, which is then
        finished."""
        self._number = number
        took = self._feed(line, number)
        if took and line.text.strip():
            self.last = number  # blank lines at the log's end are far behind it, where other processes went on
        elif not took:
            self.open = False
        return took

    def result(self) -> LoggedException | None:
        """The exception as far as it was read, or None where nothing of it was. Where the log ends inside of it, Ray's
        carrier still names its type."""
        self.open = False
        carried = _OF_TYPE.search(self._outer[-1].type) if self._outer else None
        if carried is not None and not self._draft.type and self._draft.frames:
            self._draft.type = carried[1]
        draft = self._folded(self._draft)
        if not draft.type and draft.cause is not None and (draft.cause.frames or not draft.frames):
            draft.cause.frames[:0] = draft.frames  # what it led to is cut off, and was on its way through these
            draft = draft.cause
        if not draft.type and not draft.frames and _NOT_CREATED in self._opened:
            draft.type, draft.message = "ActorDiedError", [self._opened.strip()]
        if not draft.type and (len(draft.frames) < self.torn_frames if self._torn else not draft.frames):
            return None
        base = LoggedException(type="", origin=self.origin, source=self.source, line=self.first, time=self.time)
        return draft.built(base)

    def _feed(self, line: Line, number: int) -> bool:
        text = line.text.rstrip()
        if self._grouped:
            text = self._in_group(text, number)
        if self._phase == "frames":
            return self._in_frames(line, text, number)
        if self._phase == "message":
            return self._in_message(line, text, number)
        return self._in_between(text, number)

    def _in_frames(self, line: Line, text: str, number: int) -> bool:
        if self._notebook and self._in_notebook(text):
            return True
        if self._box is not None and self._in_box(text):
            return True
        found = forms.frame_of(text)
        if found is not None and self._margin is None:
            self._margin = max(0, found[1] - 2)
        indent = len(text) - len(text.lstrip())
        if not text.strip() or _CARETS.match(text):
            self.part = "code"
            return self._tolerate(limit=_STRAY_LINES * 40)
        if found is not None:
            self._flat = found[1] == 0
            if self._flat:
                self._stray = 0
            self._take_frame(found[0])
            return True
        if (indent > (self._margin or 0) and not self._ends_flat(text)) or (self._flat and self._lacks_code(text)):
            self._take_code(text.strip())
            return True
        match = forms.EXCEPTION.match(text.lstrip() if self._flat else text[self._margin or 0 :])
        noise = forms.NOT_MESSAGE.match(text) is not None
        expected = bool(self._draft.frames) and not noise
        due = forms.of_module if self._torn else forms.due
        if match is not None and (forms.USUAL.search(match["type"]) or (expected and due(match["type"]))):
            self._take_type(match)
            return True
        if text.strip() == forms.HEADER:  # two processes without prefixes write one into the other
            self._copies += 1
            return True
        if text.lstrip().startswith("ray::") and not self._draft.frames:
            self._remote_header(text.strip())
            return True
        # A record of a logger, metrics: another process without a prefix writes in between.
        others = noise or (bool(line.level) and not self._tag)
        return self._tolerate(limit=_STRAY_LINES * 5 if others else _STRAY_LINES)

    def _in_message(self, line: Line, text: str, number: int) -> bool:
        stripped = text.strip()
        if stripped in SEPARATORS:
            return not self._other_exception() and self._to_cause()
        if forms.opens(stripped):
            return self._within(stripped) or (self._copies > 1 and self._same_again(stripped))
        if stripped == '"""':
            return True
        if not stripped:
            self._blank += 1
            return self._blank <= 2 and (not self._tag or line.tag == self._tag)
        stamped = bool(line.stamp) and not self._stamped
        foreign = line.tag != self._tag if self._tag else bool(line.tag or line.level or stamped)
        said = self._draft.message[0] if self._draft.message else ""
        if self._blank == 1 and len(self._draft.message) == 1 and not foreign and _IN_PARAGRAPHS.match(said):
            self._blank = 0
        if self._blank or foreign or forms.NOT_MESSAGE.match(text) or len(self._draft.message) >= _MESSAGE_LINES:
            return False
        if self._copies > 1 and self._same_again(stripped):
            return True
        if _RULE.match(stripped) and len(self._draft.message) > 3 and _RULE.match(self._draft.message[0] or stripped):
            self._blank = 1  # torchelastic frames its summary; what follows is not part of it
        self._draft.message.append(text[self._margin or 0 :])
        self.part = "message"
        return True

    def _in_between(self, text: str, number: int) -> bool:
        stripped = text.strip()
        if not stripped or stripped == '"""':
            return True
        if forms.opens(stripped):
            self._notebook, self._box = forms.is_notebooks(stripped), "" if forms.is_box_head(stripped) else None
            if self._outer and self._draft.cause is not None:  # the whole of what was carried over is the cause
                self._draft.cause = self._folded(self._draft.cause)
            self._phase, self._margin = "frames", None
            self.part = "header"
            return True
        if stripped.startswith("ray::"):
            self._phase, self._margin = "frames", None
            self._remote_header(stripped)
            return True
        match = forms.EXCEPTION.match(stripped)
        if match is not None and forms.USUAL.search(match["type"]):
            self._take_type(match)
            return True
        return self._tolerate(limit=3)

    def _in_notebook(self, text: str) -> bool:
        """IPython's frames, and the code around them; the exception's own line is left to others."""
        frame, code = forms.notebook_frame(text), forms.notebook_code(text)
        if frame is not None:
            self._take_frame(frame)
        elif code is not None and (frames := self._draft.frames):
            frames[-1] = Frame(frames[-1].file, frames[-1].line or code[0], frames[-1].function, code[1][:500])
        return frame is not None or code is not None

    def _in_box(self, text: str) -> bool:
        """The rows of rich's box. ``_box`` is what the rows so far tell of a place that is cut at the box's edge."""
        row = text.strip()
        if not row.startswith(("│", *_CORNERS)):
            return False
        self._margin = len(text) - len(text.lstrip())  # a logger indents the exception's line as the box
        if row[0] != "│":
            self._box = None if row[0] in "╰└" else ""
            return True
        text = row.strip("│").strip()
        self.part = "around"
        if text.startswith(("│", *_CORNERS)):  # the box of the locals
            return True
        code = forms.box_code(text)
        if code is not None and not self._box:
            if code:
                self._take_code(code)
            return True
        told = f"{self._box} {text}" if str(self._box).endswith(" in") else f"{self._box}{text}"
        place = forms.box_place(told)
        if place is not None:
            self._stray = 0
            self._take_frame(place)
        self._box = told if text and place is None else ""
        return True

    def _take_frame(self, entry: Frame) -> None:
        self.part = "code"
        frames = self._draft.frames
        if self._copies > 1 and frames and (frames[-1].file, frames[-1].line) == (entry.file, entry.line):
            return
        if len(frames) >= _MOST_FRAMES:  # a recursion: the outermost and the innermost tell all
            del frames[_MOST_FRAMES // 2]
        frames.append(entry)

    def _lacks_code(self, text: str) -> bool:
        """Whether the line is the code of the last frame in a traceback that lost its blanks (a page that was not told
        that it is code)."""
        match = forms.EXCEPTION.match(text)
        ends = text.strip() == forms.HEADER or (match is not None and forms.USUAL.search(match["type"]) is not None)
        return not ends and bool(self._draft.frames) and not self._draft.frames[-1].code

    def _ends_flat(self, text: str) -> bool:
        """Whether the line is the exception of a traceback whose frames lost their indent and whose code kept it."""
        last = self._draft.frames[-1] if self._flat and self._draft.frames else None
        match = forms.EXCEPTION.match(text.strip()) if last is not None and last.code else None
        return match is not None and match["type"].endswith(("Error", "Exception"))

    def _take_code(self, code: str) -> None:
        self.part = "code"
        frames = self._draft.frames
        if frames and not frames[-1].code and not code.startswith("[Previous line repeated"):
            last = frames[-1]
            frames[-1] = Frame(last.file, last.line, last.function, code[:500])

    def _take_type(self, match: re.Match[str]) -> None:
        self.part = "message"
        message = match["message"] or ""
        self._draft.type, self._draft.line = match["type"], self._number
        # Without a colon there is no message: what stands below is somebody else's.
        self._phase, self._blank, self._stray = "message", 0 if match["rest"] else 1, 0
        carried = _CARRIED.match(message)
        if carried is not None:
            self._draft.message += [carried["said"]] if carried["said"] else []
            self._outer.append(self._draft)
            self._draft = Draft()
            self._phase, self._margin = "frames", None
            self._remote_header(carried["remote"])
        elif message.endswith(forms.HEADER):  # compiled code tells of the Python that it called back
            self._draft.message.append(message.removesuffix(forms.HEADER).rstrip())
            self._carry("Original Traceback")
        elif message:
            self._draft.message.append(message)

    def _remote_header(self, text: str) -> None:
        """``ray::Actor.method() (pid=1, ip=1.2.3.4, ...)``: what follows happened there."""
        self.part = "header"
        self._draft.header = text[:500]
        about, actor = _REMOTE_ABOUT.search(text), _REMOTE_ACTOR.match(text)
        if about is not None:
            name = actor["actor"] if actor is not None else None
            self._draft.remote = Origin(None, name, about["pid"], about["ip"])

    def _other_exception(self) -> bool:
        """Whether the last line of the message is an exception of its own, printed bare, which the separator speaks
        of."""
        said = self._draft.message
        match = forms.EXCEPTION.match(said[-1]) if len(said) > 1 else None
        return match is not None and forms.USUAL.search(match["type"]) is not None

    def _within(self, text: str) -> bool:
        """A traceback inside a message: what a DataLoader's or a pool's worker sent along."""
        if self._draft.type.endswith("RemoteTraceback"):
            self._draft = Draft(header=self._draft.type, cause=self._draft.cause)
            self._phase, self._margin, self.part = "frames", None, "header"
        elif text.startswith("Original Traceback"):
            self._carry(text)
        else:
            return False
        return True

    def _carry(self, header: str) -> None:
        """The traceback that follows is of an exception which this one's message carries."""
        self._outer.append(self._draft)
        self._draft = Draft(header=header)
        self._phase, self._margin, self.part = "frames", None, "header"

    def _folded(self, draft: Draft) -> Draft:
        """The outermost of the exceptions that carry ``draft``."""
        while self._outer:
            outer = self._outer.pop()
            outer.cause = draft
            draft = outer
        return draft

    def _to_cause(self) -> bool:
        """A separator was read: the exception so far is the cause of the one that follows."""
        self.part = "header"
        self._draft = Draft(cause=self._draft)
        self._phase, self._stray, self._blank = "between", 0, 0
        return True

    def _tolerate(self, limit: int = _STRAY_LINES) -> bool:
        """Foreign lines in between (another process without a prefix) are read over, a few of them."""
        self._stray += 1
        return self._stray <= limit

    def _same_again(self, text: str) -> bool:
        said = f"{self._draft.type}: {self._draft.message[0]}" if self._draft.message else self._draft.type
        return text == said or text.endswith(forms.HEADER)

    def _in_group(self, text: str, number: int) -> str:
        """Takes the gutter of an exception group off; its members are collected under the group."""
        head = self._group_head
        if forms.GROUP_MEMBER.match(text) and (self._draft.type or head is not None):
            if head is None:
                self._group_head = head = self._draft
            self._draft = Draft(line=number)
            head.group.append(self._draft)
            self._phase, self._margin = "between", None
            return ""
        if forms.GROUP_END.match(text):
            if head is not None:
                self._draft, self._group_head = head, None
            self._grouped, self._phase = False, "message"
            return ""
        while (gutter := forms.GUTTER.match(text)) is not None and gutter.end() > 0:
            text = text[gutter.end() :]
        return text
