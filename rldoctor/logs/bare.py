"""Exceptions of which the log holds their own line alone: printed without a traceback, in a box that is none, or cut
off by whoever took the end of a log; and frames alone, of which both ends are cut off. They count only at the end of a
log that shows no exception otherwise."""

from __future__ import annotations

import re
from dataclasses import replace

from rldoctor.logs.forms import EXCEPTION, names_cell, names_function
from rldoctor.logs.model import Origin
from rldoctor.logs.prefixes import Line
from rldoctor.logs.quoting import Samples, is_changelog, is_quoted
from rldoctor.logs.record import FileRecord, RawException
from rldoctor.logs.tracebacks import TracebackParser

# Lines of the end that are looked at.
_LINES = 60
# Narrower than what a traceback may end in, and never ``Error`` alone: nothing else says that an exception is due.
_NAMED = re.compile(
    r"(?<=\w)(?:Error|Exception|Timeout|NotMet)(?:\(\w+\))?$|"
    r"^(?:\w+\.)*(?:exc|exceptions?|errors?|lib)\.(?:\w+\.)*[A-Z]\w+$"
)
# As a log's very last words, the plainest one is due as well.
_NAMED_LAST = re.compile(rf"{_NAMED.pattern}|^Exception$")
# So many frames are what is left of a traceback whose beginning and end are cut away, where only a few lines follow, of
# which none shows that work goes on.
_FRAMES = 3
_BEHIND = 20
# An exception within a sentence: behind a blank or a mark, with words of its own. A text of a person has few lines, and
# one that explains what an exception means tells of none; Java's are those of who runs the job.
_TOLD = re.compile(
    r"(?:^|[\s`(|:,\uff1a\uff0c])(?!(?:java|javax|hudson|jenkins|org|com)\.)"
    r"(?![^`\n]{0,300}` (?:means|comes|(?:is|are) \w+ (?:by|if|where)\b))"
    r"(?P<said>(?P<type>(?:\w+\.)*[A-Z]\w*(?:Error|Exception)): (?=\S)[^\n]{6,2000})"
)
# The interpreter's own words are known without their type, as a line of their own or behind a colon; what was mended is
# told so, too.
_INTERPRETERS = tuple(
    (re.compile(rf"(?:^|(?<!ix)(?<!ixed)(?<!ixes)(?<!olved)[:\uff1a])[\s`*>]*(?P<said>{words})[`*\s]*$"), type_)
    for type_, words in (
        (
            "ImportError",
            r"cannot import name '\w+' from (?:partially initialized module )?'[\w.]+'(?: \([^)\n]{1,200}\))?",
        ),
        ("ModuleNotFoundError", r"No module named '[\w.]+'"),
        ("ImportError", r"(?:/[^\s:]{1,300}\.so[\d.]*: )?undefined symbol: _Z\w{4,400}"),
        (
            "TypeError",
            r"[\w.]{1,100}\(\) (?:takes (?:from \d+ to )?\d+ positional arguments? but \d+ (?:was|were) given"
            r"|missing \d+ required (?:positional|keyword-only) arguments?: '\w[^\n]{0,200}'"
            r"|got (?:an unexpected keyword argument|multiple values for argument) '\w+')",
        ),
        ("AttributeError", r"(?:type object |module )?'[\w.]+' (?:object )?has no attribute '\w+'"),
        ("NameError", r"name '\w+' is not defined"),
    )
)
_SENTENCES = 40
# Of a traceback's end that was cut off here, the assertion is what tells of it.
_ASSERTS = re.compile(r"\s*assert\b(?! ?=)[^\n]{3,400}$")
_CARETS = re.compile(r"\s*[~^]+\s*$")
# Ray's own exception names the one that it carries, also where nothing of that is left.
_CARRIER = re.compile(r"RayTaskError\(\w+\)$")
_QUIET = ("DEBUG", "INFO", "WARNING")


