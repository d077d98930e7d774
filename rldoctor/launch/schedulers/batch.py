"""Batch scripts: the lines in which they tell their scheduler what they ask for, and whether they reach other nodes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rldoctor.formats.source import Source
from rldoctor.plan.model import Setting
from rldoctor.plan.model import Source as From

# What starts something on the other nodes of an allocation: where none of these is named, the script's commands run on
# the first node alone.
_ELSEWHERE = re.compile(
    r"(?m)^[^#\n]*\b(?:srun|mpirun|mpiexec|orterun|prun|aprun|jsrun|blaunch|pbsdsh|ssh|pdsh|clush|parallel"
    r"|ray symmetric-run)\b"
)


def directives(source: Source, mark: str) -> Iterator[tuple[int, list[str]]]:
    """The words behind ``#SBATCH`` and its like, with their line; schedulers stop reading them at the first command."""
    for number, row in enumerate(source.text.splitlines(), source.first_line):
        if row.startswith(mark):
            yield number, _split(row[len(mark) :].strip())
        elif row.strip() and not row.lstrip().startswith("#"):
            return


def of_scheduler(name: str, source: Source, line: int) -> dict[str, Setting]:
    """Who schedules the script, and whether its commands stay on the first node."""
    found = {"scheduler.name": Setting(value=name, file=source.file, line=line)}
    if not _ELSEWHERE.search(source.text):
        found["scheduler.first_node"] = Setting(
            value=True,
            source=From.DERIVED,
            how="nothing in the batch script starts a command on other nodes",
            file=source.file,
            line=line,
        )
    return found


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # an apostrophe in a comment
        return text.split(" #")[0].split()
