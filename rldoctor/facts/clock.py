"""What the kernel knows of its own clock: whether anything keeps it right.

``adjtimex(2)``: https://man7.org/linux/man-pages/man2/adjtimex.2.html"""

from __future__ import annotations

import ctypes

# include/uapi/linux/timex.h: the state in which nothing keeps the clock, and the bit that says so.
_ERROR, _UNSYNCHRONISED = 5, 0x0040


class _Timex(ctypes.Structure):
    """``struct timex`` up to its status; the rest is room for what the kernel writes behind it."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def synchronised() -> bool | None:
    """Whether a daemon (chrony, ntpd, systemd-timesyncd) or the hypervisor keeps the clock; None where the kernel does
    not tell."""
    try:
        asked = _Timex()
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(asked))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _ERROR and not asked.status & _UNSYNCHRONISED
