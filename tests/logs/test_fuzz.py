"""Whatever bytes and lines come, readers and parsers give an answer and never an unforeseen exception."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rldoctor.errors import InputError
from rldoctor.logs import encodings
from rldoctor.logs.dumps import DumpParser, SummaryParser
from rldoctor.logs.model import Origin
from rldoctor.logs.paths import origin_of
from rldoctor.logs.prefixes import parse, unwrapped
from rldoctor.logs.quoting import closes_sample, is_quoted, opens_sample
from rldoctor.logs.reading import read
from rldoctor.logs.runs import slices
from rldoctor.logs.sources import TextSource
from rldoctor.logs.table import Table
from rldoctor.logs.times import seconds
from rldoctor.logs.tracebacks import TracebackParser
from tests.fuzz.fragments import LOG

lines = st.lists(st.sampled_from(LOG) | st.text(max_size=20), max_size=5).map("".join)
logs = st.lists(lines, max_size=40).map("\n".join)
bounded = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TABLE = Table([])


@bounded
@given(lines)
def test_any_line(text: str) -> None:
    parsed = parse(text)
    assert len(parsed.text) <= len(text)
    assert isinstance(unwrapped(text), str)
    assert isinstance(is_quoted(text, len(text) // 2), bool)
    assert {opens_sample(text), closes_sample(text)} <= {True, False}
    seconds(text)
    origin_of(text)


@bounded
@given(logs)
def test_any_sequence_of_lines_for_every_parser(text: str) -> None:
    parsed = [parse(line) for line in text.split("\n")]
    for start in (0, len(parsed) // 2):
        parser = TracebackParser(Origin(), "log")
        parser.begin(parsed[start], start)
        taken = 0
        for number, line in enumerate(parsed[start + 1 :], start + 1):
            if not parser.feed(line, number):
                break
            taken += 1
        found = parser.result()
        assert found is None or len(found.chain) <= taken + 1
        dump, summary = DumpParser(parsed[start], start, "log"), SummaryParser(start)
        for number, line in enumerate(parsed[start + 1 :], start + 1):
            if not (dump.feed(line, number) and summary.feed(line)):
                break
        assert dump.result().source == "log"
        rank = summary.result("log").rank
        assert rank is None or rank.isdigit()


@bounded
@given(logs)
def test_any_log(text: str) -> None:
    try:
        record = read(TextSource("log", text.encode("utf-8", "surrogatepass")), TABLE)
    except InputError:
        return
    pieces = slices(record)
    assert pieces[0].first == 1
    assert pieces[-1].last >= record.lines
    assert all(later.first == earlier.last + 1 for earlier, later in pairwise(pieces))
    assert all(1 <= raw.number <= record.lines for raw in record.exceptions)


@bounded
@given(st.binary(max_size=400) | st.lists(st.sampled_from([b"\x1f\x8b", b"BZh", b"PK", b"\x00", b"a\n"])).map(b"".join))
def test_any_bytes(data: bytes) -> None:
    encodings.text_of(data)
    try:
        read(TextSource("log", data), TABLE)
    except InputError as error:
        assert "\n" not in str(error)
