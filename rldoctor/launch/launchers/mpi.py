"""``mpirun`` and ``mpiexec``: the ranks that they start, on which hosts, and the variables that they hand on.

Open MPI, MPICH's Hydra, Intel MPI and Cray's PALS: https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html,
https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rldoctor.formats.shell.reader import Word
from rldoctor.formats.source import Files
from rldoctor.launch.launchers.program import Program, opened, variable
from rldoctor.plan.model import Setting

NAMES = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun"})
# Options that take two words.
_PAIRS = frozenset({"mca", "gmca", "omca", "prtemca", "pmixmca", "genv", "env"})
# Options that take one, by what they say of the ranks.
_VALUED = {
    **dict.fromkeys(("np", "n", "c"), "step_tasks"),
    **dict.fromkeys(("npernode", "N", "ppn", "perhost"), "step_tasks_per_node"),
    **dict.fromkeys(("hostfile", "machinefile", "default-hostfile", "f"), "file"),
    **dict.fromkeys(("host", "H", "hosts"), "hosts"),
    "map-by": "map",
    "x": "variable",
    **dict.fromkeys(
        (
            "bind-to", "rank-by", "npersocket", "wdir", "wd", "path", "prefix", "app", "output", "tune", "report-uri",
            "timeout", "display", "genvlist", "envlist", "iface", "launcher", "bootstrap", "rmk", "depth", "d",
            "cpu-bind", "mem-bind", "tmpdir", "am", "stdin", "personality", "rankmap", "prepend-rank-format", "ofi",
        ),
        "",
    ),
}  # fmt: skip
_PER_NODE = re.compile(r"ppr:(\d{1,5}):node\b")
_SLOTS = re.compile(r"\bslots\s*=\s*(\d{1,5})\b")


def read(program: Program, file: str, files: Files) -> bool:
    """Takes the launcher's own options off."""
    line, name = program.words[0].line, program.words[0].text.rpartition("/")[2]
    place = Setting(file=file or None, line=line)
    program.process["process.launcher"] = replace(place, value="mpirun", key=name)
    program.process["scheduler.step"] = replace(place, value="whole", key=name)
    words = list(program.words[1:])
    crowded = False
    while words and words[0].text.startswith("-") and words[0].text != "--":
        option, sign, attached = words[0].text.lstrip("-").partition("=")
        spelled, taken = words[0].text, 1
        value = replace(words[0], value=attached) if sign else None
        if option in _PAIRS:
            taken = 3
            if option in ("genv", "env") and len(words) > 2 and isinstance(words[2].value, str):
                variable(program, replace(words[1], value=f"{words[1].text}={words[2].value}"), file)
        elif option in _VALUED and not sign and len(words) > 1:
            taken, value = 2, words[1]
        crowded = crowded or "oversubscribe" in words[0].text
        if value is not None and option in _VALUED:
            crowded = crowded or "oversubscribe" in value.text.lower()
            _option(program, _VALUED[option], value, spelled, file, files)
        words = words[taken:]
    if crowded:
        program.process.pop("scheduler.slots", None)
    program.words = tuple(words[1:] if words and words[0].text == "--" else words)
    return bool(program.words)


def hosts(text: str) -> list[int | None]:
    """The slots of each host of a hostfile; None where it names none."""
    rows = [row.partition("#")[0].strip() for row in text.splitlines()]
    return [int(found[1]) if (found := _SLOTS.search(row)) is not None else None for row in rows if row]


def _option(program: Program, what: str, word: Word, spelled: str, file: str, files: Files) -> None:
    place = Setting(file=file or None, line=word.line, key=f"mpirun {spelled}", raw=f"{spelled} {word.raw}")
    if what.startswith("step_"):
        number = word.text if isinstance(word.value, str) and word.value.isdecimal() else None
        program.process[f"scheduler.{what}"] = (
            replace(place, value=int(number))
            if number is not None
            else replace(place, unknown=f"{word.raw} is no number")
        )
    elif what == "map" and (found := _PER_NODE.search(word.text)) is not None:
        program.process["scheduler.step_tasks_per_node"] = replace(place, value=int(found[1]))
    elif what == "variable":
        variable(program, word, file)
    elif what == "hosts" and isinstance(word.value, str):
        listed = [part.rpartition(":") for part in word.value.split(",") if part]
        _place(program, [int(slots) if name and slots.isdecimal() else None for name, _, slots in listed], place)
    elif what == "file":
        source = opened(program, word.value, files)
        if source is not None:
            _place(program, hosts(source.text), replace(place, file=source.file, line=1))


def _place(program: Program, slots: Sequence[int | None], place: Setting) -> None:
    program.process["scheduler.nodes"] = replace(place, value=len(slots))
    known = [count for count in slots if count is not None]
    if len(known) == len(slots):
        program.process["scheduler.slots"] = replace(place, value=sum(known))
