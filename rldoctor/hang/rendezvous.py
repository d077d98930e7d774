"""Which world a process belongs to, by the variables that its launcher gave it: ranks that meet are one run, whoever
started them."""

from __future__ import annotations

from collections.abc import Mapping

from rldoctor.records import dataclass

# Variables that number a process among its peers: rank, size, ranks on this node, and those that name the world.
_LAUNCHERS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", ()),
    # srun sets the size of a step for its tasks alone; the batch script has the job's.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", ("PMIX_NAMESPACE",)),
)
_LARGEST = 1_000_000
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class World:
    """A process' place: ``rank`` of ``size``, as the variable ``by`` numbers it, ``local`` ranks on its node where that
    is told (``inferred`` from where they meet); ``name`` is the same for all that meet, empty where nothing names
    it. ``siblings`` are the ranks, itself among them, that torchrun's agent started on its node."""

    by: str
    rank: int
    size: int
    local: int | None = None
    name: str = ""
    inferred: bool = False
    siblings: range = range(0)


def world(environ: Mapping[str, str]) -> World | None:
    """The world of a process with these variables, or None where it is in none."""
    for rank_of, size_of, local_of, names in _LAUNCHERS:
        rank, size = _number(environ.get(rank_of)), _number(environ.get(size_of))
        if rank is None or not size:
            continue
        reported = [environ[name] for name in names if environ.get(name)]
        own = " ".join([rank_of, *reported]) if reported and len(reported) == len(names) else ""
        name = _meeting(environ) or own
        local = _number(environ.get(local_of))
        inferred = local is None and _on_one_node(environ)
        siblings = _siblings(environ, rank, local)
        return World(rank_of, rank, size, size if inferred else local, name, inferred, siblings)
    return None


def _siblings(environ: Mapping[str, str], rank: int, local: int | None) -> range:
    """An agent numbers its ranks one after another; there may be several agents on one node."""
    among = _number(environ.get("LOCAL_RANK"))
    if among is None or local is None or "TORCHELASTIC_RUN_ID" not in environ:
        return range(0)
    return range(rank - among, rank - among + local)


def _on_one_node(environ: Mapping[str, str]) -> bool:
    """Whether all ranks are here: they meet where only this host is reached, or srun was given one node."""
    nodes = environ.get("SLURM_STEP_NUM_NODES") if "SLURM_PROCID" in environ and "RANK" not in environ else None
    return environ.get("MASTER_ADDR") in _LOOPBACK or nodes == "1"


def _meeting(environ: Mapping[str, str]) -> str:
    port = environ.get("MASTER_PORT")
    return f"meets at {environ.get('MASTER_ADDR', '')}:{port}" if port else ""


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 9 and int(text) < _LARGEST else None
