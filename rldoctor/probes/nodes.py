"""Which nodes run this same command at once, as the launcher that started it on each of them says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rldoctor.records import dataclass

# How many nodes there are, which one this is, which of its processes this is, and where the first one is reached.
_LAUNCHERS = (
    # torchrun, https://pytorch.org/docs/stable/elastic/run.html#environment-variables
    ("GROUP_WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK", "MASTER_ADDR"),
    # srun, https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
    ("SLURM_STEP_NUM_NODES", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_STEP_NODELIST"),
)
# What no other job on these hosts has alike; the port next to a launcher's own.
_OWN = ("MASTER_PORT", "SLURM_JOB_ID")
_LOWEST, _PORTS = 20000, 10000


@dataclass(frozen=True)
class Nodes:
    """Nodes that meet at one of them. ``local``: which process of its node this is."""

    count: int
    number: int
    local: int
    address: str
    port: int


def nodes_at_once(environment: Mapping[str, str]) -> Nodes | None:
    """The nodes beside this one, None where a launcher names no others."""
    own = next((int(environment[name]) for name in _OWN if environment.get(name, "").isdecimal()), None)
    for count, number, local, address in _LAUNCHERS:
        said = [environment.get(name, "") for name in (count, number, local)]
        first = first_host(environment.get(address, ""))
        if all(one.isdecimal() for one in said) and first and own is not None and int(said[0]) > 1:
            return Nodes(int(said[0]), int(said[1]), int(said[2]), first, _LOWEST + (own + 1) % _PORTS)
    return None


def first_host(hosts: str) -> str:
    """The first of a list as Slurm writes it: ``gpu[07-09,12],login1`` begins with ``gpu07``."""
    found = re.match(r"([^\[,]*)(?:\[(\d+)[^\]]*\]([^,]*))?", hosts)
    return "" if found is None else "".join(part or "" for part in found.groups())
