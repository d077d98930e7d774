"""Logged completions: how many groups of one prompt there are, and in how many all completions are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rldoctor.frameworks.metrics import Taken
from rldoctor.logs.metrics.track import Reading

# A shorter completion may be a plain answer that a sure policy gives every time.
SHORTEST = 8
MOST_ROWS = 4096
MOST_CHARACTERS = 4096


@dataclass(frozen=True)
class Sample:
    """One completion. ``whole`` is false where the log shows only a part of it."""

    prompt: str
    completion: str
    whole: bool = True


def count(samples: Iterable[Sample], step: int | None) -> Reading | None:
    """``sampled_groups`` and ``sampled_groups_identical`` at a step; completions of one prompt that follow each other
    are a group. Groups of one, short completions and those that were cut off in the log are left out."""
    groups = identical = 0
    for _, members in groupby(samples, key=lambda sample: sample.prompt):
        group = list(members)
        texts = {sample.completion for sample in group}
        if len(group) < 2 or (len(texts) == 1 and not _telling(group[0])):
            continue
        groups += 1
        identical += len(texts) == 1
    if not groups:
        return None
    return Reading(
        {
            "sampled_groups": ("logged groups", float(groups)),
            "sampled_groups_identical": ("groups of equal completions", float(identical)),
        },
        step=step,
    )


def _telling(sample: Sample) -> bool:
    return sample.whole and len(sample.completion.strip()) >= SHORTEST


# TRL's table (print_prompt_completions_sample): a panel with the step as title around a table with one section per row.
# https://github.com/huggingface/trl/blob/main/trl/trainer/utils.py
TITLE = re.compile(r"╭─+ Step (\d+) ─+╮")


@dataclass
class RichTable:
    """Reads TRL's table of completions line by line."""

    step: int
    _columns: list[str] = field(default_factory=list)
    _cells: list[list[str]] = field(default_factory=list)
    _samples: list[Sample] = field(default_factory=list)

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

    def reading(self) -> Reading | None:
        return count(self._samples, self.step)

    def _end_row(self) -> None:
        lines, self._cells = self._cells, []
        if not lines or len(self._samples) >= MOST_ROWS or not {"Prompt", "Completion"} <= set(self._columns):
            return
        prompt, completion = self._columns.index("Prompt"), self._columns.index("Completion")
        text = [line[completion].strip() for line in lines]
        self._samples.append(
            Sample(
                prompt="\n".join(line[prompt].strip() for line in lines),
                completion="\n".join(text),
                whole=not any(line.endswith("…") for line in text),
            )
        )


def from_record(record: dict[str, Any]) -> tuple[list[Sample], int | None] | None:
    """The completions in one record of a JSON-lines file: ms-swift's table of columns, or one completion as verl's
    rollout dump has them. None where there are none.

    https://github.com/modelscope/ms-swift/blob/main/swift/rlhf_trainers/grpo_trainer.py
    https://github.com/verl-project/verl/blob/main/verl/trainer/ppo/ray_trainer.py"""
    step = record.get("step")
    if isinstance(step, list):
        step = step[0] if step else None
    number = int(step) if isinstance(step, int | str) and str(step).isdecimal() else None
    prompts, completions = record.get("prompt"), record.get("completion")
    if isinstance(prompts, list) and isinstance(completions, list):
        rows = list(zip(prompts, completions, strict=False))[:MOST_ROWS]
        return [Sample(_text(prompt), _text(completion)) for prompt, completion in rows], number
    if isinstance(record.get("input"), str) and isinstance(record.get("output"), str) and "score" in record:
        return [Sample(record["input"], record["output"])], number
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
