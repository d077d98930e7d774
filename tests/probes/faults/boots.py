"""Engines that do not come up."""

from __future__ import annotations

import os
import signal


def illegal_instruction() -> None:
    """As where a build uses instructions that the processor lacks."""
    os.kill(os.getpid(), signal.SIGILL)


illegal_instruction.before_boot = True  # type: ignore[attr-defined]
