"""Slurm: the nodes, devices and tasks that ``#SBATCH`` lines, ``sbatch`` and ``srun`` ask for, in canonical names.

https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rldoctor.formats.shell.reader import Word
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved
from rldoctor.launch.schedulers import batch
from rldoctor.plan.model import Setting
from rldoctor.records import dataclass

# What parts the components of a heterogeneous job, and chooses one of them; before 20.02 they were packs.
_NEXT = ("hetjob", "packjob")
_GROUP = ("het-group", "pack-group")

# What an option asks for, by its long name without dashes.
_ASKS = {
    "nodes": "nodes",
    "ntasks": "tasks",
    "ntasks-per-node": "tasks_per_node",
    "gres": "gpus_per_node",
    "gpus-per-node": "gpus_per_node",
    "gpus": "gpus",
    "gpus-per-task": "gpus_per_task",
}
_SHORT = {"N": "nodes", "n": "ntasks", "G": "gpus", "c": "cpus-per-task", "w": "nodelist"}
# Options that are complete without a value; every other takes the next word where none is attached.
_FLAGS = frozenset(
    {
        "--contiguous", "--disable-status", "--exact", "--exclusive", "--external", "--help", "--hold", "--immediate",
        "--interactive", "--kill-on-bad-exit", "--label", "--multi-prog", "--no-allocate", "--no-kill", "--no-requeue",
        "--requeue", "--overcommit", "--overlap", "--oversubscribe", "--parsable", "--preserve-env", "--pty", "--quiet",
        "--quit-on-interrupt", "--reboot", "--send-libs", "--spread-job", "--test-only", "--unbuffered", "--usage",
        "--use-min-nodes", "--verbose", "--version", "--wait-all-nodes", "--compress", "--nice", "--propagate",
        "-E", "-H", "-I", "-K", "-O", "-Q", "-V", "-X", "-Z", "-h", "-k", "-l", "-s", "-u", "-v", "-vv", "-vvv",
    }
)  # fmt: skip
# In sbatch a lone --wait or -W is a flag; srun's takes seconds.
_FLAGS_OF = {"sbatch": _FLAGS | {"--wait", "-W"}, "srun": _FLAGS}

# Output environment variables of sbatch.
_VARIABLES = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
    "gres": ("SLURM_GPUS_ON_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
}


@dataclass(frozen=True)
class _Asked:
    """One option of Slurm as it is written: its long name without dashes, its value, the option with dashes."""

    name: str
    value: str
    spelled: str
    line: int
    raw: str


def directives(source: Source) -> dict[str, Setting]:
    """What a batch script asks for; a range or a variable is left out. Of a heterogeneous job it is the first
    component, on which the script runs."""
    asked = _components(source)[0]
    found = _settings(asked, source.file, "scheduler", "#SBATCH ")
    if asked:
        found.update(batch.of_scheduler("slurm", source, asked[0].line))
    return found


def other_components(source: Source) -> tuple[dict[str, Setting], ...]:
    """What a heterogeneous job asks for besides, component by component."""
    return tuple(_settings(asked, source.file, "scheduler", "#SBATCH ") for asked in _components(source)[1:])


def variables(source: Source) -> dict[str, str]:
    """The variables that Slurm sets for a script with these directives, as far as they name numbers."""
    found: dict[str, str] = {}
    for asked in _components(source)[0]:
        count = _devices(asked.value) if asked.name in ("gres", "gpus-per-node") else _whole(asked.value)
        if count is not None:
            found.update(dict.fromkeys(_VARIABLES.get(asked.name, ()), str(count)))
    return found


def own_words(words: Sequence[Word], program: str) -> tuple[list[Word], list[Word]]:
    """Splits the words behind ``srun`` or ``sbatch``: its own, and the command that it starts."""
    index = 0
    while index < len(words):
        text = words[index].text
        if text == "--":
            return list(words[:index]), list(words[index + 1 :])
        if not text.startswith("-"):
            break
        attached = "=" in text or (not text.startswith("--") and len(text) > 2)
        index += 1 if attached or text in _FLAGS_OF[program] else 2
    return list(words[:index]), list(words[index:])


def job(words: Sequence[Word], file: str) -> dict[str, Setting]:
    """What ``sbatch`` is told on its command line, which comes before the script's own lines."""
    return _settings(_options(_texts(words), "sbatch"), file, "scheduler", "sbatch ")


