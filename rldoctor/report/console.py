"""Draws on a console that writes to a text, as wide as the terminal that will show it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable

from rich.console import Console

from rldoctor.report.page import ELSEWHERE

# A terminal that says it has no columns, or hardly any, would get no text, or one letter a line.
NARROWEST = 40


def drawn(draw: Callable[[Console], None], terminal: bool | None = None) -> str:
    """What ``draw`` prints, with colours on a ``terminal`` (None: where standard output is one)."""
    here = Console()
    shown = io.StringIO()
    terminal = here.is_terminal if terminal is None else terminal
    width = max(here.width, NARROWEST) if here.is_terminal or "COLUMNS" in os.environ else ELSEWHERE
    draw(Console(file=shown, force_terminal=terminal, width=width, highlight=False))
    return "\n".join(line.rstrip(" ") for line in shown.getvalue().split("\n"))
