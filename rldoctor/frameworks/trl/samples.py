"""TRL's table of completions: a panel with the step as title around a table with one section per row.

Source: https://github.com/huggingface/trl/blob/main/trl/trainer/utils.py, print_prompt_completions_sample."""

from __future__ import annotations

import re

from rldoctor.frameworks.metrics import Taken
from rldoctor.frameworks.samples import MOST_CHARACTERS, MOST_ROWS, Sample, Table


class CompletionsTable(Table):
    """As rich draws it."""

    OPENING = re.compile(r"╭─+ Step (\d+) ─+╮")

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self._columns: list[str] = []
        self._cells: list[list[str]] = []

    def feed(self, text: str) -> Taken:
        text = text.strip()
        if text.startswith("╰"):
            return Taken.LAST
        if not text.startswith("│"):
            return Taken.NO  # another process wrote in between
        if "┃" in text:
            self._columns = [cell.strip() for cell in text.split("┃")[1:-1]]
        elif "├" in text or "└" in text:
            self._end_row()
        else:
            cells = text.split("│")[2:-2]
            if (
                cells
                and len(cells) == len(self._columns)
                and sum(len(line[0]) for line in self._cells) < MOST_CHARACTERS
            ):
                self._cells.append(cells)
        return Taken.YES

    def _end_row(self) -> None:
        lines, self._cells = self._cells, []
        if not lines or len(self.samples) >= MOST_ROWS or not {"Prompt", "Completion"} <= set(self._columns):
            return
        prompt, completion = self._columns.index("Prompt"), self._columns.index("Completion")
        text = [line[completion].strip() for line in lines]
        self.samples.append(
            Sample(
                prompt="\n".join(line[prompt].strip() for line in lines),
                completion="\n".join(text),
                whole=not any(line.endswith("…") for line in text),
            )
        )