def add_endings(record: FileRecord) -> None:
    """Adds to the record the exceptions that its last lines name, and makes the hits in them theirs."""
    if any(not raw.quoted for raw in record.exceptions) or any(not death.behind for death in record.deaths):
        return
    lines, samples = record.tail[-_LINES:], Samples()
    open_: dict[Origin, TracebackParser] = {}
    asserted: dict[Origin, str] = {}
    last = max((number for number, line in lines if line.text.strip()), default=0)
    for number, line in lines:
        samples.follow(line)
        if _CARETS.match(line.text):
            continue
        code = asserted.pop(line.origin, "")
        if _ASSERTS.match(line.text):
            asserted[line.origin] = line.text.strip()
        parser = open_.get(line.origin)
        if parser is not None and parser.feed(line, number):
            continue
        if parser is not None:
            _store(record, open_.pop(line.origin), lines)
        named = _NAMED_LAST if number == last else _NAMED
        if code and line.text.strip() == "AssertionError":
            line = replace(line, text=f"AssertionError: {code}")
        if samples.shower is None and _names_one(line, named):
            parser = open_[line.origin] = TracebackParser(line.origin, record.name)
            parser.begin_bare(line, number, named)
        elif samples.shower is None and names_cell(line.text):
            parser = open_[line.origin] = TracebackParser(line.origin, record.name)
            parser.begin_torn(line, number)
    for parser in open_.values():
        _store(record, parser, lines)
    if not record.exceptions:
        _add_torn(record, lines)
    if not record.exceptions and not record.deaths:
        _add_told(record, lines)
    if record.exceptions:
        record.deaths.clear()  # they follow an exception, and here it is


def _add_torn(record: FileRecord, lines: list[tuple[int, Line]]) -> None:
    """Adds the frames near the log's end, where it shows neither the traceback's beginning nor its exception."""
    samples, closed = Samples(), list[TracebackParser]()
    open_: dict[Origin, TracebackParser] = {}
    for number, line in lines:
        samples.follow(line)
        parser = open_.get(line.origin)
        if parser is not None and not parser.feed(line, number):
            closed.append(open_.pop(line.origin))
            parser = None
        if parser is None and samples.shower is None and line.level not in _QUIET and names_function(line.text):
            parser = open_[line.origin] = TracebackParser(line.origin, record.name)
            parser.torn_frames = _FRAMES
            parser.begin_torn(line, number)
    for parser in (*closed, *open_.values()):
        behind = sum(1 for number, line in lines if number > parser.last and line.text.strip())
        if behind <= _BEHIND and max(record.last_sign, record.last_word, record.done) <= parser.last:
            _store(record, parser, lines)


def _add_told(record: FileRecord, lines: list[tuple[int, Line]]) -> None:
    """Adds the exception that a person names within a sentence or a title, in a short text that holds no record of any
    program."""
    written = [(number, line) for number, line in lines if line.text.strip()]
    if len(written) > _SENTENCES or any(line.level or line.tag or line.origin.pid for _, line in written):
        return
    if is_changelog([line for _, line in written]):
        return
    for number, line in written:
        match, type_ = _TOLD.search(line.text), ""
        if match is None or _NAMED.search(match["type"]) is None:
            known = ((words.search(line.text), type_) for words, type_ in _INTERPRETERS)
            match, type_ = next((one for one in known if one[0] is not None), (None, ""))
        if match is not None and not is_quoted(line.text, match.start("said")):
            parser = TracebackParser(line.origin, record.name)
            said = (f"{type_}: " if type_ else "") + match["said"].rstrip("` ")
            if parser.begin_bare(replace(line, text=said), number, _NAMED):
                _store(record, parser, lines)
                return


def _names_one(line: Line, named: re.Pattern[str]) -> bool:
    text = line.text.strip()
    match = EXCEPTION.match(text)
    found = match is not None and (match["message"] or _CARRIER.search(match["type"])) and named.search(match["type"])
    return bool(found) and line.level not in _QUIET and not is_quoted(text, 0)


def _store(record: FileRecord, parser: TracebackParser, lines: list[tuple[int, Line]]) -> None:
    exception = parser.result()
    if exception is None:
        return
    raw = RawException(exception, parser.first, parser.last, parser.ranked, parser.level)
    raw.token = min(record.tokens, default=0) - 1
    for number, line in lines:
        if line.origin == parser.origin and number > parser.last:
            raw.aftermath.add(line, number)
    record.exceptions.append(raw)
    record.tokens[raw.token] = raw
    for hits in record.hits.values():
        for event in hits.kept:
            known = event.token in record.tokens
            if not known and event.origin == parser.origin and parser.first <= event.number <= parser.last:
                event.token, event.part = raw.token, "message"
