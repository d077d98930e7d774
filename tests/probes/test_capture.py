"""What is kept of a child's output and results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldoctor.probes import capture
from rldoctor.probes.capture import Log, Results


def line(**reported: object) -> bytes:
    return json.dumps(reported).encode() + b"\n"


def test_results_arrive_in_pieces_and_the_last_of_a_name_counts() -> None:
    results = Results()
    data = line(name="a", value=1) + line(name="a", value=2) + line(end="done")
    for byte in data:
        results.add(bytes([byte]))
    assert (results.records, results.end, results.garbage) == ({"a": 2}, {"end": "done"}, [])


@pytest.mark.parametrize(
    "garbage", [b"hello", b"3", b'{"name": 1, "value": 2}', b'{"name": "x"}', b'{"end": null}', b"\xff"]
)
def test_a_line_that_is_no_record_is_kept_as_garbage(garbage: bytes) -> None:
    results = Results()
    results.add(garbage + b"\n" + line(name="a", value=1))
    assert results.records == {"a": 1}
    assert len(results.garbage) == 1


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_LINE", 1000)
    results = Results()
    for _ in range(10):
        results.add(b"x" * 999)
    assert len(results._buffer) <= 2000
    assert results.garbage == ["a line of more than 1000 bytes"]


def test_results_beyond_all_measure_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_RESULTS", 1000)
    results = Results()
    for number in range(100):
        results.add(line(name=f"record {number}", value="x" * 100))
    assert 0 < len(results.records) < 10
    assert results.garbage == ["more than 1000 bytes of results"]


def test_the_tail_reads_like_a_terminal(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.txt")
    log.add(b"\x1b[1;31mred\x1b[0m\r\n")
    log.add(b"loading  10%\rloading  90%\rloading 100%\n\n")
    log.add("ends in the middle of ä".encode()[:-1])
    assert log.tail() == ("red", "loading 100%", "ends in the middle of �")
    log.close()


def test_a_log_keeps_its_beginning_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LOG_HEAD", 10)
    monkeypatch.setattr(capture, "LOG_END", 10)
    log = Log(tmp_path / "log.txt")
    for number in range(100):
        log.add(f"{number:04}\n".encode())
    log.close()
    text = (tmp_path / "log.txt").read_text()
    assert text == "0000\n0001\n\n[rldoctor left out 480 bytes here]\n0098\n0099\n"