def step(words: Sequence[Word], file: str) -> dict[str, Setting]:
    """What ``srun`` is told of the step that it starts."""
    asked = list(_options(_texts(words), "srun"))
    found = _settings(asked, file, "scheduler.step", "srun ")
    line = words[0].line if words else None
    group = next((one for one in asked if one.name in _GROUP), None)
    if group is not None:
        place = Setting(file=file or None, line=group.line, key=f"srun {group.spelled}", raw=group.raw)
        value = _whole(group.value)
        unknown = f"{group.value} is no single component" if value is None else None
        found["scheduler.component"] = replace(place, value=value, unknown=unknown)
    reach = "part" if chosen(words) else "whole"
    found["scheduler.step"] = Setting(value=reach, file=file or None, line=line, key="srun")
    return found


def chosen(words: Sequence[Word]) -> tuple[str | None, ...]:
    """The nodes that ``srun`` is told to start a step on: None for those that a variable names, empty where it may take
    any."""
    named = (one for one in _options(_texts(words), "srun") if one.name in ("nodelist", "relative"))
    return tuple(None if "$" in one.value else f"{one.name} {one.value}" for one in named)


def _settings(asked: Sequence[_Asked] | Iterator[_Asked], file: str, group: str, before: str) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for one in asked:
        name = _ASKS.get(one.name)
        if name is None or (one.name == "gres" and "gpu" not in one.value):
            continue
        option = f"{group}.{name}" if group == "scheduler" else f"{group}_{name}"
        value = _devices(one.value) if name.startswith("gpus") else _whole(one.value)
        place = Setting(file=file or None, line=one.line, key=f"{before}{one.spelled}", raw=one.raw)
        if value is None:
            found[option] = replace(place, unknown=f"{one.value} is no single number")
        else:
            found[option] = replace(place, value=value)
    return found


def _components(source: Source) -> list[list[_Asked]]:
    """The options of all ``#SBATCH`` lines: one list, or one for each component of a heterogeneous job."""
    found: list[list[_Asked]] = [[]]
    for number, words in batch.directives(source, "#SBATCH"):
        if words and words[0] in _NEXT:
            found.append([])
            words = words[1:]
        found[-1] += _options([(text, number) for text in words], "sbatch")
    return found


def _texts(words: Sequence[Word]) -> list[tuple[str, int]]:
    """The words as they stand; a variable keeps its name."""
    return [(word.raw if isinstance(word.value, Unresolved) else word.text, word.line) for word in words]


def _options(words: Sequence[tuple[str, int]], program: str) -> Iterator[_Asked]:
    index = 0
    while index < len(words):
        text, line = words[index]
        index += 1
        name, attached, value = text.partition("=")
        if not name.startswith("--") and len(text) > 2:
            name, attached, value = text[:2], "=", text[2:].removeprefix("=")
        if not attached and name not in _FLAGS_OF[program] and index < len(words):
            value = words[index][0]
            index += 1
        if name.startswith("-"):
            raw = text if attached else f"{text} {value}".strip()
            yield _Asked(_long(name), value, name, line, raw)


def _long(option: str) -> str:
    return option[2:] if option.startswith("--") else _SHORT.get(option[1:], option[1:])


def _whole(text: str) -> int | None:
    """A number of nodes or tasks; None for a range (``2-4``), a list or a variable."""
    return int(text) if re.fullmatch(r"\d{1,6}", text) else None


def _devices(text: str) -> int | None:
    """The GPUs of ``8``, ``h100:8``, ``gpu``, ``gpu:8``, ``gpu:h100:8`` or ``gpu:a100:4,gpu:v100:4,nvme:1``; None where
    a part is unclear."""
    total = 0
    for part in text.split(","):
        name, *rest = re.sub(r"\(.*\)$", "", part).removeprefix("gres/").split(":")
        if text.startswith("gpu") and name != "gpu":
            continue  # another resource
        last = rest[-1] if rest else name
        if last.isdecimal() and len(last) < 6:
            total += int(last)
        elif re.fullmatch(r"[A-Za-z][\w.-]*", last):
            total += 1
        else:
            return None
    return total or None
