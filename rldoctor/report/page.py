"""What a report is printed on: lines with their styles, on a console or as plain text."""

from __future__ import annotations

import io
import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

# A text and its style, in rich's words.
Part = tuple[str, str]
# A file or a job's log has no width, and is searched line by line.
ELSEWHERE = 4000
# With one of these, rich may draw for a terminal, or for its width, where standard output is none.
_TELLS_OF_ONE = ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")


class Page(Protocol):
    """Takes lines one after another."""

    @property
    def console(self) -> Console:
        """What pictures are drawn on."""

    def line(self, *parts: Part, indent: int = 0) -> None:
        """A line, or several with the same style, broken where it is too wide."""

    def verbatim(self, text: str) -> None:
        """Lines to be copied: a line break of ours inside one would come along."""


class Drawn:
    """A page on a console."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def line(self, *parts: Part, indent: int = 0) -> None:
        from rich.padding import Padding
        from rich.text import Text

        text = Text(parts[0][0], style=parts[0][1]) if len(parts) == 1 else Text.assemble(*parts)
        self.console.print(Padding(text, (0, 0, 0, indent), expand=False) if indent else text)

    def verbatim(self, text: str) -> None:
        from rich.text import Text

        for line in text.splitlines():
            self.console.print(Text(f"    {line}"), soft_wrap=True)


class Plain:
    """A page without colours or width, for which nothing of rich is imported: a fifteenth of a start-up."""

    def __init__(self) -> None:
        self._shown = io.StringIO()

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        return Console(file=self._shown, force_terminal=False, width=ELSEWHERE, highlight=False)

    def line(self, *parts: Part, indent: int = 0) -> None:
        lines = "".join(text for text, _ in parts).split("\n")
        # A letter takes two columns at most; of a line with nothing but its indent rich prints nothing.
        if all(line.isprintable() and 2 * len(line) < ELSEWHERE and (line or not indent) for line in lines):
            self._shown.writelines(f"{' ' * indent}{line}\n" for line in lines)
        else:
            Drawn(self.console).line(*parts, indent=indent)

    def verbatim(self, text: str) -> None:
        if text.isprintable():
            self._shown.write(f"    {text}\n" if text else "")
        else:
            Drawn(self.console).verbatim(text)

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(line.rstrip(" ") for line in self._shown.getvalue().split("\n"))


def is_plain() -> bool:
    """Whether what goes to standard output has no colours and no width."""
    try:
        return not (sys.stdout.isatty() or any(name in os.environ for name in _TELLS_OF_ONE))
    except ValueError:  # it is closed
        return False
