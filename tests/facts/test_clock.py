"""What the kernel knows of its own clock."""

from __future__ import annotations

import ctypes

from rldoctor.facts import clock

# sys/timex.h: what ntp_gettime(3) returns of a clock that nothing keeps.
TIME_ERROR = 5


def test_the_kernel_says_whether_its_clock_is_kept() -> None:
    state = ctypes.CDLL(None).ntp_gettimex(ctypes.create_string_buffer(256))
    assert clock.synchronised() is (state != TIME_ERROR)
