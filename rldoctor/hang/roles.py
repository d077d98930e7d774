"""What part a process plays in a run, and as which rank: read from its title, its command and its variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from rldoctor.frameworks import trainers
from rldoctor.hang.rendezvous import world
from rldoctor.records import dataclass


def _any(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in names)


_SERVERS = [pattern for framework in trainers() for pattern in framework.servers]
_MODULES = dict.fromkeys(module for framework in trainers() for module in framework.modules)
_COMMANDS = [name for framework in trainers() for name in framework.programs]

# The titles that vLLM and Ray give their processes, of which the kernel keeps 15 letters, and the programs that start
# or serve a run; the first row that fits decides. vLLM: ``set_process_title`` in ``vllm/utils/system_utils.py``.
_TITLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("engine", re.compile(r"^(?:VLLM::)?EngineCor(?:e(?:_\w+)?)?$")),
    ("engine worker", re.compile(r"^VLLM::Worker\w*$")),
    ("server", re.compile(r"^VLLM::\w+$")),
    ("ray idle", re.compile(r"^ray::IDLE\w*$")),
    ("ray service", re.compile(r"^ray::(?:\w*Agent|SPILL_\w+|RESTORE_\w+)$|^ray-dashboard")),
    ("ray worker", re.compile(r"^ray::")),
)
_PROGRAMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ray service", re.compile(r"/(?:gcs_server|raylet)$|/ray/(?:dashboard|autoscaler|_private|util/client)/\S*\.py$")),
    ("launcher", re.compile(r"(?:^|/)(?:torchrun|deepspeed|accelerate|accelerate-launch)$")),
    (
        "launcher",
        re.compile(r"^(?:torch\.distributed\.(?:run|launch)|(?:accelerate\.commands|deepspeed\.launcher)\.\S+)$"),
    ),
    ("server", re.compile("|".join((r"^vllm\.entrypoints\.\S+$|(?:^|/)vllm$", *_SERVERS)))),
    ("trainer", re.compile(rf"^(?:{_any(_MODULES)})(?:\.|$)")),
    ("trainer", re.compile(rf"(?:^|/)(?:{_any(_COMMANDS)})$|(?:^|[/_])(?:grpo|rlhf|ppo|dapo)\w*\.py$")),
)
_HELPER = re.compile(r"multiprocessing\.(?:resource_tracker|semaphore_tracker|forkserver)|/compile_worker/|pin_memory")
_SPAWNED = re.compile(r"multiprocessing\.(?:spawn|forkserver)\b")
# Arguments behind which nothing tells what is run.
_LOOKED_AT = 6


@dataclass(frozen=True)
class Role:
    """The part (see ``hang.model.Seen``), a name for people, and the rank as text where one is known."""

    kind: str
    name: str
    rank: str | None = None

    @property
    def marks_run(self) -> bool:
        """Whether a process of this role alone shows that a run is there."""
        return self.kind not in ("helper", "other")


def role_of(command: list[str], executable: str | None, environ: Mapping[str, str], parent: Mapping[str, str]) -> Role:
    """The role of a process; ``parent`` are the variables of its parent, whose rank children inherit."""
    title = " ".join(command).strip()
    name = _short(command)
    for kind, pattern in _TITLES:
        if pattern.search(title):
            worker = re.search(r"_TP(\d+)", title)
            return Role(kind, title, worker[1] if worker is not None else None)
    program = next((kind for kind, pattern in _PROGRAMS for part in _telling(command) if pattern.search(part)), None)
    if program == "ray service":
        return Role(program, name)
    if not is_python(executable, command):
        return Role("other", name)
    if _HELPER.search(title):
        return Role("helper", name)
    place, above = world(environ), world(parent)
    # srun and mpirun also start programs that do not meet: servers, each for itself.
    if place is not None and program != "launcher" and (place.by == "RANK" or program in (None, "trainer")):
        inherited = above is not None and (above.by, above.rank) == (place.by, place.rank)
        return Role("helper", name) if inherited else Role("rank", name, str(place.rank))
    if program is not None:
        return Role(program, name)
    return Role("helper" if _SPAWNED.search(title) else "other", name)


def is_spawned(command: Sequence[str], parent: Sequence[str]) -> bool:
    """Whether multiprocessing started a process, from the commands of both; a fork has its parent's."""
    return command == parent or _SPAWNED.search(" ".join(command)) is not None


def is_python(executable: str | None, command: list[str]) -> bool:
    """Whether a process runs Python; where its program may not be read, its command says it."""
    return re.match(r"python|pypy", Path(executable or next(iter(command), "")).name) is not None


def _telling(command: list[str]) -> list[str]:
    return command[:_LOOKED_AT]


def _short(command: list[str]) -> str:
    """The script or module that a command runs."""
    if not command:
        return "?"
    program = Path(command[0]).name
    if not program.startswith("python"):
        return program
    options = list(takewhile(lambda part: part.startswith("-"), command[1:]))
    return program if "-c" in options else next((Path(part).name for part in command[1 + len(options) :]), program)
