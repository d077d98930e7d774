"""Logs that a console exported as one JSON array, of any size."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rldoctor.logs import arrays
from rldoctor.logs.arrays import unrolled

from .excerpts import REWARD_RAISES


def records(count: int, text: str = "line") -> list[dict[str, str]]:
    return [
        {"textPayload": f"{text} {n}", "timestamp": f"2026-03-02T10:{n // 60:02d}:{n % 60:02d}Z"} for n in range(count)
    ]


def read_back(text: str, piece: int = 1000) -> list[str]:
    data = text.encode()
    pieces: Iterator[bytes] = iter([data[at : at + piece] for at in range(piece, len(data), piece)])
    first, more = unrolled(data[:piece], lambda: next(pieces, b""))
    whole = [first]
    while part := more():
        whole.append(part)
    return b"".join(whole).decode().splitlines()


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("held", [1 << 20, 2000])
def test_every_record_gets_a_line(indent: int | None, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_SORTED", held)
    entries = records(300)
    assert [json.loads(line) for line in read_back(json.dumps(entries, indent=indent))] == entries


def test_what_stands_newest_first_is_turned_round() -> None:
    entries = records(40)
    assert [json.loads(line) for line in read_back(json.dumps(entries[::-1]))] == entries


def test_an_array_that_was_cut_off_gives_what_is_whole() -> None:
    text = json.dumps(records(30))
    lines = read_back(text[: len(text) // 2])
    assert json.loads(lines[0]) == records(1)[0]
    assert 10 < len([line for line in lines if line.endswith('Z"}')]) < 20


@pytest.mark.parametrize("text", ['[{"step": 1, "loss": 0.5}]\n', "[{'a': 1}] is printed\n", REWARD_RAISES, "[\n"])
def test_what_is_no_array_of_records_stays_as_it_is(text: str) -> None:
    assert "\n".join(read_back(text)) + "\n" == text


def test_an_array_of_the_last_lines_of_a_traceback() -> None:
    lines = ["so it ends", *REWARD_RAISES.splitlines()[1:]]
    assert read_back(json.dumps(lines)) == lines


def test_an_array_of_prompts_of_several_lines_is_no_log() -> None:
    text = json.dumps(["Mend this:\n" + REWARD_RAISES, "What is 2 + 2?", "And 3 + 3?", "And 4 + 4?"])
    assert read_back(text) == [text]
