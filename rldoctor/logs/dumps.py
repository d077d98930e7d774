"""Crashes below Python: the interpreter's own dump, C++'s terminate, and torchelastic's failure summary."""

from __future__ import annotations

from rldoctor.expressions import expression
from rldoctor.logs.deaths import ELASTIC_FIELD, FATAL_PYTHON, TERMINATE, THROWN
from rldoctor.logs.liveness import is_progress
from rldoctor.logs.model import FailedFirst, Frame, LoggedException
from rldoctor.logs.prefixes import Line
from rldoctor.logs.quoting import closes_sample

_INSTANCE = expression(
    r"terminate called (?:after throwing an instance of '(?P<type>[^']{1,200})'|without an active exception)"
)
_WHAT = expression(r"\s*what\(\):\s*(?P<what>.*)")
_DUMP_FRAME = expression(r'\s*File "(?P<file>[^"]{1,1024})", line (?P<line>\d{1,9}) in (?P<function>.{1,300})')
_THREAD = expression(r"\s*(?P<current>Current thread|Thread) 0x[0-9a-f]+.{0,80}:$")
_EXIT = expression(r"(?P<code>-?\d{1,9})\s*(?:\(pid: (?P<pid>\d{1,9})\))?\s*(?:\((?P<signal>SIG\w+)\))?")
_RANK = expression(r"(?P<rank>\d{1,6})(?: \(local_rank: (?P<local>\d{1,6})\))?")
# CPython's Python/pylifecycle.c, Python/traceback.c and Modules/faulthandler.c.
_OF_DUMP = (
    "<no Python frame>",
    "...",
    "Python runtime state",
    "Extension modules: ",
    "Current thread's C stack trace",
    'Binary file "',
)
_MOST_LINES = 60


class DumpParser:
    """Reads what follows ``Fatal Python error`` or ``terminate called``, fed with the lines of one process.

    ``at_start`` tells whether the line begins so, behind its prefixes, ``confirmed`` whether the dump of the threads or
    what was thrown follows: text that mentions such an end has neither."""

    def __init__(self, line: Line, number: int, source: str) -> None:
        self.origin, self.source, self.time = line.origin, source, line.time
        self.first = self.last = number
        self.at_start = line.text.lstrip().startswith((FATAL_PYTHON, TERMINATE, THROWN))
        self.confirmed = False
        self._count = 0
        self._frames: list[Frame] = []
        self._thread = ""
        text = line.text.strip()
        if FATAL_PYTHON in text:
            self._kind = "python"
            self._type, self._message = "Fatal Python error", [text.split(FATAL_PYTHON, 1)[1]]
        else:
            self._kind = "terminate"
            match, what = _INSTANCE.search(text), _WHAT.match(text)
            self._type = (match["type"] if match is not None else None) or "std::terminate"
            self._message = [what["what"]] if what is not None else []
            self.confirmed = self.at_start and (what is not None or "without an active exception" in text)

    def feed(self, line: Line, number: int) -> bool:
        """Takes the process's next line; False where the dump is over."""
        self._count += 1
        text = line.text.rstrip()
        if self._count > _MOST_LINES or "Traceback (most recent" in text:
            return False
        took = self._in_python(text) if self._kind == "python" else self._in_terminate(line, text)
        if took:
            self.last = number
        return took

    def result(self) -> LoggedException:
        """The end as an exception; the dump lists its frames innermost first, here they are turned round."""
        return LoggedException(
            type=self._type,
            message="\n".join(self._message).strip(),
            frames=tuple(reversed(self._frames)),
            origin=self.origin,
            source=self.source,
            line=self.first,
            time=self.time,
        )

    def _in_python(self, text: str) -> bool:
        thread = _THREAD.match(text)
        if thread is not None:
            # Threads are listed in any order; the one that failed is "Current thread".
            self._thread = thread["current"]
            self.confirmed = True
            return True
        frame = _DUMP_FRAME.match(text)
        if frame is not None:
            if self._thread == "Current thread":
                self._frames.append(Frame(frame["file"], int(frame["line"]), frame["function"]))
            return True
        self.confirmed = self.confirmed or text.startswith("Python runtime state: ")
        return not text.strip() or text.lstrip().startswith(_OF_DUMP)

    def _in_terminate(self, line: Line, text: str) -> bool:
        what = _WHAT.match(text)
        if what is not None:
            self._message.append(what["what"])
            self.confirmed = True
            return True
        if not self._message:
            return self._count <= 3 and not is_progress(line)
        if not text.strip() or line.level or self._count > 12 or TERMINATE in text:
            return False
        if is_progress(line) or closes_sample(text):
            return False
        self._message.append(text)
        return True


class SummaryParser:
    """Reads torchelastic's block under ``Root Cause (first observed failure)``."""

    def __init__(self, number: int) -> None:
        self.first = number
        self.fields: dict[str, str] = {}
        self._count = 0

    def feed(self, line: Line) -> bool:
        """Takes the next line; False where the block is over."""
        self._count += 1
        match = ELASTIC_FIELD.match(line.text)
        if match is not None:
            self.fields[match["field"]] = match["value"].strip()
        return self._count < 12 and "======" not in line.text

    def result(self, source: str) -> FailedFirst:
        """What the block tells of the first failure that torchelastic saw."""
        rank = _RANK.match(self.fields.get("rank", ""))
        end = _EXIT.match(self.fields.get("exitcode", ""))
        file = self.fields.get("error_file", "")
        return FailedFirst(
            rank=rank["rank"] if rank is not None else None,
            local_rank=rank["local"] if rank is not None else None,
            host=self.fields.get("host"),
            pid=end["pid"] if end is not None else None,
            code=int(end["code"]) if end is not None else None,
            error_file=file if file.startswith("/") else None,
            source=source,
            line=self.first,
        )
