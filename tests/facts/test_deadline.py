"""A call that may never return does not hold the doctor up."""

from __future__ import annotations

import threading
import time

import pytest

from rldoctor.facts.deadline import within


def test_a_call_that_answers_is_passed_through() -> None:
    assert within(5, lambda: 3) == 3
    assert within(5, lambda: None) is None


def test_what_it_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)


def test_a_call_that_hangs_is_left_behind() -> None:
    never = threading.Event()
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        within(0.05, never.wait)
    assert time.monotonic() - started < 2
    never.set()
