"""Both ways to find literals say the same."""

from __future__ import annotations

import importlib.util
import random

import pytest

from rldoctor.logs import literals
from rldoctor.logs.literals import Find, finder

LITERALS = [
    "CUDA out of memory",
    "out of memory",
    "assert len(self._async_stopped) == 0",
    "größer als",
    "a.b*c[d]",
    "Killed",
]
TEXT = (
    b"x\nERROR CUDA out of memory.\n[rank3]:  assert len(self._async_stopped) == 0\n"
    b"ist gr\xc3\xb6\xc3\x9fer als a.b*c[d] Killed"
)


def ways() -> list[object]:
    encoded = [literal.encode() for literal in LITERALS]
    hyperscan = pytest.param(literals._hyperscan, id="hyperscan")
    if importlib.util.find_spec("hyperscan") is None:
        hyperscan = pytest.param(None, id="hyperscan", marks=pytest.mark.skip(reason="hyperscan is not installed"))
    assert encoded
    return [pytest.param(literals._by_words, id="words"), hyperscan]


def found(find: Find, data: bytes) -> set[tuple[str, int]]:
    return {(LITERALS[index], end) for end, index in find(data)}


@pytest.mark.parametrize("way", ways())
def test_every_occurrence_is_found_as_it_stands(way: object) -> None:
    find = way([literal.encode() for literal in LITERALS])  # type: ignore[operator]
    expected = {
        (literal, at + len(literal.encode()))
        for literal in LITERALS
        for at in range(len(TEXT))
        if TEXT.startswith(literal.encode(), at)
    }
    assert found(find, TEXT) == expected
    assert find(b"") == []


@pytest.mark.parametrize("way", ways())
def test_random_text_around_the_literals(way: object) -> None:
    rnd = random.Random(5)
    find = way([literal.encode() for literal in LITERALS])  # type: ignore[operator]
    pieces = [*LITERALS, "out of", "CUDA", " ", "\n", "Kille", "==", "self"]
    for _ in range(300):
        data = "".join(rnd.choice(pieces) for _ in range(12)).encode()
        expected = {
            (x, i + len(x.encode())) for x in LITERALS for i in range(len(data)) if data.startswith(x.encode(), i)
        }
        assert found(find, data) == expected


def test_hits_come_in_order() -> None:
    ends = [end for end, _ in finder(LITERALS)(TEXT * 3)]
    assert ends == sorted(ends)


def test_nothing_to_look_for() -> None:
    assert finder([])(TEXT) == []
